"""Saved targets whose times lie in the future."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import NOW
from support.makers.saved_targets import targets

from trimtab.core.histogram.checkpoint import HistogramCheckpoint
from trimtab.core.usage.saved_targets import (
    SavedLevel,
    SavedTarget,
    SavedTargets,
    bring_to_past,
)

HOUR = 3600.0
PRESENT = NOW.timestamp()
CENTURY = 100 * 365 * 24 * HOUR


@given(targets, st.floats(0, 4e9))
def test_no_time_is_left_in_the_future(saved: SavedTargets, now: float) -> None:
    found = bring_to_past(saved, now)
    changed = [each.changed for each in (found.cpu, found.memory) if each is not None]
    times = [found.first, found.now, found.last_kill, *changed]
    times += [level.seconds for level in found.levels]

    assert max(each for each in times if each is not None) <= now + 300
    assert len(found.levels) == len(saved.levels)
    if found.cpu_histogram is not None and found.cpu_histogram.reference_time is not None:
        reference = found.cpu_histogram.reference_time
        assert reference <= datetime.fromtimestamp(found.now, UTC) + timedelta(days=1)


@given(targets)
def test_a_state_of_the_past_stays_as_it_is(saved: SavedTargets) -> None:
    once = bring_to_past(saved, 5e9)

    assert bring_to_past(once, 5e9) == once


def test_ages_stay_the_same_when_a_wrong_clock_is_set_right() -> None:
    wrong = PRESENT + CENTURY
    saved = SavedTargets(
        wrong - 48 * HOUR,
        wrong,
        memory=SavedTarget(2e9, wrong - 30 * HOUR, is_raised=True),
        levels=(SavedLevel(40, wrong - 31 * HOUR, 1.5e9, "web-2"),),
        cpu_histogram=HistogramCheckpoint(datetime.fromtimestamp(wrong, UTC), {3: 10_000}, 100.0),
    )
    found = bring_to_past(saved, PRESENT)

    assert found.now == PRESENT
    assert found.first == PRESENT - 48 * HOUR
    assert found.memory == SavedTarget(2e9, PRESENT - 30 * HOUR, is_raised=True)
    assert found.levels == (SavedLevel(40, PRESENT - 31 * HOUR, 1.5e9, "web-2"),)
    assert found.cpu_histogram is not None
    assert found.cpu_histogram.reference_time == NOW
