"""Shell completion: candidates for the last word of a command line, and the scripts that ask.

The scripts of all shells run `trimtab __complete WORD...`; the last word is the one being typed.
The answer has the form of kubectl's own commands: one candidate per line, then a line that says
whether files are candidates too. So kubectl can complete the plugin as well.
"""

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Final, Protocol, assert_never

import cyclopts

from trimtab.api.wire import lists
from trimtab.api.wire.codec import DecodeError
from trimtab.cli.app import app
from trimtab.cli.commands import read_cluster
from trimtab.cli.errors import FailedError
from trimtab.cli.runtime import cluster_connection
from trimtab.cluster.auth import kubeconfig_files
from trimtab.cluster.auth.connection import usual_files
from trimtab.cluster.auth.credentials import Connection
from trimtab.cluster.clock import RealClock
from trimtab.cluster.errors import ClusterError
from trimtab.cluster.http import paths

_PATIENCE_SECONDS: Final = 3.0
"""Longest time that a person waits after pressing a key."""
_MOST: Final = "500"


class NamedObjects(StrEnum):
    """Kinds of objects whose names are candidates."""

    AUTOSCALER = "autoscaler"
    NAMESPACE = "namespace"
    CONTEXT = "context"


@dataclass(frozen=True, slots=True)
class CompletionPlace:
    """Cluster and namespace in which to look for names."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""
    is_everywhere: bool = False


def list_names(named: NamedObjects, place: CompletionPlace) -> list[str]:
    """Return all names of a kind, sorted; none if they cannot be read in time."""
    try:
        if named is NamedObjects.CONTEXT:
            files = [Path(place.kubeconfig)] if place.kubeconfig else usual_files(os.environ)
            return sorted(kubeconfig_files.read_files(files).contexts)
        clock = RealClock()
        connection = cluster_connection.choose_connection(
            place.kubeconfig, clock, os.environ, place.context
        )
        return sorted(set(asyncio.run(_ask(named, place, connection, clock))))
    except (FailedError, ClusterError, DecodeError, TimeoutError):
        return []


async def _ask(
    named: NamedObjects, place: CompletionPlace, connection: Connection, clock: RealClock
) -> list[str]:
    async with asyncio.timeout(_PATIENCE_SECONDS), read_cluster.joined(connection, clock) as client:
        body = await client.fetch(_path(named, place, connection), {"limit": _MOST})
    return list(lists.decode_list(body, lists.decode_name).items)


def _path(named: NamedObjects, place: CompletionPlace, connection: Connection) -> str:
    match named:
        case NamedObjects.NAMESPACE | NamedObjects.CONTEXT:
            return paths.collection("v1", "namespaces")
        case NamedObjects.AUTOSCALER:
            own = place.namespace or connection.namespace
            return paths.autoscalers("" if place.is_everywhere else own)
        case _:
            assert_never(named)


_FILES: Final = ":0"
_NO_FILES: Final = ":4"
_NAMES_OF_FLAGS: Final = {
    "--namespace": NamedObjects.NAMESPACE,
    "-n": NamedObjects.NAMESPACE,
    "--context": NamedObjects.CONTEXT,
}
_NAMES_OF_ARGUMENTS: Final = {
    ("get",): NamedObjects.AUTOSCALER,
    ("explain",): NamedObjects.AUTOSCALER,
    ("checkpoint", "inspect"): NamedObjects.AUTOSCALER,
    ("checkpoint", "export"): NamedObjects.AUTOSCALER,
}
_FILE_FLAGS: Final = ("file", "kubeconfig", "trace", "policy", "key", "out", "output")
"""Endings of the names of flags that take files."""


class Shell(StrEnum):
    """Shells that have a completion script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@dataclass(frozen=True, slots=True)
class CompletionAnswer:
    """Candidates for the last word."""

    candidates: tuple[str, ...] = ()
    are_files: bool = False
    """True if files are candidates, too."""


class Argument(Protocol):
    """The parts of a cyclopts argument that completion reads."""

    @property
    def names(self) -> tuple[str, ...]:
        """All names; those of a positional argument have no dashes."""

    @property
    def show(self) -> bool:
        """True if help shows it."""

    @property
    def hint(self) -> object:
        """Its type."""

    def get_choices(self) -> tuple[str, ...] | None:
        """Return the values it may take; None if there are no fixed ones."""

    def token_count(self) -> tuple[int, bool]:
        """Return how many words it takes, and True if it takes all that are left."""


