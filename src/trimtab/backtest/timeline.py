"""The timeline: requests, bounds and kills of workloads over time, coarse enough to draw."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.backtest.demand import Demand
from trimtab.backtest.fleet import Fleet
from trimtab.core.histogram.buckets import Floats, Ints

BINS: Final = 300
"""Maximum number of points that are drawn for one workload."""
REQUEST, LOWER, UPPER = range(3)
"""Index of each line in a timeline."""


@dataclass(slots=True)
class UsageTimeline:
    """Requests and bounds at the end of each stretch of time, and the kills within it."""

    steps: int
    """Number of steps in a stretch."""
    lines: Floats
    """By stretch, line, resource and workload; NaN where there is none."""
    kills: Ints
    """By stretch and workload."""

    def note(self, rows: Ints, steps: Ints, fleet: Fleet, bounds: Floats) -> None:
        """Record requests and bounds after a step of each of some workloads."""
        stretches = steps // self.steps
        self.lines[stretches, REQUEST, :, rows] = fleet.requests[:, rows].T
        self.lines[stretches, LOWER:, :, rows] = np.moveaxis(bounds, 2, 0)

    def note_kills(self, rows: Ints, steps: Ints) -> None:
        """Count one kill for each of some workloads."""
        self.kills[steps // self.steps, rows] += 1


def stretch(demand: Demand) -> int:
    """Return the number of steps that are drawn as one."""
    return max(-(-len(demand.amounts) // BINS), 1)


def blank(stretches: int, steps: int, workloads: int) -> UsageTimeline:
    """Return the empty timeline of some workloads."""
    lines = np.full((stretches, 3, 2, workloads), np.nan)
    return UsageTimeline(steps, lines, np.zeros((stretches, workloads), np.int64))


def join_timelines(timelines: Sequence[UsageTimeline]) -> UsageTimeline:
    """Join the timelines of several replays, whose stretches are equally long."""
    longest = max(len(one.kills) for one in timelines)
    joined = blank(longest, timelines[0].steps, sum(one.kills.shape[1] for one in timelines))
    column = 0
    for one in timelines:
        count, columns = len(one.kills), slice(column, column + one.kills.shape[1])
        joined.lines[:count, :, :, columns] = one.lines
        joined.kills[:count, columns] = one.kills
        column = columns.stop
    return joined


def most_needed(demand: Demand, workload: int, steps: int) -> Floats:
    """Return the largest need of a workload, by stretch and resource."""
    values = demand.values(workload)
    return np.maximum.reduceat(values, np.arange(0, len(values), steps), axis=0)
