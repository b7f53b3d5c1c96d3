"""Resource quotas: whether a namespace leaves room for what a pod is to become.

A pod that is evicted gives back what it has before its successor asks for anything, so only the
growth counts.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from trimtab.core.limits import NO_AMOUNTS
from trimtab.core.outcomes import Wanted
from trimtab.core.pods import Allocation, Pod
from trimtab.core.resources import Resource, Resources


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
class Quota:
    """A ResourceQuota, as far as it is about CPU and memory of all pods of a namespace."""

    namespace: str
    name: str
    left: Claims = field(default_factory=dict)
    """What is not used; less than nothing where the quota was made smaller."""


def growth(pod: Pod, wanted: Wanted) -> Counter[Claim]:
    """By how much more of each thing the pod's successor asks for; below zero where it is less."""
    grown: Counter[Claim] = Counter()
    for container in pod.containers:
        if container.name in wanted:
            for side in Side:
                grown.update(_growth(side, container.spec, wanted[container.name]))
    return grown


def leave_room(quotas: Iterable[Quota], asked: Claims, claimed: Claims) -> bool:
    """Whether all quotas of a namespace let so much more be asked for, beside what is claimed.

    What does not grow is never refused, however little is left.
    """
    return all(
        asked.get(claim, 0) <= 0 or asked[claim] + claimed.get(claim, 0) <= left
        for quota in quotas
        for claim, left in quota.left.items()
    )


def _growth(side: Side, own: Allocation, wanted: Allocation) -> Counter[Claim]:
    before, after = _amounts(side, own), _amounts(side, wanted)
    return Counter(
        {Claim(side, kind): amount - before.get(kind, 0) for kind, amount in after.items()}
    )


def _amounts(side: Side, allocation: Allocation) -> Resources:
    amounts = allocation.requests if side is Side.REQUESTS else allocation.limits
    return amounts or NO_AMOUNTS
