"""What cannot wait for the next tick is planned within a second."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.fakes.updater_scenes import UNPACED, UP, an_updater, cpu, planning
from support.makers.records import BOOST_TOLD, MIB, a_container, a_recommendation, amounts, minutes
from support.makers.usage import a_selector

from trimtab.core.model.autoscalers import CpuBoost, TargetReference, UpdateMode
from trimtab.core.model.pods import Allocation, Pod, ResizeState
from trimtab.core.sizing.startup_boost import annotation_name, format_original

EITHER = UpdateMode.IN_PLACE_OR_RECREATE
A_WHILE = timedelta(seconds=20)
A_SECOND = timedelta(seconds=1)


def boosted(pod: Pod) -> Pod:
    """The pod with four times its CPU, as long as it is not Ready."""
    original = format_original(pod.containers[0].spec)
    return structs.replace(
        pod,
        containers=(a_container(requests=amounts(400, 100 * MIB)),),
        annotations={**BOOST_TOLD, annotation_name("app"): original},
        ready_since=None,
    )


def test_a_boost_ends_within_a_second_after_its_pod_turns_ready() -> None:
    async def scene() -> tuple[list[int], list[int]]:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(mode=EITHER, boost=CpuBoost(factor=4))
        pod = cluster.put(boosted(cluster.pods_of("web")[0]))
        running = asyncio.create_task(an_updater(cluster).run())
        await asyncio.sleep(A_WHILE.total_seconds())
        before = cpu(cluster)
        cluster.put(structs.replace(pod, ready_since=cluster.clock.now()))
        await asyncio.sleep(A_SECOND.total_seconds())
        running.cancel()
        return before, cpu(cluster)

    assert run_virtually(scene()) == ([100, 400], [100, 100])


def test_a_pod_whose_label_changes_gets_the_size_of_its_new_role_within_a_second() -> None:
    async def scene() -> tuple[list[int], list[int]]:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=3)
        cluster.autoscale(
            UP,
            name="leaders",
            mode=UpdateMode.IN_PLACE,
            target=TargetReference("Deployment", "web"),
            selector=a_selector(role="leader"),
        )
        running = asyncio.create_task(an_updater(cluster).run())
        await asyncio.sleep(A_WHILE.total_seconds())
        before = cpu(cluster)
        pod = cluster.pods_of("web")[0]
        cluster.put(structs.replace(pod, labels={"app": "web", "role": "leader"}))
        await asyncio.sleep(A_SECOND.total_seconds())
        running.cancel()
        return before, cpu(cluster)

    assert run_virtually(scene()) == ([100, 100, 100], [100, 100, 500])


def test_a_pod_that_loses_its_role_does_not_shrink_before_the_role_is_settled() -> None:
    async def scene() -> tuple[list[int], list[int]]:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=1, labels={"role": "leader"})
        small = amounts(50, 100 * MIB)
        roles = {"leader": UP, "follower": a_recommendation(target=small, upper=small)}
        for role, recommendation in roles.items():
            cluster.autoscale(
                recommendation,
                name=role,
                mode=UpdateMode.IN_PLACE,
                min_replicas=1,
                target=TargetReference("Deployment", "web"),
                selector=a_selector(role=role),
            )
        running = asyncio.create_task(an_updater(cluster).run())
        await asyncio.sleep(A_WHILE.total_seconds())
        cluster.clock.skew += minutes(10)
        pod = cluster.pods_of("web")[0]
        cluster.put(structs.replace(pod, labels={"app": "web", "role": "follower"}))
        await asyncio.sleep(A_WHILE.total_seconds())
        soon = cpu(cluster)
        await asyncio.sleep(minutes(2).total_seconds())
        running.cancel()
        return soon, cpu(cluster)

    assert run_virtually(scene()) == ([500], [50])


def test_the_next_pod_has_its_turn_within_a_second_after_a_resize_ends() -> None:
    async def scene() -> tuple[list[str], list[str]]:
        cluster = UpdaterCluster()
        cluster.is_kubelet_quick = False
        container = a_container(
            requests=amounts(100, 100 * MIB),
            status=Allocation(amounts(100, 100 * MIB)),
            restarts_on_resize=True,
        )
        cluster.deploy("web", container, replicas=2)
        cluster.autoscale(UP, mode=UpdateMode.IN_PLACE)
        running = asyncio.create_task(an_updater(cluster).run())
        await asyncio.sleep(5)
        resizing = cluster.put(
            structs.replace(cluster.pods_of("web")[0], resize=ResizeState.IN_PROGRESS)
        )
        await asyncio.sleep(A_WHILE.total_seconds())
        before = [pod for _, pod in cluster.acts]
        done = tuple(structs.replace(each, status=each.spec) for each in resizing.containers)
        cluster.put(structs.replace(resizing, resize=None, containers=done))
        await asyncio.sleep(A_SECOND.total_seconds())
        running.cancel()
        return before, [pod for _, pod in cluster.acts]

    assert run_virtually(scene()) == (["web-0"], ["web-0", "web-1"])


def test_the_next_eviction_follows_within_a_second_after_a_successor_shows_its_size() -> None:
    async def scene() -> int:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=2)
        cluster.autoscale(UP)
        running = asyncio.create_task(an_updater(cluster).run())
        await asyncio.sleep(2)
        running.cancel()
        return len(cluster.acts)

    assert run_virtually(scene()) == 2


@pytest.mark.parametrize(
    "boost", [None, CpuBoost(factor=3, duration=minutes(60))], ids=["unboosted", "boosted"]
)
def test_no_further_eviction_follows_while_a_successor_is_not_ready(boost: CpuBoost | None) -> None:
    async def scene() -> tuple[int, int]:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=2)
        wanted = amounts(500, 100 * MIB)
        cluster.autoscale(a_recommendation(target=wanted, lower=wanted), boost=boost)
        cluster.starts_at_once = False
        running = asyncio.create_task(an_updater(cluster).run())
        await asyncio.sleep(200)
        before = len(cluster.acts)
        successor = next(pod for pod in cluster.pods_of("web") if pod.ready_since is None)
        cluster.put(structs.replace(successor, ready_since=cluster.clock.now()))
        await asyncio.sleep(A_SECOND.total_seconds())
        running.cancel()
        return before, sum(act == "evict" for act, _ in cluster.acts)

    assert run_virtually(scene()) == (1, 2)


@pytest.mark.parametrize(
    ("patience", "evictions"),
    [
        pytest.param(minutes(5), 1, id="d22 the workload got worse"),
        pytest.param(None, 1, id="without that rule the budget counts it as down"),
    ],
)
def test_a_successor_that_is_never_ready_keeps_its_siblings(
    patience: timedelta | None, evictions: int
) -> None:
    async def scene() -> int:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=2)
        cluster.autoscale(UP)
        cluster.starts_at_once = False
        updater = an_updater(cluster, planning(degraded_after=patience))
        running = asyncio.create_task(updater.run())
        await asyncio.sleep(minutes(7).total_seconds())
        running.cancel()
        return len(cluster.acts)

    assert run_virtually(scene()) == evictions


def test_changes_that_mean_nothing_cause_no_plan() -> None:
    async def scene() -> int:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=2)
        cluster.autoscale(UP, mode=UpdateMode.OFF)
        settings = replace(UNPACED, uses_admission_status=True)
        running = asyncio.create_task(an_updater(cluster, settings).run())
        await asyncio.sleep(5)
        for number in range(10):
            pod = cluster.pods_of("web")[0]
            cluster.put(structs.replace(pod, annotations={"beat": str(number)}))
            await asyncio.sleep(2)
        running.cancel()
        return cluster.requests["fetch_lease"]

    assert run_virtually(scene()) == 1


def test_a_surge_that_a_tick_saw_also_holds_what_is_planned_in_between() -> None:
    async def scene() -> tuple[bool, list[int]]:
        cluster = UpdaterCluster()
        inside = a_recommendation(target=amounts(100, 100 * MIB))
        for number in range(30):
            cluster.deploy(f"w{number}")
            cluster.autoscale(inside, name=f"w{number}")
        updater = an_updater(cluster)
        running = asyncio.create_task(updater.run())
        await asyncio.sleep(70)
        for number in range(30):
            cluster.autoscale(UP, name=f"w{number}")
        await asyncio.sleep(60)
        is_surging = bool(updater.report.surging)
        pod = cluster.pods_of("w0")[0]
        cluster.put(structs.replace(pod, labels={**pod.labels, "new": "label"}))
        await asyncio.sleep(2)
        running.cancel()
        return is_surging, cpu(cluster, "w0")

    assert run_virtually(scene()) == (True, [100, 100])


def test_a_surge_in_one_namespace_holds_back_no_other() -> None:
    async def scene() -> tuple[frozenset[str], list[int], list[int]]:
        cluster = UpdaterCluster()
        inside = a_recommendation(target=amounts(100, 100 * MIB))
        for number in range(90):
            namespace = "tenant" if number < 60 else "other"
            cluster.deploy(f"w{number}", namespace=namespace)
            cluster.autoscale(inside, name=f"w{number}")
        updater = an_updater(cluster)
        running = asyncio.create_task(updater.run())
        await asyncio.sleep(70)
        # All workloads of one tenant change at once, and a single one of another.
        for number in range(61):
            cluster.autoscale(UP, name=f"w{number}")
        await asyncio.sleep(120)
        running.cancel()
        return updater.report.surging, cpu(cluster, "w0"), cpu(cluster, "w60")

    assert run_virtually(scene()) == (frozenset({"tenant"}), [100, 100], [500, 500])


@pytest.mark.parametrize("interval", [minutes(1), minutes(5)])
def test_ticks_come_at_once_and_then_at_every_interval(interval: timedelta) -> None:
    async def scene() -> int:
        cluster = UpdaterCluster()
        settings = replace(UNPACED, interval=interval, uses_admission_status=True)
        running = asyncio.create_task(an_updater(cluster, settings).run())
        await asyncio.sleep(interval.total_seconds() * 2.5)
        running.cancel()
        return cluster.requests["fetch_lease"]

    assert run_virtually(scene()) == 3
