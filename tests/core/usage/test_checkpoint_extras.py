from dataclasses import replace
from datetime import datetime
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import MIB, an_autoscaler
from support.makers.usage import DAY, WEB, World, a_selector, moment

from trimtab.core.histogram.checkpoint import AggregateCheckpoint, HistogramCheckpoint
from trimtab.core.model.resources import Resource
from trimtab.core.usage.checkpoint_extras import (
    MOST_CONTAINERS,
    SavedContainer,
    Supplement,
    collect_supplements,
    restore_supplement,
    settle_expected,
)
from trimtab.core.usage.checkpoints import CheckpointKey, encode_checkpoints
from trimtab.core.usage.containers import PodName
from trimtab.core.usage.retention import collect_garbage

LEADER, FOLLOWER = {"role": "leader"}, {"role": "follower"}
FOLLOWERS = an_autoscaler(name="followers")
Stored: TypeAlias = dict[CheckpointKey, tuple[AggregateCheckpoint, Supplement]]

LATE = 300
"""Minutes after which a kill may still come to light; windows may have closed since."""


def a_world(*pods: str) -> World:
    world = World()
    for pod in pods or ("web-0",):
        world.pod(pod)
    return world


def supplement(world: World, minute: float, **kills: datetime) -> Supplement:
    key = (world.autoscaler.identity, "app")
    by_place = {("default", pod, "app"): at for pod, at in kills.items()}
    return collect_supplements(world.usage, [key], by_place, moment(minute))[key]


def restarted(world: World, minute: float, *pods: str) -> World:
    """The world after a restart in which only some pods are still there."""
    key = (world.autoscaler.identity, "app")
    stored = encode_checkpoints(world.usage, [key[0]], moment(minute))[key]
    beside = supplement(world, minute)
    new = World(world.settings, world.usage_settings, world.autoscaler)
    new.usage.restore(*key, stored)
    restore_supplement(new.usage, key, beside, moment(minute))
    for pod in pods:
        new.pod(pod, minute=minute)
    settle_expected(new.usage)
    return new


def shares(histogram: HistogramCheckpoint) -> dict[int, int]:
    return dict(histogram.bucket_weights)


def test_what_is_remembered_are_the_last_readings_and_the_open_window() -> None:
    world = a_world()
    world.cpu([100, 100], [1, 2])
    world.memory([500 * MIB, 400 * MIB], [1, 3])
    world.oom([600 * MIB], [4])
    found = supplement(world, 5, **{"web-0": moment(4)})
    remembered = found.containers["web-0"]

    assert remembered.last_kill == moment(4)
    assert remembered.memory.last_cpu == moment(2).timestamp()
    assert remembered.memory.last_memory == moment(4).timestamp()
    assert remembered.memory.window_end == moment(1 + DAY).timestamp()
    assert remembered.memory.usage_peak == 500 * MIB
    assert remembered.memory.oom_peak == 720 * MIB
    assert [level.needed_bytes for level in found.oom_levels] == [720 * MIB]


def test_the_peak_of_a_window_that_is_closed_is_known_from_the_checkpoint_already() -> None:
    world = a_world()
    world.memory([500 * MIB], [0])
    before, after = (supplement(world, DAY + minute) for minute in (-1, 1))

    assert [each.containers["web-0"].memory.is_saved for each in (before, after)] == [False, True]
    assert [each.knows_memory for each in (before, after)] == [True, False]
    assert after.containers["web-0"].memory.usage_peak == 500 * MIB


def test_the_peak_of_a_closed_window_counts_once_for_containers_present_or_gone() -> None:
    world = a_world()
    world.memory([500 * MIB], [0])
    weight = world.history().memory_histogram.total_weight

    for pods in ((), ("web-0",)):
        found = restarted(world, DAY + 1, *pods).history().memory_histogram
        assert found.total_weight == pytest.approx(weight)


def test_containers_that_were_never_read_are_not_remembered() -> None:
    assert supplement(a_world(), 0) == Supplement()


