"""All commands of `trimtab`, by the words that call them, and what they can be given."""

from collections.abc import Iterator
from typing import Any

import cyclopts

from trimtab.cli.app import app

COMPONENTS = {"recommender", "updater", "admission-controller", "roles", "run"}
FORGIVING = COMPONENTS - {"run"}
"""Their command lines are in manifests, which outlive flags: an unknown one is a warning."""

Words = tuple[str, ...]


def walk(command: cyclopts.App = app, words: Words = ()) -> Iterator[tuple[Words, cyclopts.App]]:
    """Every command, the whole first."""
    yield words, command
    for name in command:
        if not name.startswith("-"):
            yield from walk(command[name], (*words, name))


def leaves() -> list[Words]:
    """The commands that do something themselves."""
    return [words for words, command in walk() if command.default_command is not None and words]


def flags_of(words: Words) -> list[Any]:
    """The flags of a command that anybody is to know of."""
    command = app
    for word in words:
        command = command[word]
    return [
        each
        for each in command.assemble_argument_collection()
        if each.show and each.names[0].startswith("--")
    ]
