"""The replay: demand meets requests and limits, minute by minute, and a policy may change them.

Within one minute, in this order:

1. The replay compares requests with the demand.
2. A container that waits for its restart goes on waiting.
3. A container that needs more memory than its limit is killed.
4. Of all others a reading is taken.
5. The policy chooses.

The demand is the same for a whole step. Containers which run undisturbed therefore take all its
minutes at once, and the policy chooses for them at its end. All others go minute by minute. A
policy for which the very minute matters has the step taken back, and taken again by minutes.

Workloads are independent, so each has a clock of its own: in one move some advance by a minute
and others by a step. At the end of each day all clocks meet, so that none falls far behind.
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
"""Below this, spare amounts do not matter."""
_USUAL: Final = np.zeros((2, 1))
_USUAL[CPU], _USUAL[MEMORY] = 0.95, 0.99
"""The percentile that requests have to cover, by resource."""


class Suitability:
    """Watches requests from step to step until they suit."""

    def __init__(self, demand: Demand) -> None:
        self._demand = demand
        self._day = demand.steps_per_day
        shape = (2, len(demand))
        self._sized = np.full(shape, np.nan)
        """Requests for which the counts hold."""
        self._within = np.zeros(shape, np.int64)
        """Number of values of the coming day that the requests cover."""
        self._far_within = np.zeros(shape, np.int64)
        """Number of values that they cover with too much room."""

    def suits(self, workloads: Ints, steps: Ints, requests: Floats) -> Booleans:
        """True for workloads whose requests suit the day after a step of each one.

        The caller must ask for each workload of interest at the end of every step but the last one.
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
        """Move the day on: the value of each step leaves the counts, the one a day later enters."""
        self._shift(workloads, steps, -1)
        is_there = steps + self._day < self._demand.lengths[workloads]
        self._shift(workloads[is_there], steps[is_there] + self._day, 1)

    def _shift(self, workloads: Ints, steps: Ints, change: int) -> None:
        values = self._demand.amounts[steps, :, workloads].T
        within, far_within = _compare(values, self._sized[:, workloads])
        self._within[:, workloads] += change * within
        self._far_within[:, workloads] += change * far_within

    def _count(self, workloads: Ints, steps: Ints, requests: Floats) -> None:
        """Count from scratch for workloads whose requests have changed."""
        self._sized[:, workloads] = requests
        for workload, step in zip(workloads.tolist(), steps.tolist(), strict=True):
            coming = self._demand.values(workload)[step + 1 : step + 1 + self._day]
            within, far_within = _compare(coming, self._sized[:, workload])
            self._within[:, workload] = within.sum(axis=0)
            self._far_within[:, workload] = far_within.sum(axis=0)


