"""In-place resizes: decide if a node can resize a pod now, later or never."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from trimtab.core.model.pods import Container, ResizeState
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.simulation.nodes.containers import limit_of
from trimtab.simulation.nodes.pod_lifecycle import Means, PodWorker
from trimtab.simulation.world import objects
from trimtab.simulation.world.objects import NodeObject

_TAKES: Final = timedelta(seconds=0.3), timedelta(seconds=1.2)
"""Duration measured on an idle real node."""


def is_settled(worker: PodWorker) -> bool:
    """Return True if every container has exactly the resources of its spec."""
    return all(
        container.spec == worker.allocated[container.name]
        and container.status in (None, container.spec)
        for container in worker.pod.containers
    )


def decide(
    worker: PodWorker, node: NodeObject, neighbours: Iterable[PodWorker]
) -> ResizeState | None:
    """Return the state of the pod's resize; None if there is nothing to do."""
    if is_settled(worker):
        return None
    wanted = objects.total_requests(container.spec for container in worker.pod.containers)
    # In the kubelet's order (KEP-1287): what can never fit is Infeasible, what does not fit now is
    # Deferred.
    if any(wanted[kind] > node.capacity.get(kind, 0) for kind in BOTH):
        return ResizeState.INFEASIBLE
    if not _fits(worker, node, neighbours, wanted):
        return ResizeState.DEFERRED
    if any(_is_too_small(worker, container) for container in worker.pod.containers):
        return ResizeState.ERROR
    return ResizeState.IN_PROGRESS


def resize(means: Means, worker: PodWorker, state: ResizeState | None) -> None:
    """Carry out, cancel or continue a resize according to its state."""
    match state:
        case None:
            worker.resizing.cancel()
        case ResizeState.IN_PROGRESS:
            worker.allocate()
            worker.resizing.set(means.draw(_TAKES), worker.apply)
        case ResizeState.ERROR:
            # The node has reserved the new size, but cannot take away memory in use.
            worker.resizing.cancel()
            worker.allocate()
        case _:
            worker.resizing.cancel()
    worker.show_resize(state)


def _fits(
    worker: PodWorker, node: NodeObject, neighbours: Iterable[PodWorker], wanted: Resources
) -> bool:
    has = worker.reserved
    # A resize that only shrinks fits even on a node that is overcommitted.
    grown = [kind for kind in BOTH if wanted[kind] > has[kind]]
    if not grown:
        return True
    reserved = [other.reserved for other in neighbours]
    return all(
        sum(each[kind] for each in reserved) + wanted[kind] <= node.capacity.get(kind, 0)
        for kind in grown
    )


def _is_too_small(worker: PodWorker, container: Container) -> bool:
    """Return True if a running container already uses more memory than its new limit."""
    limit = limit_of(container.spec, Resource.MEMORY)
    if limit is None or not container.is_running or container.restarts_on_resize:
        return False
    return worker.memory_of(container.name) > limit
