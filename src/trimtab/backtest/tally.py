"""The tally: what a replay cost and whom it hurt, by workload."""

from collections.abc import Sequence
from dataclasses import field, fields
from typing import Final

import numpy as np

from trimtab.backtest.demand import CPU
from trimtab.backtest.fleet import Fleet
from trimtab.core.buckets import Floats, Ints
from trimtab.core.records import dataclass

EPISODE_MINUTES: Final = 60
"""A kill that comes later than this after the one before begins another episode."""


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

    def account(self, rows: Ints, fleet: Fleet, demand: Floats, minutes: Ints) -> None:
        """Hold what is requested against what is needed."""
        requests = fleet.requests[:, rows]
        spare = requests - demand
        self.minutes[rows] += minutes
        self.requested[:, rows] += requests * minutes
        self.slack[:, rows] += np.maximum(spare, 0.0) * minutes
        self.cpu_demand[rows] += demand[CPU] * minutes
        self.cpu_missing[rows] += np.maximum(-spare[CPU], 0.0) * minutes
        self.short_minutes[rows] += (spare[CPU] < 0) * minutes

    def count_kills(self, rows: Ints, minutes: Ints) -> None:
        """Count one kill for each of some workloads, in some minute of each."""
        self.kills[rows] += 1
        self.episodes[rows] += minutes - self._last_kill[rows] > EPISODE_MINUTES
        self._last_kill[rows] = minutes

    def count_changes(self, rows: Ints, *, in_place: bool) -> None:
        """Count one change for each of some workloads."""
        changes = self.resizes if in_place else self.replacements
        changes[rows] += 1

    def note_good_sizes(self, rows: Ints, hours: Floats) -> None:
        """Note who has had suitable requests, for the first time, after some hours."""
        self.good_after[rows] = hours


def join(tallies: Sequence[Tally]) -> Tally:
    """The tally of all workloads of some replays."""
    joined = Tally(sum(tally.workloads for tally in tallies))
    for each in fields(Tally):
        if each.name != "workloads":
            parts = [getattr(tally, each.name) for tally in tallies]
            setattr(joined, each.name, np.concatenate(parts, axis=-1))
    return joined
