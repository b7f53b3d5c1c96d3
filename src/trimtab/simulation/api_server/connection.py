"""The line between one copy of a component and the cluster: where requests and watches go wrong.

Faults set what is wrong with a line; a line only does what is set. A dead line belongs to a copy
that has crashed: nothing that it still tries ever arrives.
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
"""How long a component waits for an answer before it gives up."""
_LOOK: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class ConnectionTrouble:
    """What is wrong with the requests on a line."""

    share: float
    """How many of them it hits."""
    refusal: Callable[[str], ClusterError]
    """What a request that is hit gets for an answer."""
    only: frozenset[Act] = frozenset(Act)
    """The kinds of requests that may be hit."""
    after_effect: bool = False
    """Whether the request had its effect, and only the answer is lost."""


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What a fault does to a line for as long as it lasts; several may come together."""

    latency: timedelta = timedelta()
    """How long the way takes at least, there and back."""
    watch_lag: timedelta = timedelta()
    """How long after a change the watches tell it, at least."""
    is_silent: bool = False
    """Whether nothing gets through, and nothing breaks."""
    is_cut: bool = False
    """Whether everything breaks, and nothing new can be made."""
    trouble: ConnectionTrouble | None = None


_USUAL: Final = Disturbance(timedelta(milliseconds=5), timedelta(milliseconds=20))


@dataclass(slots=True)
class SimulatedConnection:
    """How one copy of a component reaches the cluster."""

    actor: str
    random: Random
    disturbances: list[Disturbance] = field(default_factory=list)
    """What faults do to it now."""
    lacks: Right | None = None
    """A right that the component's role does not give it, in any namespace."""
    breaks: int = 0
    """How often all of its connections were broken; a watch that is older has to be made anew."""
    before_request: Callable[[Request], None] | None = None
    """Told of every request before it has its effect, and may end the copy there and then."""
    after_request: Callable[[Request], None] | None = None
    """Told of every request after it had its effect."""
    is_dead: bool = False

    @property
    def latency(self) -> timedelta:
        """How long the way takes now, there and back."""
        # Mostly nothing is wrong, and this is asked twice for each request.
        if not self.disturbances:
            return _USUAL.latency
        return max(each.latency for each in (_USUAL, *self.disturbances))

    @property
    def watch_lag(self) -> timedelta:
        """How long after a change the watches tell it now."""
        if not self.disturbances:
            return _USUAL.watch_lag
        return max(each.watch_lag for each in (_USUAL, *self.disturbances))

    @property
    def is_silent(self) -> bool:
        """Whether nothing gets through now, and nothing breaks."""
        # A loop: asked each second by every view, and a generator is slow to begin.
        for each in self.disturbances:  # noqa: SIM110
            if each.is_silent:
                return True
        return False

    @property
    def is_cut(self) -> bool:
        """Whether nothing can get through now."""
        for each in self.disturbances:  # noqa: SIM110
            if each.is_cut:
                return True
        return False

    async def send(self, request: Request) -> None:
        """Bring a request to the cluster, or raise what keeps it from getting there."""
        if self.before_request is not None:
            self.before_request(request)
        await self._travel(request)
        refusal = self.refusal(request)
        if refusal is not None:
            raise refusal

    async def receive(self, request: Request) -> None:
        """Bring the answer back, or raise what keeps it from getting here."""
        if self.after_request is not None:
            self.after_request(request)
        await self._travel(request)
        for trouble in self._troubles(request, after_effect=True):
            raise trouble.refusal(str(request))

    def refusal(self, request: Request) -> ClusterError | None:
        """What a request that is made now gets instead of an effect; None if it has one."""
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
