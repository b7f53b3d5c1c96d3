"""Run components on a real cluster, from the command line to their end.

A component may have to win an election before it acts. Its loop must succeed regularly, and its
address serves probes and metrics. Several components in one process share the views of the cluster
and the address. If one of them breaks, all of them end.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from random import SystemRandom
from typing import Final, Generic, TypeVar

import structlog
from structlog.contextvars import bound_contextvars

from trimtab import __version__
from trimtab.cli.errors import UsageError
from trimtab.cli.flags import start
from trimtab.cli.flags.common import CommonFlags, PageFlags
from trimtab.cli.runtime import logs, process
from trimtab.cli.runtime.cluster_connection import choose_connection, connected, election_settings
from trimtab.cli.runtime.health import (
    HALF_BLIND,
    Heartbeat,
    ReadWatchdog,
    list_obstacles,
    list_shortcomings,
    watch_obstacles,
)
from trimtab.cli.runtime.http_server import parse_address, serving, serving_probes
from trimtab.cli.runtime.page_guard import protecting
from trimtab.cli.runtime.pages import Page, Probes
from trimtab.cli.runtime.tracing import traced
from trimtab.cluster.clock import RealClock
from trimtab.cluster.http.client import Client
from trimtab.cluster.live.cluster import LiveCluster, Scope, merge_scopes
from trimtab.cluster.live.leader_election import ElectionSettings, Elector
from trimtab.core.model.feature_gates import FeatureGates

FlagsT = TypeVar("FlagsT")
SettingsT = TypeVar("SettingsT")

INTERVALS_UNTIL_DEAD: Final = 5
"""Intervals without a successful tick until a component is unhealthy, as in the original."""

_logger: Final = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ParsedFlags(Generic[FlagsT, SettingsT]):
    """A checked command line of a component."""

    common: CommonFlags
    flags: FlagsT
    settings: SettingsT
    address: str
    election: ElectionSettings
    warnings: Sequence[str]

    def elector(self, cluster: LiveCluster, clock: RealClock) -> Elector | None:
        """Return an elector; None without --leader-elect."""
        if not self.common.election.leader_elect:
            return None
        return Elector(cluster, self.election, clock=clock, elapsed=clock.elapsed)


@dataclass(frozen=True, slots=True)
class RunningComponent:
    """A component as a process runs it, with what its probes and pages need."""

    cluster: LiveCluster
    duty: process.Runnable
    heartbeat: Heartbeat
    elector: Elector | None
    list_problems: Callable[[], Iterable[Exception]] = tuple
    """Problems that neither its cluster nor its elector report."""
    list_reasons: Callable[[], Iterable[str]] = tuple
    """Further obstacles, in words."""
    pages: Mapping[str, Page] = field(default_factory=dict)
    """Pages besides metrics and probes, by path."""
    ends_last: bool = False
    """True if the other components need it until they have ended."""

    def obstacles(self) -> list[str]:
        """Return what prevents its work now; empty if it can work."""
        others = list(self.list_problems())
        if self.elector is not None and self.elector.problem is not None:
            others.append(self.elector.problem)
        return [*list_obstacles(self.cluster, others), *self.list_reasons()]

    def shortcomings(self) -> list[str]:
        """Return optional reads that fail; the component works without them."""
        return list_shortcomings(self.cluster.shortcomings())


def may_act(elector: Elector | None) -> bool:
    """Return True if this replica acts: it leads, or there is no election."""
    return elector is None or elector.leads()


@dataclass(frozen=True, slots=True)
class ComponentSpec:
    """A component before there is a cluster to build it on."""

    name: str
    scope: Scope
    """The part of the cluster that it has to see."""
    build: Callable[[LiveCluster, Client, RealClock], RunningComponent]


def check(
    unused: Sequence[str],
    common: CommonFlags,
    flags: FlagsT,
    to_settings: Callable[[FeatureGates], SettingsT],
) -> ParsedFlags[FlagsT, SettingsT]:
    """Check the flags of a component; a UsageError if they are invalid."""
    known = start.list_flags(common, flags)
    unknown = start.list_unknown(unused, known, is_strict=common.line.strict_flags)
    gates, flaws = start.parse_gates(common.cluster.feature_gates)
    settings = start.make_settings(lambda: to_settings(gates), start.list_changed(common, flags))
    # A component without an election has no flag for the name of a lease.
    address, lease = str(known["address"]), str(known.get("leader_elect_resource_name", ""))
    parse_address(address)
    check_pages(common.pages)
    election = election_settings(common.election, lease)
    return ParsedFlags(common, flags, settings, address, election, [*unknown, *flaws])


def check_variables(common: CommonFlags, flags: object) -> list[str]:
    """Return warnings about variables that belong to no flag; a UsageError with strict flags."""
    known = start.list_flags(common, flags)
    return start.list_stray(os.environ, known, is_strict=common.line.strict_flags)


def check_pages(flags: PageFlags) -> None:
    """Raise a UsageError if the flags of metrics and pages contradict each other."""
    if flags.health_address:
        parse_address(flags.health_address, "--health-address")
    if bool(flags.metrics_tls_cert_file) != bool(flags.metrics_tls_private_key):
        raise UsageError("--metrics-tls-cert-file and --metrics-tls-private-key go together")
    if flags.metrics_tls_cert_file and not flags.metrics_secure:
        raise UsageError("--metrics-tls-cert-file: without --metrics-secure there is no TLS")


def run(
    order: ParsedFlags[FlagsT, SettingsT],
    part: ComponentSpec,
    advice: Iterable[str] = (),
) -> int:
    """Run one component until a signal ends it; return the exit code."""
    strays = check_variables(order.common, order.flags)
    logs.set_up(order.common.logs)
    warnings = [*order.warnings, *strays, *advice]
    with bound_contextvars(component=part.name):
        start.log_start(part.name, order.common, order.flags, warnings)
        return process.run(partial(serve, order.common, order.address, [part]))


async def serve(
    common: CommonFlags,
    address: str,
    parts: Sequence[ComponentSpec],
    stop: asyncio.Event,
    *,
    context: str = "",
) -> None:
    """Build the components on the cluster, and run them until `stop` is set."""
    clock = RealClock()
    name = parts[0].name if len(parts) == 1 else "run"
    async with (
        traced(name, os.environ) as tracer,
        connected(common.cluster, clock, os.environ, context, tracer) as client,
    ):
        scope = merge_scopes([part.scope for part in parts])
        cluster = LiveCluster(client, scope, clock=clock, random=SystemRandom())
        for part in parts:
            start.BUILD.labels(part.name, __version__).set(1)
        watchdog = ReadWatchdog(cluster.required_reads, clock.elapsed, common.cluster.read_timeout)
        components = {part.name: part.build(cluster, client, clock) for part in parts}
        team = Team(components, watchdog.flaws)
        async with _shown(common, address, team, context), asyncio.TaskGroup() as group:
            background = (
                group.create_task(cluster.run()),
                group.create_task(_settle(cluster, clock)),
                group.create_task(watch_obstacles(team.obstacles, clock)),
                group.create_task(watch_obstacles(team.shortcomings, clock, HALF_BLIND)),
            )
            await team.serve(stop)
            # None of them ends by itself, and the group waits for all.
            for task in background:
                task.cancel()


@asynccontextmanager
async def _shown(
    common: CommonFlags, address: str, team: "Team", context: str
) -> AsyncIterator[None]:
    """Serve metrics, probes and pages for as long as the block lasts."""
    clock, pages = RealClock(), common.pages
    protection = None
    async with AsyncExitStack() as stack:
        if pages.metrics_secure:
            way = choose_connection(common.cluster.kubeconfig, clock, os.environ, context)
            protection = await stack.enter_async_context(protecting(pages, way, clock))
        await stack.enter_async_context(serving(address, team.probes, team.pages, protection))
        # Kubelets have no token: probes have an address without TLS and access control here.
        if pages.health_address:
            probing = serving_probes(pages.health_address, team.probes)
            await stack.enter_async_context(probing)
        yield


class Team:
    """The components of one process, by their names."""

    def __init__(
        self,
        components: Mapping[str, RunningComponent],
        list_flaws: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """Take the components, and a function that lists the flaws they have in common."""
        self._components = components
        self._list_flaws = list_flaws
        self.probes = Probes(self._flaws, self.obstacles)
        self.pages = {
            path: page for each in components.values() for path, page in each.pages.items()
        }

    async def serve(self, stop: asyncio.Event) -> None:
        """Run all components until `stop` is set; raise an error if one breaks."""
        if len(self._components) == 1:
            [(name, alone)] = self._components.items()
            await process.serve(name, alone.duty, stop, alone.elector)
            return
        broken: list[Exception] = []
        nobody_acts = asyncio.Event()

        async def serve_one(name: str, component: RunningComponent) -> None:
            until = nobody_acts if component.ends_last else stop
            with bound_contextvars(component=name):
                try:
                    await process.serve(name, component.duty, until, component.elector)
                except Exception as error:
                    _logger.exception("a component broke: all components end")
                    broken.append(error)
                    # They share a process, which the kubelet can restart only as a whole.
                    stop.set()

        async def serve_some(*, last: bool) -> None:
            async with asyncio.TaskGroup() as group:
                for name, component in self._components.items():
                    if component.ends_last is last:
                        group.create_task(serve_one(name, component))

        async with asyncio.TaskGroup() as group:
            group.create_task(serve_some(last=True))
            await serve_some(last=False)
            # Only now end the components that the others needed.
            nobody_acts.set()
        if broken:
            raise ExceptionGroup("components broke", broken)

    def obstacles(self) -> list[str]:
        """Return what prevents the work of any component now."""
        return _collect(each.obstacles() for each in self._components.values())

    def shortcomings(self) -> list[str]:
        """Return optional reads that fail; the components work without them."""
        return _collect(each.shortcomings() for each in self._components.values())

    def _flaws(self) -> list[str]:
        flaws = {name: each.heartbeat.flaws() for name, each in self._components.items()}
        own = [f"{name}: {flaw}" for name, found in flaws.items() for flaw in found]
        return [*self._list_flaws(), *own]


def _collect(texts: Iterable[Iterable[str]]) -> list[str]:
    """Return each text once: most are about the cluster, which all components share."""
    return list(dict.fromkeys(chain.from_iterable(texts)))


async def _settle(cluster: LiveCluster, clock: RealClock) -> None:
    """Freeze the objects of the first listing, which stay, for the garbage collector."""
    await cluster.synced()
    await process.spare_garbage_collection(clock)
