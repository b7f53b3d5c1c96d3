from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import MIB, an_autoscaler
from support.makers.usage import BEGIN, DAY, WEB, World, a_selector, moment

from trimtab.core.histogram.checkpoint import AggregateCheckpoint, HistogramCheckpoint
from trimtab.core.model.selectors import LabelRequirement, Operator, Selector, fingerprint
from trimtab.core.usage.aggregates import UsageSettings
from trimtab.core.usage.checkpoints import encode_checkpoints, is_about_pods_of, is_lighter
from trimtab.core.usage.containers import PodName


def a_world(*containers: str) -> World:
    world = World()
    world.pod("web-0", *containers)
    return world


def weight(histogram: HistogramCheckpoint) -> float:
    """The total weight as it counted at the beginning, whatever the reference is."""
    days = ((histogram.reference_time or BEGIN) - BEGIN) / timedelta(days=1)
    return float(histogram.total_weight * 2**days)


def test_a_checkpoint_says_when_and_how_often_cpu_was_sampled() -> None:
    world = a_world("app")
    world.cpu([100, 100, 100], [1, 2, 5])
    saved = world.checkpoint(7)

    assert saved.first_sample_start == moment(1)
    assert saved.last_sample_start == moment(5)
    assert saved.total_samples_count == 3
    assert saved.last_update_time == moment(7)
    assert saved.version == "v3"


def test_there_is_one_checkpoint_for_each_container_name() -> None:
    world = a_world("app", "side")
    world.pod("web-1", "app", "init", labels={"rev": "2"})
    identity = world.autoscaler.identity

    saved = encode_checkpoints(world.usage, [identity], moment(0))
    assert list(saved) == [(identity, "app"), (identity, "init"), (identity, "side")]
    assert encode_checkpoints(world.usage, [], moment(0)) == {}


def test_nothing_known_is_saved_as_nothing() -> None:
    assert a_world("app").checkpoint(0) == AggregateCheckpoint(last_update_time=moment(0))


def test_the_peak_of_an_open_window_is_left_out() -> None:
    world = a_world("app")
    world.memory([500 * MIB, 300 * MIB], [0, DAY + 1])

    still_open, closed = world.checkpoint(DAY + 2), world.checkpoint(3 * DAY)
    assert len(world.history().memory_histogram.bucket_weights) == 2
    assert len(still_open.memory_histogram.bucket_weights) == 1
    assert closed.memory_histogram == world.history().memory_histogram


def test_what_an_oom_kill_showed_in_an_open_window_is_left_out_too() -> None:
    world = a_world("app")
    world.memory([500 * MIB], [0])
    world.oom([900 * MIB], [1])

    assert world.checkpoint(2).memory_histogram.total_weight == 0


def test_the_open_window_of_a_dead_pod_is_not_left_out() -> None:
    world = a_world("app")
    world.memory([500 * MIB], [0])
    world.usage.forget(PodName("default", "web-0"))

    assert world.checkpoint(1).memory_histogram == world.history().memory_histogram


def test_an_open_window_is_left_out_of_every_autoscaler_that_learned_from_it() -> None:
    world = a_world("app")
    other, stranger = an_autoscaler(name="other"), an_autoscaler(name="stranger")
    world.usage.learn(other, a_selector(**WEB))
    world.usage.learn(stranger, a_selector(app="stranger"))
    world.usage.track(PodName("default", "s"), {"app": "stranger"}, ["app"], moment(0))
    world.memory([500 * MIB], [0])
    names = [one.identity for one in (world.autoscaler, other, stranger)]

    saved = encode_checkpoints(world.usage, names, moment(1))
    assert [one.memory_histogram.total_weight for one in saved.values()] == [0, 0, 0]
    assert world.history().memory_histogram.total_weight > 0


def test_saving_changes_nothing_that_is_known() -> None:
    world = a_world("app")
    world.cpu([100], [1])
    world.memory([500 * MIB], [1])
    before = world.history()
    world.checkpoint(2)

    assert world.history() == before


def test_f1_ten_restarts_lose_no_weight_but_by_decay() -> None:
    world = a_world("app")
    for restart in range(10):
        start = restart * 700
        minutes = range(start, start + 690, 10)
        world.cpu([400] * len(minutes), minutes)
        world.memory([600 * MIB] * len(minutes), minutes)
        before, count = world.history(), world.history().total_samples_count
        world = world.restarted(start + 690)
        world.pod("web-0", "app", minute=start + 691)
        world.cpu([400], [start + 691])
        world.memory([600 * MIB], [start + 691])
        after = world.history()

        assert after.total_samples_count == count + 1
        assert after.first_sample_start == moment(0)
        assert weight(after.cpu_histogram) > weight(before.cpu_histogram)
        assert weight(after.memory_histogram) >= weight(before.memory_histogram) * (1 - 1e-9)
        assert after.memory_histogram.bucket_weights.keys() == {29}


def test_f1_restarts_without_any_sample_between_them_lose_nothing() -> None:
    world = a_world("app")
    world.cpu([400] * 60, range(60))
    world.memory([600 * MIB, 500 * MIB], [0, DAY])
    saved = world.checkpoint(DAY + 1)
    for _ in range(10):
        world = world.restarted(DAY + 1)

    assert world.checkpoint(DAY + 1) == saved


def test_f2_a_restart_while_no_pod_is_there_keeps_the_recommendation() -> None:
    world = a_world("app")
    minutes = range(3 * DAY, 3 * DAY + 600)
    world.cpu([400] * 600, minutes)
    world.memory([600 * MIB], [0])
    before = world.container()
    after = world.restarted(3 * DAY + 601).container()

    assert after == before


readings = st.lists(
    st.tuples(st.integers(0, 4 * DAY), st.integers(0, 5000), st.integers(0, 10**10), st.booleans()),
    min_size=1,
    max_size=12,
).map(sorted)


