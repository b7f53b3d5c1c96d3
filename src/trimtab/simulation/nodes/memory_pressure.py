"""Node pressure: who has to go when the containers of a node use more memory than there is."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from trimtab.api.kinds.evictions import MemoryEviction
from trimtab.core.model.pods import Container, Pod
from trimtab.core.model.resources import Resource
from trimtab.simulation.nodes.pod_lifecycle import PodWorker


@dataclass(frozen=True, slots=True)
class PressureUsage:
    """What a pod on a node under pressure uses."""

    worker: PodWorker
    memory_bytes: int
    excess_bytes: int
    """By how much that is more than it requests; negative if it is less."""


def measure(workers: Iterable[PodWorker]) -> list[PressureUsage]:
    """What each pod uses, the one that exceeds its requests most first."""
    usages = [_usage(worker) for worker in workers]
    # Names make ties repeatable.
    return sorted(
        usages,
        key=lambda usage: (
            -usage.excess_bytes,
            usage.worker.pod.namespace,
            usage.worker.pod.name,
        ),
    )


def choose(usages: Iterable[PressureUsage], capacity_bytes: int) -> Iterator[PodWorker]:
    """The pods that have to go until the rest fits."""
    ranked = list(usages)
    used = sum(usage.memory_bytes for usage in ranked)
    for usage in ranked:
        if used <= capacity_bytes:
            return
        used -= usage.memory_bytes
        yield usage.worker


def blame(worker: PodWorker, now: datetime) -> list[MemoryEviction]:
    """What the kubelet tells of the pod: the containers that use more than they request."""
    pod = worker.pod
    used = [(container, worker.memory_of(container.name)) for container in pod.containers]
    return [
        MemoryEviction(pod.namespace, pod.name, container.name, memory, now)
        for container, memory in used
        if memory > _request(container)
    ]


def _usage(worker: PodWorker) -> PressureUsage:
    memory = sum(worker.memory_of(container.name) for container in worker.pod.containers)
    return PressureUsage(worker, memory, memory - _requests(worker.pod))


def _requests(pod: Pod) -> int:
    return sum(_request(container) for container in pod.containers)


def _request(container: Container) -> int:
    return (container.current.requests or {}).get(Resource.MEMORY, 0)
