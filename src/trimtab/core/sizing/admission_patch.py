"""Admission: pod and autoscaler in, the patch that gives a new pod its resources out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import is_
from typing import Final, NamedTuple

import msgspec
from msgspec import structs

from trimtab.core.model import autoscalers, cap_notes, json_patch, pods, quantities
from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.cap_notes import LEFT_OUT, ContainerUpdate, Note, NoteKind
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.json_patch import Add, Operation, Patch, Remove
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType, effective_item
from trimtab.core.model.limits import NO_AMOUNTS, amount_of, without_negatives
from trimtab.core.model.pods import (
    OBSERVED_CONTAINERS,
    UPDATES,
    Allocation,
    Container,
    ContainerKind,
    Pod,
    TargetResources,
)
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.sizing.boost_room import BoostRoom, BoostShare, fit_boosts, give_up, share_of
from trimtab.core.sizing.container_resources import (
    Allotment,
    controls_limits,
    is_off,
    recommended_for_pod,
)
from trimtab.core.sizing.limit_range_check import checked_items, find_refused
from trimtab.core.sizing.mistaken_targets import list_mistakes
from trimtab.core.sizing.pod_level_resources import find_misfits
from trimtab.core.sizing.quota_check import (
    claims_on,
    find_refusal,
    growth_of,
    room_for_siblings,
    usage_of,
)
from trimtab.core.sizing.quotas import Claims, Quota
from trimtab.core.sizing.refusals import Offer, Withheld
from trimtab.core.sizing.startup_boost import (
    BoostError,
    BoostSpan,
    annotation_name,
    believes_marks,
    format_original,
    marked_containers,
    parse_original,
    span_boost,
    with_cpu_of,
)

_NO_ALLOTMENT: Final = Allotment()
_ENDLESS: Final = BoostRoom()
_NO_OFFER: Final = Offer()
_ANNOTATIONS: Final = json_patch.pointer("metadata", "annotations")
_UPDATES_PATH: Final = json_patch.pointer("metadata", "annotations", UPDATES)
_OBSERVED_PATH: Final = json_patch.pointer("metadata", "annotations", OBSERVED_CONTAINERS)
_BOOST_NOTES: Final = {
    NoteKind.LIMIT_RANGE_REFUSES: NoteKind.BOOST_LIMIT_RANGE,
    NoteKind.QUOTA_REFUSES: NoteKind.BOOST_QUOTA,
}
"""Notes of boosts that go because the pod would be refused."""


class Sizing(msgspec.Struct, frozen=True):
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
    patch = tuple(_operations(pod, autoscaler.name, wishes, unmarks=gates.cpu_startup_boost))
    claims = _claims(pod, wishes, room) if room.quotas else {}
    return Sizing(patch, misfits, notes, claims, _offer(wishes, patch), room.withheld)


def unmark_pod(pod: Pod, *, gates: FeatureGates) -> Sizing:
    """Return what a new pod without an autoscaler loses: marks of boosts that it never got.

    They come from a template or a copy. Its boost would "end" with the CPU of another pod.
    """
    if not gates.cpu_startup_boost:
        return Sizing()
    return Sizing(tuple(map(_unmark, marked_containers(pod))))


def size_successor(
    pod: Pod, autoscaler: Autoscaler, *, gates: FeatureGates, room: BoostRoom
) -> TargetResources:
    """Return what admission would give the successor of a pod, its boost included.

    The pod that runs stands in for its template. A boost that does not say how much is none.
    """
    containers = tuple(replace(each, status=None) for each in pod.containers)
    # What the pod has on its node is no bound for a successor, which may go elsewhere.
    new = replace(pod, node_name="", containers=containers)
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


def _claims(pod: Pod, wishes: Sequence["_ContainerSize"], room: BoostRoom) -> Mapping[str, Claims]:
    """Return what the pod takes of quotas: nothing if the API server will refuse it."""
    results = [_result(wish) for wish in wishes]
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


def resource_operations(
    container: Container, *, requests: Resources, limits: Resources
) -> list[Operation]:
    """The operations that set amounts in the container's spec, and make the maps they need."""
    own = container.spec
    found: list[Operation] = []
    if (requests or limits) and _is_bare(container):
        found.append(Add(_resource_path(container.kind, container.index), {}))
    if requests:
        found += _map_operations(container, "requests", own.requests, requests)
    if limits:
        found += _map_operations(container, "limits", own.limits, limits)
    return found


