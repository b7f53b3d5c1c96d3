"""Evictions that bring no successors stop others: in their namespace, or everywhere."""

from dataclasses import replace

from makers import minutes
from updater.scenes import UNPACED, UP, an_updater, cpu, holds, let_run
from updater.small_cluster import SmallCluster
from virtual_time import run_virtually

from trimtab.core.pacing import PaceSettings

PACED = replace(UNPACED, pace=PaceSettings(per_second=1, burst=10))
STOPPED = "SuccessorsMissing"


def a_cluster(namespaces: int, each: int = 1, replicas: int = 4) -> SmallCluster:
    cluster = SmallCluster()
    for place in range(namespaces):
        for number in range(each):
            name = f"web-{place}-{number}"
            cluster.deploy(name, replicas=replicas, namespace=f"n{place}")
            cluster.autoscale(UP, name=name)
    return cluster


def evicted(cluster: SmallCluster) -> int:
    return sum(act == "evict" for act, _ in cluster.acts)


def test_an_outage_of_pod_creation_costs_few_pods_of_the_cluster() -> None:
    async def scene() -> None:
        cluster = a_cluster(120)
        cluster.has_quota = False
        updater = an_updater(cluster, PACED)
        await let_run(updater, minutes(9))

        # At 1 eviction per second it takes half a minute until the first lacks show.
        assert 0 < evicted(cluster) <= 45
        assert STOPPED in holds(updater).values()

    run_virtually(scene())


def test_one_namespace_stops_only_itself() -> None:
    async def scene() -> None:
        cluster = a_cluster(3, each=4)
        cluster.closed = frozenset({"n0"})
        await let_run(an_updater(cluster, PACED), minutes(9))

        assert [cpu(cluster, f"web-{place}-0") for place in (1, 2)] == [[500] * 4] * 2

    run_virtually(scene())


def test_the_rest_of_a_namespace_waits_until_the_successor_is_there() -> None:
    async def scene() -> None:
        cluster = a_cluster(1)
        cluster.closed = frozenset({"n0"})
        updater = an_updater(cluster)
        await let_run(updater, minutes(2))
        lost = evicted(cluster)
        cluster.deploy("late", replicas=4, namespace="n0")
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


def test_one_eviction_after_a_while_shows_that_pods_can_be_created() -> None:
    async def scene() -> None:
        cluster = a_cluster(1)
        cluster.closed = frozenset({"n0"})
        updater = an_updater(cluster)
        await let_run(updater, minutes(2))
        cluster.closed = frozenset()
        cluster.deploy("late", replicas=4, namespace="n0")
        cluster.autoscale(UP, name="late")
        # The first workload never gets its pods back.
        await let_run(updater, minutes(7))
        early = cpu(cluster, "late")
        await let_run(updater, minutes(10))

        assert early == [100] * 4
        assert cpu(cluster, "late") == [500] * 4

    run_virtually(scene())


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
