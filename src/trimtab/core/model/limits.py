"""Limits that keep their proportion to the requests.

A container whose limit is twice its request keeps a limit twice its request. All arithmetic is on
whole millicores or bytes; a division drops its remainder, a result beyond 64 bits is cut there.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from trimtab.core.model.cap_notes import Note, NoteKind
from trimtab.core.model.pods import Allocation
from trimtab.core.model.resources import BOTH, MAX_AMOUNT, Resource, Resources

NO_AMOUNTS: Final[Resources] = {}


class ProportionalLimits(msgspec.Struct, frozen=True, gc=False):
    """The limits that follow from new requests, and why one is missing or out of proportion."""

    limits: Resources
    notes: tuple[Note, ...] = ()


_NO_LIMITS: Final = ProportionalLimits(NO_AMOUNTS)


def amount_of(amounts: Resources | None, kind: Resource) -> int:
    """Return the amount of a resource; 0 if it is missing or negative."""
    return max((amounts or NO_AMOUNTS).get(kind, 0), 0)


def without_negatives(amounts: Resources) -> Resources:
    """Return the amounts that are not negative."""
    return {kind: amount for kind, amount in amounts.items() if amount >= 0}


def scale(amount: int, *, numerator: int, denominator: int) -> int:
    """Return `amount * numerator / denominator` rounded down; `amount` if the denominator is 0."""
    # There is no proportion to keep.
    if denominator == 0:
        return amount
    return min(amount * numerator // denominator, MAX_AMOUNT)


def proportional_limits(
    current: Allocation, requests: Resources, default: Resources | None = None
) -> ProportionalLimits:
    """Return the limits for new requests; no notes where no limit follows at all."""
    if not current.limits and not default:
        return _NO_LIMITS
    found = {kind: _limit(kind, current, amount_of(requests, kind), default) for kind in BOTH}
    # A namespace's default can lie below the request; the API server refuses a pod like that.
    limits = {
        kind: max(limit, requests[kind]) for kind, (limit, _) in found.items() if limit is not None
    }
    if not limits:
        return _NO_LIMITS
    kinds = {kind: note for kind, (_, note) in found.items() if note is not None}
    return ProportionalLimits(limits, tuple(Note(kind, note) for kind, note in kinds.items()))


def proportional_limit(
    kind: Resource, current: Allocation, request: int, default: Resources | None = None
) -> int | None:
    """Return the limit for a new request of one resource; None if the container gets none."""
    limit, _ = _limit(kind, current, request, default)
    return limit


def request_for_limit(
    kind: Resource, current: Allocation, limit: int, default: Resources | None = None
) -> int | None:
    """Return the request whose proportional limit is `limit`; None if no limit is in force."""
    own_limit = limit_in_force(kind, current, default)
    if not own_limit:
        return None
    request = amount_of(current.requests, kind)
    # A limit without a request stands for both.
    return scale(request, numerator=limit, denominator=own_limit) if request else limit


def limit_in_force(kind: Resource, current: Allocation, default: Resources | None) -> int:
    """Return the container's own limit, else the default of its namespace, else 0."""
    return amount_of(current.limits, kind) or amount_of(default, kind)


def _limit(
    kind: Resource, current: Allocation, request: int, default: Resources | None
) -> tuple[int | None, NoteKind | None]:
    own_limit = limit_in_force(kind, current, default)
    if not own_limit:
        return None, NoteKind.NO_LIMIT_TO_SCALE
    if not request:
        return None, NoteKind.NO_REQUEST_TO_FOLLOW
    own_request = amount_of(current.requests, kind)
    # A limit without a request stands for both, so both stay equal (class Guaranteed).
    if own_request in (0, own_limit):
        return request, None
    # Integers of any size, so that nothing overflows before it is cut to 64 bits.
    exact = own_limit * request // own_request
    if exact > MAX_AMOUNT:
        return MAX_AMOUNT, NoteKind.RATIO_LOST
    return exact, None


class QosClass(StrEnum):
    """The class of a pod; the API server refuses a resize that would change it."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


def qos_class(allocations: Iterable[Allocation]) -> QosClass:
    """Return the class of a pod whose containers have these requests and limits."""
    amounts = [_request_and_limit(one, kind) for one in allocations for kind in BOTH]
    if not any(request or limit for request, limit in amounts):
        return QosClass.BEST_EFFORT
    # Both resources of all containers, as the kubelet and the API server decide it.
    if all(limit and request == limit for request, limit in amounts):
        return QosClass.GUARANTEED
    return QosClass.BURSTABLE


def _request_and_limit(allocation: Allocation, kind: Resource) -> tuple[int, int]:
    limit = (allocation.limits or NO_AMOUNTS).get(kind, 0)
    # A limit without a request stands for both.
    return (allocation.requests or NO_AMOUNTS).get(kind, limit), limit
