"""A backtest as an HTML page: the effects of policies, in one file that also works offline."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.backtest import tables
from trimtab.backtest.demand import CPU, MEMORY, Demand
from trimtab.backtest.runs import Run, RunOutcome
from trimtab.backtest.tables import Row
from trimtab.backtest.timeline import LOWER, REQUEST, UPPER, UsageTimeline, most_needed
from trimtab.cli.output import charts, html
from trimtab.cli.output.charts import Chart, ChartLine, Dot, Timeline
from trimtab.core.histogram.buckets import Floats, Ints

MOST_WORKLOADS: Final = 6
"""Maximum number of workloads that are drawn: those with the most kills and changes."""
_UNITS: Final = (("CPU, cores", 1000.0), ("memory, GiB", 1024.0**3))
_HEADROOM: Final = 1.5
"""Bounds are drawn up to this multiple of the highest need or request."""
_EACH: Final = "All figures are for one workload."
_KEY: Final = (
    ("used", "needed, at most"),
    ("request", "requested"),
    ("bound", "bounds"),
    ("mark", "OOM-killed"),
)
_LOOKS: Final = 8
"""Number of colours in the style sheet."""


@dataclass(frozen=True, slots=True)
class ReportContents:
    """Contents of a page."""

    source: str
    """Source of the recorded usage."""
    demand: Demand
    runs: Sequence[Run]
    outcomes: Sequence[RunOutcome]
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class _RunCourse:
    """The charts of one workload under one policy."""

    title: str
    charts: Sequence[Chart]


@dataclass(frozen=True, slots=True)
class _WorkloadCourse:
    """The charts of one workload under all policies."""

    name: str
    runs: Sequence[_RunCourse]


def to_html(findings: ReportContents, answer: str = "") -> str:
    """Return the whole page, which begins with an answer if there is one."""
    count, days = len(findings.demand), _days(findings.demand)
    totals = [row for row in findings.rows if row.is_total]
    return html.render(
        "backtest.html",
        about=f"{count} workloads over up to {days:.1f} days, from {findings.source}. {_EACH}",
        answer=answer,
        titles=tables.header(),
        totals=[tables.cells(row) for row in totals],
        ratio_titles=tables.ratio_header(),
        ratios=[tables.ratio_cells(row) for row in totals if row.ratios],
        size_titles=tables.size_header(),
        sizes=[tables.size_cells(row) for row in tables.list_sizes(findings.rows)],
        frontiers=list(_list_frontiers(totals)),
        key=_KEY,
        workloads=[_draw_workload(findings, one) for one in _choose_drawn(findings.outcomes)],
        each_workload=[tables.cells(row) for row in findings.rows if row.workload],
    )


def _list_frontiers(totals: Sequence[Row]) -> Iterator[Chart]:
    """Yield the charts of slack against risk, for memory and CPU of each scenario."""
    for scenario in dict.fromkeys(row.scenario for row in totals):
        rows = [row for row in totals if row.scenario == scenario]
        memory = [_dot(row, row.scores.memory_slack, row.scores.oom_episodes, rows) for row in rows]
        cpu = [
            _dot(row, row.scores.cpu_slack, 100 * row.scores.cpu_short_time, rows) for row in rows
        ]
        yield _scatter(f"memory, starting {scenario}", "OOM episodes a month", memory)
        yield _scatter(f"CPU, starting {scenario}", "% of time short", cpu)


def _scatter(title: str, risk: str, dots: Sequence[Dot]) -> Chart:
    axes = charts.axes_around("slack, % of what is requested", risk, dots)
    return charts.lay_out_dots(title, axes, dots)


def _dot(row: Row, slack: float, risk: float, rows: Sequence[Row]) -> Dot:
    return Dot(row.policy, 100 * slack, risk, f"p{rows.index(row) % _LOOKS}")


def _draw_workload(findings: ReportContents, workload: int) -> _WorkloadCourse:
    """Return requests, usage and bounds of a workload under each policy."""
    name, runs = findings.demand.workloads[workload], []
    for run, outcome in zip(findings.runs, findings.outcomes, strict=True):
        title = f"{run.contender.name}, starting {run.scenario.name}"
        drawn = [
            charts.lay_out_timeline(
                _timeline(f"{name}: {title}", findings.demand, outcome.timeline, workload, resource)
            )
            for resource in (CPU, MEMORY)
        ]
        runs.append(_RunCourse(title, drawn))
    return _WorkloadCourse(name, runs)


def _choose_drawn(outcomes: Sequence[RunOutcome]) -> list[int]:
    """Return the workloads with the most kills under all policies, then the most changes."""
    tallies = [outcome.tally for outcome in outcomes]
    kills = np.array([tally.kills for tally in tallies]).sum(axis=0)
    changes = np.array([tally.replacements + tally.resizes for tally in tallies]).sum(axis=0)
    order: Ints = np.lexsort((changes, kills))[::-1]
    return [int(workload) for workload in order[:MOST_WORKLOADS]]


def _timeline(
    title: str, demand: Demand, timeline: UsageTimeline, workload: int, resource: int
) -> Timeline:
    unit, scale = _UNITS[resource]
    count = -(-int(demand.lengths[workload]) // timeline.steps)
    lines = timeline.lines[:count, :, resource, workload] / scale
    used = most_needed(demand, workload, timeline.steps)[:, resource] / scale
    killed = np.flatnonzero(timeline.kills[:count, workload]) if resource == MEMORY else ()
    bounds = [
        ChartLine(name, _below(lines[:, place], _HEADROOM * _highest(used, lines)), "bound")
        for name, place in (("lower bound", LOWER), ("upper bound", UPPER))
    ]
    return Timeline(
        title,
        unit,
        days=float(demand.lengths[workload]) / demand.steps_per_day,
        lines=[
            *bounds,
            ChartLine("needed", used.tolist(), "used", is_stepped=False),
            ChartLine("requested", lines[:, REQUEST].tolist(), "request"),
        ],
        marks=[(place + 0.5) / count for place in killed],
    )


def _highest(used: Floats, lines: Floats) -> float:
    return float(max(used.max(initial=0.0), np.nanmax(lines[:, REQUEST])))


def _below(values: Floats, most: float) -> list[float]:
    """Replace values off the chart by NaN: on the first day upper bounds are very high."""
    return [value if value <= most else np.nan for value in values.tolist()]


def _days(demand: Demand) -> float:
    return float(demand.lengths.max(initial=0)) / demand.steps_per_day
