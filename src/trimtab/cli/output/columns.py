"""Columns of text as kubectl writes them, which never wrap: names are cut before numbers are.

Text from the cluster is escaped, so that it cannot control the terminal.
"""

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from shutil import get_terminal_size
from typing import Final

_GAP: Final = "  "
_CUT: Final = "…"
_SHORTEST: Final = 6
"""Shortest width of a cut name; less would be unreadable."""
NARROW: Final = 80


def screen_width() -> int | None:
    """Return the columns of the screen; None if the output goes elsewhere."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return None
    return max(get_terminal_size((NARROW, 24)).columns, NARROW)


def disarm(text: str) -> str:
    """Escape the characters of a text that are invisible or could control a terminal."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii")
        for each in text
    )


def lay_out(
    rows: Sequence[Sequence[str]],
    *,
    names: Collection[int] = (),
    right: Collection[int] = (),
    width: int | None = None,
) -> list[str]:
    """Format a line for each row, escaped, and cut to the width where cells may be cut.

    The first row holds the titles. Titles of names are cut first, then names, then the titles of
    numbers. Numbers are never cut. The columns in `right` are aligned right.
    """
    rows = [[disarm(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if width is not None:
        own = [max(*map(len, column), _SHORTEST) for column in zip(*rows[1:], strict=True)]
        _shrink(widths, {place: own[place] for place in names}, width)
        _shrink(widths, dict.fromkeys(names, _SHORTEST), width)
        _shrink(widths, {place: own[place] for place in range(len(own))}, width)
    align = [str.rjust if place in right else str.ljust for place in range(len(widths))]
    return [
        _GAP.join(
            to_side(_cut(cell, most), most)
            for cell, most, to_side in zip(row, widths, align, strict=True)
        ).rstrip()
        for row in rows
    ]


def _shrink(widths: list[int], least: Mapping[int, int], width: int) -> None:
    """Shrink columns until all of them fit, the widest first, none below its minimum."""
    for _ in range(sum(widths) + len(_GAP) * (len(widths) - 1) - width):
        able = [place for place, most in least.items() if widths[place] > most]
        if not able:
            return
        widths[max(able, key=lambda place: widths[place])] -= 1


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + _CUT
