"""Facts about pods and their resizes that several checkers ask for."""

from trimtab.core.model.pods import Allocation, Container, Pod
from trimtab.core.model.resources import Resource


def restarts(before: Pod, after: Pod) -> bool:
    """Return True if a resize changes a resource whose change restarts a container."""
    return any(
        not is_same(old.spec, new.spec, kind)
        for old, new in zip(before.containers, after.containers, strict=True)
        for kind in old.restarts_on_resize
    )


def is_same(one: Allocation, other: Allocation, kind: Resource) -> bool:
    """Return True if two sizes ask for as much of a resource, and have equal limits for it."""
    return all(
        (old or {}).get(kind) == (new or {}).get(kind)
        for old, new in ((one.requests, other.requests), (one.limits, other.limits))
    )


def ran_out_of_memory(container: Container) -> bool:
    """Return True if the container was OOM-killed when it last ended."""
    ends = (container.termination, container.last_termination)
    return any(end is not None and end.is_oom_kill for end in ends)
