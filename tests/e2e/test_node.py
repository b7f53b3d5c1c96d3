"""A real node: pods run in cgroups that follow their resources, and nothing of it stays behind.

What is done to pods is done by our own client, and what is seen of them by our own decoder; the
kernel says whether it is true.
"""

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from support.fakes.checkpoint_store import Checkpoints
from support.makers.records import MIB, amounts

from rig import node, programs, waiting, workers
from rig.node import Node
from trimtab.api.kinds.pods import decode_pod
from trimtab.cluster.auth.kubeconfig import load_kubeconfig
from trimtab.cluster.clock import RealClock
from trimtab.cluster.errors import BudgetError
from trimtab.cluster.http.client import Client
from trimtab.cluster.http.rate_limit import RequestBudget
from trimtab.cluster.live.writes import Acts
from trimtab.cluster.usage.kubelet_pressure import KubeletPressure
from trimtab.cluster.usage.metrics_api import MetricsApi
from trimtab.core.model.estimation import Measure, PressureSettings
from trimtab.core.model.pods import Pod, ResizeState
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.sizing.new_pods.operations import resource_operations

pytestmark = pytest.mark.e2e

Json = dict[str, Any]

SMALL = {"cpu": "100m", "memory": "64Mi"}
LARGE = {"cpu": "500m", "memory": "128Mi"}
# The kubelet comes back to what it could not do in its own time.
SLOW_SECONDS = 90


@pytest.fixture
async def client(node_cluster: Node) -> AsyncIterator[Client]:
    clock = RealClock()
    kubeconfig = node_cluster.plane.kubeconfig
    connection = load_kubeconfig([kubeconfig], environment={}, clock=clock)
    budget = RequestBudget(clock, rate=0, burst=0)
    async with Client(connection, clock=clock, random=Random(1), budget=budget) as opened:
        yield opened


@pytest.fixture
def acts(client: Client) -> Acts:
    return Acts(client, Checkpoints())


