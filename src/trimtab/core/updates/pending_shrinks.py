"""Shrinks that a pod's spec asks for and the kubelet has put off.

The kubelet shrinks such a pod as soon as it can, however long ago the resize was asked for. So a
shrink that the autoscaler does not allow, or does not want any more, is taken back: the spec is set
to what the kubelet reports.
"""

from collections.abc import Iterator
from typing import Final

from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.pods import (
    IN_PLACE_UPDATED,
    PUT_OFF,
    Allocation,
    Container,
    Pod,
    ResizeState,
    TargetResources,
)
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.sizing import container_resources, startup_boost
from trimtab.core.updates.resize_or_evict import ResizeMemory

_AT_WORK: Final = frozenset({ResizeState.IN_PROGRESS, ResizeState.IN_PROGRESS_UNKNOWN})


def forbidden_shrinks(pod: Pod, autoscaler: Autoscaler, memory: ResizeMemory) -> TargetResources:
    """Return what containers have of the resources that shrink, where nothing may shrink."""
    if pod.resize in _AT_WORK or not _was_resized(pod, memory):
        return {}
    return _collect(
        (each, kind, Allocation(each.current.requests, each.current.limits))
        for each, kind in _pending(pod, autoscaler, memory)
    )


def outdated_shrinks(
    pod: Pod, autoscaler: Autoscaler, memory: ResizeMemory, wanted: TargetResources, least: float
) -> TargetResources:
    """Return what is wanted, or what containers have if that is less, instead of a shrink.

    A shrink is outdated if more than it leaves is wanted, by at least the share `least`.
    """
    if pod.resize not in PUT_OFF or not _was_resized(pod, memory):
        return {}
    return _collect(
        (each, kind, _between(each, wanted[each.name]))
        for each, kind in _pending(pod, autoscaler, memory)
        if each.name in wanted and _wants_more(each.spec, wanted[each.name], kind, least)
    )


def _was_resized(pod: Pod, memory: ResizeMemory) -> bool:
    return IN_PLACE_UPDATED in pod.annotations or bool(memory.left)


def _is_by_person(container: Container, kind: Resource, memory: ResizeMemory) -> bool:
    """Return True if the spec asks for something else than the updater has left in it.

    An updater that has not resized the pod since its own start has no record of it. It treats the
    shrink as its own: a pod that keeps too much is not hurt.
    """
    left, spec = memory.left.get(container.name), container.spec
    return left is not None and (
        _differs(left.requests, spec.requests, kind) or _differs(left.limits, spec.limits, kind)
    )


def _differs(one: Resources | None, other: Resources | None, kind: Resource) -> bool:
    return (one or NO_AMOUNTS).get(kind) != (other or NO_AMOUNTS).get(kind)


def _pending(
    pod: Pod, autoscaler: Autoscaler, memory: ResizeMemory
) -> Iterator[tuple[Container, Resource]]:
    """Yield the resources of which a container has more than the updater has left it.

    What a person asked for is left alone.
    """
    boosted = startup_boost.boosted_containers(pod)
    for container in pod.containers:
        if container.status is None or container_resources.is_off(autoscaler, container):
            continue
        for kind in BOTH:
            if kind is Resource.CPU and container.name in boosted:
                # The end of a boost shrinks CPU on purpose.
                continue
            if _shrinks(container, kind) and not _is_by_person(container, kind, memory):
                yield container, kind


def _shrinks(container: Container, kind: Resource) -> bool:
    spec, has = container.spec, container.current
    return _is_less(spec.requests, has.requests, kind) or _is_less(spec.limits, has.limits, kind)


def _is_less(one: Resources | None, other: Resources | None, kind: Resource) -> bool:
    less, more = (one or NO_AMOUNTS).get(kind), (other or NO_AMOUNTS).get(kind)
    return less is not None and more is not None and less < more


def _wants_more(spec: Allocation, wanted: Allocation, kind: Resource, least: float) -> bool:
    asked = (wanted.requests or NO_AMOUNTS).get(kind)
    left = (spec.requests or NO_AMOUNTS).get(kind)
    return asked is not None and left is not None and asked > left and asked - left >= least * left


def _between(container: Container, wanted: Allocation) -> Allocation:
    """Return what is wanted, but no less than the spec asks for and no more than there is."""
    spec, has = container.spec, container.current
    return Allocation(
        _bounded(wanted.requests, spec.requests, has.requests),
        _bounded(wanted.limits, spec.limits, has.limits),
    )


def _bounded(
    wanted: Resources | None, least: Resources | None, most: Resources | None
) -> Resources:
    low, high, asked = least or NO_AMOUNTS, most or NO_AMOUNTS, wanted or NO_AMOUNTS
    return {
        kind: min(max(asked.get(kind, high[kind]), low[kind]), max(high[kind], low[kind]))
        for kind in BOTH
        if kind in low and kind in high
    }


def _collect(found: Iterator[tuple[Container, Resource, Allocation]]) -> TargetResources:
    """Return by container the amounts of the named resources that its spec does not ask for."""
    requests: dict[str, dict[Resource, int]] = {}
    limits: dict[str, dict[Resource, int]] = {}
    for container, kind, goal in found:
        for sums, amounts, spec in (
            (requests, goal.requests, container.spec.requests),
            (limits, goal.limits, container.spec.limits),
        ):
            amount, asked = (amounts or NO_AMOUNTS).get(kind), (spec or NO_AMOUNTS).get(kind)
            if amount is not None and asked is not None and amount > asked:
                sums.setdefault(container.name, {})[kind] = amount
    return {
        name: Allocation(requests.get(name, {}), limits.get(name, {}))
        for name in requests.keys() | limits.keys()
    }
