"""Resource policies and limit ranges: a recommendation, capped for one pod.

First the whole pod is made to fit the pod-type limit range (`fit_pod`). Then each container is made
to fit the container-type limit range, the autoscaler's policy and, where only requests are
controlled, its own limit; the later rule wins. Limits follow their requests in proportion, so a
bound on limits is a bound on requests. What the container-type limit range takes from one container
is left to the others of the pod. In the end the pod must fit some node.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Container as Collection
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import msgspec

from trimtab.core.model import autoscalers
from trimtab.core.model.autoscalers import (
    ContainerPolicy,
    ContainerRecommendation,
    ControlledValues,
    Held,
)
from trimtab.core.model.cap_notes import Note, NoteKind
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType, effective_item
from trimtab.core.model.limits import (
    NO_AMOUNTS,
    amount_of,
    limit_in_force,
    proportional_limit,
    request_for_limit,
    scale,
    without_negatives,
)
from trimtab.core.model.pods import Allocation, Container, Pod
from trimtab.core.model.resources import BOTH, MAX_AMOUNT, Resource, Resources
from trimtab.core.sizing.node_capacity import fit_node

_ByContainer: TypeAlias = Mapping[str, Resources | None]


def fit_pod(
    recommendations: Sequence[ContainerRecommendation],
    pod: Pod,
    item: LimitRangeItem | None,
    fixed: Collection[str] = frozenset(),
    largest: Resources | None = None,
) -> tuple[ContainerRecommendation, ...]:
    """The recommendations, scaled so that the whole pod fits the item as well as it can.

    A container without a recommendation takes part with what it requests now. Limits of the
    `fixed` containers follow no request. No limit of a container will be above the `largest`.
    """
    if item is None:
        return tuple(recommendations)
    entries = [*recommendations, *_requests_of_others(recommendations, pod)]
    # Of two recommendations for one container the first counts.
    first = {entry.container_name: entry for entry in reversed(entries)}
    targets = {name: entry.target for name, entry in first.items()}
    lowers = {name: entry.lower_bound for name, entry in first.items()}
    uppers = {name: entry.upper_bound for name, entry in first.items()}
    rules = _PodRules(pod, item, fixed, largest or NO_AMOUNTS)
    factors = [_factors(amounts, rules) for amounts in (targets, lowers, uppers)]
    return tuple(
        _scale(entry, factors, is_fixed=entry.container_name in fixed) for entry in entries
    )


def _requests_of_others(
    recommendations: Sequence[ContainerRecommendation], pod: Pod
) -> Iterator[ContainerRecommendation]:
    known = {recommendation.container_name for recommendation in recommendations}
    for container in pod.containers:
        requests = container.current.requests
        if requests and container.name not in known:
            yield ContainerRecommendation(container.name, without_negatives(requests))


@dataclass(frozen=True, slots=True)
class _Factor:
    """Factor by which the amounts of all containers are multiplied."""

    numerator: int = 1
    denominator: int = 1
    rounds_up: bool = False
    spares_fixed: bool = False
    """True if it brings limits down, which helps only where they follow requests."""

    def apply(self, amount: int, *, is_fixed: bool) -> int:
        if is_fixed and self.spares_fixed:
            return amount
        # To round up is to round the negative number down.
        sign = -1 if self.rounds_up else 1
        scaled = scale(sign * amount, numerator=self.numerator, denominator=self.denominator)
        return min(sign * scaled, MAX_AMOUNT)


_Factors: TypeAlias = Mapping[Resource, _Factor]


@dataclass(frozen=True, slots=True)
class _PodRules:
    """A pod, and the rules for its size as a whole."""

    pod: Pod
    item: LimitRangeItem
    fixed: Collection[str]
    """The containers whose limits follow no request."""
    largest: Resources
    """The largest limits that a container may have."""


def _factors(amounts: _ByContainer, rules: _PodRules) -> _Factors:
    return {kind: _factor(kind, amounts, rules) for kind in BOTH}


def _factor(kind: Resource, amounts: _ByContainer, rules: _PodRules) -> _Factor:
    """Return the factor that makes the pod fit; a factor of 1 if it fits, or if no size would."""
    total, moving, staying = _totals(kind, amounts, rules)
    total_limit = sum(moving) + staying
    minimum = amount_of(rules.item.min, kind)
    maximum = amount_of(rules.item.max, kind)
    if total_limit == 0:
        return _factor_without_limits(minimum, total, _unadvised(kind, amounts, rules.pod))
    if minimum > total:
        # A pod that ends short of it by a byte is refused.
        return _Factor(minimum, total, rounds_up=True)
    if 0 < maximum < total_limit:
        # Where limits that stay leave no room, no size fits.
        return _factor_to_fit(moving, maximum - staying, amount_of(rules.largest, kind))
    if minimum > total_limit:
        return _Factor(minimum, total_limit)
    return _Factor()


def _factor_to_fit(limits: Sequence[int], room: int, largest: int) -> _Factor:
    """Return the largest factor by which the limits fit the room, once each is cut to the largest.

    What one container may not have is left to the others.
    """
    left = [each for each in limits if each]
    while left and room > 0:
        moving = sum(left)
        if room >= moving:
            return _Factor()
        # Cross-multiplied, as shares of whole bytes have to be exact.
        fitting = [each for each in left if not largest or each * room < largest * moving]
        if len(fitting) == len(left):
            return _Factor(room, moving, spares_fixed=True)
        room -= largest * (len(left) - len(fitting))
        left = fitting
    return _Factor()


def _factor_without_limits(minimum: int, total: int, unadvised: int) -> _Factor:
    """The factor where no container has a limit: a minimum is one of requests all the same."""
    missing = minimum - unadvised
    return _Factor(missing, total, rounds_up=True) if missing > total else _Factor()


def _unadvised(kind: Resource, amounts: _ByContainer, pod: Pod) -> int:
    """Sum the requests of containers without a recommended amount: they stay, and count."""
    return sum(
        amount_of(container.current.requests, kind)
        for container in pod.containers
        if kind not in (amounts.get(container.name) or NO_AMOUNTS)
    )


def _totals(kind: Resource, amounts: _ByContainer, rules: _PodRules) -> tuple[int, list[int], int]:
    """The sum of the amounts, the limits that follow them, and the sum of the limits that stay."""
    total = staying = 0
    moving = []
    default = rules.item.default
    for container in rules.pod.containers:
        amount = amount_of(amounts.get(container.name), kind)
        total += amount
        if container.name in rules.fixed:
            staying += limit_in_force(kind, container.current, default)
        else:
            moving.append(proportional_limit(kind, container.proportions, amount, default) or 0)
    return total, moving, staying


def _scale(
    entry: ContainerRecommendation, factors: Sequence[_Factors], *, is_fixed: bool
) -> ContainerRecommendation:
    """Return the recommendation with its target, lower and upper bound scaled."""
    of_target, of_lower, of_upper = factors
    lower, upper = entry.lower_bound, entry.upper_bound
    return replace(
        entry,
        target=_scale_amounts(entry.target, of_target, is_fixed=is_fixed),
        lower_bound=lower and _scale_amounts(lower, of_lower, is_fixed=is_fixed),
        upper_bound=upper and _scale_amounts(upper, of_upper, is_fixed=is_fixed),
    )


def _scale_amounts(amounts: Resources, factors: _Factors, *, is_fixed: bool) -> Resources:
    # A missing amount stays missing: a zero would look like a recommendation.
    return {
        kind: factors[kind].apply(amount, is_fixed=is_fixed) for kind, amount in amounts.items()
    }


_NO_POLICY: Final = ContainerPolicy("*")
_NOTHING_HELD: Final = frozenset[Held]()
_NONE: Final = frozenset[str]()


class Capped(msgspec.Struct, frozen=True, gc=False):
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
    """Return the recommendation for the containers of the pod, inside policies and limit ranges.

    Without a recommendation there is nothing to cap, whatever policies and limit ranges say. The
    result leaves out held amounts, and resources that the policies do not control.
    """
    if recommendations is None:
        return Capped()
    if policies:
        held |= _uncontrolled(recommendations, policies)
    sound = [_without_negatives(each) for each in recommendations]
    pod_item = effective_item(limit_ranges, LimitRangeType.POD)
    fixed = _with_fixed_limits(pod, policies) if policies and pod_item is not None else _NONE
    if held:
        sound = _without_all_held(sound, held)
    container_item = effective_item(limit_ranges, LimitRangeType.CONTAINER)
    largest = None if container_item is None else container_item.max
    fitted: Iterable[ContainerRecommendation] = fit_pod(sound, pod, pod_item, fixed, largest)
    if held:
        # What a container has now may stand in for a recommendation that there is not.
        fitted = _without_all_held(fitted, held)
    capped, notes = _cap_containers(fitted, pod, policies, container_item)
    fitting, found_on_nodes = fit_node(capped, pod, limit_ranges)
    for name, further in found_on_nodes.items():
        notes[name] = (*notes.get(name, ()), *further)
    return Capped(tuple(fitting), notes)


def _cap_containers(
    recommendations: Iterable[ContainerRecommendation],
    pod: Pod,
    policies: tuple[ContainerPolicy, ...],
    item: LimitRangeItem | None,
) -> tuple[list[ContainerRecommendation], dict[str, tuple[Note, ...]]]:
    """Return what the pod's containers get inside their bounds, and by container the notes."""
    # Most containers have no bounds, and every review pays for each call.
    has_bounds = bool(policies) or item is not None
    containers = {container.name: container for container in reversed(pod.containers)}
    capped: list[ContainerRecommendation] = []
    notes: dict[str, tuple[Note, ...]] = {}
    for recommendation in recommendations:
        container = containers.get(recommendation.container_name)
        if container is None:
            continue
        bounds = _list_bounds(container, policies, item) if has_bounds else ()
        if not bounds:
            capped.append(recommendation)
            continue
        capped.append(_cap_recommendation(recommendation, bounds))
        if found := _cap(recommendation.target, bounds)[1]:
            notes[container.name] = found
    return capped, notes


