"""Limit ranges: the defaults that they set in pods, and the pods that they refuse."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from msgspec import structs

from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import Allocation, Container, Pod
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.simulation.world.objects import LimitRange

_THOUSAND: Final = 1000


def completed(limit_range: LimitRange) -> LimitRange:
    """Return the limit range as the server stores it: `max` is the default limit of a container."""
    return replace(limit_range, items=tuple(map(_completed, limit_range.items)))


def with_defaults(pod: Pod, ranges: Iterable[LimitRange]) -> Pod:
    """Return the pod with defaults of the API server, then of each limit range."""
    containers = tuple(_filled(container, {}, {}) for container in pod.containers)
    for limit_range in ranges:
        requests: dict[Resource, int] = {}
        limits: dict[Resource, int] = {}
        for item in limit_range.items:
            if item.type is LimitRangeType.CONTAINER:
                limits |= item.default or {}
                requests |= {
                    **(item.min or {}),
                    **(item.default or {}),
                    **(item.default_request or {}),
                }
        containers = tuple(_filled(each, requests, limits) for each in containers)
    return structs.replace(pod, containers=containers)


def find_limit_range_flaw(pod: Pod, ranges: Iterable[LimitRange]) -> str:
    """Return the first violation of a limit range by the pod; empty if there is none."""
    flaws = (flaw for each in ranges for item in each.items for flaw in _flaws(pod, item))
    return next(flaws, "")


def _completed(item: LimitRangeItem) -> LimitRangeItem:
    if item.type is not LimitRangeType.CONTAINER or not item.max:
        return item
    return replace(item, default={**item.max, **(item.default or {})})


def _filled(container: Container, requests: Resources, limits: Resources) -> Container:
    own = container.spec
    # A resource with a limit and no request requests its limit, despite limit ranges.
    asked = {**requests, **(own.limits or {}), **(own.requests or {})}
    bound = {**limits, **(own.limits or {})}
    filled = Allocation(asked or own.requests, bound or own.limits)
    return container if filled == own else structs.replace(container, spec=filled)


def _flaws(pod: Pod, item: LimitRangeItem) -> Iterator[str]:
    if item.type is LimitRangeType.CONTAINER:
        for container in pod.containers:
            yield from _outside(item, container.spec.requests or {}, container.spec.limits or {})
    else:
        specs = [container.spec for container in pod.containers]
        requests = _sum(spec.requests or {} for spec in specs)
        yield from _outside(item, requests, _sum(spec.limits or {} for spec in specs))


def _sum(amounts: Iterable[Resources]) -> Resources:
    """Sum all amounts; a resource that no entry names is left out, which differs from zero."""
    total: dict[Resource, int] = {}
    for each in amounts:
        for kind in each:
            total[kind] = total.get(kind, 0) + each[kind]
    return {kind: total[kind] for kind in BOTH if kind in total}


def _outside(item: LimitRangeItem, requests: Resources, limits: Resources) -> Iterator[str]:
    for kind, least in (item.min or {}).items():
        if requests.get(kind, -1) < least or limits.get(kind, least) < least:
            yield f"minimum {kind} usage per {item.type} is {least}"
    for kind, most in (item.max or {}).items():
        # No request exceeds its limit, so checking the limit is enough.
        if kind not in limits or limits[kind] > most:
            yield f"maximum {kind} usage per {item.type} is {most}"
    for kind in BOTH:
        ratio, request, limit = item.max_ratio(kind), requests.get(kind), limits.get(kind)
        if ratio is not None and not (request and limit and limit * _THOUSAND <= ratio * request):
            yield f"{kind} max limit to request ratio per {item.type} is {ratio / _THOUSAND:g}"
