"""VerticalPodAutoscalerCheckpoints, both ways, compatible with the original in both directions.

This module checks only the types of the content. `core/histogram/checkpoint` decides if the content
makes sense.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from trimtab.api.kinds.checkpoint_extras import SUPPLEMENT, decode_supplement
from trimtab.api.wire import codec, metadata, times
from trimtab.api.wire.codec import Int64, Wire, Written
from trimtab.api.wire.metadata import NO_METADATA, Metadata
from trimtab.api.wire.times import ZERO_TIME
from trimtab.core.histogram.checkpoint import AggregateCheckpoint, HistogramCheckpoint
from trimtab.core.model.size_bounds import MAX_NAME_CHARACTERS
from trimtab.core.usage.checkpoint_extras import Supplement

FINGERPRINT: Final = "trimtab/selector-fingerprint"
"""Annotation with the fingerprint of the selector whose pods a checkpoint describes (S27)."""

_OURS: Final = (FINGERPRINT, SUPPLEMENT)
_DIGEST_CHARACTERS: Final = 10
_API_VERSION: Final = "autoscaling.k8s.io/v1"
_KIND: Final = "VerticalPodAutoscalerCheckpoint"


class _Spec(Wire, frozen=True, kw_only=True):
    vpa_object_name: str | None = None
    container_name: str | None = None


class _Histogram(Wire, frozen=True, kw_only=True):
    reference_timestamp: str | None = None
    bucket_weights: dict[Int64, Int64] | None = None
    total_weight: float | None = None


class _Status(Wire, frozen=True, kw_only=True):
    last_update_time: str | None = None
    version: str | None = None
    cpu_histogram: _Histogram | None = None
    memory_histogram: _Histogram | None = None
    first_sample_start: str | None = None
    last_sample_start: str | None = None
    total_samples_count: Int64 | None = None


class _Checkpoint(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None
    spec: _Spec | None = None
    status: _Status | None = None


class _WrittenHistogram(Written, frozen=True, kw_only=True):
    reference_timestamp: str | None
    bucket_weights: dict[int, int] = msgspec.field(default_factory=dict)
    total_weight: float | None = None


class _WrittenStatus(Written, frozen=True, kw_only=True):
    last_update_time: str | None
    version: str = ""
    cpu_histogram: _WrittenHistogram
    memory_histogram: _WrittenHistogram
    first_sample_start: str | None
    last_sample_start: str | None
    total_samples_count: int = 0


class _WrittenMetadata(Written, frozen=True, kw_only=True):
    name: str
    namespace: str
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class _WrittenSpec(Written, frozen=True, kw_only=True):
    vpa_object_name: str
    container_name: str


class _WrittenCheckpoint(Written, frozen=True, kw_only=True):
    api_version: str
    kind: str
    metadata: _WrittenMetadata
    spec: _WrittenSpec
    status: _WrittenStatus


class _Annotated(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None


class _Named(Wire, frozen=True, kw_only=True):
    spec: _Spec | None = None


_DECODER: Final = msgspec.json.Decoder(_Checkpoint)
_METADATA_DECODER: Final = msgspec.json.Decoder(_Annotated)
_SPEC_DECODER: Final = msgspec.json.Decoder(_Named)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Stored histograms of one container of one autoscaler, with their object's names."""

    namespace: str
    autoscaler_name: str
    container_name: str
    aggregate: AggregateCheckpoint
    annotations: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    """Its own name as read; empty to write it under its usual name."""
    resource_version: str = ""
    """The version that was read; empty for one that is about to be written."""

    @property
    def written_name(self) -> str:
        """The name under which it is written: its own, or the usual one."""
        return self.name or self.usual_name

    @property
    def usual_name(self) -> str:
        """The name that the original gives it, unless that is too long for an object."""
        name = f"{self.autoscaler_name}-{self.container_name}"
        # The API server refuses a longer name.
        return name if len(name) <= MAX_NAME_CHARACTERS else self.spare_name

    @property
    def spare_name(self) -> str:
        """The name to use if another checkpoint has the usual name.

        `web` has a container `api-x` where `web-api` has a container `x`.
        """
        key = f"{self.autoscaler_name}/{self.container_name}"
        tail = "-" + hashlib.sha256(key.encode()).hexdigest()[:_DIGEST_CHARACTERS]
        # Cut before the digest, so that names stay readable; the digest alone keeps them apart.
        head = f"{self.autoscaler_name}-{self.container_name}"[: MAX_NAME_CHARACTERS - len(tail)]
        return head.rstrip("-.") + tail

    @property
    def fingerprint(self) -> str | None:
        """Fingerprint of the selector whose pods it describes; None for all pods of the target."""
        return self.annotations.get(FINGERPRINT)

    @property
    def supplement(self) -> Supplement | None:
        """The supplement in the annotations, as far as it matches the status; None without one."""
        return decode_supplement(self.annotations, self.aggregate.last_update_time)


