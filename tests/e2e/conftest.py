"""Real servers for the whole run: an API server, and clusters with a fake node or a real one."""

import subprocess
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from e2e.install_stage import Ground
from e2e.node_stage import NodeStage
from support.stages.admission import Webhook, admission_controller
from support.stages.components import install

from rig import controlplane, node, node_settings, programs, prometheus
from rig.controlplane import ControlPlane, Part
from rig.node import Node
from rig.prometheus import Prometheus

ROOT = Path(__file__).parents[2]

Kubectl = Callable[..., str]
Bring = Callable[..., None]


@pytest.fixture(scope="session")
def control_plane(bring: Bring, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server alone, where nothing happens but what a test does."""
    bring(*controlplane.needed())
    with controlplane.running(logs=tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.fixture(scope="session")
def cluster(bring: Bring, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A whole cluster: workloads get pods, and these run on a large fake node."""
    bring(*controlplane.needed(*Part))
    with controlplane.running(*Part, logs=tmp_path_factory.mktemp("cluster")) as plane:
        yield plane


@pytest.fixture
def namespace(cluster: ControlPlane) -> Iterator[str]:
    """A namespace of the cluster for one test alone."""
    with cluster.own_namespace() as name:
        yield name


@pytest.fixture(scope="session")
def node_cluster(bring: Bring, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A cluster whose one node is real; skips what needs it where there can be none."""
    reason = node.why_not()
    if reason:
        pytest.skip(f"no real node: {reason}")
    parts = (Part.CONTROLLERS, Part.SCHEDULER, Part.METRICS)
    bring(*controlplane.needed(*parts), "kubelet")
    logs = tmp_path_factory.mktemp("node-cluster")
    with controlplane.running(*parts, logs=logs) as plane, node.running(plane) as ready:
        yield ready


@pytest.fixture(scope="session")
def ground(bring: Bring, node_cluster: Node) -> Iterator[Ground]:
    """The cluster with the real node, whose pods reach its API server: fit for an installation."""
    bring("helm", "kubectl")
    with node_cluster.services() as api:
        yield Ground(node_cluster, api)


@pytest.fixture
def node_namespace(node_cluster: Node) -> Iterator[str]:
    """A namespace of the real node's cluster for one test alone, whose pods are gone at the end."""
    with node_cluster.plane.own_namespace() as name:
        yield name
    # What they have requested would be missing in the next test, and a namespace takes its time.
    pods = f"/api/v1/namespaces/{name}/pods"
    node_cluster.plane.request("DELETE", pods)
    node_cluster.plane.wait_for(pods, lambda found: not found["items"])


@pytest.fixture(scope="module")
def node_webhook(node_cluster: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    """An admission controller of the cluster with the real node."""
    install(node_cluster.plane)
    folder = tmp_path_factory.mktemp("node-admission")
    with (
        admission_controller(node_cluster.plane.kubeconfig, folder) as it,
        it.registered(node_cluster.plane, "vpa-webhook-config"),
    ):
        yield it


@pytest.fixture
def node_stage(node_webhook: Webhook, node_cluster: Node, node_namespace: str) -> NodeStage:
    """A namespace of the real node for one test alone, whose pods pass an admission controller."""
    assert node_webhook.port
    return NodeStage(node_cluster, node_namespace)


@pytest.fixture(scope="session")
def fake_prometheus(cluster: ControlPlane) -> Iterator[Prometheus]:
    """A Prometheus of the cluster with the fake node."""
    skip_without_prometheus()
    with prometheus.running(cluster, prometheus.fake_usage(cluster)) as ready:
        yield ready


@pytest.fixture(scope="session")
def node_prometheus(node_cluster: Node) -> Iterator[Prometheus]:
    """A Prometheus of the cluster with the real node."""
    skip_without_prometheus()
    target = prometheus.cadvisor(f"{node_cluster.place.address}:{node_settings.PORT}")
    with prometheus.running(node_cluster.plane, target) as ready:
        yield ready


def skip_without_prometheus() -> None:
    reason = prometheus.why_not()
    if reason:
        pytest.skip(f"no Prometheus: {reason}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with each failure what the servers said last, and where their logs are kept."""
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        given = item.funcargs.values()
        planes = [value for value in given if isinstance(value, ControlPlane)]
        planes += [value.plane for value in given if isinstance(value, Node)]
        report.sections += [("control plane", plane.last_words()) for plane in planes]
    return report


@pytest.fixture(scope="session")
def kubectl(bring: Bring, control_plane: ControlPlane) -> Kubectl:
    bring("kubectl")
    program = programs.find("kubectl")

    def run(*arguments: str, given: str | None = None) -> str:
        command = [str(program), f"--kubeconfig={control_plane.kubeconfig}", *arguments]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def applied_crds(kubectl: Kubectl) -> str:
    """What kubectl says to our CRDs; the API server serves them from then on."""
    manifest = str(ROOT / "deploy/crds.yaml")
    said = kubectl("apply", "--server-side", "-f", manifest)
    kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", manifest)
    return said
