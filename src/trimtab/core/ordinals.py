"""Ordinals of StatefulSets that make their pods one after the other (`OrderedReady`).

Such a StatefulSet makes a pod only when all pods of lower ordinals run and are ready. So a pod that
is evicted while a lower one is not ready may stay away for good.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from trimtab.core.disruption import owner_of
from trimtab.core.pods import Pod, PodPhase, WorkloadName


def ordinal_of(pod: Pod) -> int | None:
    """Return the number at the end of the pod's name; None if there is none."""
    _, _, number = pod.name.rpartition("-")
    return int(number) if number.isascii() and number.isdecimal() else None


def ready_ordinals(
    pods: Iterable[Pod], owners: Mapping[WorkloadName, int], settling: frozenset[str]
) -> Mapping[WorkloadName, frozenset[int]]:
    """Return by direct owner the ordinals of the pods that run and can be counted on."""
    found: defaultdict[WorkloadName, set[int]] = defaultdict(set)
    for pod in pods:
        owner = owner_of(pod)
        if owner is None or owner not in owners or (ordinal := ordinal_of(pod)) is None:
            continue
        is_up = pod.phase is PodPhase.RUNNING and pod.ready_since is not None
        if is_up and not pod.is_deleting and pod.uid not in settling:
            found[owner].add(ordinal)
    return {owner: frozenset(ordinals) for owner, ordinals in found.items()}
