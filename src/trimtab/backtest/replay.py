"""The replay: demand meets requests and limits, minute by minute, and a policy may change them.

Within one minute, in this order: what is requested is held against the demand; a container that
waits to be started again waits; one that needs more memory than its limit is killed; of all others
a reading is taken; then the policy chooses. The demand is the same for a whole step, so that
containers which run undisturbed are taken through all its minutes at once, and the policy chooses
for them at its end. All others go minute by minute.
"""

from dataclasses import dataclass

import numpy as np

from trimtab.backtest.demand import CPU, Demand
from trimtab.backtest.fleet import LONG_RUN, Fleet
from trimtab.backtest.policies import Choice, Policy, Readings, Situation
from trimtab.backtest.tally import Tally
from trimtab.core.buckets import Floats, Ints
from trimtab.core.peaks import Booleans

_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Replay:
    """One policy on one fleet."""

    demand: Demand
    fleet: Fleet
    policy: Policy
    tally: Tally
    is_fine: bool = False
    """Whether everybody goes minute by minute."""

    def run(self) -> Tally:
        """What became of it."""
        for step in range(len(self.demand.amounts)):
            self._take(step)
            self.tally.look_for_good_sizes(step, self.fleet, self.demand)
        return self.tally

    def _take(self, step: int) -> None:
        alive = np.flatnonzero(self.demand.lengths > step)
        amounts = self.demand.amounts[step]
        disturbed = self._disturbed(alive, amounts[:, alive])
        calm, restless = alive[~disturbed], alive[disturbed]
        if len(calm):
            self._run(calm, amounts[:, calm], self._minute(step, 0), self.demand.step_minutes)
            self._choose(calm, self._minute(step, self.demand.step_minutes - 1))
        for minute in range(self.demand.step_minutes if len(restless) else 0):
            self._take_minute(restless, amounts[:, restless], self._minute(step, minute))

    def _disturbed(self, rows: Ints, amounts: Floats) -> Booleans:
        """Whom a whole step would be too coarse for."""
        fleet = self.fleet
        is_new = fleet.age[rows] < self.demand.step_minutes
        was_killed = (fleet.killed_after[rows] >= 0) & (fleet.since_kill[rows] < LONG_RUN)
        is_held_back = amounts[CPU] > fleet.limits[CPU, rows]
        is_disturbed = is_new | was_killed | is_held_back | fleet.is_over(rows, amounts)
        return np.asarray(is_disturbed | self.is_fine)

    def _take_minute(self, rows: Ints, amounts: Floats, minute: int) -> None:
        waits = self.fleet.delay[rows] > 0
        over = ~waits & self.fleet.is_over(rows, amounts)
        runs = ~waits & ~over
        self.tally.account(rows[~runs], self.fleet, amounts[:, ~runs], minutes=1)
        self.fleet.wait(rows[waits])
        if over.any():
            killed = rows[over]
            self.fleet.kill(killed)
            self.tally.count_kills(killed, minute)
            self.policy.learn_kills(self._situation(killed, minute))
        if runs.any():
            self._run(rows[runs], amounts[:, runs], minute, 1)
        self._choose(rows, minute)

    def _run(self, rows: Ints, amounts: Floats, minute: int, minutes: int) -> None:
        self.tally.account(rows, self.fleet, amounts, minutes=minutes)
        self.fleet.run(rows, minutes)
        seen = self.fleet.visible(rows, amounts)
        times = self._times(rows, minute)[:, np.newaxis] + _MINUTE * np.arange(minutes)
        self.policy.observe(
            Readings(rows.repeat(minutes), seen.repeat(minutes, axis=1), times.ravel())
        )

    def _choose(self, rows: Ints, minute: int) -> None:
        choice = self.policy.choose(self._situation(rows, minute))
        if len(choice.workloads):
            self._apply(choice)

    def _apply(self, choice: Choice) -> None:
        change = self.fleet.resize if choice.in_place else self.fleet.replace
        change(choice.workloads, choice.requests, choice.limits)
        self.tally.count_changes(choice.workloads, in_place=choice.in_place)

    def _situation(self, rows: Ints, minute: int) -> Situation:
        return Situation(rows, self.fleet, self._times(rows, minute))

    def _minute(self, step: int, minute: int) -> int:
        return step * self.demand.step_minutes + minute

    def _times(self, rows: Ints, minute: int) -> Floats:
        return self.demand.starts[rows] + minute * _MINUTE
