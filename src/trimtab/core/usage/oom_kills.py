"""OOM kills: find them by comparing two observations of a pod.

A kill is identified by the moment at which it ended a container. So it counts exactly once, however
often and in whatever states the container is seen afterwards (terminated, waiting, running again).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from msgspec import structs

from trimtab.core.model import limits, pods
from trimtab.core.model.pods import Allocation, Container, Pod
from trimtab.core.model.resources import Resource


@dataclass(frozen=True, slots=True)
class OomKill:
    """A container that was OOM-killed."""

    container_name: str
    memory_bytes: int
    """Its memory request, or usage, when that was not enough; 0 if it had no request."""
    time: datetime
    limit_bytes: int = 0
    """Its memory limit at that time; 0 if it had none, or if the node ran out of memory."""


def find_oom_kills(before: Pod, after: Pod) -> tuple[OomKill, ...]:
    """Return the kills that the later observation of a pod shows and the earlier one did not."""
    # A container that the earlier observation lacks has no state to compare with.
    known = {container.name: container for container in before.containers}
    return tuple(
        kill
        for container in after.containers
        if container.name in known
        for kill in _new_kills(known[container.name], container)
    )


def list_oom_kills(pod: Pod) -> tuple[OomKill, ...]:
    """Return all kills of a pod without an earlier observation, if its requests can judge them.

    Once a pod was resized in place, a container that runs again may have more because of that very
    kill. Judged by its present request, the kill would ask for more at each first observation.
    """
    # As if an earlier observation had shown the same pod without any kill.
    unharmed = [
        structs.replace(container, termination=None, last_termination=None)
        for container in pod.containers
    ]
    kills = find_oom_kills(structs.replace(pod, containers=tuple(unharmed)), pod)
    if not pods.was_resized(pod):
        return kills
    # One that lies there for another reason may have been restarted by the resize.
    down = {
        (each.name, each.termination.finished_at)
        for each in pod.containers
        if each.termination is not None
    }
    return tuple(kill for kill in kills if (kill.container_name, kill.time) in down)


def _new_kills(before: Container, after: Container) -> Iterator[OomKill]:
    for moment in sorted(_kill_times(after) - _kill_times(before)):
        # While it lies terminated it still has what it was killed with. Once it runs again, it may
        # have more because of the kill, or the kill may have followed from less.
        is_down = after.termination is not None and after.termination.finished_at == moment
        had = after.current if is_down else min(before.current, after.current, key=_memory_request)
        limit = limits.amount_of(had.limits, Resource.MEMORY)
        yield OomKill(after.name, _memory_request(had), moment, limit)


def _memory_request(allocation: Allocation) -> int:
    return limits.amount_of(allocation.requests, Resource.MEMORY)


def _kill_times(container: Container) -> set[datetime]:
    # The kubelet moves a termination from `state` to `lastState` when it restarts a container.
    ends = (container.termination, container.last_termination)
    return {
        end.finished_at
        for end in ends
        if end is not None and end.is_oom_kill and end.finished_at is not None
    }
