"""Changes that do not stand: another manager takes a successor's size back after a while (F16).

Such a successor had its size, so the eviction counted as fulfilled. A controller that resizes all
pods in place some time after their start would otherwise lead to evictions without end.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from trimtab.core.guards import convergence
from trimtab.core.guards.convergence import Expectation, Missed, Suspect
from trimtab.core.model.pods import Pod

STANDS_AFTER: Final = timedelta(hours=1)
"""Time after which a successor that still has its size is not expected to lose it."""


@dataclass(frozen=True, slots=True)
class StandingChange:
    """An eviction whose successor came in the wanted size."""

    expectation: Expectation
    successor_uid: str
    since: datetime
    """When the successor was first seen in that size."""


def review(
    changes: Iterable[StandingChange], pods: Iterable[Pod], now: datetime
) -> tuple[list[StandingChange], list[Missed]]:
    """Return the changes that may still be undone, and a verdict on each that was."""
    by_uid = {pod.uid: pod for pod in pods if not pod.is_deleting}
    standing: list[StandingChange] = []
    undone: list[Missed] = []
    for each in changes:
        pod, stood = by_uid.get(each.successor_uid), now - each.since
        if pod is None:
            continue
        if convergence.shows(each.expectation, pod) is False:
            undone.append(Missed(each.expectation, Suspect.OTHER_MANAGER, pod, stood))
        elif stood < STANDS_AFTER:
            standing.append(each)
    return standing, undone
