"""Size and urgency of the change that a pod needs, and the order of such changes.

All is measured against the recommendation as capped for the pod. Other modules decide between
resize and eviction, and how many pods of a workload may change at once.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from math import inf
from typing import Final, Protocol, TypeVar

from trimtab.core.model import validation
from trimtab.core.model.autoscalers import (
    Autoscaler,
    ChangeDirection,
    ContainerRecommendation,
    EvictionRequirement,
)
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.pods import (
    NAME_SEPARATOR,
    OBSERVED_CONTAINERS,
    Allocation,
    Container,
    Pod,
    PodPhase,
)
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.sizing import container_resources

_CONTAINER_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

# The original compares in thousandths and takes one of them for a request of nothing.
_THOUSANDTHS: Final = {Resource.CPU: 1, Resource.MEMORY: 1000}
_NONE: Final = Allocation()


@dataclass(frozen=True, slots=True)
class Change:
    """The difference between what a pod has and what is recommended for it."""

    scale_up: bool = False
    """Some container should get more of something, or has no request for it."""
    outside_bounds: bool = False
    """Some request lies outside the recommended range, or is missing."""
    relative_difference: float = 0.0
    """The sum over resources of |request - target| / request, over the pod's containers."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds of size, age and urgency for a change; the defaults are the original's."""

    smallest_change: float = 0.1
    """`--pod-update-threshold`."""
    lifetime: timedelta = timedelta(hours=12)
    """`--in-recommendation-bounds-eviction-lifetime-threshold`."""
    quick_oom: timedelta = timedelta(minutes=10)
    """`--evict-after-oom-threshold`."""

    @property
    def least_restart(self) -> float:
        """Return the growth below which nothing restarts, outside bounds or inside."""
        return self.smallest_change / 2

    def __post_init__(self) -> None:
        """Refuse negative values."""
        validation.require_at_least("smallest_change", self.smallest_change, 0)
        validation.require_at_least("lifetime", self.lifetime.total_seconds(), 0)
        validation.require_at_least("quick_oom", self.quick_oom.total_seconds(), 0)


class Urgent(Protocol):
    """Anything with a change to make, such as a candidate."""

    @property
    def change(self) -> Change:
        """Size of the change."""
        ...


AnyUrgent = TypeVar("AnyUrgent", bound=Urgent)


def measure_change(
    pod: Pod,
    recommendation: Iterable[ContainerRecommendation],
    *,
    only_growth: bool = False,
) -> Change:
    """Measure what the recommendation would change about the observed containers.

    With `only_growth` no resource of a container counts that would stay or shrink (D18).
    """
    scale_up = outside_bounds = False
    requested = dict.fromkeys(BOTH, 0)
    wanted: dict[Resource, int] = {}
    for container, recommended in _recommended(pod, recommendation):
        requests = container.current.requests or NO_AMOUNTS
        for resource, target in recommended.target.items():
            request = requests.get(resource)
            if only_growth and request is not None and target <= request:
                continue
            wanted[resource] = wanted.get(resource, 0) + target
            requested[resource] += request or 0
            # A missing request counts as growth: the pod then runs without any guarantee.
            scale_up = scale_up or request is None or target > request
            outside_bounds = outside_bounds or _is_outside(
                recommended, resource, request, only_growth=only_growth
            )
    return Change(
        scale_up,
        outside_bounds,
        sum(_difference(kind, requested[kind], wanted[kind]) for kind in BOTH if kind in wanted),
    )


def observed_containers(annotations: Mapping[str, str]) -> frozenset[str] | None:
    """The containers that admission saw, or None if the annotation is missing or malformed."""
    value = annotations.get(OBSERVED_CONTAINERS)
    return None if value is None else _parse_observed(value)


@lru_cache(maxsize=4096)
def _parse_observed(value: str) -> frozenset[str] | None:
    # All pods of a workload say the same.
    names = value.split(NAME_SEPARATOR) if value else []
    # Anyone who may patch pods can write the annotation; a text of no container names is ignored.
    return frozenset(names) if all(map(_CONTAINER_NAME.fullmatch, names)) else None


def is_quick_oom(pod: Pod, autoscaler: Autoscaler, threshold: timedelta, now: datetime) -> bool:
    """Return True if a scaled container was lately OOM-killed, soon after its start."""
    return bool(killed_early(pod, autoscaler, threshold, now))


def killed_early(
    pod: Pod, autoscaler: Autoscaler, threshold: timedelta, now: datetime
) -> list[Container]:
    """List the scaled containers that were lately OOM-killed soon after their start."""
    killed = [
        each
        for each in pod.containers
        # Cheapest first: most containers have never ended, and all pods are checked.
        if each.last_termination is not None and _died_quickly(each, threshold, now)
    ]
    if not killed:
        return killed
    observed = observed_containers(pod.annotations)
    return [
        each
        for each in killed
        if _is_observed(each, observed) and not container_resources.is_off(autoscaler, each)
    ]


def gives_memory(
    recommendation: Iterable[ContainerRecommendation], containers: Iterable[Container]
) -> bool:
    """Return True if one of the containers would get more memory than it has."""
    targets: dict[str, Resources] = {}
    for entry in recommendation:
        targets.setdefault(entry.container_name, entry.target)
    return any(
        _growth_of_memory(each, Allocation(targets.get(each.name))) > 0 for each in containers
    )


def memory_relief(pod: Pod, wanted: Mapping[str, Allocation]) -> float:
    """The largest share by which the memory of a container grows whose last run was OOM-killed."""
    return max(
        (
            _growth_of_memory(container, wanted[container.name])
            for container in pod.containers
            if container.name in wanted
            and container.last_termination is not None
            and container.last_termination.is_oom_kill
        ),
        default=0.0,
    )


def quick_oom_threshold(
    autoscaler: Autoscaler, default: timedelta, *, per_autoscaler: bool
) -> timedelta:
    """The autoscaler's own threshold where such settings are enabled, else the default."""
    own = autoscaler.quick_oom_threshold
    return own if per_autoscaler and own is not None else default


