import math
from datetime import timedelta
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import MIB, an_autoscaler
from support.makers.usage import BEGIN, DAY, LATER, World, a_selector, moment, samples

from trimtab.core.histogram.checkpoint import AggregateCheckpoint, HistogramCheckpoint
from trimtab.core.model.autoscalers import ContainerPolicy
from trimtab.core.usage.aggregates import UsageSettings
from trimtab.core.usage.samples import MOST_BYTES, MOST_MILLICORES, SampleCounts, Samples

ENDLESS = float("inf")
NOT_A_NUMBER = float("nan")
NOW = LATER.timestamp()


def a_world(**fields: object) -> World:
    world = World(**fields)  # type: ignore[arg-type]
    world.pod("web-0", "app")
    return world


def test_a_cpu_sample_must_be_strictly_newer_than_the_last_one() -> None:
    world = a_world()

    assert world.cpu([100, 200, 300], [1, 2, 2]) == SampleCounts(accepted=2, outdated=1)
    assert world.cpu([100, 100, 100], [2, 1, 3]) == SampleCounts(accepted=1, outdated=2)
    assert world.history().total_samples_count == 3


def test_a_memory_sample_may_be_as_old_as_the_last_one() -> None:
    world = a_world()

    assert world.memory([1, 2, 3], [1, 2, 2]) == SampleCounts(accepted=3)
    assert world.memory([1, 1], [1, 2]) == SampleCounts(accepted=1, outdated=1)


def test_late_samples_of_one_container_do_not_hold_up_another() -> None:
    world = a_world()
    world.pod("web-1", "app")
    world.cpu([100], [10])
    mixed = samples([world.row("web-1"), world.row(), world.row("web-1")], [1, 1, 1], [5, 5, 6])

    taken = world.usage.add_cpu(mixed, NOW)

    assert taken.counts == SampleCounts(accepted=2, outdated=1)


@pytest.mark.parametrize(
    ("value", "minute"),
    [
        pytest.param(NOT_A_NUMBER, 1, id="usage that is not a number"),
        pytest.param(ENDLESS, 1, id="endless usage"),
        pytest.param(-1, 1, id="negative usage"),
        pytest.param(1, NOT_A_NUMBER, id="a time that is not a number"),
        pytest.param(1, ENDLESS, id="a time that never comes"),
        pytest.param(1, -1e9, id="a time before there were clusters"),
        pytest.param(1, 1e12, id="a time after the end of durations"),
    ],
)
def test_f13_absurd_samples_are_refused_and_counted(value: float, minute: float) -> None:
    world = a_world()

    for add in (world.cpu, world.memory, world.oom):
        assert add([value], [minute]) == SampleCounts(absurd=1)
    assert world.history() == AggregateCheckpoint()


CENTURIES = 200 * 365 * DAY


def test_f1_f13_samples_from_the_future_neither_wipe_nor_mute() -> None:
    world = a_world(now=moment(100))
    world.cpu([500] * 100, range(100))
    world.memory([1e9] * 100, range(100))
    before = world.history()
    for add in (world.cpu, world.memory, world.oom):
        assert add([1], [CENTURIES]) == SampleCounts(absurd=1)

    assert world.history() == before
    assert world.cpu([500], [100]) == SampleCounts(accepted=1)
    assert world.memory([1e9], [100]) == SampleCounts(accepted=1)


