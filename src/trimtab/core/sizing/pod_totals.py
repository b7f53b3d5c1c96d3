"""Requests of a whole pod, as the scheduler and the kubelet count them against its node.

Upstream: `PodRequests` in k8s.io/component-helpers/resource. All containers and sidecars count
together; an init container that asks for more counts instead; the overhead of the runtime class is
added. Requests of the pod itself take the place of what its containers request.
"""

from collections.abc import Iterable, Sequence

from trimtab.core.model import limits
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.pods import (
    Allocation,
    Container,
    ContainerKind,
    Pod,
    ResizeState,
    TargetResources,
)
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.sizing.quotas import Side


def reserved_for(pod: Pod) -> Resources:
    """Return what a pod takes of its node now.

    While a resize is under way that is the larger of what is asked for and what is there. Of a
    resize that the node refused only what is there counts.
    """
    is_refused = pod.resize is ResizeState.INFEASIBLE
    return _whole(pod, [_reserved(each, is_refused=is_refused) for each in pod.containers])


def given_to(pod: Pod) -> Resources:
    """Return what the node gives a pod now, whatever a resize asks for."""
    return _whole(pod, [_reserved(each, is_refused=True) for each in pod.containers])


def requested_after(pod: Pod, wanted: TargetResources) -> Resources:
    """Return what a pod takes of its node once its containers have what is wanted."""
    return _whole(
        pod,
        [
            {**(each.spec.requests or NO_AMOUNTS), **(wanted[each.name].requests or NO_AMOUNTS)}
            if each.name in wanted
            else each.spec.requests or NO_AMOUNTS
            for each in pod.containers
        ],
    )


def _reserved(container: Container, *, is_refused: bool) -> Resources:
    asked = container.spec.requests or NO_AMOUNTS
    if container.status is None:
        return asked
    there = container.status.requests or NO_AMOUNTS
    if is_refused or asked == there:
        return there
    return {kind: max(asked.get(kind, 0), there.get(kind, 0)) for kind in BOTH}


def _whole(pod: Pod, containers: Iterable[Resources]) -> Resources:
    totals = dict.fromkeys(BOTH, 0)
    for amounts in containers:
        for kind, amount in amounts.items():
            totals[kind] += amount
    if pod.init_requests is not None:
        for kind, amount in pod.init_requests.items():
            totals[kind] = max(totals[kind], amount)
    if pod.envelope is not None:
        totals.update(pod.envelope.requests)
    if pod.overhead is not None:
        for kind, amount in pod.overhead.items():
            totals[kind] += amount
    return totals


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
    return limits.amount_of(first.requests if side is Side.REQUESTS else first.limits, kind)
