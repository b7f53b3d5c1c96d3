"""Values of flags: lengths of time in two syntaxes."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api.wire.times import parse_duration
from trimtab.cli.flags.types import format_long_span, format_span, parse_long_span


@pytest.mark.parametrize(
    ("text", "span"),
    [
        pytest.param("8d", timedelta(days=8), id="days"),
        pytest.param("1w2d", timedelta(days=9), id="weeks and days"),
        pytest.param("1y", timedelta(days=365), id="a year"),
        pytest.param("1h30m", timedelta(minutes=90), id="hours and minutes"),
        pytest.param("250ms", timedelta(milliseconds=250), id="milliseconds"),
    ],
)
def test_a_prometheus_duration_is_read_with_days_and_more(text: str, span: timedelta) -> None:
    assert parse_long_span(text) == span


@pytest.mark.parametrize(
    "text",
    ["", "8", "d", "8 d", "-8d", "1.5h", "8d!", "9" * 12 + "y"],
    ids=["empty", "no unit", "no number", "a blank", "negative", "a point", "more", "too long"],
)
def test_what_is_no_prometheus_duration_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_long_span(text)


@pytest.mark.parametrize(
    ("span", "text"),
    [
        pytest.param(timedelta(days=1), "24h", id="a day has no minutes"),
        pytest.param(timedelta(minutes=1), "1m", id="a minute has no seconds"),
        pytest.param(timedelta(minutes=90), "1h30m", id="hours and minutes"),
        pytest.param(timedelta(hours=1, seconds=5), "1h0m5s", id="what is between stays"),
        pytest.param(timedelta(seconds=10), "10s", id="seconds"),
        pytest.param(timedelta(), "0s", id="nothing"),
    ],
)
def test_a_span_is_shown_as_people_type_it(span: timedelta, text: str) -> None:
    assert format_span(span) == text


@given(st.timedeltas(min_value=timedelta(), max_value=timedelta(days=1000)))
def test_a_span_that_is_shown_can_be_typed(span: timedelta) -> None:
    assert parse_duration(format_span(span)) == span


def test_whole_days_of_history_are_shown_as_days() -> None:
    assert format_long_span(timedelta(days=8)) == "8d"
    assert format_long_span(timedelta(hours=1)) == "1h"
