"""A report as tables of text; programs are served by `report_records`."""

from textwrap import wrap
from typing import Final

from trimtab.cli.columns import disarm, lay_out
from trimtab.cli.report_learning import Report
from trimtab.cli.report_words import HEADER, list_rows, summarize
from trimtab.core.severity import Severity

_NAMES: Final = ("NAMESPACE", "WORKLOAD", "AUTOSCALER", "CONTAINER")
_NARROW: Final = ("WORKLOAD", "CONTAINER", "HISTORY", "", "REQUEST", "CHANGE", "SEVERITY")
_LONGEST: Final = 200
"""Of a line where there is no screen."""
_COLOURS: Final = {
    Severity.UNKNOWN: "2",
    Severity.GOOD: "32",
    Severity.OK: "32",
    Severity.WARNING: "33",
    Severity.CRITICAL: "31",
}


def format_table(
    report: Report, *, is_wide: bool, with_namespace: bool, width: int | None, in_colour: bool
) -> str:
    """A table as kubectl writes them, and what it comes to."""
    chosen = HEADER if is_wide else _NARROW
    if with_namespace and not is_wide:
        chosen = ("NAMESPACE", *chosen)
    rows = list(list_rows(report.workloads, says_all=False))
    places = [HEADER.index(title) for title in chosen]
    cells = [[row[place] for place in places] for row in (HEADER, *rows)]
    names = [place for place, title in enumerate(chosen) if title in _NAMES]
    lines = lay_out(cells, names=names, width=width) if rows else []
    if in_colour:
        lines = [*lines[:1], *map(_colour, lines[1:])]
    words = [part for line in _words(report) for part in wrap(line, width or _LONGEST)]
    return "\n".join([*lines, "", *words]) + "\n"


def format_markdown(report: Report) -> str:
    """A table of Markdown, and what it comes to."""
    rows = list(list_rows(report.workloads, says_all=True))
    ruler = ["---"] * len(HEADER)
    lines = [disarm(f"| {' | '.join(row)} |") for row in (HEADER, ruler, *rows)]
    return "\n".join([*lines, "", *(f"- {line}" for line in _words(report))]) + "\n"


def _words(report: Report) -> list[str]:
    return [disarm(line) for line in summarize(report)]


def _colour(line: str) -> str:
    word = line.rsplit(" ", 1)[-1]
    return f"{line.removesuffix(word)}\x1b[{_COLOURS[Severity(word)]}m{word}\x1b[0m"
