"""Resource policies and limit ranges: a recommendation, capped for one pod.

First the whole pod is made to fit the pod-type limit range (`pod_limit_range.py`). Then each
container is made to fit the container-type limit range, the autoscaler's policy and, where only
requests are controlled, its own limit; the later rule wins. Limits follow their requests in
proportion, so a bound on limits is a bound on requests. In the end the pod must fit some node.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from trimtab.core.autoscalers import (
    ContainerPolicy,
    ContainerRecommendation,
    ControlledValues,
    Held,
    policy_for,
)
from trimtab.core.limit_ranges import LimitRangeItem, LimitRangeType, effective_item
from trimtab.core.limits import NO_AMOUNTS, amount_of, request_for_limit, without_negatives
from trimtab.core.node_room import fit_node
from trimtab.core.notes import Note, NoteKind
from trimtab.core.pod_limit_range import fit_pod
from trimtab.core.pods import Allocation, Container, Pod
from trimtab.core.records import dataclass
from trimtab.core.resources import BOTH, Resource, Resources

_NO_POLICY: Final = ContainerPolicy("*")
_NOTHING_HELD: Final = frozenset[Held]()
_NONE: Final = frozenset[str]()


class Capped(msgspec.Struct, frozen=True):
    """A recommendation that fits a pod, and by container what was done to its targets."""

    recommendations: tuple[ContainerRecommendation, ...] = ()
    notes: Mapping[str, tuple[Note, ...]] = msgspec.field(default_factory=dict)


def cap_for_pod(
    recommendations: Sequence[ContainerRecommendation] | None,
    pod: Pod,
    policies: tuple[ContainerPolicy, ...] = (),
    limit_ranges: Sequence[LimitRangeItem] = (),
    held: frozenset[Held] = frozenset(),
) -> Capped:
    """The recommendation for the containers of the pod, inside policies and limit ranges.

    Without a recommendation there is nothing to cap, whatever policies and limit ranges say, and
    neither what is held nor what the policies do not control is in it.
    """
    if recommendations is None:
        return Capped()
    if policies:
        held |= _uncontrolled(recommendations, policies)
    pod_item = effective_item(limit_ranges, LimitRangeType.POD)
    container_item = effective_item(limit_ranges, LimitRangeType.CONTAINER)
    containers = {container.name: container for container in reversed(pod.containers)}
    capped = []
    notes: dict[str, tuple[Note, ...]] = {}
    sound = [_without_negatives(recommendation) for recommendation in recommendations]
    if held:
        sound = [_without_held(recommendation, held) for recommendation in sound]
    fixed = _with_fixed_limits(pod, policies) if policies and pod_item is not None else _NONE
    for fitted in fit_pod(sound, pod, pod_item, fixed):
        # What a container has now may stand in for a recommendation that there is not.
        recommendation = _without_held(fitted, held) if held else fitted
        container = containers.get(recommendation.container_name)
        if container is not None:
            policy = policy_for(policies, container.name) if policies else None
            if policy is None and container_item is None:
                # Nothing bounds most containers.
                capped.append(recommendation)
                continue
            bounds = tuple(_bounds(container, policy or _NO_POLICY, container_item))
            if not bounds:
                capped.append(recommendation)
                continue
            capped.append(_cap_recommendation(recommendation, bounds))
            if found := _cap(recommendation.target, bounds)[1]:
                notes[container.name] = found
    fitting, found_on_nodes = fit_node(capped, pod, limit_ranges)
    for name, further in found_on_nodes.items():
        notes[name] = (*notes.get(name, ()), *further)
    return Capped(tuple(fitting), notes)


def _with_fixed_limits(pod: Pod, policies: tuple[ContainerPolicy, ...]) -> frozenset[str]:
    """Return the names of the containers whose limits follow no request."""
    found = {each.name: policy_for(policies, each.name) for each in pod.containers}
    return frozenset(
        name
        for name, policy in found.items()
        if policy is not None and policy.controlled_values is ControlledValues.REQUESTS_ONLY
    )


def _uncontrolled(
    recommendations: Iterable[ContainerRecommendation], policies: tuple[ContainerPolicy, ...]
) -> frozenset[Held]:
    """Return the resources of containers that are not in their `controlledResources`.

    A recommender leaves them out. A status may be older than the policy, or written by hand.
    """
    if all(policy.controlled_resources == BOTH for policy in policies):
        return _NOTHING_HELD
    return frozenset(
        Held(kind, entry.container_name)
        for entry in recommendations
        if (policy := policy_for(policies, entry.container_name)) is not None
        for kind in BOTH
        if kind not in policy.controlled_resources
    )


def _change_amounts(
    recommendation: ContainerRecommendation, change: Callable[[Resources], Resources]
) -> ContainerRecommendation:
    """The recommendation after the same was done to its target and to its bounds."""
    lower, upper = recommendation.lower_bound, recommendation.upper_bound
    return replace(
        recommendation,
        target=change(recommendation.target),
        lower_bound=None if lower is None else change(lower),
        upper_bound=None if upper is None else change(upper),
    )


def _without_negatives(recommendation: ContainerRecommendation) -> ContainerRecommendation:
    """The recommendation without amounts that no pod can have."""
    lower = recommendation.lower_bound or NO_AMOUNTS
    upper = recommendation.upper_bound or NO_AMOUNTS
    if min((0, *recommendation.target.values(), *lower.values(), *upper.values())) == 0:
        return recommendation
    return _change_amounts(recommendation, without_negatives)


def _without_held(
    recommendation: ContainerRecommendation, held: frozenset[Held]
) -> ContainerRecommendation:
    """The recommendation without amounts that are nobody's to apply."""
    name = recommendation.container_name
    free = [kind for kind in BOTH if not held & {Held(kind), Held(kind, name)}]
    return _change_amounts(
        recommendation, lambda amounts: {kind: amounts[kind] for kind in free if kind in amounts}
    )


