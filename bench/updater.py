"""The updater beside the original's, as processes on one real API server, taking turns.

    python -m bench.updater --sizes 100 1000 --rounds 2

In each round, for each size, each side is run on the same objects, autoscalers with two pods each:

1. *all*: every pod is to be changed. How fast are pods evicted, who is first, and what does it
   cost? Nobody makes evicted pods anew, so each workload may lose one of its two.
2. *nothing*: all pods are as they should be. What does a tick cost?

No webhook runs, so both are told not to look for one. Writes `results/updater.json` and the page of
benchmarks; fails if a ratio got clearly worse.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from time import time
from typing import Final

from bench import contests, evictions, fleet, measuring, updater_tables, updaters, workloads
from bench.contestants import PATIENCE_SECONDS, Limits
from bench.contests import Contest
from bench.evictions import Eviction
from bench.pod_fleet import PodFleet
from bench.scoring import Entry, Side
from bench.telling import say
from bench.updater_tables import Task
from bench.updaters import Updater
from rig.controlplane import ControlPlane

CONTEST: Final = Contest(
    "updater",
    sizes=(100, 1000, 3000),
    rounds=2,
    short_size=100,
    programs=("original-updater",),
    tables=updater_tables.ALL,
)
DEFAULT_LIMITS_UP_TO: Final = 1000
"""The original's limits bear on nothing, and ours take too long to see the end."""
RESTING_INTERVALS: Final = {100: timedelta(seconds=2), 1000: timedelta(seconds=5)}
LONGEST_RESTING_INTERVAL: Final = timedelta(seconds=10)
_FLAG: Final = "--use-admission-controller-status=false"
_POLL_SECONDS: Final = 0.02
_SAY_EVERY_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long things last."""

    interval: timedelta = timedelta(minutes=1)
    """Between ticks while all is to be changed, as both have it: what the original has not evicted
    by then waits for its next tick."""
    watched: timedelta = timedelta(minutes=1)
    """How long a side is watched that keeps to its limits, or has nothing to do."""


SHORT: Final = Lengths(timedelta(seconds=5), timedelta(seconds=6))


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured at a time."""

    size: int
    task: Task
    round: int
    side: Side

    @property
    def limits(self) -> Limits:
        """How many requests a second it allows itself, and of ours how many evictions."""
        return Limits.DEFAULT if self.task is Task.ALL_BY_DEFAULT else Limits.LIFTED

    @property
    def resting_interval(self) -> timedelta:
        """Between ticks while nothing is to be changed: the original needs seconds for many."""
        return RESTING_INTERVALS.get(self.size, LONGEST_RESTING_INTERVAL)


