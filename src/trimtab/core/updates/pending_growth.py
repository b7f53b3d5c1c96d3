"""Growth that a pod's spec asks for and the kubelet has put off, or refused.

The kubelet does all of a resize or nothing. So growth without room on the node also keeps what
would fit, for as long as the spec asks for it.
"""

from collections.abc import Container as Kinds
from typing import Final

from trimtab.core.model.limits import NO_AMOUNTS, amount_of
from trimtab.core.model.pods import Allocation, Container, Pod, ResizeState, TargetResources
from trimtab.core.model.resources import BOTH, Resource, Resources

PENDING: Final = (ResizeState.DEFERRED, ResizeState.INFEASIBLE, ResizeState.PENDING_UNKNOWN)
"""States of a resize that the kubelet leaves undone as long as it asks for as much."""


def fitting_part(
    pod: Pod, wanted: TargetResources, scarce: Kinds[Resource], *, least: float, is_for_memory: bool
) -> TargetResources:
    """Return what to ask for in the place of a pending resize; nothing if that gains nothing.

    Containers keep what they have of resources that are scarce. For memory that ends OOM kills, CPU
    waits as well, as the node may not be known. The part must give a container more than it has,
    and ask for less of something than the spec does, each by the share `least`.
    """
    own = {each.name: each for each in pod.containers}
    part = {
        name: _bounded(own[name], asked, scarce, without_cpu=is_for_memory)
        for name, asked in wanted.items()
        if name in own
    }
    asks = [(own[name], each.requests or NO_AMOUNTS) for name, each in part.items()]
    gives = any(
        _exceeds(asked.get(kind, 0), amount_of(one.current.requests, kind), least)
        for one, asked in asks
        for kind in BOTH
    )
    is_smaller = any(
        kind in asked and _exceeds(amount_of(one.spec.requests, kind), asked[kind], least)
        for one, asked in asks
        for kind in BOTH
    )
    return part if gives and is_smaller else {}


def _bounded(
    one: Container, asked: Allocation, scarce: Kinds[Resource], *, without_cpu: bool
) -> Allocation:
    """Return what is asked, but no more than the container has of what is scarce."""
    held = [kind for kind in BOTH if kind in scarce or (without_cpu and kind is Resource.CPU)]
    requests, has = dict(asked.requests or NO_AMOUNTS), one.current
    limits = dict(asked.limits or NO_AMOUNTS)
    for kind in held:
        most = amount_of(has.requests, kind)
        if max(requests.get(kind, 0), amount_of(one.spec.requests, kind)) > most:
            _keep(requests, has.requests, kind)
            _keep(limits, has.limits, kind)
    return Allocation(requests, limits)


def _keep(amounts: dict[Resource, int], has: Resources | None, kind: Resource) -> None:
    amounts.pop(kind, None)
    if has is not None and kind in has:
        amounts[kind] = has[kind]


def _exceeds(one: int, other: int, least: float) -> bool:
    return one > other and one - other >= least * other
