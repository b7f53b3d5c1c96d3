"""Suitability: since when the requests of workloads suit the day that follows.

Requests suit a day if they cover what usually comes and are not half as much again. Percentiles
are never taken: whether one is below an amount is a matter of how many values are, and such counts
are carried from step to step, as one value leaves the day and another one enters it.
"""

from typing import Final

import numpy as np

from trimtab.backtest.demand import CPU, MEMORY, Demand
from trimtab.core.buckets import Floats, Ints
from trimtab.core.peaks import Booleans

_ROOM: Final = 1.5
_SMALL: Final = np.array([[25.0], [170.0 * 1024 * 1024]])
"""Below this nobody minds how much of it is spare."""
_USUAL: Final = np.zeros((2, 1))
_USUAL[CPU], _USUAL[MEMORY] = 0.95, 0.99
"""The percentile that is to be covered, by resource."""


class Suitability:
    """Watches requests from step to step until they suit."""

    def __init__(self, demand: Demand) -> None:
        self._demand = demand
        self._day = demand.steps_per_day
        shape = (2, len(demand))
        self._sized = np.full(shape, np.nan)
        """The requests that the counts are for."""
        self._within = np.zeros(shape, np.int64)
        """How many values of the coming day the requests cover."""
        self._far_within = np.zeros(shape, np.int64)
        """How many they cover with more room than anybody needs."""

    def suits(self, workloads: Ints, steps: Ints, requests: Floats) -> Booleans:
        """Which of some workloads have requests that suit the day after a step of each one.

        Whoever is still of interest must be asked for at the end of each step but the last one.
        """
        self._slide(workloads, steps)
        changed = (self._sized[:, workloads] != requests).any(axis=0)
        self._count(workloads[changed], steps[changed], requests[:, changed])
        left = np.minimum(self._day, self._demand.lengths[workloads] - steps - 1)
        ranks = np.maximum(np.ceil(_USUAL * left) - 1, 0)
        covers = self._within[:, workloads] > ranks
        is_lean = self._far_within[:, workloads] <= ranks
        is_small = requests <= _ROOM * _SMALL
        return np.asarray((covers & (is_lean | is_small)).all(axis=0))

    def _slide(self, workloads: Ints, steps: Ints) -> None:
        """Let the value of each step leave the counts, and the one a day later enter them."""
        self._shift(workloads, steps, -1)
        is_there = steps + self._day < self._demand.lengths[workloads]
        self._shift(workloads[is_there], steps[is_there] + self._day, 1)

    def _shift(self, workloads: Ints, steps: Ints, change: int) -> None:
        values = self._demand.amounts[steps, :, workloads].T
        within, far_within = _compare(values, self._sized[:, workloads])
        self._within[:, workloads] += change * within
        self._far_within[:, workloads] += change * far_within

    def _count(self, workloads: Ints, steps: Ints, requests: Floats) -> None:
        """Count anew for workloads whose requests are others."""
        self._sized[:, workloads] = requests
        for workload, step in zip(workloads.tolist(), steps.tolist(), strict=True):
            coming = self._demand.values(workload)[step + 1 : step + 1 + self._day]
            within, far_within = _compare(coming, self._sized[:, workload])
            self._within[:, workload] = within.sum(axis=0)
            self._far_within[:, workload] = far_within.sum(axis=0)


def _compare(values: Floats, sized: Floats) -> tuple[Booleans, Booleans]:
    """Which values requests cover, and which with too much room."""
    return np.asarray(values <= sized), np.asarray(values * _ROOM < sized)
