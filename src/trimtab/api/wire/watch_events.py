"""Events of a watch, of any kind of object, and the name under which an object is stored.

Each event is decoded by itself: an object that cannot be read becomes an event of its own (F28).
Only an event that does not even say which object it is about is an error.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from sys import intern
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from trimtab.api.wire.codec import DecodeError, Wire, decode
from trimtab.api.wire.lists import Unreadable
from trimtab.api.wire.status_errors import Status, decode_status

RecordT = TypeVar("RecordT")


class _Metadata(Wire, frozen=True, kw_only=True):
    namespace: str | None = None
    name: str | None = None
    resource_version: str | None = None


class _Object(Wire, frozen=True, kw_only=True):
    metadata: _Metadata | None = None


class _Event(Wire, frozen=True, kw_only=True):
    type: str | None = None
    object: msgspec.Raw = msgspec.Raw(b"null")


class ObjectName(NamedTuple):
    """Which object of its kind; the namespace of a cluster-wide one is empty."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class StoredObject(Generic[RecordT]):
    """An object as it is stored."""

    name: ObjectName
    record: RecordT


@dataclass(frozen=True, slots=True)
class Applied(Generic[RecordT]):
    """The object is there, and this is how it looks now."""

    entry: StoredObject[RecordT]
    version: str


@dataclass(frozen=True, slots=True)
class Spoiled:
    """The object is there, but how it looks now cannot be read."""

    unreadable: Unreadable
    version: str


@dataclass(frozen=True, slots=True)
class Removed:
    """The object is gone."""

    name: ObjectName
    version: str


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Everything up to this version has been told."""

    version: str


@dataclass(frozen=True, slots=True)
class WatchRefused:
    """The server cannot go on; 410 if it has forgotten the version to go on from."""

    status: Status


Told: TypeAlias = Applied[RecordT] | Spoiled | Removed | Bookmark
"""What a watch tells of objects."""

_OBJECT: Final = msgspec.json.Decoder(_Object)
_EVENT: Final = msgspec.json.Decoder(_Event)
_EXPIRED: Final = ("Expired", "Gone")


def decode_entry(data: bytes, decode_record: Callable[[bytes], RecordT]) -> StoredObject[RecordT]:
    """The object in the JSON, under its name."""
    name, _ = _identify(data)
    return StoredObject(name, decode_record(data))


def decode_event(
    data: bytes, decode_record: Callable[[bytes], RecordT]
) -> Told[RecordT] | WatchRefused:
    """The event in one line of a watch."""
    event = decode(_EVENT, data)
    match event.type:
        case "ADDED" | "MODIFIED":
            return _decode_object(event.object, decode_record)
        case "DELETED":
            return Removed(*_identify(event.object))
        case "BOOKMARK":
            return _decode_bookmark(event.object)
        case "ERROR":
            return _decode_refusal(event.object)
        case _:
            raise DecodeError("type", f"unknown type of event: {event.type!r}")


def _decode_object(
    data: bytes, decode_record: Callable[[bytes], RecordT]
) -> Applied[RecordT] | Spoiled:
    name, version = _identify(data)
    try:
        return Applied(StoredObject(name, decode_record(data)), version)
    except DecodeError as error:
        return Spoiled(Unreadable(*name, error), version)


def _decode_bookmark(data: bytes) -> Bookmark:
    metadata = decode(_OBJECT, data).metadata or _Metadata()
    return Bookmark(metadata.resource_version or "")


def _decode_refusal(data: bytes) -> WatchRefused:
    status = decode_status(data)
    return WatchRefused(
        replace(status, code=HTTPStatus.GONE) if status.reason in _EXPIRED else status
    )


def _identify(data: bytes) -> tuple[ObjectName, str]:
    metadata = decode(_OBJECT, data).metadata or _Metadata()
    if not metadata.name:
        raise DecodeError("metadata.name", "an object without a name")
    name = ObjectName(intern(metadata.namespace or ""), metadata.name)
    return name, metadata.resource_version or ""
