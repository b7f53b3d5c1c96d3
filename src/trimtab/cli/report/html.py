"""A report as an HTML page: one file that a browser can open offline."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from trimtab.cli.output import amounts, html
from trimtab.cli.report.observe import ClusterReport
from trimtab.cli.report.text import HEADER, list_rows, recommends, summarize
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.report import severity
from trimtab.core.report.severity import SizeSeverity

_TITLES: Final = {"": "Resource"}
_NUMBERS: Final = ("PODS", "CHANGE", "NODE")
_STAR: Final = (
    "Change: cores or GiB for all pods. Node: the part of its node that a pod takes as recommended;"
    " a star marks the resource that binds it."
)


@dataclass(frozen=True, slots=True)
class _Tile:
    """A key figure and its meaning."""

    figure: str
    meaning: str


@dataclass(frozen=True, slots=True)
class _Cell:
    """A cell of the table, and the class that styles it."""

    text: str
    look: str = ""


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the table; only the first one of a workload names it."""

    cells: Sequence[_Cell]
    begins_workload: bool


def to_html(report: ClusterReport) -> str:
    """Return the whole page."""
    return html.render(
        "report.html",
        about=f"{len(report.workloads)} workloads, from {report.source}. {_STAR}",
        tiles=list(_list_tiles(report)),
        summary=list(summarize(report)),
        titles=[_cell(title, _TITLES.get(title, title.capitalize())) for title in HEADER],
        rows=[_row(row) for row in list_rows(report.workloads, says_all=False)],
    )


def _list_tiles(report: ClusterReport) -> Iterator[_Tile]:
    """Yield the key figures: savings and the score."""
    totals = report.totals
    for resource in BOTH if recommends(report) else ():
        saved = totals.requested[resource] - totals.wanted[resource]
        verdict = "saved" if saved >= 0 else "more needed"
        name = "CPU" if resource is Resource.CPU else "memory"
        yield _Tile(amounts.show_large(resource, abs(saved)), f"{name} {verdict}")
    if totals.score is not None:
        yield _Tile(f"{totals.score} {severity.letter(totals.score)}", "score, of 100")


def _row(row: Sequence[str]) -> _Row:
    cells = [_cell(title, text) for title, text in zip(HEADER, row, strict=True)]
    return _Row(cells, begins_workload=bool(row[1]))


def _cell(title: str, text: str) -> _Cell:
    if title == "SEVERITY" and text in list(SizeSeverity):
        return _Cell(text, look=text)
    return _Cell(text, look="number" if title in _NUMBERS else "")
