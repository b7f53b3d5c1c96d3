from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api.wire import times
from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.times import TimeError

NOON = datetime(2026, 8, 22, 12, tzinfo=UTC)
MICROSECONDS = st.integers(-(2**63) // 1000 + 1, 2**63 // 1000 - 1)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        pytest.param("2026-08-22T12:00:00Z", NOON, id="seconds in UTC"),
        pytest.param("2026-08-22T14:30:00+02:30", NOON, id="an offset is taken away"),
        pytest.param(
            "2026-08-22T12:00:00.123456Z",
            NOON + timedelta(microseconds=123456),
            id="microseconds are kept",
        ),
        pytest.param(
            "2026-08-22T12:00:00.123456999Z",
            NOON + timedelta(microseconds=123456),
            id="nanoseconds are cut off",
        ),
        pytest.param(
            "2026-08-22T12:00:00.5Z", NOON + timedelta(milliseconds=500), id="a short fraction"
        ),
        pytest.param("0001-01-01T00:00:00Z", times.ZERO_TIME, id="the zero time of the original"),
    ],
)
def test_an_rfc_3339_time_is_read_as_utc(text: str, moment: datetime) -> None:
    parsed = times.parse_time(text)

    assert parsed == moment
    assert parsed.tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("2026-08-22", id="a date alone"),
        pytest.param("2026-08-22T12:00:00", id="no zone"),
        pytest.param("2026-08-22 12:00:00Z", id="a blank for the T"),
        pytest.param("2026-08-22t12:00:00z", id="small letters"),
        pytest.param("2026-W34-6T12:00:00Z", id="a week date"),
        pytest.param("2026-02-30T12:00:00Z", id="a day that does not exist"),
        pytest.param("2026-08-22T12:00:61Z", id="too many seconds"),
        pytest.param("0000-01-01T00:00:00Z", id="the year nought"),
        pytest.param("0001-01-01T00:00:00+01:00", id="before all time"),
        pytest.param("9999-12-31T23:59:59-01:00", id="after all time"),
        pytest.param("2026-08-22T12:00:00Z\n", id="a line end behind"),
    ],
)
def test_text_that_is_no_rfc_3339_time_is_refused_and_shown(text: str) -> None:
    with pytest.raises(TimeError) as caught:
        times.parse_time(text)

    assert repr(text) in str(caught.value)


def test_times_are_written_to_the_second_in_utc() -> None:
    moment = datetime(2026, 8, 22, 14, 0, 0, 999999, tzinfo=timezone(timedelta(hours=2)))

    assert times.format_time(moment) == "2026-08-22T12:00:00Z"


def test_micro_times_are_written_with_six_digits_even_where_they_are_zero() -> None:
    assert times.format_micro_time(NOON) == "2026-08-22T12:00:00.000000Z"


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_written_micro_time_is_read_back_unchanged(moment: datetime) -> None:
    assert times.parse_time(times.format_micro_time(moment)) == moment


@given(st.text())
def test_parsing_any_text_as_a_time_gives_a_time_or_a_time_error(text: str) -> None:
    with suppress(TimeError):
        assert times.parse_time(text).tzinfo is UTC


