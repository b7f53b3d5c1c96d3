from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.histogram.decay import LAST_TIME, ZERO_TIME, Decay, _power_of_two

DAY = timedelta(days=1)
DAY_SECONDS = 86400.0


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def factor(half_lives: float) -> float:
    return float(Decay(DAY).factors(np.array([half_lives * DAY_SECONDS]))[0])


@pytest.mark.parametrize(
    ("exponent", "expected"),
    [
        # Bits that the original's language computes; the C library's differ in the last place.
        pytest.param("-0x1p-1", "0x1.6a09e667f3bccp-1", id="half a half-life ago"),
        pytest.param("-0x1.ea4a363b71458p+3", "0x1.99b46ce122300p-16", id="15 half-lives ago"),
        pytest.param("0x1.68cc0d3cca560p+4", "0x1.76c22bb720e14p+22", id="22 half-lives on"),
        pytest.param("0x1.3260768a9ac74p+6", "0x1.82779b043f38ap+76", id="76 half-lives on"),
        pytest.param("0x1.02b2156fb8808p+3", "0x1.0f648fc83aab7p+8", id="both agree here"),
        pytest.param("-0x1.b8p+6", "0x1p-110", id="whole exponents are exact"),
        pytest.param("0x0p+0", "0x1p+0", id="at the reference"),
    ],
)
def test_a_factor_is_the_original_s_to_the_last_bit(exponent: str, expected: str) -> None:
    found = _power_of_two(np.array([float.fromhex(exponent)]))

    assert float(found[0]).hex() == float.fromhex(expected).hex()


@given(st.floats(min_value=-1100.0, max_value=100.5))
def test_a_factor_is_two_to_the_power_of_the_half_lives(half_lives: float) -> None:
    assert factor(half_lives) == pytest.approx(2.0**half_lives, rel=1e-11, abs=1e-300)


def test_factors_do_not_depend_on_how_many_there_are() -> None:
    ages = np.linspace(-2e6, 2e6, 20_001)
    decay = Decay(DAY)

    assert decay.factors(ages)[[0, 9000, 20_000]].tolist() == [
        float(decay.factors(ages[[index]])[0]) for index in (0, 9000, 20_000)
    ]


def test_samples_older_than_all_exponents_weigh_nothing() -> None:
    assert factor(-2000.0) == 0.0


def test_differences_of_times_saturate_at_292_years() -> None:
    decay = Decay(timedelta(days=365))
    very_old, older = decay.factors(np.array([-9.3e9, -9e10]))

    assert very_old == older == pytest.approx(2.0**-292.47, rel=0.01)


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        pytest.param("2024-03-01T11:59:59", "2024-03-01", id="before noon goes back"),
        pytest.param("2024-03-01T12:00:00", "2024-03-02", id="noon goes on"),
        pytest.param("2024-03-01T11:59:59.999999", "2024-03-01", id="a microsecond before noon"),
        pytest.param("2024-03-01T00:00:00", "2024-03-01", id="midnight stays"),
        pytest.param("0001-01-01T00:00:00", "0001-01-01", id="the zero time stays"),
    ],
)
def test_a_time_is_aligned_to_the_nearest_midnight(time: str, expected: str) -> None:
    assert Decay(DAY).align(np.array([seconds(time)])).tolist() == [seconds(expected)]


def test_multiples_are_counted_from_the_year_one() -> None:
    week = timedelta(days=7)
    aligned = float(Decay(week).align(np.array([seconds("2024-03-01")]))[0])

    assert (aligned - ZERO_TIME) % week.total_seconds() == 0.0
    assert datetime.fromtimestamp(aligned, UTC).strftime("%A") == "Monday"


@given(st.floats(min_value=ZERO_TIME, max_value=LAST_TIME))
def test_aligning_twice_changes_nothing_more(time: float) -> None:
    decay = Decay(timedelta(hours=7, seconds=1))
    once = decay.align(np.array([time]))

    assert decay.align(once).tolist() == once.tolist()
    assert abs(once[0] - time) <= timedelta(hours=7, seconds=1).total_seconds() / 2 + 1e-4


@pytest.mark.parametrize(
    ("old_days", "new_days", "expected"),
    [
        pytest.param(0.0, 3.0, -3, id="three half-lives on"),
        pytest.param(3.0, 3.0, 0, id="the same reference"),
        pytest.param(0.0, 2.6, -3, id="to the nearest"),
        pytest.param(0.0, 2.5, -2, id="halves up"),
        pytest.param(0.0, 738_000.0, -106_752, id="from the zero time, saturated"),
    ],
)
def test_the_power_that_moves_weights_to_another_reference(
    old_days: float, new_days: float, expected: int
) -> None:
    old, new = np.array([old_days]) * DAY_SECONDS, np.array([new_days]) * DAY_SECONDS

    assert Decay(DAY).exponents(old, new).tolist() == [expected]


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        pytest.param(100.0, False, id="exactly a hundred half-lives"),
        pytest.param(100.001, True, id="a little more"),
        pytest.param(-5.0, False, id="before the reference"),
    ],
)
def test_a_reference_moves_after_more_than_a_hundred_half_lives(
    *, days: float, expected: bool
) -> None:
    ages = np.array([days * DAY_SECONDS])

    assert Decay(DAY).overdue(ages).tolist() == [expected]
    assert Decay(DAY).is_any_overdue(ages) is expected


def test_no_ages_are_never_overdue() -> None:
    assert not Decay(DAY).is_any_overdue(np.zeros(0))


@pytest.mark.parametrize(
    "half_life",
    [
        pytest.param(timedelta(0), id="none"),
        pytest.param(-DAY, id="negative"),
        pytest.param(timedelta(days=1068), id="a hundred of them are beyond any difference"),
    ],
)
def test_a_half_life_without_meaning_is_refused(half_life: timedelta) -> None:
    with pytest.raises(ValueError, match=r"^half_life: "):
        Decay(half_life)
