"""Commands and their flags, said to the parser of command lines in its own words.

It asks for `trimtab.cli.declaring:get.get` where it needs the command `get` of `trimtab.cli.get`,
and finds it here with all records of flags in its signature declared. Only the parser has use for
that: nobody else imports this module, and so a component that needs no parser does not load it.
"""

from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from operator import getitem
from typing import Annotated, cast, get_args, get_origin

from cyclopts import Group, Parameter, Token

from trimtab.cli.component_commands import STRAY
from trimtab.cli.flag_groups import GROUPS
from trimtab.cli.flag_types import Kind, Names, NoFlag


def __getattr__(name: str) -> Callable[..., object]:
    """A command, by its module and its own name."""
    module, _, command = name.partition(".")
    if not command:
        raise AttributeError(name)
    found = cast("Callable[..., object]", getattr(import_module(f"trimtab.cli.{module}"), command))
    _declare_command(found)
    return found


@cache
def _declare_command(command: Callable[..., object]) -> None:
    hints = command.__annotations__
    for hint in hints.values():
        if is_dataclass(hint):
            _declare_record(cast("type", hint))
    if STRAY in hints:
        hints[STRAY] = Annotated[str, Parameter(allow_leading_hyphen=True, show=False)]


@cache
def _declare_record(record: type) -> None:
    for base in record.__mro__:
        if is_dataclass(base):
            base.__annotations__ = {
                name: _translate(hint) for name, hint in base.__annotations__.items()
            }
    for hint in record.__annotations__.values():
        if is_dataclass(hint):
            _declare_record(cast("type", hint))
    if record in GROUPS:
        group = GROUPS[record]
        Parameter(name="*", group=Group(group.title, sort_key=group.order))(record)
    else:
        Parameter(name="*")(record)


def _translate(hint: object) -> object:
    """The hint, with what we say of a flag in words of the parser."""
    if get_origin(hint) is not Annotated:
        return hint
    of, *marks = get_args(hint)
    said = [_translate_mark(mark, is_switch=of is bool) for mark in marks]
    return cast("object", getitem(Annotated, (of, *said)))


def _translate_mark(mark: object, *, is_switch: bool) -> object:
    match mark:
        case Kind():
            return Parameter(
                metavar=mark.word,
                converter=None if mark.read is None else _converter(mark.read),
                show_default=mark.show,
                negative="" if is_switch else None,
            )
        case Names():
            return Parameter(name=mark.names)
        case NoFlag():
            return Parameter(parse=False)
        case _:
            return mark


def _converter(read: Callable[[str], object]) -> Callable[[object, Sequence[Token]], object]:
    def convert(_: object, tokens: Sequence[Token]) -> object:
        return read(tokens[0].value)

    return convert
