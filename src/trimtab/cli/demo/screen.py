"""Display of the demo: live in a terminal, else as a log, and a last picture at the end."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from io import TextIOWrapper
from typing import Final, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from trimtab.cli.demo.text import UNIT_NAMES, format_moment, format_news, format_number
from trimtab.core.model.resources import BOTH, Resource
from trimtab.simulation.demo.news import DemoEvent, DemoEventKind, gather
from trimtab.simulation.demo.picture import DemoRow, Gauge, Picture

WIDTH: Final = 80
"""Columns of the display, and of a log without a terminal."""
INTRODUCTION: Final = """\
The real components on a simulated cluster: they learn what each pod uses, and
make it request just that. What a pod requests is set aside for it on its node."""
_BAR_WIDTH: Final = 22
_USED, _SPARE, _SAVED = "█", "░", "·"
_STYLES: Final = {
    DemoEventKind.KILLED: "bold red",
    DemoEventKind.EVICTED: "yellow",
    DemoEventKind.RESIZED: "green",
    DemoEventKind.SIZED: "green",
    DemoEventKind.BOOSTED: "magenta",
    DemoEventKind.UNBOOSTED: "magenta",
}


SCREEN_LINES: Final = 20
"""Lines of a screen without any news."""


def draw_screen(picture: Picture, news: Sequence[DemoEvent], *, pace: str) -> RenderableType:
    """Draw the whole screen."""
    return Group(
        Text(f"Trimtab demo   {format_moment(picture.now)}   {pace}", style="bold"),
        Text(INTRODUCTION),
        draw_table(picture),
        draw_totals(picture),
        Text("What happened", style="bold"),
        *(draw_news(each) for each in news),
    )


def draw_table(picture: Picture) -> Table:
    """Draw the table of what each workload uses, requests, and should request."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("For each pod", width=18, no_wrap=True)
    table.add_column(f"{_USED} used {_SPARE} spare {_SAVED} saved", width=_BAR_WIDTH, no_wrap=True)
    for heading, width in (("", 5), ("uses", 5), ("requests", 8), ("should", 6)):
        table.add_column(heading, width=width, justify="right", no_wrap=True)
    table.add_column("(between)", width=10, no_wrap=True)
    for row in picture.rows:
        for name, resource in zip(_names(row), BOTH, strict=True):
            table.add_row(name, *_cells(row.gauges[resource], resource))
    return table


def draw_totals(picture: Picture) -> Text:
    """Draw the sums of all pods: requests, savings, and actions."""
    return Text("\n".join((_requested(picture), _saved(picture), _done(picture))))


def draw_news(news: DemoEvent) -> Text:
    """Draw one line for one event."""
    style = _STYLES.get(news.kind, "")
    return Text(format_news(news), style=style, no_wrap=True, overflow="ellipsis")


def _names(row: DemoRow) -> tuple[Text, Text]:
    name = Text(f"{row.title} x{row.pods}", style="bold")
    return name, Text("boosted to start" if row.is_boosted else row.habit)


def _cells(gauge: Gauge, resource: Resource) -> Sequence[Text | str]:
    low, high = (format_number(resource, bound) for bound in (gauge.lower_bound, gauge.upper_bound))
    return (
        _bar(gauge),
        UNIT_NAMES[resource],
        format_number(resource, gauge.used),
        format_number(resource, gauge.requested),
        format_number(resource, gauge.target),
        "" if gauge.target is None else f"{low}-{high}",
    )


def _bar(gauge: Gauge) -> Text:
    used, requested, asked = gauge.used or 0, gauge.requested or 0, gauge.asked or 0
    whole = max(used, requested, asked, 1)
    used_until, requested_until, end = (
        round(_BAR_WIDTH * amount / whole)
        for amount in (used, max(used, requested), max(used, requested, asked))
    )
    bar = Text(_USED * used_until, style="cyan")
    bar.append(_SPARE * (requested_until - used_until), style="cyan")
    return bar.append(_SAVED * (end - requested_until), style="green")


def _requested(picture: Picture) -> str:
    parts = (
        f"{format_number(each, picture.requested[each])} of "
        f"{format_number(each, picture.asked[each])} {UNIT_NAMES[each]}"
        for each in BOTH
    )
    return f"Requested: {' and '.join(parts)} that the owners asked for."


def _saved(picture: Picture) -> str:
    now = {each: picture.asked[each] - picture.requested[each] for each in BOTH}
    cores, memory = (format_number(each, now[each]) for each in BOTH)
    core_hours, memory_hours = (format_number(each, picture.saved_hours[each]) for each in BOTH)
    return (
        f"Saved: {cores} cores, {memory} GiB now; "
        f"{core_hours} core-hours, {memory_hours} GiB-hours so far."
    )


def _done(picture: Picture) -> str:
    counts = picture.counts
    return (
        f"Resizes {counts[DemoEventKind.RESIZED]}, evictions {counts[DemoEventKind.EVICTED]}, "
        f"new pods sized {counts[DemoEventKind.SIZED]}, boosts {counts[DemoEventKind.BOOSTED]}, "
        f"OOM kills {counts[DemoEventKind.KILLED]}."
    )


_MOST_NEWS: Final = 50
_BETWEEN_NEWS: Final = timedelta(minutes=30)
"""Time in which the log gathers news, so that repeated events share a line."""
_BETWEEN_TABLES: Final = timedelta(hours=6)

Show = Callable[[Picture, str], None]
"""Shows the next picture, with a description of the pace."""


def open_console(output: TextIO) -> Console:
    """Open the console of the demo; without a terminal it has a fixed width."""
    if isinstance(output, TextIOWrapper):
        # Where the encoding lacks block characters, the bars are question marks.
        output.reconfigure(errors="replace")
    return Console(file=output, highlight=False, width=None if output.isatty() else WIDTH)


@contextmanager
def open_view(console: Console) -> Iterator[Show]:
    """Yield a function that shows one picture after the other."""
    if not console.is_interactive:
        console.print(INTRODUCTION)
        log = _Log(console)
        try:
            yield log.show
        finally:
            log.flush()
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        yield _Screen(live).show


def show_end(console: Console, picture: Picture) -> None:
    """Print the last picture, which stays on the screen."""
    console.print(f"{format_moment(picture.now)}, the end:", style="bold")
    console.print(draw_table(picture))
    console.print(draw_totals(picture))


class _Screen:
    """One screen, drawn again for each picture."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._news: tuple[DemoEvent, ...] = ()

    def show(self, picture: Picture, pace: str) -> None:
        """Draw the picture with the latest news."""
        room = max(self._live.console.height - SCREEN_LINES, 1)
        self._news = tuple(gather((*self._news, *picture.news))[-_MOST_NEWS:])
        self._live.update(draw_screen(picture, self._news[-room:], pace=pace), refresh=True)


class _Log:
    """Prints a line for each event, and the table every few hours of virtual time."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._news: tuple[DemoEvent, ...] = ()
        self._next_news = timedelta()
        self._next_table = _BETWEEN_TABLES

    def show(self, picture: Picture, pace: str) -> None:
        """Print news, and the table, when they are due."""
        del pace
        self._news += picture.news
        if picture.elapsed >= self._next_news:
            self._next_news = picture.elapsed + _BETWEEN_NEWS
            self.flush()
        if picture.elapsed >= self._next_table:
            self._next_table += _BETWEEN_TABLES
            self.flush()
            self._console.print(draw_table(picture))
            self._console.print(draw_totals(picture))

    def flush(self) -> None:
        """Print the news that were gathered so far."""
        for news in gather(self._news):
            self._console.print(draw_news(news))
        self._news = ()