@pytest.mark.parametrize(
    ("minute", "expected"),
    [
        pytest.param(104, SampleCounts(accepted=1), id="a node's clock that is ahead a little"),
        pytest.param(
            105, SampleCounts(accepted=1), id="a clock that is ahead as far as is allowed"
        ),
        pytest.param(105.1, SampleCounts(absurd=1), id="a clock that is wrong"),
    ],
)
def test_clocks_may_differ_by_a_few_minutes(minute: float, expected: SampleCounts) -> None:
    world = a_world(now=moment(100))

    for add in (world.cpu, world.memory, world.oom):
        assert add([1], [minute]) == expected


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        pytest.param("add_cpu", [(10, 1), (30, 3)], id="CPU, only newer samples"),
        pytest.param("add_memory", [(10, 1), (20, 1), (30, 3)], id="memory, none that is older"),
        pytest.param("add_oom_kills", [(10, 1), (20, 1), (30, 3), (40, 2)], id="OOM kills"),
    ],
)
def test_the_intake_returns_the_samples_that_it_accepts(
    method: str, expected: list[tuple[float, float]]
) -> None:
    world = a_world()
    given = samples(world.row(), [10, 20, 30, 40, -5], [1, 1, 3, 2, 4])

    accepted = getattr(world.usage, method)(given, NOW).accepted

    found = zip(accepted.values.tolist(), accepted.times.tolist(), strict=True)
    minutes = [(value, (time - BEGIN.timestamp()) / 60) for value, time in found]
    assert sorted(minutes) == expected


def test_without_a_clock_nothing_is_taken_in() -> None:
    world = a_world()

    taken = world.usage.add_cpu(samples(world.row(), [1], [1]), NOT_A_NUMBER)

    assert taken.counts == SampleCounts(absurd=1)


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [
        pytest.param(
            MOST_MILLICORES, MOST_BYTES, SampleCounts(accepted=1), id="the largest machine"
        ),
        pytest.param(
            2 * MOST_MILLICORES,
            2 * MOST_BYTES,
            SampleCounts(absurd=1),
            id="more than any machine has",
        ),
    ],
)
def test_f13_what_no_machine_can_have_used_is_refused(
    cpu: float, memory: float, expected: SampleCounts
) -> None:
    world = a_world()

    assert world.cpu([cpu], [1]) == expected
    assert world.memory([memory], [1]) == expected
    assert world.oom([memory], [2]) == expected


def test_f13_absurd_samples_do_not_spoil_the_rest_of_their_batch() -> None:
    world = a_world()

    assert world.cpu([NOT_A_NUMBER, 100, -5], [9, 1, 9]) == SampleCounts(accepted=1, absurd=2)
    assert world.cpu([100], [2]) == SampleCounts(accepted=1)


def test_samples_of_unknown_containers_are_refused() -> None:
    world = a_world()

    assert world.cpu([100], [1], name="gone") == SampleCounts(absurd=1)
    assert world.memory([100], [1], pod="gone") == SampleCounts(absurd=1)
    assert world.oom([100], [1], pod="gone") == SampleCounts(absurd=1)


def test_an_empty_batch_changes_nothing() -> None:
    world = a_world()

    assert world.cpu([], []) == world.memory([], []) == world.oom([], []) == SampleCounts()
    assert SampleCounts(1, 2, 3).discarded == 5


@pytest.mark.parametrize(
    ("request_mib", "peak_mib", "expected_mib"),
    [
        pytest.param(1000, 0, 1200, id="a large request grows by a fifth"),
        pytest.param(1, 0, 101, id="a small request grows by a hundred mebibytes"),
        pytest.param(1000, 3000, 3600, id="usage above the request is what grows"),
        pytest.param(0, 0, 100, id="a container without a request gets the least bump"),
    ],
)
def test_an_oom_kill_shows_what_was_needed(
    request_mib: int, peak_mib: int, expected_mib: int
) -> None:
    world = a_world()
    world.memory([peak_mib * MIB], [0])
    world.oom([request_mib * MIB], [1])

    assert world.usage.containers.floats("oom_peak")[world.row()] == expected_mib * MIB


def test_a_repeated_kill_with_a_smaller_request_changes_nothing() -> None:
    world = a_world()
    world.oom([1000 * MIB, 500 * MIB], [0, 1])
    once = world.history()
    world.oom([2000 * MIB], [2])

    assert world.usage.containers.floats("oom_peak")[world.row()] == 2400 * MIB
    assert once.memory_histogram.total_weight == world.history().memory_histogram.total_weight


