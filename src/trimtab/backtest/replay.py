"""The replay: demand meets requests and limits, minute by minute, and a policy may change them.

Within one minute, in this order: what is requested is held against the demand; a container that
waits to be started again waits; one that needs more memory than its limit is killed; of all others
a reading is taken; then the policy chooses. The demand is the same for a whole step, so that
containers which run undisturbed are taken through all its minutes at once, and the policy chooses
for them at its end. All others go minute by minute.

Workloads do not know of each other, so each has a clock of its own: in one move some go on by a
minute and others by a step. Within a day all meet again, so that nobody's past is far away.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from trimtab.backtest.course import Course
from trimtab.backtest.demand import CPU, Demand
from trimtab.backtest.fleet import LONG_RUN, Fleet
from trimtab.backtest.policies import Choice, Policy, Readings, Situation
from trimtab.backtest.suitability import Suitability
from trimtab.backtest.tally import Tally
from trimtab.core.buckets import Floats, Ints
from trimtab.core.peaks import Booleans
from trimtab.core.records import dataclass

_MINUTE: Final = 60.0
_DAY: Final = 1440


@dataclass(frozen=True, slots=True)
class Replay:
    """One policy on one fleet."""

    demand: Demand
    fleet: Fleet
    policy: Policy
    tally: Tally
    course: Course | None = None
    """Where it is noted how it went, if anybody wants to see that."""
    is_fine: bool = False
    """Whether everybody goes minute by minute."""
    after_day: Callable[[], None] = lambda: None
    """Is called whenever another day is over."""

    def run(self) -> Tally:
        """What became of it."""
        clock = np.zeros(len(self.demand), np.int64)
        suitability = Suitability(self.demand)
        ends = self.demand.lengths * self.demand.step_minutes
        for day in range(self.demand.days):
            until = np.minimum(ends, (day + 1) * _DAY)
            while len(behind := np.flatnonzero(clock < until)):
                clock[behind] += self._move(behind, clock[behind])
                steps, begun = np.divmod(clock[behind], self.demand.step_minutes)
                self._end_steps(behind[begun == 0], steps[begun == 0], suitability)
            self.after_day()
        return self.tally

    def _move(self, rows: Ints, clock: Ints) -> Ints:
        """Let minutes pass for some workloads: tells how many for each."""
        steps, begun = np.divmod(clock, self.demand.step_minutes)
        amounts = self.demand.amounts[steps, :, rows].T
        calm = (begun == 0) & ~self._disturbed(rows, amounts)
        minutes = np.where(calm, self.demand.step_minutes, 1)
        waits = ~calm & (self.fleet.delay[rows] > 0)
        over = ~calm & ~waits & self.fleet.is_over(rows, amounts)
        runs = ~waits & ~over
        self.tally.account(rows[~runs], self.fleet, amounts[:, ~runs], minutes[~runs])
        self.fleet.wait(rows[waits])
        if over.any():
            self._kill(rows[over], clock[over])
        if runs.any():
            self._run(rows[runs], amounts[:, runs], clock[runs], minutes[runs])
        self._choose(rows, clock + minutes - 1)
        return minutes

    def _disturbed(self, rows: Ints, amounts: Floats) -> Booleans:
        """Whom a whole step would be too coarse for."""
        fleet = self.fleet
        is_new = fleet.age[rows] < self.demand.step_minutes
        was_killed = (fleet.killed_after[rows] >= 0) & (fleet.since_kill[rows] < LONG_RUN)
        is_held_back = amounts[CPU] > fleet.limits[CPU, rows]
        is_disturbed = is_new | was_killed | is_held_back | fleet.is_over(rows, amounts)
        return np.asarray(is_disturbed | self.is_fine)

    def _kill(self, rows: Ints, clock: Ints) -> None:
        self.fleet.kill(rows)
        self.tally.count_kills(rows, clock)
        if self.course is not None:
            self.course.note_kills(rows, clock // self.demand.step_minutes)
        self.policy.learn_kills(self._situation(rows, clock))

    def _run(self, rows: Ints, amounts: Floats, clock: Ints, minutes: Ints) -> None:
        self.tally.account(rows, self.fleet, amounts, minutes)
        self.fleet.run(rows, minutes)
        seen = self.fleet.visible(rows, amounts)
        passed = np.arange(minutes.sum()) - np.repeat(np.cumsum(minutes) - minutes, minutes)
        times = np.repeat(self._times(rows, clock), minutes) + _MINUTE * passed
        self.policy.observe(Readings(rows.repeat(minutes), seen.repeat(minutes, axis=1), times))

    def _choose(self, rows: Ints, clock: Ints) -> None:
        choice = self.policy.choose(self._situation(rows, clock))
        if len(choice.workloads):
            self._apply(choice)

    def _apply(self, choice: Choice) -> None:
        change = self.fleet.resize if choice.in_place else self.fleet.replace
        change(choice.workloads, choice.requests, choice.limits)
        self.tally.count_changes(choice.workloads, in_place=choice.in_place)

    def _end_steps(self, rows: Ints, steps: Ints, suitability: Suitability) -> None:
        """Look at workloads after a step of each one, of which so many have passed."""
        if self.course is not None:
            self.course.note(rows, steps - 1, self.fleet, self.policy.bounds(rows))
        goes_on = np.isinf(self.tally.good_after[rows]) & (steps < self.demand.lengths[rows])
        rows, steps = rows[goes_on], steps[goes_on]
        suits = suitability.suits(rows, steps - 1, self.fleet.requests[:, rows])
        hours = steps[suits] * self.demand.step_seconds / 3600
        self.tally.note_good_sizes(rows[suits], hours)

    def _situation(self, rows: Ints, clock: Ints) -> Situation:
        return Situation(rows, self.fleet, self._times(rows, clock))

    def _times(self, rows: Ints, clock: Ints) -> Floats:
        return self.demand.starts[rows] + clock * _MINUTE
