"""The connection of one copy of a component to the cluster, where requests and watches fail.

Faults add disturbances to a connection, and the connection only applies them. A dead connection
belongs to a copy that has crashed: its requests never arrive.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import Final, NoReturn

from trimtab.cluster.errors import ClusterError, Right, UnreachableError
from trimtab.simulation.api_server import requests
from trimtab.simulation.api_server.requests import Act, Request

PATIENCE: Final = timedelta(seconds=30)
"""Time that a component waits for an answer before it gives up."""
_LOOK: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class ConnectionTrouble:
    """Failure of a share of the requests on a connection."""

    share: float
    """Share of the requests that fail, between 0 and 1."""
    refusal: Callable[[str], ClusterError]
    """Makes the error that a failed request raises."""
    only: frozenset[Act] = frozenset(Act)
    """The kinds of requests that may fail."""
    after_effect: bool = False
    """True if the request takes effect, and only the answer is lost."""


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Effect of a fault on a connection while the fault lasts; several may combine."""

    latency: timedelta = timedelta()
    """Minimum round-trip time."""
    watch_lag: timedelta = timedelta()
    """Minimum delay of watch events."""
    is_silent: bool = False
    """True if nothing gets through and no connection breaks."""
    is_cut: bool = False
    """True if all connections break and no new one can be opened."""
    stalled: frozenset[str] = frozenset()
    """Resources whose watches stay open and deliver nothing."""
    trouble: ConnectionTrouble | None = None


_USUAL: Final = Disturbance(timedelta(milliseconds=5), timedelta(milliseconds=20))


@dataclass(slots=True)
class SimulatedConnection:
    """The connection of one copy of a component to the cluster."""

    actor: str
    random: Random
    disturbances: list[Disturbance] = field(default_factory=list)
    """Effects of the active faults."""
    lacks: Right | None = None
    """A right that the component's role does not give it, in any namespace."""
    breaks: int = 0
    """Number of times that all of its connections broke; older watches must be reopened."""
    before_request: Callable[[Request], None] | None = None
    """Called with every request before it takes effect; may crash the copy."""
    after_request: Callable[[Request], None] | None = None
    """Called with every request after it took effect."""
    is_dead: bool = False
    usual: Disturbance = _USUAL
    """Latency and watch lag without a fault."""

    @property
    def latency(self) -> timedelta:
        """The present round-trip time."""
        # Fast path: no fault is active most of the time, and each request reads this twice.
        if not self.disturbances:
            return self.usual.latency
        return max(each.latency for each in (self.usual, *self.disturbances))

    @property
    def watch_lag(self) -> timedelta:
        """The present delay of watch events."""
        if not self.disturbances:
            return self.usual.watch_lag
        return max(each.watch_lag for each in (self.usual, *self.disturbances))

    @property
    def is_silent(self) -> bool:
        """True if nothing gets through now and no connection breaks."""
        # A plain loop: every view asks each second, and starting a generator is slow.
        for each in self.disturbances:  # noqa: SIM110
            if each.is_silent:
                return True
        return False

    @property
    def is_cut(self) -> bool:
        """True if all connections are broken now."""
        for each in self.disturbances:  # noqa: SIM110
            if each.is_cut:
                return True
        return False

    def is_stalled(self, resource: str) -> bool:
        """Return True if watches of the resource deliver nothing now."""
        for each in self.disturbances:  # noqa: SIM110
            if resource in each.stalled:
                return True
        return False

    async def send(self, request: Request) -> None:
        """Deliver a request to the cluster, or raise the error that stops it."""
        if self.before_request is not None:
            self.before_request(request)
        await self._travel(request)
        refusal = self.refusal(request)
        if refusal is not None:
            raise refusal

    async def receive(self, request: Request) -> None:
        """Deliver the answer, or raise the error that stops it."""
        if self.after_request is not None:
            self.after_request(request)
        await self._travel(request)
        for trouble in self._troubles(request, after_effect=True):
            raise trouble.refusal(str(request))

    def refusal(self, request: Request) -> ClusterError | None:
        """Return the error that a request would get now; None if it would take effect."""
        if self.is_cut:
            return UnreachableError(str(request), "no route to the server", was_sent=False)
        if self.lacks is not None and self.lacks == replace(request.right, namespace=""):
            return requests.lacks_right(str(request), request.right)
        for trouble in self._troubles(request, after_effect=False):
            return trouble.refusal(str(request))
        return None

    async def _travel(self, request: Request) -> None:
        await asyncio.sleep(self.latency.total_seconds() / 2)
        waited = timedelta()
        while self.is_silent and not self.is_dead:
            await asyncio.sleep(_LOOK.total_seconds())
            waited += _LOOK
            if waited >= PATIENCE:
                raise UnreachableError(str(request), "no answer in time")
        if self.is_dead:
            await _never()

    def _troubles(self, request: Request, *, after_effect: bool) -> list[ConnectionTrouble]:
        if not self.disturbances:
            return []
        possible = [
            each.trouble
            for each in self.disturbances
            if each.trouble is not None
            and each.trouble.after_effect is after_effect
            and request.act in each.trouble.only
        ]
        return [trouble for trouble in possible if self.random.random() < trouble.share]


async def _never() -> NoReturn:
    await asyncio.get_running_loop().create_future()
    raise AssertionError
