"""What was evicted when, and what that says of a side: how fast it was, and who was first."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from bench import workloads
from bench.workloads import Workload

MINUTE_SECONDS: Final = 60.0
_FIRST_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Eviction:
    """One pod of a workload that is gone."""

    moment: float
    """Seconds since the epoch."""
    workload: Workload


def count_in_first_minute(evictions: Sequence[Eviction]) -> int:
    """How many pods were gone a minute after the first of them."""
    end = evictions[0].moment + MINUTE_SECONDS
    return sum(each.moment <= end for each in evictions)


def seconds_per_hundred(evictions: Sequence[Eviction]) -> float:
    """How long a hundred evictions take, one after another or at once."""
    return 100 * (evictions[-1].moment - evictions[0].moment) / (len(evictions) - 1)


def share_of_most_urgent(evictions: Sequence[Eviction], fleet: Collection[Workload]) -> float:
    """How many of the first evictions, a tenth of all that are due, hit the most urgent tenth."""
    first = evictions[: max(1, round(len(fleet) * _FIRST_SHARE))]
    urgent = set(sorted(fleet, key=workloads.urgency, reverse=True)[: len(first)])
    return sum(each.workload in urgent for each in first) / len(first)
