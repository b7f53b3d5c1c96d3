"""Sizes at which a startup boost can end: those that the LimitRanges of the namespace accept.

A LimitRange that was created or changed while a pod was boosted may refuse the CPU that the pod
goes back to. The boost then ends at the nearest CPU that is accepted, and never above its own.
"""

from collections.abc import Sequence

from trimtab.core.model import limits
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType, effective_item
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.pods import Allocation, Container, Pod, TargetResources
from trimtab.core.model.resources import Resource
from trimtab.core.sizing.container_resources import overlaid
from trimtab.core.sizing.limit_range_check import checked_items, would_refuse
from trimtab.core.sizing.resize_patch import ResizeEffect, resize_effect

_CPU = Resource.CPU
_THOUSAND = 1000


def nearest_accepted(
    pod: Pod, wanted: TargetResources, limit_ranges: Sequence[LimitRangeItem]
) -> TargetResources:
    """Return the wanted CPU, or what LimitRanges accept in its place.

    Where nothing helps it is returned as it is: the API server says what is wrong.
    """
    items = checked_items(limit_ranges)
    if not items or not _is_refused(pod, wanted, items):
        return wanted
    bounded = _within_container_bounds(pod, wanted, items)
    for way in (bounded, _above_pod_minimum(pod, bounded, items)):
        effect = resize_effect(pod, way)
        # A pod that keeps its CPU, since even that is too little, asks for nothing.
        is_accepted = effect is ResizeEffect.NONE or not _is_refused(pod, way, items)
        if is_accepted and effect is not ResizeEffect.OTHER_QOS:
            return way
    return wanted


def _is_refused(pod: Pod, wanted: TargetResources, items: Sequence[LimitRangeItem]) -> bool:
    after = [overlaid(each.spec, wanted.get(each.name)) for each in pod.containers]
    return would_refuse(items, pod, after)


def _within_container_bounds(
    pod: Pod, wanted: TargetResources, items: Sequence[LimitRangeItem]
) -> TargetResources:
    item = effective_item(items, LimitRangeType.CONTAINER)
    if item is None:
        return wanted
    own = {each.name: each for each in pod.containers}
    return {
        name: _bounded(own[name], each, item) if name in own else each
        for name, each in wanted.items()
    }


def _bounded(container: Container, wanted: Allocation, item: LimitRangeItem) -> Allocation:
    least = limits.amount_of(item.min, _CPU)
    most = (item.max or NO_AMOUNTS).get(_CPU)
    request = limits.amount_of(wanted.requests, _CPU)
    limit = (wanted.limits or NO_AMOUNTS).get(_CPU)
    if limit is not None:
        limit = _between(limit, least, most)
        if ratio := item.max_ratio(_CPU):
            request = max(request, -(-limit * _THOUSAND // ratio))
    request = _between(request, least, most)
    return _no_more_than(container, request, limit)


def _between(amount: int, least: int, most: int | None) -> int:
    raised = max(amount, least)
    return raised if most is None else min(raised, most)


def _above_pod_minimum(
    pod: Pod, wanted: TargetResources, items: Sequence[LimitRangeItem]
) -> TargetResources:
    """Return the wanted CPU, raised until the whole pod has what pod-type LimitRanges demand."""
    item = effective_item(items, LimitRangeType.POD)
    least = 0 if item is None else limits.amount_of(item.min, _CPU)
    found = dict(wanted)
    for container in pod.containers:
        if container.name not in found:
            continue
        after = [overlaid(each.spec, found.get(each.name)) for each in pod.containers]
        lacking = [
            max(least - sum(limits.amount_of(amounts, _CPU) for amounts in side), 0)
            for side in ([each.requests for each in after], [each.limits for each in after])
        ]
        each = found[container.name]
        limit = (each.limits or NO_AMOUNTS).get(_CPU)
        found[container.name] = _no_more_than(
            container,
            limits.amount_of(each.requests, _CPU) + lacking[0],
            None if limit is None else limit + lacking[1],
        )
    return found


def _no_more_than(container: Container, request: int, limit: int | None) -> Allocation:
    """Return the CPU, but no more than the container has with its boost."""
    has = container.current
    request = min(request, max(limits.amount_of(has.requests, _CPU), 1))
    if limit is None:
        return Allocation({_CPU: request}, {})
    limit = min(limit, (has.limits or NO_AMOUNTS).get(_CPU, limit))
    return Allocation({_CPU: min(request, limit)}, {_CPU: limit})
