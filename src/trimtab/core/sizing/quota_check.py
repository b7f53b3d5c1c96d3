"""The API server's checks of pods against ResourceQuotas, so that no pod is made that they refuse.

Upstream: `pkg/quota/v1/evaluator/core/pods.go` and `resourcequota/controller.go` of Kubernetes
1.35. A quota refuses a pod for two reasons. It leaves too little room, or it demands an amount that
a container does not state: whatever a quota counts, each container of a pod in its scopes has to
state. Ordinary init containers are seen only in `init_peak`,
`init_steps` and `init_stated`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from trimtab.core.model import limits, quantities
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.pods import Allocation, Pod
from trimtab.core.model.resources import BOTH
from trimtab.core.sizing import quotas
from trimtab.core.sizing.pod_totals import total_of
from trimtab.core.sizing.quotas import Claims, Quota, QuotaClaim, Side

NO_CLAIMS: Final[Claims] = {}
_COUNTED: Final = tuple(QuotaClaim(side, kind) for side in Side for kind in BOTH)


class Refusal(NamedTuple):
    """A quota that refuses a pod, and for which of its amounts."""

    quota: str
    claim: QuotaClaim
    asked: int | None
    """The amount that does not fit; None if a container does not state the amount at all."""
    left: int

    @property
    def words(self) -> str:
        """The reason, for people."""
        name = f"{self.claim.side}.{self.claim.resource}"
        if self.asked is None:
            return f"ResourceQuota {self.quota} demands {name} of each container"
        asked = quantities.format_amount(self.claim.resource, self.asked)
        # The amount that is left changes with every pod of the namespace.
        return f"ResourceQuota {self.quota} leaves less {name} than the {asked} needed"


def usage_of(pod: Pod, allocations: Sequence[Allocation]) -> Claims:
    """Return what quotas count of a pod whose containers have these resources, in order."""
    return {claim: _counted(pod, allocations, claim) for claim in _COUNTED}


def find_refusal(
    found: Iterable[Quota],
    pod: Pod,
    allocations: Sequence[Allocation],
    *,
    reserved: Mapping[str, Claims] | None = None,
    before: Sequence[Allocation] | None = None,
) -> Refusal | None:
    """Return why a quota refuses a pod whose containers have these resources; None if none does.

    Of each quota the amounts that are `reserved` under its name are for others. With the resources
    that the pod had `before`, only growth counts, as for a resize.
    """
    for quota in found:
        if not quota.left or not _covers(quota, pod, allocations):
            continue
        kept = NO_CLAIMS if reserved is None else reserved.get(quota.name, NO_CLAIMS)
        for claim, left in quota.left.items():
            if _is_unstated(pod, allocations, claim):
                return Refusal(quota.name, claim, None, left)
            asked = _counted(pod, allocations, claim)
            if before is not None:
                asked -= _counted(pod, before, claim)
            room = left - kept.get(claim, 0)
            # An amount of nothing is never refused, however little is left.
            if 0 < asked > room:
                return Refusal(quota.name, claim, asked, room)
    return None


def claims_on(
    found: Iterable[Quota], pod: Pod, allocations: Sequence[Allocation]
) -> Mapping[str, Claims]:
    """Return by the name of each quota that counts the pod the amounts that it takes of it."""
    return {
        quota.name: {claim: _counted(pod, allocations, claim) for claim in quota.left}
        for quota in found
        if _covers(quota, pod, allocations)
    }


def _covers(quota: Quota, pod: Pod, allocations: Sequence[Allocation]) -> bool:
    if not quota.scopes:
        return True
    named = zip((each.name for each in pod.containers), allocations, strict=True)
    return quotas.covers(quota, pod, dict(named))


def growth_of(
    pod: Pod, allocations: Sequence[Allocation], before: Sequence[Allocation]
) -> Counter[QuotaClaim]:
    """Return the amounts that quotas count beyond those of before; nothing for what shrinks."""
    known = usage_of(pod, before)
    return +Counter(
        {claim: amount - known[claim] for claim, amount in usage_of(pod, allocations).items()}
    )


def _counted(pod: Pod, allocations: Sequence[Allocation], claim: QuotaClaim) -> int:
    """Return the amount of the whole pod, at the worst moment of its life."""
    side, kind = claim
    is_request = side is Side.REQUESTS
    total = total_of(pod, [_stated(each, claim) or 0 for each in allocations], side, kind)
    if pod.envelope is not None:
        own = pod.envelope.requests if is_request else pod.envelope.limits
        total = own.get(kind, total)
    # The overhead of a runtime class adds to every request, and to a limit where there is one.
    return total + limits.amount_of(pod.overhead, kind) if total or is_request else total


def _is_unstated(pod: Pod, allocations: Sequence[Allocation], claim: QuotaClaim) -> bool:
    """Return True if a container has to state an amount and does not.

    The containers of a pod with resources of its own need not state it.
    """
    return pod.envelope is None and any(
        _stated(each, claim) is None for each in _with_init(pod, allocations)
    )


def _with_init(pod: Pod, allocations: Sequence[Allocation]) -> Iterator[Allocation]:
    yield from allocations
    if pod.init_stated is not None:
        yield pod.init_stated


def _stated(allocation: Allocation, claim: QuotaClaim) -> int | None:
    limit = (allocation.limits or NO_AMOUNTS).get(claim.resource)
    if claim.side is Side.LIMITS:
        return limit
    # A limit without a request stands for both.
    return (allocation.requests or NO_AMOUNTS).get(claim.resource, limit)


def room_for_siblings(quota: Quota, usage: Claims, *, missing: int, awaited: int) -> Claims:
    """Return the part of a quota that is kept for further pods of an owner, with this usage each.

    `missing` of them are known to be missing. Where the owner's status is old, up to `awaited` may
    be; those that exist are in the quota's use, so that only the rest can be missing.
    """
    return {
        claim: max(missing * usage[claim], awaited * usage[claim] - quota.used.get(claim, 0), 0)
        for claim in quota.left
    }
