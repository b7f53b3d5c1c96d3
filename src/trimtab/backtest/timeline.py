"""The course: how requests, bounds and kills of workloads went over time, coarse enough to draw."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.backtest.demand import Demand
from trimtab.backtest.fleet import Fleet
from trimtab.core.histogram.buckets import Floats, Ints

BINS: Final = 300
"""No more points than this are drawn of one workload."""
REQUEST, LOWER, UPPER = range(3)
"""Where each line stands in a course."""


@dataclass(slots=True)
class UsageTimeline:
    """What was in force at the end of each stretch of time, and how many kills fell into it."""

    steps: int
    """How many steps a stretch has."""
    lines: Floats
    """By stretch, line, resource and workload; not a number where there is none."""
    kills: Ints
    """By stretch and workload."""

    def note(self, rows: Ints, steps: Ints, fleet: Fleet, bounds: Floats) -> None:
        """Note what is in force after a step of each of some workloads."""
        stretches = steps // self.steps
        self.lines[stretches, REQUEST, :, rows] = fleet.requests[:, rows].T
        self.lines[stretches, LOWER:, :, rows] = np.moveaxis(bounds, 2, 0)

    def note_kills(self, rows: Ints, steps: Ints) -> None:
        """Count a kill of each of some workloads."""
        self.kills[steps // self.steps, rows] += 1


def stretch(demand: Demand) -> int:
    """How many steps are drawn as one."""
    return max(-(-len(demand.amounts) // BINS), 1)


def blank(stretches: int, steps: int, workloads: int) -> UsageTimeline:
    """The course of workloads of which nothing was noted yet."""
    lines = np.full((stretches, 3, 2, workloads), np.nan)
    return UsageTimeline(steps, lines, np.zeros((stretches, workloads), np.int64))


def join_courses(courses: Sequence[UsageTimeline]) -> UsageTimeline:
    """The course of all workloads of some replays, whose stretches are equally long."""
    longest = max(len(course.kills) for course in courses)
    joined = blank(longest, courses[0].steps, sum(course.kills.shape[1] for course in courses))
    column = 0
    for course in courses:
        count, columns = len(course.kills), slice(column, column + course.kills.shape[1])
        joined.lines[:count, :, :, columns] = course.lines
        joined.kills[:count, columns] = course.kills
        column = columns.stop
    return joined


def most_needed(demand: Demand, workload: int, steps: int) -> Floats:
    """What a workload needed at most in each stretch, by stretch and resource."""
    values = demand.values(workload)
    return np.maximum.reduceat(values, np.arange(0, len(values), steps), axis=0)
