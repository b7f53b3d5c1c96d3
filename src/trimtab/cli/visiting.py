"""A visit to a cluster: connect, ask a few things, and leave."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from trimtab.cli import logs
from trimtab.cli.flag_groups import flag_group
from trimtab.cli.flags import LogFlags
from trimtab.cli.joining import find_way
from trimtab.cli.viewing import ViewFlags, joined, namespace_of
from trimtab.cluster.client import Client
from trimtab.cluster.clock import RealClock
from trimtab.cluster.credentials import Connection
from trimtab.core.records import dataclass

_T = TypeVar("_T")


@flag_group("Cluster", order=9)
@dataclass(frozen=True, slots=True)
class WayFlags:
    """Which cluster is visited, wherever in it."""

    kubeconfig: str = ""
    """The file that says where the cluster is, unless kubectl's does."""
    context: str = ""
    """The context in that file."""

    def everywhere(self) -> ViewFlags:
        """The same cluster, in all of its namespaces."""
        return ViewFlags(all_namespaces=True, kubeconfig=self.kubeconfig, context=self.context)


@dataclass(frozen=True, slots=True)
class Visit:
    """What is at hand while it lasts."""

    client: Client
    connection: Connection
    clock: RealClock
    namespace: str
    """Empty for all namespaces."""


def visit(flags: ViewFlags, ask: Callable[[Visit], Awaitable[_T]]) -> _T:
    """What is answered there; a FailedError if the cluster does not do what is asked."""
    logs.set_up(LogFlags(v=0))
    clock = RealClock()
    connection = find_way(flags.kubeconfig, clock, os.environ, flags.context)

    async def run() -> _T:
        async with joined(connection, clock) as client:
            return await ask(Visit(client, connection, clock, namespace_of(flags, connection)))

    return asyncio.run(run())