def reason_to_wait(
    change: Change,
    *,
    quick_oom: bool,
    age: timedelta | None,
    thresholds: Thresholds,
    has_new_role: bool = False,
) -> HoldReason | None:
    """Return why the change should wait, or None if it is due; an unknown age counts as young.

    A pod that another autoscaler has taken over since its last change may be of any age.
    """
    if quick_oom and change.relative_difference == 0:
        # Restarting it with what it has would only repeat the kill.
        return HoldReason.CHANGE_TOO_SMALL
    # Both override age and size: the pod is known to be wrong.
    if change.outside_bounds or quick_oom:
        return None
    if change.relative_difference == 0:
        return HoldReason.INSIDE_BOUNDS
    if change.relative_difference < thresholds.smallest_change:
        return HoldReason.CHANGE_TOO_SMALL
    if age is None or (age < thresholds.lifetime and not has_new_role):
        return HoldReason.TOO_YOUNG
    return None


def is_trifle(pod: Pod, wanted: Mapping[str, Allocation], thresholds: Thresholds) -> bool:
    """Return True if no amount changes enough to restart containers for it.

    With a long history bounds lie close to the target, and follow it by a bucket at a time. Growth
    may matter all the same. An excess does not hurt a pod, unless the pod is pending.
    """
    steps = [
        (amount - has) / has if (has := requests.get(kind, 0)) else inf
        for container in pod.containers
        for requests in (container.current.requests or NO_AMOUNTS,)
        for kind, amount in ((wanted.get(container.name) or _NONE).requests or NO_AMOUNTS).items()
    ]
    growth, shrinkage = max(steps, default=0.0), -min(steps, default=0.0)
    least, is_pending = thresholds.least_restart, pod.phase is PodPhase.PENDING
    much = least if is_pending else thresholds.smallest_change
    return (growth > 0 or shrinkage > 0) and growth < least and shrinkage < much


def age_of(pod: Pod, last_updated_at: datetime | None, now: datetime) -> timedelta | None:
    """The time since the pod started or was last resized; None while it has not started."""
    if pod.started_at is None:
        return None
    return now - max(pod.started_at, last_updated_at or pod.started_at)


def most_urgent_first(candidates: Iterable[AnyUrgent]) -> list[AnyUrgent]:
    """Sort by urgency: growth first, then the larger change; equals keep their order."""
    return sorted(candidates, key=lambda candidate: urgency_rank(candidate.change))


def urgency_rank(change: Change) -> tuple[bool, float]:
    """Return the sort key of a change; the most urgent change has the smallest."""
    # Tuples sort by their first element: growth is False and comes first.
    return not change.scale_up, -change.relative_difference


def _recommended(
    pod: Pod, recommendation: Iterable[ContainerRecommendation]
) -> Iterable[tuple[Container, ContainerRecommendation]]:
    observed = observed_containers(pod.annotations)
    by_name: dict[str, ContainerRecommendation] = {}
    for recommended in recommendation:
        # The first entry of a name counts, as in the original; the CRD does not forbid a second
        # one.
        by_name.setdefault(recommended.container_name, recommended)
    for container in pod.containers:
        if container.name in by_name and _is_observed(container, observed):
            yield container, by_name[container.name]


def _is_outside(
    recommended: ContainerRecommendation,
    resource: Resource,
    request: int | None,
    *,
    only_growth: bool,
) -> bool:
    if request is None:
        return True
    # A LimitRange for whole pods scales target and bounds by factors of their own, so the target
    # may lie below the lower bound. A pod that has its target is inside all the same.
    target = recommended.target[resource]
    lowest = min((recommended.lower_bound or NO_AMOUNTS).get(resource, request), target)
    if only_growth:
        return request < lowest
    highest = max((recommended.upper_bound or NO_AMOUNTS).get(resource, request), target)
    return request < lowest or request > highest


def _growth_of_memory(container: Container, wanted: Allocation) -> float:
    has = (container.current.requests or NO_AMOUNTS).get(Resource.MEMORY, 0)
    asked = (wanted.requests or NO_AMOUNTS).get(Resource.MEMORY, has)
    return max(asked - has, 0) / max(has, 1)


def _difference(resource: Resource, requested: int, wanted: int) -> float:
    scale = _THOUSANDTHS[resource]
    # A missing request would divide by zero; the original takes a thousandth for it.
    basis = max(scale * requested, 1)
    return abs(basis - scale * wanted) / basis


def _is_observed(container: Container, observed: Collection[str] | None) -> bool:
    return observed is None or container.name in observed


def _died_quickly(container: Container, threshold: timedelta, now: datetime) -> bool:
    last = container.last_termination
    if last is None or not last.is_oom_kill or not last.started_at or not last.finished_at:
        return False
    # Soon after its start, and lately: an old kill says nothing about the present size.
    return last.finished_at - last.started_at < threshold and now - last.finished_at < threshold


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
