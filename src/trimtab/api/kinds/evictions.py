"""Evictions: the kubelet's events about memory pressure, and our own eviction requests."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from trimtab.api.wire import codec, times
from trimtab.api.wire.codec import DecodeError, Wire, Written
from trimtab.api.wire.metadata import NO_METADATA, Metadata
from trimtab.api.wire.times import ZERO_TIME
from trimtab.core.model import quantities
from trimtab.core.model.pods import Pod
from trimtab.core.model.resources import Resource


class _Involved(Wire, frozen=True, kw_only=True):
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None


class _Event(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None
    reason: str | None = None
    involved_object: _Involved | None = None


_DECODER: Final = msgspec.json.Decoder(_Event)
_CONTAINERS: Final = "offending_containers"
_USAGE: Final = "offending_containers_usage"
_RESOURCE: Final = "starved_resource"


@dataclass(frozen=True, slots=True)
class MemoryEviction:
    """A container whose memory usage caused the eviction of its pod."""

    namespace: str
    pod: str
    container: str
    memory_bytes: int
    at: datetime


def decode_memory_evictions(data: bytes) -> tuple[MemoryEviction, ...]:
    """Return the containers that the JSON of one Event blames for memory pressure, if any."""
    source = codec.decode(_DECODER, data)
    metadata = source.metadata or NO_METADATA
    involved = source.involved_object or _Involved()
    if source.reason != "Evicted" or involved.kind != "Pod":
        return ()
    at = times.decode_time(metadata.creation_timestamp, "metadata.creationTimestamp") or ZERO_TIME
    return tuple(
        MemoryEviction(involved.namespace or "", involved.name or "", container, memory, at)
        for container, memory in _blamed(metadata.annotations or {})
    )


def _blamed(annotations: dict[str, str | None]) -> list[tuple[str, int]]:
    columns = [(annotations.get(key) or "").split(",") for key in (_CONTAINERS, _USAGE, _RESOURCE)]
    if len({len(column) for column in columns}) > 1:
        return []
    rows = zip(*columns, strict=True)
    return [(name, _parse_usage(text)) for name, text, kind in rows if kind == Resource.MEMORY]


def _parse_usage(text: str) -> int:
    try:
        return quantities.parse_amount(Resource.MEMORY, text)
    except quantities.QuantityError as error:
        raise DecodeError(f"metadata.annotations[{_USAGE}]", str(error)) from error


class _Metadata(Written, frozen=True, kw_only=True):
    name: str
    namespace: str


class _Preconditions(Written, frozen=True, kw_only=True):
    uid: str = ""
    resource_version: str = ""


class _DeleteOptions(Written, frozen=True, kw_only=True):
    preconditions: _Preconditions


class _Eviction(Written, frozen=True, kw_only=True):
    api_version: str
    kind: str
    metadata: _Metadata
    delete_options: _DeleteOptions


def encode_eviction(pod: Pod) -> bytes:
    """Return the JSON of an eviction that applies to exactly this version of the pod."""
    return codec.encode(
        _Eviction(
            api_version="policy/v1",
            kind="Eviction",
            metadata=_Metadata(name=pod.name, namespace=pod.namespace),
            delete_options=_DeleteOptions(
                preconditions=_Preconditions(uid=pod.uid, resource_version=pod.resource_version)
            ),
        )
    )
