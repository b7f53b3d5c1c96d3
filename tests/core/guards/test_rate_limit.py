from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import NOW

from trimtab.core.guards.rate_limit import PaceSettings, begin_pace, refill, spend, time_to_token
from trimtab.core.model.validation import SettingsError

SECOND = timedelta(seconds=1)
STEADY = PaceSettings(per_second=2, burst=4, slow_start=timedelta())


def begun(settings: PaceSettings, seconds: int) -> int:
    """How many changes are begun in so many seconds by somebody who always wants more."""
    now, count = NOW, 0
    pace = begin_pace(now)
    while now - NOW < seconds * SECOND:
        pace = refill(pace, settings, now)
        wait = time_to_token(pace, settings)
        if wait:
            now += wait
        else:
            pace, count = spend(pace), count + 1
    return count


def test_one_change_may_be_made_at_once() -> None:
    assert time_to_token(refill(begin_pace(NOW), STEADY, NOW), STEADY) == timedelta()


def test_tokens_come_back_at_the_rate_up_to_the_burst() -> None:
    pace = spend(begin_pace(NOW))

    assert refill(pace, STEADY, NOW + SECOND).tokens == 2
    assert refill(pace, STEADY, NOW + 60 * SECOND).tokens == 4


def test_a_clock_that_is_set_back_neither_gives_nor_takes() -> None:
    pace = refill(begin_pace(NOW), STEADY, NOW + SECOND)

    assert refill(pace, STEADY, NOW - SECOND).tokens == pace.tokens


@pytest.mark.parametrize(
    ("seconds", "most"),
    [
        pytest.param(60, 1 + 60 * 0.1, id="a tenth in the first minute"),
        pytest.param(600, 1 + 600 * 0.6, id="about half of it while it grows"),
    ],
)
def test_just_after_a_start_the_pace_is_a_part_of_the_full_one(seconds: int, most: float) -> None:
    assert 0 < begun(PaceSettings(), seconds) <= most


def test_after_the_slow_start_the_pace_is_the_full_one() -> None:
    settings = PaceSettings()
    late = refill(begin_pace(NOW), settings, NOW + settings.slow_start)

    assert late.tokens == settings.burst
    assert refill(spend(late), settings, late.counted_at + SECOND).tokens == settings.burst


@given(
    per_second=st.floats(0.01, 50),
    burst=st.integers(1, 20),
    slow=st.integers(0, 600),
    seconds=st.integers(1, 120),
)
def test_never_are_more_changes_begun_than_rate_and_burst_allow(
    per_second: float, burst: int, slow: int, seconds: int
) -> None:
    settings = PaceSettings(per_second, burst, slow * SECOND)

    assert begun(settings, seconds) <= burst + per_second * seconds + 1


@pytest.mark.parametrize("fields", [{"burst": 0}, {"slow_start": -SECOND}])
def test_what_makes_no_sense_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        PaceSettings(**fields)  # type: ignore[arg-type]
