"""Resource quotas: the amounts that a namespace leaves, and the pods that they are counted of.

A quota may be for some pods only (its scopes).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from trimtab.core.model import limits
from trimtab.core.model.limits import NO_AMOUNTS, QosClass
from trimtab.core.model.pods import Allocation, Pod, TargetResources
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.model.selectors import Operator


class Side(StrEnum):
    """Side of a container's resources that a quota counts."""

    REQUESTS = "requests"
    LIMITS = "limits"


class QuotaClaim(NamedTuple):
    """One amount that a quota counts."""

    side: Side
    resource: Resource


Claims: TypeAlias = Mapping[QuotaClaim, int]


@dataclass(frozen=True, slots=True)
class QuotaScope:
    """Scope of a quota: a condition on the pods that it counts."""

    name: str
    operator: str = Operator.EXISTS
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Quota:
    """A ResourceQuota, as far as it is about CPU and memory of pods of a namespace."""

    namespace: str
    name: str
    left: Claims = field(default_factory=dict)
    """Amounts that are not used; negative where the quota was made smaller."""
    scopes: tuple[QuotaScope, ...] = ()
    """Scopes that must all include a pod; a quota without any counts all pods."""
    used: Claims = field(default_factory=dict)
    """Amounts that pods of the namespace have, or were granted, of what is counted."""


def covers(quota: Quota, pod: Pod, wanted: TargetResources) -> bool:
    """Return True if the quota counts the pod's successor; False for a scope not known here."""
    return all(_is_in(scope, pod, wanted) for scope in quota.scopes)


def growth(pod: Pod, wanted: TargetResources) -> Counter[QuotaClaim]:
    """Return how much more the pod's successor claims of each amount; negative if less."""
    grown: Counter[QuotaClaim] = Counter()
    for container in pod.containers:
        if container.name in wanted:
            for side in Side:
                grown.update(_growth(side, container.spec, wanted[container.name]))
    return grown


def _is_in(scope: QuotaScope, pod: Pod, wanted: TargetResources) -> bool:
    if scope.name == "PriorityClass":
        return _has_priority(scope, pod)
    asked = [wanted.get(each.name, each.spec) for each in pod.containers]
    if pod.envelope is not None:
        asked.append(Allocation(pod.envelope.requests, pod.envelope.limits))
    is_modest = limits.qos_class([*asked, pod.init_peak]) is QosClass.BEST_EFFORT
    placement = pod.placement
    return {
        "BestEffort": is_modest,
        "NotBestEffort": not is_modest,
        "Terminating": pod.has_deadline,
        "NotTerminating": not pod.has_deadline,
        "CrossNamespacePodAffinity": placement is not None and placement.crosses_namespaces,
    }.get(scope.name, False)


def _has_priority(scope: QuotaScope, pod: Pod) -> bool:
    match scope.operator:
        case Operator.IN:
            return pod.priority_class in scope.values
        case Operator.NOT_IN:
            return pod.priority_class not in scope.values
        case Operator.EXISTS:
            return bool(pod.priority_class)
        case Operator.DOES_NOT_EXIST:
            return not pod.priority_class
        case _:
            return False


def _growth(side: Side, own: Allocation, wanted: Allocation) -> Counter[QuotaClaim]:
    before, after = _amounts(side, own), _amounts(side, wanted)
    return Counter(
        {QuotaClaim(side, kind): amount - before.get(kind, 0) for kind, amount in after.items()}
    )


def _amounts(side: Side, allocation: Allocation) -> Resources:
    amounts = allocation.requests if side is Side.REQUESTS else allocation.limits
    return amounts or NO_AMOUNTS
