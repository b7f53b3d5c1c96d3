"""Kinds of flag values: how each is read from text, as the original reads it, and shown in help.

Fields of records of flags have these types. Parsing, help, environment variables, completion and
`docs/flags.md` all come from the fields: there is no other declaration.
"""

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Annotated, Final, TypeAlias

from cyclopts import Parameter, Token

from trimtab.api.times import format_duration, parse_duration
from trimtab.core import quantities
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


def _read_cpu(text: str) -> int:
    return quantities.parse_amount(Resource.CPU, text)


def _read_memory(text: str) -> int:
    return quantities.parse_amount(Resource.MEMORY, text)


def _converter(read: Callable[[str], object]) -> Callable[[object, Sequence[Token]], object]:
    def convert(_: object, tokens: Sequence[Token]) -> object:
        return read(tokens[0].value)

    return convert


Text: TypeAlias = Annotated[str, Parameter(metavar="TEXT", show_default=False)]
"""Text that is empty by default."""
Named: TypeAlias = Annotated[str, Parameter(metavar="TEXT")]
"""Text that has a default."""
Whole: TypeAlias = Annotated[int, Parameter(metavar="NUMBER", converter=_converter(int))]
"""A whole number."""
Number: TypeAlias = Annotated[float, Parameter(metavar="NUMBER")]
"""Any number."""
Switch: TypeAlias = Annotated[bool, Parameter(negative="", show_default=False)]
"""On with its name alone, as in Go; `--name=false` is off."""
Span: TypeAlias = Annotated[
    timedelta,
    Parameter(metavar="DURATION", converter=_converter(parse_duration), show_default=format_span),
]
"""A length of time in Go's syntax."""
LongSpan: TypeAlias = Annotated[
    timedelta,
    Parameter(
        metavar="DURATION", converter=_converter(parse_long_span), show_default=format_long_span
    ),
]
"""A length of time in Prometheus' syntax, which knows days and weeks."""
Cpu: TypeAlias = Annotated[
    int | None,
    Parameter(metavar="QUANTITY", converter=_converter(_read_cpu), show_default=False),
]
"""A quantity of CPU."""
Memory: TypeAlias = Annotated[
    int | None,
    Parameter(metavar="QUANTITY", converter=_converter(_read_memory), show_default=False),
]
"""A quantity of memory."""
Unused: TypeAlias = Annotated[tuple[str, ...], Parameter(parse=False)]
"""The words of a command line that no flag takes."""
