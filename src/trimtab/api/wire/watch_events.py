"""Events of a watch, for any kind of object, and the name under which an object is stored.

Each event is decoded by itself: an unreadable object becomes an event of its own (F28). Only an
event without its object's name is an error.
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
    """Namespace and name of an object; the namespace of a cluster-wide one is empty."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class StoredObject(Generic[RecordT]):
    """An object as it is stored."""

    name: ObjectName
    record: RecordT


@dataclass(frozen=True, slots=True)
class Applied(Generic[RecordT]):
    """The object exists, with this content."""

    entry: StoredObject[RecordT]
    version: str


@dataclass(frozen=True, slots=True)
class Spoiled:
    """The object exists, but its content cannot be read."""

    unreadable: Unreadable
    version: str


@dataclass(frozen=True, slots=True)
class Removed:
    """The object is gone."""

    name: ObjectName
    version: str


@dataclass(frozen=True, slots=True)
class Bookmark:
    """All events up to this version have been sent."""

    version: str


@dataclass(frozen=True, slots=True)
class WatchRefused:
    """The server refuses to continue the watch; 410 if the version is too old."""

    status: Status


ObjectEvent: TypeAlias = Applied[RecordT] | Spoiled | Removed | Bookmark
"""An event that a watch reports."""

_OBJECT: Final = msgspec.json.Decoder(_Object)
_EVENT: Final = msgspec.json.Decoder(_Event)
_EXPIRED: Final = ("Expired", "Gone")


def decode_entry(data: bytes, decode_record: Callable[[bytes], RecordT]) -> StoredObject[RecordT]:
    """Return the object in the JSON, with its name."""
    name, _ = _identify(data)
    return StoredObject(name, decode_record(data))


def decode_event(
    data: bytes, decode_record: Callable[[bytes], RecordT]
) -> ObjectEvent[RecordT] | WatchRefused:
    """Return the event in one line of a watch."""
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
