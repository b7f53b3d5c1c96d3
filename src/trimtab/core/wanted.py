"""What a resize asks for: the requests and limits of each container."""

from collections.abc import Sequence

from trimtab.core.allocations import is_off, recommended_for_pod
from trimtab.core.autoscalers import Autoscaler
from trimtab.core.boost import annotation_name, before_boost
from trimtab.core.limit_ranges import LimitRangeItem
from trimtab.core.limits import NO_AMOUNTS
from trimtab.core.outcomes import Wanted
from trimtab.core.pods import Allocation, Pod
from trimtab.core.policy import Capped
from trimtab.core.resources import Resource, Resources


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


def growing_but_for_cpu(pod: Pod, boosted: Sequence[str], wanted: Wanted) -> Wanted:
    """What grows, and the CPU of boosted containers whichever way it goes (M10)."""
    growing = only_growing(pod, wanted)
    return {
        **growing,
        **{
            name: _with_cpu_of(wanted[name], growing.get(name, Allocation()))
            for name in boosted
            if name in wanted
        },
    }


def wanted_after_boost(
    pod: Pod, expired: Sequence[str], by_autoscaler: Wanted, *, others: bool
) -> Wanted:
    """What containers get when their boost ends: the recommendation, else the spec's CPU.

    With `others` the containers that were never boosted get their recommendation along the way.
    """
    ended = {name: _after_boost(pod, name, by_autoscaler.get(name)) for name in expired}
    along = {
        name: allocation
        for name, allocation in by_autoscaler.items()
        if others and annotation_name(name) not in pod.annotations
    }
    names = {container.name for container in pod.containers}
    return {
        name: allocation
        for name, allocation in (along | ended).items()
        if allocation is not None and name in names
    }


def without_growth(pod: Pod, wanted: Wanted) -> Wanted:
    """What a node can give at once: no more CPU than a container has, and the memory it has.

    Of a container of which nothing is wanted its spec counts. Of one whose kubelet has not said
    yet what it has, nothing is known.
    """
    return {
        each.name: Allocation(
            _without_growth(each.status.requests, wanted.get(each.name, each.spec).requests),
            _without_growth(each.status.limits, wanted.get(each.name, each.spec).limits),
        )
        for each in pod.containers
        if each.status is not None
    }


def _without_growth(present: Resources | None, wanted: Resources | None) -> Resources:
    asked = wanted or NO_AMOUNTS
    return {
        kind: min(amount, asked.get(kind, amount)) if kind is Resource.CPU else amount
        for kind, amount in (present or NO_AMOUNTS).items()
    }


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


def _with_cpu_of(wanted: Allocation, growing: Allocation) -> Allocation:
    return Allocation(
        _replace_cpu(growing.requests, wanted.requests), _replace_cpu(growing.limits, wanted.limits)
    )


def _replace_cpu(growing: Resources | None, wanted: Resources | None) -> Resources:
    memory = {
        kind: amount for kind, amount in (growing or NO_AMOUNTS).items() if kind is not Resource.CPU
    }
    cpu = {kind: amount for kind, amount in (wanted or NO_AMOUNTS).items() if kind is Resource.CPU}
    return cpu | memory


def _after_boost(pod: Pod, name: str, recommended: Allocation | None) -> Allocation | None:
    original = before_boost(pod, name)
    if recommended is None or original is None:
        return recommended or original
    if Resource.CPU in (recommended.requests or NO_AMOUNTS):
        return recommended
    # Where CPU is not controlled, the boost would otherwise stay for good.
    return Allocation(
        {**(original.requests or NO_AMOUNTS), **(recommended.requests or NO_AMOUNTS)},
        {**(original.limits or NO_AMOUNTS), **(recommended.limits or NO_AMOUNTS)},
    )
