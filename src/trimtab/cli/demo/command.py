"""`trimtab demo`: a first look in a minute, without a cluster.

The simulated cluster has only virtual time; the demo advances it at a pace that people can follow.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Annotated, Final, Protocol

import msgspec
from cyclopts import Parameter
from rich.console import Console

from trimtab.cli.demo.screen import open_console, open_view, show_end
from trimtab.cli.demo.text import summarize
from trimtab.cli.errors import UsageError
from trimtab.cli.flags.types import Number, Whole
from trimtab.cli.output import documents
from trimtab.cluster.clock import RealClock
from trimtab.simulation.demo.demo import Demo, open_demo
from trimtab.simulation.demo.picture import Picture

_FRAME_SECONDS: Final = 0.25
_LONGEST_STEP: Final = timedelta(minutes=10)
"""Longest simulated step, so that a slow machine still ends in time."""


class _Stopwatch(Protocol):
    def elapsed(self) -> timedelta:
        """The time since some fixed moment."""
        ...


class DemoPace:
    """Pace of a demo: virtual seconds per real second, for a number of real seconds."""

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
        """Return the real seconds since the start."""
        return (self._stopwatch.elapsed() - self._begun).total_seconds()

    def seconds_left(self) -> float:
        """Return the real seconds until the end."""
        return max(self._duration - self.elapsed_seconds(), 0.0)

    def describe(self) -> str:
        """Describe the real speed and the seconds until the end."""
        passed, elapsed = self._passed.total_seconds(), self.elapsed_seconds()
        reached = min(passed / elapsed, self._speed) if passed and elapsed else self._speed
        return f"{reached:.0f} times as fast as life, {self.seconds_left():.0f} s left"

    def steps(self) -> Iterator[timedelta]:
        """Yield the virtual time to advance next, whenever it is due.

        The steps add up to the duration times the speed; to less if the machine is too slow.
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


_MOST: Final = 1e9
"""Largest duration and speed; more would exceed the range of dates."""


def demo(
    *,
    duration: Number = 60.0,
    speed: Number = 1440.0,
    seed: Whole = 1,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Show what the components do, and end by itself.

    Args:
        duration: How many seconds it lasts.
        speed: How many simulated seconds pass in one; 1440 is a day in a minute.
        seed: What chance does. The same seed shows the same, unless the machine is too slow.
        json: Print a summary for programs at the end; all else goes to the standard error then.
    """
    for name, value in (("duration", duration), ("speed", speed)):
        if not 0 < value <= _MOST:
            raise UsageError(f"--{name} must be more than 0 and at most {_MOST:g}, not {value:g}")
    console = open_console(sys.stderr if json else sys.stdout)
    with open_demo(seed) as running:
        pace = DemoPace(duration, speed)
        last = _show(running, pace, console)
    show_end(console, last)
    if json:
        summary = summarize(last, seed=seed, real_seconds=pace.elapsed_seconds())
        sys.stdout.write(documents.format_json(msgspec.to_builtins(summary)))


def _show(running: Demo, pace: DemoPace, console: Console) -> Picture:
    """Show one picture after the other; return the last one."""
    picture = running.advance(timedelta())
    # Ctrl-C skips to the end, which is still shown.
    with suppress(KeyboardInterrupt), open_view(console) as show:
        show(picture, pace.describe())
        for step in pace.steps():
            picture = running.advance(step)
            show(picture, pace.describe())
    return picture
