"""CSV for spreadsheets and programs, in which text from the cluster is harmless.

A name from a cluster may hold control sequences of a terminal, or begin like a formula.
"""

import csv
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Final

from trimtab.cli.output.columns import disarm

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of formulas in spreadsheets; the wide ones in some languages."""
_TEXT_MARK: Final = "'"
"""Prefix that makes a spreadsheet read the cell as text."""


def format_csv(rows: Iterable[Sequence[object]]) -> str:
    """Format a line for each row: numbers unchanged, text so that it stays text."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    shown = disarm(value)
    return f"{_TEXT_MARK}{shown}" if shown.startswith(_FORMULA_STARTS) else shown
