"""A component on a real cluster, from its command line to its end; what it does is its own affair.

One that acts on its own may have to win an election first, has a loop that must not fall silent,
and shows at its address how it is.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic, TypeVar

from trimtab.cli import logs, process, starting
from trimtab.cli.flags import CommonFlags
from trimtab.cli.health import HALF_BLIND, Heartbeat, list_obstacles, watch_obstacles
from trimtab.cli.http_server import Page, Probes, parse_address, serving
from trimtab.cli.joining import connected, election_settings
from trimtab.cluster.adapter import LiveCluster
from trimtab.cluster.client import Client
from trimtab.cluster.clock import RealClock
from trimtab.cluster.election import ElectionSettings, Elector
from trimtab.core.gates import FeatureGates

FlagsT = TypeVar("FlagsT")
SettingsT = TypeVar("SettingsT")

INTERVALS_UNTIL_DEAD: Final = 5
"""The original's: after so many intervals without a tick that succeeded we are not healthy."""


@dataclass(frozen=True, slots=True)
class Order(Generic[FlagsT, SettingsT]):
    """What a command line asks for, checked."""

    common: CommonFlags
    flags: FlagsT
    settings: SettingsT
    address: str
    election: ElectionSettings
    warnings: Sequence[str]

    def elector(self, cluster: LiveCluster, clock: RealClock) -> Elector | None:
        """A seat in the election, if there shall be one."""
        if not self.common.election.leader_elect:
            return None
        return Elector(cluster, self.election, clock=clock, elapsed=clock.elapsed)


@dataclass(frozen=True, slots=True)
class Component:
    """What a process runs, and what it asks to know how that goes."""

    cluster: LiveCluster
    duty: process.Duty
    heartbeat: Heartbeat
    elector: Elector | None
    list_problems: Callable[[], Iterable[Exception]] = tuple
    """What keeps it from its work, beyond what its cluster and its elector say."""
    list_reasons: Callable[[], Iterable[str]] = tuple
    """The same, in words."""
    pages: Mapping[str, Page] = field(default_factory=dict)
    """What it shows besides metrics and health, by path."""

    def obstacles(self) -> list[str]:
        """What keeps it from its work now."""
        others = list(self.list_problems())
        if self.elector is not None and self.elector.problem is not None:
            others.append(self.elector.problem)
        return [*list_obstacles(self.cluster, others), *self.list_reasons()]

    def shortcomings(self) -> list[str]:
        """What it works without, and would better know."""
        return [f"{where}: {error}" for where, error in self.cluster.shortcomings().items()]


def check(
    stray: Sequence[str],
    common: CommonFlags,
    flags: FlagsT,
    to_settings: Callable[[FeatureGates], SettingsT],
) -> Order[FlagsT, SettingsT]:
    """What the flags ask for; a UsageError if that makes no sense."""
    known = starting.list_flags(common, flags)
    unknown = starting.list_unknown(stray, known)
    gates, flaws = starting.parse_gates(common.cluster.feature_gates)
    settings = starting.make_settings(
        lambda: to_settings(gates), starting.list_changed(common, flags)
    )
    # Who takes part in no election has no name for its lease.
    address, lease = str(known["address"]), str(known.get("leader_elect_resource_name", ""))
    parse_address(address)
    election = election_settings(common.election, lease)
    return Order(common, flags, settings, address, election, [*unknown, *flaws])


def run(
    name: str,
    order: Order[FlagsT, SettingsT],
    build: Callable[[Client, RealClock], Component],
    advice: Iterable[str] = (),
) -> int:
    """The exit code, after the component has run until it was told to end."""
    logs.set_up(order.common.logs)
    starting.tell_of_start(name, order.common, order.flags, [*order.warnings, *advice])
    return process.run(partial(_run, order, build))


async def _run(
    order: Order[FlagsT, SettingsT],
    build: Callable[[Client, RealClock], Component],
    stop: asyncio.Event,
) -> None:
    clock = RealClock()
    async with connected(order.common.cluster, clock, os.environ) as client:
        component = build(client, clock)
        probes = Probes(component.heartbeat.flaws, component.obstacles)
        pages = serving(order.address, probes, component.pages)
        async with pages, asyncio.TaskGroup() as group:
            background = (
                group.create_task(component.cluster.run()),
                group.create_task(_settle(component.cluster, clock)),
                group.create_task(watch_obstacles(component.obstacles, clock)),
                group.create_task(watch_obstacles(component.shortcomings, clock, HALF_BLIND)),
            )
            await process.serve(component.duty, stop, component.elector)
            for task in background:
                task.cancel()


async def _settle(cluster: LiveCluster, clock: RealClock) -> None:
    """Let the garbage collector leave alone what is listed at the start: it stays."""
    await cluster.synced()
    await process.spare_garbage_collection(clock)
