"""The real clock: the one place that asks the machine for the time."""

import asyncio
import time
from datetime import UTC, datetime, timedelta


class RealClock:
    """The time as the machine has it."""

    def now(self) -> datetime:
        """The present moment in UTC."""
        return datetime.now(UTC)

    def elapsed(self) -> timedelta:
        """The time since some fixed moment, on a clock that nobody can set."""
        return timedelta(seconds=time.monotonic())

    async def sleep(self, span: timedelta) -> None:
        """Return when the span has passed."""
        await asyncio.sleep(span.total_seconds())