@dataclass(frozen=True, slots=True)
class _Bound:
    """One bound on what a container may be given of a resource."""

    resource: Resource
    kind: NoteKind
    amount: int
    is_minimum: bool = False

    def excludes(self, amount: int) -> bool:
        return amount < self.amount if self.is_minimum else amount > self.amount


def _bounds(
    container: Container, policy: ContainerPolicy, item: LimitRangeItem | None
) -> Iterator[_Bound]:
    """All bounds on a container in the order in which they apply; zero and less bound nothing."""
    moves_limits = policy.controlled_values is ControlledValues.REQUESTS_AND_LIMITS
    if item is not None:
        yield from _limit_range_bounds(container.proportions if moves_limits else None, item)
    if policy.min_allowed or policy.max_allowed:
        yield from _policy_bounds(policy)
    if not moves_limits:
        # The API server refuses requests above the limit, even above a limit of zero.
        limits = without_negatives(container.current.limits or NO_AMOUNTS)
        yield from (
            _Bound(kind, NoteKind.CONTAINER_LIMIT, limits[kind]) for kind in BOTH if kind in limits
        )


def _policy_bounds(policy: ContainerPolicy) -> Iterator[_Bound]:
    for kind in BOTH:
        if minimum := amount_of(policy.min_allowed, kind):
            yield _Bound(kind, NoteKind.MIN_ALLOWED, minimum, is_minimum=True)
        if maximum := amount_of(policy.max_allowed, kind):
            yield _Bound(kind, NoteKind.MAX_ALLOWED, maximum)


def _limit_range_bounds(followed: Allocation | None, item: LimitRangeItem) -> Iterator[_Bound]:
    """Bounds of a LimitRange on a request, and on the limit that follows it.

    `followed` has the proportion that stays; it is None where limits follow no request.
    """
    for kind in BOTH:
        minimum, maximum = amount_of(item.min, kind), amount_of(item.max, kind)
        if followed is not None:
            # A minimum holds for the limit and for the request itself.
            least = request_for_limit(kind, followed, minimum, item.default) or 0
            minimum = max(minimum, least)
            maximum = request_for_limit(kind, followed, maximum, item.default) or 0
        if minimum:
            yield _Bound(kind, NoteKind.LIMIT_RANGE_MIN, minimum, is_minimum=True)
        if maximum:
            yield _Bound(kind, NoteKind.LIMIT_RANGE_MAX, maximum)


def _cap_recommendation(
    recommendation: ContainerRecommendation, bounds: Sequence[_Bound]
) -> ContainerRecommendation:
    return _change_amounts(recommendation, lambda amounts: _cap(amounts, bounds)[0])


def _cap(amounts: Resources, bounds: Iterable[_Bound]) -> tuple[Resources, tuple[Note, ...]]:
    capped = dict(amounts)
    notes = []
    for bound in bounds:
        if bound.resource in capped and bound.excludes(capped[bound.resource]):
            capped[bound.resource] = bound.amount
            notes.append(Note(bound.resource, bound.kind))
    return capped, tuple(notes)