class World:
    """A namespace of the real node, and what is true in it."""

    def __init__(self, on: Node, namespace: str) -> None:
        self.on = on
        self.plane = on.plane
        self.namespace = namespace
        self.pods = f"/api/v1/namespaces/{namespace}/pods"

    def start(self, manifest: Json) -> Json:
        """The pod as soon as it runs."""
        name = self.plane.create(self.pods, manifest)["metadata"]["name"]
        return self.wait_for(name, is_running)

    def wait_for(self, name: str, holds: Callable[[Json], object]) -> Json:
        return self.plane.wait_for(f"{self.pods}/{name}", holds, patience_seconds=SLOW_SECONDS)

    def see(self, name: str) -> Pod:
        """The pod as deciders see it."""
        _, body = self.plane.request("GET", f"{self.pods}/{name}")
        return decode_pod(body)

    def wait_until_seen(self, name: str, holds: Callable[[Pod], object]) -> Pod:
        return waiting.wait_for(lambda: self.see(name), holds, patience_seconds=SLOW_SECONDS)

    def kubectl(self, *words: str) -> str:
        command = [str(programs.find("kubectl")), f"--kubeconfig={self.plane.kubeconfig}"]
        done = subprocess.run(
            [*command, f"--namespace={self.namespace}", *words],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def read_limits(self, pod: Json) -> tuple[int, int, int]:
        """The CPU shares, CPU quota and memory limit of the container, as the kernel has them."""
        files = ("cpu.shares", "cpu.cfs_quota_us", "memory.limit_in_bytes")
        shares, quota, memory = (int(self.on.read_cgroup(pod, file, "app")) for file in files)
        return shares, quota, memory

    def wait_for_limits(self, pod: Json, expected: tuple[int, int, int]) -> None:
        waiting.wait_for(lambda: self.read_limits(pod), lambda found: found == expected)


@pytest.fixture
def world(node_cluster: Node, node_namespace: str) -> World:
    return World(node_cluster, node_namespace)


def is_running(pod: Json) -> bool:
    statuses = pod["status"].get("containerStatuses", [])
    return bool(statuses) and all("running" in each["state"] for each in statuses)


def is_ready(pod: Json) -> bool:
    return all(each["ready"] for each in pod["status"]["containerStatuses"])


def status_of(pod: Json) -> Json:
    status: Json = pod["status"]["containerStatuses"][0]
    return status


def wants(
    pod: Pod, *, requests: Resources | None = None, limits: Resources | None = None
) -> tuple[Any, ...]:
    """The patch that gives the first container those amounts."""
    return tuple(
        resource_operations(pod.containers[0], requests=requests or {}, limits=limits or {})
    )


def has(pod: Pod, resource: Resource, amount: int) -> bool:
    """Whether the kubelet says that the first container has so much."""
    status = pod.containers[0].status
    return status is not None and (status.requests or {}).get(resource) == amount


def minor_version(world: World) -> int:
    """Which 1.x the API server is."""
    _, body = world.plane.request("GET", "/version")
    return int(json.loads(body)["minor"])


def skip_unless_memory_limits_can_be_lowered(world: World) -> None:
    if minor_version(world) < 34:
        pytest.skip("no memory limit is lowered in place before 1.34 (test_versions.py)")


def capacity(world: World) -> int:
    """The millicores of the node."""
    _, body = world.plane.request("GET", f"/api/v1/nodes/{world.on.name}")
    return int(json.loads(body)["status"]["allocatable"]["cpu"]) * 1000


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param({}, (102, -1, 2**63 - 4096), id="requests alone"),
        pytest.param(SMALL, (102, 10_000, 64 * MIB), id="limits that are the requests"),
        pytest.param(LARGE, (102, 50_000, 128 * MIB), id="limits above the requests"),
    ],
)
def test_the_cgroup_of_a_container_follows_its_requests_and_limits(
    world: World, limits: dict[str, str], expected: tuple[int, int, int]
) -> None:
    pod = world.start(workers.pod("web", workers.container(requests=SMALL, limits=limits)))

    assert world.read_limits(pod) == expected
    assert pod["spec"]["nodeName"] == world.on.name


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [
        pytest.param(400, 96 * MIB, (409, 80_000, 192 * MIB), id="up"),
        pytest.param(50, 32 * MIB, (51, 10_000, 64 * MIB), id="down"),
    ],
)
async def test_a_resize_reaches_the_cgroup_without_a_restart(
    world: World, acts: Acts, cpu: int, memory: int, expected: tuple[int, int, int]
) -> None:
    if memory < 64 * MIB:
        skip_unless_memory_limits_can_be_lowered(world)
    before = world.start(workers.pod("web", workers.container(requests=SMALL, limits=LARGE)))
    seen = world.see("web")
    wanted, limits = amounts(cpu, memory), amounts(2 * cpu, 2 * memory)
    await acts.resize(seen, wants(seen, requests=wanted, limits=limits))
    world.wait_for_limits(before, expected)
    after = world.wait_until_seen("web", lambda pod: has(pod, Resource.CPU, cpu))

    assert after.containers[0].status == after.containers[0].spec
    assert after.containers[0].restart_count == 0
    assert after.resize is None
    now = world.wait_for("web", is_running)
    assert node.container_id(now, "app") == node.container_id(before, "app")


async def test_a_resize_beyond_the_node_is_infeasible_and_changes_nothing(
    world: World, acts: Acts
) -> None:
    if minor_version(world) >= 36:
        pytest.skip("the API server itself refuses that since 1.36 (test_versions.py)")
    pod = world.start(workers.pod("web", workers.container(requests=SMALL)))
    limits = world.read_limits(pod)
    seen = world.see("web")
    await acts.resize(seen, wants(seen, requests=amounts(capacity(world) + 1000)))
    after = world.wait_until_seen("web", lambda it: it.resize is not None)

    assert after.resize is ResizeState.INFEASIBLE
    assert has(after, Resource.CPU, 100)
    assert world.read_limits(pod) == limits


async def test_a_resize_that_does_not_fit_yet_is_deferred_until_there_is_room(
    world: World, acts: Acts
) -> None:
    half = capacity(world) // 2
    requests = {"cpu": f"{half}m"}
    world.start(workers.pod("neighbour", workers.container(requests=requests)))
    pod = world.start(workers.pod("web", workers.container(requests=SMALL)))
    seen = world.see("web")
    await acts.resize(seen, wants(seen, requests=amounts(half + 100)))
    held = world.wait_until_seen("web", lambda it: it.resize is not None)
    world.plane.request("DELETE", f"{world.pods}/neighbour")
    after = world.wait_until_seen("web", lambda it: has(it, Resource.CPU, half + 100))

    assert held.resize is ResizeState.DEFERRED
    assert has(held, Resource.CPU, 100)
    assert after.resize is None
    assert int(world.on.read_cgroup(pod, "cpu.shares", "app")) == (half + 100) * 1024 // 1000


