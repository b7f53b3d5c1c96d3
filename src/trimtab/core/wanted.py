"""What a resize asks for: the requests and limits of each container."""

from collections.abc import Sequence

from trimtab.core.allocations import is_off, recommended_for_pod
from trimtab.core.autoscalers import Autoscaler
from trimtab.core.limit_ranges import LimitRangeItem
from trimtab.core.limits import NO_AMOUNTS
from trimtab.core.outcomes import Wanted
from trimtab.core.pods import Allocation, Pod
from trimtab.core.policy import Capped


def wanted_by_autoscaler(
    pod: Pod,
    autoscaler: Autoscaler,
    limit_ranges: Sequence[LimitRangeItem],
    capped: Capped | None = None,
) -> Wanted:
    """What the recommendation comes to for the containers that are scaled."""
    recommended = recommended_for_pod(pod, autoscaler, limit_ranges, capped)
    return {
        container.name: Allocation(found.requests, found.limits)
        for container in pod.containers
        if (found := recommended.get(container.name)) and not is_off(autoscaler, container)
    }


def only_growing(pod: Pod, wanted: Wanted) -> Wanted:
    """Of what is wanted only the resources that grow; their limits never shrink."""
    growing = {
        container.name: _growing(container.current, wanted[container.name])
        for container in pod.containers
        if container.name in wanted
    }
    return {name: allocation for name, allocation in growing.items() if allocation.requests}


def _growing(current: Allocation, wanted: Allocation) -> Allocation:
    own_requests, own_limits = current.requests or NO_AMOUNTS, current.limits or NO_AMOUNTS
    limits = wanted.limits or NO_AMOUNTS
    requests = {
        kind: amount
        for kind, amount in (wanted.requests or NO_AMOUNTS).items()
        if kind not in own_requests or amount > own_requests[kind]
    }
    return Allocation(
        requests,
        {kind: max(limits[kind], own_limits.get(kind, 0)) for kind in requests if kind in limits},
    )
