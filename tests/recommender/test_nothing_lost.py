"""Restarts, lost leases, missing targets, broken checkpoints: no recommendation falls by them."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from support.fakes.recommender_cluster import Load, RecommenderCluster
from support.makers.records import MIB, NOW, a_container, amounts, minutes

from trimtab.api.kinds.checkpoint_extras import SUPPLEMENT
from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.lists import Unreadable
from trimtab.core.histogram.checkpoint import AggregateCheckpoint, HistogramCheckpoint
from trimtab.core.model.autoscalers import AutoscalerName, Condition
from trimtab.core.model.resources import Resource
from trimtab.recommender.controller import Recommender

DAY = timedelta(days=1)


def a_world(*, replicas: int = 2) -> RecommenderCluster:
    world = RecommenderCluster()
    world.deploy(replicas=replicas)
    world.autoscale()
    return world


async def work(
    world: RecommenderCluster,
    recommender: Recommender,
    ticks: int = 1,
    step: timedelta = minutes(1),
) -> None:
    for _ in range(ticks):
        await recommender.tick()
        world.wait(step)


async def a_busy_day(world: RecommenderCluster) -> Recommender:
    """A day of work under load, after which hardly anything is used any more."""
    recommender = world.recommender()
    world.loads[""] = Load(cpu=800, memory=2000 * MIB)
    await work(world, recommender, 60, minutes(30))
    world.loads[""] = Load(cpu=10, memory=50 * MIB)
    await work(world, recommender)
    return recommender


def weight(histogram: HistogramCheckpoint) -> float:
    """The total weight of a histogram as it counted at one moment."""
    days = ((histogram.reference_time or NOW) - NOW) / DAY
    return histogram.total_weight * math.pow(2, days)


def targets(world: RecommenderCluster) -> tuple[int, int]:
    target = world.target()
    return target[Resource.CPU], target[Resource.MEMORY]


async def test_f1_ten_restarts_lose_no_weight_and_count_no_sample_twice() -> None:
    world = a_world()
    samples, before = 0, 0.0
    for _ in range(10):
        recommender = world.recommender()
        for _ in range(7):
            samples += (await recommender.tick()).cpu.accepted
            world.wait(minutes(1))
        await recommender.save_all()
        world.read_at = world.clock.now() - minutes(1)
        stored = world.checkpoint().aggregate

        assert stored.total_samples_count == samples
        assert weight(stored.cpu_histogram) > before
        before = weight(stored.cpu_histogram)
        again = await world.recommender().tick()
        assert again.cpu.accepted == 0
        world.read_at = None


async def test_f1_a_restart_in_the_middle_of_a_memory_window_keeps_its_peak() -> None:
    world = a_world()
    recommender = world.recommender()
    world.loads[""] = Load(memory=2000 * MIB)
    await work(world, recommender, 3)
    world.loads[""] = Load(memory=300 * MIB)
    await work(world, recommender, 3)
    before = targets(world)
    await recommender.save_all()
    await work(world, world.recommender(), 3)

    assert targets(world) == before


async def test_f1_a_pod_that_dies_with_the_process_takes_no_peak_with_it() -> None:
    world = a_world()
    recommender = world.recommender()
    world.loads[""] = Load(memory=2000 * MIB)
    await work(world, recommender, 3)
    before = targets(world)
    await recommender.save_all()
    world.end("web-0")
    world.end("web-1")
    world.start("web-2")
    world.loads[""] = Load(memory=300 * MIB)
    await work(world, world.recommender(), 3)

    assert targets(world)[1] >= before[1]


async def test_f1_a_process_that_dies_without_a_word_loses_ten_minutes_at_most() -> None:
    world = a_world()
    await work(world, world.recommender(), 61)

    assert world.checkpoint().aggregate.total_samples_count >= 2 * 51


async def test_f1_a_young_process_that_dies_without_a_word_has_saved_its_first_minute() -> None:
    world = a_world()
    await work(world, world.recommender(), 1)
    before = targets(world)
    # Of a short history the start is judged by what is stored, for nothing is measured yet.
    world.silent |= {pod.name for pod in world.pods}
    await work(world, world.recommender(), 1)

    assert world.checkpoint().aggregate.total_samples_count == 2
    assert targets(world) == before


async def test_f2_a_target_that_is_gone_during_the_start_costs_nothing() -> None:
    world = a_world()
    recommender = await a_busy_day(world)
    before = targets(world)
    await recommender.save_all()
    (gone,) = world.deployments
    world.remove_deployments()
    restarted = world.recommender()
    await work(world, restarted, 3)
    condition = world.condition("ConfigUnsupported")

    assert condition is not None
    assert condition.reason == "TargetUnreadable"
    assert targets(world) == before
    world.deployments.put(gone)
    await work(world, restarted, 30)
    assert world.condition("ConfigUnsupported") is None
    assert targets(world) == before
    assert weight(world.checkpoint().aggregate.cpu_histogram) > 0


async def test_f2_a_target_that_is_gone_while_running_still_has_its_pods() -> None:
    world = a_world()
    recommender = await a_busy_day(world)
    before = targets(world)
    world.remove_deployments()
    report = await recommender.tick()

    assert report.cpu.accepted == 2
    assert targets(world) == before
    assert world.condition("NoPodsMatched") is None


async def test_f3_buckets_survive_when_another_recommender_is_named_for_a_while() -> None:
    world = a_world()
    recommender = await a_busy_day(world)
    before, published = targets(world), world.requests["publish_status"]
    world.autoscale(recommenders=("other",))
    await work(world, recommender, 30)

    assert world.requests["publish_status"] == published
    world.autoscale(recommenders=())
    await work(world, recommender)
    assert world.requests["publish_status"] == published + 1
    assert targets(world) == before


async def test_f3_a_recommender_named_later_learns_from_the_checkpoint() -> None:
    world = a_world()
    world.autoscale(recommenders=("other",))
    other = world.recommender(name="other")
    world.loads[""] = Load(cpu=800, memory=2000 * MIB)
    await work(world, other, 60, minutes(30))
    await other.save_all()
    before = targets(world)
    world.loads[""] = Load(cpu=10, memory=50 * MIB)
    recommender = world.recommender()
    await work(world, recommender, 3)
    world.autoscale(recommenders=("default",))
    await work(world, recommender, 3)

    assert targets(world) == before


def without_weight(checkpoint: Checkpoint) -> Checkpoint:
    return replace(checkpoint, aggregate=AggregateCheckpoint(last_update_time=NOW))


def all_zero(checkpoint: Checkpoint) -> Checkpoint:
    zeros = HistogramCheckpoint(NOW, {8: 0, 9: 0}, 0.0)
    return replace(checkpoint, aggregate=AggregateCheckpoint(zeros, zeros, last_update_time=NOW))


def of_another_version(checkpoint: Checkpoint) -> Checkpoint:
    return replace(checkpoint, aggregate=replace(checkpoint.aggregate, version="v2"))


def with_a_bucket_too_high(checkpoint: Checkpoint) -> Checkpoint:
    broken = HistogramCheckpoint(NOW, {900: 10000}, 1.0)
    return replace(checkpoint, aggregate=replace(checkpoint.aggregate, memory_histogram=broken))


DAMAGES: list[Callable[[Checkpoint], Checkpoint]] = [
    without_weight,
    all_zero,
    of_another_version,
    with_a_bucket_too_high,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
async def test_f4_a_damaged_checkpoint_lowers_nothing_until_a_day_is_learned_anew(
    damage: Callable[[Checkpoint], Checkpoint],
) -> None:
    world = a_world()
    recommender = await a_busy_day(world)
    before = targets(world)
    await recommender.save_all()
    world.store_checkpoint(damage(world.checkpoint()))
    restarted = world.recommender()
    await work(world, restarted, 24, minutes(30))

    assert targets(world) == before
    await restarted.save_all()
    await work(world, world.recommender(), 22, minutes(30))
    assert targets(world) == before
    await work(world, world.recommender(), 6, minutes(30))
    assert targets(world)[0] < before[0]


@pytest.mark.parametrize("damage", DAMAGES[:2], ids=lambda damage: damage.__name__)
async def test_f4_nothing_is_recommended_rather_than_zero(
    damage: Callable[[Checkpoint], Checkpoint],
) -> None:
    world = a_world()
    checkpoint = Checkpoint("default", "web", "app", AggregateCheckpoint())
    world.store_checkpoint(damage(checkpoint))
    world.silent |= {"web-0", "web-1"}
    await work(world, world.recommender(), 3)

    assert world.autoscaler().recommendation == ()
    condition = world.condition("RecommendationProvided")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "NoSamples")


async def test_f4_no_checkpoint_at_all_lowers_nothing_either() -> None:
    world = a_world()
    await a_busy_day(world)
    before = targets(world)
    for checkpoint in list(world.checkpoints):
        await world.delete_checkpoint(checkpoint.namespace, checkpoint.name)
    await work(world, world.recommender(), 3)

    assert targets(world) == before


async def test_a_lighter_histogram_never_overwrites_a_heavier_one() -> None:
    world = a_world()
    recommender = await a_busy_day(world)
    await recommender.save_all()
    heavy = world.checkpoint()
    world.truth.checkpoints.delete(heavy.namespace, heavy.name)
    forgetful = world.recommender()
    await work(world, forgetful, 2)
    world.store_checkpoint(heavy)
    report = await forgetful.save_all()

    assert (report.checkpoints_written, report.checkpoints_refused) == (0, 1)
    assert world.checkpoint() == replace(
        heavy, resource_version=world.checkpoint().resource_version
    )


async def test_f41_a_lost_lease_is_no_restart_and_the_other_leaders_history_is_kept() -> None:
    world = a_world()
    first, second = world.recommender(), world.recommender()
    await work(world, first, 20)
    await first.save_all()
    world.loads[""] = Load(cpu=800, memory=2000 * MIB)
    await work(world, second, 48, minutes(30))
    await second.save_all()
    learned = world.checkpoint().aggregate
    before = targets(world)
    world.loads[""] = Load(cpu=10, memory=50 * MIB)
    world.readings.clear()
    await run_for(world, first, ticks=2)
    await first.save_all()

    assert targets(world) == before
    count = world.checkpoint().aggregate.total_samples_count
    assert count == learned.total_samples_count + 2 * len(world.readings)


async def test_f41_a_lease_that_nobody_else_held_changes_nothing() -> None:
    world = a_world()
    recommender = world.recommender()
    await run_for(world, recommender, ticks=5)
    await run_for(world, recommender, ticks=5)
    await recommender.save_all()

    assert len(world.readings) >= 10
    assert world.checkpoint().aggregate.total_samples_count == 2 * len(world.readings)


async def test_f41_who_was_cut_off_while_another_led_waits_until_it_sees_again() -> None:
    world = a_world()
    first, second = world.recommender(), world.recommender()
    await work(world, first, 20)
    await work(world, second, 48, minutes(30))
    await second.save_all()
    learned, world.view_age = world.checkpoint(), minutes(4)
    running = asyncio.create_task(first.run())
    await world.clock.nap_begun.wait()
    writes = world.requests.total()
    await first.save_all()
    blind_writes = world.requests.total() - writes
    world.view_age = minutes(1)
    world.clock.nap_over.set()
    await world.tick_done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await first.save_all()

    assert blind_writes == 0
    count = world.checkpoint().aggregate.total_samples_count
    assert count > learned.aggregate.total_samples_count


async def run_for(world: RecommenderCluster, recommender: Recommender, ticks: int) -> None:
    """Let a recommender run for so many ticks, then take the lease away."""
    running = asyncio.create_task(recommender.run())
    for _ in range(ticks):
        await world.tick_done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_f41_a_tick_that_is_cut_off_anywhere_loses_nothing() -> None:
    whole = a_world()
    await a_busy_day(whole)
    before, steps = targets(whole), 0
    world = a_world()
    first = await a_busy_day(world)
    await first.save_all()
    recommender = world.recommender()
    while True:
        steps += 1
        cut = asyncio.create_task(recommender.tick())
        for _ in range(steps):
            await asyncio.sleep(0)
        if cut.done():
            break
        cut.cancel()
        await asyncio.gather(cut, return_exceptions=True)
    await recommender.save_all()

    assert steps > 2
    assert targets(world) == before
    count = world.checkpoint().aggregate.total_samples_count
    assert count == 2 * len(world.readings)


async def test_an_autoscaler_that_cannot_be_read_is_not_deleted() -> None:
    world = a_world()
    recommender = await a_busy_day(world)
    await recommender.save_all()
    before, autoscaler = targets(world), world.autoscaler()
    world.truth.autoscalers.spoil(Unreadable("default", "web", DecodeError("spec", "odd")))
    world.loads[""] = Load(cpu=10, memory=4000 * MIB)
    writes = world.requests["publish_status"]
    await work(world, recommender, 60)

    assert world.requests["delete_checkpoint"] == 0
    assert world.requests["publish_status"] == writes
    world.truth.autoscalers.put(autoscaler)
    await work(world, recommender)
    assert targets(world)[0] == before[0]
    assert targets(world)[1] > before[1]


@pytest.mark.parametrize(
    "away",
    [
        pytest.param(minutes(1), id="for a tick"),
        pytest.param(minutes(4), id="for some ticks"),
    ],
)
async def test_an_autoscaler_created_again_after_a_restart_counts_no_sample_twice(
    away: timedelta,
) -> None:
    world = a_world()
    await work(world, first := world.recommender(), 30)
    await first.save_all()
    # Orphans are looked for every ten minutes.
    await work(world, recommender := world.recommender(), 25)
    before = world.checkpoint().aggregate
    world.remove_autoscaler()
    await work(world, recommender, away // minutes(1))
    world.autoscale()
    await work(world, recommender)
    await recommender.save_all()
    stored = world.checkpoint().aggregate

    assert before.total_samples_count > 30
    # One sample of each of the two pods at each reading.
    assert stored.total_samples_count == 2 * len(world.readings)
    assert weight(stored.cpu_histogram) < 1.5 * weight(before.cpu_histogram)


async def test_an_autoscaler_is_forgotten_when_its_checkpoints_are_deleted() -> None:
    world = a_world()
    await work(world, recommender := world.recommender(), 5)
    world.remove_autoscaler()
    await work(world, recommender, 2)
    known_while_stored = set(recommender.state.subjects)
    served_while_stored = set(recommender.state.served)
    await work(world, recommender, 15)

    assert known_while_stored == {AutoscalerName("default", "web")}
    assert served_while_stored == set()
    assert list(world.checkpoints) == []
    assert not recommender.state.subjects
    assert not recommender.state.usage.links.learners


async def test_the_original_may_write_between_without_a_window_counting_twice() -> None:
    world = a_world(replicas=1)
    recommender = world.recommender()
    await work(world, recommender, 3)
    await recommender.save_all()
    ours = world.checkpoint()
    assert SUPPLEMENT in ours.annotations
    later = replace(ours.aggregate, last_update_time=world.clock.now() + minutes(5))
    world.store_checkpoint(replace(ours, aggregate=later))
    supplement = world.checkpoint().supplement

    assert supplement is not None
    assert supplement.containers == {}


async def test_conditions_of_others_are_left_in_place() -> None:
    world = a_world()
    world.autoscale(conditions=(Condition("Theirs", "True"),))
    await work(world, world.recommender())

    assert world.condition("Theirs") is not None


async def test_checkpoints_are_not_written_while_somebody_fetches_history() -> None:
    world = a_world()
    world.autoscale(conditions=(Condition("FetchingHistory", "True"),))
    recommender = world.recommender()
    await work(world, recommender, 3)
    report = await recommender.save_all()

    assert report.checkpoints_written == 0
    assert world.condition("FetchingHistory") is not None


@pytest.mark.parametrize("is_late", [False, True], ids=["at once", "later"])
async def test_histories_whose_checkpoints_would_have_one_name_stay_apart(*, is_late: bool) -> None:
    """Of the autoscaler `shop` with a container `web-api`, and of `shop-web` with `api`."""
    world = RecommenderCluster()
    pairs = (("shop", "web-api", 2000), ("shop-web", "api", 400))
    recommender = world.recommender()
    for name, container, mib in pairs:
        world.loads[container] = Load(memory=mib * MIB)
        world.deploy(name, a_container(container, requests=amounts(100, 200 * MIB)))
        world.autoscale(name)
        if is_late:
            await work(world, recommender, 3)
            await recommender.save_all()
    await work(world, recommender, 10)
    await recommender.save_all()
    before = [world.target(name, container) for name, container, _ in pairs]
    for name, _, _ in pairs:
        world.silent.add(f"{name}-0")
    await work(world, world.recommender(), 3)

    assert [world.target(name, container) for name, container, _ in pairs] == before
    assert before[0] != before[1]
    stored = {(each.autoscaler_name, each.container_name) for each in world.checkpoints}
    assert stored == {("shop", "web-api"), ("shop-web", "api")}
    assert len(list(world.checkpoints)) == 2


async def test_a_checkpoint_whose_name_would_be_too_long_is_stored() -> None:
    world = RecommenderCluster()
    name = "w" * 250
    world.deploy(name)
    world.autoscale(name)
    recommender = world.recommender()
    await work(world, recommender, 3)
    await recommender.save_all()

    (stored,) = world.checkpoints
    assert len(stored.name) <= 253
    assert (stored.autoscaler_name, stored.container_name) == (name, "app")
