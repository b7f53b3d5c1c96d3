"""The tally: what a replay cost and whom it hurt, by workload."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Final

import numpy as np

from trimtab.backtest.demand import CPU, MEMORY, Demand, percentile
from trimtab.backtest.fleet import Fleet
from trimtab.core.buckets import Floats, Ints

EPISODE_MINUTES: Final = 60
"""A kill that comes later than this after the one before begins another episode."""
_ROOM: Final = 1.5
_SMALL: Final = np.array([25.0, 170.0 * 1024 * 1024])
"""Below this nobody minds how much of it is spare."""


@dataclass(slots=True)
class Tally:
    """Sums over all minutes, a column for each workload."""

    workloads: int
    minutes: Ints = field(init=False)
    requested: Floats = field(init=False)
    """By resource: millicore-minutes and byte-minutes, as all sums of amounts."""
    slack: Floats = field(init=False)
    """What was requested and not needed."""
    cpu_demand: Floats = field(init=False)
    cpu_missing: Floats = field(init=False)
    """What was needed and not requested."""
    short_minutes: Ints = field(init=False)
    """Minutes in which some CPU was missing."""
    kills: Ints = field(init=False)
    episodes: Ints = field(init=False)
    replacements: Ints = field(init=False)
    resizes: Ints = field(init=False)
    good_after: Floats = field(init=False)
    """Hours until the requests first suited the day that followed; infinite if they never did."""
    _last_kill: Ints = field(init=False)

    def __post_init__(self) -> None:
        count = self.workloads
        self.requested, self.slack = np.zeros((2, count)), np.zeros((2, count))
        self.cpu_demand, self.cpu_missing = np.zeros(count), np.zeros(count)
        self.minutes, self.short_minutes, self.kills = (np.zeros(count, np.int64) for _ in range(3))
        self.episodes, self.replacements, self.resizes = (
            np.zeros(count, np.int64) for _ in range(3)
        )
        self.good_after = np.full(count, np.inf)
        self._last_kill = np.full(count, -EPISODE_MINUTES - 1)

    def account(self, rows: Ints, fleet: Fleet, demand: Floats, minutes: int) -> None:
        """Hold what is requested against what is needed."""
        requests = fleet.requests[:, rows]
        spare = requests - demand
        self.minutes[rows] += minutes
        self.requested[:, rows] += requests * minutes
        self.slack[:, rows] += np.maximum(spare, 0.0) * minutes
        self.cpu_demand[rows] += demand[CPU] * minutes
        self.cpu_missing[rows] += np.maximum(-spare[CPU], 0.0) * minutes
        self.short_minutes[rows] += (spare[CPU] < 0) * minutes

    def count_kills(self, rows: Ints, minute: int) -> None:
        """Count one kill for each of some workloads."""
        self.kills[rows] += 1
        self.episodes[rows] += minute - self._last_kill[rows] > EPISODE_MINUTES
        self._last_kill[rows] = minute

    def count_changes(self, rows: Ints, *, in_place: bool) -> None:
        """Count one change for each of some workloads."""
        changes = self.resizes if in_place else self.replacements
        changes[rows] += 1

    def look_for_good_sizes(self, step: int, fleet: Fleet, demand: Demand) -> None:
        """Note who has requests, for the first time, that suit the day that follows."""
        left = demand.lengths - step > 1
        for row in np.flatnonzero(left & np.isinf(self.good_after)).tolist():
            coming = demand.values(row)[step + 1 : step + 1 + demand.steps_per_day]
            if _suits(fleet.requests[:, row], coming):
                self.good_after[row] = (step + 1) * demand.step_seconds / 3600


def join(tallies: Sequence[Tally]) -> Tally:
    """The tally of all workloads of some replays."""
    joined = Tally(sum(tally.workloads for tally in tallies))
    for each in fields(Tally):
        if each.name != "workloads":
            parts = [getattr(tally, each.name) for tally in tallies]
            setattr(joined, each.name, np.concatenate(parts, axis=-1))
    return joined


def _suits(requests: Floats, coming: Floats) -> bool:
    """Whether requests cover what usually comes, and are not half as much again."""
    needed = np.array([percentile(coming[:, CPU], 0.95), percentile(coming[:, MEMORY], 0.99)])
    return bool(
        np.all(needed <= requests) and np.all(requests <= _ROOM * np.maximum(needed, _SMALL))
    )
