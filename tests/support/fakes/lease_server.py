"""A model of a server with one lease, ways to it that stall, and those who want it."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from support.fakes.clocks import LoopClock

from trimtab.api.kinds.leases import Lease
from trimtab.api.wire.status_errors import Status
from trimtab.cluster.errors import ConflictError, UnreachableError
from trimtab.cluster.live.leader_election import ElectionSettings, Elector

LEASE = ("kube-system", "vpa-updater")


@dataclass(frozen=True)
class Stall:
    """How one request fares: when it reaches the server, when the answer is back, if at all."""

    before: float = 0.01
    after: float = 0.01
    is_lost: bool = False


class LeaseServer:
    """One lease."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.writes: list[Lease] = []
        self.looks = 0
        """How often the lease was looked at."""
        self.error: Exception | None = None

    def read(self) -> Lease | None:
        if self.error:
            raise self.error
        return self.lease

    def write(self, lease: Lease) -> Lease:
        present = self.read()
        if lease.resource_version != (present.resource_version if present else ""):
            raise ConflictError("PUT lease", Status(code=409))
        self.lease = replace(lease, resource_version=str(len(self.writes) + 1))
        self.writes.append(self.lease)
        return self.lease


class Link:
    """The way to the server: it may take its time, lose answers, or hang."""

    def __init__(self, server: LeaseServer, stalls: Iterable[Stall] = ()) -> None:
        self._server = server
        self.stalls = list(stalls)
        self.hangs_until = 0.0
        self._under_way: set[asyncio.Task[Lease]] = set()

    async def fetch_lease(self, namespace: str, name: str) -> Lease | None:
        assert (namespace, name) == LEASE
        stall = self._next_stall()
        await self._travel(stall)
        lease = self._server.read()
        self._server.looks += 1
        await self._answer(stall)
        return lease

    async def write_lease(self, lease: Lease) -> Lease:
        stall = self._next_stall()
        # Once sent, a request is out of our hands: it arrives even if nobody waits any more.
        arrival = asyncio.create_task(self._arrive(lease, stall))
        self._under_way.add(arrival)
        arrival.add_done_callback(_ignore)
        written = await asyncio.shield(arrival)
        await self._answer(stall)
        return written

    async def _arrive(self, lease: Lease, stall: Stall) -> Lease:
        await self._travel(stall)
        return self._server.write(lease)

    async def _travel(self, stall: Stall) -> None:
        hanging = self.hangs_until - asyncio.get_running_loop().time()
        await asyncio.sleep(max(stall.before, hanging))

    async def _answer(self, stall: Stall) -> None:
        await asyncio.sleep(stall.after)
        if stall.is_lost:
            raise UnreachableError("PUT lease", "connection reset")

    def _next_stall(self) -> Stall:
        return self.stalls.pop(0) if self.stalls else Stall()


def _ignore(task: asyncio.Task[Lease]) -> None:
    if not task.cancelled():
        task.exception()


class Candidate:
    """A process that takes part in the election, and notes when it acts."""

    def __init__(self, server: LeaseServer, identity: str, stalls: Iterable[Stall] = ()) -> None:
        self.clock = LoopClock()
        self.link = Link(server, stalls)
        self.is_acting = False
        self.reigns = 0
        self.elector = Elector(
            self.link,
            ElectionSettings(*LEASE, identity),
            clock=self.clock,
            elapsed=self.clock.elapsed,
        )
        self.running: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self.running is None:
            self.running = asyncio.create_task(self.elector.run(self._act))

    async def stop(self) -> None:
        running, self.running = self.running, None
        if running is not None:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    async def _act(self) -> None:
        self.is_acting = True
        self.reigns += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.is_acting = False


async def wait_for(condition: Callable[[], bool], limit: float = 60) -> float:
    """How many seconds it took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not condition():
        assert loop.time() - began < limit
        await asyncio.sleep(0.05)
    return loop.time() - began