def test_of_many_containers_those_with_the_highest_peaks_are_remembered() -> None:
    pods = [f"web-{number}" for number in range(MOST_CONTAINERS + 20)]
    world = a_world(*pods)
    for number, pod in enumerate(pods):
        world.memory([(number + 1) * MIB], [0], pod=pod)

    assert set(supplement(world, 1).containers) == set(pods[20:])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["web-0", "web-1"]),
            st.sampled_from(["cpu", "memory", "oom", "late oom"]),
            st.integers(0, 4000),
        ),
        min_size=1,
        max_size=30,
    ),
    st.integers(0, 30),
)
def test_f1_a_restart_at_any_moment_changes_nothing_of_what_is_known(
    steps: list[tuple[str, str, int]], when: int
) -> None:
    straight, broken = a_world("web-0", "web-1"), a_world("web-0", "web-1")
    for number, (pod, kind, amount) in enumerate(steps):
        minute = number * 200
        if number == when:
            broken = restarted(broken, minute, "web-0", "web-1")
        for world in (straight, broken):
            match kind:
                case "cpu":
                    world.cpu([amount], [minute], pod=pod)
                case "memory":
                    world.memory([amount * MIB], [minute], pod=pod)
                case _:
                    world.oom([amount * MIB], [minute - LATE * (kind != "oom")], pod=pod)
    ours, theirs = broken.history(), straight.history()

    assert ours.total_samples_count == theirs.total_samples_count
    # A checkpoint holds weights as parts of 10 000.
    assert shares(ours.cpu_histogram) == pytest.approx(shares(theirs.cpu_histogram), abs=5)
    assert shares(ours.memory_histogram) == pytest.approx(shares(theirs.memory_histogram), abs=5)
    floors = [world.usage.aggregates.oom_floors().max() for world in (broken, straight)]
    assert floors[0] == floors[1]


def test_a_window_without_usage_is_left_out_once_before_and_after_a_restart() -> None:
    world = a_world("web-0", "web-1")
    world.memory([900 * MIB], [0], pod="web-0")
    world.memory([0], [2000], pod="web-1")
    key = (world.autoscaler.identity, "app")
    before = encode_checkpoints(world.usage, [key[0]], moment(2001))[key]
    world = restarted(world, 2001, "web-0", "web-1")
    after = encode_checkpoints(world.usage, [key[0]], moment(2001))[key]

    assert after.memory_histogram == before.memory_histogram


def test_a_sample_that_was_counted_before_a_restart_is_not_counted_after_it() -> None:
    world = a_world()
    world.cpu([100], [5])
    world = restarted(world, 6, "web-0")

    assert world.cpu([100], [5]).outdated == 1
    assert world.cpu([100], [6]).accepted == 1


def test_the_open_window_of_a_container_that_is_gone_is_not_lost() -> None:
    world = a_world()
    world.memory([2000 * MIB], [0])
    before = world.container().target
    world = restarted(world, 5)

    assert world.container().target == before
    world.pod("web-1", minute=6)
    world.memory([300 * MIB], [6], pod="web-1")
    assert world.container().target[Resource.MEMORY] == before[Resource.MEMORY]


def learn_roles(world: World) -> None:
    """Let one autoscaler be for leaders, another for followers."""
    world.usage.learn(world.autoscaler, a_selector(**WEB, **LEADER))
    world.usage.learn(FOLLOWERS, a_selector(**WEB, **FOLLOWER))


def moved_while_down(stored: Stored, minute: float) -> World:
    """The world after a restart during which the leader became a follower."""
    new = World()
    learn_roles(new)
    for key, (checkpoint, beside) in stored.items():
        new.usage.restore(*key, checkpoint)
        restore_supplement(new.usage, key, beside, moment(minute))
    new.pod("web-0", labels=FOLLOWER, minute=minute)
    settle_expected(new.usage)
    return new


def saved(world: World, minute: float) -> Stored:
    """What is stored of both roles, as far as they know anything."""
    names = [world.autoscaler.identity, FOLLOWERS.identity]
    checkpoints = encode_checkpoints(world.usage, names, moment(minute))
    beside = collect_supplements(world.usage, checkpoints, {}, moment(minute))
    return {key: (checkpoint, beside[key]) for key, checkpoint in checkpoints.items()}


