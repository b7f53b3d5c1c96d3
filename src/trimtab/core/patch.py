"""Admission: pod and autoscaler in, the patch that gives a new pod its resources out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from trimtab.core.allocations import Allotment, controls_limits, is_off, recommended_for_pod
from trimtab.core.annotations import OBSERVED_CONTAINERS, UPDATES, format_observed_containers
from trimtab.core.autoscalers import Autoscaler, effective_boost
from trimtab.core.boost import annotation_name, boost_cpu, format_original
from trimtab.core.gates import FeatureGates
from trimtab.core.limit_ranges import LimitRangeItem
from trimtab.core.limits import NO_AMOUNTS, without_negatives
from trimtab.core.notes import ContainerUpdate, format_updates
from trimtab.core.operations import Add, Operation, Patch, Remove, pointer
from trimtab.core.pods import Allocation, Container, ContainerKind, Pod
from trimtab.core.quantities import format_amount
from trimtab.core.resources import BOTH, Resource, Resources


def admission_patch(
    pod: Pod,
    autoscaler: Autoscaler | None,
    *,
    gates: FeatureGates,
    limit_ranges: Sequence[LimitRangeItem] = (),
    max_boost_millicores: int | None = None,
) -> Patch:
    """What to change in a pod that is being created; nothing if no autoscaler governs it."""
    if autoscaler is None:
        return ()
    recommended = recommended_for_pod(pod, autoscaler, limit_ranges)
    wishes = []
    for container in pod.containers:
        wish = _Wish(container, recommended.get(container.name, Allotment()))
        if gates.cpu_startup_boost:
            wish = _boost(wish, autoscaler, max_boost_millicores)
        wishes.append(wish)
    return tuple(_operations(pod, autoscaler.name, wishes))


def resource_operations(
    container: Container, *, requests: Resources, limits: Resources
) -> Iterator[Operation]:
    """The operations that set amounts in the container's spec, and make the maps they need."""
    own = container.spec
    path = ("spec", container.kind, container.index, "resources")
    if _is_bare(container) and (requests or limits):
        yield Add(pointer(*path), {})
    yield from _map_operations((*path, "requests"), own.requests, requests)
    yield from _map_operations((*path, "limits"), own.limits, limits)


def zero_limits(container: Container, requests: Resources, limits: Resources) -> set[Resource]:
    """Of what resources the container keeps a limit of zero, above which no request is valid."""
    own = container.spec.limits or NO_AMOUNTS
    return {kind for kind in requests if own.get(kind, 1) <= 0 < requests[kind]} - limits.keys()


def _map_operations(
    path: tuple[str | int, ...], present: Resources | None, wanted: Resources
) -> Iterator[Operation]:
    if wanted and present is None:
        yield Add(pointer(*path), {})
    yield from (
        Add(pointer(*path, kind), format_amount(kind, wanted[kind]))
        for kind in BOTH
        if kind in wanted
    )


@dataclass(frozen=True, slots=True)
class _Wish:
    """What a container of a new pod shall get."""

    container: Container
    recommended: Allotment
    is_boosted: bool = False
    is_left_alone: bool = False


def _boost(wish: _Wish, autoscaler: Autoscaler, max_millicores: int | None) -> _Wish:
    """The wish with the boost that the container gets, if any.

    A container in mode Off is boosted over its own request and otherwise left alone (D5).
    """
    container = wish.container
    if is_off(autoscaler, container):
        wish = _Wish(container, Allotment(), is_left_alone=True)
    boost = effective_boost(autoscaler, container.name)
    boosted = boost and boost_cpu(
        _asked_for(container),
        boost,
        recommended_millicores=wish.recommended.requests.get(Resource.CPU),
        controls_limits=controls_limits(autoscaler, container),
        max_millicores=max_millicores,
    )
    if not boosted:
        return wish
    return _Wish(
        container,
        _raise_cpu(wish.recommended, boosted.request_millicores, boosted.limit_millicores),
        is_boosted=True,
    )


def _asked_for(container: Container) -> Allocation:
    """What the pod spec asks for; the API server has not yet refused amounts below zero."""
    requests, limits = container.spec.requests, container.spec.limits
    return Allocation(
        without_negatives(requests or NO_AMOUNTS), without_negatives(limits or NO_AMOUNTS)
    )


def _raise_cpu(recommended: Allotment, request: int, limit: int | None) -> Allotment:
    limits = dict(recommended.limits)
    if limit is not None:
        limits[Resource.CPU] = limit
    elif Resource.CPU in limits:
        # It comes from the namespace's default and knows nothing of the boost.
        limits[Resource.CPU] = max(limits[Resource.CPU], request)
    requests = {**recommended.requests, Resource.CPU: request}
    return replace(recommended, requests=requests, limits=limits)


def _operations(pod: Pod, autoscaler_name: str, wishes: Sequence[_Wish]) -> Iterator[Operation]:
    if not (pod.annotations or pod.has_empty_annotations):
        yield Add(pointer("metadata", "annotations"), {})
    updates = []
    for wish in wishes:
        if wish.is_boosted:
            name = annotation_name(wish.container.name)
            yield _annotate(name, format_original(_asked_for(wish.container)))
        operations = _container_operations(wish)
        yield from operations
        if operations:
            updates.append(_update(wish))
    if updates:
        yield _annotate(UPDATES, format_updates(autoscaler_name, updates))
    yield _annotate(OBSERVED_CONTAINERS, format_observed_containers(pod.containers))


def _container_operations(wish: _Wish) -> Patch:
    container, recommended = wish.container, wish.recommended
    requests, limits = recommended.requests, recommended.limits
    path = ("spec", container.kind, container.index, "resources", "limits")
    operations = (
        *resource_operations(container, requests=requests, limits=limits),
        # A limit of zero bounds nothing, but would make the pod invalid.
        *(
            Remove(pointer(*path, kind))
            for kind in sorted(zero_limits(container, requests, limits))
        ),
    )
    is_regular = container.kind is ContainerKind.REGULAR
    if is_regular and _is_bare(container) and not operations and not wish.is_left_alone:
        # The original opens the map before it knows what to put there, and tells of it.
        return (Add(pointer("spec", container.kind, container.index, "resources"), {}),)
    return operations


def _is_bare(container: Container) -> bool:
    return container.spec == Allocation() and not container.has_claims


def _update(wish: _Wish) -> ContainerUpdate:
    recommended = wish.recommended
    return ContainerUpdate(
        wish.container,
        requests=tuple(kind for kind in BOTH if kind in recommended.requests),
        limits=tuple(kind for kind in BOTH if kind in recommended.limits),
        notes=recommended.notes,
    )


def _annotate(name: str, value: str) -> Operation:
    return Add(pointer("metadata", "annotations", name), value)
