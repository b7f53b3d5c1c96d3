"""Results of `trimtab backtest`, written for people, for programs and for a browser."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from io import StringIO
from typing import assert_never

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trimtab.backtest import html_report, sweep
from trimtab.backtest.html_report import ReportContents
from trimtab.backtest.sweep import Point
from trimtab.backtest.tables import Row, cells, header, pairs, plain_rows, to_json, to_markdown
from trimtab.cli.output.columns import disarm
from trimtab.cli.output.csv import format_csv


class Format(StrEnum):
    """Output formats of `trimtab backtest`."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    HTML = "html"


@dataclass(frozen=True, slots=True)
class SweepAnswer:
    """The points of a sweep, and the OOM risk that the cheapest one may have."""

    points: Sequence[Point]
    most_risk: float

    def tell(self) -> str:
        """Return one sentence that names the cheapest setting within the risk."""
        risk = f"{self.most_risk:g} OOM episodes of a workload in a month"
        found = sweep.cheapest(self.points, self.most_risk)
        if found is None:
            least = min(self.points, key=lambda each: each.risk)
            return f"None stays within {risk}; the safest is {least.setting} ({least.risk:.2f})."
        return (
            f"The cheapest within {risk}: {found.setting}, at {found.cost:.2f} spare core-hours "
            "a day (8 GiB count as a core)."
        )


def format_findings(findings: ReportContents, as_: Format, answer: SweepAnswer | None) -> str:
    """Format all results, and the answer of a sweep if there was one."""
    rows = findings.rows
    shown = [replace(row, policy=disarm(row.policy), workload=disarm(row.workload)) for row in rows]
    match as_:
        case Format.TABLE:
            table = _format_table(shown) if answer is None else _format_points(answer)
            return table + _sentence(answer)
        case Format.JSON:
            return to_json(rows) if answer is None else _points_to_json(rows, answer)
        case Format.CSV:
            return format_csv(plain_rows(rows))
        case Format.MARKDOWN:
            return to_markdown(shown) + _sentence(answer)
        case Format.HTML:
            return html_report.to_html(findings, answer.tell() if answer else "")
        case _:
            assert_never(as_)


def _sentence(answer: SweepAnswer | None) -> str:
    return f"\n{answer.tell()}\n" if answer else ""


def _format_table(rows: Sequence[Row]) -> str:
    """Format one score per line and one policy per column, which fits on a screen."""
    tables = []
    for scenario in dict.fromkeys(row.scenario for row in rows):
        chosen = [row for row in rows if row.scenario == scenario]
        table = Table(title=f"starting {scenario}", title_justify="left", box=None)
        table.add_column("")
        for row in chosen:
            # rich would parse brackets in plain text as markup.
            table.add_column(Text(row.workload or row.policy), justify="right")
        titles, *columns = header()[2:], *(cells(row)[2:] for row in chosen)
        for line in zip(titles, *columns, strict=True):
            table.add_row(*line)
        tables.append(table)
    return _print(*tables)


def _format_points(answer: SweepAnswer) -> str:
    """Format one line per setting, the safest first."""
    best = sweep.frontier(answer.points)
    table = Table(box=None)
    table.add_column("setting")
    for title in ("CPU slack %", "memory slack %", "spare core-h", "OOM a month", "best"):
        table.add_column(title, justify="right")
    for point in sorted(answer.points, key=lambda each: (each.risk, each.cost)):
        scores = point.scores
        shares = (f"{100 * share:.1f}" for share in (scores.cpu_slack, scores.memory_slack))
        table.add_row(
            str(point.setting),
            *shares,
            f"{point.cost:.2f}",
            f"{point.risk:.2f}",
            "*" if point in best else "",
        )
    return _print(table)


def _points_to_json(rows: Sequence[Row], answer: SweepAnswer) -> str:
    found = sweep.cheapest(answer.points, answer.most_risk)
    whole = {
        "points": [dict(pairs(row)) for row in rows],
        "frontier": [str(point.setting) for point in sweep.frontier(answer.points)],
        "max_oom_per_month": answer.most_risk,
        "cheapest": None if found is None else str(found.setting),
    }
    return json.dumps(whole, indent=2) + "\n"


def _print(*tables: Table) -> str:
    text = StringIO()
    console = Console(file=text, highlight=False)
    for table in tables:
        console.print(table)
    return text.getvalue()
