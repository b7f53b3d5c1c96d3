"""Sizes that running pods keep although a LimitRange gives new pods less.

A LimitRange concerns new pods and growth. It takes nothing from a pod that is on a node. So a cap
by it is no reason to evict the pod, or to shrink it below what is recommended.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from msgspec import structs

from trimtab.core.changes import change
from trimtab.core.model import limits
from trimtab.core.model.autoscalers import ContainerRecommendation
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.pods import Allocation, Pod
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.sizing.capping import Capped


def is_cut(pod: Pod, capped: Capped) -> bool:
    """Return True if the recommendation, or a bound, is below what a container has."""
    own = _own(pod)
    return any(
        amounts.get(kind, has) < has
        for entry in capped.recommendations
        for amounts in (entry.target, entry.lower_bound, entry.upper_bound)
        if amounts is not None
        for kind, has in own.get(entry.container_name, NO_AMOUNTS).items()
    )


def keep_sizes(pod: Pod, capped: Capped, free: Capped) -> Capped:
    """Return the capped recommendation without its cuts below what the pod has.

    `free` is the recommendation without the cap. As far as it is lower than what the pod has, it
    counts. A container without a recommendation keeps what it has.
    """
    own, uncapped = (
        _own(pod),
        {each.container_name: each for each in reversed(free.recommendations)},
    )
    return structs.replace(
        capped,
        recommendations=tuple(
            _kept(
                entry, uncapped.get(entry.container_name), own.get(entry.container_name, NO_AMOUNTS)
            )
            for entry in capped.recommendations
        ),
    )


def bears_cut(
    pod: Pod,
    given: Mapping[str, Allocation],
    kept: Iterable[ContainerRecommendation],
    least: float,
) -> bool:
    """Return True if memory that ends OOM kills is worth what a LimitRange takes from the pod.

    `given` is what the LimitRange leaves, `kept` the recommendation without its cuts. A pod that is
    ready has more to lose than to gain. The memory of a killed container must grow by the share
    `least`, and no container lose memory that it needs: its own kills would follow.
    """
    if pod.ready_since is not None or change.memory_relief(pod, given) < least:
        return False
    own = _own(pod)
    return not any(
        allocation.requests is not None
        and allocation.requests.get(Resource.MEMORY, has) < min(has, needed)
        for entry in kept
        if (allocation := given.get(entry.container_name)) is not None
        for has in (limits.amount_of(own.get(entry.container_name), Resource.MEMORY),)
        for needed in (limits.amount_of(entry.lower_bound, Resource.MEMORY),)
    )


def _own(pod: Pod) -> dict[str, Resources]:
    return {each.name: each.current.requests or NO_AMOUNTS for each in pod.containers}


def _kept(
    entry: ContainerRecommendation, free: ContainerRecommendation | None, own: Resources
) -> ContainerRecommendation:
    lower, upper = entry.lower_bound, entry.upper_bound
    return replace(
        entry,
        target=_raised(entry.target, None if free is None else free.target, own),
        lower_bound=lower and _raised(lower, None if free is None else free.lower_bound, own),
        upper_bound=upper and _raised(upper, None if free is None else free.upper_bound, own),
    )


def _raised(capped: Resources, free: Resources | None, own: Resources) -> Resources:
    uncapped = free or own
    return {
        kind: max(amount, min(own.get(kind, 0), uncapped.get(kind, own.get(kind, 0))))
        for kind, amount in capped.items()
    }
