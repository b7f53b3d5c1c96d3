"""A look at a cluster by somebody who only reads: connect, see everything once, and leave."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from random import SystemRandom
from typing import Annotated, Any, Final, TypeVar

from cyclopts import Parameter

from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.lists import Unreadable
from trimtab.cli.errors import FailedError
from trimtab.cli.flags import types
from trimtab.cli.flags.common import LogFlags
from trimtab.cli.output import columns, empty_results
from trimtab.cli.runtime import cluster_connection, cluster_problems, logs
from trimtab.cluster.auth.credentials import Connection
from trimtab.cluster.clock import RealClock
from trimtab.cluster.errors import ClusterError
from trimtab.cluster.http.client import Client
from trimtab.cluster.http.rate_limit import RequestBudget
from trimtab.cluster.live.cluster import LiveCluster, Scope
from trimtab.core.updates.snapshot import Snapshot
from trimtab.updater.observe import Observer
from trimtab.updater.settings import UpdaterSettings
from trimtab.updater.state import UpdaterMemory

_PATIENCE_SECONDS: Final = 30
_SILENCE_SECONDS: Final = 5
"""After so long people want to know what is waited for."""
_POLL: Final = timedelta(milliseconds=50)


@types.flag_group("Cluster", order=9)
@dataclass(frozen=True, slots=True)
class ViewFlags:
    """Which cluster is looked at, and where in it."""

    namespace: Annotated[str, Parameter(name=["--namespace", "-n"])] = ""
    """The namespace; that of the context if not given."""
    all_namespaces: Annotated[bool, Parameter(name=["--all-namespaces", "-A"], negative="")] = False
    """All namespaces."""
    kubeconfig: str = ""
    """The file that says where the cluster is, unless kubectl's does."""
    context: str = ""
    """The context in that file."""


@dataclass(frozen=True, slots=True)
class View:
    """What there is to see."""

    snapshot: Snapshot
    namespace: str
    """Empty for all."""
    unreadable_autoscalers: Sequence[Unreadable] = ()
    unreadable_pods: Sequence[Unreadable] = ()


def look(flags: ViewFlags) -> View:
    """Return all that there is to see.

    Raises a FailedError if the cluster does not show it, or has no such namespace.
    """
    logs.set_up(LogFlags(v=0))
    clock = RealClock()
    connection = cluster_connection.choose_connection(
        flags.kubeconfig, clock, os.environ, flags.context
    )
    return asyncio.run(_look(flags, connection, clock))


async def _look(flags: ViewFlags, connection: Connection, clock: RealClock) -> View:
    namespace = namespace_of(flags, connection)
    scope = Scope(namespace, checkpoints=False)
    async with joined(connection, clock) as client, seen(client, scope, connection) as cluster:
        observer = Observer(cluster, UpdaterSettings(), UpdaterMemory())
        observation = await observer.observe(clock.now(), admission_alive=True)
        if not any(True for _ in cluster.autoscalers):
            await empty_results.require_namespace(client, namespace)
        return View(
            observation.snapshot,
            namespace,
            cluster.autoscalers.unreadable,
            cluster.pods.unreadable,
        )


def namespace_of(flags: ViewFlags, connection: Connection) -> str:
    """The namespace that is looked at; empty for all."""
    return "" if flags.all_namespaces else flags.namespace or connection.namespace


@asynccontextmanager
async def joined(connection: Connection, clock: RealClock) -> AsyncIterator[Client]:
    """A client of the cluster; a FailedError instead of what the cluster does not do."""
    budget = RequestBudget(clock, rate=0, burst=1)
    try:
        async with Client(connection, clock=clock, random=SystemRandom(), budget=budget) as client:
            yield client
    except (ClusterError, DecodeError) as error:
        raise FailedError(cluster_problems.explain_problem(error, connection.server)) from error


