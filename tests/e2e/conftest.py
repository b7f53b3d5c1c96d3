"""Real servers for the whole run: an API server with our CRDs, and a cluster with a fake node."""

import json
import secrets
import subprocess
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from rig import controlplane, programs
from rig.controlplane import ControlPlane, Part

ROOT = Path(__file__).parents[2]

Kubectl = Callable[..., str]


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server alone, where nothing happens but what a test does."""
    with controlplane.running(logs=tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A whole cluster: workloads get pods, and these run on a large fake node."""
    with controlplane.running(*Part, logs=tmp_path_factory.mktemp("cluster")) as plane:
        yield plane


@pytest.fixture
def namespace(cluster: ControlPlane) -> Iterator[str]:
    """A namespace of the cluster for one test alone."""
    name = f"test-{secrets.token_hex(4)}"
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    cluster.request("POST", "/api/v1/namespaces", json.dumps(manifest).encode())
    # Without its account no pod is let in.
    cluster.wait_for(f"/api/v1/namespaces/{name}/serviceaccounts/default", bool)
    yield name
    cluster.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with each failure what the servers said last, and where their logs are kept."""
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        planes = [value for value in item.funcargs.values() if isinstance(value, ControlPlane)]
        report.sections += [("control plane", plane.last_words()) for plane in planes]
    return report


@pytest.fixture(scope="session")
def kubectl(control_plane: ControlPlane) -> Kubectl:
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
