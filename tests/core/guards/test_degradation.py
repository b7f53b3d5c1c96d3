from datetime import datetime, timedelta

import pytest
from support.makers.records import NOW, minutes

from trimtab.core.guards.degradation import (
    STOPPED,
    ChangedWorkload,
    Degradation,
    after_change,
    judge,
    restored,
    review,
)
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName, Condition

ONE = AutoscalerName("default", "web")
RECORD = ChangedWorkload(ONE, 1, 4, NOW, NOW)
SHORT = ChangedWorkload(ONE, 1, 4, NOW, NOW, short_since=NOW, ready=2, needed=4)


def test_the_state_before_the_first_change_is_what_later_ones_are_compared_with() -> None:
    first = after_change(None, autoscaler=ONE, generation=1, ready=4, now=NOW)
    second = after_change(first, autoscaler=ONE, generation=1, ready=3, now=NOW + minutes(1))

    assert first == RECORD
    assert second.ready_before == 4
    assert second.changed_at == NOW + minutes(1)


@pytest.mark.parametrize(
    ("record", "ready", "wanted", "generation", "after", "expected"),
    [
        pytest.param(RECORD, 2, 4, 1, minutes(1), NOW + minutes(1), id="fewer are ready"),
        pytest.param(SHORT, 2, 4, 1, minutes(9), NOW, id="fewer have been ready for a while"),
        pytest.param(SHORT, 4, 4, 1, minutes(9), "well", id="it has recovered"),
        pytest.param(RECORD, 2, 2, 1, minutes(1), "well", id="its owner wants no more"),
        pytest.param(RECORD, 4, 4, 1, minutes(10), "forgotten", id="it stays well"),
        pytest.param(
            SHORT, 2, 4, 2, minutes(9), "forgotten", id="an operator edits the autoscaler"
        ),
        pytest.param(SHORT, 2, 4, None, minutes(9), NOW, id="the autoscaler cannot be seen"),
    ],
)
def test_when_a_changed_workload_is_short_of_ready_pods(
    record: ChangedWorkload,
    ready: int,
    wanted: int,
    generation: int | None,
    after: timedelta,
    expected: datetime | str,
) -> None:
    found = review(record, ready=ready, wanted=wanted, generation=generation, now=NOW + after)

    since = "forgotten" if found is None else found.short_since or "well"
    assert since == expected


@pytest.mark.parametrize(
    ("record", "after", "expected"),
    [
        pytest.param(RECORD, minutes(60), None, id="as many are ready as before"),
        pytest.param(SHORT, minutes(4.9), None, id="a successor may need minutes"),
        pytest.param(SHORT, minutes(5), Degradation(2, 4, NOW), id="fewer for five minutes"),
    ],
)
def test_d22_a_workload_is_degraded_when_fewer_pods_are_ready_for_minutes(
    record: ChangedWorkload, after: timedelta, expected: Degradation | None
) -> None:
    assert judge(record, minutes(5), NOW + after) == expected


@pytest.mark.parametrize(
    ("replicas", "ready", "is_short"),
    [
        pytest.param(500, 499, False, id="one pod of 500 comes and goes"),
        pytest.param(500, 475, False, id="one in twenty of 500"),
        pytest.param(500, 474, True, id="more than one in twenty"),
        pytest.param(20, 19, False, id="one of 20"),
        pytest.param(20, 18, True, id="two of 20"),
        pytest.param(19, 18, True, id="one of a smaller workload"),
        pytest.param(1, 0, True, id="the only one"),
    ],
)
def test_d22_one_pod_in_twenty_may_be_missing(replicas: int, ready: int, *, is_short: bool) -> None:
    record = ChangedWorkload(ONE, 1, replicas, NOW, NOW)
    found = review(record, ready=ready, wanted=replicas, generation=1, now=NOW + minutes(1))

    assert found is not None
    assert (found.short_since is not None) == is_short
    # Later changes are compared with all of them, so that they do not dwindle.
    assert found.ready_before == replicas


def after_losses(losses: int, every: timedelta) -> list[bool]:
    """Return for each loss of 4 of 100 pods whether the workload then counts as worse.

    Each follows a change. Between changes the updater looks every minute.
    """
    record: ChangedWorkload | None = None
    now, ready, found = NOW, 100, []
    for _ in range(losses):
        record = after_change(record, autoscaler=ONE, generation=1, ready=ready, now=now)
        ready -= 4
        for _ in range(every // minutes(1)):
            now += minutes(1)
            if record is not None:
                record = review(record, ready=ready, wanted=100, generation=1, now=now)
        found.append(record is not None and record.short_since is not None)
    return found


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        pytest.param(minutes(5), [False, True, True], id="while each change is remembered"),
        pytest.param(minutes(30), [False, True, True], id="after each change is forgotten"),
        pytest.param(minutes(600), [False, True, True], id="over most of a day"),
        pytest.param(minutes(1500), [False, False, False], id="over more than a day each"),
    ],
)
def test_d22_small_losses_add_up_within_a_day(every: timedelta, expected: list[bool]) -> None:
    assert after_losses(3, every) == expected


def test_what_is_missing_for_a_day_is_no_longer_compared_with() -> None:
    record = ChangedWorkload(ONE, 1, 100, NOW, NOW)
    kept = review(record, ready=99, wanted=100, generation=1, now=NOW + minutes(1439))

    assert kept is not None
    assert kept.ready_before == 100
    assert review(kept, ready=99, wanted=100, generation=1, now=NOW + minutes(1440)) is None


def test_pods_that_get_ready_later_are_what_further_changes_are_compared_with() -> None:
    fresh = ChangedWorkload(ONE, 1, 0, NOW, NOW)
    grown = review(fresh, ready=8, wanted=8, generation=1, now=NOW + minutes(2))
    assert grown is not None
    changed = after_change(grown, autoscaler=ONE, generation=1, ready=8, now=NOW + minutes(3))
    short = review(changed, ready=7, wanted=8, generation=1, now=NOW + minutes(4))

    assert short is not None
    assert (short.short_since, short.needed) == (NOW + minutes(4), 8)


def test_a_scale_down_lowers_what_has_to_be_ready_for_good() -> None:
    shrunk = review(RECORD, ready=2, wanted=2, generation=1, now=NOW)
    assert shrunk is not None

    again = review(shrunk, ready=3, wanted=5, generation=1, now=NOW + minutes(1))

    assert again is not None
    assert again.short_since is None


def test_a_restarted_updater_needs_as_many_ready_pods_as_the_last_one() -> None:
    message = f"{Degradation(3, 8, NOW).detail}; edit the autoscaler"
    condition = Condition(STOPPED, "True", message=message, last_transition_time=NOW)
    record = restored(Autoscaler("default", "web", conditions=(condition,)), NOW)

    assert record is not None
    assert record.ready_before == 8
    assert review(record, ready=8, wanted=10, generation=0, now=NOW + minutes(10)) is None


def test_what_an_earlier_updater_said_counts_until_all_wanted_pods_are_ready() -> None:
    condition = Condition(STOPPED, "True", last_transition_time=NOW - minutes(60))
    record = restored(Autoscaler("default", "web", conditions=(condition,)), NOW)

    assert restored(Autoscaler("default", "web"), NOW) is None
    assert record is not None
    short = review(record, ready=3, wanted=4, generation=0, now=NOW)
    assert short is not None
    assert judge(short, minutes(5), NOW) == Degradation(3, 4, NOW - minutes(60))
    assert review(record, ready=4, wanted=4, generation=0, now=NOW + minutes(10)) is None
