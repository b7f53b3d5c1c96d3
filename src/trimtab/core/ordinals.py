"""Ordinals of StatefulSets that make their pods one after the other (`OrderedReady`).

Such a StatefulSet makes a pod only when all pods of lower ordinals run and have been ready for its
`minReadySeconds`. So a pod that is evicted while a lower one is not ready may stay away for good.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from trimtab.core.disruption import owner_of
from trimtab.core.pods import Pod, PodPhase, WorkloadName

_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)


def ordinal_of(pod: Pod) -> int | None:
    """Return the number at the end of the pod's name; None if there is none."""
    _, _, number = pod.name.rpartition("-")
    return int(number) if number.isascii() and number.isdecimal() else None


def next_pod_from(pods: Iterable[Pod], min_ready: timedelta) -> datetime | None:
    """Return from when on a StatefulSet makes the pod behind these; None while one is not ready."""
    found = _BEGINNING
    for pod in pods:
        if pod.ready_since is None:
            return None
        found = max(found, pod.ready_since + min_ready)
    return found


def ready_ordinals(
    pods: Iterable[Pod], owners: Mapping[WorkloadName, int], settling: frozenset[str]
) -> Mapping[WorkloadName, Mapping[int, datetime]]:
    """Return by direct owner and ordinal since when pods that can be counted on are ready."""
    found: defaultdict[WorkloadName, dict[int, datetime]] = defaultdict(dict)
    for pod in pods:
        owner = owner_of(pod)
        if owner is None or owner not in owners or (ordinal := ordinal_of(pod)) is None:
            continue
        is_there = pod.phase is PodPhase.RUNNING and not pod.is_deleting
        if is_there and pod.ready_since is not None and pod.uid not in settling:
            found[owner][ordinal] = pod.ready_since
    return found
