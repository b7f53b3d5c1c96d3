"""Facts about pods and their resizes that several checkers ask for."""

from trimtab.core.model import limits
from trimtab.core.model.pods import Allocation, Container, Pod
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.sizing import startup_boost


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


def gives_memory_beside_boost(before: Pod, after: Pod) -> bool:
    """Return True if OOM-killed containers get memory, none loses anything, and boosts stay."""
    boosted = startup_boost.boosted_containers(before)
    pairs = list(zip(before.containers, after.containers, strict=True))
    return (
        any(ran_out_of_memory(old) and _grows(old, new, Resource.MEMORY) for old, new in pairs)
        and not any(_grows(new, old, kind) for old, new in pairs for kind in BOTH)
        and all(
            is_same(old.spec, new.spec, Resource.CPU) for old, new in pairs if old.name in boosted
        )
    )


def _grows(old: Container, new: Container, kind: Resource) -> bool:
    """Return True if the second container asks for more of a resource than the first one."""
    return limits.amount_of(new.spec.requests, kind) > limits.amount_of(old.spec.requests, kind)
