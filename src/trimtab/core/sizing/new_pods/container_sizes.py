"""Planned sizes of the containers of a new pod, and parts of them that are given up."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import structs

from trimtab.core.model.cap_notes import LEFT_OUT, Note, NoteKind
from trimtab.core.model.limits import NO_AMOUNTS, amount_of
from trimtab.core.model.pods import Allocation, Container
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.sizing import boost_room
from trimtab.core.sizing.boost_room import BoostShare
from trimtab.core.sizing.container_resources import Allotment
from trimtab.core.sizing.new_pods import operations
from trimtab.core.sizing.refusals import Withheld

_NO_ALLOTMENT: Final = Allotment()


class ContainerSize(msgspec.Struct, frozen=True, gc=False):
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
        own, share = self.recommended.notes, self.share
        # Most containers have no boost.
        return own if share.span is None and not share.notes else (*own, *self.boost_notes)

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


def usual_size(own: Allocation, recommended: Allotment) -> Allocation:
    """Return what a container gets without a boost."""
    if not recommended.requests and not recommended.limits:
        return own
    return Allocation(
        {**(own.requests or NO_AMOUNTS), **recommended.requests},
        {**(own.limits or NO_AMOUNTS), **recommended.limits},
    )


def with_shares(
    wishes: Sequence[ContainerSize], shares: Sequence[BoostShare]
) -> list[ContainerSize]:
    """Return the sizes with these shares of their boosts, in order."""
    return [
        wish if wish.share is share else structs.replace(wish, share=share)
        for wish, share in zip(wishes, shares, strict=True)
    ]


def leave_alone(wish: ContainerSize) -> ContainerSize:
    """Return the size of a container that gets nothing, and keeps its own resources."""
    share = boost_room.share_of(wish.container, wish.own, None)
    return structs.replace(wish, recommended=_NO_ALLOTMENT, share=share, is_left_alone=True)


def without(wish: ContainerSize, kind: Resource, note: NoteKind) -> ContainerSize:
    """Return the size of a container that keeps its own amounts of a resource, with the reason."""
    found, notes = wish.recommended, wish.recommended.notes
    if kind in found.requests or kind in found.limits:
        kept = [each for each in notes if each.resource is not kind]
        notes = tuple(sorted([*kept, Note(kind, note)], key=lambda each: BOTH.index(each.resource)))
    rest = Allotment(_except(found.requests, kind), _except(found.limits, kind), notes)
    usual = usual_size(wish.own, rest)
    share = structs.replace(wish.share, usual=usual)
    if kind is Resource.CPU:
        share = structs.replace(
            boost_room.share_of(wish.container, usual, None), notes=wish.share.notes
        )
    return structs.replace(wish, recommended=rest, share=share, is_left_alone=True, is_refused=True)


def _except(amounts: Resources, kind: Resource) -> Resources:
    return {each: amount for each, amount in amounts.items() if each is not kind}


def with_whole_boost(wish: ContainerSize) -> ContainerSize:
    """Return the size with its boost as it was asked for."""
    share = wish.share
    return structs.replace(wish, share=boost_room.share_of(wish.container, share.usual, share.span))


def result(wish: ContainerSize) -> Allocation:
    """Return the resources of a container after the patch."""
    own, (requests, limits) = wish.container.spec, wish.amounts()
    if not requests and not limits:
        return own
    removed = operations.zero_limits(wish.container, requests, limits)
    found = {**(own.limits or NO_AMOUNTS), **limits}
    return Allocation(
        {**(own.requests or NO_AMOUNTS), **requests},
        {kind: amount for kind, amount in found.items() if kind not in removed},
    )


def hold_back(wishes: list[ContainerSize], withheld: Withheld) -> list[ContainerSize]:
    """Return the sizes without the part that kept pods of the owner from being created."""
    if withheld is Withheld.NOTHING:
        return wishes
    shares = boost_room.give_up([wish.share for wish in wishes], NoteKind.BOOST_REFUSED)
    unboosted = with_shares(wishes, shares)
    return unboosted if withheld is Withheld.BOOST else list(map(_hold_back_size, unboosted))


def _hold_back_size(wish: ContainerSize) -> ContainerSize:
    found = wish.recommended
    notes = tuple(
        Note(kind, NoteKind.PODS_REFUSED)
        for kind in BOTH
        if kind in found.requests or kind in found.limits
    )
    left = leave_alone(wish)
    share = structs.replace(left.share, notes=wish.share.notes)
    return structs.replace(left, recommended=Allotment(notes=notes), share=share, is_refused=True)


def _only_cpu(amounts: Resources | None) -> Resources:
    return {kind: amount for kind, amount in (amounts or {}).items() if kind is Resource.CPU}
