"""How a test of the contract is played in each world, and how it waits there."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import wraps
from typing import Concatenate, ParamSpec, TypeAlias

from contract.world import World

P = ParamSpec("P")

Scenario: TypeAlias = Callable[[World], Coroutine[None, None, None]]
Play: TypeAlias = Callable[[Scenario], None]
"""Opens a world, runs the scenario on that world's own event loop, and leaves nothing behind."""

PATIENCE = timedelta(minutes=2)
_POLL = timedelta(milliseconds=50)


def in_every_world(
    body: Callable[Concatenate[World, P], Coroutine[None, None, None]],
) -> Callable[..., None]:
    """The test as pytest runs it: once in each world, which it gets as its first argument."""

    @wraps(body)
    def test(play: Play, *args: P.args, **kwargs: P.kwargs) -> None:
        play(lambda world: body(world, *args, **kwargs))

    first, *others = inspect.signature(body).parameters.values()
    test.__signature__ = inspect.Signature([first.replace(name="play"), *others])  # type: ignore[attr-defined]
    return test


@asynccontextmanager
async def meanwhile(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Let the work go on while the block lasts; what it fails with, the block fails with."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def eventually(
    world: World,
    holds: Callable[[], object | Awaitable[object]],
    *,
    within: timedelta = PATIENCE,
) -> None:
    """Return once it holds; fail if it does not for too long."""
    ends_at = world.elapsed() + within
    while True:
        found = holds()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return
        assert world.elapsed() < ends_at, f"still not so after {within}"
        await world.clock.sleep(_POLL)
