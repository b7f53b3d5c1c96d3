"""The fleet: one container for each workload, as columns, and the effect of a minute of demand."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Final

import numpy as np

from trimtab.backtest.demand import CPU, MEMORY
from trimtab.core.histogram.buckets import Floats, Ints
from trimtab.core.histogram.memory_peaks import Booleans

LONG_RUN: Final = 10
"""After this many minutes without a kill, the next one is the first of a series again."""
_FIRST_DELAY: Final = 10.0 / 60.0
_LONGEST_DELAY: Final = 5


@dataclass(slots=True)
class Fleet:
    """Size and state of each container."""

    requests: Floats
    """By resource and workload."""
    limits: Floats
    age: Ints = field(init=False)
    """Minutes since the pod started or was last changed."""
    ran: Ints = field(init=False)
    """Minutes since the container started."""
    delay: Ints = field(init=False)
    """Minutes until the container is started again after a kill."""
    kills_in_row: Ints = field(init=False)
    killed_after: Ints = field(init=False)
    """Minutes that the container had run when it was last killed; -1 if it never was."""
    since_kill: Ints = field(init=False)
    """Minutes since then."""
    is_retaken: Booleans = field(init=False)
    """True for containers whose coming step has to be taken minute by minute."""

    def __post_init__(self) -> None:
        count = self.requests.shape[1]
        self.age, self.ran, self.delay, self.kills_in_row, self.since_kill = (
            np.zeros(count, np.int64) for _ in range(5)
        )
        self.killed_after = np.full(count, -1)
        self.is_retaken = np.zeros(count, np.bool_)

    def visible(self, rows: Ints, demand: Floats) -> Floats:
        """Return the part of the demand that a container can use."""
        seen = demand.copy()
        seen[CPU] = np.minimum(demand[CPU], self.limits[CPU, rows])
        return seen

    def is_over(self, rows: Ints, demand: Floats) -> Booleans:
        """True for containers that need more memory than their limit."""
        return np.asarray(demand[MEMORY] > self.limits[MEMORY, rows])

    def wait(self, rows: Ints) -> None:
        """Let a minute pass for containers that wait for their restart."""
        self.delay[rows] -= 1
        self._grow_older(rows, 1)

    def run(self, rows: Ints, minutes: Ints | int) -> None:
        """Let minutes pass for containers that run."""
        self.ran[rows] += minutes
        self._grow_older(rows, minutes)

    def take_back(self, rows: Ints, minutes: Ints) -> None:
        """Undo the last minutes of containers that ran, to take them again one by one."""
        self.run(rows, -minutes)
        self.is_retaken[rows] = True

    def kill(self, rows: Ints) -> None:
        """Kill containers in the current minute."""
        ran = self.ran[rows]
        self.killed_after[rows], self.since_kill[rows] = ran, 0
        self.kills_in_row[rows] = np.where(ran >= LONG_RUN, 1, self.kills_in_row[rows] + 1)
        doublings = np.minimum(self.kills_in_row[rows] - 1, _LONGEST_DELAY + 1)
        delays = np.ceil(_FIRST_DELAY * 2.0**doublings)
        # The minute of the kill is the first one.
        self.delay[rows] = np.minimum(delays, _LONGEST_DELAY) - 1
        self.ran[rows] = 0
        self.age[rows] += 1

    def resize(self, rows: Ints, requests: Floats, limits: Floats) -> None:
        """Resize containers in place."""
        self.requests[:, rows], self.limits[:, rows] = requests, limits
        self.age[rows] = 0

    def replace(self, rows: Ints, requests: Floats, limits: Floats) -> None:
        """Replace pods by new ones of another size."""
        self.resize(rows, requests, limits)
        self.ran[rows] = self.delay[rows] = self.kills_in_row[rows] = self.since_kill[rows] = 0
        self.killed_after[rows] = -1

    def _grow_older(self, rows: Ints, minutes: Ints | int) -> None:
        self.age[rows] += minutes
        self.since_kill[rows] += minutes


EPISODE_MINUTES: Final = 60
"""A kill later than this after the previous one begins another episode."""


@dataclass(slots=True)
class FleetSums:
    """Sums over all minutes, a column for each workload."""

    workloads: int
    minutes: Ints = field(init=False)
    requested: Floats = field(init=False)
    """By resource: millicore-minutes and byte-minutes, as all sums of amounts."""
    slack: Floats = field(init=False)
    """Requested and not needed."""
    cpu_demand: Floats = field(init=False)
    cpu_missing: Floats = field(init=False)
    """Needed and not requested."""
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
        """Add up requests, slack and missing CPU over some minutes."""
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
        """Note the hours after which the requests of workloads were suitable for the first time."""
        self.good_after[rows] = hours


def join(tallies: Sequence[FleetSums]) -> FleetSums:
    """Join the sums of several replays, whose workloads differ."""
    joined = FleetSums(sum(tally.workloads for tally in tallies))
    for each in fields(FleetSums):
        if each.name != "workloads":
            parts = [getattr(tally, each.name) for tally in tallies]
            setattr(joined, each.name, np.concatenate(parts, axis=-1))
    return joined
