"""Totals of a whole pod as the API server counts them, for LimitRanges and quotas.

Upstream: `PodRequests` and `PodLimits` in component-helpers/resource/helpers.go of Kubernetes 1.35.
"""

from collections.abc import Sequence

from trimtab.core.limits import amount_of
from trimtab.core.pods import Allocation, ContainerKind, Pod
from trimtab.core.quotas import Side
from trimtab.core.resources import Resource


def total_of(pod: Pod, amounts: Sequence[int], side: Side, kind: Resource) -> int:
    """Return the amount of all containers together, at the worst moment of the pod's life.

    Beside an ordinary init container only those sidecars run that stand before it in the list.
    """
    sidecars: list[int] = []
    regular = 0
    for container, amount in zip(pod.containers, amounts, strict=True):
        if container.kind is ContainerKind.SIDECAR:
            sidecars.append(amount)
        else:
            regular += amount
    steps = pod.init_steps or ((len(sidecars), pod.init_peak),)
    return max(
        regular + sum(sidecars),
        *(_amount(first, side, kind) + sum(sidecars[:count]) for count, first in steps),
    )


def _amount(first: Allocation, side: Side, kind: Resource) -> int:
    return amount_of(first.requests if side is Side.REQUESTS else first.limits, kind)
