"""Read-only sessions of commands: connect to a cluster, list everything once, and leave."""

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
"""Time after which a message says that the command still waits."""
_POLL: Final = timedelta(milliseconds=50)


@types.flag_group("Cluster", order=9)
@dataclass(frozen=True, slots=True)
class ViewFlags:
    """Flags for the cluster and the namespace to read."""

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
    """A snapshot of a cluster, and the objects that could not be decoded."""

    snapshot: Snapshot
    namespace: str
    """Empty for all."""
    unreadable_autoscalers: Sequence[Unreadable] = ()
    unreadable_pods: Sequence[Unreadable] = ()


def look(flags: ViewFlags) -> View:
    """Return a snapshot of the cluster.

    Raise a FailedError if the cluster cannot be read, or has no such namespace.
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
    """Return the namespace to read; empty for all."""
    return "" if flags.all_namespaces else flags.namespace or connection.namespace


@asynccontextmanager
async def joined(connection: Connection, clock: RealClock) -> AsyncIterator[Client]:
    """Yield a client of the cluster; turn errors of the cluster into a FailedError."""
    budget = RequestBudget(clock, rate=0, burst=1)
    try:
        async with Client(connection, clock=clock, random=SystemRandom(), budget=budget) as client:
            yield client
    except (ClusterError, DecodeError) as error:
        raise FailedError(cluster_problems.explain_problem(error, connection.server)) from error


@asynccontextmanager
async def seen(client: Client, scope: Scope, connection: Connection) -> AsyncIterator[LiveCluster]:
    """Yield the cluster once everything in the scope is listed; a FailedError if it cannot be."""
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
    """The views of a cluster, and what could not be listed."""

    cluster: LiveCluster
    unseen: Mapping[str, Exception | None]
    """By path, the error of a list that is missing; None if there was no answer yet."""


@asynccontextmanager
async def looking(
    client: Client, scope: Scope, clock: RealClock, patience: timedelta
) -> AsyncIterator[ClusterView]:
    """Yield a view of everything in the scope that could be listed in time."""
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
    """Wait until everything is listed; raise a FailedError at the first problem or timeout."""
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
    """Return the tasks that have ended, as soon as one has; none after the timeout."""
    done, _ = await asyncio.wait(
        [seeing, failing], timeout=seconds, return_when=asyncio.FIRST_COMPLETED
    )
    return done


async def _find_problem(cluster: LiveCluster, clock: RealClock) -> Exception:
    """Wait for a problem of the views, and return the first one."""
    while not (problems := cluster.problems()):
        await clock.sleep(_POLL)
    return next(iter(problems.values()))


def say(text: str) -> None:
    """Write a line to standard error, for people who watch the screen."""
    sys.stderr.write(f"{columns.disarm(text)}\n")


_T = TypeVar("_T")


@types.flag_group("Cluster", order=9)
@dataclass(frozen=True, slots=True)
class ConnectionFlags:
    """Flags for the cluster, without a namespace."""

    kubeconfig: str = ""
    """The file that says where the cluster is, unless kubectl's does."""
    context: str = ""
    """The context in that file."""

    def everywhere(self) -> ViewFlags:
        """Return flags for the same cluster and all of its namespaces."""
        return ViewFlags(all_namespaces=True, kubeconfig=self.kubeconfig, context=self.context)


@dataclass(frozen=True, slots=True)
class ClusterSession:
    """A client of a cluster, and what belongs to the connection."""

    client: Client
    connection: Connection
    clock: RealClock
    namespace: str
    """Empty for all namespaces."""


def visit(flags: ViewFlags, ask: Callable[[ClusterSession], Awaitable[_T]]) -> _T:
    """Connect, and return the result of `ask`; a FailedError if the cluster refuses or fails."""
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