async def test_a_memory_limit_below_usage_waits_until_the_program_gives_memory_back(
    world: World, acts: Acts
) -> None:
    skip_unless_memory_limits_can_be_lowered(world)
    limits = {"memory": "128Mi"}
    pod = world.start(
        workers.pod("web", workers.container("-memory=80", requests=SMALL, limits=limits))
    )
    seen = world.see("web")
    smaller = amounts(memory=48 * MIB)
    await acts.resize(seen, wants(seen, requests=smaller, limits=smaller))
    held = world.wait_until_seen("web", lambda it: it.resize is ResizeState.ERROR)
    limit = world.on.read_cgroup(pod, "memory.limit_in_bytes", "app")
    world.kubectl("exec", "web", "--", "/worker", "set", "memory=8")
    after = world.wait_until_seen("web", lambda it: has(it, Resource.MEMORY, 48 * MIB))

    assert held.containers[0].is_running
    assert int(limit) == 128 * MIB
    assert int(world.on.read_cgroup(pod, "memory.limit_in_bytes", "app")) == 48 * MIB
    assert after.containers[0].restart_count == 0
    world.wait_until_seen("web", lambda it: it.resize is None)


async def test_a_container_that_wants_it_restarts_once_for_memory_and_not_for_cpu(
    world: World, acts: Acts
) -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    container = workers.container(requests=SMALL, limits=LARGE, resizePolicy=policy)
    pod = world.start(workers.pod("web", container))
    seen = world.see("web")
    await acts.resize(seen, wants(seen, requests=amounts(cpu=200)))
    patient = world.wait_until_seen("web", lambda it: has(it, Resource.CPU, 200))
    await acts.resize(patient, wants(patient, limits=amounts(memory=256 * MIB)))
    restarted = world.wait_for("web", lambda it: status_of(it)["restartCount"] and is_running(it))

    assert seen.containers[0].restarts_on_resize
    assert patient.containers[0].restart_count == 0
    assert status_of(restarted)["restartCount"] == 1
    assert node.container_id(restarted, "app") != node.container_id(pod, "app")
    assert world.read_limits(restarted) == (204, 50_000, 256 * MIB)


def test_an_oom_kill_is_seen_by_our_decoder(world: World) -> None:
    container = workers.container(
        "-memory=8", "-grow=200", requests={"memory": "48Mi"}, limits={"memory": "48Mi"}
    )
    world.plane.create(world.pods, workers.pod("web", container))
    seen = world.wait_until_seen(
        "web", lambda pod: pod.containers[0].last_termination or pod.containers[0].termination
    ).containers[0]

    ended = seen.last_termination or seen.termination
    assert ended is not None
    assert ended.is_oom_kill
    assert ended.finished_at is not None


@pytest.mark.parametrize(
    "probe",
    [
        pytest.param(workers.HTTP_READY, id="asked over HTTP"),
        pytest.param(workers.EXEC_READY, id="asked by a program in the container"),
    ],
)
def test_a_worker_is_ready_only_after_its_delay(world: World, probe: Json) -> None:
    container = workers.container("-ready-after=3s", readinessProbe=probe)
    started = world.start(workers.pod("web", container))
    world.wait_for("web", is_ready)
    seen = world.see("web")

    assert not is_ready(started)
    assert seen.started_at is not None
    assert seen.ready_since is not None
    assert (seen.ready_since - seen.started_at).total_seconds() >= 3


def test_a_worker_is_ready_only_after_the_work_of_its_start(world: World) -> None:
    container = workers.container("-start-work=2s", readinessProbe=workers.EXEC_READY)
    started = world.start(workers.pod("web", container))
    ready = world.wait_for("web", is_ready)
    used_seconds = int(world.on.read_cgroup(ready, "cpuacct.usage", "app")) / 1e9

    assert not is_ready(started)
    assert used_seconds >= 2


