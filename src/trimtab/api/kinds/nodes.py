"""Nodes: their allocatable resources, labels and taints. Namespaces: their pause annotations."""

from typing import Final

import msgspec

from trimtab.api.wire import codec, metadata, quantities
from trimtab.api.wire.codec import Wire
from trimtab.api.wire.metadata import NO_METADATA, Metadata
from trimtab.api.wire.quantities import NOT_GIVEN, WireAmounts
from trimtab.core.model.nodes import Node, Taint
from trimtab.core.model.pods import PAUSED
from trimtab.core.model.resources import Resource
from trimtab.core.model.workloads import Namespace


class _Taint(Wire, frozen=True, kw_only=True):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


class _Spec(Wire, frozen=True, kw_only=True):
    taints: tuple[_Taint, ...] | None = None
    unschedulable: bool | None = None


class _Allocatable(WireAmounts, frozen=True, kw_only=True):
    pods: msgspec.Raw = NOT_GIVEN


class _Status(Wire, frozen=True, kw_only=True):
    allocatable: _Allocatable | None = None


class _Node(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None
    spec: _Spec | None = None
    status: _Status | None = None


_DECODER: Final = msgspec.json.Decoder(_Node)
_NO_SPEC: Final = _Spec()
_NO_STATUS: Final = _Status()
_THOUSAND: Final = 1000


def decode_node(data: bytes) -> Node:
    """Return the node in the JSON of one Node."""
    source = codec.decode(_DECODER, data)
    meta = source.metadata or NO_METADATA
    spec, status = source.spec or _NO_SPEC, source.status or _NO_STATUS
    return Node(
        name=meta.name or "",
        allocatable=quantities.decode_amounts(status.allocatable, "status.allocatable") or {},
        labels=metadata.text_map(meta.labels),
        taints=tuple(map(_convert_taint, spec.taints or ())),
        is_unschedulable=bool(spec.unschedulable),
        pod_slots=_pod_slots(status.allocatable),
    )


def _pod_slots(allocatable: _Allocatable | None) -> int | None:
    if allocatable is None or not quantities.is_given(allocatable.pods):
        return None
    # Decoded in thousandths, like millicores.
    return (
        quantities.decode_amount(Resource.CPU, allocatable.pods, "status.allocatable[pods]")
        // _THOUSAND
    )


def _convert_taint(taint: _Taint) -> Taint:
    return Taint(taint.key or "", taint.value or "", taint.effect or "")


class _Namespace(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None


_NAMESPACE_DECODER: Final = msgspec.json.Decoder(_Namespace)


def decode_namespace(data: bytes) -> Namespace:
    """Return the namespace in the JSON of one Namespace, with our annotations only."""
    meta = codec.decode(_NAMESPACE_DECODER, data).metadata or NO_METADATA
    annotations = metadata.text_map(meta.annotations)
    return Namespace(
        meta.name or "", {name: annotations[name] for name in (PAUSED,) if name in annotations}
    )
