"""HorizontalPodAutoscalers: their workloads, and the resources whose usage they scale on."""

from typing import Final

import msgspec

from trimtab.api.wire import codec
from trimtab.api.wire.codec import Wire
from trimtab.api.wire.metadata import NO_METADATA, Metadata
from trimtab.core.model.autoscalers import Held
from trimtab.core.model.hpa import Horizontal
from trimtab.core.model.resources import BOTH, Resource


class _Target(Wire, frozen=True, kw_only=True):
    kind: str | None = None
    name: str | None = None


class _Source(Wire, frozen=True, kw_only=True):
    name: str | None = None
    container: str | None = None


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
    """Return the record in the JSON of one HorizontalPodAutoscaler of `autoscaling/v2`."""
    source = codec.decode(_DECODER, data)
    metadata, spec = source.metadata or NO_METADATA, source.spec or _Spec()
    target = spec.scale_target_ref or _Target()
    metrics = spec.metrics or ()
    of_pods = [metric.resource for metric in metrics]
    of_containers = [metric.container_resource for metric in metrics]
    return Horizontal(
        metadata.namespace or "",
        metadata.name or "",
        target.kind or "",
        target.name or "",
        frozenset(Resource(each.name) for each in of_pods if each and each.name in BOTH),
        frozenset(
            Held(Resource(each.name), each.container or "")
            for each in of_containers
            if each and each.name in BOTH
        ),
    )
