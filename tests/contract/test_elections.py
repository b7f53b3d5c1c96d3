"""Elections on the leases of a world: whatever happens, at most one leads."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta

from contract.stage import eventually, in_every_world, meanwhile
from contract.world import Link, World

from trimtab.api.kinds.leases import Lease
from trimtab.cluster.errors import RivalError
from trimtab.cluster.live.leader_election import ElectionSettings, Elector

SHORT = timedelta(milliseconds=5)
SPANS = {
    "lease_duration": timedelta(seconds=6),
    "renew_deadline": timedelta(seconds=4),
    "retry_period": timedelta(milliseconds=300),
}


def an_elector(world: World, link: Link, identity: str) -> Elector:
    settings = ElectionSettings(world.namespace, "vpa-updater", identity, **SPANS)
    return Elector(link.cluster, settings, clock=world.clock, elapsed=world.elapsed)


async def act() -> None:
    await asyncio.Event().wait()


async def watch_closely(world: World, *electors: Elector) -> None:
    while True:
        assert sum(elector.leads() for elector in electors) <= 1
        await world.clock.sleep(SHORT)


@in_every_world
async def test_a_leader_that_is_cut_off_stops_before_another_one_begins(world: World) -> None:
    async with AsyncExitStack() as stack:
        one_link = await stack.enter_async_context(world.joined())
        two_link = await stack.enter_async_context(world.joined())
        one, two = an_elector(world, one_link, "one"), an_elector(world, two_link, "two")
        await stack.enter_async_context(meanwhile(watch_closely(world, one, two)))
        await stack.enter_async_context(meanwhile(one.run(act)))
        await eventually(world, one.leads)
        await stack.enter_async_context(meanwhile(two.run(act)))
        async with one_link.silent():
            await eventually(world, two.leads)
        await world.clock.sleep(timedelta(seconds=2))

        assert not one.leads()
        assert two.leads()


@in_every_world
async def test_after_the_server_was_restarted_exactly_one_leads(world: World) -> None:
    async with AsyncExitStack() as stack:
        links = [await stack.enter_async_context(world.joined()) for _ in range(3)]
        electors = [an_elector(world, link, str(number)) for number, link in enumerate(links)]
        await stack.enter_async_context(meanwhile(watch_closely(world, *electors)))
        for elector in electors:
            await stack.enter_async_context(meanwhile(elector.run(act)))
        await eventually(world, lambda: any(elector.leads() for elector in electors))
        await world.restart()
        await eventually(world, lambda: any(elector.leads() for elector in electors))


@in_every_world
async def test_a_leader_that_leaves_lets_the_next_one_lead_at_once(world: World) -> None:
    async with world.joined() as one_link, world.joined() as two_link:
        one, two = an_elector(world, one_link, "one"), an_elector(world, two_link, "two")
        async with meanwhile(watch_closely(world, one, two)):
            async with meanwhile(one.run(act)):
                await eventually(world, one.leads)
            async with meanwhile(two.run(act)):
                await eventually(world, two.leads, within=SPANS["renew_deadline"])
                lease = await one_link.cluster.fetch_lease(world.namespace, "vpa-updater")

        assert lease is not None
        assert lease.holder == "two_trimtab"
        assert not one.leads()


async def renew(world: World, link: Link, lease: Lease) -> None:
    """Do what an elector of another make does: keep its lease fresh."""
    while True:
        lease = await link.cluster.write_lease(replace(lease, renewed_at=world.clock.now()))
        await world.clock.sleep(SPANS["retry_period"])


@in_every_world
async def test_f42_a_lease_of_a_managed_autoscaler_is_refused_until_it_is_abandoned(
    world: World,
) -> None:
    rival = Lease(
        world.namespace, "vpa-updater", holder="managed-vpa_1", duration=SPANS["lease_duration"]
    )
    async with world.joined() as link, world.joined() as other:
        elector = an_elector(world, link, "one")
        lease = await other.cluster.write_lease(rival)
        async with meanwhile(renew(world, other, lease)), meanwhile(elector.run(act)):
            await world.clock.sleep(2 * SPANS["lease_duration"])
            led, problem = elector.leads(), elector.problem
        async with meanwhile(elector.run(act)):
            await eventually(world, elector.leads)

        assert not led
        assert isinstance(problem, RivalError)
        assert problem.holder == "managed-vpa_1"
        assert elector.problem is None
