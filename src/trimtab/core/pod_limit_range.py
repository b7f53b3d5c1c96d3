"""Pod-type limit ranges: what all containers of a pod may ask for together.

Where the pod as a whole would fall outside, the recommendations of its containers are scaled by
the same factor, each of the three amounts of a recommendation and each resource for itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from trimtab.core.autoscalers import ContainerRecommendation
from trimtab.core.limit_ranges import LimitRangeItem
from trimtab.core.limits import (
    NO_AMOUNTS,
    amount_of,
    proportional_limit,
    scale,
    without_negatives,
)
from trimtab.core.pods import Pod
from trimtab.core.records import dataclass
from trimtab.core.resources import BOTH, MAX_AMOUNT, Resource, Resources

_ByContainer: TypeAlias = Mapping[str, Resources | None]


def fit_pod(
    recommendations: Sequence[ContainerRecommendation], pod: Pod, item: LimitRangeItem | None
) -> tuple[ContainerRecommendation, ...]:
    """The recommendations, scaled so that the whole pod fits the item as well as it can.

    A container without a recommendation takes part with what it requests now.
    """
    if item is None:
        return tuple(recommendations)
    entries = [*recommendations, *_requests_of_others(recommendations, pod)]
    # Of two recommendations for one container the first counts.
    first = {entry.container_name: entry for entry in reversed(entries)}
    targets = _factors({name: entry.target for name, entry in first.items()}, pod, item)
    lowers = _factors({name: entry.lower_bound for name, entry in first.items()}, pod, item)
    uppers = _factors({name: entry.upper_bound for name, entry in first.items()}, pod, item)
    return tuple(
        replace(
            entry,
            target=_scale_amounts(entry.target, targets),
            lower_bound=entry.lower_bound and _scale_amounts(entry.lower_bound, lowers),
            upper_bound=entry.upper_bound and _scale_amounts(entry.upper_bound, uppers),
        )
        for entry in entries
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

    def apply(self, amount: int) -> int:
        # To round up is to round the negative number down.
        sign = -1 if self.rounds_up else 1
        scaled = scale(sign * amount, numerator=self.numerator, denominator=self.denominator)
        return min(sign * scaled, MAX_AMOUNT)


def _factors(amounts: _ByContainer, pod: Pod, item: LimitRangeItem) -> Mapping[Resource, _Factor]:
    return {kind: _factor(kind, amounts, pod, item) for kind in BOTH}


def _factor(kind: Resource, amounts: _ByContainer, pod: Pod, item: LimitRangeItem) -> _Factor:
    """How the amounts of all containers must change; not at all if the pod fits."""
    total, total_limit = _totals(kind, amounts, pod, item.default)
    minimum = amount_of(item.min, kind)
    maximum = amount_of(item.max, kind)
    if total_limit == 0:
        return _factor_without_limits(minimum, total, _unadvised(kind, amounts, pod))
    if minimum > total:
        # A pod that ends short of it by a byte is refused.
        return _Factor(minimum, total, rounds_up=True)
    if 0 < maximum < total_limit:
        return _Factor(maximum, total_limit)
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
    kind: Resource, amounts: _ByContainer, pod: Pod, default: Resources | None
) -> tuple[int, int]:
    """The sum of the amounts over the pod's containers, and of the limits they lead to."""
    total = total_limit = 0
    for container in pod.containers:
        amount = amount_of(amounts.get(container.name), kind)
        total += amount
        total_limit += proportional_limit(kind, container.proportions, amount, default) or 0
    return total, total_limit


def _scale_amounts(amounts: Resources, factors: Mapping[Resource, _Factor]) -> Resources:
    # An amount that is not there stays so: a zero in its place would be taken for advice.
    return {kind: factors[kind].apply(amount) for kind, amount in amounts.items()}
