"""What is written down: statuses, checkpoints, leases, events; and what is told and measured."""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
from contract.stage import eventually, in_every_world, meanwhile
from contract.test_views import Disturbance, every_disturbance
from contract.world import Link, World
from support.makers.records import MIB, NOW, amounts

from trimtab.api.kinds.checkpoints import FINGERPRINT, Checkpoint
from trimtab.api.kinds.events import Event, about_pod
from trimtab.api.kinds.evictions import MemoryEviction
from trimtab.api.kinds.leases import Lease
from trimtab.api.usage.pod_metrics import UsageColumns
from trimtab.cluster.errors import ConflictError, NotFoundError
from trimtab.core.histogram.checkpoint import AggregateCheckpoint, HistogramCheckpoint
from trimtab.core.model.autoscalers import (
    Autoscaler,
    AutoscalerName,
    Condition,
    ContainerRecommendation,
)
from trimtab.core.model.pods import Pod, WorkloadName

RECOMMENDATION = (ContainerRecommendation("app", amounts(250, 512 * MIB)),)
CONDITIONS = (Condition("RecommendationProvided", "True", last_transition_time=NOW),)
HELD = Condition("UpdatesHeld", "True", reason="Budget", last_transition_time=NOW)


async def an_autoscaler(world: World) -> None:
    await world.create_autoscaler("web", WorkloadName(world.namespace, "Deployment", "web"))


def see(link: Link) -> Autoscaler:
    """The one autoscaler as the view shows it."""
    (autoscaler,) = link.cluster.autoscalers
    return autoscaler


async def listed(world: World) -> Autoscaler:
    (autoscaler,) = await world.list_autoscalers()
    return autoscaler


@in_every_world
async def test_a_published_status_is_seen_by_everybody(world: World) -> None:
    await an_autoscaler(world)
    async with world.joined() as link, world.joined() as other:
        before = see(link)
        await link.cluster.publish_status(before, RECOMMENDATION, CONDITIONS)
        await eventually(world, lambda: see(other).recommendation)
        after = see(other)

        assert after.recommendation == RECOMMENDATION
        assert after.conditions == CONDITIONS
        assert after.observed_generation == before.generation > 0
        assert after.resource_version != before.resource_version
        assert after == await listed(world)


@in_every_world
async def test_a_status_is_written_only_if_it_differs_from_what_was_seen(world: World) -> None:
    await an_autoscaler(world)
    async with world.joined() as link:
        await link.cluster.publish_status(see(link), RECOMMENDATION, CONDITIONS)
        await eventually(world, lambda: see(link).recommendation)
        published = await listed(world)
        # Times are written in whole seconds.
        later = replace(CONDITIONS[0], last_transition_time=NOW + timedelta(milliseconds=300))
        await link.cluster.publish_status(see(link), RECOMMENDATION, (later,))
        await link.cluster.publish_conditions(see(link), (later,))

        assert await listed(world) == published


@in_every_world
async def test_conditions_are_written_alone_and_only_onto_the_version_that_was_seen(
    world: World,
) -> None:
    await an_autoscaler(world)
    async with world.joined() as link:
        unpublished = see(link)
        await link.cluster.publish_status(unpublished, RECOMMENDATION, CONDITIONS)
        with pytest.raises(ConflictError):
            await link.cluster.publish_conditions(unpublished, (HELD,))
        await eventually(world, lambda: see(link).recommendation)
        await link.cluster.publish_conditions(see(link), (*CONDITIONS, HELD))
        after = await listed(world)

        assert after.recommendation == RECOMMENDATION
        assert after.conditions == (*CONDITIONS, HELD)


@in_every_world
async def test_conditions_can_be_the_first_thing_that_is_written(world: World) -> None:
    await an_autoscaler(world)
    async with world.joined() as link:
        await link.cluster.publish_conditions(see(link), (HELD,))

        assert (await listed(world)).conditions == (HELD,)


@in_every_world
async def test_the_status_of_an_autoscaler_that_is_gone_cannot_be_published(world: World) -> None:
    await an_autoscaler(world)
    async with world.joined() as link:
        seen = see(link)
        await world.delete_autoscaler("web")

        with pytest.raises(NotFoundError):
            await link.cluster.publish_status(seen, RECOMMENDATION, CONDITIONS)


