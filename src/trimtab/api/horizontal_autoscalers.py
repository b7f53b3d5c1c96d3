"""HorizontalPodAutoscalers: which workload they scale, and on the use of which resources."""

from collections.abc import Iterator
from typing import Final

import msgspec

from trimtab.api.decoding import Wire, decode
from trimtab.api.metadata import NO_METADATA, Metadata
from trimtab.core.diagnosis_bounds import Horizontal
from trimtab.core.resources import BOTH, Resource


class _Target(Wire, frozen=True, kw_only=True):
    kind: str | None = None
    name: str | None = None


class _Aim(Wire, frozen=True, kw_only=True):
    type: str | None = None


class _Source(Wire, frozen=True, kw_only=True):
    name: str | None = None
    target: _Aim | None = None


class _Metric(Wire, frozen=True, kw_only=True):
    resource: _Source | None = None
    container_resource: _Source | None = None


class _Spec(Wire, frozen=True, kw_only=True):
    scale_target_ref: _Target | None = None
    metrics: tuple[_Metric, ...] | None = None


class _Horizontal(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None
    spec: _Spec | None = None


_DECODER: Final = msgspec.json.Decoder(_Horizontal)


def decode_horizontal(data: bytes) -> Horizontal:
    """The record in the JSON of one HorizontalPodAutoscaler of `autoscaling/v2`."""
    source = decode(_DECODER, data)
    metadata, spec = source.metadata or NO_METADATA, source.spec or _Spec()
    target = spec.scale_target_ref or _Target()
    return Horizontal(
        metadata.namespace or "",
        metadata.name or "",
        target.kind or "",
        target.name or "",
        frozenset(_resources(spec.metrics or ())),
    )


def _resources(metrics: tuple[_Metric, ...]) -> Iterator[Resource]:
    for metric in metrics:
        for source in (metric.resource, metric.container_resource):
            if source is not None and source.name in BOTH:
                yield Resource(source.name)