def decode_checkpoint(data: bytes) -> Checkpoint:
    """Return the checkpoint in the JSON of one VerticalPodAutoscalerCheckpoint of any version."""
    source = codec.decode(_DECODER, data)
    meta = source.metadata or NO_METADATA
    spec = source.spec or _Spec()
    return Checkpoint(
        namespace=meta.namespace or "",
        autoscaler_name=spec.vpa_object_name or "",
        container_name=spec.container_name or "",
        aggregate=_convert_status(source.status or _Status()),
        annotations=metadata.text_map(meta.annotations),
        name=meta.name or "",
        resource_version=meta.resource_version or "",
    )


def decode_checkpoint_annotations(data: bytes) -> Mapping[str, str]:
    """Return the annotations in the JSON of a checkpoint, even if the rest is invalid."""
    meta = codec.decode(_METADATA_DECODER, data).metadata or NO_METADATA
    return metadata.text_map(meta.annotations)


def is_of_another(data: bytes, checkpoint: Checkpoint) -> bool:
    """Return True if the JSON is that of a checkpoint of another autoscaler or container."""
    spec = codec.decode(_SPEC_DECODER, data).spec or _Spec()
    autoscaler, container = spec.vpa_object_name, spec.container_name
    # Without names in its spec, the object's own name identifies it as ours.
    return (autoscaler or checkpoint.autoscaler_name, container or checkpoint.container_name) != (
        checkpoint.autoscaler_name,
        checkpoint.container_name,
    )


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Return the JSON of the whole object, to create it."""
    return codec.encode(
        _WrittenCheckpoint(
            api_version=_API_VERSION,
            kind=_KIND,
            metadata=_WrittenMetadata(
                name=checkpoint.written_name,
                namespace=checkpoint.namespace,
                annotations=dict(checkpoint.annotations),
            ),
            spec=_WrittenSpec(
                vpa_object_name=checkpoint.autoscaler_name,
                container_name=checkpoint.container_name,
            ),
            status=_write_status(checkpoint.aggregate),
        )
    )


def encode_checkpoint_patch(checkpoint: Checkpoint, *, stored: Mapping[str, str]) -> bytes:
    """Return the JSON Patch that overwrites a checkpoint; `stored` are its current annotations.

    Our annotations change only where they differ, and other annotations stay.
    """
    status = _write_status(checkpoint.aggregate)
    # "add" and not "replace": replace fails where the member is missing (RFC 6902, 4.3).
    operations: list[dict[str, object]] = [{"op": "add", "path": "/status", "value": status}]
    annotations = _replace_ours(stored, checkpoint.annotations)
    if annotations != stored:
        operations.append({"op": "add", "path": "/metadata/annotations", "value": annotations})
    return codec.encode(operations)


def _replace_ours(stored: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    others = {key: value for key, value in stored.items() if key not in _OURS}
    return others | {key: wanted[key] for key in _OURS if key in wanted}


def _convert_status(source: _Status) -> AggregateCheckpoint:
    return AggregateCheckpoint(
        cpu_histogram=_convert_histogram(source.cpu_histogram, "status.cpuHistogram"),
        memory_histogram=_convert_histogram(source.memory_histogram, "status.memoryHistogram"),
        first_sample_start=_set_time(source.first_sample_start, "status.firstSampleStart"),
        last_sample_start=_set_time(source.last_sample_start, "status.lastSampleStart"),
        total_samples_count=source.total_samples_count or 0,
        last_update_time=_set_time(source.last_update_time, "status.lastUpdateTime"),
        version=source.version or "",
    )


def _convert_histogram(source: _Histogram | None, path: str) -> HistogramCheckpoint:
    if source is None:
        return HistogramCheckpoint()
    return HistogramCheckpoint(
        reference_time=_set_time(source.reference_timestamp, f"{path}.referenceTimestamp"),
        bucket_weights=source.bucket_weights or {},
        total_weight=source.total_weight or 0.0,
    )


def _set_time(text: str | None, path: str) -> datetime | None:
    moment = times.decode_time(text, path)
    # The original writes its zero time in some fields and null in others: both mean "never".
    return None if moment == ZERO_TIME else moment


def _write_status(aggregate: AggregateCheckpoint) -> _WrittenStatus:
    return _WrittenStatus(
        last_update_time=_write_time(aggregate.last_update_time),
        version=aggregate.version,
        cpu_histogram=_write_histogram(aggregate.cpu_histogram),
        memory_histogram=_write_histogram(aggregate.memory_histogram),
        first_sample_start=_write_time(aggregate.first_sample_start),
        last_sample_start=_write_time(aggregate.last_sample_start),
        total_samples_count=aggregate.total_samples_count,
    )


def _write_histogram(histogram: HistogramCheckpoint) -> _WrittenHistogram:
    return _WrittenHistogram(
        reference_timestamp=_write_time(histogram.reference_time),
        bucket_weights=dict(histogram.bucket_weights),
        total_weight=histogram.total_weight or None,
    )


def _write_time(moment: datetime | None) -> str | None:
    return None if moment is None else times.format_time(moment)
