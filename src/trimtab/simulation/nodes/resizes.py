"""In-place resizes: whether a node can give a pod what its spec asks for, now, later or never."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from trimtab.core.model.pods import Container, ResizeState
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.simulation.nodes.containers import limit_of
from trimtab.simulation.nodes.pod_lifecycle import Means, PodWorker
from trimtab.simulation.world import objects
from trimtab.simulation.world.objects import Node

_TAKES: Final = timedelta(seconds=0.3), timedelta(seconds=1.2)
"""What a real node with nothing else to do took."""


def is_settled(worker: PodWorker) -> bool:
    """Whether every container has just what the spec asks for, as far as the kubelet knows it."""
    return all(
        container.spec == worker.allocated[container.name]
        and container.status in (None, container.spec)
        for container in worker.pod.containers
    )


def judge(worker: PodWorker, node: Node, neighbours: Iterable[PodWorker]) -> ResizeState | None:
    """How a resize of the pod stands; None if there is nothing to do."""
    if is_settled(worker):
        return None
    wanted = objects.total_requests(container.spec for container in worker.pod.containers)
    if any(wanted[kind] > node.capacity.get(kind, 0) for kind in BOTH):
        return ResizeState.INFEASIBLE
    if not _fits(worker, node, neighbours, wanted):
        return ResizeState.DEFERRED
    if any(_is_too_small(worker, container) for container in worker.pod.containers):
        return ResizeState.ERROR
    return ResizeState.IN_PROGRESS


def resize(means: Means, worker: PodWorker, state: ResizeState | None) -> None:
    """Go on with a resize of which this has been judged."""
    match state:
        case None:
            worker.resizing.cancel()
        case ResizeState.IN_PROGRESS:
            worker.allocate()
            worker.resizing.set(means.draw(_TAKES), worker.apply)
        case ResizeState.ERROR:
            # The node has set it aside, but cannot take away what is in use.
            worker.resizing.cancel()
            worker.allocate()
        case _:
            worker.resizing.cancel()
    worker.show_resize(state)


def _fits(
    worker: PodWorker, node: Node, neighbours: Iterable[PodWorker], wanted: Resources
) -> bool:
    has = worker.reserved
    grown = [kind for kind in BOTH if wanted[kind] > has[kind]]
    if not grown:
        return True
    reserved = [other.reserved for other in neighbours]
    return all(
        sum(each[kind] for each in reserved) + wanted[kind] <= node.capacity.get(kind, 0)
        for kind in grown
    )


def _is_too_small(worker: PodWorker, container: Container) -> bool:
    """Whether a running container already uses more memory than it would be allowed to."""
    limit = limit_of(container.spec, Resource.MEMORY)
    if limit is None or not container.is_running or container.restarts_on_resize:
        return False
    return worker.memory_of(container.name) > limit
