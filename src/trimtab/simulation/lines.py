"""The line between one copy of a component and the cluster: where requests and watches go wrong.

Faults set what is wrong with a line; a line only does what is set. A dead line belongs to a copy
that has crashed: nothing that it still tries ever arrives.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Final, NoReturn

from trimtab.cluster.errors import ClusterError, UnreachableError


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with the requests on a line."""

    share: float
    """How many of them it hits."""
    refusal: Callable[[str], ClusterError]
    """What a request that is hit gets for an answer."""
    only: frozenset[str] = frozenset()
    """The kinds of requests that may be hit (`evict`); all if there are none."""
    after_effect: bool = False
    """Whether the request had its effect, and only the answer is lost."""


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What a fault does to a line for as long as it lasts; several may come together."""

    latency: timedelta = timedelta()
    """How long the way takes at least, there and back."""
    watch_lag: timedelta = timedelta()
    """How long after a change the watches tell it, at least."""
    watches_lost: bool = False
    """Whether no watch tells anything."""
    is_cut: bool = False
    """Whether nothing gets through at all."""
    trouble: Trouble | None = None


_USUAL: Final = Disturbance(timedelta(milliseconds=5), timedelta(milliseconds=20))


@dataclass(slots=True)
class Line:
    """How one copy of a component reaches the cluster."""

    actor: str
    random: Random
    disturbances: list[Disturbance] = field(default_factory=list)
    """What faults do to it now."""
    before_request: Callable[[str], None] | None = None
    """Told of every request before it has its effect, and may end the copy there and then."""
    after_request: Callable[[str], None] | None = None
    """Told of every request after it had its effect."""
    is_dead: bool = False

    @property
    def latency(self) -> timedelta:
        """How long the way takes now, there and back."""
        return max(each.latency for each in (_USUAL, *self.disturbances))

    @property
    def watch_lag(self) -> timedelta:
        """How long after a change the watches tell it now."""
        return max(each.watch_lag for each in (_USUAL, *self.disturbances))

    @property
    def watches_lost(self) -> bool:
        """Whether no watch tells anything now."""
        return self.is_cut or any(each.watches_lost for each in self.disturbances)

    @property
    def is_cut(self) -> bool:
        """Whether nothing gets through at all now."""
        return any(each.is_cut for each in self.disturbances)

    async def send(self, request: str) -> None:
        """Bring a request to the cluster, or raise what keeps it from getting there."""
        if self.before_request is not None:
            self.before_request(request)
        await self._travel(request)
        for trouble in self._troubles(request, after_effect=False):
            raise trouble.refusal(request)

    async def receive(self, request: str) -> None:
        """Bring the answer back, or raise what keeps it from getting here."""
        if self.after_request is not None:
            self.after_request(request)
        await self._travel(request)
        for trouble in self._troubles(request, after_effect=True):
            raise trouble.refusal(request)

    async def _travel(self, request: str) -> None:
        await asyncio.sleep(self.latency.total_seconds() / 2)
        if self.is_dead:
            await _never()
        if self.is_cut:
            raise UnreachableError(request, "no route to the server")

    def _troubles(self, request: str, *, after_effect: bool) -> list[Trouble]:
        verb = request.split(" ", 1)[0]
        possible = [
            trouble
            for trouble in (each.trouble for each in self.disturbances)
            if trouble is not None
            and trouble.after_effect is after_effect
            and (not trouble.only or verb in trouble.only)
        ]
        return [trouble for trouble in possible if self.random.random() < trouble.share]


async def _never() -> NoReturn:
    await asyncio.get_running_loop().create_future()
    raise AssertionError
