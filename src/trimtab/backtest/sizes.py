"""Size classes of workloads: a policy may be good for most, and the large or the small ones pay.

A workload is in one class of CPU and in one of memory, by the 95th percentile of what it needed.
The bounds are fixed amounts, so that classes of different recordings compare.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from trimtab.backtest.demand import CPU, MEMORY, Demand, percentile
from trimtab.core.histogram.buckets import Ints

_USUAL: Final = 0.95
_MIB: Final = 1024.0**2
_BOUNDS: Final = (
    (CPU, "CPU", (("100m", 100.0), ("1", 1000.0))),
    (MEMORY, "memory", (("256Mi", 256 * _MIB), ("1Gi", 1024 * _MIB), ("4Gi", 4096 * _MIB))),
)
"""Resources with the lower bounds of all classes but the lowest."""


@dataclass(frozen=True, slots=True)
class SizeClass:
    """Workloads that need about as much of a resource."""

    name: str
    workloads: Ints
    """Their positions in the demand."""


def size_classes(demand: Demand) -> list[SizeClass]:
    """Return the classes that have workloads: those of CPU, then those of memory."""
    needs = np.array([percentile(demand.values(each), _USUAL) for each in range(len(demand))])
    found = []
    for resource, title, bounds in _BOUNDS:
        ends = (("", -np.inf), *bounds, ("", np.inf))
        for (low, least), (high, most) in pairwise(ends):
            inside = (needs[:, resource] >= least) & (needs[:, resource] < most)
            found.append(SizeClass(f"{title} {_range(low, high)}", np.flatnonzero(inside)))
    return [each for each in found if len(each.workloads)]


def _range(low: str, high: str) -> str:
    if not low:
        return f"< {high}"
    return f"{low} to {high}" if high else f">= {low}"
