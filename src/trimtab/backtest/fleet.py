"""The fleet: one container for each workload, as columns; what a minute of demand does to it."""

from dataclasses import field
from typing import Final

import numpy as np

from trimtab.backtest.demand import CPU, MEMORY
from trimtab.core.buckets import Floats, Ints
from trimtab.core.peaks import Booleans
from trimtab.core.records import dataclass

LONG_RUN: Final = 10
"""After so many minutes without a kill the next one is the first of a series again."""
_FIRST_DELAY: Final = 10.0 / 60.0
_LONGEST_DELAY: Final = 5


@dataclass(slots=True)
class Fleet:
    """What each container has, and how it has fared."""

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

    def __post_init__(self) -> None:
        count = self.requests.shape[1]
        self.age, self.ran, self.delay, self.kills_in_row, self.since_kill = (
            np.zeros(count, np.int64) for _ in range(5)
        )
        self.killed_after = np.full(count, -1)

    def visible(self, rows: Ints, demand: Floats) -> Floats:
        """The part of the demand that a container can use."""
        seen = demand.copy()
        seen[CPU] = np.minimum(demand[CPU], self.limits[CPU, rows])
        return seen

    def is_over(self, rows: Ints, demand: Floats) -> Booleans:
        """Which containers need more memory than they may have."""
        return np.asarray(demand[MEMORY] > self.limits[MEMORY, rows])

    def wait(self, rows: Ints) -> None:
        """Let a minute pass for containers that are yet to be started again."""
        self.delay[rows] -= 1
        self._grow_older(rows, 1)

    def run(self, rows: Ints, minutes: Ints | int) -> None:
        """Let minutes pass for containers that run."""
        self.ran[rows] += minutes
        self._grow_older(rows, minutes)

    def kill(self, rows: Ints) -> None:
        """Kill containers in a minute that they do not survive."""
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
        """Give containers another size where they are."""
        self.requests[:, rows], self.limits[:, rows] = requests, limits
        self.age[rows] = 0

    def replace(self, rows: Ints, requests: Floats, limits: Floats) -> None:
        """Put new pods of another size in the place of others."""
        self.resize(rows, requests, limits)
        self.ran[rows] = self.delay[rows] = self.kills_in_row[rows] = self.since_kill[rows] = 0
        self.killed_after[rows] = -1

    def _grow_older(self, rows: Ints, minutes: Ints | int) -> None:
        self.age[rows] += minutes
        self.since_kill[rows] += minutes
