"""Evictions that bring no successors stop others: in their namespace, or everywhere."""

import asyncio
from dataclasses import replace

import pytest
from msgspec import structs
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.fakes.updater_scenes import UNPACED, UP, an_updater, cpu, holds, let_run, planning
from support.makers.records import MIB, a_recommendation, amounts, minutes

from trimtab.core.guards.rate_limit import PaceSettings
from trimtab.core.model.pods import Termination

PACED = replace(UNPACED, pace=PaceSettings(per_second=1, burst=10))
SLOW = PaceSettings(per_second=0.1, burst=1)
STOPPED = "SuccessorsMissing"
SMALL = amounts(100, 100 * MIB)
AS_IS = a_recommendation(target=SMALL)
FAR_UP = a_recommendation(target=amounts(5000, 5000 * MIB), lower=amounts(4000, 4000 * MIB))
CLOSED = 60
OPEN = [f"web-{CLOSED + place}-0" for place in range(3)]


def a_cluster(namespaces: int, each: int = 1, replicas: int = 4) -> UpdaterCluster:
    cluster = UpdaterCluster()
    for place in range(namespaces):
        for number in range(each):
            name = f"web-{place}-{number}"
            cluster.deploy(name, replicas=replicas, namespace=f"n{place}")
            cluster.autoscale(UP, name=name)
    return cluster


def a_cluster_that_is_closed_in_part() -> UpdaterCluster:
    """Return a cluster with many closed namespaces, and a few open ones of no interest yet."""
    cluster = a_cluster(CLOSED + len(OPEN))
    cluster.closed = frozenset(f"n{place}" for place in range(CLOSED))
    for place in range(CLOSED):
        cluster.autoscale(FAR_UP, name=f"web-{place}-0")
    for name in OPEN:
        cluster.autoscale(AS_IS, name=name)
    return cluster


def evicted(cluster: UpdaterCluster) -> int:
    return sum(act == "evict" for act, _ in cluster.acts)


def served(cluster: UpdaterCluster) -> list[bool]:
    """Return of each open Deployment whether a pod of it has grown."""
    return [cpu(cluster, name)[-1] > 100 for name in OPEN]


def test_an_outage_of_pod_creation_costs_few_pods_of_the_cluster() -> None:
    async def scene() -> None:
        cluster = a_cluster(120)
        cluster.has_quota = False
        updater = an_updater(cluster, PACED)
        await let_run(updater, minutes(9))

        # At 1 eviction per second it takes half a minute until the first lacks show.
        assert 0 < evicted(cluster) <= 45
        assert STOPPED in holds(updater).values()
        early = evicted(cluster)
        await let_run(updater, minutes(11))
        # Each namespace has its probe some time within the hour.
        assert evicted(cluster) - early <= 40

    run_virtually(scene())


def test_a_long_outage_of_pod_creation_costs_each_namespace_one_pod() -> None:
    async def scene() -> None:
        cluster = a_cluster(8, each=2)
        cluster.has_quota = False
        await let_run(an_updater(cluster, replace(PACED, pace=SLOW)), minutes(130))

        assert evicted(cluster) == 8

    run_virtually(scene())


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(f"n{CLOSED}", id="in an open namespace"),
        pytest.param("elsewhere", id="where no autoscaler is"),
    ],
)
def test_a_pod_that_anyone_created_shows_that_others_need_not_wait(place: str) -> None:
    async def scene() -> None:
        cluster = a_cluster_that_is_closed_in_part()
        updater = an_updater(cluster, PACED)
        await let_run(updater, minutes(3))
        early = evicted(cluster)
        running = asyncio.create_task(let_run(updater, minutes(4)))
        await asyncio.sleep(1)
        cluster.deploy("job", replicas=1, namespace=place)
        for name in OPEN:
            cluster.autoscale(UP, name=name)
        # A tick, and a minute and a half for the closed ones at the pace: they are more urgent.
        await asyncio.sleep(minutes(3).total_seconds())

        assert early < 20, "it was stopped"
        assert served(cluster) == [True] * 3
        await running
        # Later lacks of the closed ones do not stop them again.
        for name in OPEN:
            cluster.autoscale(FAR_UP, name=name)
        await let_run(updater, minutes(15))
        assert [cpu(cluster, name) for name in OPEN] == [[5000] * 4] * 3

    run_virtually(scene())


def test_open_namespaces_are_found_by_probes_where_no_pod_is_created_at_all() -> None:
    async def scene() -> None:
        cluster = a_cluster_that_is_closed_in_part()
        updater = an_updater(cluster, PACED)
        await let_run(updater, minutes(3))
        for name in OPEN:
            cluster.autoscale(UP, name=name)
        await let_run(updater, minutes(60))

        assert served(cluster) == [True] * 3

    run_virtually(scene())


def test_one_namespace_stops_only_itself() -> None:
    async def scene() -> None:
        cluster = a_cluster(3, each=4)
        cluster.closed = frozenset({"n0"})
        await let_run(an_updater(cluster, PACED), minutes(9))

        assert [cpu(cluster, f"web-{place}-0") for place in (1, 2)] == [[500] * 4] * 2

    run_virtually(scene())


