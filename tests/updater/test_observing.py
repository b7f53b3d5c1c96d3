"""What the updater looks at when a part of the cluster has changed."""

from updater.small_cluster import SmallCluster

from trimtab.simulation.virtual_time import run_virtually
from trimtab.updater.memory import Memory
from trimtab.updater.observing import Observer
from trimtab.updater.owning import owner_key
from trimtab.updater.settings import UpdaterSettings


def test_a_look_at_a_part_shows_no_pods_of_ignored_namespaces() -> None:
    async def scene() -> None:
        cluster = SmallCluster()
        cluster.deploy(replicas=2)
        cluster.autoscale()
        settings = UpdaterSettings(ignored_namespaces=frozenset({"default"}))
        observer = Observer(cluster, settings, Memory())
        await observer.observe(cluster.clock.now(), admission_alive=True)
        owner = owner_key(cluster.roll_out())
        assert owner is not None
        observation = await observer.observe_part(
            [owner], cluster.clock.now(), admission_alive=True
        )

        assert [each.pod.name for each in observation.snapshot.pods] == []

    run_virtually(scene())


def test_a_look_at_a_new_owner_shows_all_pods_of_its_workload() -> None:
    async def scene() -> None:
        cluster = SmallCluster()
        cluster.deploy(replicas=2)
        cluster.autoscale()
        observer = Observer(cluster, UpdaterSettings(), Memory())
        await observer.observe(cluster.clock.now(), admission_alive=True)
        owner = owner_key(cluster.roll_out())
        assert owner is not None
        observation = await observer.observe_part(
            [owner], cluster.clock.now(), admission_alive=True
        )

        assert [each.pod.name for each in observation.snapshot.pods] == ["web-0", "web-1", "web-2"]

    run_virtually(scene())
