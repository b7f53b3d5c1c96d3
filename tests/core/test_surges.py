from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from makers import hours, minutes

from trimtab.core.surges import USUAL_HALF_LIFE, remember_share

SHARES = st.floats(0, 1)


def test_the_first_share_is_the_usual_one() -> None:
    assert remember_share(None, 0.4, passed=timedelta()) == 0.4


@pytest.mark.parametrize(
    ("passed", "expected"),
    [
        pytest.param(timedelta(), 0.2, id="no time"),
        pytest.param(USUAL_HALF_LIFE, 0.5, id="a half-life"),
        pytest.param(timedelta(days=30), 0.8, id="a month"),
        pytest.param(-hours(1), 0.2, id="a clock that was set back"),
    ],
)
def test_what_is_seen_becomes_usual_with_time(passed: timedelta, expected: float) -> None:
    assert remember_share(0.2, 0.8, passed=passed) == pytest.approx(expected)


def test_a_surge_stands_out_for_more_than_an_hour() -> None:
    usual = 0.1
    for _ in range(60):
        usual = remember_share(usual, 0.9, passed=minutes(1))

    assert 0.9 - usual > 0.3


@given(usual=SHARES, share=SHARES, passed=st.integers(0, 10_000).map(minutes))
def test_what_is_usual_stays_between_what_was_and_what_is(
    usual: float, share: float, passed: timedelta
) -> None:
    found = remember_share(usual, share, passed=passed)

    assert min(usual, share) - 1e-12 <= found <= max(usual, share) + 1e-12
