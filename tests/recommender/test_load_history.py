"""History beside the ticks: read once, in parts, again if need be, and nothing is lost by it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import pairwise

import pytest
from recommender.past import Past
from support.fakes.clocks import LoopClock, run_virtually
from support.fakes.recommender_cluster import Load, RecommenderCluster
from support.makers.records import MIB, minutes

from trimtab.core.model.resources import Resource
from trimtab.recommender.controller import Recommender
from trimtab.recommender.settings import HistorySettings, RecommenderSettings

BUSY = Load(cpu=800, memory=2000 * MIB)
QUIET = Load(cpu=10, memory=50 * MIB)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
SAMPLES = 8 * 24 + 1
"""Of one container in the whole history."""


def a_world(**loads: Load) -> RecommenderCluster:
    world = RecommenderCluster()
    world.clock = LoopClock()  # type: ignore[assignment]
    world.deploy()
    world.autoscale()
    world.loads |= loads or {"": QUIET}
    return world


def a_recommender(
    world: RecommenderCluster, past: Past, interval: timedelta = MINUTE, **history: object
) -> Recommender:
    given = HistorySettings(**history)  # type: ignore[arg-type]
    settings = RecommenderSettings(interval=interval, history=given)
    return Recommender(world, world, settings=settings, clock=world.clock, history=past)


@asynccontextmanager
async def running(recommender: Recommender) -> AsyncIterator[None]:
    """The recommender at work; it ends with the block."""
    task = asyncio.create_task(recommender.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
    assert task.cancelled(), task.exception()


async def passes(span: timedelta) -> None:
    """So much virtual time."""
    await asyncio.sleep(span.total_seconds())


def virtually(scene: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """A test that takes place in virtual time."""

    def test() -> None:
        async def play() -> None:
            await scene()

        run_virtually(play())

    test.__name__ = getattr(scene, "__name__", "test")
    return test


def cpu(world: RecommenderCluster) -> int:
    return world.target().get(Resource.CPU, 0)


def memory(world: RecommenderCluster) -> int:
    return world.target().get(Resource.MEMORY, 0)


@virtually
async def test_the_first_recommendation_is_made_with_history() -> None:
    world, past = a_world(), Past({"web-0": BUSY})
    recommender = a_recommender(world, past)
    async with running(recommender):
        await passes(timedelta(seconds=1))
        first, condition = cpu(world), world.condition("FetchingHistory")
        result = recommender.last_result

    assert first > 800
    assert memory(world) > 2000 * MIB
    assert condition is None
    assert result is not None
    assert result.report is not None
    report = result.report
    assert report.past_cpu.accepted == report.past_memory.accepted == SAMPLES
    assert report.histories == 1
    assert report.cpu.accepted == 0


@virtually
async def test_history_is_read_once() -> None:
    world, past = a_world(), Past({"web-0": BUSY})
    async with running(a_recommender(world, past)):
        await passes(minutes(5))
        world.autoscale(annotations={"a": "b"})
        await passes(minutes(5))

    assert len(past.asked) == 1


@virtually
async def test_an_autoscaler_that_comes_later_gets_its_history_too() -> None:
    world, past = a_world(), Past({"web-0": BUSY, "api-0": BUSY})
    async with running(a_recommender(world, past)):
        await passes(minutes(3))
        world.deploy("api")
        world.autoscale("api")
        await passes(minutes(3))
        target = world.target("api")

    assert target[Resource.CPU] > 800


@virtually
async def test_another_selector_asks_for_the_history_of_its_pods() -> None:
    world, past = a_world(), Past({"web-0": BUSY})
    async with running(a_recommender(world, past)):
        await passes(minutes(3))
        world.remove_deployments()
        world.deploy("api")
        past.loads["api-0"] = Load(cpu=3000)
        target = world.autoscaler().target
        assert target is not None
        world.autoscale(target=type(target)("Deployment", "api", "apps/v1"))
        await passes(minutes(3))

    assert cpu(world) > 3000


@virtually
async def test_large_namespaces_are_read_in_parts_that_follow_each_other() -> None:
    world, past = a_world(), Past({"web-0": BUSY})
    async with running(a_recommender(world, past, most_samples=150)):
        await passes(timedelta(seconds=1))

    assert len(past.answered) == 4
    assert all(two.begin - one.end == HOUR for one, two in pairwise(past.answered))
    assert sum(shard.moments for shard in past.answered) == SAMPLES


@virtually
async def test_a_part_that_is_too_much_is_halved_until_it_is_not() -> None:
    world, past = a_world(), Past({"web-0": BUSY}, most_moments=50)
    recommender = a_recommender(world, past)
    async with running(recommender):
        await passes(timedelta(seconds=1))

    for parts in (past.answered, past.traced):
        assert max(shard.moments for shard in parts) <= 50
        assert all(two.begin - one.end == HOUR for one, two in pairwise(parts))
        assert sum(shard.moments for shard in parts) == SAMPLES
    assert cpu(world) > 800


@virtually
async def test_a_moment_that_is_too_much_is_told_and_tried_again() -> None:
    world, past = a_world(), Past({"web-0": BUSY}, most_moments=0)
    async with running(a_recommender(world, past)):
        await passes(minutes(2))
        condition = world.condition("FetchingHistory")
        past.most_moments = 1
        await passes(minutes(5))

    assert condition is not None
    assert condition.message.endswith("too much")
    assert world.condition("FetchingHistory") is None
    assert cpu(world) > 800


@virtually
async def test_history_that_takes_long_is_not_waited_for() -> None:
    world, past = a_world(), Past({"web-0": BUSY}, takes=minutes(3))
    async with running(a_recommender(world, past)):
        await passes(timedelta(seconds=9))
        waiting = world.requests["publish_status"]
        await passes(timedelta(seconds=3))
        condition, without = world.condition("FetchingHistory"), cpu(world)
        await passes(minutes(8))

    assert waiting == 0
    assert condition is not None
    assert (condition.reason, condition.message) == (
        "HistoryIncomplete",
        "The history of usage is being read",
    )
    assert without == 25
    assert world.condition("FetchingHistory") is None
    assert cpu(world) > 800


@virtually
async def test_f41_who_leads_again_after_somebody_else_reads_what_is_missing_anew() -> None:
    world, past = a_world(), Past({"web-0": BUSY}, breaks_after=3)
    first = a_recommender(world, past, most_samples=30)
    async with running(first):
        await passes(timedelta(seconds=2))
    past.breaks_after = 10**9
    second = a_recommender(world, past)
    async with running(second):
        await passes(minutes(30))
    await second.save_all()
    saved = world.checkpoint().aggregate.total_samples_count
    async with running(first):
        await passes(timedelta(seconds=2))
    await first.save_all()

    assert world.checkpoint().aggregate.total_samples_count <= saved + 2
    assert cpu(world) > 800


@virtually
async def test_f14_without_history_the_recommender_starts_and_says_so() -> None:
    world, past = a_world(), Past({"web-0": BUSY}, is_down=True)
    async with running(a_recommender(world, past)):
        await passes(timedelta(seconds=1))
        condition, target = world.condition("FetchingHistory"), cpu(world)

    assert target == 25
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "HistoryUnavailable")
    assert condition.message.endswith("it is tried again: nobody there")


@virtually
async def test_f14_history_that_was_out_of_reach_is_taken_in_once_it_can_be_had() -> None:
    world, past = a_world(), Past({"web-0": BUSY}, is_down=True)
    async with running(a_recommender(world, past)):
        await passes(minutes(30))
        past.is_down = False
        await passes(minutes(7))
        condition = world.condition("FetchingHistory")

    assert condition is None
    assert cpu(world) > 800
    assert memory(world) > 2000 * MIB


@virtually
async def test_f14_what_could_not_be_read_is_tried_again_less_and_less_often() -> None:
    world, past = a_world(), Past({"web-0": BUSY}, broken={"default"})
    async with running(a_recommender(world, past)):
        await passes(HOUR)
    waited = [round(two - one) for one, two in pairwise(past.asked_at)]

    assert waited[:6] == [5, 10, 20, 40, 80, 160]
    assert set(waited[6:]) == {300}


@virtually
async def test_f14_what_was_read_before_it_broke_off_is_not_read_again() -> None:
    world, past = a_world(), Past({"web-0": BUSY}, breaks_after=3)
    async with running(a_recommender(world, past, most_samples=30)):
        await passes(timedelta(seconds=2))
        past.breaks_after = 10**9
        await passes(minutes(2))

    assert world.condition("FetchingHistory") is None
    assert sum(shard.moments for shard in past.answered) == SAMPLES
    assert all(two.begin - one.end == HOUR for one, two in pairwise(past.answered))


@virtually
async def test_f14_what_cannot_be_read_of_one_namespace_keeps_no_other_waiting() -> None:
    world, past = a_world(), Past({"web-0": BUSY}, broken={"broken"})
    for number in range(10):
        world.deploy(namespace="broken" if number == 0 else f"fine-{number}")
        world.autoscale(namespace="broken" if number == 0 else f"fine-{number}")
    async with running(a_recommender(world, past, workers=2)):
        await passes(minutes(3))
        fine = [world.target(namespace=f"fine-{number}") for number in range(1, 10)]
        broken = world.target(namespace="broken")

    assert all(target[Resource.CPU] > 800 for target in fine)
    assert broken[Resource.CPU] == 25


@virtually
async def test_f14_no_recommendation_falls_while_its_history_is_outstanding() -> None:
    world, past = a_world(), Past({"web-0": BUSY})
    first = a_recommender(world, past)
    async with running(first):
        await passes(minutes(2))
    before = cpu(world), memory(world)
    # The original with Prometheus saves nothing; what it once saved is of another time.
    past.is_down = True
    old = RecommenderCluster()
    old.deploy()
    old.autoscale()
    old.loads[""] = QUIET
    recommender = old.recommender()
    for _ in range(3):
        await recommender.tick()
        old.wait(minutes(1))
    await recommender.save_all()
    world.store_checkpoint(old.checkpoint())
    async with running(a_recommender(world, past, HOUR)):
        await passes(20 * HOUR)
        during = cpu(world), memory(world)

    assert during == before


@virtually
async def test_f14_a_history_that_never_comes_is_not_waited_for_longer_than_a_day() -> None:
    world, past = a_world(**{"": BUSY}), Past(is_down=True)
    async with running(a_recommender(world, past, HOUR)):
        await passes(minutes(10))
        before = cpu(world)
        world.loads[""] = QUIET
        await passes(23 * HOUR)
        waited = cpu(world)
        await passes(48 * HOUR)

    assert waited == before
    assert cpu(world) < before


@virtually
async def test_what_is_learned_while_history_is_outstanding_is_saved() -> None:
    world, past = a_world(), Past(is_down=True)
    async with running(a_recommender(world, past)):
        await passes(minutes(25))

    assert world.checkpoint().aggregate.total_samples_count >= 15


@virtually
async def test_a_restart_counts_no_sample_of_history_twice() -> None:
    world, past = a_world(), Past({"web-0": BUSY})
    counts, reports = [], []
    for _ in range(3):
        recommender = a_recommender(world, past)
        async with running(recommender):
            await passes(minutes(30))
        await recommender.save_all()
        counts.append(world.checkpoint().aggregate.total_samples_count)
        reports.append(cpu(world))
    samples = len(world.readings)

    assert counts[0] == SAMPLES + 30 - 1
    assert counts[-1] <= SAMPLES + samples
    assert reports[0] == reports[-1]


@virtually
async def test_a_gap_between_two_processes_is_filled_from_history() -> None:
    world, past = a_world(**{"": BUSY}), Past({"web-0": BUSY})
    first = a_recommender(world, past)
    async with running(first):
        await passes(minutes(30))
    await first.save_all()
    before = world.checkpoint().aggregate.total_samples_count
    await passes(10 * HOUR)
    second = a_recommender(world, past)
    async with running(second):
        await passes(timedelta(seconds=1))
    await second.save_all()
    after = world.checkpoint().aggregate.total_samples_count

    assert 10 <= after - before <= 12


@virtually
async def test_a_lost_lease_breaks_nothing_off() -> None:
    world, past = a_world(), Past({"web-0": BUSY}, breaks_after=3)
    recommender = a_recommender(world, past, most_samples=30)
    async with running(recommender):
        await passes(timedelta(seconds=2))
    past.breaks_after = 10**9
    async with running(recommender):
        await passes(minutes(2))

    assert cpu(world) > 800
    assert sum(shard.moments for shard in past.answered) == SAMPLES


@virtually
async def test_pods_that_are_gone_taught_something_too() -> None:
    world = a_world()
    past = Past({"web-7": BUSY, "other-7": Load(cpu=5000)}, {"web-7": {"app": "web"}})
    async with running(a_recommender(world, past)):
        await passes(timedelta(seconds=1))

    assert 800 < cpu(world) < 5000


@virtually
async def test_whatever_goes_wrong_with_history_recommendations_are_made() -> None:
    world = a_world()
    past = Past({"web-0": BUSY}, broken={"default"}, error=ValueError("nonsense"))
    async with running(a_recommender(world, past)):
        await passes(minutes(2))
        without, condition = cpu(world), world.condition("FetchingHistory")
        past.broken.clear()
        await passes(minutes(5))

    assert without == 25
    assert condition is not None
    assert condition.message.endswith("nonsense")
    assert cpu(world) > 800


@virtually
async def test_a_deleted_autoscaler_is_not_read_for() -> None:
    world, past = a_world(), Past({"web-0": BUSY}, is_down=True)
    recommender = a_recommender(world, past)
    async with running(recommender):
        await passes(minutes(1))
        world.remove_autoscaler()
        await passes(minutes(2))
        past.is_down = False
        await passes(minutes(6))

    assert recommender.state.served == {}
    assert [each.history_of for each in recommender.state.subjects.values()] == [None]
    assert len(recommender.state.usage.containers) == 1


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [
        pytest.param(1, 5, id="the first time soon"),
        pytest.param(3, 20, id="each time after twice as long"),
        pytest.param(1000, 300, id="but not for ever longer"),
    ],
)
def test_delays_grow_up_to_a_bound(failures: int, seconds: int) -> None:
    assert HistorySettings().delay(failures) == timedelta(seconds=seconds)
