"""What the updater looks at when a part of the cluster has changed."""

import asyncio

import pytest
from msgspec import structs
from support.fakes.updater_cluster import UpdaterCluster

from trimtab.core.sizing.quotas import Quota
from trimtab.simulation.world.virtual_time import run_virtually
from trimtab.updater.observe import Observer
from trimtab.updater.pod_owners import owner_key
from trimtab.updater.settings import UpdaterSettings
from trimtab.updater.state import UpdaterMemory


def test_a_look_at_a_part_shows_no_pods_of_ignored_namespaces() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=2)
        cluster.autoscale()
        settings = UpdaterSettings(ignored_namespaces=frozenset({"default"}))
        observer = Observer(cluster, settings, UpdaterMemory())
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
        cluster = UpdaterCluster()
        cluster.deploy(replicas=2)
        cluster.autoscale()
        observer = Observer(cluster, UpdaterSettings(), UpdaterMemory())
        await observer.observe(cluster.clock.now(), admission_alive=True)
        owner = owner_key(cluster.roll_out())
        assert owner is not None
        observation = await observer.observe_part(
            [owner], cluster.clock.now(), admission_alive=True
        )

        assert [each.pod.name for each in observation.snapshot.pods] == ["web-0", "web-1", "web-2"]

    run_virtually(scene())


@pytest.mark.parametrize(
    ("first_ordinal", "is_ready", "lacks"),
    [
        pytest.param(None, False, True, id="an owner that makes all pods at once"),
        pytest.param(0, True, True, id="one that makes them in order"),
        pytest.param(0, False, False, id="one that waits for a pod to get ready"),
    ],
)
def test_an_owner_that_waits_for_a_pod_is_not_short_of_a_quota(
    first_ordinal: int | None, *, is_ready: bool, lacks: bool
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=2)
        cluster.autoscale()
        cluster.count_pods(2, 3, first_ordinal=first_ordinal)
        cluster.known_quotas["default"] = [Quota("default", "team", {})]
        if not is_ready:
            cluster.put(structs.replace(cluster.pods_of("web")[0], ready_since=None))
        observer = Observer(cluster, UpdaterSettings(), UpdaterMemory())
        await observer.observe(cluster.clock.now(), admission_alive=True)
        await asyncio.sleep(20)
        seen = await observer.observe(cluster.clock.now(), admission_alive=True)

        assert bool(seen.snapshot.short_handed) is lacks

    run_virtually(scene())


def test_an_owner_that_made_its_next_pod_between_two_looks_is_not_short_of_a_quota() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=2)
        cluster.autoscale()
        cluster.count_pods(2, 4, first_ordinal=0)
        cluster.known_quotas["default"] = [Quota("default", "team", {})]
        observer = Observer(cluster, UpdaterSettings(), UpdaterMemory())
        await observer.observe(cluster.clock.now(), admission_alive=True)
        await asyncio.sleep(20)
        third = structs.replace(cluster.pods_of("web")[0], name="web-third", uid="third")
        cluster.put(structs.replace(third, ready_since=cluster.clock.now()))
        seen = await observer.observe(cluster.clock.now(), admission_alive=True)

        assert not seen.snapshot.short_handed

    run_virtually(scene())
