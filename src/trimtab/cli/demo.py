"""`trimtab demo`: a first look in a minute, without a cluster.

The simulated cluster knows only virtual time; here it is let run at a pace that people can follow.
"""

import sys
from contextlib import suppress
from datetime import timedelta
from typing import Annotated, Final

import msgspec
from cyclopts import Parameter
from rich.console import Console

from trimtab.cli.demo_pace import Pace
from trimtab.cli.demo_view import open_console, open_view, show_end
from trimtab.cli.demo_words import summarize
from trimtab.cli.flag_types import Number, Whole
from trimtab.cli.usage import UsageError
from trimtab.simulation.demo import Demo, open_demo
from trimtab.simulation.demo_picture import Picture

_MOST: Final = 1e9
"""With more, simulated time would leave the calendar."""


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
        pace = Pace(duration, speed)
        last = _show(running, pace, console)
    show_end(console, last)
    if json:
        summary = summarize(last, seed=seed, real_seconds=pace.elapsed_seconds())
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(summary)).decode() + "\n")


def _show(running: Demo, pace: Pace, console: Console) -> Picture:
    """Show one picture after the other; the last one."""
    picture = running.advance(timedelta())
    # Whoever has seen enough still gets the end.
    with suppress(KeyboardInterrupt), open_view(console) as show:
        show(picture, pace.describe())
        for step in pace.steps():
            picture = running.advance(step)
            show(picture, pace.describe())
    return picture
