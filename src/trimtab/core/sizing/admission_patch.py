"""Admission: pod and autoscaler in, the patch that gives a new pod its resources out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import Final

import msgspec
from msgspec import structs

from trimtab.core.model import autoscalers
from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.cap_notes import Note, NoteKind
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.json_patch import Patch
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType, effective_item
from trimtab.core.model.limits import NO_AMOUNTS, amount_of, without_negatives
from trimtab.core.model.pods import (
    Allocation,
    Container,
    Pod,
    TargetResources,
)
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.sizing.boost_room import BoostRoom, share_of
from trimtab.core.sizing.container_resources import (
    Allotment,
    controls_limits,
    is_off,
    recommended_for_pod,
)
from trimtab.core.sizing.mistaken_targets import list_mistakes
from trimtab.core.sizing.new_pods import acceptance, container_sizes, patches
from trimtab.core.sizing.new_pods.container_sizes import ContainerSize
from trimtab.core.sizing.pod_level_resources import find_misfits
from trimtab.core.sizing.quota_check import (
    claims_on,
    find_refusal,
)
from trimtab.core.sizing.quotas import Claims
from trimtab.core.sizing.refusals import Offer, Withheld
from trimtab.core.sizing.startup_boost import (
    BoostError,
    BoostSpan,
    annotation_name,
    believes_marks,
    marked_containers,
    parse_original,
    span_boost,
    with_cpu_of,
)

_NO_ALLOTMENT: Final = Allotment()
_ENDLESS: Final = BoostRoom()
_NO_OFFER: Final = Offer()


class Sizing(msgspec.Struct, frozen=True, gc=False):
    """Result of sizing a new pod."""

    patch: Patch = ()
    misfits: tuple[str, ...] = ()
    """Containers that get nothing, because the resources of the pod itself leave no room for it."""
    notes: Mapping[str, tuple[Note, ...]] = msgspec.field(default_factory=dict)
    """By container, the notes on what changed its recommendation and its boost."""
    claims: Mapping[str, Claims] = msgspec.field(default_factory=dict)
    """By the name of each quota that counts the pod, the amounts that the pod takes from it."""
    offer: Offer = _NO_OFFER
    """Summary of the amounts that the pod gets."""
    withheld: Withheld = Withheld.NOTHING
    """Part that the pod does not get, since pods of its owner with it were never created."""


def admission_patch(
    pod: Pod,
    autoscaler: Autoscaler | None,
    *,
    gates: FeatureGates,
    limit_ranges: Sequence[LimitRangeItem] = (),
    max_boost_millicores: int | None = None,
) -> Patch:
    """Return the patch of a new pod; without an autoscaler it only removes marks of boosts."""
    room = BoostRoom(limit_ranges, max_boost_millicores)
    return size_pod(pod, autoscaler, gates=gates, room=room).patch


def size_pod(
    pod: Pod,
    autoscaler: Autoscaler | None,
    *,
    gates: FeatureGates,
    room: BoostRoom = _ENDLESS,
) -> Sizing:
    """Size a pod that is being created, and name its containers that get nothing.

    Admission may see a pod twice, or see a copy of a pod that it has changed. A boost that the pod
    brings along is not boosted again, so the second patch changes nothing.
    """
    if autoscaler is None:
        return unmark_pod(pod, gates=gates)
    door = _PodSizer(autoscaler, gates.cpu_startup_boost, room)
    wishes, misfits = door.grant(pod)
    notes = {wish.container.name: found for wish in wishes if (found := wish.notes)}
    patch = tuple(
        patches.list_operations(pod, autoscaler.name, wishes, unmarks=gates.cpu_startup_boost)
    )
    claims = _claims(pod, wishes, room) if room.quotas else {}
    return Sizing(patch, misfits, notes, claims, _offer(wishes, patch), room.withheld)


def unmark_pod(pod: Pod, *, gates: FeatureGates) -> Sizing:
    """Return what a new pod without an autoscaler loses: marks of boosts that it never got.

    They come from a template or a copy. Its boost would "end" with the CPU of another pod.
    """
    if not gates.cpu_startup_boost:
        return Sizing()
    return Sizing(tuple(map(patches.unmark, marked_containers(pod))))


def size_successor(
    pod: Pod, autoscaler: Autoscaler, *, gates: FeatureGates, room: BoostRoom
) -> TargetResources:
    """Return what admission would give the successor of a pod, its boost included.

    The pod that runs stands in for its template. A boost that does not say how much is none.
    """
    containers = tuple(structs.replace(each, status=None) for each in pod.containers)
    # What the pod has on its node is no bound for a successor, which may go elsewhere.
    new = structs.replace(pod, node_name="", containers=containers)
    try:
        wishes, _ = _PodSizer(autoscaler, gates.cpu_startup_boost, room).grant(new)
    except BoostError:
        wishes, _ = _PodSizer(autoscaler, boosts=False, room=room).grant(new)
    return {
        wish.container.name: Allocation(requests, limits)
        for wish in wishes
        for requests, limits in (wish.amounts(),)
        if requests or limits
    }


def _claims(pod: Pod, wishes: Sequence[ContainerSize], room: BoostRoom) -> Mapping[str, Claims]:
    """Return what the pod takes of quotas: nothing if the API server will refuse it."""
    results = [container_sizes.result(wish) for wish in wishes]
    is_refused = find_refusal(room.quotas, pod, results) is not None
    return {} if is_refused else claims_on(room.quotas, pod, results)


def likeness(pod: Pod) -> tuple[object, ...]:
    """Return the attributes of a pod that decide what an autoscaler gives it, as a key."""
    annotations = pod.annotations, pod.has_empty_annotations
    init = pod.init_peak, pod.init_steps, pod.init_stated
    beside = pod.envelope, pod.overhead, pod.is_windows
    # Which quotas are for the pod, and which nodes.
    place = pod.placement, pod.priority_class, pod.preemption_priority, pod.has_deadline
    return pod.containers, *annotations, *init, *beside, *place


class _PodSizer(msgspec.Struct, frozen=True, gc=False):
    """Inputs that determine the resources of a new pod."""

    autoscaler: Autoscaler
    boosts: bool
    room: BoostRoom

    def grant(self, pod: Pod) -> tuple[list[ContainerSize], tuple[str, ...]]:
        """Return what each container gets, and the names of those for which there is no room."""
        originals = _originals(pod) if self.boosts else {}
        wishes = self._wishes(pod, originals)
        stale = {each.container.name for each in wishes if _is_stale(each)} if originals else ()
        if stale:
            known = {name: found for name, found in originals.items() if name not in stale}
            wishes = self._wishes(pod, known)
        wishes = acceptance.fit_boosts(pod, wishes, self.room)
        misfits = _misfits(pod, wishes)
        if misfits:
            wishes = [
                container_sizes.leave_alone(wish) if wish.container.name in misfits else wish
                for wish in wishes
            ]
        held_back = container_sizes.hold_back(wishes, self.room.withheld)
        return acceptance.accept(pod, held_back, self.room), misfits

    def _wishes(self, pod: Pod, originals: Mapping[str, Allocation]) -> list[ContainerSize]:
        """Return the size of each container, given what boosted ones asked for originally."""
        asked = [_as_asked_for(one, originals.get(one.name)) for one in pod.containers]
        is_same = all(map(is_, pod.containers, asked))
        boosts = self.boosts and self.autoscaler.boosts
        autoscaler, mistakes = _without_mistakes(self.autoscaler)
        recommended = recommended_for_pod(
            pod if is_same else structs.replace(pod, containers=tuple(asked)),
            autoscaler,
            self.room.limit_ranges,
        )
        if mistakes:
            recommended = {
                name: _noted(each, mistakes.get(name, ())) for name, each in recommended.items()
            }
        wishes = []
        for container, own in zip(pod.containers, asked, strict=True):
            found = recommended.get(container.name, _NO_ALLOTMENT)
            usual = container_sizes.usual_size(own.spec, found)
            span = self._span(container, own.spec, found) if boosts else None
            wish = ContainerSize(
                container,
                own.spec,
                found,
                share_of(container, usual, span),
                container.name in originals,
                is_off(self.autoscaler, container),
                container.name in recommended and container.name in mistakes,
            )
            wishes.append(wish)
        return wishes

    def _span(
        self, container: Container, own: Allocation, recommended: Allotment
    ) -> BoostSpan | None:
        """Return the boost that the container is to get, if any, also in mode Off (D5)."""
        if autoscalers.holds(self.autoscaler, container.name, Resource.CPU):
            return None
        boost = autoscalers.effective_boost(self.autoscaler, container.name)
        if boost is None:
            return None
        item = effective_item(self.room.limit_ranges, LimitRangeType.CONTAINER)
        return span_boost(
            own,
            boost,
            Allocation(recommended.requests, recommended.limits),
            controls_limits=controls_limits(self.autoscaler, container),
            default_limit=0 if item is None else amount_of(item.default, Resource.CPU),
        )


def _without_mistakes(
    autoscaler: Autoscaler,
) -> tuple[Autoscaler, Mapping[str, tuple[Resource, ...]]]:
    """Return the autoscaler without targets that are mistakes, and by container which they are."""
    entries = autoscaler.recommendation or ()
    found = {each.container_name: wrong for each in entries if (wrong := list_mistakes(each))}
    if not found:
        return autoscaler, found
    sane = tuple(
        replace(
            each,
            target={
                kind: amount
                for kind, amount in each.target.items()
                if kind not in found.get(each.container_name, ())
            },
        )
        for each in entries
    )
    return replace(autoscaler, recommendation=sane), found


def _noted(allotment: Allotment, mistakes: Sequence[Resource]) -> Allotment:
    notes = [each for each in allotment.notes if each.resource not in mistakes]
    notes += [Note(kind, NoteKind.TARGET_MISTAKEN) for kind in mistakes]
    return structs.replace(
        allotment, notes=tuple(sorted(notes, key=lambda each: BOTH.index(each.resource)))
    )


def _misfits(pod: Pod, wishes: Sequence[ContainerSize]) -> tuple[str, ...]:
    if pod.envelope is None:
        return ()
    return find_misfits(pod, {wish.container.name: Allocation(*wish.amounts()) for wish in wishes})


def _offer(wishes: Sequence[ContainerSize], patch: Patch) -> Offer:
    is_boosted = is_sized = False
    # Most pods are created, so that this must cost next to nothing.
    for wish in wishes:
        own, found, share = wish.container.spec, wish.recommended, wish.share
        is_boosted |= share.span is not None and share.request > share.span.usual_request
        if found.requests or found.limits:
            requests, limits = own.requests or NO_AMOUNTS, own.limits or NO_AMOUNTS
            is_same = (
                found.requests.items() <= requests.items()
                and found.limits.items() <= limits.items()
            )
            is_sized |= not is_same
    return Offer(patch, is_boosted=is_boosted, is_sized=is_sized)


def _originals(pod: Pod) -> Mapping[str, Allocation]:
    """By container what it asked for before it was boosted, where a mark says so."""
    if not believes_marks(pod):
        return {}
    marks = {one.name: pod.annotations.get(annotation_name(one.name)) for one in pod.containers}
    found = {name: parse_original(mark) for name, mark in marks.items() if mark is not None}
    return {name: original for name, original in found.items() if original is not None}


def _is_stale(wish: ContainerSize) -> bool:
    """Return True if the mark is not the container's own: its boost would be less (D7).

    It is stale, too, if the request that follows exceeds a limit that the template got later.
    """
    if not wish.is_marked:
        return False
    whole = 0 if wish.share.span is None else wish.share.span.request
    if amount_of(wish.container.spec.requests, Resource.CPU) > whole:
        return True
    result = container_sizes.result(wish)
    requests, limits = result.requests or NO_AMOUNTS, result.limits or NO_AMOUNTS
    return Resource.CPU in limits and amount_of(requests, Resource.CPU) > limits[Resource.CPU]


def _as_asked_for(container: Container, original: Allocation | None) -> Container:
    """The container before its boost; the API server has not yet refused what is below zero."""
    requests, limits = container.spec.requests or NO_AMOUNTS, container.spec.limits or NO_AMOUNTS
    if original is None and min((0, *requests.values(), *limits.values())) == 0:
        return container
    if original is not None:
        requests = with_cpu_of(requests, original.requests)
        limits = with_cpu_of(limits, original.limits)
    return structs.replace(
        container, spec=Allocation(without_negatives(requests), without_negatives(limits))
    )
