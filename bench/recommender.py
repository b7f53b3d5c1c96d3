"""The recommender beside the original's, as processes on one real API server, taking turns.

    python -m bench.recommender --sizes 100 1000 --rounds 2

In each round, for each size, each side is run twice on the same objects:

1. *new*: no status, no checkpoint. How long until every autoscaler has a recommendation, and what
   does a tick cost while histories are young and all bounds move?
2. *settled*: eight days of history in the checkpoints. How long until the first tick has ended, and
   what does a tick cost in the long run?

Ticks come faster than every minute for both, and ours saves everything in ten ticks, as it does by
default. The original waits for one interval before it does anything; that wait is not counted
against it.

Writes `results/recommender.json` and the page of benchmarks; fails if a ratio got clearly worse.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from itertools import product
from time import time
from typing import Final

from bench import contestants, contests, fleet, measuring, page, usage_server
from bench.contestants import Limits, Recommender
from bench.contests import Contest
from bench.fleet import Fleet
from bench.scoring import Entry, Side
from bench.telling import say
from bench.usage_server import UsageServer
from rig.controlplane import ControlPlane

CONTEST: Final = Contest(
    "recommender",
    sizes=(100, 1000, 3000),
    rounds=2,
    short_size=100,
    programs=("original-recommender",),
    tables=(page.RECOMMENDER,),
)
DEFAULT_LIMITS_UP_TO: Final = 1000
"""Within its own limits a tick of the original takes minutes beyond that."""
INTERVALS: Final = {100: timedelta(seconds=5), 1000: timedelta(seconds=15)}
LONGEST_INTERVAL: Final = timedelta(seconds=30)
"""From tick to tick by size, long enough for ours to end within: what is due goes by the clock."""
_TICKS: Final = {Side.OURS: 10, Side.ORIGINAL: 1}
"""So many ticks are measured when a side has settled: ours saves a tenth in each of them."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured at a time."""

    size: int
    limits: Limits
    round: int
    side: Side

    @property
    def interval(self) -> timedelta:
        """From tick to tick."""
        return INTERVALS.get(self.size, LONGEST_INTERVAL)

    @property
    def idle_seconds(self) -> float:
        """How long the side does nothing after its start."""
        return self.interval.total_seconds() if self.side is Side.ORIGINAL else 0.0


@dataclass(frozen=True, slots=True)
class Bench:
    """What is needed for a measurement."""

    plane: ControlPlane
    fleet: Fleet
    usage: UsageServer

    async def measure(self, case: Case) -> Entry:
        """One side in one round."""
        say(f"{case.size} autoscalers, limits {case.limits}, round {case.round}: {case.side}")
        values = {**await self._start_anew(case), **await self._start_again(case)}
        return Entry(case.limits, case.size, case.round, case.side, values)

    async def _start_anew(self, case: Case) -> dict[str, float]:
        """A start where nobody has recommended anything yet, and a tick after it."""
        await self.fleet.forget()
        with self._recommending(case) as run:
            async with asyncio.timeout(contestants.PATIENCE_SECONDS):
                await self.fleet.wait_until_recommended()
            values = {
                "first_seconds": time() - run.started - case.idle_seconds,
                "first_cpu": run.vitals().cpu_seconds,
            }
            await run.wait_for_tick(1)
            return values | await self._watch_ticks(run, "young", 1)

    async def _start_again(self, case: Case) -> dict[str, float]:
        """A start with full checkpoints, and ticks after it."""
        await self.fleet.remember()
        with self._recommending(case) as run:
            end = await run.wait_for_tick(1)
            values = {
                "restart_seconds": end - run.started - case.idle_seconds,
                "restart_cpu": run.vitals().cpu_seconds,
            }
            values |= await self._watch_ticks(run, "settled", _TICKS[case.side])
            vitals = run.vitals()
            return values | {"resident": vitals.resident_bytes, "peak": vitals.peak_bytes}

    def _recommending(self, case: Case) -> AbstractContextManager[Recommender]:
        return contestants.recommending(case.side, case.limits, self.plane, case.interval)

    async def _watch_ticks(self, run: Recommender, title: str, count: int) -> dict[str, float]:
        """What a tick costs, on average over the next ones."""
        done = len(run.ticks())
        before = self._spent(run)
        await run.wait_for_tick(done + count)
        after = self._spent(run)
        costs = {name: (after[name] - value) / count for name, value in before.items()}
        spans = [tick.seconds for tick in run.ticks()[done : done + count]]
        costs["seconds"] = sum(spans) / count
        return {f"{title}_{name}": value for name, value in costs.items()}

    def _spent(self, run: Recommender) -> dict[str, float]:
        cpu = run.vitals().cpu_seconds
        requests = measuring.count_requests(self.plane)
        return {
            "cpu": cpu,
            "server_cpu": measuring.server_cpu_seconds(self.plane),
            "reads": requests.reads + self.usage.answered,
            "writes": requests.writes,
        }


def plan(sizes: Sequence[int], rounds: int, limits: Sequence[Limits]) -> Iterator[Case]:
    """What is measured, in its order."""
    for size, chosen in product(sorted(sizes), limits):
        if chosen is Limits.LIFTED or size <= DEFAULT_LIMITS_UP_TO:
            for number, side in contests.take_turns(rounds):
                yield Case(size, chosen, number, side)


async def measure_all(plane: ControlPlane, given: argparse.Namespace) -> list[Entry]:
    """Everything that is asked for, on one control plane whose fleet grows."""
    found = []
    with usage_server.serving(plane) as usage:
        async with fleet.manned(plane, Fleet) as manned:
            bench = Bench(plane, manned, usage)
            for case in plan(given.sizes, given.rounds, given.limits):
                if manned.size < case.size:
                    await manned.grow(case.size)
                    usage.show(manned.workloads)
                found.append(contests.note(await bench.measure(case)))
    return found


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """What the command line asks for."""
    parser = CONTEST.parser()
    parser.add_argument(
        "--limits", type=Limits, nargs="+", default=list(Limits), help="of requests"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """The exit code, after everything was measured, printed and recorded."""
    return CONTEST.hold(parse_arguments(arguments), measure_all)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
