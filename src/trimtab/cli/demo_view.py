"""How the demo is shown while it runs: live in a terminal, else as a log; and how it ends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from io import TextIOWrapper
from typing import Final, TextIO

from rich.console import Console
from rich.live import Live

from trimtab.cli.demo_screen import (
    INTRODUCTION,
    SCREEN_LINES,
    WIDTH,
    draw_news,
    draw_screen,
    draw_table,
    draw_totals,
)
from trimtab.cli.demo_words import format_moment
from trimtab.simulation.demo_news import News, gather
from trimtab.simulation.demo_picture import Picture

_MOST_NEWS: Final = 50
_BETWEEN_NEWS: Final = timedelta(minutes=30)
"""For so long news are gathered: what happens again and again is one line then."""
_BETWEEN_TABLES: Final = timedelta(hours=6)

Show = Callable[[Picture, str], None]
"""Shows the next picture, with what there is to say of the pace."""


def open_console(output: TextIO) -> Console:
    """Where everything is shown; where there is no terminal, with a width of its own."""
    if isinstance(output, TextIOWrapper):
        # Better a bar of question marks than none.
        output.reconfigure(errors="replace")
    return Console(file=output, highlight=False, width=None if output.isatty() else WIDTH)


@contextmanager
def open_view(console: Console) -> Iterator[Show]:
    """What shows one picture after the other for as long as the block lasts."""
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
    """The last picture, which stays."""
    console.print(f"{format_moment(picture.now)}, the end:", style="bold")
    console.print(draw_table(picture))
    console.print(draw_totals(picture))


class _Screen:
    """One screen, drawn anew for each picture."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._news: tuple[News, ...] = ()

    def show(self, picture: Picture, pace: str) -> None:
        """Draw it."""
        room = max(self._live.console.height - SCREEN_LINES, 1)
        self._news = tuple(gather((*self._news, *picture.news))[-_MOST_NEWS:])
        self._live.update(draw_screen(picture, self._news[-room:], pace=pace), refresh=True)


class _Log:
    """A line for everything that happens, and the table now and then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._news: tuple[News, ...] = ()
        self._next_news = timedelta()
        self._next_table = _BETWEEN_TABLES

    def show(self, picture: Picture, pace: str) -> None:
        """Print what is new."""
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
        """Print what has not been printed yet."""
        for news in gather(self._news):
            self._console.print(draw_news(news))
        self._news = ()
