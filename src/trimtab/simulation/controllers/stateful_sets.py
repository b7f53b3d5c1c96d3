"""StatefulSets: pods with stable names, changed one at a time.

A pod is created only after all pods before it are ready, and deleted only after all pods behind it
are gone. Its successor is created only once the pod itself is gone.
"""

from typing import Final

from trimtab.core.model.pods import Pod
from trimtab.simulation.controllers.replicas import (
    REVISION_LABEL,
    PlannedPod,
    Upkeep,
    is_ready,
    revision_hash,
    with_labels,
)
from trimtab.simulation.world.objects import ENDED, WorkloadObject

_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"


async def reconcile_stateful_set(upkeep: Upkeep, workload: WorkloadObject) -> None:
    """Take the next step: create one pod, or delete one, or wait for one."""
    wanted = workload.replicas or 0
    pods = {_ordinal(pod): pod for pod in upkeep.pods(workload)}
    for ordinal in range(wanted):
        pod = pods.get(ordinal)
        if pod is None:
            await upkeep.create(workload, [_planned(workload, ordinal)])
            return
        if pod.phase in ENDED:
            upkeep.delete([pod])
            return
        if not is_ready(pod):
            return
    superfluous = sorted((ordinal for ordinal in pods if ordinal >= wanted), reverse=True)
    if superfluous:
        upkeep.delete([pods[superfluous[0]]])
        return
    label = _label(workload)
    for ordinal in reversed(range(wanted)):
        if pods[ordinal].labels.get(REVISION_LABEL) != label:
            upkeep.delete([pods[ordinal]])
            return


def _planned(workload: WorkloadObject, ordinal: int) -> PlannedPod:
    name = f"{workload.name}-{ordinal}"
    labels = {
        REVISION_LABEL: _label(workload),
        _NAME_LABEL: name,
        _INDEX_LABEL: str(ordinal),
    }
    return PlannedPod(name, with_labels(workload.template, labels))


def _label(workload: WorkloadObject) -> str:
    return f"{workload.name}-{revision_hash(workload)}"


def _ordinal(pod: Pod) -> int:
    return int(pod.name.rpartition("-")[2])
