"""Changes that do not stand: another manager takes a pod's size back after a while (F16).

Such a pod had its size, so the change counted as fulfilled. A controller that resizes all pods in
place from time to time would otherwise lead to evictions, or restarts, without end.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from trimtab.core.guards import convergence
from trimtab.core.guards.convergence import Expectation, Missed, Suspect
from trimtab.core.model.pods import Pod

STANDS_AFTER: Final = timedelta(hours=1)
"""Time after which a pod that still has its size is not expected to lose it."""
_SEEN_WITHIN: Final = timedelta(minutes=2)
"""Time by which it may be seen late that a change was undone."""


@dataclass(frozen=True, slots=True)
class StandingChange:
    """An eviction whose successor came in the wanted size, or a resize that a pod shows."""

    expectation: Expectation
    pod_uid: str
    """The pod that shows it."""
    since: datetime
    """When it was first seen in that size."""


def review(
    changes: Iterable[StandingChange], pods: Iterable[Pod], now: datetime
) -> tuple[list[StandingChange], list[Missed]]:
    """Return the changes that stand, the old ones for the last time, and verdicts on the others."""
    by_uid = {pod.uid: pod for pod in pods if not pod.is_deleting}
    standing: list[StandingChange] = []
    undone: list[Missed] = []
    for each in changes:
        pod, stood = by_uid.get(each.pod_uid), now - each.since
        if pod is None:
            continue
        if convergence.shows(each.expectation, pod) is False:
            undone.append(Missed(each.expectation, Suspect.OTHER_MANAGER, pod, stood))
        else:
            standing.append(each)
    return standing, undone


def outlives(age: timedelta, stood: timedelta) -> bool:
    """Return True if a size has been kept for longer than by a pod that lost it after `stood`."""
    return age >= min(2 * stood + _SEEN_WITHIN, STANDS_AFTER)
