"""Acting: many writes, a few at a time, of which none stops the others."""

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
    """Writes that are under way at once, until it is too late to begin another.

    Those that are final have no later turn: when it is late not even one more is begun, and what
    still hangs is given up, so that there is time to say how far they came.
    """

    def __init__(
        self, clock: Clock, count: int, *, until: datetime | None = None, is_final: bool = False
    ) -> None:
        self._clock = clock
        self._count = count
        self._until = until
        self._is_final = is_final

    def is_late(self) -> bool:
        """Whether the time is over."""
        return self._until is not None and self._clock.now() >= self._until

    async def write(
        self,
        step: Step,
        items: Iterable[tuple[str, ItemT]],
        act: Callable[[ItemT], Awaitable[None]],
    ) -> tuple[list[ItemT], list[Problem]]:
        """What was written, in no order, and what went wrong; items come with their names."""
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
        # At least one each, or a server that is slow once would keep us from writing for ever.
        for item in items:
            yield item
            if self.is_late():
                return

    def _seconds_left(self) -> float | None:
        if not self._is_final or self._until is None:
            return None
        return max(0.0, (self._until - self._clock.now()).total_seconds())
