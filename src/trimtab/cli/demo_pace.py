"""Pace: how much virtual time passes, and how much real time in between."""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Final, Protocol

from trimtab.cluster.clock import RealClock

_FRAME_SECONDS: Final = 0.25
_LONGEST_STEP: Final = timedelta(minutes=10)
"""No more is simulated at a time, so that a slow machine still ends in time."""


class _Stopwatch(Protocol):
    def elapsed(self) -> timedelta:
        """The time since some fixed moment."""
        ...


class Pace:
    """So many virtual seconds in a real one, for so many real seconds, from now on."""

    def __init__(
        self,
        duration_seconds: float,
        speed: float,
        *,
        stopwatch: _Stopwatch | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._speed = speed
        self._duration = duration_seconds
        self._stopwatch = stopwatch or RealClock()
        self._wait = wait
        self._begun = self._stopwatch.elapsed()
        self._passed = timedelta()

    def elapsed_seconds(self) -> float:
        """How long it has lasted."""
        return (self._stopwatch.elapsed() - self._begun).total_seconds()

    def seconds_left(self) -> float:
        """How long it still lasts."""
        return max(self._duration - self.elapsed_seconds(), 0.0)

    def describe(self) -> str:
        """How fast it really goes, and how long it still lasts."""
        passed, elapsed = self._passed.total_seconds(), self.elapsed_seconds()
        reached = min(passed / elapsed, self._speed) if passed and elapsed else self._speed
        return f"{reached:.0f} times as fast as life, {self.seconds_left():.0f} s left"

    def steps(self) -> Iterator[timedelta]:
        """The virtual time to pass next, whenever it is due.

        Together these are the duration times the speed; less if the machine is too slow for that.
        """
        whole = timedelta(seconds=self._duration * self._speed)
        longest = min(timedelta(seconds=_FRAME_SECONDS * self._speed), _LONGEST_STEP)
        while self._passed < whole and self.seconds_left() > 0:
            step = min(longest, whole - self._passed)
            yield step
            self._passed += step
            ahead = self._passed.total_seconds() / self._speed - self.elapsed_seconds()
            if ahead > 0:
                self._wait(ahead)