def _list_bounds(
    container: Container, policies: tuple[ContainerPolicy, ...], item: LimitRangeItem | None
) -> tuple["_Bound", ...]:
    """Return the bounds of its policy and of limit ranges."""
    policy = autoscalers.policy_for(policies, container.name) if policies else None
    if policy is None and item is None:
        return ()
    return tuple(_bounds(container, policy or _NO_POLICY, item))


def _with_fixed_limits(pod: Pod, policies: tuple[ContainerPolicy, ...]) -> frozenset[str]:
    """Return the names of the containers whose limits follow no request."""
    found = {each.name: autoscalers.policy_for(policies, each.name) for each in pod.containers}
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
        if (policy := autoscalers.policy_for(policies, entry.container_name)) is not None
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


def _without_all_held(
    recommendations: Iterable[ContainerRecommendation], held: frozenset[Held]
) -> list[ContainerRecommendation]:
    """Return the recommendations without the amounts that are held."""
    return [_without_held(each, held) for each in recommendations]


def _without_held(
    recommendation: ContainerRecommendation, held: frozenset[Held]
) -> ContainerRecommendation:
    """Return the recommendation without the amounts that are held."""
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
        # The API server refuses requests above the limit of the spec, even above a limit of zero.
        # The kubelet may have put off what the spec asks for, and still report another limit.
        has, asks = (
            without_negatives(each.limits or NO_AMOUNTS)
            for each in (container.current, container.spec)
        )
        for kind in BOTH:
            if found := [limits[kind] for limits in (has, asks) if kind in limits]:
                yield _Bound(kind, NoteKind.CONTAINER_LIMIT, min(found))


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
