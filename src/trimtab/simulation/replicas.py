"""ReplicaSets, ReplicationControllers and kinds that nobody knows: so many pods, all alike."""

from collections import Counter
from collections.abc import Callable

from trimtab.core.pods import Pod, PodPhase
from trimtab.simulation.objects import WorkloadObject
from trimtab.simulation.upkeep import Upkeep, is_ready


async def reconcile_replicas(upkeep: Upkeep, workload: WorkloadObject) -> None:
    """Create the pods that are missing, or delete those that are too many."""
    if upkeep.world.workloads_owned_by(workload.uid):
        # An unknown kind that makes others work for it has no pods of its own.
        return
    pods = upkeep.live_pods(workload)
    missing = (workload.replicas or 0) - len(pods)
    if missing > 0:
        planned = [upkeep.plan_random(workload, workload.template) for _ in range(missing)]
        await upkeep.create(workload, planned)
    elif missing < 0:
        upkeep.delete(sorted(pods, key=_dispensability(pods))[:-missing])


def _dispensability(pods: list[Pod]) -> Callable[[Pod], tuple[object, ...]]:
    """Which pods go first: those that do the least, then those beside most others, then the young.

    The order is that of the real controller, as far as anything here differs in it.
    """
    neighbours = Counter(pod.node_name for pod in pods if is_ready(pod))

    def rank(pod: Pod) -> tuple[object, ...]:
        return (
            bool(pod.node_name),
            pod.phase is PodPhase.RUNNING,
            is_ready(pod),
            -neighbours[pod.node_name],
            -(pod.ready_since.timestamp() if pod.ready_since else 0.0),
            -sum(container.restart_count for container in pod.containers),
            -(pod.created_at.timestamp() if pod.created_at else 0.0),
            pod.name,
        )

    return rank
