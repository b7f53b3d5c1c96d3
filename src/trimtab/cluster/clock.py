"""The real clock: the one place that reads the machine's time."""

import asyncio
import time
from datetime import UTC, datetime, timedelta


class RealClock:
    """The machine's time."""

    def now(self) -> datetime:
        """Return the present moment in UTC."""
        return datetime.now(UTC)

    def elapsed(self) -> timedelta:
        """Return the time since some fixed moment, on a clock that cannot be set."""
        return timedelta(seconds=time.monotonic())

    async def sleep(self, span: timedelta) -> None:
        """Return when the span has passed."""
        await asyncio.sleep(span.total_seconds())
