"""From bytes to wire records: one way in, one error out.

A wire record (`Wire`) names only the fields that somebody here reads; all others are skipped. As in
the original, `null` means the same as a field that is not there.
"""

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Final, TypeAlias, TypeVar

import msgspec

_T = TypeVar("_T")
_U = TypeVar("_U")

Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
"""One step of a path: the name of a field, or the index of an item."""
_MALFORMED: Final = "JSON is malformed: "
_EXPECTED: Final = re.compile(
    r"Expected `(?P<types>[^`]+)`(?:, got `(?P<got>[^`]+)`|(?P<bound>(?: [<>]=? \S+)?))"
)
"""A complaint of the decoder about a type or a bound."""
_TYPES: Final = {"int": "integer", "str": "string", "bool": "boolean", "float": "number"}
_MAX_SHOWN: Final = 64
_MAX_SEARCHED: Final = 2 * 1024 * 1024
"""No object is larger; whoever sends more does not do so to be told what is wrong with it."""


class DecodeError(ValueError):
    """Wire data that is not what it should be; says where (`path`) and what (`problem`)."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path
        self.problem = problem


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The part of a Kubernetes object that we read."""


def decode(decoder: msgspec.json.Decoder[_T], data: bytes) -> _T:
    """The wire record in the JSON; a DecodeError for anything that is none."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at ")
        path = place.rpartition("$")[2].strip("`")
        raise DecodeError(path.strip("."), _in_words(problem) + _shown(data, path)) from error
    except UnicodeDecodeError as error:
        raise DecodeError("", "not valid JSON: it is not UTF-8") from error
    except RecursionError as error:
        raise DecodeError("", "not valid JSON: it is nested too deeply") from error
    except msgspec.DecodeError as error:
        raise DecodeError("", f"not valid JSON: {str(error).removeprefix(_MALFORMED)}") from error


def convert_each(
    items: Sequence[_T] | None, convert: Callable[[_T, str], _U], path: str
) -> tuple[_U, ...]:
    """Every item converted, given the path of its place in the list."""
    return tuple(convert(item, f"{path}[{index}]") for index, item in enumerate(items or ()))


def _in_words(problem: str) -> str:
    """Say what is wrong in the words of the API server instead of those of the decoder."""
    found = _EXPECTED.fullmatch(problem)
    if found is None:
        return problem
    wanted = " or ".join(_TYPES.get(name, name) for name in found["types"].split(" | "))
    wanted = wanted.removesuffix(" or null")
    if found["got"]:
        return f"must be of type {wanted}, not {_TYPES.get(found['got'], found['got'])}"
    return f"must be of type {wanted}{found['bound']}"


def _shown(data: bytes, path: str) -> str:
    """The value at the path as people are shown it; nothing where the path leads nowhere."""
    if len(data) > _MAX_SEARCHED:
        return ""
    try:
        value: object = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Behind the first flaw, which is told, comes another one.
        return ""
    for name, index in _STEP.findall(path):
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and index and int(index) < len(value):
            value = value[int(index)]
        else:
            return ""
    # A whole object or list is not what is wrong; something in it is missing, or it is too much.
    if isinstance(value, dict | list):
        return ""
    text = msgspec.json.encode(value).decode()
    return f": {text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + '…'}"


class Written(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    """An object, or a part of one, that we write."""


def encode(written: object) -> bytes:
    """The JSON of a written record, or of plain lists and maps of them."""
    return msgspec.json.encode(written)
