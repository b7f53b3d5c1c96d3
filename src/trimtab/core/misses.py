"""Workloads on which changes had no effect: how often in a row, who is to suspect, until when.

A workload is forgiven as soon as a change of it shows, as its autoscaler is edited, or as some new
pod of it came through admission with what was wanted: whatever stood in the way is gone.
"""

from collections.abc import Iterable
from datetime import datetime

from trimtab.core.convergence import FIRST_DELAY, Expectation, Missed, Suspect, is_admitted, shows
from trimtab.core.pods import Pod
from trimtab.core.records import dataclass
from trimtab.core.snapshot import Retry


@dataclass(frozen=True, slots=True)
class Miss:
    """The changes of one workload that had no effect since one last had."""

    retry: Retry
    suspect: Suspect
    """Of the last one."""
    expectation: Expectation
    """What the last one should have brought about."""
    known: frozenset[str]
    """The workload's pods at the time, by uid."""
    generation: int = 0
    """Of the autoscaler at the time."""


def count_miss(
    before: Miss | None,
    missed: Missed,
    *,
    known: Iterable[str],
    generation: int,
    now: datetime,
) -> Miss:
    """One miss more."""
    retry = Retry() if before is None else before.retry
    return Miss(
        retry.after_failure(now, FIRST_DELAY),
        missed.suspect,
        missed.expectation,
        frozenset(known),
        generation,
    )


def is_forgiven(miss: Miss, pods: Iterable[Pod], generation: int | None) -> bool:
    """Whether there is reason to try again at once; a missing generation is no reason."""
    if generation is not None and generation != miss.generation:
        return True
    return any(
        pod.uid not in miss.known and is_admitted(pod) and shows(miss.expectation, pod)
        for pod in pods
    )
