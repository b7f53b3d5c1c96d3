"""Pods below custom resources: evicted only while their owners are known, and watched as others."""

from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.fakes.updater_scenes import UP, an_updater, cpu, let_run
from support.makers.records import hours, minutes

from trimtab.core.model.pods import WorkloadName

ROLLOUT = WorkloadName("default", "Rollout", "web")


def a_cluster(replicas: int = 8) -> UpdaterCluster:
    cluster = UpdaterCluster()
    cluster.deploy(replicas=replicas)
    cluster.autoscale(UP)
    cluster.own("web", ROLLOUT)
    return cluster


def test_pods_below_a_custom_resource_are_brought_to_their_size() -> None:
    async def scene() -> None:
        cluster = a_cluster(replicas=4)
        await let_run(an_updater(cluster), hours(3))

        assert cpu(cluster) == [500] * 4
        assert len(cluster.acts) == 4

    run_virtually(scene())


def test_no_pod_is_evicted_while_the_scale_of_its_owner_is_unknown() -> None:
    async def scene() -> None:
        cluster = a_cluster(replicas=4)
        cluster.hide_scale(ROLLOUT)
        updater = an_updater(cluster)
        await let_run(updater, hours(2))
        unknown = list(cluster.acts)
        cluster.own("web", ROLLOUT)
        await let_run(updater, hours(3))

        assert unknown == []
        assert cpu(cluster) == [500] * 4

    run_virtually(scene())


def test_no_pod_is_evicted_before_its_owner_was_looked_up() -> None:
    async def scene() -> None:
        cluster = a_cluster(replicas=4)
        cluster.slow_lookups(60)
        updater = an_updater(cluster)
        await let_run(updater, minutes(1))

        assert cluster.acts == []

    run_virtually(scene())


def test_f16_evictions_below_a_custom_resource_stop_where_no_successor_comes() -> None:
    async def scene() -> None:
        cluster = a_cluster()
        cluster.has_quota = False
        await let_run(an_updater(cluster), hours(3))
        condition = cluster.condition("UpdatesWithoutEffect")

        assert 0 < len(cluster.acts) <= 3
        assert condition is not None
        assert condition.reason == "NoSuccessor"

    run_virtually(scene())
