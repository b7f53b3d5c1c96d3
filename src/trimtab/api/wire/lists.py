"""Lists of objects of any kind, one page at a time.

Each item is decoded by itself: an unreadable object never hides the others (F28).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import msgspec

from trimtab.api.wire.codec import DecodeError, Wire, decode
from trimtab.api.wire.metadata import NO_METADATA, Metadata

_T = TypeVar("_T")


class _ListMetadata(Wire, frozen=True, kw_only=True):
    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")


class _List(Wire, frozen=True, kw_only=True):
    metadata: _ListMetadata | None = None
    items: tuple[msgspec.Raw, ...] | None = None


class _Named(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None


_LIST: Final = msgspec.json.Decoder(_List)
_NAMED: Final = msgspec.json.Decoder(_Named)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object that could not be decoded: its name, if readable, and the error."""

    namespace: str
    name: str
    error: DecodeError


@dataclass(frozen=True, slots=True)
class Listing(Generic[_T]):
    """One page of a list."""

    items: tuple[_T, ...]
    unreadable: tuple[Unreadable, ...]
    resource_version: str
    """Version of the cluster state that the page shows; a watch continues from here."""
    continue_token: str
    """Token for the next page; empty on the last one."""


def decode_list(data: bytes, decode_item: Callable[[bytes], _T]) -> Listing[_T]:
    """Return the page in the JSON of any kind of list."""
    source = decode(_LIST, data)
    metadata = source.metadata or _ListMetadata()
    items: list[_T] = []
    unreadable: list[Unreadable] = []
    for index, raw in enumerate(source.items or ()):
        try:
            items.append(decode_item(raw))
        except DecodeError as error:
            unreadable.append(_describe(raw, index, error))
    return Listing(
        items=tuple(items),
        unreadable=tuple(unreadable),
        resource_version=metadata.resource_version or "",
        continue_token=metadata.continue_ or "",
    )


def decode_name(data: bytes) -> str:
    """Return the name in the JSON of any object; empty if it has none."""
    return (decode(_NAMED, data).metadata or NO_METADATA).name or ""


def _describe(raw: bytes, index: int, error: DecodeError) -> Unreadable:
    try:
        metadata = decode(_NAMED, raw).metadata or NO_METADATA
    except DecodeError:
        metadata = NO_METADATA
    # With a name, the place in the list is of no use to readers.
    path = error.path if metadata.name else f"items[{index}].{error.path}".rstrip(".")
    return Unreadable(
        namespace=metadata.namespace or "",
        name=metadata.name or "",
        error=DecodeError(path, error.problem),
    )
