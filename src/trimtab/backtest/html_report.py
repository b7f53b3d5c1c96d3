"""The page: the effects of policies, in one HTML file that also works offline."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import Final

import numpy as np

from trimtab.backtest.charts import ChartLine, Dot, Timeline, axes_around, draw_dots, draw_timeline
from trimtab.backtest.demand import CPU, MEMORY, Demand
from trimtab.backtest.runs import Run, RunOutcome
from trimtab.backtest.tables import Row, cells, header
from trimtab.backtest.timeline import LOWER, REQUEST, UPPER, UsageTimeline, most_needed
from trimtab.core.histogram.buckets import Floats, Ints


def to_page(title: str, body: str, more_style: str = "") -> str:
    """Return the whole page around a body."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_style()}{more_style}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _style() -> str:
    return resources.files("trimtab.backtest").joinpath("page.css").read_text(encoding="utf-8")


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
    ("mark", "killed for want of memory"),
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


def to_html(findings: ReportContents, answer: str = "") -> str:
    """Return the whole page, which begins with an answer if there is one."""
    count, days = len(findings.demand), _days(findings.demand)
    body = "\n".join(
        [
            "<h1>What these policies would have done</h1>",
            _note(f"{count} workloads over up to {days:.1f} days, from {findings.source}. {_EACH}"),
            f"<p><strong>{escape(answer)}</strong></p>" if answer else "",
            _table([row for row in findings.rows if not row.workload]),
            *_frontiers(findings),
            *_courses(findings),
            *_per_workload([row for row in findings.rows if row.workload]),
        ]
    )
    return to_page("trimtab backtest", body)


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _table(rows: Sequence[Row]) -> str:
    lines = [f"<tr>{''.join(f'<th>{escape(title)}</th>' for title in header())}</tr>"]
    lines += [
        f"<tr>{''.join(f'<td>{escape(each)}</td>' for each in cells(row))}</tr>" for row in rows
    ]
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def _per_workload(rows: Sequence[Row]) -> Iterator[str]:
    if rows:
        yield "<h2>Each workload</h2>"
        yield _table(rows)


def _frontiers(findings: ReportContents) -> Iterator[str]:
    """Draw slack against risk, with a chart for each scenario."""
    yield "<h2>What is wasted, and what is risked</h2>"
    yield _note("The lower and the further left, the better.")
    totals = [row for row in findings.rows if not row.workload]
    yield '<div class="charts">'
    for scenario in dict.fromkeys(row.scenario for row in totals):
        rows = [row for row in totals if row.scenario == scenario]
        memory = [_dot(row, row.scores.memory_slack, row.scores.oom_episodes, rows) for row in rows]
        cpu = [
            _dot(row, row.scores.cpu_slack, 100 * row.scores.cpu_short_time, rows) for row in rows
        ]
        yield _scatter(f"memory, starting {scenario}", "OOM episodes a month", memory)
        yield _scatter(f"CPU, starting {scenario}", "% of time short", cpu)
    yield "</div>"


def _scatter(title: str, risk: str, dots: Sequence[Dot]) -> str:
    chart = draw_dots(title, axes_around("slack, % of what is requested", risk, dots), dots)
    return f"<div><h3>{escape(title)}</h3>{chart}</div>"


def _dot(row: Row, slack: float, risk: float, rows: Sequence[Row]) -> Dot:
    return Dot(row.policy, 100 * slack, risk, f"p{rows.index(row) % _LOOKS}")


def _courses(findings: ReportContents) -> Iterator[str]:
    """Draw requests, usage and bounds of the workloads with the most kills and changes."""
    yield "<h2>How it went</h2>"
    key = "".join(f'<span><i class="{look}"></i>{meaning}</span>' for look, meaning in _KEY)
    yield f'<p class="note key">{key}</p>'
    for workload in _telling(findings.outcomes):
        name = findings.demand.workloads[workload]
        yield f"<h2>{escape(name)}</h2>"
        for run, outcome in zip(findings.runs, findings.outcomes, strict=True):
            title = f"{run.contender.name}, starting {run.scenario.name}"
            yield f'<h3>{escape(title)}</h3><div class="charts">'
            for resource in (CPU, MEMORY):
                yield draw_timeline(
                    _timeline(
                        f"{name}: {title}", findings.demand, outcome.course, workload, resource
                    )
                )
            yield "</div>"


def _telling(outcomes: Sequence[RunOutcome]) -> list[int]:
    """Return the workloads with the most kills under all policies, then the most changes."""
    tallies = [outcome.tally for outcome in outcomes]
    kills = np.array([tally.kills for tally in tallies]).sum(axis=0)
    changes = np.array([tally.replacements + tally.resizes for tally in tallies]).sum(axis=0)
    order: Ints = np.lexsort((changes, kills))[::-1]
    return [int(workload) for workload in order[:MOST_WORKLOADS]]


def _timeline(
    title: str, demand: Demand, course: UsageTimeline, workload: int, resource: int
) -> Timeline:
    unit, scale = _UNITS[resource]
    count = -(-int(demand.lengths[workload]) // course.steps)
    lines = course.lines[:count, :, resource, workload] / scale
    used = most_needed(demand, workload, course.steps)[:, resource] / scale
    killed = np.flatnonzero(course.kills[:count, workload]) if resource == MEMORY else ()
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
