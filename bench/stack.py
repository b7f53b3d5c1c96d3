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
from time import time
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
from bench.contests import Contest
from bench.measuring import Vitals
from bench.pod_fleet import PodFleet
from bench.scoring import Entry, Side
from bench.telling import say
from bench.usage_server import UsageServer
from rig.controlplane import ControlPlane

CONTEST: Final = Contest(
    "stack",
    sizes=(1000,),
    rounds=1,
    short_size=100,
    programs=("original-recommender", "original-updater", "original-admission"),
    tables=stack_tables.ALL,
)
INTERVAL: Final = timedelta(minutes=1)
SHORT_INTERVAL: Final = timedelta(seconds=5)
SHORT_MINUTES: Final = 0.25
_SAY_EVERY_SECONDS: Final = 60.0


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
        await self.fleet.forget()
        await self.fleet.remember()
        with contestants.recommending(Side.OURS, Limits.LIFTED, self.plane, self.interval):
            async with asyncio.timeout(contestants.PATIENCE_SECONDS):
                await self.fleet.wait_until_recommended()
        await self.fleet.fit()

    async def measure(self, size: int, number: int, side: Side) -> Entry:
        """One side in one round."""
        say(f"{size} autoscalers, round {number}: {side}")
        await self.fleet.remember()
        async with self.fleet.watching_evictions() as evicted:
            with self._running(side) as stack:
                await stack.recommender.wait_for_tick(1)
                before = self._spent(stack)
                await self._wait()
                after = self._spent(stack)
                found = [read() for read in stack.vitals.values()]
        minutes = self.span / timedelta(minutes=1)
        costs = {name: (after[name] - before[name]) / minutes for name in before}
        memory = {
            "resident": float(sum(each.resident_bytes for each in found)),
            "peak": float(sum(each.peak_bytes for each in found)),
        }
        values = {**costs, **memory, "evicted": float(len(evicted)), "minutes": minutes}
        return Entry(stack_tables.IDLE, size, number, side, values)

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
        end = time() + self.span.total_seconds()
        while (left := end - time()) > 0:
            say(f"{left:.0f} s to go")
            await asyncio.sleep(min(left, _SAY_EVERY_SECONDS))

    def _spent(self, stack: Stack) -> dict[str, float]:
        cpu = {name: read().cpu_seconds for name, read in stack.vitals.items()}
        requests = measuring.count_requests(self.plane)
        return {
            **{f"{name}_cpu": seconds for name, seconds in cpu.items()},
            "cpu": sum(cpu.values()),
            "server_cpu": measuring.server_cpu_seconds(self.plane),
            "reads": requests.reads + self.usage.answered,
            "writes": requests.writes,
        }


async def measure_all(plane: ControlPlane, given: argparse.Namespace) -> list[Entry]:
    """Everything that is asked for, on one control plane whose fleet grows."""
    found = []
    interval = SHORT_INTERVAL if given.short else INTERVAL
    span = timedelta(minutes=SHORT_MINUTES if given.short else given.minutes)
    with usage_server.serving(plane) as usage:
        async with fleet.manned(plane, PodFleet) as manned:
            bench = Bench(plane, manned, usage, interval, span)
            for size in sorted(given.sizes):
                await manned.grow(size)
                usage.show(manned.workloads)
                await bench.settle()
                for number, side in contests.take_turns(given.rounds):
                    found.append(contests.note(await bench.measure(size, number, side)))
    return found


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """What the command line asks for."""
    parser = CONTEST.parser()
    parser.add_argument("--minutes", type=float, default=10, help="how long each side is watched")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """The exit code, after everything was measured, printed and recorded."""
    return CONTEST.hold(parse_arguments(arguments), measure_all)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
