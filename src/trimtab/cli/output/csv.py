"""CSV for spreadsheets and programs, in which nothing that others have named is obeyed by anybody.

A name from a cluster may hold what a terminal takes for a command, or begin like a formula.
"""

import csv
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Final

from trimtab.cli.output.columns import disarm

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What spreadsheets take for the beginning of a formula; the wide ones in some languages."""
_TEXT_MARK: Final = "'"
"""What tells a spreadsheet that text follows."""


def format_csv(rows: Iterable[Sequence[object]]) -> str:
    """A line for each row; numbers are written as they are, text so that it stays text."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    shown = disarm(value)
    return f"{_TEXT_MARK}{shown}" if shown.startswith(_FORMULA_STARTS) else shown
