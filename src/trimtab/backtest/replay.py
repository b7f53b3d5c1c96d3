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
from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.backtest.demand import CPU, MEMORY, Demand
from trimtab.backtest.fleet import LONG_RUN, Fleet, FleetSums
from trimtab.backtest.policies import Choice, Policy, PolicyReadings, PolicySituation
from trimtab.backtest.timeline import UsageTimeline
from trimtab.core.histogram.buckets import Floats, Ints
from trimtab.core.histogram.memory_peaks import Booleans

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


_MINUTE: Final = 60.0
_DAY: Final = 1440


@dataclass(frozen=True, slots=True)
class Replay:
    """One policy on one fleet."""

    demand: Demand
    fleet: Fleet
    policy: Policy
    tally: FleetSums
    course: UsageTimeline | None = None
    """Where it is noted how it went, if anybody wants to see that."""
    is_fine: bool = False
    """Whether everybody goes minute by minute."""
    after_day: Callable[[], None] = lambda: None
    """Is called whenever another day is over."""

    def run(self) -> FleetSums:
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
        self.policy.observe(
            PolicyReadings(rows.repeat(minutes), seen.repeat(minutes, axis=1), times)
        )

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

    def _situation(self, rows: Ints, clock: Ints) -> PolicySituation:
        return PolicySituation(rows, self.fleet, self._times(rows, clock))

    def _times(self, rows: Ints, clock: Ints) -> Floats:
        return self.demand.starts[rows] + clock * _MINUTE
