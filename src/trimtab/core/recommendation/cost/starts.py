"""Starts: the time during which a container uses CPU to start, and not to work.

A slow start says little about the CPU that a container needs for good, and a startup boost exists
for it. So the cost-based estimator counts neither (decision 0072). Memory of a start counts: the
next start needs it again.
"""

import math
from datetime import datetime

from trimtab.core.model.estimation import CostSettings
from trimtab.core.model.pods import Container, Pod
from trimtab.core.sizing import startup_boost
from trimtab.core.usage import aggregates


def start_ends(pod: Pod, settings: CostSettings) -> dict[str, float]:
    """Return, by container, the time until which its CPU is that of its start, in seconds.

    A start ends a moment after the pod became ready. A container that is never ready has started
    after a while: it may be too slow because it has too little CPU.
    """
    boosted = set(startup_boost.boosted_containers(pod))
    return {
        each.name: math.inf if each.name in boosted else _start_end(pod, each, settings)
        for each in pod.containers
    }


def _start_end(pod: Pod, container: Container, settings: CostSettings) -> float:
    begin = _begin(pod, container)
    if begin is None:
        return -math.inf
    longest = aggregates.to_seconds(begin + settings.longest_start, missing=0.0)
    if pod.ready_since is None:
        return longest
    settled = aggregates.to_seconds(pod.ready_since + settings.start_settling, missing=0.0)
    return min(settled, longest)


def _begin(pod: Pod, container: Container) -> datetime | None:
    """Return the start of a container, as far as the pod shows it."""
    ended = container.last_termination
    restarted = None if ended is None else ended.finished_at
    known = [each for each in (pod.started_at, restarted) if each is not None]
    return max(known, default=None)
