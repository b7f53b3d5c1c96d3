"""What who hands out roles sees of a world: leases, workloads, and pods as the server has them."""

from dataclasses import replace
from datetime import timedelta

from contract.stage import eventually, in_every_world
from contract.world import Link, World

from trimtab.api.kinds.leases import Lease
from trimtab.core.roles import Role

ROLE = Role()


def holder(world: World, link: Link) -> str:
    found = link.roles.leases.find(world.namespace, "leader")
    return "" if found is None else found.holder


@in_every_world
async def test_a_lease_is_seen_as_it_is_made_renewed_and_released(world: World) -> None:
    async with world.joined() as link:
        wanted = Lease(world.namespace, "leader", holder="one", duration=timedelta(seconds=9))
        written = await link.cluster.write_lease(wanted)
        await eventually(world, lambda: holder(world, link) == "one")
        await link.cluster.write_lease(replace(written, holder="two"))
        await eventually(world, lambda: holder(world, link) == "two")

        seen = link.roles.leases.find(world.namespace, "leader")
        assert seen == await link.roles.fetch_lease(world.namespace, "leader")


@in_every_world
async def test_workloads_are_told_by_the_uid_that_their_pods_name(world: World) -> None:
    name = await world.create_workload("StatefulSet", "db", replicas=2)
    async with world.joined() as link:
        (workload,) = [each for each in link.roles.workloads() if each.name == name]
        owners = [pod.owner for pod in link.cluster.pods if pod.labels.get("app") == "db"]

        assert [owner and owner.uid for owner in owners] == [workload.uid] * 2


@in_every_world
async def test_pods_are_found_by_a_label_as_soon_as_it_is_written(world: World) -> None:
    await world.create_pod("one")
    await world.create_pod("two")
    async with world.joined() as link:
        place = world.namespace, ROLE.label, ROLE.value
        before = await link.roles.list_labelled(*place)
        seen = link.cluster.pods.find(world.namespace, "two")
        assert seen is not None
        await link.roles.patch_pod(seen, ROLE.give(seen))
        after = await link.roles.list_labelled(*place)
        await link.roles.patch_pod(seen, ROLE.take())
        at_last = await link.roles.list_labelled(*place)

        assert (list(before), list(at_last)) == ([], [])
        assert [pod.name for pod in after] == ["two"]
        assert after[0].labels == {**seen.labels, ROLE.label: ROLE.value}
