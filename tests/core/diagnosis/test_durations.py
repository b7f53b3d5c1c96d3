"""Spans of time as people say them."""

from datetime import timedelta

import pytest
from support.makers.records import hours

from trimtab.core.diagnosis.durations import brief


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        pytest.param(timedelta(), "0s", id="nothing"),
        pytest.param(timedelta(seconds=59.9), "59s", id="seconds"),
        pytest.param(hours(12), "12h", id="whole hours"),
        pytest.param(hours(8.8), "8h48m", id="hours and minutes"),
        pytest.param(hours(49), "2d1h", id="days and hours"),
        pytest.param(timedelta(days=3, minutes=5), "3d", id="the two largest units alone"),
        pytest.param(timedelta(seconds=-5), "0s", id="what is past is over"),
    ],
)
def test_spans_are_told_by_their_two_largest_units(span: timedelta, expected: str) -> None:
    assert brief(span) == expected
