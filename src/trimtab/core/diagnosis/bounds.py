"""Checks of what bounds autoscalers: horizontal autoscalers beside them, limit ranges, quotas."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trimtab.core.diagnosis.autoscalers import Governed
from trimtab.core.diagnosis.findings import Finding, Severity
from trimtab.core.model import autoscalers, limit_ranges, quantities
from trimtab.core.model.autoscalers import ContainerMode, UpdateMode
from trimtab.core.model.hpa import Horizontal
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import Allocation, PodPhase
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.recommendation.conditions import ConditionReason
from trimtab.core.sizing import quotas
from trimtab.core.sizing.quotas import Quota, QuotaClaim

_LIVE: Final = (PodPhase.PENDING, PodPhase.RUNNING)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limit ranges and quotas of all namespaces."""

    limit_ranges: Mapping[str, Sequence[LimitRangeItem]]
    """By namespace."""
    quotas: Mapping[str, Sequence[Quota]]


def check_horizontal(
    governed: Sequence[Governed], horizontals: Sequence[Horizontal]
) -> Iterator[Finding]:
    """Find HorizontalPodAutoscalers that scale a workload on a resource of its autoscaler."""
    for one in governed:
        for other in horizontals:
            shared = _shared(one, other)
            if shared:
                yield _tell_shared(one, other, shared)


def _shared(one: Governed, other: Horizontal) -> list[Resource]:
    target = one.autoscaler.target
    own = target and (one.autoscaler.namespace, target.kind, target.name)
    if own != other.target and other.target not in one.owned:
        return []
    return [resource for resource in BOTH if resource in other.all_resources & _controlled(one)]


def _controlled(one: Governed) -> frozenset[Resource]:
    """Return the resources that the autoscaler may change in any container."""
    policies = one.autoscaler.policies
    general = autoscalers.policy_for(policies, "*")
    found = [policy for policy in policies if policy.mode is not ContainerMode.OFF]
    resources = {resource for policy in found for resource in policy.controlled_resources}
    # Without a policy for `*`, containers that no policy names have both resources controlled.
    return frozenset(resources) if general is not None else frozenset(BOTH)


def _tell_shared(one: Governed, other: Horizontal, shared: list[Resource]) -> Finding:
    names = " and ".join(shared)
    text = (
        f"the HorizontalPodAutoscaler {other.name} scales {other.target_kind} {other.target_name} "
        f"on its use of {names}"
    )
    if one.autoscaler.mode is UpdateMode.OFF:
        return Finding(Severity.NOTE, f"{text}; this autoscaler only recommends", "", one.place)
    if any(each.reason == ConditionReason.RESOURCE_HELD for each in one.autoscaler.conditions):
        return Finding(
            Severity.NOTE, f"{text}, so {names} is recommended and not applied", "", one.place
        )
    return Finding(
        Severity.WARNING,
        f"{text}, which this autoscaler is for as well, and no condition says that it is held: "
        "each may undo what the other does",
        "run the components with --hpa-conflict=hold, set controlledResources to the other "
        "resource, or scale horizontally on another metric",
        one.place,
    )


def check_bounds(governed: Sequence[Governed], bounds: Bounds) -> Iterator[Finding]:
    """Find policies and recommendations that limit ranges or quotas prevent."""
    for one in governed:
        items = bounds.limit_ranges.get(one.autoscaler.namespace, ())
        yield from _check_policies(one, items)
        yield from _check_targets(one, items)
        yield from _check_quotas(one, bounds.quotas.get(one.autoscaler.namespace, ()))


def _check_policies(one: Governed, items: Sequence[LimitRangeItem]) -> Iterator[Finding]:
    """Find policies that contradict a limit range."""
    item = limit_ranges.effective_item(items, LimitRangeType.CONTAINER)
    if item is None:
        return
    for policy in one.autoscaler.policies:
        for resource in BOTH:
            most, least = (item.max or {}).get(resource), (item.min or {}).get(resource)
            wanted = policy.min_allowed.get(resource)
            if wanted is not None and most is not None and wanted > most:
                yield _disagree(one, policy.container_name, resource, "minAllowed", wanted, most)
            wanted = policy.max_allowed.get(resource)
            if wanted is not None and least is not None and wanted < least:
                yield _disagree(one, policy.container_name, resource, "maxAllowed", wanted, least)


def _disagree(
    one: Governed, container: str, resource: Resource, field: str, wanted: int, bound: int
) -> Finding:
    shown = quantities.format_amount(resource, wanted)
    limit = quantities.format_amount(resource, bound)
    side = "above the most" if field == "minAllowed" else "below the least"
    return Finding(
        Severity.PROBLEM,
        f"{field} {resource} {shown} of container {container} is {side} that a LimitRange of its "
        f"namespace allows ({limit}): no pod can have both",
        f"kubectl -n {one.autoscaler.namespace} get limitrange -o yaml; change one of them",
        one.place,
    )


def _check_targets(one: Governed, items: Sequence[LimitRangeItem]) -> Iterator[Finding]:
    """Find targets that a limit range cuts."""
    item = limit_ranges.effective_item(items, LimitRangeType.CONTAINER)
    if item is None:
        return
    for recommended in one.autoscaler.recommendation or ():
        for resource, target in _amounts(recommended.target):
            most = (item.max or {}).get(resource)
            if most is not None and target > most:
                wanted = quantities.format_amount(resource, target)
                allowed = quantities.format_amount(resource, most)
                yield Finding(
                    Severity.WARNING,
                    f"container {recommended.container_name} should have {wanted} of {resource}, "
                    f"and a LimitRange of its namespace allows {allowed}: it gets no more",
                    f"kubectl -n {one.autoscaler.namespace} edit limitrange",
                    one.place,
                )


def _amounts(amounts: Resources) -> Iterator[tuple[Resource, int]]:
    return ((resource, amounts[resource]) for resource in BOTH if resource in amounts)


def _check_quotas(one: Governed, in_namespace: Sequence[Quota]) -> Iterator[Finding]:
    """Find quotas that leave no room for what is recommended."""
    wanted = {
        recommended.container_name: Allocation(recommended.target)
        for recommended in one.autoscaler.recommendation or ()
    }
    needed: Counter[QuotaClaim] = Counter()
    for pod in one.pods:
        if pod.phase in _LIVE:
            needed.update(quotas.growth(pod, wanted))
    for quota in in_namespace:
        for claim, left in sorted(quota.left.items()):
            # `left` may be negative: an exceeded quota stops only pods that grow.
            if needed[claim] > 0 and needed[claim] > left:
                growth = quantities.format_amount(claim.resource, needed[claim])
                free = quantities.format_amount(claim.resource, max(0, left))
                yield Finding(
                    Severity.WARNING,
                    f"its pods should grow by {growth} of "
                    f"{claim.side}.{claim.resource}, and the ResourceQuota {quota.name} leaves "
                    f"{free}: some stay as they are",
                    f"kubectl -n {quota.namespace} edit resourcequota {quota.name}",
                    one.place,
                )
