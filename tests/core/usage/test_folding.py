"""Folding: what no pod feeds any more is put together, and nothing that is said changes."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.makers.records import MIB, an_autoscaler
from support.makers.usage import DAY, WEB, World, a_selector, moment

from trimtab.core.model.autoscalers import ContainerPolicy
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.usage.checkpoints import encode_checkpoints
from trimtab.core.usage.containers import PodName
from trimtab.core.usage.retention import fold_idle

HOUR = 60


def a_rollout(world: World, number: int, *, minute: float = 0, cpu: float = 100) -> None:
    """A pod with labels of its own that lives for a moment."""
    name = f"web-{number}"
    world.pod(name, "app", labels={"hash": str(number)}, minute=minute)
    world.cpu([cpu], [minute], pod=name)
    world.memory([cpu * MIB], [minute], pod=name)
    world.usage.forget(PodName("default", name))


def fold(world: World, minute: float) -> int:
    return fold_idle(world.usage, moment(minute))


def test_only_what_nothing_was_heard_of_for_an_interval_is_folded() -> None:
    world = World()
    a_rollout(world, 1)
    a_rollout(world, 2, minute=HOUR)
    world.pod("alive", "app", labels={"hash": "3"})
    world.cpu([100], [0], pod="alive")
    folded = [fold(world, minute) for minute in (DAY - 1, DAY, DAY + HOUR, 30 * DAY)]

    assert folded == [0, 1, 1, 0]
    # The one of the pod that is alive, and one for all others.
    assert len(world.usage.aggregates) == 2


def test_an_override_of_the_interval_changes_how_long_that_is() -> None:
    policy = ContainerPolicy("*", memory_interval=timedelta(hours=2))
    world = World(autoscaler=an_autoscaler(policies=(policy,)))
    a_rollout(world, 1)

    assert fold(world, HOUR) == 0
    assert fold(world, 2 * HOUR) == 1


@given(
    st.lists(st.tuples(st.integers(0, 3 * DAY), st.integers(1, 4000)), min_size=1, max_size=12),
    st.integers(DAY, 5 * DAY),
)
@settings(deadline=None)
def test_folding_changes_nothing_that_is_said_or_saved(
    rollouts: list[tuple[int, int]], now: int
) -> None:
    world = World()
    for number, (minute, cpu) in enumerate(sorted(rollouts)):
        a_rollout(world, number, minute=minute, cpu=cpu)
    before, saved = world.container(), saved_of(world, now)
    fold(world, now)
    after, saved_after = world.container(), saved_of(world, now)

    # Sums come out differently in their last digits.
    for kind in BOTH:
        assert after.target[kind] == pytest.approx(before.target[kind], rel=1e-6)
    assert saved_after[:2] == saved[:2]
    assert saved_after[2:] == pytest.approx(saved[2:])


def saved_of(world: World, minute: float) -> tuple[object, int, float, float]:
    name = world.autoscaler.identity
    saved = encode_checkpoints(world.usage, [name], moment(minute))[name, "app"]
    return (
        (saved.first_sample_start, saved.last_sample_start),
        saved.total_samples_count,
        saved.cpu_histogram.total_weight,
        saved.memory_histogram.total_weight,
    )


def test_what_kills_taught_is_folded_too() -> None:
    world = World()
    world.pod("job", "app", labels={"job": "1"})
    world.oom([1000 * MIB], [0], pod="job")
    world.usage.forget(PodName("default", "job"))
    before = world.container().target[Resource.MEMORY]

    assert fold(world, DAY) == 1
    assert world.container().target[Resource.MEMORY] == before >= 1200 * MIB
    assert len(world.usage.aggregates.oom_ledger) == 1


def test_every_autoscaler_that_learned_from_it_keeps_what_is_folded() -> None:
    world = World()
    twin = an_autoscaler(name="twin")
    world.usage.learn(twin, a_selector(**WEB))
    a_rollout(world, 1, cpu=700)
    fold(world, DAY)
    told = world.publications.refresh()

    assert told[twin.identity].containers[0].target == world.container().target
    assert world.container().target[Resource.CPU] >= 700


def test_what_nobody_learns_from_waits_for_an_autoscaler() -> None:
    world = World()
    world.usage.unlearn(world.autoscaler.identity)
    a_rollout(world, 1, cpu=700)

    assert fold(world, 2 * DAY) == 0
    world.usage.learn(world.autoscaler, a_selector(**WEB))
    assert world.container().target[Resource.CPU] >= 700


def test_f33_a_week_of_rollouts_leaves_what_a_day_of_them_does() -> None:
    world, sizes = World(), []
    for number in range(7 * 48):
        a_rollout(world, number, minute=30 * number)
        fold(world, 30 * number)
        sizes.append(len(world.usage.aggregates))

    assert max(sizes) == sizes[2 * 48] == sizes[-1] <= 50
    assert len(world.usage.aggregates.cpu) <= 51