@dataclass(frozen=True, slots=True)
class Bench:
    """What is needed for a measurement."""

    plane: ControlPlane
    fleet: PodFleet
    lengths: Lengths

    async def measure(self, case: Case) -> Entry:
        """One side in one round."""
        say(f"{case.size} autoscalers, to be changed: {case.task}, round {case.round}: {case.side}")
        match case.task:
            case Task.NOTHING:
                await self.fleet.settle(workloads.enough)
                values = await self._rest(case)
            case Task.ALL | Task.ALL_BY_DEFAULT:
                await self.fleet.settle(workloads.usual)
                values = await self._change(case)
        return Entry(case.task, case.size, case.round, case.side, values)

    async def _change(self, case: Case) -> dict[str, float]:
        """What evicting costs, from the first eviction on: to the end, or for a while."""
        interval, requests = self.lengths.interval, measuring.count_requests(self.plane)
        async with self.fleet.watching_evictions() as seen:
            with updaters.updating(case.side, case.limits, self.plane, interval, _FLAG) as run:
                await _wait_for(run, seen, 1)
                first = self._spent(run)
                if case.task is Task.ALL_BY_DEFAULT:
                    await asyncio.sleep(self.lengths.watched.total_seconds())
                    return self._pace(seen)
                await _wait_for(run, seen, case.size)
                last, peak = self._spent(run), run.vitals().peak_bytes
        requests = measuring.count_requests(self.plane) - requests
        costs = {name: last[name] - first[name] for name in first} | {"writes": requests.writes}
        return {
            **self._pace(seen),
            **{name: 100 * cost / case.size for name, cost in costs.items()},
            "planning_cpu": first["cpu"],
            "eviction_seconds": evictions.seconds_per_hundred(seen),
            "seconds": seen[-1].moment - seen[0].moment,
            "peak": peak,
        }

    def _pace(self, seen: Sequence[Eviction]) -> dict[str, float]:
        return {
            "in_first_minute": float(evictions.count_in_first_minute(seen)),
            "urgent_share": evictions.share_of_most_urgent(seen, self.fleet.workloads),
        }

    async def _rest(self, case: Case) -> dict[str, float]:
        """What a tick costs that has nothing to do."""
        interval = case.resting_interval
        with updaters.updating(case.side, case.limits, self.plane, interval, _FLAG) as run:
            await _wait_for_ticks(run, 2, interval)
            done, requests = run.count_ticks(), measuring.count_requests(self.plane)
            before = self._spent(run)
            await asyncio.sleep(self.lengths.watched.total_seconds())
            after, vitals = self._spent(run), run.vitals()
            requests = measuring.count_requests(self.plane) - requests
            ticks = run.count_ticks() - done
        costs = {name: after[name] - before[name] for name in before}
        costs |= {"reads": requests.reads, "writes": requests.writes}
        values = {name: cost / ticks for name, cost in costs.items()}
        return {**values, "resident": vitals.resident_bytes, "peak": vitals.peak_bytes}

    def _spent(self, run: Updater) -> dict[str, float]:
        return {
            "cpu": run.vitals().cpu_seconds,
            "server_cpu": measuring.server_cpu_seconds(self.plane),
        }


async def _wait_for(run: Updater, seen: Sequence[Eviction], count: int) -> None:
    """Return as soon as there were so many evictions."""
    began = said = time()
    while len(seen) < count:
        run.require_life()
        await asyncio.sleep(_POLL_SECONDS)
        if time() - said > _SAY_EVERY_SECONDS:
            said = time()
            say(f"{len(seen)} of {count} evictions after {said - began:.0f} s")
        if time() - began > PATIENCE_SECONDS:
            raise TimeoutError(f"{len(seen)} of {count} evictions in {PATIENCE_SECONDS} s")


async def _wait_for_ticks(run: Updater, count: int, interval: timedelta) -> None:
    """Return when there were so many ticks, asking rarely."""
    for _ in range(int(PATIENCE_SECONDS / interval.total_seconds())):
        await asyncio.sleep(interval.total_seconds())
        run.require_life()
        if run.count_ticks() >= count:
            return
    raise TimeoutError(f"not {count} ticks in {PATIENCE_SECONDS} s")


def plan(sizes: Sequence[int], rounds: int, tasks: Sequence[Task]) -> Iterator[Case]:
    """What is measured, in its order."""
    for size in sorted(sizes):
        for task in tasks:
            if task is not Task.ALL_BY_DEFAULT or size <= DEFAULT_LIMITS_UP_TO:
                for number, side in contests.take_turns(rounds):
                    yield Case(size, task, number, side)


async def measure_all(plane: ControlPlane, given: argparse.Namespace) -> list[Entry]:
    """Everything that is asked for, on one control plane whose fleet grows."""
    found = []
    async with fleet.manned(plane, PodFleet) as manned:
        bench = Bench(plane, manned, SHORT if given.short else Lengths())
        for case in plan(given.sizes, given.rounds, given.tasks):
            if manned.size < case.size:
                await manned.grow(case.size)
            found.append(contests.note(await bench.measure(case)))
    return found


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """What the command line asks for."""
    parser = CONTEST.parser()
    parser.add_argument("--tasks", type=Task, nargs="+", default=list(Task), help="to be changed")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """The exit code, after everything was measured, printed and recorded."""
    return CONTEST.hold(parse_arguments(arguments), measure_all)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
