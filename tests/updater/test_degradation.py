"""Workloads that get worse: the updater stops, says so, and goes on when they have recovered."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.fakes.updater_scenes import UNPACED, UP, an_updater, holds, let_run, planning
from support.makers.records import MIB, NOW, a_container, a_recommendation, amounts, minutes

from trimtab.core.guards.disruption_budgets import DisruptionSettings
from trimtab.core.model.autoscalers import UpdateMode
from trimtab.core.model.pods import Termination
from trimtab.core.model.resources import Resource
from trimtab.updater.settings import UpdaterSettings

SMALLER = a_recommendation(target=amounts(50, 50 * MIB), upper=amounts(90, 90 * MIB))
HIGHER = a_recommendation(target=amounts(900, 900 * MIB), lower=amounts(800, 800 * MIB))

WIDE = a_recommendation(
    target=amounts(500, 500 * MIB), lower=amounts(50, 50 * MIB), upper=amounts(900, 900 * MIB)
)


def a_cluster_whose_new_pods_never_get_ready(replicas: int = 8) -> UpdaterCluster:
    cluster = UpdaterCluster()
    cluster.deploy(replicas=replicas)
    cluster.autoscale(UP, mode=UpdateMode.RECREATE)
    cluster.starts_at_once = False
    return cluster


def planning_resizes(*, can_resize: bool) -> UpdaterSettings:
    return replace(UNPACED, resizes_in_place=can_resize)


def ready(cluster: UpdaterCluster) -> int:
    return sum(pod.ready_since is not None for pod in cluster.pods_of("web"))


def ready_names(cluster: UpdaterCluster) -> set[str]:
    return {pod.name for pod in cluster.pods_of("web") if pod.ready_since is not None}


async def renew_forever(cluster: UpdaterCluster) -> None:
    """Let the admission controller keep its lease."""
    while True:
        cluster.renew()
        await asyncio.sleep(20)


def make_ready(cluster: UpdaterCluster) -> None:
    for pod in cluster.pods_of("web"):
        cluster.put(structs.replace(pod, ready_since=cluster.clock.now()))


def test_d22_a_workload_whose_successors_never_get_ready_is_left_alone() -> None:
    async def scene() -> None:
        cluster = a_cluster_whose_new_pods_never_get_ready()
        updater = an_updater(cluster)
        await let_run(updater, minutes(8))
        left, condition = ready(cluster), cluster.condition("UpdatesStopped")
        await let_run(updater, minutes(120))

        assert left >= 3
        assert ready(cluster) == left
        assert "WorkloadDegraded" in holds(updater).values()
        assert condition is not None
        assert f"{left} of the 8 pods" in condition.message

    run_virtually(scene())


def test_d22_pods_that_got_ready_after_the_first_change_count() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.starts_at_once = False
        cluster.deploy(replicas=8)
        cluster.autoscale(UP, mode=UpdateMode.IN_PLACE_OR_RECREATE)
        updater = an_updater(cluster)
        await let_run(updater, minutes(1))
        make_ready(cluster)
        cluster.autoscale(HIGHER, mode=UpdateMode.RECREATE)
        await let_run(updater, minutes(120))

        assert ready(cluster) >= 3
        assert cluster.condition("UpdatesStopped") is not None

    run_virtually(scene())


@pytest.mark.parametrize(("tolerance", "left"), [(0.5, 4), (1.0, 0)])
def test_without_the_rule_the_same_workload_loses_all_that_the_tolerance_allows(
    tolerance: float, left: int
) -> None:
    async def scene() -> None:
        cluster = a_cluster_whose_new_pods_never_get_ready()
        settings = planning(degraded_after=None, disruption=DisruptionSettings(tolerance=tolerance))
        await let_run(an_updater(cluster, settings), minutes(128))

        assert ready(cluster) == left

    run_virtually(scene())


@pytest.mark.parametrize(
    ("replicas", "goes_on"),
    [pytest.param(40, True, id="one of 40"), pytest.param(8, False, id="one of 8")],
)
def test_d22_one_pod_that_stays_unready_stops_no_large_workload(
    replicas: int, *, goes_on: bool
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=replicas)
        cluster.autoscale(UP, mode=UpdateMode.IN_PLACE)
        updater = an_updater(cluster, UNPACED)
        await let_run(updater, minutes(2))
        cluster.put(structs.replace(cluster.pods_of("web")[-1], ready_since=None))
        await let_run(updater, minutes(6))
        cluster.autoscale(SMALLER)
        await let_run(updater, minutes(2))

        expected = set() if goes_on else {"WorkloadDegraded"}
        assert set(holds(updater).values()) - {"InsideBounds"} == expected

    run_virtually(scene())


def test_d22_changes_go_on_when_the_workload_has_recovered() -> None:
    async def scene() -> None:
        cluster = a_cluster_whose_new_pods_never_get_ready()
        updater = an_updater(cluster)
        await let_run(updater, minutes(20))
        before = cluster.requests["evict"]
        cluster.starts_at_once = True
        make_ready(cluster)
        await let_run(updater, minutes(20))

        assert cluster.requests["evict"] > before
        assert ready(cluster) == 8
        assert cluster.condition("UpdatesStopped") is None

    run_virtually(scene())


@pytest.mark.parametrize("can_resize", [True, False])
def test_d22_pods_that_starve_grow_in_place_where_the_cluster_can_resize(
    *, can_resize: bool
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=4)
        cluster.autoscale(SMALLER, mode=UpdateMode.RECREATE)
        cluster.starts_at_once = False
        updater = an_updater(cluster, planning_resizes(can_resize=can_resize))
        await let_run(updater, minutes(20))
        evicted = cluster.requests["evict"]
        cluster.autoscale(HIGHER)
        await let_run(updater, minutes(5))
        stopped = cluster.condition("UpdatesStopped")
        starving = [pod for pod in cluster.pods_of("web") if pod.ready_since is None]
        sizes = {pod.containers[0].spec.requests[Resource.CPU] for pod in starving}  # type: ignore[index]

        assert cluster.requests["evict"] == evicted
        assert sizes == ({900} if can_resize else {50})
        held = stopped is not None and "would get more by an eviction alone" in stopped.message
        assert held is not can_resize

    run_virtually(scene())


def test_d22_changes_go_on_when_an_operator_edits_the_autoscaler() -> None:
    async def scene() -> None:
        cluster = a_cluster_whose_new_pods_never_get_ready()
        updater = an_updater(cluster)
        await let_run(updater, minutes(20))
        before = cluster.requests["evict"]
        cluster.autoscale(HIGHER, mode=UpdateMode.RECREATE)
        await let_run(updater, minutes(30))

        assert cluster.requests["evict"] > before

    run_virtually(scene())


def test_d22_an_updater_that_starts_again_knows_what_the_last_one_stopped() -> None:
    async def scene() -> None:
        cluster = a_cluster_whose_new_pods_never_get_ready()
        await let_run(an_updater(cluster), minutes(20))
        left = ready(cluster)
        for _ in range(4):
            await let_run(an_updater(cluster), minutes(10))

        assert ready(cluster) == left

    run_virtually(scene())


@pytest.mark.parametrize(
    "cause",
    [
        pytest.param("admission away", id="an absent admission holds the pods in the meantime"),
        pytest.param("nothing to do", id="no pod wants a change in the meantime"),
    ],
)
def test_d22_an_updater_knows_of_a_stop_that_held_no_pod_at_its_start(
    cause: str,
) -> None:
    async def scene() -> None:
        cluster = a_cluster_whose_new_pods_never_get_ready()
        settings = replace(UNPACED, uses_admission_status=True)
        renewing = asyncio.create_task(renew_forever(cluster))
        first = an_updater(cluster, settings)
        await let_run(first, minutes(20))
        unready = [pod for pod in cluster.pods_of("web") if pod.ready_since is None]
        for pod in unready[1:]:
            cluster.put(structs.replace(pod, ready_since=cluster.clock.now()))
        if cause == "admission away":
            renewing.cancel()
            await let_run(first, minutes(5))
            assert "AdmissionAbsent" in holds(first).values()
            renewing = asyncio.create_task(renew_forever(cluster))
        else:
            cluster.autoscale(WIDE)
            await let_run(first, minutes(5))
            assert set(holds(first).values()) == {"InsideBounds", "TooYoung"}
            cluster.autoscale(UP)
        await let_run(an_updater(cluster, settings), minutes(20))
        renewing.cancel()

        assert ready(cluster) == 7
        assert cluster.condition("UpdatesStopped") is not None

    run_virtually(scene())


def test_d22_pods_that_are_oom_killed_in_a_loop_are_helped_all_the_same() -> None:
    async def scene() -> None:
        cluster = a_cluster_whose_new_pods_never_get_ready(replicas=4)
        updater = an_updater(cluster, UNPACED)
        await let_run(updater, minutes(20))
        now = cluster.clock.now()
        killed = Termination("OOMKilled", now - minutes(2), now - minutes(1))
        for pod in cluster.pods_of("web"):
            containers = tuple(
                structs.replace(one, last_termination=killed) for one in pod.containers
            )
            cluster.put(
                structs.replace(pod, containers=containers, ready_since=None, created_at=NOW)
            )
        cluster.autoscale(HIGHER)
        await let_run(updater, minutes(3))

        assert "WorkloadDegraded" not in holds(updater).values()

    run_virtually(scene())


def kill(cluster: UpdaterCluster, container: str) -> None:
    """Let a container of each pod be OOM-killed just now, soon after its start."""
    now = cluster.clock.now()
    killed = Termination("OOMKilled", now - timedelta(seconds=50), now - timedelta(seconds=5))
    for pod in cluster.pods_of("web"):
        containers = tuple(
            structs.replace(each, last_termination=killed) if each.name == container else each
            for each in pod.containers
        )
        cluster.put(structs.replace(pod, containers=containers))


@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE])
@pytest.mark.parametrize("container", ["app", "side"])
def test_kills_for_which_no_memory_is_recommended_make_no_change_urgent(
    container: str, mode: UpdateMode
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(
            "web",
            a_container("app", requests=amounts(500, 500 * MIB)),
            a_container("side", requests=amounts(10, 10 * MIB), index=1),
            replicas=4,
        )
        running = asyncio.create_task(an_updater(cluster).run())
        for minute in range(30):
            cpu = 500 + minute % 2
            cluster.autoscale(a_recommendation(target=amounts(cpu, 500 * MIB)), mode=mode)
            kill(cluster, container)
            await asyncio.sleep(60)
        running.cancel()

        assert cluster.acts == []

    run_virtually(scene())


def test_d22_kills_for_which_no_memory_is_recommended_do_not_lift_the_stop() -> None:
    async def scene() -> None:
        cluster = a_cluster_whose_new_pods_never_get_ready()
        updater = an_updater(cluster)
        await let_run(updater, minutes(20))
        left, before = ready(cluster), cluster.requests["evict"]
        cluster.autoscale(a_recommendation(target=amounts(900, 100 * MIB), lower=amounts(800)))
        for _ in range(10):
            kill(cluster, "app")
            await let_run(updater, minutes(1))

        assert ready(cluster) == left
        assert cluster.requests["evict"] == before
        assert {word for name, word in holds(updater).items() if name in ready_names(cluster)} == {
            "WorkloadDegraded"
        }

    run_virtually(scene())
