"""docs/flags.md: the flags of all components and commands, beside those of the original."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from inspect import Parameter as Signature
from itertools import groupby
from typing import Final

from cyclopts import App, Group
from cyclopts.argument import Argument

from reference import original_flags
from trimtab.cli.app import app
from trimtab.cli.flags.types import format_span

_HEAD: Final = """\
# Flags

All components and commands, from their own `--help`. Flags take `--flag=value` or `--flag value`,
and underscores count as dashes. Every flag of a component can be set by the environment, too:
`--recommender-interval` is `TRIMTAB_RECOMMENDER_INTERVAL`; the command line wins. Where a component
has a counterpart in the original (version 1.8), the last column says how the two compare.

A flag that a component does not know is a warning in its log, and with `--strict-flags` (which the
chart sets) an error; all other commands, `trimtab run` among them, refuse it. A feature gate that
is unknown is a warning. Flags of the original that have no effect here stand under *Accepted,
without effect*, and are named in the log when they are set.

This page is written by `make docs` from the code.
"""
_ORIGINALS: Final[Mapping[str, Mapping[str, object]]] = {
    "recommender": original_flags.RECOMMENDER,
    "updater": original_flags.UPDATER,
    "admission-controller": original_flags.ADMISSION,
}
_IDLE: Final = "Accepted, without effect"


@dataclass(frozen=True, slots=True)
class Row:
    """One flag or argument."""

    group: str
    names: tuple[str, ...]
    default: object
    shown_default: str
    text: str


def write_page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *(_section(name, command) for name, command in list_commands(app))])


def list_commands(parent: App, path: str = "") -> Iterator[tuple[str, App]]:
    """All commands that do something, by the words that call them."""
    for name in sorted(parent):
        if name.startswith("-") or not parent[name].show:
            continue
        command, full = parent[name], f"{path} {name}".strip()
        if command.default_command is not None:
            yield full, command
        yield from list_commands(command, full)


def list_rows(command: App) -> list[Row]:
    """Everything that may be said to a command."""
    arguments = command.assemble_argument_collection(parse_docstring=True)
    return [
        _row(each)
        for each in arguments
        if each.names[0] != "*" and each.parameter.show is not False
    ]


def _section(name: str, command: App) -> str:
    lines = [f"## trimtab {name}", "", command.help.strip().splitlines()[0], ""]
    original = _ORIGINALS.get(name)
    ordered = sorted(list_rows(command), key=lambda row: row.group == _IDLE)
    for group, rows in groupby(ordered, key=lambda row: row.group):
        lines += [f"**{group}**", "", *_table(list(rows), original), ""]
    return "\n".join(lines)


def _table(rows: list[Row], original: Mapping[str, object] | None) -> Iterator[str]:
    yield "| Flag | Default | Meaning |" + ("" if original is None else " Original |")
    yield "|---|---|---|" + ("" if original is None else "---|")
    for row in rows:
        names = ", ".join(f"`{name}`" for name in row.names)
        default = f"`{row.shown_default}`" if row.shown_default else ""
        last = "" if original is None else f" {_compare(row, original)} |"
        yield f"| {names} | {default} | {row.text} |{last}"


def _compare(row: Row, original: Mapping[str, object]) -> str:
    name = row.names[0]
    if name not in original:
        return "ours"
    if row.group == _IDLE:
        return "ignored"
    theirs = original[name]
    return "same" if theirs == row.default else f"its default is `{_show(theirs)}`"


def _row(argument: Argument) -> Row:
    default = argument.field_info.default
    parameter = argument.parameter
    show = parameter.show_default
    shown = show(default) if callable(show) else _show(default)
    assert isinstance(parameter.group, tuple)
    (group, *_) = parameter.group
    assert isinstance(group, Group)
    text = " ".join((parameter.help or "").split())
    return Row(str(group.name), tuple(argument.names), default, shown, text)


def _show(value: object) -> str:
    """How a default is written; what is empty, off or to be said is left out."""
    match value:
        case None | "" | False | () | []:
            return ""
        case True:
            return "true"
        case timedelta():
            return format_span(value)
        case Enum():
            return str(value.value)
        case float():
            return f"{value:.12g}"
        case _:
            return "" if value is Signature.empty else str(value)