def zero_limits(container: Container, requests: Resources, limits: Resources) -> set[Resource]:
    """Return the resources whose request would exceed a limit of zero that `limits` leaves."""
    own = container.spec.limits
    if not own:
        return set()
    return {kind for kind in requests if own.get(kind, 1) <= 0 < requests[kind]} - limits.keys()


def _map_operations(
    container: Container, key: str, present: Resources | None, wanted: Resources
) -> list[Operation]:
    kind, index = container.kind, container.index
    found: list[Operation] = [
        Add(_resource_path(kind, index, key, each), quantities.format_amount(each, wanted[each]))
        for each in BOTH
        if each in wanted
    ]
    return found if present is not None else [Add(_resource_path(kind, index, key), {}), *found]


# The same few paths are in every patch.
@lru_cache(maxsize=4096)
def _resource_path(kind: ContainerKind, index: int, *keys: str) -> str:
    return json_patch.pointer("spec", kind, index, "resources", *keys)


class _ContainerSize(msgspec.Struct, frozen=True):
    """Planned size of a container of a new pod."""

    container: Container
    own: Allocation
    """Resources that its spec asks for, without a boost that it brings along."""
    recommended: Allotment
    share: BoostShare
    """Its CPU, with as much of a boost as there is room for."""
    is_marked: bool = False
    """True if a mark on the pod already holds what the container asked for before its boost."""
    is_left_alone: bool = False
    is_refused: bool = False
    """True if it keeps resources of its own, since the pod would be refused otherwise."""

    @property
    def is_boosted(self) -> bool:
        """True if the container gets more CPU while it starts."""
        return self.share.is_boosted

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes about the recommendation, and about the boost."""
        own, of_boost = self.recommended.notes, self.boost_notes
        return (*own, *of_boost) if of_boost else own

    @property
    def boost_notes(self) -> tuple[Note, ...]:
        """Notes about bounds that have cut the boost."""
        if self.share.span is None and not self.share.notes:
            return ()
        kinds = self.share.notes
        if kinds and not self.is_boosted and LEFT_OUT.isdisjoint(kinds):
            kinds = (*kinds, NoteKind.NOT_BOOSTED)
        return tuple(Note(Resource.CPU, kind) for kind in kinds)

    def amounts(self) -> tuple[Resources, Resources]:
        """The requests and limits to set."""
        requests, limits = self.recommended.requests, self.recommended.limits
        # Most containers have no boost, and neither get nor lose anything for it.
        if self.share.span is None or not (self.is_boosted or self.loses_mark):
            return requests, limits
        given = self.share.allocation
        cpu = _only_cpu(given.requests), _only_cpu(given.limits)
        # Above a limit of zero no request is valid: it stays out, and the patch removes it.
        is_bound = amount_of(given.limits, Resource.CPU) >= amount_of(given.requests, Resource.CPU)
        moves_limit = is_bound and self.share.span.moves_limit
        return {**requests, **cpu[0]}, {**limits, **cpu[1]} if moves_limit else limits

    def sets(self, kind: Resource) -> bool:
        """Return True if the patch sets the resource, whatever is boosted."""
        found = self.recommended
        is_recommended = kind in found.requests or kind in found.limits
        return is_recommended or (kind is Resource.CPU and self.loses_mark)

    @property
    def loses_mark(self) -> bool:
        """True if a boost that it brings along ends before the pod is created."""
        return self.is_marked and self.share.span is not None and not self.is_boosted

    @property
    def keeps_mark(self) -> bool:
        """True if a mark on the pod is, or will be, that of a boost of its own."""
        return self.is_boosted or (self.is_marked and not self.loses_mark)


class _Refused(NamedTuple):
    """A rule of the namespace that refuses a new pod, and the resource for which it does."""

    kind: Resource
    note: NoteKind


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rules of a namespace that may refuse a new pod."""

    pod: Pod
    limit_ranges: Sequence[LimitRangeItem]
    quotas: Sequence[Quota]
    kept: Mapping[str, Claims]
    """By quota the amounts that are kept for further pods of the owner."""

    def refusal(self, wishes: Sequence[_ContainerSize]) -> _Refused | None:
        """Return why the namespace refuses the pod with these sizes; None if it accepts them.

        Room that is kept for siblings bounds only amounts above those of the pod as it came.
        """
        allocations, kept = [_result(wish) for wish in wishes], self.kept
        if kept:
            grown = growth_of(self.pod, allocations, self._own())
            kept = {
                name: {claim: amount for claim, amount in claims.items() if grown[claim]}
                for name, claims in kept.items()
            }
        return self._refusal(allocations, kept)

    def refuses_own(self) -> bool:
        """Return True if the pod is refused as it came."""
        return self._refusal(self._own(), {}) is not None

    def _own(self) -> list[Allocation]:
        return [each.spec for each in self.pod.containers]

    def _refusal(
        self, allocations: Sequence[Allocation], kept: Mapping[str, Claims]
    ) -> _Refused | None:
        if self.limit_ranges:
            kind = find_refused(self.limit_ranges, self.pod, allocations)
            if kind is not None:
                return _Refused(kind, NoteKind.LIMIT_RANGE_REFUSES)
        found = find_refusal(self.quotas, self.pod, allocations, reserved=kept)
        return None if found is None else _Refused(found.claim.resource, NoteKind.QUOTA_REFUSES)


