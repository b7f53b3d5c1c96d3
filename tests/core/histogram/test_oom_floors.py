import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import MIB, amounts, an_autoscaler, hours
from support.makers.usage import DAY, World, moment, samples

from trimtab.core.histogram.buckets import MEMORY_BUCKETS
from trimtab.core.histogram.oom_floors import (
    MOST_LEVELS,
    OomLedger,
    OomLevel,
    add_level,
    highest_need,
)
from trimtab.core.model.autoscalers import ContainerPolicy
from trimtab.core.model.resources import Resource
from trimtab.core.usage.aggregates import UsageSettings
from trimtab.core.usage.containers import PodName
from trimtab.core.usage.retention import collect_garbage

levels = st.builds(OomLevel, st.integers(0, 20), st.integers(0, 20).map(float))


def highest(known: list[OomLevel], since: float) -> int:
    return max((one.needed_bytes for one in known if one.seconds >= since), default=0)


@given(st.lists(levels, max_size=MOST_LEVELS), st.integers(0, 21))
def test_what_is_kept_answers_for_all_that_was_told(told: list[OomLevel], since: float) -> None:
    kept: tuple[OomLevel, ...] = ()
    for level in told:
        kept = add_level(kept, level)

    assert highest(list(kept), since) == highest(told, since)


@given(st.lists(levels, max_size=60))
def test_the_ledger_of_an_aggregate_is_short_and_falls_with_time(told: list[OomLevel]) -> None:
    kept: tuple[OomLevel, ...] = ()
    for level in told:
        kept = add_level(kept, level)
    needs, times = [one.needed_bytes for one in kept], [one.seconds for one in kept]

    assert len(kept) <= MOST_LEVELS
    assert needs == sorted(set(needs), reverse=True)
    assert times == sorted(set(times))
    assert not told or kept[0].needed_bytes == highest(told, 0)


def test_f15_a_storm_of_kills_forgets_the_lowest_levels_first() -> None:
    kept: tuple[OomLevel, ...] = ()
    for number in range(100):
        kept = add_level(kept, OomLevel(1000 - number, number))

    assert [one.needed_bytes for one in kept] == [1000 - number for number in range(MOST_LEVELS)]


def test_levels_expire_with_their_aggregate_s_own_lifetime() -> None:
    ledger = OomLedger()
    ledger.remember(np.array([1, 2]), np.array([100.0, 200.0]), np.array([10.0, 10.0]))
    changed = ledger.expire(np.array([0.0, 50.0, 500.0]), now=60.0)

    assert changed.tolist() == [1]
    assert ledger.floors(3).tolist() == [0, 0, 200]
    assert len(ledger) == 1
    ledger.drop(2)
    assert ledger.floors(3).tolist() == [0, 0, 0]


def a_world(*pods: str, **settings: object) -> World:
    world = World(usage_settings=UsageSettings(**settings))  # type: ignore[arg-type]
    for pod in pods or ("web-0",):
        world.pod(pod)
    return world


def memory_target(world: World) -> int:
    return world.container().target[Resource.MEMORY]


def test_f9_one_pod_in_forty_is_enough_to_hold_the_target_up() -> None:
    world = a_world(*(f"web-{number}" for number in range(40)))
    for number in range(40):
        world.memory([300 * MIB] * 8, [day * DAY for day in range(8)], pod=f"web-{number}")
    without = memory_target(world)
    world.oom([1000 * MIB], [7 * DAY + 1], pod="web-7")

    assert without < 400 * MIB
    assert memory_target(world) == 1200 * MIB


def test_f9_the_target_reaches_the_need_within_a_few_kills() -> None:
    world = a_world(*(f"web-{number}" for number in range(40)))
    for number in range(40):
        world.memory([300 * MIB], [0], pod=f"web-{number}")
    need, kills = 3000 * MIB, 0
    while memory_target(world) < need:
        kills += 1
        world.oom([memory_target(world)], [kills], pod="web-7")

    assert kills <= 12


def test_f10_a_kill_before_any_sample_makes_a_recommendation() -> None:
    world = a_world()
    world.oom([1000 * MIB], [0])

    assert memory_target(world) >= 1200 * MIB
    assert Resource.CPU not in world.container().target


