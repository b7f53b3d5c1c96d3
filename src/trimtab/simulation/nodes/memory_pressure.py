"""Memory pressure: chooses the pods to evict when containers use more than the node has."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from trimtab.api.kinds.evictions import MemoryEviction
from trimtab.core.model.pods import Container, Pod
from trimtab.core.model.resources import Resource
from trimtab.simulation.nodes.pod_lifecycle import PodWorker


@dataclass(frozen=True, slots=True)
class PressureUsage:
    """Memory usage of a pod on a node under pressure."""

    worker: PodWorker
    memory_bytes: int
    excess_bytes: int
    """Usage less the request; negative if the pod uses less than it requests."""


def measure(workers: Iterable[PodWorker]) -> list[PressureUsage]:
    """Return the usage of each pod, the largest excess over its requests first."""
    usages = [_usage(worker) for worker in workers]
    # Sorting ties by name makes runs repeatable.
    return sorted(
        usages,
        key=lambda usage: (
            -usage.excess_bytes,
            usage.worker.pod.namespace,
            usage.worker.pod.name,
        ),
    )


def choose(usages: Iterable[PressureUsage], capacity_bytes: int) -> Iterator[PodWorker]:
    """Yield the pods to evict until the rest fits."""
    ranked = list(usages)
    used = sum(usage.memory_bytes for usage in ranked)
    for usage in ranked:
        if used <= capacity_bytes:
            return
        used -= usage.memory_bytes
        yield usage.worker


def blame(worker: PodWorker, now: datetime) -> list[MemoryEviction]:
    """Return the kubelet's report on the pod: containers that use more than they request."""
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
