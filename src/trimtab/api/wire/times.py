"""Times and durations on the wire: RFC 3339 and the Go duration syntax, both exact.

Fractions of a microsecond are cut off: a datetime cannot hold them.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from trimtab.api.wire.codec import DecodeError

ZERO_TIME: Final = datetime.min.replace(tzinfo=UTC)
"""The time that the original holds if none was set."""

_RFC3339: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII
)
_DURATION: Final = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+", re.ASCII)
_TERM: Final = re.compile(r"(\d*)\.?(\d*)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_NANOSECONDS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_LONGEST: Final = 2**63 - 1
_MILLISECOND: Final = 1_000
_SECOND: Final = 1_000_000
_MICROSECOND: Final = timedelta(microseconds=1)
_KEPT: Final = 4096
"""Number of cached texts: thousands of objects name few different moments."""


_SHORT: Final = 64
"""Maximum length of a cached text."""


class TimeError(ValueError):
    """Raised for text that is not an RFC 3339 time, or not a Go duration where one is expected."""


def parse_time(text: str) -> datetime:
    """Return the moment in UTC that an RFC 3339 text names."""
    return (_kept_time if len(text) <= _SHORT else _parse_time)(text)


def _parse_time(text: str) -> datetime:
    if not _RFC3339.fullmatch(text):
        raise TimeError(f"{text!r} is not an RFC 3339 time")
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise TimeError(f"{text!r} is not a time: {error}") from error


_kept_time: Final = lru_cache(maxsize=_KEPT)(_parse_time)


def decode_time(text: str | None, path: str) -> datetime | None:
    """Return the moment in a field; None if the field is absent."""
    if text is None:
        return None
    try:
        return parse_time(text)
    except TimeError as error:
        raise DecodeError(path, str(error)) from error


def format_time(moment: datetime) -> str:
    """Format a moment in UTC to the second, as the original writes times."""
    return _format(moment, "seconds")


def format_micro_time(moment: datetime) -> str:
    """Format a moment in UTC with six decimals, as in leases and events."""
    return _format(moment, "microseconds")


def parse_duration(text: str) -> timedelta:
    """Return the span that a Go duration such as `1h30m` or `1.5s` names."""
    sign = -1 if text.startswith("-") else 1
    if text.lstrip("+-") == "0" and len(text) <= len("-0"):
        return timedelta()
    if not _DURATION.fullmatch(text):
        raise TimeError(f"{text!r} is not a duration such as 1h30m or 10s")
    nanoseconds = sum(_nanoseconds(*term) for term in _TERM.findall(text))
    if nanoseconds > _LONGEST:
        raise TimeError(f"{text!r} is longer than a duration may be")
    return sign * (nanoseconds // 1_000) * _MICROSECOND


def decode_duration(text: str, path: str) -> timedelta:
    """Return the span in a field."""
    try:
        return parse_duration(text)
    except TimeError as error:
        raise DecodeError(path, str(error)) from error


def format_duration(span: timedelta) -> str:
    """Format a span in Go's spelling: `1h30m0s`, `10s`, `100ms`."""
    microseconds = span // _MICROSECOND
    sign = "-" if microseconds < 0 else ""
    return sign + _format_positive(abs(microseconds))


@lru_cache(maxsize=_KEPT)
def _format(moment: datetime, precision: str) -> str:
    return moment.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def _nanoseconds(whole: str, fraction: str, unit: str) -> int:
    # Cut digits, so that long numbers cannot make this slow. The rest is below a nanosecond or
    # above every duration.
    digits = fraction[:18]
    scale: int = 10 ** len(digits)
    scaled = int(whole.lstrip("0")[:20] or 0) * scale + int(digits or 0)
    return scaled * _NANOSECONDS[unit] // scale


def _format_positive(microseconds: int) -> str:
    if microseconds == 0:
        return "0s"
    if microseconds < _MILLISECOND:
        return f"{microseconds}µs"
    if microseconds < _SECOND:
        return _decimal(microseconds, _MILLISECOND) + "ms"
    minutes, rest = divmod(microseconds, 60 * _SECOND)
    hours, minutes = divmod(minutes, 60)
    seconds = _decimal(rest, _SECOND) + "s"
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds


def _decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    digits = f"{rest:0{len(str(unit)) - 1}}".rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)