def test_a_kill_does_not_grow_on_what_an_earlier_kill_showed() -> None:
    world = a_world()
    world.oom([1000 * MIB] * 5, range(5))

    assert world.usage.containers.floats("oom_peak")[world.row()] == 1200 * MIB


def test_a_kill_may_be_late_but_not_by_more_than_an_interval() -> None:
    world = a_world()
    world.memory([100 * MIB], [2 * DAY])

    assert world.oom([MIB, MIB], [DAY - 1, DAY]) == SampleCounts(accepted=1, outdated=1)


def test_f6_a_kill_just_before_the_edge_of_a_window_is_booked_once() -> None:
    world = a_world()
    world.memory([200 * MIB, 210 * MIB], [0, DAY + 1])
    before = world.history().memory_histogram.total_weight
    world.oom([300 * MIB], [DAY - 1])

    assert world.history().memory_histogram.total_weight == before
    assert world.usage.containers.floats("oom_peak")[world.row()] == 400 * MIB


def test_f10_a_kill_before_any_sample_gives_a_recommendation() -> None:
    world = a_world()
    assert world.recommendation().lacks_samples
    world.oom([500 * MIB], [0])

    (container,) = world.recommendation().containers
    assert container.target["memory"] > 600 * MIB  # type: ignore[index]


def test_f15_no_storm_of_kills_proves_a_need_above_the_largest_node() -> None:
    world = a_world()
    for minute in range(250):
        request = world.container().target if minute else {}
        amount = max(request.values(), default=128 * MIB)
        world.usage.add_oom_kills(samples(world.row(), [amount], [minute]), NOW, 4096 * MIB)

    assert world.usage.containers.floats("oom_peak")[world.row()] == 4096 * MIB


def a_policy(**fields: object) -> ContainerPolicy:
    return ContainerPolicy("app", **fields)  # type: ignore[arg-type]


def bumped(world: World) -> float:
    world.oom([1000 * MIB], [0])
    return float(world.usage.containers.floats("oom_peak")[world.row()] / MIB)


@pytest.mark.parametrize(
    ("policy", "expected_mib"),
    [
        pytest.param(a_policy(oom_bump_up_ratio=2.0), 2000, id="a ratio of its own"),
        pytest.param(a_policy(oom_min_bump_up_bytes=600 * MIB), 1600, id="a least bump of its own"),
        pytest.param(
            a_policy(oom_bump_up_ratio=1.0, oom_min_bump_up_bytes=0), 1000, id="no bump at all"
        ),
        pytest.param(a_policy(), 1200, id="nothing said"),
    ],
)
def test_the_policy_of_an_autoscaler_overrides_the_bump(
    policy: ContainerPolicy, expected_mib: int
) -> None:
    assert bumped(a_world(autoscaler=an_autoscaler(policies=(policy,)))) == expected_mib


def test_an_override_ends_with_the_policy_that_set_it() -> None:
    world = a_world(autoscaler=an_autoscaler(policies=(a_policy(oom_bump_up_ratio=2.0),)))
    world.say(policies=())

    assert bumped(world) == 1200


def test_an_override_ends_with_the_autoscaler_that_set_it() -> None:
    world = a_world(autoscaler=an_autoscaler(policies=(a_policy(oom_bump_up_ratio=2.0),)))
    world.usage.unlearn(world.autoscaler.identity)

    assert bumped(world) == 1200


def test_of_two_autoscalers_the_first_by_name_overrides() -> None:
    world = a_world(autoscaler=an_autoscaler(name="b", policies=(a_policy(oom_bump_up_ratio=2.0),)))
    other = an_autoscaler(name="a", policies=(a_policy(oom_bump_up_ratio=3.0),))
    world.usage.learn(other, a_selector(app="web"))

    assert bumped(world) == 3000


