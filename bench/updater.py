"""The updater beside the original's, as processes on one real API server, taking turns.

    python -m bench.updater --sizes 100 1000 --rounds 2

In each round, for each size, each side is run on the same objects, autoscalers with two pods each:

1. *all*: every pod is to be changed. How fast are pods evicted, who is first, and what does it
   cost? Nothing replaces evicted pods, so each workload may lose one of its two.
2. the same while controllers replace evicted pods, on the same cores.
3. *nothing*: all pods are as they should be. What does a tick cost?

No webhook runs, so both are told not to look for one. Writes `results/updater.json` and the page of
benchmarks; fails if a ratio got clearly worse.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from time import time
from typing import Final

from bench import (
    contests,
    controllers,
    evictions,
    fleet,
    measuring,
    updater_tables,
    updaters,
    workloads,
)
from bench.contestants import PATIENCE_SECONDS, Limits
from bench.contests import Contest, Course, Turn
from bench.evictions import Eviction
from bench.pod_fleet import PodFleet
from bench.telling import telling
from bench.updater_tables import Task
from bench.updaters import Updater
from rig.controlplane import ControlPlane

CONTEST: Final = Contest(
    updater_tables.SECTION,
    sizes=(100, 1000),
    rounds=2,
    short_size=100,
    programs=("original-updater", "kube-controller-manager"),
)
DEFAULT_LIMITS_UP_TO: Final = 1000
"""The original's limits bear on nothing, and ours take too long to see the end."""
RESTING_INTERVALS: Final = {100: timedelta(seconds=2), 1000: timedelta(seconds=5)}
LONGEST_RESTING_INTERVAL: Final = timedelta(seconds=10)
_FLAG: Final = "--use-admission-controller-status=false"
_POLL_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long things last."""

    interval: timedelta = timedelta(minutes=1)
    """Between ticks while all is to be changed, as both have it: what the original has not evicted
    by then waits for its next tick."""
    watched: timedelta = timedelta(minutes=1)
    """How long a side is watched that keeps to its limits, or has nothing to do."""


SHORT: Final = Lengths(timedelta(seconds=5), timedelta(seconds=6))


def limits(turn: Turn) -> Limits:
    """How many requests a second a side allows itself, and of ours how many evictions."""
    return Limits.DEFAULT if turn.group == Task.ALL_BY_DEFAULT else Limits.LIFTED


def resting_interval(turn: Turn) -> timedelta:
    """Between ticks while nothing is to be changed: the original needs seconds for many."""
    return RESTING_INTERVALS.get(turn.size, LONGEST_RESTING_INTERVAL)


@dataclass(frozen=True, slots=True)
class Bench:
    """What is needed for a measurement."""

    plane: ControlPlane
    fleet: PodFleet
    lengths: Lengths

    async def measure(self, turn: Turn) -> dict[str, float]:
        """One side in one round."""
        match Task(turn.group):
            case Task.NOTHING:
                await self.fleet.settle(workloads.enough)
                return await self._rest(turn)
            case Task.ALL | Task.ALL_BY_DEFAULT:
                await self.fleet.settle(workloads.usual)
                return await self._change(turn)
            case Task.ALL_CONTROLLED:
                await self.fleet.settle(workloads.usual)
                with controllers.running(self.plane):
                    values = await self._change(turn)
                await self.fleet.clear()
                return values

    async def _change(self, turn: Turn) -> dict[str, float]:
        """What evicting costs, from the first eviction on: to the end, or for a while."""
        interval = self.lengths.interval
        async with self.fleet.watching_evictions() as seen:
            # Our own watch is counted when it ends, theirs with their process.
            requests = measuring.count_requests(self.plane)
            with updaters.updating(turn.side, limits(turn), self.plane, interval, _FLAG) as run:
                await _wait_for(run, seen, 1)
                first = self._spent(run)
                if turn.group == Task.ALL_BY_DEFAULT:
                    await self._watch()
                    return self._pace(seen)
                await _wait_for(run, seen, turn.size)
                last, peak = self._spent(run), run.vitals().peak_bytes
            requests = measuring.count_requests(self.plane) - requests
        costs = {name: last[name] - first[name] for name in first} | {"writes": requests.writes}
        return {
            **self._pace(seen),
            **{name: 100 * cost / turn.size for name, cost in costs.items()},
            "reads": requests.reads,
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

    async def _rest(self, turn: Turn) -> dict[str, float]:
        """What a tick costs that has nothing to do."""
        interval = resting_interval(turn)
        with updaters.updating(turn.side, limits(turn), self.plane, interval, _FLAG) as run:
            await _wait_for_ticks(run, 2, interval)
            done, requests = run.count_ticks(), measuring.count_requests(self.plane)
            before = self._spent(run)
            await self._watch()
            after, vitals = self._spent(run), run.vitals()
            requests = measuring.count_requests(self.plane) - requests
            ticks = run.count_ticks() - done
        costs = {name: after[name] - before[name] for name in before}
        costs |= {"reads": requests.reads, "writes": requests.writes}
        values = {name: cost / ticks for name, cost in costs.items()}
        return {**values, "resident": vitals.resident_bytes, "peak": vitals.peak_bytes}

    async def _watch(self) -> None:
        seconds = self.lengths.watched.total_seconds()
        async with telling(lambda: f"watching for {seconds:.0f} s"):
            await asyncio.sleep(seconds)

    def _spent(self, run: Updater) -> dict[str, float]:
        return {
            "cpu": run.vitals().cpu_seconds,
            "server_cpu": measuring.server_cpu_seconds(self.plane),
        }


async def _wait_for(run: Updater, seen: Sequence[Eviction], count: int) -> None:
    """Return as soon as there were so many evictions."""
    began = time()
    async with telling(lambda: f"{len(seen)} of {count} evictions"):
        while len(seen) < count:
            run.require_life()
            await asyncio.sleep(_POLL_SECONDS)
            if time() - began > PATIENCE_SECONDS:
                raise TimeoutError(f"{len(seen)} of {count} evictions in {PATIENCE_SECONDS} s")


async def _wait_for_ticks(run: Updater, count: int, interval: timedelta) -> None:
    """Return when there were so many ticks, asking rarely."""
    async with telling(lambda: f"waiting for {count} ticks"):
        for _ in range(int(PATIENCE_SECONDS / interval.total_seconds())):
            await asyncio.sleep(interval.total_seconds())
            run.require_life()
            if run.count_ticks() >= count:
                return
    raise TimeoutError(f"not {count} ticks in {PATIENCE_SECONDS} s")


def plan(sizes: Sequence[int], rounds: int, tasks: Sequence[Task]) -> Iterator[Turn]:
    """What is measured, in its order."""
    for size in sorted(sizes):
        for task in tasks:
            if task is not Task.ALL_BY_DEFAULT or size <= DEFAULT_LIMITS_UP_TO:
                for number, side in contests.take_turns(rounds):
                    yield Turn(task, size, number, side)


async def measure_all(lengths: Lengths, plane: ControlPlane, course: Course) -> None:
    """Every turn of a course, on one control plane whose fleet grows."""
    async with fleet.manned(plane, PodFleet) as manned:
        bench = Bench(plane, manned, lengths)
        for turn in course:
            if manned.size < turn.size:
                await manned.grow(turn.size)
            course.note(turn, turn.entry(await bench.measure(turn)))


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """What the command line asks for."""
    parser = CONTEST.parser()
    parser.add_argument("--tasks", type=Task, nargs="+", default=list(Task), help="to be changed")
    return CONTEST.parse(parser, arguments)


def main(arguments: Sequence[str]) -> int:
    """The exit code, after everything was measured, printed and recorded."""
    given = parse_arguments(arguments)
    turns = plan(given.sizes, given.rounds, given.tasks)
    return CONTEST.hold(given, turns, partial(measure_all, SHORT if given.short else Lengths()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
