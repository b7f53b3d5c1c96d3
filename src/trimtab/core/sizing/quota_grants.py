"""Amounts of a quota granted to new pods that the quota's status does not show yet.

The API server counts a pod when it stores it, which is after admission, and a watch shows the count
a moment later. Pods of one owner come in bursts, so what was granted to the last one must count
for the next. A grant ends as soon as the quota's use has grown by as much, or after some seconds:
the pod may never have been stored.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from trimtab.core.sizing.quotas import Claims, Quota, QuotaClaim

LIFETIME_SECONDS: Final = 10.0
MAX_GRANTS: Final = 256
"""Maximum number of grants of one quota; further ones are merged, and end together."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Amounts that one pod was granted."""

    amounts: Claims
    at: float
    """Seconds, on any clock that does not go back."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The grants of one quota that its status does not show yet, the oldest first."""

    left: Claims = field(default_factory=dict)
    """Amounts that were left at the last settlement."""
    grants: tuple[Grant, ...] = ()


NOTHING_GRANTED: Final = Granted()


def settle(granted: Granted, left: Claims, now: float) -> Granted:
    """Return the grants that still count, given the amounts that are left now."""
    used = {claim: granted.left.get(claim, amount) - amount for claim, amount in left.items()}
    pending = []
    for grant in granted.grants:
        counted = {claim: amount for claim, amount in grant.amounts.items() if claim in left}
        if now - grant.at > LIFETIME_SECONDS or not any(counted.values()):
            continue
        if all(used[claim] >= amount for claim, amount in counted.items()):
            used = {claim: amount - counted.get(claim, 0) for claim, amount in used.items()}
        else:
            pending.append(grant)
    return Granted(left, tuple(pending))


def add_grant(granted: Granted, amounts: Claims, now: float) -> Granted:
    """Return the grants with one more."""
    grants = granted.grants
    if len(grants) >= MAX_GRANTS:
        amounts = Counter(grants[-1].amounts) + Counter(amounts)
        grants = grants[:-1]
    return replace(granted, grants=(*grants, Grant(amounts, now)))


def without_granted(quota: Quota, granted: Granted) -> Quota:
    """Return the quota with what is left of it for the next pod."""
    if not granted.grants:
        return quota
    pending: Counter[QuotaClaim] = Counter()
    for grant in granted.grants:
        pending.update(grant.amounts)
    used = {claim: amount + pending[claim] for claim, amount in quota.used.items()}
    return replace(quota, left=_subtract(quota.left, pending), used=used)


def _subtract(left: Claims, pending: Mapping[QuotaClaim, int]) -> Claims:
    return {claim: amount - pending.get(claim, 0) for claim, amount in left.items()}
