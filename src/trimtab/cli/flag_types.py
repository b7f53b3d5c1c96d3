"""Kinds of flag values: how each is read from text, as the original reads it, and shown in help.

They are said in words of our own, so that a component can be started without the parser of command
lines; `trimtab.cli.declaring` says them to the parser.
"""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Final, TypeAlias

from trimtab.api.times import format_duration, parse_duration
from trimtab.core import quantities
from trimtab.core.records import dataclass
from trimtab.core.resources import Resource

_LONG_TERM: Final = re.compile(r"(\d+)(ms|[smhdwy])")
_LONG_UNITS: Final = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
    "y": timedelta(days=365),
}


def parse_long_span(text: str) -> timedelta:
    """The span that a Prometheus duration such as `8d` or `1w2d` names."""
    terms = _LONG_TERM.findall(text)
    if not terms or "".join(number + unit for number, unit in terms) != text:
        raise ValueError(f"{text!r} is not a duration such as 8d or 1h30m")
    try:
        return sum((int(number) * _LONG_UNITS[unit] for number, unit in terms), timedelta())
    except OverflowError as error:
        raise ValueError(f"{text!r} is longer than a duration may be") from error


def format_long_span(span: timedelta) -> str:
    """The span in Prometheus' spelling, in days where these are whole."""
    return f"{span.days}d" if span == timedelta(days=span.days) else format_span(span)


def format_span(span: timedelta) -> str:
    """The span in Go's spelling, without the zeros that nobody types: `1h`, not `1h0m0s`."""
    return re.sub(r"(?<=\D)0[ms](?=$|0s$)", "", format_duration(span)) or "0s"


def split_names(text: str) -> frozenset[str]:
    """The names in a comma-separated list."""
    return frozenset(name.strip() for name in text.split(",") if name.strip())


@dataclass(frozen=True, slots=True)
class Kind:
    """What a type does not say of the values of a flag."""

    word: str | None = None
    """What stands for a value in help."""
    read: Callable[[str], object] | None = None
    """The value of a text, or a ValueError; without it, what is usual for the type."""
    show: Callable[[timedelta], str] | bool | None = None
    """How the default is shown in help, or whether it is."""


@dataclass(frozen=True, slots=True)
class Names:
    """All names of a flag, where that of its field is not the only one."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoFlag:
    """What a field is marked by that is no flag."""


def _read_cpu(text: str) -> int:
    return quantities.parse_amount(Resource.CPU, text)


def _read_memory(text: str) -> int:
    return quantities.parse_amount(Resource.MEMORY, text)


Text: TypeAlias = Annotated[str, Kind("TEXT", show=False)]
"""Text that is empty by default."""
Named: TypeAlias = Annotated[str, Kind("TEXT")]
"""Text that has a default."""
Whole: TypeAlias = Annotated[int, Kind("NUMBER", int)]
"""A whole number."""
Number: TypeAlias = Annotated[float, Kind("NUMBER")]
"""Any number."""
Switch: TypeAlias = Annotated[bool, Kind(show=False)]
"""On with its name alone, as in Go; `--name=false` is off."""
Span: TypeAlias = Annotated[timedelta, Kind("DURATION", parse_duration, format_span)]
"""A length of time in Go's syntax."""
LongSpan: TypeAlias = Annotated[timedelta, Kind("DURATION", parse_long_span, format_long_span)]
"""A length of time in Prometheus' syntax, which knows days and weeks."""
Cpu: TypeAlias = Annotated[int | None, Kind("QUANTITY", _read_cpu, show=False)]
"""A quantity of CPU."""
Memory: TypeAlias = Annotated[int | None, Kind("QUANTITY", _read_memory, show=False)]
"""A quantity of memory."""
