"""What all controllers do alike: see which pods a workload has, make more of them, let some go.

A controller is level-based: it looks at the tables, does one step towards what is wanted, and is
called again when anything has changed. Which step that is stands in the module of each kind.
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
"""Tells from which revision of its workload a pod was made."""
# Letters and digits without those that could form words, as the real ones are drawn from.
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True, slots=True)
class PlannedPod:
    """A pod that a workload wants to have."""

    name: str
    template: PodTemplate


class Upkeep:
    """The hands of all controllers."""

    def __init__(self, world: World, serving: Serving, admitting: Admitting) -> None:
        self.world = world
        self._serving = serving
        self._admitting = admitting

    def pods(self, workload: WorkloadObject) -> list[Pod]:
        """All pods that a workload owns, in the order in which they came."""
        return self.world.pods_by_owner.under(workload.uid)

    def live_pods(self, workload: WorkloadObject) -> list[Pod]:
        """The pods that a workload counts on: neither ended nor about to end."""
        return [pod for pod in self.pods(workload) if is_live(pod)]

    def store(self, workload: WorkloadObject) -> None:
        """Let a workload be as it is here, if it is not so already."""
        table = self.world.workloads_of(workload.kind)
        if table.find(workload.namespace, workload.name) != workload:
            table.put(workload)

    async def create(self, owner: WorkloadObject, planned: Sequence[PlannedPod]) -> None:
        """Create pods, few at first and ever more at once; raise the first refusal.

        Where the first ones are refused the others are not tried, so that a full quota is not asked
        a hundred times in a row.
        """
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
        """Let pods end gracefully."""
        for pod in pods:
            self._serving.delete_pod(pod)

    def plan_random(self, owner: WorkloadObject, template: PodTemplate) -> PlannedPod:
        """A pod with a name that nobody has."""
        letters = "".join(self.world.random.choice(_LETTERS) for _ in range(5))
        return PlannedPod(f"{owner.name}-{letters}", template)

    async def _create(self, owner: WorkloadObject, planned: PlannedPod) -> None:
        await self._admitting.create_pod(
            owner.namespace, planned.name, planned.template, owner.reference
        )


def is_live(pod: Pod) -> bool:
    """Whether a pod has neither ended nor been told to."""
    return not pod.is_deleting and pod.phase not in ENDED


def is_ready(pod: Pod) -> bool:
    """Whether a pod can be counted on now."""
    return pod.ready_since is not None and is_live(pod)


def revision_hash(workload: WorkloadObject) -> str:
    """A word for the present revision of a workload."""
    text = f"{workload.namespace}/{workload.kind}/{workload.name}/{workload.revision}"
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:10])


def with_labels(template: PodTemplate, labels: Mapping[str, str]) -> PodTemplate:
    """The template with further labels."""
    return replace(template, labels={**template.labels, **labels})


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
