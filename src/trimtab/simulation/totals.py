"""Totals: what the containers of a pod request, and what is set aside for them."""

from collections.abc import Iterable

from trimtab.core.pods import Allocation, Container, Pod, ResizeState
from trimtab.core.resources import BOTH, Resource, Resources


def resource_total(pod: Pod, resource: Resource) -> int:
    """What all containers of a pod request together."""
    return sum((container.spec.requests or {}).get(resource, 0) for container in pod.containers)


def total_requests(allocations: Iterable[Allocation]) -> Resources:
    """What all of these request together."""
    requests = [allocation.requests or {} for allocation in allocations]
    return {kind: sum(each.get(kind, 0) for each in requests) for kind in BOTH}


def reserved_total(pod: Pod, resource: Resource) -> int:
    """What the scheduler and quotas set aside for a pod.

    While a resize is under way this is the larger of what is wanted and what is there; of one that
    can never be, only what is there.
    """
    is_refused = pod.resize is ResizeState.INFEASIBLE
    return sum(
        _reserved(container, resource, is_refused=is_refused) for container in pod.containers
    )


def _reserved(container: Container, resource: Resource, *, is_refused: bool) -> int:
    wanted = (container.spec.requests or {}).get(resource, 0)
    if container.status is None:
        return wanted
    there = (container.status.requests or {}).get(resource, 0)
    return there if is_refused else max(wanted, there)