def _refusal_of(rules: _Rules, wishes: Sequence[_ContainerSize]) -> _Refused | None:
    """Return why the pod is refused at its start, or after its boosts; None if it never is."""
    refused = rules.refusal(wishes)
    if refused is not None or not any(wish.is_boosted for wish in wishes):
        return refused
    note = _BOOST_NOTES[NoteKind.LIMIT_RANGE_REFUSES]
    return rules.refusal(_with_shares(wishes, give_up([wish.share for wish in wishes], note)))


class _PodSizer(msgspec.Struct, frozen=True):
    """Inputs that determine the resources of a new pod."""

    autoscaler: Autoscaler
    boosts: bool
    room: BoostRoom

    def grant(self, pod: Pod) -> tuple[list[_ContainerSize], tuple[str, ...]]:
        """Return what each container gets, and the names of those for which there is no room."""
        originals = _originals(pod) if self.boosts else {}
        wishes = self._wishes(pod, originals)
        stale = {each.container.name for each in wishes if _is_stale(each)} if originals else ()
        if stale:
            known = {name: found for name, found in originals.items() if name not in stale}
            wishes = self._wishes(pod, known)
        wishes = self._with_boosts(pod, wishes)
        misfits = _misfits(pod, wishes)
        if misfits:
            wishes = [_give_up(wish) if wish.container.name in misfits else wish for wish in wishes]
        return self._accepted(pod, _hold_back(wishes, self.room.withheld)), misfits

    def _with_boosts(self, pod: Pod, wishes: list[_ContainerSize]) -> list[_ContainerSize]:
        """Return the sizes with as much of their boosts as there is room for."""
        shares = [wish.share for wish in wishes]
        fitted = fit_boosts(pod, shares, self.room)
        return wishes if fitted is shares else _with_shares(wishes, fitted)

    def _accepted(self, pod: Pod, wishes: list[_ContainerSize]) -> list[_ContainerSize]:
        """Return the sizes that the namespace accepts: a refused resource is dropped first (D19).

        Of CPU, boosts are dropped before the recommendation. The same rules may refuse the resize
        that ends a boost, so the size after that must be acceptable too. A pod that would be
        refused as it came keeps its sizes: admission did not cause the refusal.
        """
        items = checked_items(self.room.limit_ranges) if self.room.limit_ranges else ()
        if not items and not self.room.quotas:
            return wishes
        rules = _Rules(pod, items, self.room.quotas, _kept_for_siblings(pod, wishes, self.room))
        refused = _refusal_of(rules, wishes)
        if refused is None or rules.refuses_own():
            return wishes
        may_boost = True
        while refused is not None:
            is_set = {kind: any(wish.sets(kind) for wish in wishes) for kind in BOTH}
            is_boosted = any(wish.is_boosted for wish in wishes)
            if is_boosted and (refused.kind is Resource.CPU or not is_set[Resource.MEMORY]):
                note = _BOOST_NOTES[refused.note]
                wishes = _with_shares(wishes, give_up([wish.share for wish in wishes], note))
                may_boost = False
            elif any(is_set.values()):
                kind = next(each for each in (refused.kind, *BOTH) if is_set[each])
                wishes = [_without(wish, kind, refused.note) for wish in wishes]
                if may_boost and is_boosted:
                    # The rest of the pod bounds its boosts, as does its QoS class.
                    wishes = self._with_boosts(pod, [_with_whole_boost(wish) for wish in wishes])
            else:
                break
            refused = _refusal_of(rules, wishes)
        return wishes

    def _wishes(self, pod: Pod, originals: Mapping[str, Allocation]) -> list[_ContainerSize]:
        """Return the size of each container, given what boosted ones asked for originally."""
        asked = [_as_asked_for(one, originals.get(one.name)) for one in pod.containers]
        is_same = all(map(is_, pod.containers, asked))
        boosts = self.boosts and self.autoscaler.boosts
        autoscaler, mistakes = _without_mistakes(self.autoscaler)
        recommended = recommended_for_pod(
            pod if is_same else replace(pod, containers=tuple(asked)),
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
            usual = _usual(own.spec, found)
            span = self._span(container, own.spec, found) if boosts else None
            wish = _ContainerSize(
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


def _kept_for_siblings(
    pod: Pod, wishes: Sequence[_ContainerSize], room: BoostRoom
) -> Mapping[str, Claims]:
    """Return by quota what further pods of the owner need at least: at most their own size.

    Each of them may keep its own amounts of a resource, as this one may.
    """
    if not room.quotas or not (room.missing_pods or room.awaited_pods):
        return {}
    own = usage_of(pod, [each.spec for each in pod.containers])
    usual = usage_of(pod, [wish.share.usual for wish in wishes])

    def least(quota: Quota) -> Claims:
        grown = {claim.resource for claim in quota.left if usual[claim] > own[claim]}
        return {claim: (own if claim.resource in grown else usual)[claim] for claim in quota.left}

    return {
        quota.name: room_for_siblings(
            quota, least(quota), missing=room.missing_pods, awaited=room.awaited_pods
        )
        for quota in room.quotas
    }


def _usual(own: Allocation, recommended: Allotment) -> Allocation:
    """Return what a container gets without a boost."""
    if not recommended.requests and not recommended.limits:
        return own
    return Allocation(
        {**(own.requests or NO_AMOUNTS), **recommended.requests},
        {**(own.limits or NO_AMOUNTS), **recommended.limits},
    )


def _with_shares(
    wishes: Sequence[_ContainerSize], shares: Sequence[BoostShare]
) -> list[_ContainerSize]:
    return [
        wish if wish.share is share else structs.replace(wish, share=share)
        for wish, share in zip(wishes, shares, strict=True)
    ]


def _misfits(pod: Pod, wishes: Sequence[_ContainerSize]) -> tuple[str, ...]:
    if pod.envelope is None:
        return ()
    return find_misfits(pod, {wish.container.name: Allocation(*wish.amounts()) for wish in wishes})


def _give_up(wish: _ContainerSize) -> _ContainerSize:
    share = share_of(wish.container, wish.own, None)
    return structs.replace(wish, recommended=_NO_ALLOTMENT, share=share, is_left_alone=True)


def _without(wish: _ContainerSize, kind: Resource, note: NoteKind) -> _ContainerSize:
    """Return the size of a container that keeps its own amounts of a resource, with the reason."""
    found, notes = wish.recommended, wish.recommended.notes
    if kind in found.requests or kind in found.limits:
        kept = [each for each in notes if each.resource is not kind]
        notes = tuple(sorted([*kept, Note(kind, note)], key=lambda each: BOTH.index(each.resource)))
    rest = Allotment(_except(found.requests, kind), _except(found.limits, kind), notes)
    usual = _usual(wish.own, rest)
    share = structs.replace(wish.share, usual=usual)
    if kind is Resource.CPU:
        share = structs.replace(share_of(wish.container, usual, None), notes=wish.share.notes)
    return structs.replace(wish, recommended=rest, share=share, is_left_alone=True, is_refused=True)


def _except(amounts: Resources, kind: Resource) -> Resources:
    return {each: amount for each, amount in amounts.items() if each is not kind}


def _with_whole_boost(wish: _ContainerSize) -> _ContainerSize:
    share = wish.share
    return structs.replace(wish, share=share_of(wish.container, share.usual, share.span))


def _result(wish: _ContainerSize) -> Allocation:
    """Return the resources of a container after the patch."""
    own, (requests, limits) = wish.container.spec, wish.amounts()
    if not requests and not limits:
        return own
    removed = zero_limits(wish.container, requests, limits)
    found = {**(own.limits or NO_AMOUNTS), **limits}
    return Allocation(
        {**(own.requests or NO_AMOUNTS), **requests},
        {kind: amount for kind, amount in found.items() if kind not in removed},
    )


def _hold_back(wishes: list[_ContainerSize], withheld: Withheld) -> list[_ContainerSize]:
    """Return the sizes without the part that kept pods of the owner from being created."""
    if withheld is Withheld.NOTHING:
        return wishes
    shares = give_up([wish.share for wish in wishes], NoteKind.BOOST_REFUSED)
    unboosted = _with_shares(wishes, shares)
    return unboosted if withheld is Withheld.BOOST else list(map(_hold_back_size, unboosted))


def _hold_back_size(wish: _ContainerSize) -> _ContainerSize:
    found = wish.recommended
    notes = tuple(
        Note(kind, NoteKind.PODS_REFUSED)
        for kind in BOTH
        if kind in found.requests or kind in found.limits
    )
    given_up = _give_up(wish)
    share = structs.replace(given_up.share, notes=wish.share.notes)
    return structs.replace(
        given_up, recommended=Allotment(notes=notes), share=share, is_refused=True
    )


def _offer(wishes: Sequence[_ContainerSize], patch: Patch) -> Offer:
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


def _is_stale(wish: _ContainerSize) -> bool:
    """Return True if the mark is not the container's own: its boost would be less (D7).

    It is stale, too, if the request that follows exceeds a limit that the template got later.
    """
    if not wish.is_marked:
        return False
    whole = 0 if wish.share.span is None else wish.share.span.request
    if amount_of(wish.container.spec.requests, Resource.CPU) > whole:
        return True
    result = _result(wish)
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
    return replace(
        container, spec=Allocation(without_negatives(requests), without_negatives(limits))
    )


def _only_cpu(amounts: Resources | None) -> Resources:
    return {kind: amount for kind, amount in (amounts or {}).items() if kind is Resource.CPU}


def _operations(
    pod: Pod, autoscaler_name: str, wishes: Sequence[_ContainerSize], *, unmarks: bool
) -> list[Operation]:
    found: list[Operation] = []
    if not (pod.annotations or pod.has_empty_annotations):
        found.append(Add(_ANNOTATIONS, {}))
    updates = []
    for wish in wishes:
        if wish.share.span is not None and wish.is_boosted and not wish.is_marked:
            name = annotation_name(wish.container.name)
            found.append(_annotate(name, format_original(wish.own, wish.share.usual)))
        requests, limits = wish.amounts()
        operations = _container_operations(wish, requests, limits)
        found += operations
        if operations or wish.boost_notes or (wish.is_refused and wish.notes):
            updates.append(_update(wish, requests, limits))
    marked = marked_containers(pod) if unmarks else ()
    if marked:
        kept = {wish.container.name for wish in wishes if wish.keeps_mark}
        found += [_unmark(name) for name in marked if name not in kept]
    if updates:
        found.append(Add(_UPDATES_PATH, cap_notes.format_updates(autoscaler_name, updates)))
    found.append(Add(_OBSERVED_PATH, pods.format_observed_containers(pod.containers)))
    return found


def _container_operations(
    wish: _ContainerSize, requests: Resources, limits: Resources
) -> list[Operation]:
    container = wish.container
    operations = resource_operations(container, requests=requests, limits=limits)
    if container.spec.limits:
        # A limit of zero bounds nothing, but would make the pod invalid.
        operations += [
            Remove(_resource_path(container.kind, container.index, "limits", kind))
            for kind in sorted(zero_limits(container, requests, limits))
        ]
    is_regular = container.kind is ContainerKind.REGULAR
    if not operations and is_regular and _is_bare(container) and not wish.is_left_alone:
        # The original creates the map before it knows what to put there, and reports it.
        return [Add(_resource_path(container.kind, container.index), {})]
    return operations


def _is_bare(container: Container) -> bool:
    own = container.spec
    return own.requests is None and own.limits is None and not container.has_claims


def _update(wish: _ContainerSize, requests: Resources, limits: Resources) -> ContainerUpdate:
    return ContainerUpdate(
        wish.container,
        tuple([kind for kind in BOTH if kind in requests]),
        tuple([kind for kind in BOTH if kind in limits]) if limits else (),
        wish.notes,
    )


def _unmark(container_name: str) -> Operation:
    return Remove(json_patch.pointer("metadata", "annotations", annotation_name(container_name)))


def _annotate(name: str, value: str) -> Operation:
    return Add(json_patch.pointer("metadata", "annotations", name), value)