def a_checkpoint(world: World, samples: int, **annotations: str) -> Checkpoint:
    histogram = HistogramCheckpoint(NOW, {1: 10_000}, 3.5)
    aggregate = AggregateCheckpoint(
        cpu_histogram=histogram,
        memory_histogram=histogram,
        first_sample_start=NOW,
        last_sample_start=NOW,
        total_samples_count=samples,
        last_update_time=NOW,
        version="v3",
    )
    return Checkpoint(world.namespace, "web", "app", aggregate, annotations)


async def listed_samples(world: World) -> list[int]:
    return [each.aggregate.total_samples_count for each in await world.list_checkpoints()]


@in_every_world
async def test_a_checkpoint_is_made_overwritten_and_deleted(world: World) -> None:
    async with world.joined() as link:
        cluster = link.cluster
        first = a_checkpoint(world, 1)
        await cluster.save_checkpoint(first)
        made = await world.list_checkpoints()
        # The view may not know it yet.
        await cluster.save_checkpoint(a_checkpoint(world, 2))
        await eventually(world, lambda: cluster.checkpoints.find(world.namespace, "web-app"))
        await cluster.save_checkpoint(a_checkpoint(world, 3, **{FINGERPRINT: "some"}))
        (overwritten,) = await world.list_checkpoints()
        await eventually(world, lambda: list(cluster.checkpoints) == [overwritten])
        await cluster.delete_checkpoint(world.namespace, "web-app")
        await cluster.delete_checkpoint(world.namespace, "web-app")

        assert [replace(each, name="", resource_version="") for each in made] == [first]
        assert overwritten.aggregate.total_samples_count == 3
        assert overwritten.fingerprint == "some"
        assert await world.list_checkpoints() == ()
        await eventually(world, lambda: not list(cluster.checkpoints))


@in_every_world
async def test_a_checkpoint_is_deleted_only_in_the_version_that_was_seen(world: World) -> None:
    async with world.joined() as link:
        cluster = link.cluster
        await cluster.save_checkpoint(a_checkpoint(world, 1))
        (first,) = await world.list_checkpoints()
        await cluster.save_checkpoint(a_checkpoint(world, 2))
        (second,) = await world.list_checkpoints()
        with pytest.raises(ConflictError):
            await cluster.delete_checkpoint(world.namespace, "web-app", first.resource_version)
        kept = await listed_samples(world)
        await cluster.delete_checkpoint(world.namespace, "web-app", second.resource_version)

        assert kept == [2]
        assert await world.list_checkpoints() == ()


@in_every_world
async def test_the_server_says_which_autoscalers_there_are(world: World) -> None:
    await an_autoscaler(world)
    async with world.joined() as link:
        cluster = link.cluster
        web, web_2 = (AutoscalerName(world.namespace, name) for name in ("web", "web-2"))
        before = await cluster.has_autoscaler(web), await cluster.has_autoscaler(web_2)
        await world.delete_autoscaler("web")

        assert before == (True, False)
        assert not await cluster.has_autoscaler(web)


@in_every_world
async def test_a_checkpoint_that_somebody_else_has_deleted_is_made_again(world: World) -> None:
    async with world.joined() as link, world.joined() as other:
        await link.cluster.save_checkpoint(a_checkpoint(world, 1))
        await eventually(world, lambda: list(link.cluster.checkpoints))
        # Whether the view knows it by then or not, the outcome is the same.
        await other.cluster.delete_checkpoint(world.namespace, "web-app")
        await link.cluster.save_checkpoint(a_checkpoint(world, 2))

        assert await listed_samples(world) == [2]


@in_every_world
async def test_a_checkpoint_that_nobody_can_read_is_overwritten(world: World) -> None:
    await world.spoil_checkpoint("web-app")
    async with world.joined() as link:
        await link.cluster.save_checkpoint(a_checkpoint(world, 1))
        await eventually(world, lambda: not link.cluster.checkpoints.unreadable)

        assert await listed_samples(world) == [1]


