"""A report as an HTML page: one file that a browser can open offline."""

from collections.abc import Iterator
from html import escape
from typing import Final

from trimtab.backtest import html_report
from trimtab.cli.output import amounts
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
_STYLE: Final = """
body { max-width: 96rem; }
th, td, th:nth-child(-n+12), td:nth-child(-n+12) { text-align: left; padding: .25rem .45rem; }
td:nth-child(-n+4) { white-space: normal; overflow-wrap: anywhere; min-width: 4rem; }
td:nth-child(2) { min-width: 11rem; }
ul { padding-left: 1.1rem; }
table td.number, table th.number { text-align: right; }
.tiles { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1.2rem 0; }
.tile { border: 1px solid var(--faint); border-radius: .5rem; padding: .7rem 1.1rem; }
.tile b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); }
.good, .ok { color: #2c8f4c; }
.warning { color: #b5750d; }
.critical { color: var(--alarm); font-weight: 600; }
.unknown { color: var(--soft); }
tr.next td { border-top: 2px solid var(--faint); }
"""


def to_html(report: ClusterReport) -> str:
    """Return the whole page."""
    about = f"{len(report.workloads)} workloads, from {report.source}. {_STAR}"
    body = "\n".join(
        [
            "<h1>What is requested, and what should be</h1>",
            f'<p class="note">{escape(about)}</p>',
            f'<div class="tiles">{"".join(_tiles(report))}</div>',
            f"<ul>{''.join(f'<li>{_arrows(line)}</li>' for line in summarize(report))}</ul>",
            _table(report),
        ]
    )
    return html_report.to_page("trimtab report", body, _STYLE)


def _tiles(report: ClusterReport) -> Iterator[str]:
    """Yield the key figures: savings and the score."""
    totals = report.totals
    for resource in BOTH if recommends(report) else ():
        saved = totals.requested[resource] - totals.wanted[resource]
        what = "saved" if saved >= 0 else "more needed"
        name = "CPU" if resource is Resource.CPU else "memory"
        yield _tile(amounts.show_large(resource, abs(saved)), f"{name} {what}")
    if totals.score is not None:
        yield _tile(f"{totals.score} {severity.letter(totals.score)}", "score, of 100")


def _tile(figure: str, meaning: str) -> str:
    return f'<div class="tile"><b>{escape(figure)}</b><span>{escape(meaning)}</span></div>'


def _table(report: ClusterReport) -> str:
    titles = [_TITLES.get(title, title.capitalize()) for title in HEADER]
    head = "".join(_cell("th", title, name) for title, name in zip(HEADER, titles, strict=True))
    lines = [_row(row) for row in list_rows(report.workloads, says_all=False)]
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def _row(row: list[str]) -> str:
    cells = "".join(_cell("td", title, text) for title, text in zip(HEADER, row, strict=True))
    # Only the first row of a workload names it.
    return f'<tr class="next">{cells}</tr>' if row[1] else f"<tr>{cells}</tr>"


def _cell(tag: str, title: str, text: str) -> str:
    looks = "number" if title in _NUMBERS else ""
    if title == "SEVERITY" and text in list(SizeSeverity):
        looks = text
    shown = _arrows(text)
    return f'<{tag} class="{looks}">{shown}</{tag}>' if looks else f"<{tag}>{shown}</{tag}>"


def _arrows(text: str) -> str:
    return escape(text).replace("-&gt;", "&rarr;")
