"""Shared work of all controllers: list the pods of a workload, create some, delete some.

A controller is level-based: it reads the tables, takes one step towards the wanted state, and is
called again when anything has changed. The module of each kind defines its steps.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from trimtab.core.model.pods import Pod, PodPhase
from trimtab.simulation.api_server.admission import Admitting
from trimtab.simulation.api_server.writes import Serving
from trimtab.simulation.world.objects import ENDED, PodTemplate, WorkloadObject
from trimtab.simulation.world.world import World

REVISION_LABEL: Final = "controller-revision-hash"
"""Label with the revision of the workload from which a pod was created."""
# Letters and digits that form no words, as in the real controllers.
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True, slots=True)
class PlannedPod:
    """A pod that a workload wants to have."""

    name: str
    template: PodTemplate


class Upkeep:
    """Reads and writes that all controllers share."""

    def __init__(self, world: World, serving: Serving, admitting: Admitting) -> None:
        self.world = world
        self._serving = serving
        self._admitting = admitting

    def pods(self, workload: WorkloadObject) -> list[Pod]:
        """Return all pods that a workload owns, in the order of their creation."""
        return self.world.pods_by_owner.under(workload.uid)

    def live_pods(self, workload: WorkloadObject) -> list[Pod]:
        """Return the pods of a workload that have neither ended nor are being deleted."""
        return [pod for pod in self.pods(workload) if is_live(pod)]

    def store(self, workload: WorkloadObject) -> None:
        """Store a workload, if it has changed."""
        table = self.world.workloads_of(workload.kind)
        if table.find(workload.namespace, workload.name) != workload:
            table.put(workload)

    async def create(self, owner: WorkloadObject, planned: Sequence[PlannedPod]) -> None:
        """Create pods in batches that double in size; raise the first refusal.

        After a refusal the remaining pods are not tried, so a full quota does not refuse a hundred
        requests in a row.
        """
        # 1, 2, 4 …: the slow start of the real controllers (`slowStartBatch`).
        done, at_once = 0, 1
        while done < len(planned):
            batch = planned[done : done + at_once]
            answers = await asyncio.gather(
                *(self._create(owner, pod) for pod in batch), return_exceptions=True
            )
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
            done, at_once = done + len(batch), 2 * at_once

    def delete(self, pods: Iterable[Pod]) -> None:
        """Delete pods gracefully."""
        for pod in pods:
            self._serving.delete_pod(pod)

    def plan_random(self, owner: WorkloadObject, template: PodTemplate) -> PlannedPod:
        """Plan a pod with a random name."""
        letters = "".join(self.world.random.choice(_LETTERS) for _ in range(5))
        return PlannedPod(f"{owner.name}-{letters}", template)

    async def _create(self, owner: WorkloadObject, planned: PlannedPod) -> None:
        await self._admitting.create_pod(
            owner.namespace, planned.name, planned.template, owner.reference
        )


def is_live(pod: Pod) -> bool:
    """Return True if a pod has neither ended nor is being deleted."""
    return not pod.is_deleting and pod.phase not in ENDED


def is_ready(pod: Pod) -> bool:
    """Return True if a pod is live and ready."""
    return pod.ready_since is not None and is_live(pod)


def revision_hash(workload: WorkloadObject) -> str:
    """Return a hash of the present revision of a workload."""
    text = f"{workload.namespace}/{workload.kind}/{workload.name}/{workload.revision}"
    # Not `hash`: two runs of a seed must name pods alike.
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:10])


def with_labels(template: PodTemplate, labels: Mapping[str, str]) -> PodTemplate:
    """Return the template with additional labels."""
    return replace(template, labels={**template.labels, **labels})


async def reconcile_replicas(upkeep: Upkeep, workload: WorkloadObject) -> None:
    """Create missing pods, or delete surplus ones."""
    if upkeep.world.workloads_owned_by(workload.uid):
        # An unknown kind that owns other workloads has no pods of its own.
        return
    pods = upkeep.live_pods(workload)
    missing = (workload.replicas or 0) - len(pods)
    if missing > 0:
        planned = [upkeep.plan_random(workload, workload.template) for _ in range(missing)]
        await upkeep.create(workload, planned)
    elif missing < 0:
        # `missing` is negative here: the first so many of the order go.
        upkeep.delete(sorted(pods, key=_dispensability(pods))[:-missing])


def _dispensability(pods: list[Pod]) -> Callable[[Pod], tuple[object, ...]]:
    """Return the order of deletion: idle pods, then pods with many neighbours, then young ones.

    The order is that of the real controller, for the properties that simulated pods have.
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