def test_overrides_count_for_nothing_while_the_gate_is_off() -> None:
    world = a_world(
        autoscaler=an_autoscaler(policies=(a_policy(oom_bump_up_ratio=2.0),)),
        usage_settings=UsageSettings(allows_overrides=False),
    )

    assert bumped(world) == 1200


amounts = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(-5, 2 * 10**10).map(float),
)
moments = st.one_of(st.integers(-5, 3 * DAY).map(float), st.floats())
methods = st.sampled_from(["add_cpu", "add_memory", "add_oom_kills"])
batches = st.lists(st.tuples(st.integers(-1, 2), amounts, moments), max_size=12)


def three_containers() -> World:
    world = a_world()
    world.pod("web-0", "app", "side")
    world.pod("web-1", "app")
    return world


def as_samples(batch: list[tuple[int, float, float]]) -> Samples:
    containers, values, minutes = zip(*batch, strict=True) if batch else ((), (), ())
    return samples(list(containers), values, minutes)


@given(st.lists(st.tuples(methods, batches), max_size=4))
def test_f13_f28_no_batch_can_crash_the_intake_or_the_estimates(
    feeds: list[tuple[str, list[tuple[int, float, float]]]],
) -> None:
    world = three_containers()
    for method, batch in feeds:
        intake = getattr(world.usage, method)(as_samples(batch), NOW)

        assert intake.counts.accepted + intake.counts.discarded == len(batch)
        assert len(intake.accepted) == intake.counts.accepted
    for container in world.recommendation().containers:
        assert container.lower_bound is not None
        assert container.upper_bound is not None
        for resource, target in container.target.items():
            assert 0 < container.lower_bound[resource] <= target <= container.upper_bound[resource]
    for name in ("app", "side"):
        history = world.history(name)
        assert math.isfinite(history.memory_histogram.total_weight)


sane_batches = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, 10**10).map(float), st.integers(0, 3 * DAY).map(float)
    ),
    min_size=1,
    max_size=25,
)


def weight_at_begin(histogram: HistogramCheckpoint) -> float:
    """The total weight, independent of the reference that the first sample happened to set."""
    days = ((histogram.reference_time or BEGIN) - BEGIN) / timedelta(days=1)
    return float(histogram.total_weight * 2**days)


@given(sane_batches, methods)
def test_one_batch_does_what_its_samples_do_one_by_one(
    batch: list[tuple[int, float, float]], method: str
) -> None:
    together, apart = three_containers(), three_containers()
    total = getattr(together.usage, method)(as_samples(batch), NOW).counts
    one_by_one = [
        getattr(apart.usage, method)(as_samples([sample]), NOW).counts for sample in batch
    ]

    assert sum(one_by_one, start=SampleCounts()) == total
    for name in ("app", "side"):
        ours, theirs = together.history(name), apart.history(name)
        assert (ours.total_samples_count, ours.first_sample_start, ours.last_sample_start) == (
            theirs.total_samples_count,
            theirs.first_sample_start,
            theirs.last_sample_start,
        )
        for one, other in (
            (ours.cpu_histogram, theirs.cpu_histogram),
            (ours.memory_histogram, theirs.memory_histogram),
        ):
            assert one.bucket_weights == other.bucket_weights
            assert weight_at_begin(one) == pytest.approx(weight_at_begin(other))


@given(sane_batches)
def test_the_order_between_containers_does_not_matter(
    batch: list[tuple[int, float, float]],
) -> None:
    by_container = [
        sample
        for _, group in groupby(sorted(batch, key=lambda one: one[0]), key=lambda one: one[0])
        for sample in group
    ]
    mixed, ordered = three_containers(), three_containers()

    total = mixed.usage.add_cpu(as_samples(batch), NOW).counts
    assert total == ordered.usage.add_cpu(as_samples(by_container), NOW).counts
    assert np.array_equal(
        mixed.usage.containers.floats("last_cpu"), ordered.usage.containers.floats("last_cpu")
    )
