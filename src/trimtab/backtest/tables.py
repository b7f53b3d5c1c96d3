"""Tables: scores as rows of text, for people and for programs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Final

from trimtab.backtest.scores import MEASURES, Interval, Ratio, Scores


@dataclass(frozen=True, slots=True)
class Row:
    """Scores of one policy in one scenario, for one workload, a size class or all."""

    scenario: str
    policy: str
    scores: Scores
    intervals: dict[str, Interval]
    """By score; empty if there are too few workloads."""
    workload: str = ""
    """Empty for all of them together."""
    size: str = ""
    """Name of a size class; empty for all sizes."""
    workloads: int = 1
    """Number of workloads."""
    ratios: Mapping[str, Ratio] = field(default_factory=dict)
    """Ratios to the original, by measure; empty if it was not replayed, and for itself."""

    @property
    def is_total(self) -> bool:
        """True for all workloads together."""
        return not (self.workload or self.size)


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
    "updates": _Column("updates a month"),
    "good_after": _Column("good after h"),
}
"""By score, in the order in which they are shown."""


_BY_SIZE: Final = (
    "cpu_slack",
    "cpu_short_time",
    "memory_slack",
    "memory_slack_gib_hours",
    "oom_episodes",
    "oom_kills",
)
"""Scores that are shown of size classes."""
_NONE: Final = "-"


def header() -> list[str]:
    """Return the titles of the columns."""
    return ["scenario", "policy", *(column.title for column in COLUMNS.values())]


def cells(row: Row) -> list[str]:
    """Return the cells of one row, as people read them."""
    names = [row.scenario, f"{row.policy} {row.workload}".rstrip()]
    return [*names, *(_cell(row, name) for name in COLUMNS)]


def ratio_header() -> list[str]:
    """Return the titles of the columns of ratios."""
    return ["scenario", "policy", *(COLUMNS[name].title for name in MEASURES)]


def ratio_cells(row: Row) -> list[str]:
    """Return the ratios of one row to the original."""
    return [row.scenario, row.policy, *(_ratio(row.ratios.get(name)) for name in MEASURES)]


def list_sizes(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of size classes: by scenario, then by class, with the policies together."""
    sized = [row for row in rows if row.size]
    if not sized:
        return []
    scenarios, sizes = (list(dict.fromkeys(keys)) for keys in zip(*map(_class, sized), strict=True))
    return sorted(sized, key=lambda row: (scenarios.index(row.scenario), sizes.index(row.size)))


def _class(row: Row) -> tuple[str, str]:
    return row.scenario, row.size


def size_header() -> list[str]:
    """Return the titles of the columns of size classes."""
    titles = [COLUMNS[name].title for name in _BY_SIZE]
    return ["scenario", "size", "workloads", "policy", *titles]


def size_cells(row: Row) -> list[str]:
    """Return the cells of one size class: each score, and its ratio to the original."""
    names = [row.scenario, row.size, str(row.workloads), row.policy]
    return [*names, *(_score_and_ratio(row, name) for name in _BY_SIZE)]


def plain_rows(rows: Sequence[Row]) -> Iterator[list[object]]:
    """Yield the names of all columns, then the values of each row."""
    names = [each.name for each in fields(Scores)]
    yield [
        *("scenario", "policy", "workload", "size", "workloads"),
        *names,
        *(f"{name}_{end}" for name in names for end in ("lowest", "highest")),
        *(f"{name}_ratio{end}" for name in MEASURES for end in ("", "_lowest", "_highest")),
    ]
    for row in rows:
        yield [
            *(row.scenario, row.policy, row.workload, row.size, row.workloads),
            *(_plain(getattr(row.scores, name)) for name in names),
            *(end for name in names for end in _ends(row.intervals.get(name))),
            *(number for name in MEASURES for number in _numbers(row.ratios.get(name))),
        ]


def pairs(row: Row) -> Iterator[tuple[str, object]]:
    """Yield the fields of one row, with its confidence intervals, as JSON has them."""
    yield from (("scenario", row.scenario), ("policy", row.policy))
    yield from (("workload", row.workload or None), ("size", row.size or None))
    yield "workloads", row.workloads
    for each in fields(Scores):
        yield each.name, _plain(getattr(row.scores, each.name))
    if row.intervals:
        yield "confidence_95", {name: _ends(each) for name, each in row.intervals.items()}
    if row.ratios:
        names = ("value", "lowest", "highest")
        yield (
            "ratio_to_original",
            {
                name: dict(zip(names, _numbers(each), strict=True))
                for name, each in row.ratios.items()
            },
        )


def _cell(row: Row, name: str) -> str:
    value, interval = _format(name, getattr(row.scores, name)), row.intervals.get(name)
    if interval is None:
        return value
    return f"{value} ({_format(name, interval.lowest)}..{_format(name, interval.highest)})"


def _format(name: str, value: float) -> str:
    column = COLUMNS[name]
    return f"{value * column.scale:.{column.digits}f}" if math.isfinite(value) else "never"


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return _NONE
    interval = ratio.interval
    ends = f" ({interval.lowest:.2f}..{interval.highest:.2f})" if interval else ""
    return f"{ratio.value:.2f}{ends}"


def _score_and_ratio(row: Row, name: str) -> str:
    ratio = row.ratios.get(name)
    return _format(name, getattr(row.scores, name)) + (f" x{ratio.value:.2f}" if ratio else "")


def _numbers(ratio: Ratio | None) -> list[float | None]:
    if ratio is None:
        return [None, *_ends(None)]
    return [_plain(ratio.value), *_ends(ratio.interval)]


def _ends(interval: Interval | None) -> list[float | None]:
    return [_plain(interval.lowest), _plain(interval.highest)] if interval else [None, None]


def _plain(value: float) -> float | None:
    # JSON has no infinity; None stands for a time that never came.
    return value if math.isfinite(value) else None
