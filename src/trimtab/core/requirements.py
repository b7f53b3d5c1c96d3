"""Eviction requirements: the directions in which an autoscaler lets its running pods change.

Every requirement must hold, each as soon as one controlled container fulfils it; different
containers may serve different requirements (decision D2). They filter in-place resizes as well, as
users of the original know it, but never the end of a boost.
"""

from collections.abc import Iterable, Sequence

from trimtab.core.autoscalers import ChangeDirection, ContainerRecommendation, EvictionRequirement
from trimtab.core.pods import Container, Pod
from trimtab.core.resources import Resource, Resources


def are_fulfilled(
    requirements: Sequence[EvictionRequirement],
    pod: Pod,
    recommendation: Iterable[ContainerRecommendation],
    *,
    only_growth: bool = False,
) -> bool:
    """Return True if the change that is recommended for the pod meets every requirement.

    With `only_growth` a resource that would shrink meets no requirement (D18).
    """
    higher = ChangeDirection.TARGET_HIGHER
    if only_growth and any(requirement.direction is not higher for requirement in requirements):
        return False
    targets: dict[str, Resources] = {}
    for recommended in recommendation:
        targets.setdefault(recommended.container_name, recommended.target)
    controlled = [container for container in pod.containers if container.name in targets]
    return bool(controlled) and all(
        any(_is_met(requirement, container, targets[container.name]) for container in controlled)
        for requirement in requirements
    )


def _is_met(requirement: EvictionRequirement, container: Container, target: Resources) -> bool:
    requests = container.current.requests or {}
    return any(
        _direction(requests, target, resource) is requirement.direction
        for resource in requirement.resources
        if requirement.direction is not None
    )


def _direction(
    requests: Resources, target: Resources, resource: Resource
) -> ChangeDirection | None:
    if resource not in requests:
        return ChangeDirection.TARGET_HIGHER
    # A resource without a target, as one that is not controlled, does not change.
    wanted = target.get(resource, requests[resource])
    if wanted == requests[resource]:
        return None
    higher = wanted > requests[resource]
    return ChangeDirection.TARGET_HIGHER if higher else ChangeDirection.TARGET_LOWER
