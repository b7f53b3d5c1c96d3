"""Columns of text as kubectl writes them, which never wrap: names are cut before numbers are.

What others have named and written is shown so that no terminal obeys it.
"""

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from shutil import get_terminal_size
from typing import Final

_GAP: Final = "  "
_CUT: Final = "…"
_SHORTEST: Final = 6
"""Nothing is cut further: what is left of it would say nothing."""
NARROW: Final = 80


def screen_width() -> int | None:
    """How much fits on a line of the screen; None where the output goes elsewhere."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return None
    return max(get_terminal_size((NARROW, 24)).columns, NARROW)


def disarm(text: str) -> str:
    """The text as it is to be seen: what cannot be seen, or a terminal would obey, by its code."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii")
        for each in text
    )


def lay_out(
    rows: Sequence[Sequence[str]], *, names: Collection[int] = (), width: int | None = None
) -> list[str]:
    """A line for each row, disarmed, not longer than the width if cutting the names can help it.

    The first row holds the titles, and those of names are cut before the names are. Those of
    numbers are cut in the end; numbers never are.
    """
    rows = [[disarm(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if width is not None:
        own = [max(*map(len, column), _SHORTEST) for column in zip(*rows[1:], strict=True)]
        _shrink(widths, {place: own[place] for place in names}, width)
        _shrink(widths, dict.fromkeys(names, _SHORTEST), width)
        _shrink(widths, {place: own[place] for place in range(len(own))}, width)
    return [
        _GAP.join(
            _cut(cell, most).ljust(most) for cell, most in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _shrink(widths: list[int], least: Mapping[int, int], width: int) -> None:
    """Make columns narrower until all of them fit, the widest first, none below its least."""
    for _ in range(sum(widths) + len(_GAP) * (len(widths) - 1) - width):
        able = [place for place, most in least.items() if widths[place] > most]
        if not able:
            return
        widths[max(able, key=lambda place: widths[place])] -= 1


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + _CUT
