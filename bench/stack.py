"""All three components of both sides while nothing happens, on one real API server.

    python -m bench.stack --sizes 1000 --minutes 10

Recommender, updater and webhook of one side run together, as they do by default, and then those of
the other. All histories are eight days old, usage stays as it is, and every pod has what is
recommended for it, so that the components have nothing to do but to find that out.

Writes `results/stack.json` and the page of benchmarks; fails if a ratio got clearly worse.
"""

import argparse
import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

from bench import (
    contestants,
    contests,
    fleet,
    measuring,
    stack_tables,
    updaters,
    usage_server,
    webhooks,
)
from bench.contestants import Limits, Recommender
from bench.contests import Contest, Course, Turn
from bench.measuring import Vitals
from bench.pod_fleet import PodFleet
from bench.scoring import Side
from bench.telling import telling
from bench.usage_server import UsageServer
from rig.controlplane import ControlPlane
from rig.progress import format_span

CONTEST: Final = Contest(
    stack_tables.SECTION,
    sizes=(1000,),
    rounds=2,
    short_size=100,
    programs=("original-recommender", "original-updater", "original-admission"),
)
INTERVAL: Final = timedelta(minutes=1)
SHORT_INTERVAL: Final = timedelta(seconds=5)
SHORT_MINUTES: Final = 0.25
_TO_CLOSE_SECONDS: Final = 2
"""After that a server knows that the watches of a process are closed which has ended."""


@dataclass(frozen=True, slots=True)
class Stack:
    """The components of a side that run."""

    recommender: Recommender
    vitals: Mapping[str, Callable[[], Vitals]]
    """By component what it costs."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What is needed for a measurement."""

    plane: ControlPlane
    fleet: PodFleet
    usage: UsageServer
    interval: timedelta
    span: timedelta

    async def settle(self) -> None:
        """Let every pod have what is recommended for it by its history."""
        await self._recommend()
        await self.fleet.fit()

    async def measure(self, turn: Turn) -> dict[str, float]:
        """One side in one round, which finds nothing of what the one before it did."""
        await self.fleet.replace_evicted()
        await self._recommend()
        await self.fleet.remember()
        async with self.fleet.watching_evictions() as evicted:
            with self._running(turn.side) as stack:
                await stack.recommender.wait_for_tick(1)
                # Then it ends between two ticks, and as many are in it as there are intervals.
                await asyncio.sleep(self.interval.total_seconds() / 2)
                # To be asked for its counters costs the server something: not in between.
                requests = self._count_requests()
                before = self._spent(stack) | requests
                await self._wait()
                after = self._spent(stack)
                after |= self._count_requests()
                found = [read() for read in stack.vitals.values()]
                watches = measuring.count_open_watches(self.plane)
            await asyncio.sleep(_TO_CLOSE_SECONDS)
            watches -= measuring.count_open_watches(self.plane)
        minutes = self.span / timedelta(minutes=1)
        costs = {name: (after[name] - before[name]) / minutes for name in before}
        costs["reads"] += reopened_per_minute(turn.side, watches)
        memory = {
            "resident": float(sum(each.resident_bytes for each in found)),
            "peak": float(sum(each.peak_bytes for each in found)),
        }
        return {
            **costs,
            **memory,
            "watches": float(watches.total()),
            "evicted": float(len(evicted)),
            "minutes": minutes,
        }

    async def _recommend(self) -> None:
        """Let every status tell what follows from the histories, and nothing older."""
        await self.fleet.forget()
        await self.fleet.remember()
        with contestants.recommending(Side.OURS, Limits.LIFTED, self.plane, self.interval):
            async with asyncio.timeout(contestants.PATIENCE_SECONDS):
                await self.fleet.wait_until_recommended()

    @contextmanager
    def _running(self, side: Side) -> Iterator[Stack]:
        limits, plane, interval = Limits.DEFAULT, self.plane, self.interval
        with ExitStack() as running:
            webhook = running.enter_context(webhooks.admitting(side, plane))
            updater = running.enter_context(updaters.updating(side, limits, plane, interval))
            recommender = running.enter_context(
                contestants.recommending(side, limits, plane, interval)
            )
            vitals = {
                "recommender": recommender.vitals,
                "updater": updater.vitals,
                "webhook": webhook.vitals,
            }
            yield Stack(recommender, vitals)

    async def _wait(self) -> None:
        seconds = self.span.total_seconds()
        async with telling(lambda: f"watching for {format_span(seconds)}"):
            await asyncio.sleep(seconds)

    def _spent(self, stack: Stack) -> dict[str, float]:
        cpu = {name: read().cpu_seconds for name, read in stack.vitals.items()}
        return {
            **{f"{name}_cpu": seconds for name, seconds in cpu.items()},
            "cpu": sum(cpu.values()),
            "server_cpu": measuring.server_cpu_seconds(self.plane),
        }

    def _count_requests(self) -> dict[str, float]:
        counted = measuring.count_requests(self.plane)
        # Few watches end while they are watched: they are counted by how long they last.
        return {"reads": counted.answers + self.usage.answered, "writes": counted.writes}


def reopened_per_minute(side: Side, watches: Mapping[str, int]) -> float:
    """How many of these watches, by resource, a side opens anew in a minute of the long run."""
    return sum(
        count / contestants.watch_minutes(side, resource) for resource, count in watches.items()
    )


def plan(sizes: Sequence[int], rounds: int) -> Iterator[Turn]:
    """What is measured, in its order."""
    for size in sorted(sizes):
        for number, side in contests.take_turns(rounds):
            yield Turn(stack_tables.IDLE, size, number, side)


async def measure_all(given: argparse.Namespace, plane: ControlPlane, course: Course) -> None:
    """Every turn of a course, on one control plane whose fleet grows."""
    interval = SHORT_INTERVAL if given.short else INTERVAL
    span = timedelta(minutes=SHORT_MINUTES if given.short else given.minutes)
    with usage_server.serving(plane) as usage:
        async with fleet.manned(plane, PodFleet) as manned:
            bench = Bench(plane, manned, usage, interval, span)
            for turn in course:
                if manned.size < turn.size:
                    await manned.grow(turn.size)
                    usage.show(manned.workloads)
                    await bench.settle()
                course.note(turn, turn.entry(await bench.measure(turn)))


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """What the command line asks for."""
    parser = CONTEST.parser()
    parser.add_argument("--minutes", type=float, default=10, help="how long each side is watched")
    return CONTEST.parse(parser, arguments)


def main(arguments: Sequence[str]) -> int:
    """The exit code, after everything was measured, printed and recorded."""
    given = parse_arguments(arguments)
    return CONTEST.hold(given, plan(given.sizes, given.rounds), partial(measure_all, given))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