def print_script(shell: Shell, /) -> None:
    """Print the script for a shell.

    Args:
        shell: The shell.
    """
    folder = resources.files("trimtab.cli").joinpath("completion_scripts")
    sys.stdout.write(folder.joinpath(f"trimtab.{shell.value}").read_text(encoding="utf-8"))


def complete_for_kubectl() -> int:
    """Write candidates for kubectl, which asks for the plugin's arguments."""
    return print_completions(sys.argv[1:])


def print_completions(words: Sequence[str]) -> int:
    """Write the candidates for the last word; return 0."""
    answer = complete(words)
    lines = [*answer.candidates, _FILES if answer.are_files else _NO_FILES]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def complete(words: Sequence[str]) -> CompletionAnswer:
    """Return the candidates that begin with the last word."""
    *before, typed = words or [""]
    commands, rest = _split(before)
    command = _find(commands)
    if not rest and not typed.startswith("-") and (names := _commands(command)):
        return _only(names, typed)
    flags = _flags(command)
    if typed.startswith("--") and "=" in typed:
        name, _, value = typed.partition("=")
        found = _values(flags.get(name), name, value, before)
        return CompletionAnswer(
            tuple(f"{name}={each}" for each in found.candidates), found.are_files
        )
    if rest and (flag := flags.get(rest[-1])) is not None and flag.token_count()[0]:
        return _values(flag, rest[-1], typed, before)
    if typed.startswith("-"):
        return _only([*flags, "--help"], typed)
    return _arguments(command, commands, typed, before)


def _split(words: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Split words into the leading command names and the rest."""
    commands: list[str] = []
    for word in words:
        if word not in _commands(_find(commands)):
            break
        commands.append(word)
    return tuple(commands), list(words[len(commands) :])


def _find(commands: Sequence[str]) -> cyclopts.App:
    found = app
    for name in commands:
        found = found[name]
    return found


def _commands(command: cyclopts.App) -> list[str]:
    return [name for name in command if not name.startswith(("-", "_"))]


def _flags(command: cyclopts.App) -> dict[str, Argument]:
    return {
        name: argument
        for argument in _list_arguments(command)
        if argument.show
        for name in argument.names
        if name.startswith("-")
    }


def _list_arguments(command: cyclopts.App) -> Iterator[Argument]:
    if command.default_command is not None:
        yield from command.assemble_argument_collection()


def _values(flag: Argument | None, name: str, typed: str, words: Sequence[str]) -> CompletionAnswer:
    """Return candidates for the value of a flag."""
    if flag is None:
        return CompletionAnswer()
    if choices := flag.get_choices():
        return _only(choices, typed)
    if name in _NAMES_OF_FLAGS:
        return _only(list_names(_NAMES_OF_FLAGS[name], _place(words)), typed)
    if flag.hint is bool:
        return _only(["true", "false"], typed)
    return CompletionAnswer(are_files=name.endswith(_FILE_FLAGS) or flag.hint is Path)


def _arguments(
    command: cyclopts.App, commands: tuple[str, ...], typed: str, words: Sequence[str]
) -> CompletionAnswer:
    """Return candidates for a positional argument."""
    if commands in _NAMES_OF_ARGUMENTS:
        return _only(list_names(_NAMES_OF_ARGUMENTS[commands], _place(words)), typed)
    arguments = [
        each for each in _list_arguments(command) if each.show and not each.names[0].startswith("-")
    ]
    choices = [choice for each in arguments for choice in each.get_choices() or ()]
    return _only(choices, typed) if choices else CompletionAnswer(are_files=bool(arguments))


def _only(names: Sequence[str], typed: str) -> CompletionAnswer:
    return CompletionAnswer(tuple(name for name in names if name.startswith(typed)))


def _place(words: Sequence[str]) -> CompletionPlace:
    """Return the cluster and namespace that the rest of the command line names."""
    return CompletionPlace(
        _value(words, "--kubeconfig"),
        _value(words, "--context"),
        _value(words, "--namespace", "-n"),
        is_everywhere=bool({"-A", "--all-namespaces"} & set(words)),
    )


def _value(words: Sequence[str], *flags: str) -> str:
    """Return the value of a flag on the line; the last one counts."""
    found = ""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name in flags:
            found = value if equals else following
    return found
