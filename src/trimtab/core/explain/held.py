"""Explanation of held targets: what they are held for, what that has cost, when they may fall.

The arithmetic is that of the rules (`recommendation/cost/rules.py`), for one container alone.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from trimtab.core.recommendation.cost import rules
from trimtab.core.recommendation.cost.held import HeldTargets
from trimtab.core.recommendation.cost.held_columns import CPU, MEMORY
from trimtab.core.recommendation.cost.levels import LevelWindows
from trimtab.core.recommendation.cost.rules import GIB_HOUR, CpuCosts, HoldingCosts
from trimtab.core.usage import aggregates
from trimtab.core.usage.sample_log import NameTable

_LATELY: Final = 3600.0
_SHOWN_LEVELS: Final = 7
"""Maximum number of CPU levels in the table: the cheapest one and its neighbours."""


@dataclass(frozen=True, slots=True)
class HeldMemory:
    """Reasons of a held memory target. Times assume that usage stays as it was in the last hour."""

    changed_at: datetime | None
    """Time of the last change; None if it never changed."""
    needed_at: datetime | None
    """Time at which more than `falls_to` was needed last; None if it never was."""
    peak_bytes: int
    """The usage at that time."""
    pod: str
    """The pod that used it; empty if it is not known."""
    price_gib_hours: float
    """Price of an OOM kill of a container of this size."""
    spent_gib_hours: float
    falls_to: int | None
    """The next lower target in bytes; None if no level is low enough."""
    falls_at: datetime | None
    is_tried: bool
    """True if an OOM kill set the target, and no usage has confirmed it yet."""


@dataclass(frozen=True, slots=True)
class CostOfLevel:
    """Costs of a CPU request per sample over the last days, in millicores."""

    level: int
    idle: float
    missing: float
    short_fraction: float
    """Part of the time with more usage than the level."""
    cost: float
    is_cheapest: bool


@dataclass(frozen=True, slots=True)
class HeldCpu:
    """Reasons of a held CPU target."""

    changed_at: datetime | None
    wanted: int | None
    """The cheapest level with its margin; a target follows it in large enough steps."""
    levels: tuple[CostOfLevel, ...]


def explain_memory(targets: HeldTargets, row: int, names: NameTable) -> HeldMemory | None:
    """Explain the memory target of a row; None if it has none."""
    here = np.array([row])
    for windows in targets.levels.windows(here):
        return _explain_levels(targets, row, windows, names)
    return None


def _explain_levels(
    targets: HeldTargets, row: int, windows: LevelWindows, names: NameTable
) -> HeldMemory | None:
    here, record = np.array([row]), targets.record(row)
    held, now = float(record["held"][MEMORY]), float(record["now"])
    if np.isnan(held):
        return None
    holding = targets.holding(here)
    found = rules.holding_costs(windows, holding, targets.settings)
    price = float(holding.price[0])
    earliest = float((targets.steady_since(here) + targets.lower_gaps(here, found.top))[0])
    fall = _find_fall(found, targets, row, earliest)
    since = float(windows.seen.max()) if fall is None else fall.since
    # Of the levels that were needed at that time the highest one holds the target.
    slots = np.flatnonzero(windows.seen[:, 0] == since)
    slot = int(slots[-1]) if len(slots) else int(np.flatnonzero(windows.is_known[:, 0])[-1])
    changed = float(record["changed"][MEMORY])
    return HeldMemory(
        changed_at=aggregates.from_seconds(changed) if np.isfinite(changed) else None,
        needed_at=aggregates.from_seconds(float(windows.seen[slot, 0])),
        peak_bytes=int(windows.peaks[slot, 0]),
        pod=names.name(int(windows.pods[slot, 0]) - 1),
        price_gib_hours=price / GIB_HOUR,
        spent_gib_hours=0.0 if fall is None else fall.spent / GIB_HOUR,
        falls_to=None if fall is None else int(fall.target),
        falls_at=None if fall is None else aggregates.from_seconds(max(fall.at, now)),
        is_tried=bool(record["is_tried"]),
    )


@dataclass(frozen=True, slots=True)
class _Fall:
    """A reduction that may come."""

    at: float
    target: float
    since: float
    """Time at which more was needed last."""
    spent: float
    """Byte-seconds."""


def _find_fall(
    found: HoldingCosts, targets: HeldTargets, row: int, earliest: float
) -> _Fall | None:
    """Find the reduction that comes first, if usage stays as it was in the last hour."""
    settings, record = targets.settings, targets.record(row)
    held, price = float(record["held"][MEMORY]), float(targets.holding(np.array([row])).price[0])
    top, now = float(found.top[0]), float(record["now"])
    tried, usual = settings.tried_lower_fraction, settings.lower_fraction
    falls: list[_Fall] = []
    start = held
    if top < held * (1 - (tried if record["is_tried"] else usual)):
        start = top
        # Nothing ever needed what is held above the highest level.
        last = float(found.last_seen[0])
        falls.append(_Fall(earliest, top, last, (held - top) * (now - last)))
    needs, since = found.needs[:, 0], found.unneeded_since[:, 0]
    is_lower = (needs <= held * (1 - usual)) & (needs < start)
    # What was needed within the last hour will be needed again.
    for slot in np.flatnonzero(is_lower & (since > 0) & (since < now - _LATELY)):
        rate = start - float(needs[slot])
        paid = float(since[slot]) + price / rate
        oldest = float(since[slot]) + settings.least_age.total_seconds()
        at = max(paid, oldest, earliest)
        spent = float(found.costs[slot, 0])
        falls.append(_Fall(at, float(needs[slot]), float(since[slot]), spent))
    # Of two at the same time the lower target saves more.
    return min(falls, key=lambda fall: (fall.at, fall.target), default=None)


def explain_cpu(targets: HeldTargets, row: int) -> HeldCpu | None:
    """Explain the CPU target of a row; None if it has none."""
    record = targets.record(row)
    if np.isnan(record["held"][CPU]):
        return None
    changed, wanted = float(record["changed"][CPU]), float(record["cpu_target"])
    levels: tuple[CostOfLevel, ...] = ()
    for windows in targets.cpu.windows(np.array([int(record["cpu_row"])])):
        levels = _table(rules.cpu_costs(windows, targets.settings))
    return HeldCpu(
        aggregates.from_seconds(changed) if np.isfinite(changed) else None,
        int(wanted) if np.isfinite(wanted) else None,
        levels,
    )


def _table(found: CpuCosts) -> tuple[CostOfLevel, ...]:
    """Return the cheapest level and its neighbours, the lowest first."""
    costs = found.costs[:, 0]
    known = np.flatnonzero(np.isfinite(costs))
    if not len(known):
        return ()
    cheapest = int(np.argmin(costs))
    place = int(np.searchsorted(known, cheapest))
    begin = max(min(place - _SHOWN_LEVELS // 2, len(known) - _SHOWN_LEVELS), 0)
    return tuple(
        CostOfLevel(
            level=int(found.levels[slot, 0]),
            idle=float(found.idle[slot, 0]),
            missing=float(found.missing[slot, 0]),
            short_fraction=float(found.short[slot, 0]),
            cost=float(costs[slot]),
            is_cheapest=slot == cheapest,
        )
        for slot in known[begin : begin + _SHOWN_LEVELS].tolist()
    )
