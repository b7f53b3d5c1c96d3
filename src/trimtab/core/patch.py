"""Admission: pod and autoscaler in, the patch that gives a new pod its resources out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from trimtab.core.allocations import Allotment, controls_limits, is_off, recommended_for_pod
from trimtab.core.annotations import OBSERVED_CONTAINERS, UPDATES, format_observed_containers
from trimtab.core.autoscalers import Autoscaler, effective_boost, holds
from trimtab.core.boost import annotation_name, boost_cpu, format_original, parse_original
from trimtab.core.envelopes import find_misfits
from trimtab.core.gates import FeatureGates
from trimtab.core.limit_ranges import LimitRangeItem
from trimtab.core.limits import NO_AMOUNTS, amount_of, without_negatives
from trimtab.core.node_room import cpu_room
from trimtab.core.notes import ContainerUpdate, format_updates
from trimtab.core.operations import Add, Operation, Patch, Remove, pointer
from trimtab.core.pods import Allocation, Container, ContainerKind, Pod
from trimtab.core.quantities import format_amount
from trimtab.core.records import dataclass
from trimtab.core.resources import BOTH, Resource, Resources


@dataclass(frozen=True, slots=True)
class Sizing:
    """What a new pod gets."""

    patch: Patch = ()
    misfits: tuple[str, ...] = ()
    """Containers that get nothing, because the resources of the pod itself leave no room for it."""


def admission_patch(
    pod: Pod,
    autoscaler: Autoscaler | None,
    *,
    gates: FeatureGates,
    limit_ranges: Sequence[LimitRangeItem] = (),
    max_boost_millicores: int | None = None,
) -> Patch:
    """What to change in a pod that is being created; nothing if no autoscaler governs it."""
    return size_pod(
        pod,
        autoscaler,
        gates=gates,
        limit_ranges=limit_ranges,
        max_boost_millicores=max_boost_millicores,
    ).patch


def size_pod(
    pod: Pod,
    autoscaler: Autoscaler | None,
    *,
    gates: FeatureGates,
    limit_ranges: Sequence[LimitRangeItem] = (),
    max_boost_millicores: int | None = None,
) -> Sizing:
    """What a pod that is being created gets, and which of its containers get nothing.

    A pod may come by twice, or be a copy of one that did: a boost that it brings along is not
    boosted again, so that the second patch changes nothing.
    """
    if autoscaler is None:
        return Sizing()
    door = _Door(autoscaler, gates.cpu_startup_boost, limit_ranges, max_boost_millicores)
    originals = _originals(pod) if gates.cpu_startup_boost else {}
    wishes = door.wishes(pod, originals)
    if stale := {wish.container.name for wish in wishes if _asks_for_more(wish)}:
        known = {name: found for name, found in originals.items() if name not in stale}
        wishes = door.wishes(pod, known)
    misfits = find_misfits(pod, {wish.container.name: wish.recommended for wish in wishes})
    if misfits:
        wishes = [_give_up(wish) if wish.container.name in misfits else wish for wish in wishes]
    return Sizing(tuple(_operations(pod, autoscaler.name, wishes)), misfits)


def likeness(pod: Pod) -> tuple[object, ...]:
    """What is equal for pods that get the same from an autoscaler: nothing else of them counts."""
    annotations = pod.annotations, pod.has_empty_annotations
    return pod.containers, *annotations, pod.envelope, pod.placement, pod.overhead


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
    own: Allocation
    """What it asks for, without a boost that it brings along."""
    recommended: Allotment
    is_boosted: bool = False
    is_marked: bool = False
    """Whether the pod says already what the container asked for before its boost."""
    is_left_alone: bool = False

    def amount(self, kind: Resource) -> int:
        """What the container will request of the resource."""
        wanted = self.recommended.requests
        return amount_of(wanted if kind in wanted else self.own.requests, kind)


@dataclass(frozen=True, slots=True)
class _Door:
    """Through which the pods of an autoscaler come, and all that decides what they get."""

    autoscaler: Autoscaler
    boosts: bool
    limit_ranges: Sequence[LimitRangeItem]
    max_boost_millicores: int | None

    def wishes(self, pod: Pod, originals: Mapping[str, Allocation]) -> list[_Wish]:
        """What each container shall get, given what boosted ones asked for originally."""
        asked = [_as_asked_for(one, originals.get(one.name)) for one in pod.containers]
        is_same = all(one is own for one, own in zip(pod.containers, asked, strict=True))
        recommended = recommended_for_pod(
            pod if is_same else replace(pod, containers=tuple(asked)),
            self.autoscaler,
            self.limit_ranges,
        )
        wishes = []
        for container, own in zip(pod.containers, asked, strict=True):
            wish = _Wish(
                container,
                own.spec,
                recommended.get(container.name, Allotment()),
                is_marked=container.name in originals,
                is_left_alone=is_off(self.autoscaler, container),
            )
            wishes.append(wish)
        return self._boost_all(wishes) if self.boosts else wishes

    def _boost_all(self, wishes: Sequence[_Wish]) -> list[_Wish]:
        """The wishes with their boosts, as far as some node has room for all of them (F26)."""
        most = self.max_boost_millicores
        boosted = [self._boost(wish, most) for wish in wishes]
        room = cpu_room(self.limit_ranges, sum(wish.amount(Resource.MEMORY) for wish in wishes))
        usual, asked = _total_cpu(wishes), _total_cpu(boosted)
        if room is None or asked <= max(room, usual):
            return boosted
        left = max(room - usual, 0)
        return [
            # Of each boost the same share; to allow nothing would be to allow anything.
            self._boost(wish, max(least + extra * left // (asked - usual), 1))
            for wish, more in zip(wishes, boosted, strict=True)
            for least in (wish.amount(Resource.CPU),)
            for extra in (more.amount(Resource.CPU) - least,)
        ]

    def _boost(self, wish: _Wish, most: int | None) -> _Wish:
        """The wish with the boost that the container gets, if any, also in mode Off (D5)."""
        container = wish.container
        if holds(self.autoscaler, container.name, Resource.CPU):
            return wish
        boost = effective_boost(self.autoscaler, container.name)
        boosted = boost and boost_cpu(
            wish.own,
            boost,
            recommended_millicores=wish.recommended.requests.get(Resource.CPU),
            controls_limits=controls_limits(self.autoscaler, container),
            max_millicores=most,
        )
        if not boosted:
            return wish
        raised = _raise_cpu(wish.recommended, boosted.request_millicores, boosted.limit_millicores)
        return replace(wish, recommended=raised, is_boosted=True)


def _total_cpu(wishes: Iterable[_Wish]) -> int:
    return sum(wish.amount(Resource.CPU) for wish in wishes)


def _give_up(wish: _Wish) -> _Wish:
    return replace(wish, recommended=Allotment(), is_boosted=False, is_left_alone=True)


def _originals(pod: Pod) -> Mapping[str, Allocation]:
    """By container what it asked for before it was boosted, where a mark says so."""
    marks = {one.name: pod.annotations.get(annotation_name(one.name)) for one in pod.containers}
    found = {name: parse_original(mark) for name, mark in marks.items() if mark is not None}
    return {name: original for name, original in found.items() if original is not None}


def _asks_for_more(wish: _Wish) -> bool:
    """Whether the container's mark is not its own: no boost ever lowers a container (D7)."""
    granted = wish.recommended.requests.get(Resource.CPU, 0) if wish.is_boosted else 0
    return wish.is_marked and amount_of(wish.container.spec.requests, Resource.CPU) > granted


def _as_asked_for(container: Container, original: Allocation | None) -> Container:
    """The container before its boost; the API server has not yet refused what is below zero."""
    requests, limits = container.spec.requests or NO_AMOUNTS, container.spec.limits or NO_AMOUNTS
    if original is None and not any(
        amount < 0 for amount in (*requests.values(), *limits.values())
    ):
        return container
    if original is not None:
        requests = _with_cpu(requests, original.requests or NO_AMOUNTS)
        limits = _with_cpu(limits, original.limits or NO_AMOUNTS)
    return replace(
        container, spec=Allocation(without_negatives(requests), without_negatives(limits))
    )


def _with_cpu(amounts: Resources, original: Resources) -> Resources:
    return {
        kind: source[kind]
        for kind, source in ((Resource.CPU, original), (Resource.MEMORY, amounts))
        if kind in source
    }


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
        if wish.is_boosted and not wish.is_marked:
            name = annotation_name(wish.container.name)
            yield _annotate(name, format_original(wish.own))
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
