"""Waiting for what a server on loopback is about to do."""

import asyncio
from collections.abc import Callable


async def until(holds: Callable[[], bool]) -> None:
    """Return as soon as it holds."""
    for _ in range(20_000):
        if holds():
            return
        await asyncio.sleep(0.001)
    raise TimeoutError
