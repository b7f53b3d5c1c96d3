"""From bytes to wire records, with one entry point and one kind of error.

A wire record (`Wire`) names only the fields that Trimtab reads; others are skipped. As in the
original, `null` means the same as an absent field.
"""

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Final, TypeAlias, TypeVar

import msgspec

JSON: TypeAlias = bool | int | float | str | list["JSON"] | dict[str, "JSON"] | None

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
"""A message of the decoder about a type or a bound."""
_TYPES: Final = {"int": "integer", "str": "string", "bool": "boolean", "float": "number"}
_MAX_SHOWN: Final = 64
_MAX_SEARCHED: Final = 2 * 1024 * 1024
"""Maximum size of data that is searched for the bad value; no real object is larger."""


class DecodeError(ValueError):
    """Raised for invalid wire data; `path` is the place and `problem` the flaw."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path
        self.problem = problem


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The part of a Kubernetes object that Trimtab reads."""


def decode(decoder: msgspec.json.Decoder[_T], data: bytes) -> _T:
    """Return the wire record in the JSON; raises DecodeError for anything else."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        # The decoder puts the place into its message, as ` - at `$.spec.x``.
        problem, _, place = str(error).partition(" - at ")
        path = place.rpartition("$")[2].strip("`")
        raise DecodeError(path.strip("."), _in_words(problem) + _shown(data, path)) from error
    except UnicodeDecodeError as error:
        raise DecodeError("", "not valid JSON: it is not UTF-8") from error
    # A kilobyte of opening brackets is enough, and anyone may send such a body.
    except RecursionError as error:
        raise DecodeError("", "not valid JSON: it is nested too deeply") from error
    except msgspec.DecodeError as error:
        raise DecodeError("", f"not valid JSON: {str(error).removeprefix(_MALFORMED)}") from error


def convert_each(
    items: Sequence[_T] | None, convert: Callable[[_T, str], _U], path: str
) -> tuple[_U, ...]:
    """Convert every item, given the path of its place in the list."""
    return tuple(convert(item, f"{path}[{index}]") for index, item in enumerate(items or ()))


def _in_words(problem: str) -> str:
    """Return a problem in the words of the API server instead of the decoder's."""
    found = _EXPECTED.fullmatch(problem)
    if found is None:
        return problem
    wanted = " or ".join(_TYPES.get(name, name) for name in found["types"].split(" | "))
    wanted = wanted.removesuffix(" or null")
    if found["got"]:
        return f"must be of type {wanted}, not {_TYPES.get(found['got'], found['got'])}"
    return f"must be of type {wanted}{found['bound']}"


def _shown(data: bytes, path: str) -> str:
    """Return the value at the path as a suffix for messages; empty if there is no such value."""
    if len(data) > _MAX_SEARCHED:
        return ""
    try:
        value: object = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # The data has a further flaw behind the reported one.
        return ""
    for name, index in _STEP.findall(path):
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and index and int(index) < len(value):
            value = value[int(index)]
        else:
            return ""
    # For an object or a list, the flaw is a missing or an excess part, not the value.
    if isinstance(value, dict | list):
        return ""
    text = msgspec.json.encode(value).decode()
    return f": {text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + '…'}"


class Written(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    """An object, or a part of one, that Trimtab writes."""


def encode(written: object) -> bytes:
    """Return the JSON of a written record, or of plain lists and maps of them."""
    return msgspec.json.encode(written)
