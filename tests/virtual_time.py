"""An event loop whose time jumps to the next thing that is due, and clocks that go with it."""

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any, TypeVar

from makers import NOW

_T = TypeVar("_T")


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "everything waits for something that never comes"
            self.seconds += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.seconds


def run_virtually(work: Coroutine[Any, Any, _T]) -> _T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


class LoopClock:
    """The time of the loop that runs, and a wall clock that may be set."""

    def __init__(self) -> None:
        self.skew = timedelta()

    def now(self) -> datetime:
        return NOW + self.elapsed() + self.skew

    def elapsed(self) -> timedelta:
        return timedelta(seconds=asyncio.get_running_loop().time())

    async def sleep(self, span: timedelta) -> None:
        await asyncio.sleep(span.total_seconds())


class StillClock:
    """A clock that only goes when it is told to."""

    def __init__(self) -> None:
        self.moment = NOW

    def now(self) -> datetime:
        return self.moment

    async def sleep(self, span: timedelta) -> None:
        self.moment += span
        await asyncio.sleep(0)
