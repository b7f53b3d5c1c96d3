"""Help for the terminal: each flag with its value, and its meaning on the lines below.

Words wrap at the width of the screen, or at 80 columns if it is unknown. Indented lines of a
description, such as examples, stay as they are.
"""

from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import Final, Protocol

_NARROWEST: Final = 40
_INDENT: Final = "  "
_BELOW: Final = "      "
_WORDS: Final = {"STR": "TEXT", "INT": "NUMBER", "FLOAT": "NUMBER"}
"""Words for the types of Python."""
_NOTHING: Final = ("", '""', "False", "None", "()", "[]")
"""Defaults that help does not show."""
_ON: Final = "true"
"""The default of a switch that is on, as cyclopts writes it."""
_MOST_CHOICES: Final = 40
"""Longest list of choices that stands in place of the word for a value."""


class Output(Protocol):
    """The console on which help is written."""

    def out(self, *objects: str, highlight: bool) -> None:
        """Write a line as it is."""


class Screen(Protocol):
    """The screen on which help is read."""

    max_width: int
    """Columns of a line."""


class HelpEntry(Protocol):
    """A flag, an argument or a command."""

    @property
    def display_labels(self) -> tuple[str, ...]:
        """Names of the entry."""

    @property
    def metavar(self) -> str | None:
        """Word for the value that it takes."""

    @property
    def description(self) -> object:
        """Meaning of the entry."""

    @property
    def choices(self) -> tuple[str, ...] | None:
        """Values that it takes; None if there are no fixed ones."""

    @property
    def default(self) -> str | None:
        """Default value."""

    @property
    def required(self) -> bool:
        """True if it has to be given."""


class Panel(Protocol):
    """A group of entries under one title."""

    @property
    def title(self) -> object:
        """Title of the group."""

    @property
    def format(self) -> str:
        """Kind of the entries: command or parameter."""

    @property
    def entries(self) -> Iterable[HelpEntry]:
        """All entries, in their order."""


class HelpPage:
    """Help formatter that cyclopts calls."""

    def __call__(self, console: Output, options: Screen, panel: Panel) -> None:
        """Write a group of entries."""
        entries = list(panel.entries)
        if not entries:
            return
        is_commands = panel.format == "command"
        lines = _list_commands if is_commands else _list_parameters
        _write(console, [f"{_plain(panel.title)}:", *lines(entries, _width(options)), ""])

    def render_usage(self, console: Output, options: Screen, usage: object) -> None:
        """Write the usage line of a command."""
        text = " ".join(_plain(usage).split())
        if text:
            lead = "" if text.startswith("Usage:") else "Usage: "
            _write(console, [*wrap(lead + text, _width(options), subsequent_indent=_BELOW), ""])

    def render_description(self, console: Output, options: Screen, description: object) -> None:
        """Write the description of a command."""
        text = _plain(description)
        if text:
            _write(console, [*_reflow(text, _width(options)), ""])


def _width(options: Screen) -> int:
    return max(options.max_width, _NARROWEST)


def _write(console: Output, lines: Iterable[str]) -> None:
    for line in lines:
        console.out(line.rstrip(), highlight=False)


def _plain(text: object) -> str:
    """Return the plain text of a string or of a rich renderable; empty for None."""
    if text is None:
        return ""
    inner = getattr(text, "primary_renderable", text)
    return str(getattr(inner, "plain", inner)).strip()


def _reflow(text: str, width: int) -> Iterator[str]:
    """Yield paragraphs wrapped at the width, and headings and indented lines unchanged."""
    lines = text.splitlines()
    paragraph: list[str] = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        is_heading = following.startswith(_INDENT)
        if line.strip() and not line.startswith(_INDENT) and not is_heading:
            paragraph.append(line.strip())
            continue
        yield from wrap(" ".join(paragraph), width)
        paragraph = []
        yield line.rstrip()
    yield from wrap(" ".join(paragraph), width)


def _list_commands(entries: Iterable[HelpEntry], width: int) -> Iterator[str]:
    named = [(", ".join(each.display_labels), _plain(each.description)) for each in entries]
    most = max(len(name) for name, _ in named)
    for name, meaning in named:
        lead = f"{_INDENT}{name.ljust(most)}{_INDENT}"
        lines = wrap(meaning, width - len(lead))
        yield lead + (lines[0] if lines else "")
        yield from (" " * len(lead) + line for line in lines[1:])


def _list_parameters(entries: Iterable[HelpEntry], width: int) -> Iterator[str]:
    for entry in entries:
        # The short name comes first, as in the help of other tools.
        labels = sorted(entry.display_labels, key=lambda label: label.startswith("--"))
        yield from wrap(
            f"{', '.join(labels)} {_taken(entry)}".rstrip().replace(" ...", "..."),
            width,
            initial_indent=_INDENT,
            subsequent_indent=_BELOW,
            break_on_hyphens=False,
        )
        meaning = " ".join([_plain(entry.description), *_remarks(entry)])
        yield from wrap(
            " ".join(meaning.split()),
            width,
            initial_indent=_BELOW,
            subsequent_indent=_BELOW,
            break_on_hyphens=False,
        )


def _taken(entry: HelpEntry) -> str:
    """Return the word for the value of an entry; an argument has none but its name."""
    if not entry.display_labels[0].startswith("-"):
        return "..." if (entry.metavar or "").endswith("...") else ""
    if entry.choices and len("|".join(entry.choices)) <= _MOST_CHOICES:
        return "|".join(entry.choices)
    word = (entry.metavar or "").removesuffix("...")
    return _WORDS.get(word, word)


def _remarks(entry: HelpEntry) -> Iterator[str]:
    if entry.choices and len("|".join(entry.choices)) > _MOST_CHOICES:
        yield f"One of {', '.join(entry.choices)}."
    if entry.default == _ON:
        yield f"[default: {_ON}; {entry.display_labels[0]}=false switches it off]"
    elif entry.default not in (None, *_NOTHING):
        yield f"[default: {entry.default}]"
    if entry.required:
        yield "[required]"