@asynccontextmanager
async def seen(client: Client, scope: Scope, connection: Connection) -> AsyncIterator[LiveCluster]:
    """The cluster once everything in the scope was seen; a FailedError if it is not shown."""
    clock = RealClock()
    cluster = LiveCluster(client, scope, clock=clock, random=SystemRandom())
    feeding = asyncio.create_task(cluster.run())
    try:
        await _wait(cluster, connection, clock)
        yield cluster
    finally:
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What was seen, and what was not."""

    cluster: LiveCluster
    unseen: Mapping[str, Exception | None]
    """By path."""


@asynccontextmanager
async def looking(
    client: Client, scope: Scope, clock: RealClock, patience: timedelta
) -> AsyncIterator[ClusterView]:
    """A sight of everything in the scope that could be listed in time."""
    cluster = LiveCluster(client, scope, clock=clock, random=SystemRandom())
    feeding = asyncio.create_task(cluster.run())
    try:
        ends_at = clock.elapsed() + patience
        while clock.elapsed() < ends_at and None in cluster.unseen().values():
            await clock.sleep(_POLL)
        yield ClusterView(cluster, cluster.unseen())
    finally:
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)


async def _wait(cluster: LiveCluster, connection: Connection, clock: RealClock) -> None:
    """Wait until everything was seen; say what is in the way as soon as something is."""
    seeing = asyncio.create_task(cluster.synced())
    failing = asyncio.create_task(_find_problem(cluster, clock))
    try:
        done = await _first_of(seeing, failing, _SILENCE_SECONDS)
        if not done:
            say(f"trimtab: still waiting for the cluster at {connection.server}")
            done = await _first_of(seeing, failing, _PATIENCE_SECONDS - _SILENCE_SECONDS)
    finally:
        seeing.cancel()
        failing.cancel()
    if failing in done:
        raise FailedError(cluster_problems.explain_problem(failing.result(), connection.server))
    if seeing not in done:
        raise FailedError(cluster_problems.explain_problem(TimeoutError(), connection.server))


async def _first_of(
    seeing: asyncio.Task[None], failing: asyncio.Task[Exception], seconds: float
) -> set[asyncio.Task[Any]]:
    """Return those of both that have ended, as soon as one has; none if the time is over."""
    done, _ = await asyncio.wait(
        [seeing, failing], timeout=seconds, return_when=asyncio.FIRST_COMPLETED
    )
    return done


async def _find_problem(cluster: LiveCluster, clock: RealClock) -> Exception:
    """What is in the way, once something is."""
    while not (problems := cluster.problems()):
        await clock.sleep(_POLL)
    return next(iter(problems.values()))


def say(text: str) -> None:
    """Tell somebody who reads the screen and not the output."""
    sys.stderr.write(f"{columns.disarm(text)}\n")


_T = TypeVar("_T")


@types.flag_group("Cluster", order=9)
@dataclass(frozen=True, slots=True)
class ConnectionFlags:
    """Which cluster is visited, wherever in it."""

    kubeconfig: str = ""
    """The file that says where the cluster is, unless kubectl's does."""
    context: str = ""
    """The context in that file."""

    def everywhere(self) -> ViewFlags:
        """The same cluster, in all of its namespaces."""
        return ViewFlags(all_namespaces=True, kubeconfig=self.kubeconfig, context=self.context)


@dataclass(frozen=True, slots=True)
class ClusterSession:
    """What is at hand while it lasts."""

    client: Client
    connection: Connection
    clock: RealClock
    namespace: str
    """Empty for all namespaces."""


def visit(flags: ViewFlags, ask: Callable[[ClusterSession], Awaitable[_T]]) -> _T:
    """What is answered there; a FailedError if the cluster does not do what is asked."""
    logs.set_up(LogFlags(v=0))
    clock = RealClock()
    connection = cluster_connection.choose_connection(
        flags.kubeconfig, clock, os.environ, flags.context
    )

    async def run() -> _T:
        async with joined(connection, clock) as client:
            return await ask(
                ClusterSession(client, connection, clock, namespace_of(flags, connection))
            )

    return asyncio.run(run())