@pytest.mark.parametrize(
    ("text", "span"),
    [
        pytest.param("10s", timedelta(seconds=10), id="seconds"),
        pytest.param("1h30m", timedelta(minutes=90), id="two units"),
        pytest.param("1.5h", timedelta(minutes=90), id="a fraction of an hour"),
        pytest.param(".5m", timedelta(seconds=30), id="a fraction without a whole"),
        pytest.param("5.s", timedelta(seconds=5), id="a point without a fraction"),
        pytest.param("100ms", timedelta(milliseconds=100), id="milliseconds are not minutes"),
        pytest.param("7us", timedelta(microseconds=7), id="microseconds"),
        pytest.param("7µs", timedelta(microseconds=7), id="microseconds with a micro sign"),
        pytest.param("7μs", timedelta(microseconds=7), id="microseconds with a Greek letter"),
        pytest.param("1999ns", timedelta(microseconds=1), id="nanoseconds are cut off"),
        pytest.param("500ns500ns", timedelta(microseconds=1), id="nanoseconds add up first"),
        pytest.param("-1m", -timedelta(minutes=1), id="a negative span"),
        pytest.param("+1m", timedelta(minutes=1), id="an explicit plus"),
        pytest.param("0", timedelta(), id="nought needs no unit"),
        pytest.param("-0", timedelta(), id="not even with a sign"),
        pytest.param("0.1s", timedelta(milliseconds=100), id="tenths are exact"),
        pytest.param("30m1h", timedelta(minutes=90), id="units in any order"),
        pytest.param("0000000000000000000000001s", timedelta(seconds=1), id="leading zeros"),
        pytest.param(
            "9223372036854775807ns",
            timedelta(microseconds=9223372036854775),
            id="the longest of all",
        ),
    ],
)
def test_a_go_duration_is_read_exactly(text: str, span: timedelta) -> None:
    assert times.parse_duration(text) == span


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("10", id="no unit"),
        pytest.param("s", id="no number"),
        pytest.param(".s", id="a lonely point"),
        pytest.param("1 h", id="a blank"),
        pytest.param("1d", id="days are not a unit"),
        pytest.param("1h-1m", id="a sign in the middle"),
        pytest.param("--1m", id="two signs"),
        pytest.param("+-0", id="two signs before nought"),
        pytest.param("\N{ARABIC-INDIC DIGIT ONE}s", id="digits of another script"),
        pytest.param("9223372036854775808ns", id="one nanosecond too long"),
        pytest.param("9" * 5000 + "h", id="thousands of digits"),
    ],
)
def test_text_that_is_no_go_duration_is_refused_and_shown(text: str) -> None:
    with pytest.raises(TimeError) as caught:
        times.parse_duration(text)

    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("span", "text"),
    [
        pytest.param(timedelta(), "0s", id="nothing"),
        pytest.param(timedelta(microseconds=7), "7µs", id="microseconds"),
        pytest.param(timedelta(microseconds=1500), "1.5ms", id="a fraction of milliseconds"),
        pytest.param(timedelta(milliseconds=100), "100ms", id="milliseconds"),
        pytest.param(timedelta(seconds=10), "10s", id="seconds"),
        pytest.param(timedelta(seconds=1, microseconds=50), "1.00005s", id="zeros in a fraction"),
        pytest.param(timedelta(minutes=10), "10m0s", id="minutes show their seconds"),
        pytest.param(timedelta(hours=12), "12h0m0s", id="hours show everything below"),
        pytest.param(timedelta(days=8), "192h0m0s", id="days are hours"),
        pytest.param(-timedelta(seconds=90), "-1m30s", id="a negative span"),
    ],
)
def test_a_span_is_written_as_go_writes_it(span: timedelta, text: str) -> None:
    assert times.format_duration(span) == text


@given(MICROSECONDS)
def test_a_written_duration_is_read_back_unchanged(microseconds: int) -> None:
    span = timedelta(microseconds=microseconds)

    assert times.parse_duration(times.format_duration(span)) == span


@given(st.text(alphabet="0123456789.hmsnuµ+- ", max_size=20))
def test_parsing_any_text_as_a_duration_gives_a_span_or_a_time_error(text: str) -> None:
    with suppress(TimeError):
        assert isinstance(times.parse_duration(text), timedelta)


def test_a_bad_time_or_duration_in_a_field_names_the_field() -> None:
    with pytest.raises(DecodeError, match=r"metadata\.creationTimestamp: 'noon'"):
        times.decode_time("noon", "metadata.creationTimestamp")
    with pytest.raises(DecodeError, match=r"spec\.duration: 'long'"):
        times.decode_duration("long", "spec.duration")


def test_an_absent_time_is_none() -> None:
    assert times.decode_time(None, "status.startTime") is None
