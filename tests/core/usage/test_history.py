"""History beside live samples and checkpoints: each sample counts once, as if it had been live."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.usage import BEGIN, DAY, WEB, World, a_selector, moment

from trimtab.core.histogram.checkpoint import AggregateCheckpoint, HistogramCheckpoint
from trimtab.core.model.autoscalers import ContainerPolicy, TargetReference
from trimtab.core.model.resources import Resource
from trimtab.core.usage.history import HistoryReplay
from trimtab.core.usage.history_samples import PastPod, PastUsage, Series, gather
from trimtab.core.usage.samples import SampleCounts

MIB = 2**20
GONE = {"web-9": PastPod(WEB)}


def past(
    values: Sequence[float],
    minutes: Sequence[float],
    pod: str = "web-0",
    name: str = "app",
) -> PastUsage:
    times = BEGIN.timestamp() + 60 * np.asarray(minutes, np.float64)
    return gather([Series((pod, name), times, np.asarray(values, np.float64))])


def a_replay(world: World, pods: Mapping[str, PastPod] | None = None) -> HistoryReplay:
    identity = world.autoscaler.identity
    return HistoryReplay(world.usage, identity.namespace, [identity], pods or {})


def remember(
    world: World, cpu: PastUsage, minute: float, pods: Mapping[str, PastPod] = GONE
) -> SampleCounts:
    """The whole history of a namespace is read."""
    replay = a_replay(world, pods)
    intake = replay.add(Resource.CPU, cpu, moment(minute))
    replay.finish(moment(minute))
    return intake


def same(ours: AggregateCheckpoint, theirs: AggregateCheckpoint) -> bool:
    """Whether two histories are equal but for the order in which sums were made."""
    bare = HistogramCheckpoint()
    return (
        weights(ours.cpu_histogram) == pytest.approx(weights(theirs.cpu_histogram), abs=2)
        and weights(ours.memory_histogram) == pytest.approx(weights(theirs.memory_histogram), abs=2)
        and replace(ours, cpu_histogram=bare, memory_histogram=bare)
        == replace(theirs, cpu_histogram=bare, memory_histogram=bare)
    )


def weights(histogram: HistogramCheckpoint) -> dict[int, float]:
    """The weights of all buckets, and under -1 how heavy all of it was at one moment."""
    days = ((histogram.reference_time or BEGIN) - BEGIN) / timedelta(days=1)
    return {**histogram.bucket_weights, -1: 1e4 * histogram.total_weight * 2**days}


readings = st.lists(
    st.tuples(st.integers(1, 700), st.integers(0, 2000), st.integers(0, 4000)),
    min_size=1,
    max_size=25,
)
"""Minutes since the reading before, millicores, MiB."""


@given(told=readings, seam=st.integers(0, 25), cut=st.integers(0, 25))
def test_history_and_live_samples_make_what_live_samples_alone_would(
    told: list[tuple[int, int, int]], seam: int, cut: int
) -> None:
    minutes = list(accumulate(float(gap) for gap, _, _ in told))
    cpu = [float(value) for _, value, _ in told]
    memory = [float(value * MIB) for _, _, value in told]
    end = minutes[-1]
    alone, both = World(now=moment(end)), World(now=moment(end))
    for world in (alone, both):
        world.pod()
    alone.cpu(cpu, minutes)
    alone.memory(memory, minutes)
    now = moment(minutes[seam - 1]) if 0 < seam <= len(told) else moment(0)
    replay = a_replay(both)
    for part in (slice(0, min(cut, seam)), slice(min(cut, seam), seam)):
        replay.add(Resource.CPU, past(cpu[part], minutes[part]), moment(end))
        replay.add(Resource.MEMORY, past(memory[part], minutes[part]), moment(end))
    replay.finish(now)
    # What history knows is read live once more, as at the seam.
    both.cpu(cpu, minutes)
    both.memory(memory[max(0, seam - 1) :], minutes[max(0, seam - 1) :])

    assert same(both.history(), alone.history())


@given(told=readings, seam=st.integers(1, 24), late=st.integers(0, 24))
def test_history_that_comes_late_counts_no_cpu_sample_twice_and_loses_none(
    told: list[tuple[int, int, int]], seam: int, late: int
) -> None:
    minutes = list(accumulate(float(gap) for gap, _, _ in told))
    cpu = [float(value) for _, value, _ in told]
    end = minutes[-1]
    alone, both = World(now=moment(end)), World(now=moment(end))
    for world in (alone, both):
        world.pod(minute=minutes[min(seam, len(told) - 1)])
    alone.cpu(cpu, minutes)
    first, second = seam, seam + late
    both.cpu(cpu[first:second], minutes[first:second])
    # Prometheus has seen all the time what was read live.
    remember(both, past(cpu[:second], minutes[:second]), end)
    both.cpu(cpu[second:], minutes[second:])

    assert same(both.history(), alone.history())


def test_a_peak_of_the_past_in_an_open_window_is_replaced_by_a_higher_one() -> None:
    world = World(now=moment(120))
    world.pod()
    replay = a_replay(world)
    replay.add(Resource.MEMORY, past([500 * MIB, 400 * MIB], [0, 60]), moment(60))
    replay.finish(moment(60))
    world.memory([900 * MIB], [120])
    weights = world.history().memory_histogram.bucket_weights

    assert len(weights) == 1
    assert world.container().target[Resource.MEMORY] > 900 * MIB


def test_a_container_that_is_read_while_history_comes_goes_on_in_its_window() -> None:
    world = World(now=moment(300))
    world.pod()
    replay = a_replay(world)
    replay.add(Resource.MEMORY, past([500 * MIB, 400 * MIB], [0, 60]), world.now)
    world.memory([900 * MIB], [120])
    replay.finish(world.now)
    alone = World(now=moment(300))
    alone.pod()
    alone.memory([500 * MIB, 400 * MIB, 900 * MIB], [0, 60, 120])

    assert same(world.history(), alone.history())


def test_windows_of_the_past_lie_as_those_that_run() -> None:
    world = World(now=moment(3 * DAY))
    world.pod(minute=2 * DAY)
    world.memory([300 * MIB], [2 * DAY])
    replay = a_replay(world)
    replay.add(Resource.MEMORY, past([500.0 * MIB] * 47, range(60, 2 * DAY, 60)), world.now)
    replay.finish(world.now)
    total = world.history().memory_histogram.total_weight

    # Two whole windows before the seam and one after it, each twice as heavy as the one before.
    assert total == pytest.approx(0.25 + 0.5 + 1)


def test_what_a_checkpoint_covers_is_not_learned_again() -> None:
    world = World(now=moment(300))
    world.pod()
    world.cpu([100] * 3, [100, 110, 120])
    again = world.restarted(120)
    again.pod(minute=140)
    intake = remember(again, past([100] * 5, [90, 100, 110, 120, 130]), 300)
    known = again.history()

    assert intake == SampleCounts(accepted=2, outdated=3)
    assert known.total_samples_count == 5
    assert known.first_sample_start == moment(90)
    assert known.last_sample_start == moment(130)


def test_a_checkpoint_of_memory_alone_covers_everything_before_it() -> None:
    world = World(now=moment(3 * DAY))
    world.pod()
    world.memory([100 * MIB], [100])
    again = world.restarted(2 * DAY)
    replay = a_replay(again, GONE)
    several = past([300 * MIB, 300 * MIB], [200, 2 * DAY + 1], pod="web-9")
    intake = replay.add(Resource.MEMORY, several, world.now)

    assert intake == SampleCounts(accepted=1, outdated=1)


def test_what_was_read_live_is_not_learned_again() -> None:
    world = World(now=moment(300))
    world.pod()
    world.cpu([100, 100], [100, 110])
    intake = remember(world, past([100] * 4, [80, 90, 100, 105]), 300)

    assert intake == SampleCounts(accepted=2, outdated=2)
    assert world.history().total_samples_count == 4


def test_a_live_sample_that_history_knows_does_not_count_again() -> None:
    world = World(now=moment(300))
    world.pod()
    remember(world, past([100], [100]), 300)
    refused = world.cpu([100], [100])
    taken = world.cpu([100], [101])

    assert refused == SampleCounts(outdated=1)
    assert taken == SampleCounts(accepted=1)


def test_pods_that_are_gone_are_told_by_the_labels_that_they_had() -> None:
    world = World(now=moment(300))
    world.pod()
    series = [past([700], [10], pod=pod) for pod in ("web-9", "other-9", "unknown-9")]
    replay = a_replay(world, {"web-9": PastPod(WEB), "other-9": PastPod({"app": "other"})})
    accepted = [replay.add(Resource.CPU, one, world.now).accepted for one in series]
    replay.finish(world.now)

    assert accepted == [1, 0, 0]
    assert world.history().total_samples_count == 1


OWNERS = (("ReplicaSet", "web-1"), ("Deployment", "web"))


@pytest.mark.parametrize(
    ("pod", "changes", "accepted"),
    [
        pytest.param(PastPod(owners=OWNERS), {}, 1, id="its target owned the pod"),
        pytest.param(
            PastPod(owners=(("Deployment", "other"),)), {}, 0, id="another one owned the pod"
        ),
        pytest.param(
            PastPod({"app": "other"}, OWNERS), {}, 0, id="labels are believed before owners"
        ),
        pytest.param(
            PastPod(owners=OWNERS),
            {"selector": a_selector(track="beta")},
            0,
            id="an owner does not tell which of its pods it was",
        ),
    ],
)
def test_pods_without_labels_are_told_by_their_owners(
    pod: PastPod, changes: dict[str, object], accepted: int
) -> None:
    world = World(now=moment(300))
    world.say(target=TargetReference("Deployment", "web", "apps/v1"), **changes)
    world.pod()
    intake = remember(world, past([700], [10], pod="web-9"), 300, {"web-9": pod})

    assert intake.accepted == accepted


def test_the_labels_of_a_pod_that_runs_are_those_that_it_has_now() -> None:
    world = World(now=moment(300))
    world.pod()
    remember(world, past([700], [10]), 300, {"web-0": PastPod({"app": "other"})})

    assert world.history().total_samples_count == 1


def test_a_container_that_no_pod_has_any_more_is_not_learned() -> None:
    world = World(now=moment(300))
    world.pod()
    intake = remember(world, past([700], [10], pod="web-9", name="old"), 300)

    assert intake == SampleCounts()
    assert {one.container_name for one in world.recommendation().containers} <= {"app"}


def test_without_pods_every_container_of_the_past_is_learned() -> None:
    world = World(now=moment(300))
    remember(world, past([700], [10], pod="web-9", name="job"), 300)

    assert world.container("job").target[Resource.CPU] > 700


def test_two_autoscalers_of_the_same_pods_know_the_same() -> None:
    world = World(now=moment(300))
    other = replace(world.autoscaler, name="second", uid="second")
    world.usage.learn(other, a_selector(**WEB))
    world.pod()
    names = [world.autoscaler.identity, other.identity]
    replay = HistoryReplay(world.usage, world.autoscaler.namespace, names, {})
    replay.add(Resource.CPU, past([700, 700], [10, 20]), world.now)
    replay.add(Resource.MEMORY, past([500 * MIB, 700 * MIB], [10, 20]), world.now)
    finished = replay.finish(world.now)
    world.memory([600 * MIB], [30])

    assert finished == set(names)
    assert same(world.viewing(other).history(), world.history())
    assert len(world.history().memory_histogram.bucket_weights) == 1


def test_nothing_is_known_before_all_of_it_is_there() -> None:
    world = World(now=moment(300))
    world.pod()
    replay = a_replay(world)
    replay.add(Resource.CPU, past([700], [10]), world.now)
    before = world.history()
    replay.finish(world.now)

    assert before.total_samples_count == 0
    assert world.history().total_samples_count == 1


@pytest.mark.parametrize("is_finished", [False, True])
def test_history_of_other_pods_leaves_nothing_behind(*, is_finished: bool) -> None:
    world = World(now=moment(300))
    world.pod()
    rows = len(world.usage.aggregates), len(world.usage.containers)
    replay = a_replay(world)
    replay.add(Resource.CPU, past([700], [10]), world.now)
    world.usage.learn(world.autoscaler, a_selector(app="other"))
    if is_finished:
        assert replay.finish(world.now) == set()
    else:
        replay.abandon()

    assert (len(world.usage.aggregates), len(world.usage.containers)) == rows


def test_samples_that_cannot_be_are_refused_and_counted() -> None:
    world = World(now=moment(30))
    world.pod()
    values = [float("nan"), -1.0, float("inf"), 1e12, 100.0, 100.0]
    intake = remember(world, past(values, [1, 2, 3, 4, 5, 40]), 30)

    assert intake == SampleCounts(accepted=1, absurd=5)


def test_the_policy_of_the_autoscaler_counts_for_its_past_too() -> None:
    world = World(now=moment(300))
    hourly = ContainerPolicy("app", memory_interval=moment(60) - moment(0))
    world.say(policies=(hourly,))
    world.pod()
    replay = a_replay(world, GONE)
    several = past([500 * MIB, 100 * MIB, 100 * MIB], [0, 60, 120], pod="web-9")
    replay.add(Resource.MEMORY, several, world.now)
    replay.finish(world.now)

    assert len(world.history().memory_histogram.bucket_weights) == 2
