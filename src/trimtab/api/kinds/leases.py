"""Leases: their holders and durations, both ways."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from trimtab.api.wire import codec, times
from trimtab.api.wire.codec import Int32, Wire, Written
from trimtab.api.wire.metadata import NO_METADATA, Metadata


class _Spec(Wire, frozen=True, kw_only=True):
    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: Int32 | None = None


class _Lease(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None
    spec: _Spec | None = None


class _WrittenMetadata(Written, frozen=True, kw_only=True):
    name: str
    namespace: str
    resource_version: str = ""


class _WrittenSpec(Written, frozen=True, kw_only=True):
    holder_identity: str = ""
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _WrittenLease(Written, frozen=True, kw_only=True):
    api_version: str
    kind: str
    metadata: _WrittenMetadata
    spec: _WrittenSpec


_DECODER: Final = msgspec.json.Decoder(_Lease)


@dataclass(frozen=True, slots=True)
class Lease:
    """One Lease."""

    namespace: str
    name: str
    resource_version: str = ""
    """The version that an update replaces; empty for a lease that is created."""
    created_at: datetime | None = None
    holder: str = ""
    duration: timedelta | None = None
    acquired_at: datetime | None = None
    renewed_at: datetime | None = None
    transitions: int | None = None
    """Number of changes of the holder."""


def decode_lease(data: bytes) -> Lease:
    """Return the lease in the JSON of one Lease."""
    source = codec.decode(_DECODER, data)
    metadata = source.metadata or NO_METADATA
    spec = source.spec or _Spec()
    seconds = spec.lease_duration_seconds
    return Lease(
        namespace=metadata.namespace or "",
        name=metadata.name or "",
        resource_version=metadata.resource_version or "",
        created_at=times.decode_time(metadata.creation_timestamp, "metadata.creationTimestamp"),
        holder=spec.holder_identity or "",
        duration=None if seconds is None else timedelta(seconds=seconds),
        acquired_at=times.decode_time(spec.acquire_time, "spec.acquireTime"),
        renewed_at=times.decode_time(spec.renew_time, "spec.renewTime"),
        transitions=spec.lease_transitions,
    )


def encode_lease(lease: Lease) -> bytes:
    """Return the JSON of the lease, to create it or to replace the version that it names."""
    seconds = None if lease.duration is None else lease.duration // timedelta(seconds=1)
    return codec.encode(
        _WrittenLease(
            api_version="coordination.k8s.io/v1",
            kind="Lease",
            metadata=_WrittenMetadata(
                name=lease.name,
                namespace=lease.namespace,
                resource_version=lease.resource_version,
            ),
            spec=_WrittenSpec(
                holder_identity=lease.holder,
                lease_duration_seconds=seconds,
                acquire_time=_write_time(lease.acquired_at),
                renew_time=_write_time(lease.renewed_at),
                lease_transitions=lease.transitions,
            ),
        )
    )


def _write_time(moment: datetime | None) -> str | None:
    return None if moment is None else times.format_micro_time(moment)