def _compare(values: Floats, sized: Floats) -> tuple[Booleans, Booleans]:
    """Return which values the requests cover, and which ones with too much room."""
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
    timeline: UsageTimeline | None = None
    """Receives requests, bounds and kills over time; None if they are not needed."""
    is_fine: bool = False
    """True if all workloads go minute by minute."""
    after_day: Callable[[], None] = lambda: None
    """Called at the end of each day."""

    def run(self) -> FleetSums:
        """Replay all days and return the sums."""
        clock = np.zeros(len(self.demand), np.int64)
        suitability = Suitability(self.demand)
        ends = self.demand.lengths * self.demand.step_minutes
        for day in range(self.demand.days):
            until = np.minimum(ends, (day + 1) * _DAY)
            while len(behind := np.flatnonzero(clock < until)):
                minutes = self._move(behind, clock[behind])
                clock[behind] += minutes
                moved = behind[minutes > 0]
                steps, begun = np.divmod(clock[moved], self.demand.step_minutes)
                self._end_steps(moved[begun == 0], steps[begun == 0], suitability)
            self.after_day()
        return self.tally

    def _move(self, rows: Ints, clock: Ints) -> Ints:
        """Let minutes pass for some workloads; return how many for each, 0 if it is taken back."""
        steps, begun = np.divmod(clock, self.demand.step_minutes)
        amounts = self.demand.amounts[steps, :, rows].T
        calm = (begun == 0) & ~self._disturbed(rows, amounts)
        minutes = np.where(calm, self.demand.step_minutes, 1)
        waits = ~calm & (self.fleet.delay[rows] > 0)
        over = ~calm & ~waits & self.fleet.is_over(rows, amounts)
        runs = ~waits & ~over
        self.fleet.is_retaken[rows] = False
        self.fleet.wait(rows[waits])
        if over.any():
            self._kill(rows[over], clock[over])
        if runs.any():
            self._run(rows[runs], amounts[:, runs], clock[runs], minutes[runs])
        times = self._times(rows, clock + minutes - 1)
        choice = self.policy.choose(PolicySituation(rows, self.fleet, times, minutes))
        if len(choice.retaken):
            retaken = np.isin(rows, choice.retaken)
            self.fleet.take_back(rows[retaken], minutes[retaken])
            minutes[retaken] = 0
        # After the choice, which may take a step back, and before the new requests hold.
        self.tally.account(rows, self.fleet, amounts, minutes)
        if len(choice.workloads):
            self._apply(choice)
        return minutes

    def _disturbed(self, rows: Ints, amounts: Floats) -> Booleans:
        """True for workloads for which a whole step is too coarse."""
        fleet = self.fleet
        is_new = fleet.age[rows] < self.demand.step_minutes
        was_killed = (fleet.killed_after[rows] >= 0) & (fleet.since_kill[rows] < LONG_RUN)
        is_held_back = amounts[CPU] > fleet.limits[CPU, rows]
        is_disturbed = is_new | was_killed | is_held_back | fleet.is_over(rows, amounts)
        is_disturbed |= fleet.is_retaken[rows]
        return np.asarray(is_disturbed | self.is_fine)

    def _kill(self, rows: Ints, clock: Ints) -> None:
        self.fleet.kill(rows)
        self.tally.count_kills(rows, clock)
        if self.timeline is not None:
            self.timeline.note_kills(rows, clock // self.demand.step_minutes)
        self.policy.learn_kills(PolicySituation(rows, self.fleet, self._times(rows, clock)))

    def _run(self, rows: Ints, amounts: Floats, clock: Ints, minutes: Ints) -> None:
        self.fleet.run(rows, minutes)
        seen = self.fleet.visible(rows, amounts)
        passed = np.arange(minutes.sum()) - np.repeat(np.cumsum(minutes) - minutes, minutes)
        times = np.repeat(self._times(rows, clock), minutes) + _MINUTE * passed
        self.policy.observe(
            PolicyReadings(rows.repeat(minutes), seen.repeat(minutes, axis=1), times)
        )

    def _apply(self, choice: Choice) -> None:
        change = self.fleet.resize if choice.in_place else self.fleet.replace
        change(choice.workloads, choice.requests, choice.limits)
        self.tally.count_changes(choice.workloads, in_place=choice.in_place)

    def _end_steps(self, rows: Ints, steps: Ints, suitability: Suitability) -> None:
        """Record the state of workloads at the end of a step; `steps` have passed for each one."""
        if self.timeline is not None:
            self.timeline.note(rows, steps - 1, self.fleet, self.policy.bounds(rows))
        goes_on = np.isinf(self.tally.good_after[rows]) & (steps < self.demand.lengths[rows])
        rows, steps = rows[goes_on], steps[goes_on]
        suits = suitability.suits(rows, steps - 1, self.fleet.requests[:, rows])
        hours = steps[suits] * self.demand.step_seconds / 3600
        self.tally.note_good_sizes(rows[suits], hours)

    def _times(self, rows: Ints, clock: Ints) -> Floats:
        return self.demand.starts[rows] + clock * _MINUTE
