"""Types of flag values: each is parsed from text as the original does, and formatted for help.

The fields of flag records have these types. Parsing, help, environment variables, completion and
`docs/flags.md` all come from the fields: there is no other declaration.
"""

import math
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Annotated, Final, TypeAlias, TypeVar

from cyclopts import Group, Parameter, Token

from trimtab.api.wire import times
from trimtab.cli import errors
from trimtab.core.model import quantities
from trimtab.core.model.resources import Resource

_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_MOST_DIGITS: Final = 20
_LARGEST: Final = 2**63 - 1
"""As in Go: no number that the original takes is larger."""
_SMALLEST: Final = 1e-9
"""Smallest rate; the wait for a smaller one would exceed the range of dates."""
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
    """Parse a Prometheus duration such as `8d` or `1w2d`."""
    terms = _LONG_TERM.findall(text)
    if not terms or "".join(number + unit for number, unit in terms) != text:
        raise ValueError(f"{text!r} is not a duration such as 8d or 1h30m")
    try:
        return sum((int(number) * _LONG_UNITS[unit] for number, unit in terms), timedelta())
    except OverflowError as error:
        raise ValueError(f"{text!r} is longer than a duration may be") from error


def format_long_span(span: timedelta) -> str:
    """Format a span as a Prometheus duration, in days if it is a whole number of them."""
    return f"{span.days}d" if span == timedelta(days=span.days) else format_span(span)


def format_span(span: timedelta) -> str:
    """Format a span as Go does, without trailing zeros: `1h`, not `1h0m0s`."""
    return re.sub(r"(?<=\D)0[ms](?=$|0s$)", "", times.format_duration(span)) or "0s"


def split_names(text: str) -> frozenset[str]:
    """Return the names in a comma-separated list."""
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def parse_whole(text: str) -> int:
    """Parse a whole number; a ValueError if it is outside the range of the original."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{errors.quote(text)} is not a whole number")
    # Cut, so that no number of digits can make this slow.
    number = int(text) if len(text) <= _MOST_DIGITS else _LARGEST + 1
    return int(_bounded(number, text))


def parse_number(text: str) -> float:
    """Parse a number; a ValueError if it is NaN, too large, or too close to 0."""
    try:
        number = float(text)
    except ValueError as error:
        raise ValueError(f"{errors.quote(text)} is not a number") from error
    if math.isnan(number):
        raise ValueError(f"{errors.quote(text)} is not a number")
    if 0 < abs(number) < _SMALLEST:
        raise ValueError(f"{errors.quote(text)} is closer to 0 than a number may be")
    return _bounded(number, text)


def _bounded(number: float, text: str) -> float:
    if abs(number) > _LARGEST:
        raise ValueError(f"{errors.quote(text)} is larger than a number may be")
    return number


def _read_cpu(text: str) -> int:
    return _read_amount(Resource.CPU, text)


def _read_memory(text: str) -> int:
    return _read_amount(Resource.MEMORY, text)


def _read_amount(resource: Resource, text: str) -> int:
    try:
        amount = quantities.parse_amount(resource, text)
    except quantities.QuantityError as error:
        raise ValueError(f"{errors.quote(text)} is not a quantity such as 500m or 2Gi") from error
    # Parsing caps a quantity at the largest, which as a limit would limit nothing.
    if amount >= _LARGEST:
        raise ValueError(f"{errors.quote(text)} is larger than a quantity may be")
    return amount


def _converter(read: Callable[[str], object]) -> Callable[[object, Sequence[Token]], object]:
    def convert(_: object, tokens: Sequence[Token]) -> object:
        return read(tokens[0].value)

    return convert


def _parse_numbers(_: object, tokens: Sequence[Token]) -> tuple[float, ...]:
    return tuple(parse_number(token.value) for token in tokens)


Text: TypeAlias = Annotated[str, Parameter(metavar="TEXT", show_default=False)]
"""Text that is empty by default."""
Named: TypeAlias = Annotated[str, Parameter(metavar="TEXT")]
"""Text that has a default."""
Whole: TypeAlias = Annotated[int, Parameter(metavar="NUMBER", converter=_converter(parse_whole))]
"""A whole number."""
Number: TypeAlias = Annotated[
    float, Parameter(metavar="NUMBER", converter=_converter(parse_number))
]
"""Any number that is one: neither NaN nor infinite."""
Count: TypeAlias = Annotated[int | None, Parameter(converter=_converter(parse_whole))]
"""A whole number that may be left out."""
Numbers: TypeAlias = Annotated[tuple[float, ...], Parameter(negative="", converter=_parse_numbers)]
"""Numbers; the flag is repeated for each."""
Switch: TypeAlias = Annotated[
    bool, Parameter(negative="", show_default=lambda is_on: "true" if is_on else "")
]
"""A switch: its name alone means on, as in Go; `--name=false` means off."""
Span: TypeAlias = Annotated[
    timedelta,
    Parameter(
        metavar="DURATION", converter=_converter(times.parse_duration), show_default=format_span
    ),
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
"""Words of a command line that belong to no flag."""


_RecordT = TypeVar("_RecordT")

FLAT: Final = "*"
"""Name for a record whose flags have the names of its fields, without a prefix."""


def flag_group(title: str, *, order: int) -> Callable[[type[_RecordT]], type[_RecordT]]:
    """Declare a record of flags; help shows them under the title, small orders first."""
    return Parameter(name=FLAT, group=Group(title, sort_key=order))


def flag_groups(record: type[_RecordT]) -> type[_RecordT]:
    """Declare a record of records of flags."""
    return Parameter(name=FLAT)(record)
