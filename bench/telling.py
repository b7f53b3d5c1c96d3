"""Long measurements say how far they are: ten silent minutes look like a hang."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from rig.progress import format_span

_EVERY_SECONDS: Final = 10.0


def say(text: str) -> None:
    """Tell whoever waits."""
    sys.stderr.write(f"bench: {text}\n")
    sys.stderr.flush()


@asynccontextmanager
async def telling(describe: Callable[[], str]) -> AsyncIterator[None]:
    """Say now and then how far it is, for as long as the block lasts."""
    began = time.monotonic()

    async def tell() -> None:
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            say(f"  {describe()}, after {format_span(time.monotonic() - began)}")

    task = asyncio.create_task(tell())
    try:
        yield
    finally:
        task.cancel()