def test_the_floor_lasts_exactly_as_long_as_the_history_does() -> None:
    world = a_world()
    world.memory([300 * MIB], [0])
    world.oom([1000 * MIB], [1])
    for day in range(1, 12):
        world.memory([300 * MIB] * 100, [day * DAY + minute for minute in range(100)])
    world.usage.forget_kills(moment(8 * DAY))

    assert memory_target(world) == 1200 * MIB
    world.usage.forget_kills(moment(8 * DAY + 1))
    assert memory_target(world) < 600 * MIB


def test_an_override_of_the_interval_changes_how_long_that_is() -> None:
    policy = ContainerPolicy("*", memory_interval=hours(12), memory_interval_count=2)
    world = World(autoscaler=an_autoscaler(policies=(policy,)))
    world.pod()
    world.oom([1000 * MIB], [0])
    world.memory([300 * MIB] * 5, [DAY * day for day in range(1, 6)])

    assert memory_target(world) == 1200 * MIB
    world.usage.forget_kills(moment(DAY))
    assert memory_target(world) < 1200 * MIB


def test_f5_a_job_of_seconds_keeps_what_its_kill_taught() -> None:
    world = a_world()
    world.oom([1000 * MIB], [0])
    world.usage.forget(PodName("default", "web-0"))
    collect_garbage(world.usage, moment(7 * DAY), ended=frozenset(), abandoned=frozenset())

    assert memory_target(world) >= 1200 * MIB
    collect_garbage(world.usage, moment(8 * DAY), ended=frozenset(), abandoned=frozenset())
    assert world.recommendation().containers == ()
    assert len(world.usage.aggregates.oom_ledger) == 0


def test_caps_have_the_last_word_and_bounds_keep_their_order() -> None:
    policy = ContainerPolicy("*", max_allowed=amounts(memory=1100 * MIB))
    world = a_world(*(f"web-{number}" for number in range(40)))
    for number in range(40):
        world.memory([300 * MIB], [0], pod=f"web-{number}")
    world.oom([1000 * MIB], [1])
    open_ended = world.container()
    world.say(policies=(policy,))
    capped = world.container()

    assert open_ended.upper_bound is not None
    assert open_ended.upper_bound[Resource.MEMORY] >= open_ended.target[Resource.MEMORY]
    assert open_ended.lower_bound is not None
    assert open_ended.lower_bound[Resource.MEMORY] < 400 * MIB
    assert capped.target[Resource.MEMORY] == 1100 * MIB
    assert capped.uncapped_target is not None
    assert capped.uncapped_target[Resource.MEMORY] == 1200 * MIB


def test_f15_no_kill_raises_the_floor_above_the_ceiling() -> None:
    world = a_world()
    kill = samples(world.row(), [1000 * MIB], [0])
    world.usage.add_oom_kills(kill, moment(0).timestamp(), ceiling_bytes=1100 * MIB)

    assert world.usage.aggregates.oom_floors().max() == 1100 * MIB


@given(st.integers(20 * MIB, 2**40), st.floats(0, 1))
def test_f15_the_highest_need_leads_to_a_target_that_a_node_has(most: int, margin: float) -> None:
    need = highest_need(most, margin)
    bucket = int(MEMORY_BUCKETS.find(np.array([float(need)]))[0])
    target = int(MEMORY_BUCKETS.ends[bucket] * (1 + margin))

    assert need <= most
    assert target <= most or bucket == MEMORY_BUCKETS.count - 1
    assert target * 1.05 + 2e7 >= min(most, MEMORY_BUCKETS.ends[-1])


@pytest.mark.parametrize("most", [5 * MIB, 2**50])
def test_f15_what_no_bucket_can_tell_is_left_as_it_is(most: int) -> None:
    assert highest_need(most, 0.15) == most


@pytest.mark.parametrize("keeps", [True, False])
def test_the_ledger_can_be_switched_off(*, keeps: bool) -> None:
    world = a_world(*(f"web-{number}" for number in range(40)), keeps_oom_ledger=keeps)
    for number in range(40):
        world.memory([300 * MIB], [0], pod=f"web-{number}")
    world.oom([1000 * MIB], [1])

    assert (memory_target(world) == 1200 * MIB) is keeps
