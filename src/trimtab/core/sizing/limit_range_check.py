"""The LimitRanger's checks of a new pod, so that no pod is made that it would refuse.

Upstream: `PodValidateLimitFunc` in plugin/pkg/admission/limitranger of Kubernetes 1.35. Defaults of
LimitRanges are in a new pod before any webhook sees it. Ordinary init containers count only in the
whole pod: nothing here changes them.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from trimtab.core.model import limit_ranges
from trimtab.core.model.limit_ranges import OF_LIMIT_RANGES, LimitRangeItem, LimitRangeType
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.pods import Allocation, Pod
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.sizing.pod_totals import total_of
from trimtab.core.sizing.quotas import Side

_THOUSAND: Final = 1000


def checked_items(items: Iterable[LimitRangeItem]) -> Sequence[LimitRangeItem]:
    """Return the items that LimitRanges have; room on nodes refuses no pod."""
    return [item for item in items if item.type in OF_LIMIT_RANGES]


def would_refuse(
    items: Sequence[LimitRangeItem], pod: Pod, allocations: Sequence[Allocation]
) -> bool:
    """Return True if a LimitRange refuses a new pod with these container resources, in order."""
    return find_refused(items, pod, allocations) is not None


def find_refused(
    items: Sequence[LimitRangeItem], pod: Pod, allocations: Sequence[Allocation]
) -> Resource | None:
    """Return the first resource for which a LimitRange refuses such a pod; None if none does."""
    for kind in BOTH:
        each = _asked_by_containers(kind, allocations)
        for item in items:
            is_container = item.type is LimitRangeType.CONTAINER
            checked = each if is_container else (_asked_by_pod(kind, pod, each),)
            if any(_is_outside(item, kind, asked) for asked in checked):
                return kind
    return None


def with_defaults(items: Sequence[LimitRangeItem], allocation: Allocation) -> Allocation:
    """Return what the API server makes of a new container that leaves amounts out."""
    item = limit_ranges.effective_item(items, LimitRangeType.CONTAINER)
    if item is None:
        return allocation
    default, limits = item.default or NO_AMOUNTS, allocation.limits or NO_AMOUNTS
    # A container that has a limit and no request asks for its limit.
    requests = {
        **(item.min or NO_AMOUNTS),
        **default,
        **(item.default_request or NO_AMOUNTS),
        **limits,
        **(allocation.requests or NO_AMOUNTS),
    }
    return Allocation(requests, {**default, **limits})


class _Asked(NamedTuple):
    """The request and limit of one resource; None where there is none."""

    request: int | None
    limit: int | None


def _asked_by_containers(kind: Resource, allocations: Sequence[Allocation]) -> Sequence[_Asked]:
    found = []
    for each in allocations:
        limit = (each.limits or NO_AMOUNTS).get(kind)
        # A limit without a request stands for both.
        found.append(_Asked((each.requests or NO_AMOUNTS).get(kind, limit), limit))
    return found


def _asked_by_pod(kind: Resource, pod: Pod, containers: Sequence[_Asked]) -> _Asked:
    """Return what the whole pod asks for: its own resources take the place of a sum."""
    request = _total(pod, [each.request for each in containers], Side.REQUESTS, kind)
    limit = _total(pod, [each.limit for each in containers], Side.LIMITS, kind)
    if pod.envelope is None:
        return _Asked(request, limit)
    own = pod.envelope
    return _Asked(own.requests.get(kind, request), own.limits.get(kind, limit))


def _total(pod: Pod, amounts: Sequence[int | None], side: Side, kind: Resource) -> int | None:
    """Return the sum at the worst moment of the pod's life; None where no container has any."""
    first = pod.init_peak.requests if side is Side.REQUESTS else pod.init_peak.limits
    if kind not in (first or NO_AMOUNTS) and all(amount is None for amount in amounts):
        return None
    return total_of(pod, [amount or 0 for amount in amounts], side, kind)


def _is_outside(item: LimitRangeItem, kind: Resource, asked: _Asked) -> bool:
    request, limit = asked
    least = (item.min or NO_AMOUNTS).get(kind)
    most = (item.max or NO_AMOUNTS).get(kind)
    if least is not None and (
        request is None or request < least or (limit is not None and limit < least)
    ):
        return True
    if most is not None and (
        limit is None or limit > most or (request is not None and request > most)
    ):
        return True
    ratio = item.max_ratio(kind)
    # The API server divides first, as floats.
    return ratio is not None and (not request or not limit or limit / request * _THOUSAND > ratio)
