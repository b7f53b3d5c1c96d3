"""Deployments: one ReplicaSet per revision, and rollouts from one to the next.

A rollout never lacks more pods than the workload allows, and never has more than one extra pod. The
arithmetic is that of the real controller for numbers (the real one also supports percentages).
"""

from dataclasses import replace
from typing import Final

from trimtab.core.model import selectors
from trimtab.core.model.selectors import Selector
from trimtab.simulation.controllers.replicas import Upkeep, is_ready, revision_hash, with_labels
from trimtab.simulation.world.objects import WorkloadObject

HASH_LABEL: Final = "pod-template-hash"
_SURGE: Final = 1
_KEPT: Final = 10
"""Number of empty ReplicaSets of older revisions that are kept."""


async def reconcile_deployment(upkeep: Upkeep, workload: WorkloadObject) -> None:
    """Move the ReplicaSets one step towards the spec of the workload."""
    sets = sorted(upkeep.world.workloads_owned_by(workload.uid), key=_age)
    newest = next((each for each in sets if each.revision == workload.revision), None)
    if newest is None:
        newest = upkeep.world.add_workload(_replica_set(workload))
        sets.append(newest)
    older = [each for each in sets if each is not newest]
    # The rollout is over; what is left is to follow the number of replicas.
    if not any(each.replicas for each in older):
        upkeep.store(replace(newest, replicas=workload.replicas))
        _forget(upkeep, older)
    # One step at a time, as the real controller: a change of the new set wakes it again.
    elif not _scale_up(upkeep, workload, newest, sets):
        _scale_down(upkeep, workload, newest, older)


def _age(workload: WorkloadObject) -> tuple[int, str]:
    return workload.revision, workload.name


def _replica_set(workload: WorkloadObject) -> WorkloadObject:
    label = revision_hash(workload)
    return WorkloadObject(
        namespace=workload.namespace,
        kind="ReplicaSet",
        name=f"{workload.name}-{label}",
        template=with_labels(workload.template, {HASH_LABEL: label}),
        selector=Selector((*workload.selector.requirements, selectors.equality(HASH_LABEL, label))),
        owner=workload.reference,
        replicas=0,
        revision=workload.revision,
    )


def _scale_up(
    upkeep: Upkeep, workload: WorkloadObject, newest: WorkloadObject, sets: list[WorkloadObject]
) -> bool:
    """Scale the newest set as far as the surge allows; return True if its size changes."""
    wanted = workload.replicas or 0
    size = newest.replicas or 0
    room = wanted + _SURGE - sum(each.replicas or 0 for each in sets)
    target = wanted if size > wanted else min(wanted, size + max(0, room))
    upkeep.store(replace(newest, replicas=target))
    return target != size


def _scale_down(
    upkeep: Upkeep, workload: WorkloadObject, newest: WorkloadObject, older: list[WorkloadObject]
) -> None:
    """Shrink older sets: pods that are not ready first, then as many as may be missing."""
    # First idle pods of old sets, which cost no availability; then ready ones, as far as new ones
    # replace them.
    least = (workload.replicas or 0) - workload.max_unavailable
    ready = {each.uid: sum(map(is_ready, upkeep.live_pods(each))) for each in [*older, newest]}
    sizes = {each.uid: each.replicas or 0 for each in [*older, newest]}
    not_yet = max(0, sizes[newest.uid] - ready[newest.uid])
    spare = sum(sizes.values()) - least - not_yet
    for each in older:
        idle = max(0, min(sizes[each.uid] - ready[each.uid], spare))
        sizes[each.uid] -= idle
        spare -= idle
    spare = min(spare, sum(ready.values()) - least)
    for each in older:
        gone = max(0, min(sizes[each.uid], spare))
        spare -= gone
        upkeep.store(replace(each, replicas=sizes[each.uid] - gone))


def _forget(upkeep: Upkeep, older: list[WorkloadObject]) -> None:
    for each in older[:-_KEPT]:
        upkeep.world.workloads_of(each.kind).delete(each.namespace, each.name)
