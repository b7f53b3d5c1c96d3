"""Records whose fields are flags: how the parser of command lines gets to know them."""

from collections.abc import Callable
from typing import Final, TypeVar

from cyclopts import Group, Parameter

_RecordT = TypeVar("_RecordT")

FLAT: Final = "*"
"""The parser's name for a record whose flags have the names of its fields and nothing before."""


def flag_group(title: str, *, order: int) -> Callable[[type[_RecordT]], type[_RecordT]]:
    """Declare a record of flags; help shows them under the title, small orders first."""
    return Parameter(name=FLAT, group=Group(title, sort_key=order))


def flag_groups(record: type[_RecordT]) -> type[_RecordT]:
    """Declare a record of records of flags."""
    return Parameter(name=FLAT)(record)
