"""Results of `trimtab backtest`, written for people, for programs and for a browser."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, assert_never

from trimtab.backtest import sweep, tables
from trimtab.backtest.sweep import Point
from trimtab.backtest.tables import Row
from trimtab.cli.backtest import html
from trimtab.cli.backtest.html import ReportContents
from trimtab.cli.output import columns, csv, documents, markdown
from trimtab.cli.output.formats import Format

BacktestFormat: TypeAlias = Literal[
    Format.TABLE, Format.JSON, Format.CSV, Format.MARKDOWN, Format.HTML
]


@dataclass(frozen=True, slots=True)
class SweepAnswer:
    """The points of a sweep, and the OOM risk that the cheapest one may have."""

    points: Sequence[Point]
    most_risk: float

    def describe(self) -> str:
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


_POINT_TITLES: Final = (
    "setting",
    "CPU slack %",
    "memory slack %",
    "spare core-h",
    "OOM a month",
    "best",
)


_RATIOS: Final = "Ratio to original; less is better."
_SIZES: Final = (
    "By size: 95th percentile of what a workload needed. x: ratio to original; less is better."
)


def format_findings(
    findings: ReportContents, output: BacktestFormat, answer: SweepAnswer | None
) -> str:
    """Format all results, and the answer of a sweep if there was one."""
    rows = findings.rows
    match output:
        case Format.TABLE:
            lines = _lay_out_rows(rows) if answer is None else _lay_out_points(answer)
            return "".join(f"{line}\n" for line in lines) + _sentence(answer)
        case Format.JSON:
            records = [dict(tables.pairs(row)) for row in rows]
            return documents.format_json(records if answer is None else _record(records, answer))
        case Format.CSV:
            return csv.format_csv(tables.plain_rows(rows))
        case Format.MARKDOWN:
            return "\n".join(_markdown_tables(rows)) + _sentence(answer)
        case Format.HTML:
            return html.to_html(findings, answer.describe() if answer else "")
        case _:
            assert_never(output)


def _sentence(answer: SweepAnswer | None) -> str:
    return f"\n{answer.describe()}\n" if answer else ""


def _markdown_tables(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table of scores, that of ratios to the original, and that of size classes."""
    shown = [tables.cells(row) for row in rows if not row.size]
    yield markdown.format_table([tables.header(), *shown], numbers=range(2, len(shown[0])))
    if ratios := [tables.ratio_cells(row) for row in rows if row.is_total and row.ratios]:
        titles = tables.ratio_header()
        table = markdown.format_table([titles, *ratios], numbers=range(2, len(titles)))
        yield f"{_RATIOS}\n\n{table}"
    if sizes := [tables.size_cells(row) for row in tables.list_sizes(rows)]:
        titles = tables.size_header()
        table = markdown.format_table([titles, *sizes], numbers=[2, *range(4, len(titles))])
        yield f"{_SIZES}\n\n{table}"


def _lay_out_rows(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each score, with a column for each policy, which fits on a screen."""
    for scenario in dict.fromkeys(row.scenario for row in rows):
        chosen = [row for row in rows if row.scenario == scenario and not row.size]
        names = ["", *(row.workload or row.policy for row in chosen)]
        scores = zip(tables.header()[2:], *(tables.cells(row)[2:] for row in chosen), strict=True)
        yield f"starting {scenario}"
        yield from _lay_out([names, *scores])
    if compared := [row for row in rows if row.is_total and row.ratios]:
        # A row for each scenario and policy, so that many of them are seen at once.
        yield from ("", _RATIOS)
        yield from _lay_out([tables.ratio_header(), *map(tables.ratio_cells, compared)], names=2)
    if sizes := tables.list_sizes(rows):
        yield from ("", _SIZES)
        yield from _lay_out([tables.size_header(), *map(tables.size_cells, sizes)], names=2)


def _lay_out_points(answer: SweepAnswer) -> list[str]:
    """Return a line for each setting, the safest first."""
    best = sweep.frontier(answer.points)
    lines = [
        (
            str(point.setting),
            f"{100 * point.scores.cpu_slack:.1f}",
            f"{100 * point.scores.memory_slack:.1f}",
            f"{point.cost:.2f}",
            f"{point.risk:.2f}",
            "*" if point in best else "",
        )
        for point in sorted(answer.points, key=lambda each: (each.risk, each.cost))
    ]
    return _lay_out([_POINT_TITLES, *lines])


def _lay_out(rows: Sequence[Sequence[str]], names: int = 1) -> list[str]:
    right = range(names, len(rows[0]))
    return columns.lay_out(rows, right=right, width=columns.screen_width())


def _record(points: Sequence[dict[str, object]], answer: SweepAnswer) -> dict[str, object]:
    found = sweep.cheapest(answer.points, answer.most_risk)
    return {
        "points": points,
        "frontier": [str(point.setting) for point in sweep.frontier(answer.points)],
        "max_oom_per_month": answer.most_risk,
        "cheapest": None if found is None else str(found.setting),
    }
