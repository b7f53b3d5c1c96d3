"""Workloads that got worse: fewer ready pods than before the updater changed them.

The updater stops changing such a workload, whatever the cause (D22). It goes on when as many pods
are ready as before, or when an operator edits the autoscaler. A pod that is OOM-killed in a loop is
still helped: it cannot get ready without more memory.

Of a large workload some pods are always on their way. One pod in twenty may be missing, so a
workload of fewer pods counts as worse with the first one. What is missing is counted from the best
state of the last day, so that small losses add up.
"""

import re
import sys
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName
from trimtab.core.model.pods import Pod

STOPPED: Final = "UpdatesStopped"
"""The condition of an autoscaler whose workload the updater has stopped changing."""
# A restarted updater has no memory but the condition that it wrote.
_FIGURES: Final = re.compile(r"\d+ of the (?P<needed>\d{1,9}) pods ")
"""Pattern of the start of that condition's message."""

_ONE_MISSING_IN: Final = 20
"""Number of pods of which one may be missing before a workload counts as worse."""

FORGOTTEN_AFTER: Final = timedelta(minutes=10)
"""Time after the last change at which a workload that is well needs no comparison any more."""
BEST_KEPT: Final = timedelta(days=1)
"""Time for which later changes are compared with a number of ready pods that is not reached again.

Pods that are missing for longer may be missing for good, and for other reasons.
"""


@dataclass(frozen=True, slots=True)
class ChangedWorkload:
    """A workload that the updater changed, and how many of its pods were ready before."""

    autoscaler: AutoscalerName
    """The autoscaler for which the last change was made."""
    generation: int | None
    """Generation of that autoscaler at the time; None if unknown."""
    ready_before: int
    changed_at: datetime
    """When it was last changed."""
    best_at: datetime
    """When as many pods were last ready as before."""
    short_since: datetime | None = None
    """Since when too few pods have been ready; None while enough are."""
    ready: int = 0
    """Number of pods that are ready now, while too few are."""
    needed: int = 0
    """Number of pods that they are compared with."""


@dataclass(frozen=True, slots=True)
class Degradation:
    """A workload with too few ready pods for too long."""

    ready: int
    needed: int
    since: datetime

    @property
    def detail(self) -> str:
        """The figures in one sentence."""
        return (
            f"{self.ready} of the {self.needed} pods that were ready before the last changes "
            f"are ready since {self.since:%Y-%m-%dT%H:%M:%SZ}"
        )


def after_change(
    before: ChangedWorkload | None,
    *,
    autoscaler: AutoscalerName,
    generation: int | None,
    ready: int,
    now: datetime,
) -> ChangedWorkload:
    """Return the record of a workload that is changed now, with the ready pods it had before."""
    if before is None:
        return ChangedWorkload(autoscaler, generation, ready, now, best_at=now)
    # `ready_before` stays that of before the first change: small losses must not add up unseen.
    return replace(before, autoscaler=autoscaler, generation=generation, changed_at=now)


def restored(autoscaler: Autoscaler, now: datetime) -> ChangedWorkload | None:
    """Return what an earlier updater said about the workload of the autoscaler, if it stopped.

    The message says how many pods have to be ready; without it all that the owner wants have to be.
    """
    for condition in autoscaler.conditions:
        if condition.type == STOPPED and condition.status == "True":
            since, figures = (
                condition.last_transition_time or now,
                _FIGURES.match(condition.message),
            )
            # More than any owner wants, so `review` compares with what the owner wants.
            needed = sys.maxsize if figures is None else int(figures["needed"])
            return ChangedWorkload(
                autoscaler.identity, autoscaler.generation, needed, now, now, since
            )
    return None


def is_ready(pod: Pod) -> bool:
    """Return True if the pod serves its users."""
    return pod.ready_since is not None and not pod.is_deleting


def least_ready(needed: int) -> int:
    """Return how many pods have to be ready, where so many were."""
    return needed - needed // _ONE_MISSING_IN


def review(
    record: ChangedWorkload, *, ready: int, wanted: int, generation: int | None, now: datetime
) -> ChangedWorkload | None:
    """Return the record brought up to date, None once there is nothing left to compare with.

    An owner that wants fewer pods than were ready needs no more than it wants.
    """
    # An edit of the autoscaler is how an operator says "go on".
    is_edited = None not in (generation, record.generation) and generation != record.generation
    if is_edited:
        return None
    # A workload that was scaled down has not got worse.
    needed = min(record.ready_before, wanted)
    if ready >= least_ready(needed):
        # A loss that is forgotten would be the measure of the next one.
        if ready < needed and now - record.best_at < BEST_KEPT:
            return replace(record, ready_before=needed, short_since=None)
        is_over = now - record.changed_at >= FORGOTTEN_AFTER
        # Pods that got ready since are what later changes are compared with.
        well = replace(record, ready_before=ready, best_at=now, short_since=None)
        return None if is_over else well
    return replace(record, short_since=record.short_since or now, ready=ready, needed=needed)


def judge(record: ChangedWorkload, patience: timedelta, now: datetime) -> Degradation | None:
    """Return the degradation of a workload that had too few ready pods for as long as patience."""
    if record.short_since is None or now - record.short_since < patience:
        return None
    return Degradation(record.ready, record.needed, record.short_since)
