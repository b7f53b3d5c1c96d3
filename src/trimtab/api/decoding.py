"""From bytes to wire records: one way in, one error out.

A wire record (`Wire`) names only the fields that somebody here reads; all others are skipped. As in
the original, `null` means the same as a field that is not there.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, TypeAlias, TypeVar

import msgspec

_T = TypeVar("_T")
_U = TypeVar("_U")

Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


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
        raise DecodeError(place.rpartition("$")[2].strip(".`"), problem) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError("", f"not valid JSON: {error}") from error


def convert_each(
    items: Sequence[_T] | None, convert: Callable[[_T, str], _U], path: str
) -> tuple[_U, ...]:
    """Every item converted, given the path of its place in the list."""
    return tuple(convert(item, f"{path}[{index}]") for index, item in enumerate(items or ()))
