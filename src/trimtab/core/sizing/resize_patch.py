"""Resizing in place: the patches that bring a running pod to its wanted resources.

There are two patches, since the API server takes resources only through the subresource `resize`,
and metadata only through the pod itself. Both contain only what changes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from trimtab.core.model import json_patch
from trimtab.core.model.json_patch import Add, Operation, Patch, Remove
from trimtab.core.model.limits import NO_AMOUNTS, qos_class
from trimtab.core.model.pods import IN_PLACE_UPDATED, Allocation, Container, Pod
from trimtab.core.model.resources import Resources
from trimtab.core.sizing.limit_ratios import note_proportions
from trimtab.core.sizing.new_pods.operations import resource_operations, zero_limits
from trimtab.core.sizing.startup_boost import annotation_name, boosted_containers

_TRUE: Final = "true"
_NOTHING: Final = Allocation()


class ResizeEffect(Enum):
    """Effect of a resize on a pod."""

    NONE = auto()
    SAME_QOS = auto()
    OTHER_QOS = auto()
    """The pod would get another QoS class, so the API server refuses it."""


@dataclass(frozen=True, slots=True)
class ResizePatch:
    """Patches that resize one pod in place."""

    resources: Patch
    """For `pods/<name>/resize`."""
    metadata: Patch
    """For the pod itself, once the first one went through."""
    keeps_qos: bool
    """True if the pod stays in its QoS class; the API server refuses the resize if not."""


def resize_patch(
    pod: Pod, wanted: Mapping[str, Allocation], *, ended_boosts: Iterable[str] = ()
) -> ResizePatch | None:
    """Return the patches that set the wanted resources; None if there is nothing to change.

    They also remove the marks of `ended_boosts`, even of containers that are gone. A resource with
    a limit of zero is left alone: the API server refuses a request above it, and it does not remove
    the limit of a running pod.
    """
    changes = _changes(pod, wanted)
    resources = tuple(
        operation
        for container, change in changes
        for operation in resource_operations(
            container,
            requests=change.requests or NO_AMOUNTS,
            limits=change.limits or NO_AMOUNTS,
        )
    )
    metadata = tuple(_metadata(pod, ended_boosts, changes if resources else ()))
    if not resources and not metadata:
        return None
    return ResizePatch(resources, metadata, keeps_qos=_keeps_qos(changes))


def resize_effect(pod: Pod, wanted: Mapping[str, Allocation]) -> ResizeEffect:
    """Return the effect of a resize to the wanted resources, without making the patches."""
    changes = _changes(pod, wanted)
    if not any(change.requests or change.limits for _, change in changes):
        return ResizeEffect.NONE
    return ResizeEffect.SAME_QOS if _keeps_qos(changes) else ResizeEffect.OTHER_QOS


def _changes(pod: Pod, wanted: Mapping[str, Allocation]) -> list[tuple[Container, Allocation]]:
    return [
        (container, _change(container, wanted.get(container.name, _NOTHING)))
        for container in pod.containers
    ]


def _change(container: Container, wanted: Allocation) -> Allocation:
    """Return the wanted amounts that differ from the spec and that it allows."""
    spec = container.spec
    requests, limits = wanted.requests or NO_AMOUNTS, wanted.limits or NO_AMOUNTS
    stuck = zero_limits(container, requests, limits)
    possible = {kind: amount for kind, amount in requests.items() if kind not in stuck}
    return Allocation(_other_than(spec.requests, possible), _other_than(spec.limits, limits))


def _other_than(present: Resources | None, wanted: Resources) -> Resources:
    given = present or NO_AMOUNTS
    return {kind: amount for kind, amount in wanted.items() if given.get(kind) != amount}


def _metadata(
    pod: Pod, ended_boosts: Iterable[str], changes: Sequence[tuple[Container, Allocation]]
) -> Iterator[Operation]:
    if changes and not (pod.annotations or pod.has_empty_annotations):
        yield Add(json_patch.pointer("metadata", "annotations"), {})
    notes = {IN_PLACE_UPDATED: _TRUE} if changes else {}
    boosted = boosted_containers(pod)
    for container, change in changes:
        # The limits of a boost are passing.
        if change.limits and container.name not in boosted:
            after = _changed(container.spec, change)
            notes.update([note] if (note := note_proportions(container, after)) else [])
    for name, text in notes.items():
        if pod.annotations.get(name) != text:
            yield Add(json_patch.pointer("metadata", "annotations", name), text)
    marks = {annotation_name(name) for name in ended_boosts}
    for name in sorted(marks & pod.annotations.keys()):
        yield Remove(json_patch.pointer("metadata", "annotations", name))


def _keeps_qos(changes: Iterable[tuple[Container, Allocation]]) -> bool:
    before, after = [], []
    for container, change in changes:
        before.append(container.spec)
        after.append(_changed(container.spec, change))
    return qos_class(before) is qos_class(after)


def _changed(spec: Allocation, change: Allocation) -> Allocation:
    return Allocation(
        {**(spec.requests or NO_AMOUNTS), **(change.requests or NO_AMOUNTS)},
        {**(spec.limits or NO_AMOUNTS), **(change.limits or NO_AMOUNTS)},
    )