@in_every_world
async def test_of_two_who_renew_the_same_version_of_a_lease_one_gets_a_conflict(
    world: World,
) -> None:
    async with world.joined() as one, world.joined() as two:
        lease = Lease(world.namespace, "vpa-updater", holder="one", duration=timedelta(seconds=15))
        before = await one.cluster.fetch_lease(world.namespace, "vpa-updater")
        created = await one.cluster.write_lease(lease)
        seen = await two.cluster.fetch_lease(world.namespace, "vpa-updater")
        renewed = await one.cluster.write_lease(replace(created, renewed_at=NOW))
        with pytest.raises(ConflictError):
            await two.cluster.write_lease(replace(created, holder="two"))

        assert before is None
        assert seen == created
        assert (created.holder, created.duration) == ("one", timedelta(seconds=15))
        assert renewed.resource_version not in {"", created.resource_version}
        assert await two.cluster.fetch_lease(world.namespace, "vpa-updater") == renewed


@in_every_world
async def test_a_lease_that_exists_cannot_be_created_again(world: World) -> None:
    async with world.joined() as link:
        lease = Lease(world.namespace, "vpa-updater", holder="one")
        await link.cluster.write_lease(lease)

        with pytest.raises(ConflictError):
            await link.cluster.write_lease(replace(lease, holder="two"))


@in_every_world
async def test_telling_what_happened_never_fails(world: World) -> None:
    event = Event(about_pod(Pod(world.namespace, "web")), "Some", "Text.", world.clock.now())
    async with world.joined() as link:
        await link.cluster.emit(event)
        await link.cluster.emit(replace(event, at=event.at + timedelta(minutes=6)))
        async with link.silent():
            await link.cluster.emit(replace(event, reason="Other"))
        async with link.failing():
            await link.cluster.emit(replace(event, reason="Another"))
        async with link.busy():
            await link.cluster.emit(replace(event, reason="Last"))


@every_disturbance
@in_every_world
async def test_every_eviction_for_want_of_memory_is_told_once(
    world: World, disturb: Disturbance
) -> None:
    began = world.clock.now().replace(microsecond=0)
    await world.starve_pod("before", memory_bytes=1)
    async with world.joined() as link:
        told: Counter[MemoryEviction] = Counter()

        async def listen(evictions: AsyncIterator[MemoryEviction]) -> None:
            async for eviction in evictions:
                told[eviction] += 1

        async with meanwhile(listen(link.cluster.memory_evictions())):
            await world.starve_pod("one", memory_bytes=2)
            await disturb(world, link)
            await world.starve_pod("two", memory_bytes=3)
            await eventually(world, lambda: len(told) >= 3)
            # Were one told twice, it would be by now.
            await world.starve_pod("three", memory_bytes=4)
            await eventually(world, lambda: len(told) >= 4)

        names = sorted((each.pod, each.container, each.memory_bytes) for each in told.elements())
        assert names == [
            ("before", "app", 1),
            ("one", "app", 2),
            ("three", "app", 4),
            ("two", "app", 3),
        ]
        assert {each.namespace for each in told} == {world.namespace}
        assert all(began <= each.at <= world.clock.now() for each in told)


@in_every_world
async def test_usage_is_the_newest_reading_of_every_container(world: World) -> None:
    await world.create_workload("StatefulSet", "db", replicas=2)
    await world.set_usage("db-0", cpu_millicores=150, memory_bytes=64 * MIB)
    await world.set_usage("db-1", cpu_millicores=300, memory_bytes=128 * MIB)
    async with world.joined() as link:
        usage = UsageColumns()

        async def is_measured() -> bool:
            nonlocal usage
            usage = await link.usage.fetch()
            return sorted(usage.cpu_millicores) == [150, 300]

        await eventually(world, is_measured)

        assert set(usage.namespaces) == {world.namespace}
        assert set(usage.containers) == {"app"}
        readings = zip(usage.pods, usage.cpu_millicores, usage.memory_bytes, strict=True)
        assert sorted(readings) == [("db-0", 150, 64 * MIB), ("db-1", 300, 128 * MIB)]
        assert all(usage.has_cpu)
        assert all(usage.has_memory)
        assert max(usage.times) <= world.clock.now().timestamp()
