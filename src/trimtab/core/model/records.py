"""Records as `dataclasses` makes them, of which a process can afford hundreds.

The library writes up to six functions for each class and compiles them when the class is made: of
all that a component did before its first line of work, that was a third. Here three are written,
and compiled once for all records of the same shape; the others are one function for everybody.
`fields`, `replace` and `asdict` work as ever, and for those who check types there is no difference
at all.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from trimtab.core.model.record_making import dataclass

__all__ = ["dataclass"]
