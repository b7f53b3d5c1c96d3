"""Progress of commands that take more than a few seconds: a bar on a terminal, else lines."""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

_LINES: Final = 10
"""Maximum number of lines where there is no terminal."""

Show: TypeAlias = Callable[[float, str], None]
"""Receives how much is done, and the same in words."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Ways to show progress, and to write beside it."""

    show: Show
    write: Callable[[str], None]
    """Writes text to standard output, above the bar if that is the same screen."""


@contextmanager
def shown(total: float, *, is_quiet: bool = False, has_lines: bool = True) -> Iterator[Progress]:
    """Show progress on standard error until the block ends; only lines if it is no terminal."""
    if sys.stderr.isatty() and not is_quiet:
        with closing(_LazyBar(total)) as bar:
            yield Progress(bar.show, bar.write)
    elif has_lines and not is_quiet:
        yield Progress(_print_lines(total), _write)
    else:
        yield Progress(lambda _, __: None, _write)


class _LazyBar:
    """A bar on the terminal that appears with the first progress, and disappears at the end."""

    def __init__(self, total: float) -> None:
        self._total = total
        self._bar: Bar | None = None

    def show(self, done: float, text: str) -> None:
        """Draw the bar, with the text before it."""
        if self._bar is None:
            self._bar = _make_bar()
            self._bar.add_task(text, total=self._total)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done, description=text)

    def write(self, text: str) -> None:
        """Write the text to standard output, above the bar."""
        if self._bar is None:
            _write(text)
            return
        self._bar.stop()
        _write(text)
        self._bar.start()

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()


def _make_bar() -> "Bar":
    # Imported here: rich takes longer than many commands, and only terminals need it.
    rich = import_module("rich.progress")
    bar: Bar = rich.Progress(
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.TimeRemainingColumn(),
        console=import_module("rich.console").Console(stderr=True),
        transient=True,
        # Standard output may go elsewhere, so rich must not take it over.
        redirect_stdout=False,
    )
    return bar


def _print_lines(total: float) -> Show:
    shown_parts = 0

    def show(done: float, text: str) -> None:
        nonlocal shown_parts
        parts = int(_LINES * done / total)
        if parts > shown_parts:
            shown_parts = parts
            sys.stderr.write(f"{text.strip()}\n")
            sys.stderr.flush()

    return show


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
