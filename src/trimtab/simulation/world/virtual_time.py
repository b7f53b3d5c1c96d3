"""Virtual time: an event loop whose clock jumps to the next due timer.

Components use clocks, timers and timeouts as usual, but nothing waits. Two runs of the same work do
the same things in the same order. Even sets of tasks are ordered, because a task's hash is its
number and not its memory address.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final, TypeVar

_T = TypeVar("_T")

START: Final = datetime(2026, 1, 5, tzinfo=UTC)
"""Start of simulated time: 00:00 UTC on a Monday."""


class NothingDueError(RuntimeError):
    """All tasks wait and no timer is due."""


class _JumpingSelector(selectors.SelectSelector):
    """A selector that never waits, and adds up the timeouts instead."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # Nothing is due, ever: a real loop would wait for a file descriptor, and there are none.
        if timeout is None:
            raise NothingDueError
        # The loop asks to wait until the next timer; time jumps there instead.
        self.seconds += timeout
        return []


class _NumberedTask(asyncio.Task[_T]):
    """A task whose hash is the same in every run."""

    def __init__(
        self,
        work: Coroutine[object, object, _T],
        *,
        loop: asyncio.AbstractEventLoop,
        number: int,
        context: Context | None,
    ) -> None:
        # The constructor adds the task to a set of the loop, which needs the hash.
        self._number = number
        super().__init__(work, loop=loop, context=context)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        # asyncio assumes a nanosecond, which a float of seconds loses after half a year.
        self._clock_resolution = 1e-6
        self._numbers = count(1)
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        """Return the seconds since the loop was created."""
        return self._jumping.seconds

    def _make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Coroutine[object, object, _T] | Generator[object, None, _T],
        /,
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[_T]:
        # asyncio also allows generators, which no component uses.
        assert isinstance(work, Coroutine)
        task = _NumberedTask(work, loop=loop, number=next(self._numbers), context=context)
        if name is not None:
            task.set_name(name)
        return task


class VirtualClock:
    """The time of the running loop, as seen on a machine whose clock has a skew."""

    def __init__(self, skew: timedelta = timedelta()) -> None:
        self.skew = skew
        self._seconds = 0.0
        self._elapsed = timedelta()
        self._now: tuple[timedelta, timedelta, datetime] | None = None

    def now(self) -> datetime:
        """Return the present time in UTC."""
        elapsed, skew, now = self.elapsed(), self.skew, self._now
        # Cached: callers ask for the same moment many times.
        if now is None or now[0] is not elapsed or now[1] is not skew:
            self._now = now = elapsed, skew, START + elapsed + skew
        return now[2]

    def elapsed(self) -> timedelta:
        """Return the time since the start, on a monotonic clock."""
        # Cached: callers ask many times in a moment, and creating a timedelta is slow.
        seconds = asyncio.get_running_loop().time()
        if seconds != self._seconds:
            self._seconds, self._elapsed = seconds, timedelta(seconds=seconds)
        return self._elapsed

    async def sleep(self, span: timedelta) -> None:
        """Return when the span has passed."""
        await asyncio.sleep(span.total_seconds())


def run_virtually(work: Coroutine[object, object, _T]) -> _T:
    """Run the work in virtual time and return its result."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


class Timer:
    """A timer with at most one pending call."""

    def __init__(self) -> None:
        self._due: asyncio.TimerHandle | None = None

    def set(self, span: timedelta, act: Callable[[], None]) -> None:
        """Call `act` when the span has passed, and cancel the pending call."""
        self.cancel()
        self._due = asyncio.get_running_loop().call_later(span.total_seconds(), act)

    def cancel(self) -> None:
        """Cancel the pending call."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
