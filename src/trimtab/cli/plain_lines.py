"""Plain command lines of components, read without the parser of command lines.

The parser takes a fifth of a start, and its memory for as long as the component runs. What it is
good at, help and mistakes, a component that starts as it should has no use for. So what is plain
is read here, from the same records of flags, and all else is left to the parser: what is unknown,
misspelt or cannot be read, and everything that is only another spelling. Wherever a line is read
here, the parser would have read the same.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, fields, is_dataclass, replace
from enum import Enum
from typing import Annotated, Any, Final, TypeVar, cast, get_args, get_origin

from trimtab.cli.component_commands import STRAY, VARIABLES
from trimtab.cli.flag_types import Kind, Names, NoFlag
from trimtab.cli.starting import flag_name
from trimtab.core.records import dataclass

_SWITCHED: Final = {"true": True, "false": False}
_USUAL_READERS: Final[Mapping[object, Callable[[str], object]]] = {
    str: str,
    float: float,
    bool: _SWITCHED.__getitem__,
}
_NOT_PLAIN: Final = (ArithmeticError, AssertionError, LookupError, TypeError, ValueError)
"""What says that a flag is not known, or that its value cannot be read."""

_RecordT = TypeVar("_RecordT")


@dataclass(frozen=True, slots=True)
class _Flag:
    field: str
    names: tuple[str, ...]
    read: Callable[[str], object]
    is_switch: bool


class _OddError(ValueError):
    """Only the parser knows what is meant."""


def read_line(
    usual: Mapping[str, object], words: Sequence[str], environment: Mapping[str, str]
) -> dict[str, object] | None:
    """Records of flags with what is given, by the names of the usual ones; None for the parser."""
    flags = [flag for record in usual.values() for flag in _list_flags(record)]
    try:
        given = dict([*_read_environment(flags, environment), *_read_words(flags, words)])
    except _NOT_PLAIN:
        return None
    return {name: _fill(record, given) for name, record in usual.items()}


def _read_words(flags: Sequence[_Flag], words: Sequence[str]) -> Iterator[tuple[str, object]]:
    """The values that words give to fields, in their order."""
    known = {name: flag for flag in flags for name in flag.names}
    rest = iter(words)
    for word in rest:
        name, equals, text = word.partition("=")
        flag = known[name]
        if flag.is_switch and not equals:
            text = "true"
        elif not equals:
            text = next(rest, "-")
            if text.startswith("-"):
                raise _OddError(word)
        yield flag.field, flag.read(text)


def _read_environment(
    flags: Sequence[_Flag], environment: Mapping[str, str]
) -> Iterator[tuple[str, object]]:
    """The values that variables give to fields.

    One of no flag's name is somebody else's: Kubernetes sets some for every Service whose name
    begins like ours.
    """
    known = {flag.field.upper(): flag for flag in flags}
    for variable, text in environment.items():
        name = variable.removeprefix(VARIABLES)
        if name == variable:
            continue
        if name in known:
            yield known[name].field, known[name].read(text)
        elif name.replace("-", "_") in {*known, STRAY.upper()}:
            # The parser takes these for ours, too.
            raise _OddError(variable)


def _list_flags(record: object) -> Iterator[_Flag]:
    """All flags in a record, and in records in it."""
    assert is_dataclass(record)
    for field in fields(record):
        value = getattr(record, field.name)
        if is_dataclass(value):
            yield from _list_flags(value)
        elif _is_flag(field):
            yield _make_flag(field)


def _make_flag(field: Field[Any]) -> _Flag:
    of, marks = _split(field)
    names = [name for mark in marks if isinstance(mark, Names) for name in mark.names]
    readers = [mark.read for mark in marks if isinstance(mark, Kind) and mark.read]
    return _Flag(
        field.name,
        tuple(names) or (flag_name(field.name),),
        readers[0] if readers else _usual_reader(of),
        is_switch=of is bool,
    )


def _split(field: Field[Any]) -> tuple[type, Sequence[object]]:
    """The type of a field, and what else is said of it."""
    if get_origin(field.type) is not Annotated:
        return cast("type", field.type), ()
    of, *marks = get_args(field.type)
    return of, marks


def _usual_reader(of: type) -> Callable[[str], object]:
    if not issubclass(of, Enum):
        return _USUAL_READERS[of]
    # As the parser has it, by name.
    names = {name.lower().replace("_", "-"): each for name, each in of.__members__.items()}
    return names.__getitem__


def _is_flag(field: Field[Any]) -> bool:
    return NoFlag() not in _split(field)[1]


def _fill(record: _RecordT, given: Mapping[str, object]) -> _RecordT:
    """The record, and records in it, with what is given to its flags."""
    assert is_dataclass(record)
    assert not isinstance(record, type)
    filled: dict[str, object] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if is_dataclass(value):
            filled[field.name] = _fill(value, given)
        elif field.name in given and _is_flag(field):
            filled[field.name] = given[field.name]
    return cast("_RecordT", replace(record, **filled))
