"""Coverage of an autoscaler: its target and its selector, and nothing else of the object.

A tenant controls the size of an autoscaler object. Of autoscalers that are not stored yet, the
webhook keeps the coverage alone, as bytes of known size.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from trimtab.api.kinds import autoscaler_wire as wire
from trimtab.api.kinds.selectors import Expression, LabelSelector, convert_selector
from trimtab.api.wire.metadata import NO_METADATA, Metadata
from trimtab.core.model import selectors
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName
from trimtab.core.model.pods import WorkloadName
from trimtab.core.model.selectors import Selector

_DECODER: Final = msgspec.json.Decoder(LabelSelector | None)
_RECORD_BYTES: Final = 1024
"""Generous size of the records around the texts."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Target and selector of an autoscaler."""

    workload: WorkloadName
    selector: bytes
    """JSON of the selector; `null` if there is none."""
    digest: str | None
    """Equal for selectors that match the same pods; None for all pods."""

    @property
    def size_bytes(self) -> int:
        """Size in memory, rounded up."""
        texts = sum(len(part.encode()) for part in self.workload)
        return texts + len(self.selector) + _RECORD_BYTES

    def as_written(self, name: AutoscalerName) -> wire.VerticalPodAutoscaler:
        """Return an autoscaler of that name with this target and selector."""
        target = wire.Target(kind=self.workload.kind, name=self.workload.name)
        return wire.VerticalPodAutoscaler(
            metadata=Metadata(namespace=name.namespace, name=name.name),
            spec=wire.Spec(target_ref=target, selector=_DECODER.decode(self.selector)),
        )


def cover_wire(autoscaler: wire.VerticalPodAutoscaler) -> Coverage | None:
    """Return the coverage of a valid autoscaler on the wire; None without a target."""
    spec = autoscaler.spec or wire.Spec()
    target = spec.target_ref
    if target is None or not target.kind or not target.name:
        return None
    workload = WorkloadName(name_of(autoscaler).namespace, target.kind, target.name)
    return _cover(workload, spec.selector, convert_selector(spec.selector, "spec.selector"))


def cover(autoscaler: Autoscaler) -> Coverage | None:
    """Return the coverage of a stored autoscaler; None without a target."""
    target = autoscaler.target
    if target is None:
        return None
    workload = WorkloadName(autoscaler.namespace, target.kind, target.name)
    return _cover(workload, _write_selector(autoscaler.selector), autoscaler.selector)


def name_of(autoscaler: wire.VerticalPodAutoscaler) -> AutoscalerName:
    """Return the identity of an autoscaler; its name is empty while it has none."""
    metadata = autoscaler.metadata or NO_METADATA
    return AutoscalerName(metadata.namespace or "", metadata.name or "")


def _cover(
    workload: WorkloadName, written: LabelSelector | None, selector: Selector | None
) -> Coverage:
    return Coverage(workload, msgspec.json.encode(written), selectors.fingerprint(selector))


def _write_selector(selector: Selector | None) -> LabelSelector | None:
    if selector is None:
        return None
    written = selector.requirements
    return LabelSelector(
        match_labels={one.key: one.values[0] for one in written if one.is_equality},
        match_expressions=tuple(
            Expression(key=one.key, operator=one.operator.value, values=tuple(sorted(one.values)))
            for one in written
            if not one.is_equality
        ),
    )
