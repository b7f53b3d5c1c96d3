"""Resource quotas: whether a namespace leaves room for what a pod is to become.

A pod that is evicted gives back what it has before its successor asks for anything, so only the
growth counts. A quota may be for some pods only (its scopes).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from trimtab.core.limits import NO_AMOUNTS
from trimtab.core.outcomes import Wanted
from trimtab.core.pods import Allocation, Pod
from trimtab.core.qos import QosClass, qos_class
from trimtab.core.records import dataclass
from trimtab.core.resources import Resource, Resources
from trimtab.core.selectors import Operator


class Side(StrEnum):
    """What of a container's resources a quota counts."""

    REQUESTS = "requests"
    LIMITS = "limits"


class Claim(NamedTuple):
    """What is counted."""

    side: Side
    resource: Resource


Claims: TypeAlias = Mapping[Claim, int]


@dataclass(frozen=True, slots=True)
class Scope:
    """Which pods a quota is for."""

    name: str
    operator: str = Operator.EXISTS
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Quota:
    """A ResourceQuota, as far as it is about CPU and memory of pods of a namespace."""

    namespace: str
    name: str
    left: Claims = field(default_factory=dict)
    """What is not used; less than nothing where the quota was made smaller."""
    scopes: tuple[Scope, ...] = ()
    """All of which a pod must be in; without any the quota is for all pods."""
    used: Claims = field(default_factory=dict)
    """Amounts that pods of the namespace have, or were granted, of what is counted."""


def covers(quota: Quota, pod: Pod, wanted: Wanted) -> bool:
    """Whether the quota counts the pod's successor; not if nobody can tell from the pod."""
    return all(_is_in(scope, pod, wanted) for scope in quota.scopes)


def growth(pod: Pod, wanted: Wanted) -> Counter[Claim]:
    """By how much more of each thing the pod's successor asks for; below zero where it is less."""
    grown: Counter[Claim] = Counter()
    for container in pod.containers:
        if container.name in wanted:
            for side in Side:
                grown.update(_growth(side, container.spec, wanted[container.name]))
    return grown


def after_eviction(quota: Quota, pod: Pod, claimed: Claims) -> Quota:
    """The quota with what the pod's successor finds: the pod's own share, and less what is claimed.

    A pod that is evicted gives back all that it has.
    """
    given_back: Counter[Claim] = Counter()
    for container in pod.containers:
        for side in Side:
            for kind, amount in _amounts(side, container.spec).items():
                given_back[Claim(side, kind)] += amount
    left = {
        claim: amount + given_back[claim] - claimed.get(claim, 0)
        for claim, amount in quota.left.items()
    }
    return replace(quota, left=left)


def leave_room(quotas: Iterable[Quota], asked: Claims, claimed: Claims) -> bool:
    """Whether all quotas of a namespace let so much more be asked for, beside what is claimed.

    What does not grow is never refused, however little is left.
    """
    return all(
        asked.get(claim, 0) <= 0 or asked[claim] + claimed.get(claim, 0) <= left
        for quota in quotas
        for claim, left in quota.left.items()
    )


def _is_in(scope: Scope, pod: Pod, wanted: Wanted) -> bool:
    if scope.name == "PriorityClass":
        return _has_priority(scope, pod)
    asked = [wanted.get(each.name, each.spec) for each in pod.containers]
    if pod.envelope is not None:
        asked.append(Allocation(pod.envelope.requests, pod.envelope.limits))
    is_modest = qos_class([*asked, pod.init_peak]) is QosClass.BEST_EFFORT
    placement = pod.placement
    return {
        "BestEffort": is_modest,
        "NotBestEffort": not is_modest,
        "Terminating": pod.has_deadline,
        "NotTerminating": not pod.has_deadline,
        "CrossNamespacePodAffinity": placement is not None and placement.crosses_namespaces,
    }.get(scope.name, False)


def _has_priority(scope: Scope, pod: Pod) -> bool:
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


def _growth(side: Side, own: Allocation, wanted: Allocation) -> Counter[Claim]:
    before, after = _amounts(side, own), _amounts(side, wanted)
    return Counter(
        {Claim(side, kind): amount - before.get(kind, 0) for kind, amount in after.items()}
    )


def _amounts(side: Side, allocation: Allocation) -> Resources:
    amounts = allocation.requests if side is Side.REQUESTS else allocation.limits
    return amounts or NO_AMOUNTS
