"""The line between one copy of a component and the cluster: where requests and watches go wrong.

Faults set what is wrong with a line; a line only does what is set. A dead line belongs to a copy
that has crashed: nothing that it still tries ever arrives.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import NoReturn

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


@dataclass(slots=True)
class Line:
    """How one copy of a component reaches the cluster."""

    actor: str
    random: Random
    latency: timedelta = timedelta(milliseconds=5)
    """How long the way takes, there and back."""
    watch_lag: timedelta = timedelta(milliseconds=20)
    """How long after a change the watches tell it."""
    watches_lost: bool = False
    """Whether no watch tells anything."""
    is_cut: bool = False
    """Whether nothing gets through at all."""
    troubles: list[Trouble] = field(default_factory=list)
    before_request: Callable[[str], None] | None = None
    """Told of every request before it has its effect, and may end the copy there and then."""
    after_request: Callable[[str], None] | None = None
    """Told of every request after it had its effect."""
    is_dead: bool = False

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
            for trouble in self.troubles
            if trouble.after_effect is after_effect and (not trouble.only or verb in trouble.only)
        ]
        return [trouble for trouble in possible if self.random.random() < trouble.share]


async def _never() -> NoReturn:
    await asyncio.get_running_loop().create_future()
    raise AssertionError
