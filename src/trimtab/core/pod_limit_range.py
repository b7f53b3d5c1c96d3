"""Pod-type limit ranges: what all containers of a pod may ask for together.

Where the pod as a whole would fall outside, the recommendations of its containers are scaled by
the same factor, each of the three amounts of a recommendation and each resource for itself. Limits
that follow no request (`controlledValues: RequestsOnly`) stay as they are: they count in the
maximum, and no request makes room by falling below them.
"""

from collections.abc import Container as Collection
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from trimtab.core.autoscalers import ContainerRecommendation
from trimtab.core.limit_ranges import LimitRangeItem
from trimtab.core.limits import (
    NO_AMOUNTS,
    amount_of,
    limit_in_force,
    proportional_limit,
    scale,
    without_negatives,
)
from trimtab.core.pods import Pod
from trimtab.core.records import dataclass
from trimtab.core.resources import BOTH, MAX_AMOUNT, Resource, Resources

_ByContainer: TypeAlias = Mapping[str, Resources | None]


def fit_pod(
    recommendations: Sequence[ContainerRecommendation],
    pod: Pod,
    item: LimitRangeItem | None,
    fixed: Collection[str] = frozenset(),
) -> tuple[ContainerRecommendation, ...]:
    """The recommendations, scaled so that the whole pod fits the item as well as it can.

    A container without a recommendation takes part with what it requests now. Limits of the
    `fixed` containers follow no request.
    """
    if item is None:
        return tuple(recommendations)
    entries = [*recommendations, *_requests_of_others(recommendations, pod)]
    # Of two recommendations for one container the first counts.
    first = {entry.container_name: entry for entry in reversed(entries)}
    targets = {name: entry.target for name, entry in first.items()}
    lowers = {name: entry.lower_bound for name, entry in first.items()}
    uppers = {name: entry.upper_bound for name, entry in first.items()}
    factors = [_factors(amounts, pod, item, fixed) for amounts in (targets, lowers, uppers)]
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
    """What the amounts of all containers are multiplied with."""

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


def _factors(
    amounts: _ByContainer, pod: Pod, item: LimitRangeItem, fixed: Collection[str]
) -> _Factors:
    return {kind: _factor(kind, amounts, pod, item, fixed) for kind in BOTH}


def _factor(
    kind: Resource,
    amounts: _ByContainer,
    pod: Pod,
    item: LimitRangeItem,
    fixed: Collection[str],
) -> _Factor:
    """How the amounts of all containers must change; not at all if the pod fits."""
    total, moving, staying = _totals(kind, amounts, pod, item.default, fixed)
    total_limit = moving + staying
    minimum = amount_of(item.min, kind)
    maximum = amount_of(item.max, kind)
    if total_limit == 0:
        return _factor_without_limits(minimum, total, _unadvised(kind, amounts, pod))
    if minimum > total:
        # A pod that ends short of it by a byte is refused.
        return _Factor(minimum, total, rounds_up=True)
    if 0 < maximum < total_limit:
        # Where limits that stay leave no room, no size fits.
        room = maximum - staying
        return _Factor(room, moving, spares_fixed=True) if moving and room > 0 else _Factor()
    if minimum > total_limit:
        return _Factor(minimum, total_limit)
    return _Factor()


def _factor_without_limits(minimum: int, total: int, unadvised: int) -> _Factor:
    """The factor where no container has a limit: a minimum is one of requests all the same."""
    missing = minimum - unadvised
    return _Factor(missing, total, rounds_up=True) if missing > total else _Factor()


def _unadvised(kind: Resource, amounts: _ByContainer, pod: Pod) -> int:
    """What containers request of which no amount is recommended: it stays, and counts."""
    return sum(
        amount_of(container.current.requests, kind)
        for container in pod.containers
        if kind not in (amounts.get(container.name) or NO_AMOUNTS)
    )


def _totals(
    kind: Resource,
    amounts: _ByContainer,
    pod: Pod,
    default: Resources | None,
    fixed: Collection[str],
) -> tuple[int, int, int]:
    """The sums of the amounts, of the limits that follow them, and of the limits that stay."""
    total = moving = staying = 0
    for container in pod.containers:
        amount = amount_of(amounts.get(container.name), kind)
        total += amount
        if container.name in fixed:
            staying += limit_in_force(kind, container.current, default)
        else:
            moving += proportional_limit(kind, container.proportions, amount, default) or 0
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
    # An amount that is not there stays so: a zero in its place would be taken for advice.
    return {
        kind: factors[kind].apply(amount, is_fixed=is_fixed) for kind, amount in amounts.items()
    }
