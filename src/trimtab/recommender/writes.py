"""Concurrent writes: a few at a time, and no failed write stops the others."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

from trimtab.cluster.errors import ClusterError
from trimtab.cluster.ports import Clock
from trimtab.recommender.reports import Problem, Step

ItemT = TypeVar("ItemT")


class Writers:
    """A limited number of concurrent writes, until a deadline.

    Final writes have no later turn. After the deadline no further one is begun, and pending ones
    are cancelled, so that there is time to report the progress.
    """

    def __init__(
        self, clock: Clock, count: int, *, until: datetime | None = None, is_final: bool = False
    ) -> None:
        self._clock = clock
        self._count = count
        self._until = until
        self._is_final = is_final

    def is_late(self) -> bool:
        """True if the deadline has passed."""
        return self._until is not None and self._clock.now() >= self._until

    async def write(
        self,
        step: Step,
        items: Iterable[tuple[str, ItemT]],
        act: Callable[[ItemT], Awaitable[None]],
    ) -> tuple[list[ItemT], list[Problem]]:
        """Call `act` for each named item; return the written items, unordered, and the problems."""
        written: list[ItemT] = []
        problems: list[Problem] = []
        given = list(items)
        waiting = iter(given)

        async def work() -> None:
            for name, item in self._before_it_is_late(waiting):
                try:
                    await act(item)
                except ClusterError as error:
                    problems.append(Problem(step, name, error))
                else:
                    written.append(item)

        with suppress(TimeoutError):
            async with asyncio.timeout(self._seconds_left()), asyncio.TaskGroup() as group:
                for _ in range(min(self._count, len(given))):
                    group.create_task(work())
        return written, problems

    def _before_it_is_late(self, items: Iterator[tuple[str, ItemT]]) -> Iterator[tuple[str, ItemT]]:
        if self._is_final and self.is_late():
            return
        # At least one write each, or one slow response could block all writes for ever.
        for item in items:
            yield item
            if self.is_late():
                return

    def _seconds_left(self) -> float | None:
        if not self._is_final or self._until is None:
            return None
        return max(0.0, (self._until - self._clock.now()).total_seconds())
