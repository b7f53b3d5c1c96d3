"""Proportions of limits to requests that last through any number of resizes in place.

A limit is a whole number of millicores or bytes, so each resize rounds it. If each resize
started from the rounded limit, the limit would shrink step by step to the request. So the first
resize that rounds records on the pod what the container had, and later ones start from that.
"""

from collections.abc import Mapping

from msgspec import structs

from trimtab.core.model.limits import amount_of, scale
from trimtab.core.model.pods import LIMITS_PREFIX, Allocation, Container
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.sizing.startup_boost import format_original, parse_original


def with_proportions(container: Container, annotations: Mapping[str, str]) -> Container:
    """Return the container with the proportions that are recorded for it.

    They count where its present limit follows from them: else a person has set another one, and
    that counts.
    """
    text = annotations.get(LIMITS_PREFIX + container.name)
    # A new pod is judged by its spec alone.
    if text is None or container.status is None or (base := parse_original(text)) is None:
        return container
    has = container.current
    requests, limits = dict(has.requests or {}), dict(has.limits or {})
    for kind in BOTH:
        if _follows(kind, has, base):
            requests[kind] = amount_of(base.requests, kind)
            limits[kind] = amount_of(base.limits, kind)
    return structs.replace(container, base=Allocation(requests, limits))


def note_proportions(container: Container, after: Allocation) -> tuple[str, str] | None:
    """Return the annotation that keeps the proportions through a resize; None if none has to."""
    base = container.proportions
    if not any(_follows(kind, after, base) and _rounds(kind, after, base) for kind in BOTH):
        return None
    return LIMITS_PREFIX + container.name, format_original(base)


def _follows(kind: Resource, size: Allocation, base: Allocation) -> bool:
    """Return True if the limit is what the proportions make of the request."""
    request, limit = amount_of(size.requests, kind), amount_of(size.limits, kind)
    own, own_limit = amount_of(base.requests, kind), amount_of(base.limits, kind)
    if not (request and limit and own and own_limit):
        return False
    return limit == scale(request, numerator=own_limit, denominator=own)


def _rounds(kind: Resource, size: Allocation, base: Allocation) -> bool:
    request, limit = amount_of(size.requests, kind), amount_of(size.limits, kind)
    return limit * amount_of(base.requests, kind) != request * amount_of(base.limits, kind)