def a_namespace_with_a_lack() -> UpdaterCluster:
    """Return a cluster of one namespace that is closed, with a Deployment that is fine as it is."""
    cluster = a_cluster(1)
    cluster.closed = frozenset({"n0"})
    cluster.deploy("late", replicas=4, namespace="n0")
    cluster.autoscale(AS_IS, name="late")
    return cluster


def test_the_rest_of_a_namespace_waits_until_the_successor_is_there() -> None:
    async def scene() -> None:
        cluster = a_namespace_with_a_lack()
        updater = an_updater(cluster)
        await let_run(updater, minutes(2))
        lost = evicted(cluster)
        cluster.autoscale(UP, name="late")
        await let_run(updater, minutes(2))
        waiting, held = cpu(cluster, "late"), holds(updater)
        cluster.closed = frozenset()
        cluster.bring_back("web-0-0", lost)
        await let_run(updater, minutes(5))

        assert waiting == [100] * 4
        assert {held[name] for name in held if name.startswith("late")} == {STOPPED}
        assert cpu(cluster, "late") == [500] * 4

    run_virtually(scene())


def test_the_rest_of_a_namespace_goes_on_when_anyone_creates_a_pod_there() -> None:
    async def scene() -> None:
        cluster = a_namespace_with_a_lack()
        updater = an_updater(cluster)
        await let_run(updater, minutes(2))
        cluster.closed = frozenset()
        cluster.autoscale(UP, name="late")
        cluster.deploy("job", replicas=1, namespace="n0")
        await let_run(updater, minutes(4))

        assert cpu(cluster, "late") == [500] * 4
        # The workload itself still lacks its pod, and waits for its probe.
        assert cpu(cluster, "web-0-0") == [100] * 3

    run_virtually(scene())


def test_one_eviction_after_a_while_shows_that_pods_can_be_created() -> None:
    async def scene() -> None:
        cluster = a_namespace_with_a_lack()
        updater = an_updater(cluster)
        await let_run(updater, minutes(2))
        cluster.closed = frozenset()
        cluster.autoscale(UP, name="late")
        # The first workload never gets its pods back.
        await let_run(updater, minutes(7))
        early = cpu(cluster, "late")
        await let_run(updater, minutes(10))

        assert early == [100] * 4
        assert cpu(cluster, "late") == [500] * 4

    run_virtually(scene())


def test_a_workload_that_lacks_a_pod_is_tried_again_where_others_get_pods() -> None:
    async def scene() -> None:
        cluster = a_namespace_with_a_lack()
        updater = an_updater(cluster, planning(degraded_after=None))
        await let_run(updater, minutes(2))
        # Another took the place of the pod: only one that is evicted makes room for its successor.
        cluster.closed = frozenset()
        cluster.deploy("job", replicas=1, namespace="n0")
        await let_run(updater, minutes(7))
        early = cpu(cluster, "web-0-0")
        await let_run(updater, minutes(5))

        assert early == [100] * 3
        assert cpu(cluster, "web-0-0")[-1] == 500

    run_virtually(scene())


def test_pods_that_only_die_wait_for_no_successor_where_they_can_grow_in_place() -> None:
    async def scene() -> None:
        cluster = a_namespace_with_a_lack()
        updater = an_updater(cluster)
        await let_run(updater, minutes(2))
        kill_small_pods(cluster, "web-0-0")
        await let_run(updater, minutes(2))

        assert cpu(cluster, "web-0-0") == [500] * 3

    run_virtually(scene())


def test_pods_that_only_die_are_tried_again_though_one_is_missing() -> None:
    async def scene() -> None:
        cluster = a_namespace_with_a_lack()
        updater = an_updater(cluster, replace(UNPACED, resizes_in_place=False))
        await let_run(updater, minutes(2))
        # Only a pod that is evicted makes room for its successor.
        cluster.closed = frozenset()
        history = []
        for _ in range(15):
            kill_small_pods(cluster, "web-0-0")
            await let_run(updater, minutes(1))
            history.append(cpu(cluster, "web-0-0"))

        assert history[6] == [100] * 3
        assert history[-1][-1] == 500

    run_virtually(scene())


def kill_small_pods(cluster: UpdaterCluster, name: str) -> None:
    """Let pods that have not grown run out of memory, so that they are not ready."""
    now = cluster.clock.now()
    killed = Termination("OOMKilled", now - minutes(1), now)
    for pod in cluster.pods_of(name):
        if pod.containers[0].spec.requests == SMALL:
            containers = tuple(
                structs.replace(each, last_termination=killed) for each in pod.containers
            )
            cluster.put(structs.replace(pod, containers=containers, ready_since=None))


def test_the_conditions_say_since_when_a_successor_is_missing() -> None:
    async def scene() -> None:
        cluster = a_cluster(1, each=2, replicas=10)
        cluster.closed = frozenset({"n0"})
        updater = an_updater(cluster, PACED)
        await let_run(updater, minutes(3))
        messages = [
            condition.message
            for name in ("web-0-0", "web-0-1")
            for found in [cluster.autoscalers.find("n0", name)]
            if found is not None
            for condition in found.conditions
            if condition.type == "UpdatesHeld"
        ]

        assert messages
        assert all("an evicted pod has no successor since" in each for each in messages)

    run_virtually(scene())
