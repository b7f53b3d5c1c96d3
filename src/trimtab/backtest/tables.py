"""Tables: scores as rows of text, for people and for programs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Final

from trimtab.backtest.scores import Interval, Scores


@dataclass(frozen=True, slots=True)
class Row:
    """Scores of one policy in one scenario, for one workload or for all."""

    scenario: str
    policy: str
    scores: Scores
    intervals: dict[str, Interval]
    """By score; empty if there are too few workloads."""
    workload: str = ""
    """Empty for all of them together."""


@dataclass(frozen=True, slots=True)
class _Column:
    """Presentation of a score."""

    title: str
    scale: float = 1.0
    digits: int = 1


COLUMNS: Final = {
    "cpu_slack": _Column("CPU slack %", 100.0),
    "cpu_slack_core_hours": _Column("core-h a day", digits=2),
    "cpu_short_time": _Column("CPU short %", 100.0, 2),
    "cpu_short_area": _Column("CPU missing %", 100.0, 2),
    "memory_slack": _Column("memory slack %", 100.0),
    "memory_slack_gib_hours": _Column("GiB-h a day"),
    "oom_episodes": _Column("OOM episodes a month", digits=2),
    "oom_kills": _Column("OOM kills a month", digits=2),
    "workloads_killed": _Column("workloads killed %", 100.0),
    "restarts": _Column("restarts a month"),
    "resizes": _Column("resizes a month"),
    "good_after": _Column("good after h"),
}
"""By score, in the order in which they are shown."""


def header() -> list[str]:
    """Return the titles of the columns."""
    return ["scenario", "policy", *(column.title for column in COLUMNS.values())]


def cells(row: Row) -> list[str]:
    """Return the cells of one row, as people read them."""
    names = [row.scenario, f"{row.policy} {row.workload}".rstrip()]
    return [*names, *(_cell(row.scores, name) for name in COLUMNS)]


def plain_rows(rows: Sequence[Row]) -> Iterator[list[object]]:
    """Yield the names of all columns, then the values of each row."""
    names = [field.name for field in fields(Scores)]
    yield ["scenario", "policy", "workload", *names]
    for row in rows:
        values = [_plain(getattr(row.scores, name)) for name in names]
        yield [row.scenario, row.policy, row.workload, *values]


def pairs(row: Row) -> Iterator[tuple[str, object]]:
    """Yield the fields of one row, with its confidence intervals, as JSON has them."""
    yield from (("scenario", row.scenario), ("policy", row.policy))
    yield "workload", row.workload or None
    for field in fields(Scores):
        yield field.name, _plain(getattr(row.scores, field.name))
    if row.intervals:
        yield (
            "confidence_95",
            {
                name: [_plain(interval.lowest), _plain(interval.highest)]
                for name, interval in row.intervals.items()
            },
        )


def _cell(scores: Scores, name: str) -> str:
    column, value = COLUMNS[name], getattr(scores, name)
    return f"{value * column.scale:.{column.digits}f}" if math.isfinite(value) else "never"


def _plain(value: float) -> float | None:
    # JSON has no infinity; None stands for a time that never came.
    return value if math.isfinite(value) else None
