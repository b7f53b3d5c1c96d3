"""Processes: copies of components that start, crash at any request, and restart."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from trimtab.cluster.ports import UsageSource
from trimtab.simulation.api_server.connection import SimulatedConnection
from trimtab.simulation.api_server.port import SimulatedCluster
from trimtab.simulation.api_server.writes import Serving
from trimtab.simulation.world.facts import ProcessCrashed, ProcessStarted
from trimtab.simulation.world.virtual_time import VirtualClock
from trimtab.simulation.world.world import World


@dataclass(frozen=True, slots=True)
class ProcessSurroundings:
    """The dependencies of a copy of a component."""

    cluster: SimulatedCluster
    usage: UsageSource
    clock: VirtualClock
    line: SimulatedConnection


Component = Callable[[ProcessSurroundings], Coroutine[object, object, None]]
"""Runs one copy of a component until it is cancelled."""


class Process:
    """One copy of a component."""

    def __init__(
        self,
        name: str,
        component: Component,
        *,
        world: World,
        serving: Serving,
        usage: Callable[[SimulatedConnection], UsageSource],
    ) -> None:
        self.name = name
        self.clock = VirtualClock()
        """The clock of its machine, which may be off by some skew."""
        self.component = component
        self._world = world
        self._serving = serving
        self._usage = usage
        self._random = Random(world.random.getrandbits(64))
        self._task: asyncio.Task[None] | None = None
        self._dying = set[asyncio.Task[None]]()
        self.line = SimulatedConnection(name, self._random)

    @property
    def is_running(self) -> bool:
        """True if it runs now; a crashed process does not, even while its task is ending."""
        return self._task is not None and not self._task.done() and not self.line.is_dead

    def start(self) -> None:
        """Start with empty state, on a new connection that keeps the active faults."""
        assert not self.is_running
        self.line = SimulatedConnection(
            self.name, self._random, self.line.disturbances, lacks=self.line.lacks
        )
        cluster = SimulatedCluster(self._world, self._serving, self.line, clock=self.clock)
        surroundings = ProcessSurroundings(cluster, self._usage(self.line), self.clock, self.line)
        self._world.record(ProcessStarted(self._world.now(), self.name))
        self._task = asyncio.create_task(self.component(surroundings))

    def crash(self, during: str = "") -> None:
        """Crash at once: from now on nothing that it does has any effect."""
        if self._task is None or not self.is_running:
            return
        self.line.is_dead = True
        self._task.cancel()
        # The task may take a while to end; until then a reference keeps it alive.
        self._dying.add(self._task)
        self._task.add_done_callback(self._bury)
        self._world.record(ProcessCrashed(self._world.now(), self.name, during))

    def _bury(self, task: asyncio.Task[None]) -> None:
        self._dying.discard(task)
        if not task.cancelled():
            # Errors after a crash do not matter, but asyncio logs those that are not retrieved.
            task.exception()

    async def stop(self) -> None:
        """Stop it as SIGTERM does: it may still send requests while it ends."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self.line.is_dead = True

    def failure(self) -> BaseException | None:
        """Return the error that ended the process; None unless it ended by itself."""
        if self._task is None or not self._task.done() or self._task.cancelled():
            return None
        return None if self.line.is_dead else self._task.exception()
