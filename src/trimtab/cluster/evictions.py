"""Evictions for want of memory, out of the store of the events that tell of them.

A store holds each event once, however often the watch that feeds it is lost, so here each eviction
is told once; what the server forgets (after an hour, by default) before it is listed is lost.
"""

from collections import deque
from collections.abc import AsyncIterator

from trimtab.api.evictions import MemoryEviction
from trimtab.cluster.store import Reader


class MemoryEvictions(AsyncIterator[MemoryEviction]):
    """What the store holds, then what comes; it follows the store from when it is made."""

    def __init__(self, events: Reader[tuple[MemoryEviction, ...]]) -> None:
        self._changes = events.changes()
        self._waiting = deque(eviction for told in events for eviction in told)

    async def __anext__(self) -> MemoryEviction:
        while not self._waiting:
            self._waiting.extend(await anext(self._changes))
        return self._waiting.popleft()
