"""Restarts that a resize brings about, and the gap between them that budgets need.

The updater asks by a dry run whether a PodDisruptionBudget bears a restart. The answer counts pods
that are down, and so not a restart that was asked for a moment ago. Owners of one namespace may
share a budget, so the gap is for all of them together.
"""

from datetime import datetime

from trimtab.core.pods import Pod
from trimtab.core.records import dataclass
from trimtab.core.resizing import RESTART_GAP


@dataclass(frozen=True, slots=True)
class Restart:
    """A restart that was asked for."""

    pod: Pod
    """The pod as it was before."""
    at: datetime


def end_of_gap(restart: Restart, pod: Pod | None, now: datetime) -> datetime | None:
    """Return when another pod of the namespace may be restarted; None if that is now.

    A pod that is ready again, or gone, costs no budget more than the API server knows of.
    """
    end = restart.at + RESTART_GAP
    if now >= end or pod is None or pod.uid != restart.pod.uid:
        return None
    is_ready_again = pod.ready_since not in (None, restart.pod.ready_since)
    return None if is_ready_again else end
