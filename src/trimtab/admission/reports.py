"""Counts of the webhook's work, as plain numbers: cheap to increase and to add up.

Each worker process keeps its own counts, and one of them exports the sum. The module `metrics`
renders them.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

import msgspec

from trimtab.admission.admit import AdmitOutcome

KeyT = TypeVar("KeyT")

LATENCY_BOUNDS: Final = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1, 2, 5, 10, 20, 30, 60, 120, 300),
)
"""The original's buckets of `admission_latency_seconds`."""
STEP_BOUNDS: Final = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90),
    *(100, 120, 150, 240, 300),
)
"""The original's buckets of `execution_latency_seconds`."""


class ReviewStatus(StrEnum):
    """Result of a review, by the original's names."""

    ERROR = "error"
    SKIPPED = "skipped"
    APPLIED = "applied"


class Reviewed(StrEnum):
    """Kind of object under review, by the original's names."""

    UNKNOWN = "unknown"
    POD = "Pod"
    AUTOSCALER = "VPA"


class ReviewStep(StrEnum):
    """Timed step of a review, by the original's names."""

    READ = "read_request"
    """From the arrival of a request to the start of its review."""
    ADMIT = "admit"
    BUILD = "build_response"
    WRITE = "write_response"
    TOTAL = "total"


class ReviewTrouble(StrEnum):
    """Reason why a review was answered without being understood."""

    CONTENT_TYPE = "ContentType"
    BROKEN = "Broken"
    """It is not JSON, or not a review."""
    UNKNOWN_RESOURCE = "UnknownResource"
    UNKNOWN_VERSION = "UnknownVersion"
    UNREADABLE_POD = "UnreadablePod"
    FAILED = "Failed"
    """An error in Trimtab itself."""


class Distribution(msgspec.Struct):
    """Counts of values by bucket, and their sum."""

    counts: list[int]
    sum: float = 0.0

    def add(self, value: float, bounds: tuple[float, ...]) -> None:
        """Count a value."""
        # Nearly all values lie below the first bound.
        self.counts[0 if value <= bounds[0] else bisect_left(bounds, value)] += 1
        self.sum += value


def _new_steps() -> dict[ReviewStep, Distribution]:
    return {step: _empty(STEP_BOUNDS) for step in ReviewStep}


def _empty(bounds: tuple[float, ...]) -> Distribution:
    return Distribution([0] * (len(bounds) + 1))


Outcome: TypeAlias = tuple[ReviewStatus, Reviewed]


@dataclass(slots=True)
class AdmissionCounts:
    """All counts of one process."""

    pods: dict[AdmitOutcome, int] = field(default_factory=dict)
    refused_autoscalers: int = 0
    shed: int = 0
    warnings: int = 0
    troubles: dict[ReviewTrouble, int] = field(default_factory=dict)
    refused_connections: dict[int, int] = field(default_factory=dict)
    """By HTTP status."""
    latencies: dict[Outcome, Distribution] = field(default_factory=dict)
    steps: dict[ReviewStep, Distribution] = field(default_factory=_new_steps)

    def time_review(self, outcome: Outcome, seconds: float) -> None:
        """Count one review and its duration."""
        if outcome not in self.latencies:
            self.latencies[outcome] = _empty(LATENCY_BOUNDS)
        self.latencies[outcome].add(seconds, LATENCY_BOUNDS)

    def time_steps(self, *steps: tuple[ReviewStep, float]) -> None:
        """Count steps and their durations."""
        for step, seconds in steps:
            self.steps[step].add(seconds, STEP_BOUNDS)


def count_up(counts: dict[KeyT, int], key: KeyT, more: int = 1) -> None:
    """Add `more` to a count, one by default."""
    counts[key] = counts.get(key, 0) + more


def add_up(tallies: Iterable[AdmissionCounts]) -> AdmissionCounts:
    """Return the sum of the counts of several processes."""
    total = AdmissionCounts()
    for one in tallies:
        for how, count in one.pods.items():
            count_up(total.pods, how, count)
        for trouble, count in one.troubles.items():
            count_up(total.troubles, trouble, count)
        for status, count in one.refused_connections.items():
            count_up(total.refused_connections, status, count)
        total.refused_autoscalers += one.refused_autoscalers
        total.shed += one.shed
        total.warnings += one.warnings
        for outcome, each in one.latencies.items():
            total.latencies[outcome] = _merge(total.latencies.get(outcome), each)
        for step, each in one.steps.items():
            total.steps[step] = _merge(total.steps[step], each)
    return total


def _merge(one: Distribution | None, other: Distribution) -> Distribution:
    if one is None:
        return Distribution(list(other.counts), other.sum)
    counts = [left + right for left, right in zip(one.counts, other.counts, strict=True)]
    return Distribution(counts, one.sum + other.sum)
