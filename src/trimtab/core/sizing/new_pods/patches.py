"""The patch that gives a new pod its sizes, marks and annotations."""

from collections.abc import Sequence
from typing import Final

from trimtab.core.model import cap_notes, json_patch, pods
from trimtab.core.model.cap_notes import ContainerUpdate
from trimtab.core.model.json_patch import Add, Operation, Remove
from trimtab.core.model.pods import OBSERVED_CONTAINERS, UPDATES, ContainerKind, Pod
from trimtab.core.model.resources import BOTH, Resources
from trimtab.core.sizing import startup_boost
from trimtab.core.sizing.new_pods import operations
from trimtab.core.sizing.new_pods.container_sizes import ContainerSize

_ANNOTATIONS: Final = json_patch.pointer("metadata", "annotations")
_UPDATES_PATH: Final = json_patch.pointer("metadata", "annotations", UPDATES)
_OBSERVED_PATH: Final = json_patch.pointer("metadata", "annotations", OBSERVED_CONTAINERS)


def list_operations(
    pod: Pod, autoscaler_name: str, wishes: Sequence[ContainerSize], *, unmarks: bool
) -> list[Operation]:
    """Return the operations that give a new pod its sizes, and say what they did."""
    found: list[Operation] = []
    if not (pod.annotations or pod.has_empty_annotations):
        found.append(Add(_ANNOTATIONS, {}))
    updates = []
    for wish in wishes:
        if wish.share.span is not None and wish.is_boosted and not wish.is_marked:
            name = startup_boost.annotation_name(wish.container.name)
            found.append(_annotate(name, startup_boost.format_original(wish.own, wish.share.usual)))
        requests, limits = wish.amounts()
        changes = _container_operations(wish, requests, limits)
        found += changes
        if changes or wish.boost_notes or (wish.is_refused and wish.notes):
            updates.append(_update(wish, requests, limits))
    marked = startup_boost.marked_containers(pod) if unmarks else ()
    if marked:
        kept = {wish.container.name for wish in wishes if wish.keeps_mark}
        found += [unmark(name) for name in marked if name not in kept]
    if updates:
        found.append(Add(_UPDATES_PATH, cap_notes.format_updates(autoscaler_name, updates)))
    found.append(Add(_OBSERVED_PATH, pods.format_observed_containers(pod.containers)))
    return found


def _container_operations(
    wish: ContainerSize, requests: Resources, limits: Resources
) -> list[Operation]:
    container = wish.container
    kind, index = container.kind, container.index
    found = operations.resource_operations(container, requests=requests, limits=limits)
    if container.spec.limits:
        # A limit of zero bounds nothing, but would make the pod invalid.
        found += [
            Remove(operations.resource_path(kind, index, "limits", each))
            for each in sorted(operations.zero_limits(container, requests, limits))
        ]
    is_regular = kind is ContainerKind.REGULAR
    if not found and is_regular and operations.is_bare(container) and not wish.is_left_alone:
        # The original creates the map before it knows what to put there, and reports it.
        return [Add(operations.resource_path(kind, index), {})]
    return found


def _update(wish: ContainerSize, requests: Resources, limits: Resources) -> ContainerUpdate:
    return ContainerUpdate(
        wish.container,
        tuple([kind for kind in BOTH if kind in requests]),
        tuple([kind for kind in BOTH if kind in limits]) if limits else (),
        wish.notes,
    )


def unmark(container_name: str) -> Operation:
    """Return the operation that removes the mark of a boost."""
    return Remove(
        json_patch.pointer("metadata", "annotations", startup_boost.annotation_name(container_name))
    )


def _annotate(name: str, value: str) -> Operation:
    return Add(json_patch.pointer("metadata", "annotations", name), value)
