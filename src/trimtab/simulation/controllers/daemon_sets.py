"""DaemonSets: one pod for each node, ready or not, and rollouts of a few nodes at a time.

A lost node keeps its pod, because DaemonSet pods tolerate all taints.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trimtab.core.model.pods import Pod
from trimtab.simulation.controllers.replicas import (
    REVISION_LABEL,
    PlannedPod,
    Upkeep,
    is_live,
    is_ready,
    revision_hash,
    with_labels,
)
from trimtab.simulation.world.objects import ENDED, NodeObject, WorkloadObject


async def reconcile_daemon_set(upkeep: Upkeep, workload: WorkloadObject) -> None:
    """Give each node its pod, delete all other pods, and replace a few outdated ones."""
    world = upkeep.world
    nodes = sorted(world.nodes, key=lambda node: node.name)
    by_node: dict[str, list[Pod]] = {node.name: [] for node in nodes}
    for pod in upkeep.pods(workload):
        node_name = world.templates[pod.uid].node_name
        if node_name not in by_node or pod.phase in ENDED:
            upkeep.delete([pod])
        else:
            by_node[node_name].append(pod)
    for pods in by_node.values():
        upkeep.delete([pod for pod in pods if is_live(pod)][1:])
    upkeep.store(_with_status(workload, by_node))
    _replace_outdated(upkeep, workload, by_node)
    # A pod that is being deleted still counts for its node.
    planned = [_planned(upkeep, workload, node) for node in nodes if not by_node[node.name]]
    await upkeep.create(workload, planned)


def _with_status(workload: WorkloadObject, by_node: Mapping[str, Sequence[Pod]]) -> WorkloadObject:
    label = revision_hash(workload)
    live = [next(filter(is_live, pods), None) for pods in by_node.values()]
    return replace(
        workload,
        replicas=len(by_node),
        ready=sum(pod is not None and is_ready(pod) for pod in live),
        updated=sum(pod is not None and pod.labels.get(REVISION_LABEL) == label for pod in live),
    )


def _replace_outdated(
    upkeep: Upkeep, workload: WorkloadObject, by_node: dict[str, list[Pod]]
) -> None:
    label = revision_hash(workload)
    live = [pod for pods in by_node.values() for pod in pods if is_live(pod)]
    outdated = [pod for pod in live if pod.labels.get(REVISION_LABEL) != label]
    idle = [pod for pod in outdated if not is_ready(pod)]
    unavailable = len(by_node) - sum(map(is_ready, live))
    spare = max(0, workload.max_unavailable - unavailable)
    # A pod that is not ready counts as unavailable already, so replacing it costs nothing.
    upkeep.delete([*idle, *[pod for pod in outdated if is_ready(pod)][:spare]])


def _planned(upkeep: Upkeep, workload: WorkloadObject, node: NodeObject) -> PlannedPod:
    template = with_labels(workload.template, {REVISION_LABEL: revision_hash(workload)})
    return upkeep.plan_random(workload, replace(template, node_name=node.name))
