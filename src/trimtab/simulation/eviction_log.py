"""What kubelets tell of pods that they evicted for want of memory, for any number of readers."""

import asyncio
from collections.abc import AsyncIterator

from trimtab.api.evictions import MemoryEviction


class EvictionLog:
    """Evictions in the order in which they happened."""

    def __init__(self) -> None:
        self._told: list[MemoryEviction] = []
        self._grown = asyncio.Event()

    def __len__(self) -> int:
        return len(self._told)

    def append(self, eviction: MemoryEviction) -> None:
        """Tell of one more."""
        self._told.append(eviction)
        self._grown.set()
        # Whoever waits has been woken; the next one waits for the next eviction.
        self._grown = asyncio.Event()

    async def read(self) -> AsyncIterator[MemoryEviction]:
        """Each of them once: those that were told before, then as they come."""
        position = 0
        while True:
            while position == len(self._told):
                await self._grown.wait()
            yield self._told[position]
            position += 1