@given(readings)
def test_f1_no_restart_anywhere_in_a_history_loses_weight(
    script: list[tuple[int, int, int, bool]],
) -> None:
    world = a_world("app")
    for minute, cpu, memory, restarts in script:
        before = world.history()
        if restarts:
            world = world.restarted(minute)
            world.pod("web-0", "app", minute=minute)
        world.cpu([cpu], [minute])
        world.memory([memory], [minute])
        after = world.history()

        assert after.total_samples_count >= before.total_samples_count
        for old, new in (
            (before.cpu_histogram, after.cpu_histogram),
            (before.memory_histogram, after.memory_histogram),
        ):
            assert weight(new) >= weight(old) * (1 - 1e-9)


@given(readings)
def test_a_restored_checkpoint_is_saved_again_unchanged(
    script: list[tuple[int, int, int, bool]],
) -> None:
    world = a_world("app")
    for minute, cpu, memory, _ in script:
        world.cpu([cpu], [minute])
        world.memory([memory], [minute])
    saved = world.checkpoint(10 * DAY)
    again = world.restarted(10 * DAY).checkpoint(10 * DAY)

    for old, new in (
        (saved.cpu_histogram, again.cpu_histogram),
        (saved.memory_histogram, again.memory_histogram),
    ):
        assert new.bucket_weights == old.bucket_weights
        assert new.reference_time == old.reference_time
        assert new.total_weight == pytest.approx(old.total_weight, rel=1e-12)


def test_f2_without_a_target_nothing_is_saved_over_what_is_known() -> None:
    world = a_world("app")
    world.cpu([100], [1])
    world = world.restarted(2)
    world.pod("web-0", "app", minute=3)
    world.cpu([100], [4])
    identity = world.autoscaler.identity
    world.usage.learn(world.autoscaler, None)
    assert encode_checkpoints(world.usage, [identity], moment(5)) == {}
    world.usage.learn(world.autoscaler, a_selector(**WEB))

    assert world.checkpoint(6).total_samples_count == 2


LEADERS, FOLLOWERS = a_selector(role="leader"), a_selector(role="follower")


@pytest.mark.parametrize(
    ("selector", "saved_under", "expected"),
    [
        pytest.param(None, None, True, id="no selector then and now"),
        pytest.param(Selector(), None, True, id="a selector for all pods is none"),
        pytest.param(None, Selector(), True, id="nor was it one then"),
        pytest.param(LEADERS, LEADERS, True, id="the same selector"),
        pytest.param(
            LEADERS,
            Selector((LabelRequirement("role", Operator.IN, ("leader", "leader")),)),
            True,
            id="the same pods in other words",
        ),
        pytest.param(LEADERS, FOLLOWERS, False, id="another selector"),
        pytest.param(LEADERS, None, False, id="a selector that is new"),
        pytest.param(None, LEADERS, False, id="a selector that is gone"),
    ],
)
def test_s27_a_checkpoint_counts_for_the_pods_that_it_describes(
    selector: Selector | None, saved_under: Selector | None, *, expected: bool
) -> None:
    assert is_about_pods_of(selector, fingerprint(saved_under)) is expected


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        pytest.param("", True, id="an empty annotation is none"),
        pytest.param("0badc0de", False, id="a fingerprint of no selector that we know"),
    ],
)
def test_s27_odd_fingerprints_are_no_error(stored: str, *, expected: bool) -> None:
    assert is_about_pods_of(None, stored) is expected
    assert not is_about_pods_of(LEADERS, stored)


FULL = HistogramCheckpoint(BEGIN, {8: 10000, 9: 5000}, 10.0)
LESS = HistogramCheckpoint(BEGIN, {8: 10000}, 9.0)
DOUBLED = HistogramCheckpoint(BEGIN + timedelta(days=1), {8: 10000, 9: 5000}, 10.0)
HALVED = HistogramCheckpoint(BEGIN + timedelta(days=1), {8: 10000, 9: 5000}, 5.0)
NOTHING = HistogramCheckpoint()


@pytest.mark.parametrize(
    ("ours", "stored", "expected"),
    [
        pytest.param(FULL, FULL, False, id="equal"),
        pytest.param(LESS, FULL, True, id="a tenth is missing"),
        pytest.param(FULL, LESS, False, id="more"),
        pytest.param(HALVED, FULL, False, id="decay is no loss"),
        pytest.param(FULL, DOUBLED, True, id="the same number weighs more a day later"),
        pytest.param(NOTHING, FULL, True, id="everything is missing"),
        pytest.param(NOTHING, NOTHING, False, id="nothing is missing of nothing"),
        pytest.param(
            NOTHING, HistogramCheckpoint(BEGIN, {8: 0}, 5.0), False, id="nothing but zeros"
        ),
        pytest.param(
            LESS, HistogramCheckpoint(BEGIN, {999: 1}, 90.0), False, id="nobody can read it"
        ),
    ],
)
def test_f1_weights_are_compared_as_of_one_moment(
    ours: HistogramCheckpoint, stored: HistogramCheckpoint, *, expected: bool
) -> None:
    settings = UsageSettings()

    for_cpu = (AggregateCheckpoint(ours, FULL), AggregateCheckpoint(stored, FULL))
    assert is_lighter(*for_cpu, settings) is expected
    for_memory = (AggregateCheckpoint(FULL, ours), AggregateCheckpoint(FULL, stored))
    assert is_lighter(*for_memory, settings) is expected


def test_a_checkpoint_of_another_version_holds_nothing() -> None:
    stored = AggregateCheckpoint(FULL, FULL, version="v2")

    assert not is_lighter(AggregateCheckpoint(), stored, UsageSettings())