@pytest.mark.parametrize(
    "minute",
    [
        pytest.param(5, id="its window is still open"),
        pytest.param(DAY + 5, id="its window has just ended"),
        pytest.param(3 * DAY, id="its window ended long ago"),
    ],
)
def test_s25a_a_peak_stays_with_its_role_when_that_moves_during_a_restart(minute: int) -> None:
    world = World()
    learn_roles(world)
    world.pod("web-0", labels=LEADER)
    world.memory([4096 * MIB], [1])
    world.cpu([2000], [1])
    before = world.history().memory_histogram
    again = moved_while_down(saved(world, minute), minute)
    outdated = again.cpu([2000], [1])
    again.cpu([100], [minute + 1])
    again.memory([512 * MIB], [minute + 1])

    assert outdated.outdated == 1
    assert again.history().memory_histogram.total_weight == pytest.approx(before.total_weight)
    assert shares(again.history().memory_histogram) == shares(before)
    (target,) = again.viewing(FOLLOWERS).recommendation().containers
    assert target.target[Resource.MEMORY] < 700 * MIB


def test_s25a_two_roles_that_remember_the_same_pod_both_keep_its_peaks() -> None:
    world = World()
    learn_roles(world)
    world.pod("web-0", labels=LEADER)
    world.memory([4096 * MIB], [1])
    as_leader = saved(world, 2)
    world.pod("web-0", labels=FOLLOWER, minute=3)
    world.memory([512 * MIB], [4])
    again = moved_while_down(saved(world, 5) | as_leader, 6)
    again.memory([600 * MIB], [7])
    world.memory([600 * MIB], [7])

    assert again.history().memory_histogram == world.history().memory_histogram
    ours, theirs = again.viewing(FOLLOWERS).history(), world.viewing(FOLLOWERS).history()
    assert ours.memory_histogram == theirs.memory_histogram


def test_a_container_that_is_tracked_already_is_not_overwritten() -> None:
    world = a_world()
    world.cpu([100], [5])
    key = (world.autoscaler.identity, "app")
    stored = world.checkpoint(5)
    old = replace(supplement(world, 5).containers["web-0"].memory, last_cpu=0.0)
    world.usage.restore(*key, stored)
    beside = Supplement(containers={"web-0": SavedContainer(old)})
    restore_supplement(world.usage, key, beside, moment(5))

    assert world.usage.drain_expected() == []


def test_whoever_was_forgotten_in_between_takes_nothing_over() -> None:
    world = a_world()
    world.memory([500 * MIB], [0])
    key = (world.autoscaler.identity, "app")
    beside = supplement(world, 1)
    world.usage.restore(*key, world.checkpoint(1))
    world.usage.forget(PodName("default", "web-0"))
    restore_supplement(world.usage, key, beside, moment(1))
    world.usage.unlearn(key[0])
    settle_expected(world.usage)

    assert world.usage.drain_expected() == []


def test_f2_a_pod_that_ended_long_ago_is_forgotten_without_its_peak_after_a_restart() -> None:
    world = a_world()
    world.cpu([100], [0])
    world.memory([500 * MIB], [0])
    day = 24 * 60.0
    again = restarted(world, 20 * day, "web-0")
    before = again.container().target
    ended = {PodName("default", "web-0")}
    forgotten = collect_garbage(again.usage, moment(29 * day), ended=ended, abandoned=set())

    assert forgotten.aggregates == 1
    assert before[Resource.MEMORY] > 500 * MIB
    assert again.container().target == before


def test_rows_of_containers_are_found_by_columns() -> None:
    world = a_world("web-0", "web-1")
    namespaces, names = ("default",) * 3, ("app", "app", "app")
    found = world.usage.find_containers(namespaces, ("web-1", "web-9", "web-0"), names)

    assert found.tolist() == [world.row("web-1"), -1, world.row("web-0")]
    world.usage.forget(PodName("default", "web-1"))
    assert world.usage.find_containers(("default",), ("web-1",), ("app",)).tolist() == [-1]
    world.usage.track(PodName("default", "web-0"), WEB, ["other"], moment(1))
    assert world.usage.find_containers(("default",), ("web-0",), ("app",)).tolist() == [-1]


def test_f1_a_kill_after_a_restart_asks_for_as_much_as_without_it() -> None:
    straight, broken = a_world(), a_world()
    for world in (straight, broken):
        world.memory([6 * MIB], [0])
    broken = restarted(broken, DAY + 1, "web-0")
    for world in (straight, broken):
        world.oom([MIB], [DAY + 1])
    floors = [world.usage.aggregates.oom_floors().max() for world in (broken, straight)]

    assert floors[0] == floors[1]
