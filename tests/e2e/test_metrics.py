"""Usage as a cluster tells it: metrics-server behind a real API server, read by our own source."""

import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rig import metrics_server, programs
from rig.controlplane import ControlPlane, Part
from trimtab.api.usage.pod_metrics import UsageColumns
from trimtab.cluster.auth.kubeconfig import load_kubeconfig
from trimtab.cluster.clock import RealClock
from trimtab.cluster.errors import ApiError, ForbiddenError, Right, UnreachableError
from trimtab.cluster.http.client import Client, ClientSettings
from trimtab.cluster.http.rate_limit import RequestBudget
from trimtab.cluster.usage.metrics_api import MetricsApi

pytestmark = pytest.mark.e2e

Json = dict[str, Any]

USAGE = {"kwok.x-k8s.io/usage-cpu": "150m", "kwok.x-k8s.io/usage-memory": "96Mi"}
# Usage of CPU is the difference of two readings, each of them late by as much as the machine is.
ABOUT_150 = pytest.approx(150, rel=0.2)


def a_client(kubeconfig: Path, settings: ClientSettings | None = None) -> Client:
    clock = RealClock()
    connection = load_kubeconfig([kubeconfig], environment={}, clock=clock)
    budget = RequestBudget(clock, rate=0, burst=0)
    return Client(connection, clock=clock, random=Random(1), budget=budget, settings=settings)


@pytest.fixture
async def client(cluster: ControlPlane) -> AsyncIterator[Client]:
    async with a_client(cluster.kubeconfig) as opened:
        yield opened


@pytest.fixture(scope="module")
def measured(cluster: ControlPlane) -> Iterator[str]:
    """A namespace with one pod, whose usage is known by now."""
    containers = [{"name": name, "image": "none"} for name in ("app", "sidecar")]
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "annotations": USAGE},
        "spec": {"containers": containers},
    }
    with cluster.own_namespace() as namespace:
        cluster.create(f"/api/v1/namespaces/{namespace}/pods", manifest)
        wait_until_measured(cluster, namespace)
        yield namespace


def wait_until_measured(cluster: ControlPlane, namespace: str) -> Json:
    # The fake node counts from the first time that it is asked, so it is asked all the while.
    def is_measured(found: Json) -> bool:
        cluster.read_usage()
        return bool(found["items"])

    path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods"
    return cluster.wait_for(path, is_measured, patience_seconds=90)


def of_namespace(columns: UsageColumns, namespace: str) -> list[tuple[str, str, int, int]]:
    rows = zip(
        columns.namespaces,
        columns.pods,
        columns.containers,
        columns.cpu_millicores,
        columns.memory_bytes,
        strict=True,
    )
    return sorted(row[1:] for row in rows if row[0] == namespace)


def test_the_metrics_api_shows_the_usage_that_a_pod_s_annotations_say(
    cluster: ControlPlane, measured: str
) -> None:
    _, body = cluster.request("GET", metrics_server.PODS_PATH)
    found = [pod for pod in json.loads(body)["items"] if pod["metadata"]["namespace"] == measured]

    assert [pod["metadata"]["name"] for pod in found] == ["web"]
    containers = {each["name"]: each["usage"] for each in found[0]["containers"]}
    assert containers.keys() == {"app", "sidecar"}
    for usage in containers.values():
        assert usage["memory"] == "96Mi"
        assert int(usage["cpu"].removesuffix("n")) / 1e6 == ABOUT_150


async def test_our_source_reads_every_container_with_the_time_of_its_reading(
    client: Client, measured: str
) -> None:
    source = MetricsApi(client)
    columns = await source.fetch()

    rows = of_namespace(columns, measured)
    age = datetime.now(UTC).timestamp() - columns.times[columns.namespaces.index(measured)]
    assert [row[:2] for row in rows] == [("web", "app"), ("web", "sidecar")]
    assert [row[2] for row in rows] == [ABOUT_150] * 2
    assert [row[3] for row in rows] == [96 * 2**20] * 2
    assert all(columns.has_cpu)
    assert all(columns.has_memory)
    assert 0 <= age < 60
    assert source.unreadable == ()


async def test_our_source_can_be_kept_to_one_namespace(client: Client, measured: str) -> None:
    columns = await MetricsApi(client, measured).fetch()

    assert set(columns.namespaces) == {measured}


def test_kubectl_top_shows_the_same_usage(cluster: ControlPlane, measured: str) -> None:
    command = ["top", "pods", "--no-headers", f"--namespace={measured}"]
    kubectl = [str(programs.find("kubectl")), f"--kubeconfig={cluster.kubeconfig}"]
    done = subprocess.run([*kubectl, *command], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    name, cpu, memory = done.stdout.split()
    assert (name, memory) == ("web", "192Mi")
    assert int(cpu.removesuffix("m")) == pytest.approx(300, rel=0.2)


async def test_a_metrics_server_that_is_gone_is_an_error_of_ours_until_it_is_back(
    cluster: ControlPlane, client: Client, measured: str
) -> None:
    source, server = MetricsApi(client), cluster.processes[Part.METRICS]
    server.end()
    try:
        with pytest.raises(ApiError) as caught:
            await source.fetch()
    finally:
        server.restart()
    wait_until_measured(cluster, measured)
    columns = await source.fetch()

    assert caught.value.status.code == 503
    assert len(of_namespace(columns, measured)) == 2


async def test_a_metrics_server_that_stands_still_is_unreachable_in_bounded_time(
    cluster: ControlPlane, measured: str
) -> None:
    hurried = ClientSettings(request_timeout=timedelta(seconds=1))
    async with a_client(cluster.kubeconfig, hurried) as client:
        with cluster.processes[Part.METRICS].paused(), pytest.raises(UnreachableError):
            await MetricsApi(client).fetch()

    assert wait_until_measured(cluster, measured)


async def test_who_may_not_read_metrics_is_told_which_right_is_missing(
    cluster: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = cluster.create(path, asked)["status"]["token"]
    document = json.loads(cluster.kubeconfig.read_text(encoding="utf-8"))
    document["users"][0]["user"] = {"token": token}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(document), encoding="utf-8")
    async with a_client(kubeconfig) as client:
        with pytest.raises(ForbiddenError) as caught:
            await MetricsApi(client).fetch()

    assert caught.value.right == Right("list", "pods", "metrics.k8s.io")
