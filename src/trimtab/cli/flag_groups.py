"""Groups of flags: records whose fields are flags, and what is written above them in help.

A record without a group of its own holds other records.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from trimtab.core.records import dataclass

_RecordT = TypeVar("_RecordT")


@dataclass(frozen=True, slots=True)
class FlagGroup:
    """What help says of the flags in a record."""

    title: str
    order: int
    """Groups with smaller numbers come first."""


GROUPS: Final[dict[type, FlagGroup]] = {}
"""The group of each record that has one."""


def flag_group(title: str, *, order: int) -> Callable[[type[_RecordT]], type[_RecordT]]:
    """What notes the group of a record."""

    def note(record: type[_RecordT]) -> type[_RecordT]:
        GROUPS[record] = FlagGroup(title, order)
        return record

    return note
