"""Clocks for tests: one that goes with the virtual loop, and one that goes when it is told to."""

import asyncio
from datetime import datetime, timedelta

from support.makers.records import NOW

from trimtab.simulation.world.virtual_time import VirtualClock, run_virtually

__all__ = ["LoopClock", "StillClock", "run_virtually"]


class LoopClock(VirtualClock):
    """The time of the loop that runs, and a wall clock that may be set."""

    def now(self) -> datetime:
        return NOW + self.elapsed() + self.skew


class StillClock(VirtualClock):
    """A clock that only goes when a test or a sleeper moves it."""

    def __init__(self) -> None:
        super().__init__()
        self.moment = NOW

    def now(self) -> datetime:
        return self.moment

    async def sleep(self, span: timedelta) -> None:
        self.moment += span
        await asyncio.sleep(0)