async def test_an_eviction_that_a_budget_forbids_is_told_as_such(world: World, acts: Acts) -> None:
    container = workers.container(readinessProbe=workers.EXEC_READY)
    world.start(workers.pod("web", container, labels={"app": "web"}))
    world.wait_for("web", is_ready)
    budgets = f"/apis/policy/v1/namespaces/{world.namespace}/poddisruptionbudgets"
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    world.plane.create(budgets, budget)
    world.plane.wait_for(
        f"{budgets}/web", lambda it: it.get("status", {}).get("currentHealthy") == 1
    )
    with pytest.raises(BudgetError):
        await acts.evict(world.see("web"))
    kept = world.see("web")
    world.plane.request("DELETE", f"{budgets}/web")
    await acts.evict(world.see("web"))

    assert kept.containers[0].is_running
    assert not kept.is_deleting
    assert world.plane.wait_for(world.pods, lambda found: not found["items"])


def test_kubectl_shows_logs_and_runs_programs_in_a_container(world: World) -> None:
    world.start(workers.pod("web", workers.container("-cpu=20", "-memory=5")))
    waiting.wait_for(lambda: world.kubectl("logs", "web"), bool)

    assert world.kubectl("logs", "web").splitlines() == [
        "worker: cpu=20m memory=5Mi grow=0Mi/s up to 0Mi, ready after 0s and 0s of work"
    ]
    assert world.kubectl("exec", "web", "--", "/worker", "set", "memory=9").split() == [
        "cpu=20",
        "memory=9",
        "grow=0",
        "grow-to=0",
        "holds=9",
    ]


def read_usage(world: World, name: str) -> tuple[float, float]:
    """When the node last looked, and what the figure was; a moment that never was before that."""
    path = f"/api/v1/nodes/{world.on.name}/proxy/metrics/resource"
    _, body = world.plane.request("GET", path)
    labels = rf'container="app",namespace="{world.namespace}",pod="web"'
    found = re.search(rf"^{name}{{{labels}}} (\S+) (\d+)$", body.decode(), re.MULTILINE)
    return (float(found[2]) / 1000, float(found[1])) if found else (0, 0)


def test_the_node_tells_about_the_usage_that_a_worker_is_told_to_have(world: World) -> None:
    world.start(workers.pod("web", workers.container("-cpu=300", "-memory=60")))

    def read_cpu() -> tuple[float, float]:
        return read_usage(world, "container_cpu_usage_seconds_total")

    first = waiting.wait_for(read_cpu, lambda usage: usage[1] > 0)
    last = waiting.wait_for(
        read_cpu, lambda usage: usage[0] > first[0] + 5, patience_seconds=SLOW_SECONDS
    )
    _, memory = read_usage(world, "container_memory_working_set_bytes")

    # A busy machine may give less, and the last debts of one reading are paid in the next.
    assert 0.1 < (last[1] - first[1]) / (last[0] - first[0]) < 0.6
    assert 60 * MIB <= memory < 90 * MIB


async def test_our_source_of_usage_reads_the_same_from_metrics_server(
    world: World, client: Client
) -> None:
    world.start(workers.pod("web", workers.container("-cpu=300", "-memory=60")))
    path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{world.namespace}/pods"
    world.plane.wait_for(path, lambda found: found["items"], patience_seconds=SLOW_SECONDS)
    columns = await MetricsApi(client, world.namespace).fetch()

    assert (columns.pods, columns.containers) == (("web",), ("app",))
    assert 100 < columns.cpu_millicores[0] < 600
    assert 60 * MIB <= columns.memory_bytes[0] < 90 * MIB


async def test_our_source_of_pressure_sees_what_the_kernel_throttles(
    world: World, client: Client
) -> None:
    limits = {"cpu": "50m", "memory": "128Mi"}
    world.start(workers.pod("web", workers.container("-cpu=500", requests=limits, limits=limits)))
    world.start(workers.pod("calm", workers.container("-cpu=1", requests=LARGE, limits=LARGE)))
    source = KubeletPressure(
        client, lambda: [world.on.name], RealClock(), PressureSettings(), timedelta(seconds=20)
    )
    found: dict[str, Mapping[Measure, float]] = {}
    async with asyncio.timeout(SLOW_SECONDS):
        while not found:
            readings = (await source.fetch()).by_container
            found = {
                pod: each.strengths
                for (namespace, pod, _), each in readings.items()
                if namespace == world.namespace
            }
            # The kubelet measures every ten to fifteen seconds.
            await asyncio.sleep(3)

    assert set(found) == {"web"}
    assert found["web"][Measure.THROTTLED] > 0.5
