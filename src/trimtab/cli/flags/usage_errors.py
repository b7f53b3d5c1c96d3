"""Error messages for invalid command lines, one sentence each.

The messages of cyclopts show Python lists, types and literals, which are for programmers.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from enum import Enum
from typing import Final, Literal, get_args, get_origin

import cyclopts
from cyclopts import exceptions

from trimtab.cli import errors

_LIKE: Final = 0.75
"""Minimum similarity of a name that is suggested for a misspelt one."""
_NO: Final = "--no-"
_VALUES_OF_SWITCHES: Final = ("true", "false")
_ALIKE: Final = {bool: "neither true nor false", int: "not a whole number", float: "not a number"}


def explain_misuse(error: cyclopts.CycloptsError) -> str:
    """Say what is wrong with a command line, where, and what was seen."""
    match error:
        case exceptions.UnknownCommandError():
            return _explain_command(error)
        case exceptions.UnknownOptionError():
            name = (error.token.keyword or error.token.value).partition("=")[0]
            known = [each for one in error.argument_collection if one.parse for each in one.names]
            return f"flag {name} is unknown{suggest(name, known)}"
        case exceptions.UnusedCliTokensError():
            return explain_unused(error.unused_tokens or ())
        case exceptions.CoercionError():
            return _explain_value(error)
        case exceptions.MissingArgumentError(argument=cyclopts.Argument() as argument):
            name = error.keyword or argument.name
            return f"{name} needs a value" if name.startswith("-") else f"{name} is missing"
        case _:
            return _explain_other(error)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return a question that suggests the closest name; empty if none is close."""
    names = list(known)
    switch = f"--{name.removeprefix(_NO)}"
    if name.startswith(_NO) and switch in names:
        # The switch without its value would mean the opposite.
        return f"; did you mean {switch}=false?"
    close = get_close_matches(name, names, n=1, cutoff=_LIKE)
    return f"; did you mean {close[0]}?" if close else ""


def _explain_other(error: cyclopts.CycloptsError) -> str:
    if isinstance(error, exceptions.RepeatArgumentError):
        return f"{error.token.keyword} is given more than once"
    error.verbose = False
    return str(error)


def _explain_command(error: exceptions.UnknownCommandError) -> str:
    [name, *_] = error.unused_tokens or [""]
    known = [each for each in error.app or () if not each.startswith("-")]
    return f"there is no command {errors.quote(name)}{suggest(name, known)}"


def explain_unused(words: Sequence[str]) -> str:
    """Say which words belong to no flag, and how a switch takes its value."""
    shown = ", ".join(errors.quote(word) for word in words)
    is_value = words[:1] and words[0].lower() in _VALUES_OF_SWITCHES
    hint = "; a switch takes its value as in --leader-elect=false" if is_value else ""
    return f"unused argument{'s' if len(words) > 1 else ''} {shown}{hint}"


def _list_choices(kind: object) -> list[str]:
    """Return the values of an enumeration, or of a part of one; none of other types."""
    if get_origin(kind) is Literal:
        return [str(choice) for choice in get_args(kind)]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(member.value) for member in kind]
    return []


def _explain_value(error: exceptions.CoercionError) -> str:
    token, kind = error.token, error.target_type
    name = token.keyword if token is not None else None
    if name is None:
        name = error.argument.name if error.argument is not None else "a value"
    if error.msg is not None:
        return f"{name}: {error.msg}"
    value = errors.quote(token.value if token is not None else "")
    if names := _list_choices(kind):
        likely = suggest(token.value, names) if token is not None else ""
        return f"{name}: {value} is none of {', '.join(names)}{likely}"
    return f"{name}: {value} is {_ALIKE.get(kind, 'not a value for it') if kind else 'not usable'}"
