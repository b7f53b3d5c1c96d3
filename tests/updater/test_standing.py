"""Controllers that give successors their former size back after a while (F16)."""

import asyncio
from datetime import datetime, timedelta

import pytest
from msgspec import structs
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.fakes.updater_scenes import UP, an_updater, cpu, holds, let_run
from support.makers.records import MIB, a_recommendation, amounts, hours, minutes

from trimtab.core.model.autoscalers import UpdateMode
from trimtab.core.model.pods import Allocation, Pod, Termination

FIRST = Allocation(amounts(100, 100 * MIB), {})


def has_first_size(pod: Pod) -> bool:
    return all(each.spec.requests == FIRST.requests for each in pod.containers)


def give_back(cluster: UpdaterCluster, pod: Pod) -> None:
    """Give a pod its first size in place."""
    shrunk = (structs.replace(each, spec=FIRST, status=FIRST) for each in pod.containers)
    cluster.put(structs.replace(pod, containers=tuple(shrunk)))


async def shrink_again(cluster: UpdaterCluster, after: timedelta) -> None:
    """Give pods their first size again some time after their start."""
    while True:
        await asyncio.sleep(1)
        for pod in list(cluster.pods):
            age = cluster.clock.now() - (pod.created_at or cluster.clock.now())
            if age >= after and not has_first_size(pod):
                give_back(cluster, pod)


async def kill_small(cluster: UpdaterCluster) -> None:
    """Let pods of the first size run out of memory soon after each start."""
    while True:
        await asyncio.sleep(20)
        now = cluster.clock.now()
        last = Termination("OOMKilled", now - minutes(1), now)
        for pod in filter(has_first_size, list(cluster.pods)):
            killed = (structs.replace(each, last_termination=last) for each in pod.containers)
            cluster.put(structs.replace(pod, containers=tuple(killed), ready_since=None))


@pytest.mark.parametrize("can_resize", [True, False], ids=["resizes", "no resizes"])
@pytest.mark.parametrize("is_dying", [True, False], ids=["dying", "well"])
@pytest.mark.parametrize(
    "after", [timedelta(seconds=1), timedelta(seconds=90), minutes(12)], ids=str
)
def test_pods_whose_successors_shrink_later_are_not_evicted_without_end(
    after: timedelta, *, is_dying: bool, can_resize: bool
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=3)
        cluster.autoscale(UP)
        cluster.resizes_in_place = can_resize
        updater = an_updater(cluster)
        others = [asyncio.create_task(shrink_again(cluster, after))]
        if is_dying:
            others.append(asyncio.create_task(kill_small(cluster)))
        await let_run(updater, hours(6))
        for each in others:
            each.cancel()
        condition = cluster.condition("UpdatesWithoutEffect")

        # Three in a row, each with siblings that were evicted before it was known.
        assert cluster.requests["evict"] <= 9
        assert set(holds(updater).values()) == {"NotConverging"}
        assert condition is not None
        assert condition.reason == "OtherManager"

    run_virtually(scene())


async def undo_resizes(cluster: UpdaterCluster, after: timedelta) -> None:
    """Give pods their first size again some time after they have got another one."""
    large: dict[str, datetime] = {}
    while True:
        await asyncio.sleep(1)
        now = cluster.clock.now()
        for pod in list(cluster.pods):
            if has_first_size(pod):
                large.pop(pod.uid, None)
            elif now - large.setdefault(pod.uid, now) >= after:
                give_back(cluster, pod)


@pytest.mark.parametrize("mode", [UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE])
@pytest.mark.parametrize("is_dying", [True, False], ids=["dying", "well"])
def test_resizes_that_are_undone_later_are_not_repeated_without_end(
    mode: UpdateMode, *, is_dying: bool
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=3)
        cluster.autoscale(UP, mode=mode)
        updater = an_updater(cluster)
        others = [asyncio.create_task(undo_resizes(cluster, minutes(7)))]
        if is_dying:
            others.append(asyncio.create_task(kill_small(cluster)))
        await let_run(updater, hours(6))
        for each in others:
            each.cancel()
        condition = cluster.condition("UpdatesWithoutEffect")

        assert cluster.requests["resize"] <= 9
        assert cluster.requests["evict"] == 0
        assert set(holds(updater).values()) == {"NotConverging"}
        assert condition is not None
        assert condition.reason == "OtherManager"

    run_virtually(scene())


def test_evictions_go_on_once_a_new_pod_keeps_its_size_for_longer() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=3)
        cluster.autoscale(UP)
        updater = an_updater(cluster)
        other = asyncio.create_task(shrink_again(cluster, minutes(10)))
        await let_run(updater, hours(6))
        other.cancel()
        before = cluster.requests["evict"]
        await cluster.evict(cluster.pods_of("web")[0])
        await let_run(updater, minutes(15))
        early = cluster.requests["evict"]
        await let_run(updater, hours(1))

        assert early == before + 1
        assert cpu(cluster) == [500] * 3
        assert cluster.condition("UpdatesWithoutEffect") is None

    run_virtually(scene())


@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, UpdateMode.IN_PLACE])
def test_a_person_who_resizes_all_pods_once_stops_no_later_change(mode: UpdateMode) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=5)
        cluster.autoscale(UP, mode=mode)
        updater = an_updater(cluster)
        await let_run(updater, minutes(20))
        for pod in cluster.pods_of("web"):
            give_back(cluster, pod)
        await let_run(updater, hours(2))

        assert cpu(cluster) == [500] * 5
        assert cluster.condition("UpdatesWithoutEffect") is None

    run_virtually(scene())


def test_successors_that_our_resizes_shrink_count_as_no_miss() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=3)
        cluster.autoscale(UP)
        updater = an_updater(cluster)
        await let_run(updater, minutes(20))
        evicted = cluster.requests["evict"]
        small = amounts(50, 50 * MIB)
        small_now = a_recommendation(target=small, lower=small, upper=small)
        cluster.autoscale(small_now, mode=UpdateMode.IN_PLACE_OR_RECREATE)
        await let_run(updater, minutes(20))

        assert evicted == 3
        assert cpu(cluster) == [50] * 3
        assert cluster.condition("UpdatesWithoutEffect") is None

    run_virtually(scene())
