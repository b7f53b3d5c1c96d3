"""A timer: one thing that is due later, until something else takes its place."""

import asyncio
from collections.abc import Callable
from datetime import timedelta


class Timer:
    """At most one thing that is due."""

    def __init__(self) -> None:
        self._due: asyncio.TimerHandle | None = None

    def set(self, span: timedelta, act: Callable[[], None]) -> None:
        """Do this when the span has passed, and nothing else that was due before."""
        self.cancel()
        self._due = asyncio.get_running_loop().call_later(span.total_seconds(), act)

    def cancel(self) -> None:
        """Let nothing be due."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
