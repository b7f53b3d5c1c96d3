"""The updater's loop on a small cluster, in virtual time."""

from makers import MIB, a_recommendation, amounts
from updater.small_cluster import SmallCluster
from virtual_time import run_virtually

from trimtab.core.holds import HoldReason
from trimtab.core.pacing import PaceSettings
from trimtab.core.resources import Resource
from trimtab.updater.loop import Updater
from trimtab.updater.settings import UpdaterSettings

UP = a_recommendation(target=amounts(500, 500 * MIB), lower=amounts(400, 400 * MIB))
UNPACED = UpdaterSettings(pace=PaceSettings(per_second=0))


def an_updater(cluster: SmallCluster, settings: UpdaterSettings = UNPACED) -> Updater:
    return Updater(cluster, settings=settings, clock=cluster.clock)


def cpu(cluster: SmallCluster, name: str = "web") -> list[int]:
    """The CPU requests of all pods of a Deployment, in order."""
    return sorted(
        (container.spec.requests or {})[Resource.CPU]
        for pod in cluster.pods_of(name)
        for container in pod.containers
    )


def test_a_first_tick_evicts_one_of_two_pods_and_its_successor_has_its_size() -> None:
    async def scene() -> None:
        cluster = SmallCluster()
        cluster.deploy()
        cluster.autoscale(UP)
        report = await an_updater(cluster).tick()

        assert cpu(cluster) == [100, 500]
        assert report.done("Evict") == 1
        assert report.held == {HoldReason.BUDGET_SPENT: 1}

    run_virtually(scene())
