"""LimitRanges: what a namespace allows a container or a whole pod to ask for."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from trimtab.core.model.resources import BOTH, Resource, Resources


class LimitRangeType(StrEnum):
    """The kind of object that a limit range item bounds; other types do not concern pods."""

    CONTAINER = "Container"
    POD = "Pod"
    NODE = "Node"
    """Not from a LimitRange: the room on one of the largest nodes (`sizing/node_capacity.py`)."""


OF_LIMIT_RANGES: Final = (LimitRangeType.CONTAINER, LimitRangeType.POD)
"""The types that LimitRanges have."""


@dataclass(frozen=True, slots=True)
class LimitRangeItem:
    """One item of a LimitRange; None where it has no such map."""

    type: LimitRangeType
    min: Resources | None = None
    max: Resources | None = None
    default: Resources | None = None
    """The limit of a container that names none."""
    max_cpu_ratio: int | None = None
    """The most thousandths of the CPU request that its limit may be (`maxLimitRequestRatio`)."""
    max_memory_ratio: int | None = None
    """The same of memory."""
    default_request: Resources | None = None
    """The request of a container that names neither it nor a limit."""

    def max_ratio(self, kind: Resource) -> int | None:
        """Return the most thousandths of a request that its limit may be; None for no bound."""
        return self.max_cpu_ratio if kind is Resource.CPU else self.max_memory_ratio


def effective_item(
    items: Iterable[LimitRangeItem], limit_type: LimitRangeType
) -> LimitRangeItem | None:
    """Return one item that bounds as tightly as all of its type together; None if there is none."""
    # Most namespaces have no LimitRange.
    of_type = [item for item in items if item.type is limit_type] if items else ()
    if not of_type:
        return None
    defaults = [item.default for item in of_type if item.default is not None]
    asked = [item.default_request for item in of_type if item.default_request is not None]
    ratios = {
        kind: [ratio for item in of_type if (ratio := item.max_ratio(kind)) is not None]
        for kind in BOTH
    }
    effective = LimitRangeItem(
        limit_type,
        # The API server checks every LimitRange of a namespace, so all of them bound together.
        min=_tightest((item.min for item in of_type), max),
        max=_tightest((item.max for item in of_type), min),
        default=defaults[-1] if defaults else None,
        max_cpu_ratio=min(ratios[Resource.CPU], default=None),
        max_memory_ratio=min(ratios[Resource.MEMORY], default=None),
        default_request=asked[-1] if asked else None,
    )
    return None if effective == LimitRangeItem(limit_type) else effective


def _tightest(
    bounds: Iterable[Resources | None], choose: Callable[[list[int]], int]
) -> Resources | None:
    given = [bound for bound in bounds if bound is not None]
    if not given:
        return None
    # Below zero it bounds nothing, and must not win over one that does.
    found = {kind: [bound[kind] for bound in given if bound.get(kind, -1) >= 0] for kind in BOTH}
    return {kind: choose(amounts) for kind, amounts in found.items() if amounts}
