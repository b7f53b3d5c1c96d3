"""The recommender beside the original's, as processes on one real API server, taking turns.

    python -m bench.recommender --sizes 100 1000 --rounds 2

In each round, for each size, each side is run twice on the same objects:

1. *new*: no status, no checkpoint. How long until every autoscaler has a recommendation, and what
   does a tick cost while histories are young and all bounds move?
2. *settled*: eight days of history in the checkpoints. How long until the first tick has ended, and
   what does a tick cost in the long run?

Ticks come faster than every minute for both, and ours saves what changed in ten ticks and all else
in thirty, as it does by default. The original waits for one interval before it does anything; that
wait is not counted against it. With usage that swings only the second run is made:

    python -m bench.recommender --sizes 1000 --swings wide

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
from time import monotonic, time
from typing import Final

from bench import contestants, contests, fleet, measuring, recommender_tables, usage_server
from bench.contestants import Limits, Recommender
from bench.contests import Contest, Course, Turn
from bench.fleet import Fleet
from bench.scoring import Side
from bench.telling import telling
from bench.usage_server import UsageServer
from bench.workloads import Swing
from rig.controlplane import ControlPlane

CONTEST: Final = Contest(
    recommender_tables.SECTION,
    sizes=(100, 1000, 3000),
    rounds=2,
    short_size=100,
    programs=("original-recommender",),
)
DEFAULT_LIMITS_UP_TO: Final = 1000
"""Within its own limits a tick of the original takes minutes beyond that."""
WIDE_SIZES: Final = (100, 1000)
"""With usage that swings so many autoscalers are measured."""
INTERVALS: Final = {100: timedelta(seconds=3), 1000: timedelta(seconds=5)}
LONGEST_INTERVAL: Final = timedelta(seconds=10)
"""From tick to tick by size, long enough for ours to end within: what is due goes by the clock."""
IDLE_SECONDS: Final = 10.0
"""For so long the API server is watched while nothing asks it."""
MANY: Final = 1000
"""Beyond that a tick of the original takes minutes, and only one is measured."""


def interval(turn: Turn) -> timedelta:
    """From tick to tick."""
    return INTERVALS.get(turn.size, LONGEST_INTERVAL)


def idle_seconds(turn: Turn) -> float:
    """How long the side does nothing after its start."""
    return interval(turn).total_seconds() if turn.side is Side.ORIGINAL else 0.0


def count_ticks(turn: Turn) -> int:
    """So many ticks are measured when a side has settled."""
    match turn.side:
        case Side.OURS:
            # By then it has saved everything once.
            return 30
        case Side.ORIGINAL:
            return 3 if turn.size <= MANY else 1


@dataclass(frozen=True, slots=True)
class Bench:
    """What is needed for a measurement."""

    plane: ControlPlane
    fleet: Fleet
    usage: UsageServer

    async def measure(self, turn: Turn) -> dict[str, float]:
        """One side in one round."""
        _, swing = recommender_tables.split_group(turn.group)
        # The first answer is the same for each side.
        self.usage.show(self.fleet.workloads, swing)
        if swing is Swing.WIDE:
            return await self._start_again(turn, swing)
        return {**await self._start_anew(turn), **await self._start_again(turn, swing)}

    async def _start_anew(self, turn: Turn) -> dict[str, float]:
        """A start where nobody has recommended anything yet, and a tick after it."""
        await self.fleet.forget()
        with self._recommending(turn) as run:
            async with (
                asyncio.timeout(contestants.PATIENCE_SECONDS),
                telling(lambda: "waiting until all are recommended"),
            ):
                await self.fleet.wait_until_recommended()
            values = {
                "first_seconds": time() - run.started - idle_seconds(turn),
                "first_cpu": run.vitals().cpu_seconds,
            }
            await run.wait_for_tick(1)
            young = await self._watch_ticks(run, "young", 1)
            del young["young_span"]
            return values | young

    async def _start_again(self, turn: Turn, swing: Swing) -> dict[str, float]:
        """A start with full checkpoints, and ticks after it."""
        await self.fleet.remember(swing)
        idle = await self._watch_idle_server()
        with self._recommending(turn) as run:
            end = await run.wait_for_tick(1)
            values = {
                "restart_seconds": end - run.started - idle_seconds(turn),
                "restart_cpu": run.vitals().cpu_seconds,
            }
            values |= await self._watch_ticks(run, "settled", count_ticks(turn))
            vitals = run.vitals()
        # What the server does by itself goes by the clock, and ticks are no minute apart here.
        own = values["settled_server_cpu"] - idle * values.pop("settled_span")
        return {
            **values,
            "settled_caused_cpu": max(own, 0.0),
            "server_idle_cpu": idle * 60,
            "resident": vitals.resident_bytes,
            "peak": vitals.peak_bytes,
        }

    async def _watch_idle_server(self) -> float:
        """CPU seconds that the API server and etcd use in a second while nothing asks them."""
        before, began = measuring.server_cpu_seconds(self.plane), monotonic()
        await asyncio.sleep(IDLE_SECONDS)
        return (measuring.server_cpu_seconds(self.plane) - before) / (monotonic() - began)

    def _recommending(self, turn: Turn) -> AbstractContextManager[Recommender]:
        limits, _ = recommender_tables.split_group(turn.group)
        return contestants.recommending(turn.side, limits, self.plane, interval(turn))

    async def _watch_ticks(self, run: Recommender, title: str, count: int) -> dict[str, float]:
        """What a tick costs, on average over the next ones."""
        done = len(run.ticks())
        # To be asked for its counters costs the server more than a tick of few: not in between.
        requests = self._count_requests()
        before = self._spent(run) | requests
        await run.wait_for_tick(done + count)
        after = self._spent(run)
        after |= self._count_requests()
        costs = {name: (after[name] - value) / count for name, value in before.items()}
        spans = [tick.seconds for tick in run.ticks()[done : done + count]]
        costs["seconds"] = sum(spans) / count
        return {f"{title}_{name}": value for name, value in costs.items()}

    def _spent(self, run: Recommender) -> dict[str, float]:
        return {
            "cpu": run.vitals().cpu_seconds,
            "server_cpu": measuring.server_cpu_seconds(self.plane),
            "span": monotonic(),
            "logged": run.logged_bytes(),
        }

    def _count_requests(self) -> dict[str, float]:
        counted = measuring.count_requests(self.plane)
        # Watches are opened anew by their age, which is no matter of ticks.
        return {"reads": counted.answers + self.usage.answered, "writes": counted.writes}


def plan(
    sizes: Sequence[int], rounds: int, limits: Sequence[Limits], swings: Sequence[Swing]
) -> Iterator[Turn]:
    """What is measured, in its order."""
    for size, chosen, swing in product(sorted(sizes), limits, swings):
        is_fit = chosen is Limits.LIFTED or size <= DEFAULT_LIMITS_UP_TO
        if is_fit and (swing is Swing.NARROW or size in WIDE_SIZES):
            for number, side in contests.take_turns(rounds):
                yield Turn(recommender_tables.join_group(chosen, swing), size, number, side)


async def measure_all(plane: ControlPlane, course: Course) -> None:
    """Every turn of a course, on one control plane whose fleet grows."""
    with usage_server.serving(plane) as usage:
        async with fleet.manned(plane, Fleet) as manned:
            bench = Bench(plane, manned, usage)
            for turn in course:
                if manned.size < turn.size:
                    await manned.grow(turn.size)
                course.note(turn, turn.entry(await bench.measure(turn)))


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """What the command line asks for."""
    parser = CONTEST.parser()
    lifted = [Limits.LIFTED]
    parser.add_argument("--limits", type=Limits, nargs="+", default=lifted, help="of requests")
    every = list(Swing)
    parser.add_argument("--swings", type=Swing, nargs="+", default=every, help="narrow, wide")
    return CONTEST.parse(parser, arguments)


def main(arguments: Sequence[str]) -> int:
    """The exit code, after everything was measured, printed and recorded."""
    given = parse_arguments(arguments)
    turns = plan(given.sizes, given.rounds, given.limits, given.swings)
    return CONTEST.hold(given, turns, measure_all)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
