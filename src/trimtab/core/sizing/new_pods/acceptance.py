"""Acceptance of a new pod by the limit ranges and quotas of its namespace."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from trimtab.core.model.cap_notes import NoteKind
from trimtab.core.model.limit_ranges import LimitRangeItem
from trimtab.core.model.pods import Allocation, Pod
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.sizing import boost_room, limit_range_check, quota_check
from trimtab.core.sizing.boost_room import BoostRoom
from trimtab.core.sizing.new_pods import container_sizes
from trimtab.core.sizing.new_pods.container_sizes import ContainerSize
from trimtab.core.sizing.quotas import Claims, Quota

_BOOST_NOTES: Final = {
    NoteKind.LIMIT_RANGE_REFUSES: NoteKind.BOOST_LIMIT_RANGE,
    NoteKind.QUOTA_REFUSES: NoteKind.BOOST_QUOTA,
}
"""Notes of boosts that go because the pod would be refused."""


def fit_boosts(pod: Pod, wishes: list[ContainerSize], room: BoostRoom) -> list[ContainerSize]:
    """Return the sizes with as much of their boosts as there is room for."""
    shares = [wish.share for wish in wishes]
    fitted = boost_room.fit_boosts(pod, shares, room)
    return wishes if fitted is shares else container_sizes.with_shares(wishes, fitted)


def accept(pod: Pod, wishes: list[ContainerSize], room: BoostRoom) -> list[ContainerSize]:
    """Return the sizes that the namespace accepts: a refused resource is dropped first (D19).

    Of CPU, boosts are dropped before the recommendation. The same rules may refuse the resize
    that ends a boost, so the size after that must be acceptable too. A pod that would be
    refused as it came keeps its sizes: admission did not cause the refusal.
    """
    items = limit_range_check.checked_items(room.limit_ranges) if room.limit_ranges else ()
    if not items and not room.quotas:
        return wishes
    rules = _Rules(pod, items, room.quotas, _kept_for_siblings(pod, wishes, room))
    refused = _refusal_of(rules, wishes)
    if refused is None or rules.refuses_own():
        return wishes
    while refused is not None:
        fewer = _with_less(pod, wishes, room, refused)
        if fewer is None:
            break
        wishes = fewer
        refused = _refusal_of(rules, wishes)
    return wishes


def _with_less(
    pod: Pod, wishes: list[ContainerSize], room: BoostRoom, refused: "_Refused"
) -> list[ContainerSize] | None:
    """Return the sizes without the boosts, or without one resource; None if nothing is left."""
    kinds = [kind for kind in BOTH if any(wish.sets(kind) for wish in wishes)]
    is_boosted = any(wish.is_boosted for wish in wishes)
    if is_boosted and (refused.kind is Resource.CPU or Resource.MEMORY not in kinds):
        return _without_boosts(wishes, _BOOST_NOTES[refused.note])
    if not kinds:
        return None
    kind = refused.kind if refused.kind in kinds else kinds[0]
    fewer = [container_sizes.without(wish, kind, refused.note) for wish in wishes]
    if not is_boosted:
        return fewer
    # The rest of the pod bounds its boosts, as does its QoS class.
    return fit_boosts(pod, list(map(container_sizes.with_whole_boost, fewer)), room)


def _without_boosts(wishes: Sequence[ContainerSize], note: NoteKind) -> list[ContainerSize]:
    shares = boost_room.give_up([wish.share for wish in wishes], note)
    return container_sizes.with_shares(wishes, shares)


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

    def refusal(self, wishes: Sequence[ContainerSize]) -> _Refused | None:
        """Return why the namespace refuses the pod with these sizes; None if it accepts them.

        Room that is kept for siblings bounds only amounts above those of the pod as it came.
        """
        allocations, kept = [container_sizes.result(wish) for wish in wishes], self.kept
        if kept:
            grown = quota_check.growth_of(self.pod, allocations, self._own())
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
            kind = limit_range_check.find_refused(self.limit_ranges, self.pod, allocations)
            if kind is not None:
                return _Refused(kind, NoteKind.LIMIT_RANGE_REFUSES)
        found = quota_check.find_refusal(self.quotas, self.pod, allocations, reserved=kept)
        return None if found is None else _Refused(found.claim.resource, NoteKind.QUOTA_REFUSES)


def _refusal_of(rules: _Rules, wishes: Sequence[ContainerSize]) -> _Refused | None:
    """Return why the pod is refused at its start, or after its boosts; None if it never is."""
    refused = rules.refusal(wishes)
    if refused is not None or not any(wish.is_boosted for wish in wishes):
        return refused
    note = _BOOST_NOTES[NoteKind.LIMIT_RANGE_REFUSES]
    return rules.refusal(_without_boosts(wishes, note))


def _kept_for_siblings(
    pod: Pod, wishes: Sequence[ContainerSize], room: BoostRoom
) -> Mapping[str, Claims]:
    """Return by quota what further pods of the owner need at least: at most their own size.

    Each of them may keep its own amounts of a resource, as this one may.
    """
    if not room.quotas or not (room.missing_pods or room.awaited_pods):
        return {}
    own = quota_check.usage_of(pod, [each.spec for each in pod.containers])
    usual = quota_check.usage_of(pod, [wish.share.usual for wish in wishes])

    def least(quota: Quota) -> Claims:
        grown = {claim.resource for claim in quota.left if usual[claim] > own[claim]}
        return {claim: (own if claim.resource in grown else usual)[claim] for claim in quota.left}

    return {
        quota.name: quota_check.room_for_siblings(
            quota, least(quota), missing=room.missing_pods, awaited=room.awaited_pods
        )
        for quota in room.quotas
    }
