"""Operations of a JSON patch that set the resources of one container."""

from functools import lru_cache

from trimtab.core.model import json_patch, quantities
from trimtab.core.model.json_patch import Add, Operation
from trimtab.core.model.pods import Container, ContainerKind
from trimtab.core.model.resources import BOTH, Resource, Resources


def resource_operations(
    container: Container, *, requests: Resources, limits: Resources
) -> list[Operation]:
    """The operations that set amounts in the container's spec, and make the maps they need."""
    own = container.spec
    found: list[Operation] = []
    if (requests or limits) and is_bare(container):
        found.append(Add(resource_path(container.kind, container.index), {}))
    if requests:
        found += _map_operations(container, "requests", own.requests, requests)
    if limits:
        found += _map_operations(container, "limits", own.limits, limits)
    return found


def zero_limits(container: Container, requests: Resources, limits: Resources) -> set[Resource]:
    """Return the resources whose request would exceed a limit of zero that `limits` leaves."""
    own = container.spec.limits
    if not own:
        return set()
    return {kind for kind in requests if own.get(kind, 1) <= 0 < requests[kind]} - limits.keys()


def _map_operations(
    container: Container, key: str, present: Resources | None, wanted: Resources
) -> list[Operation]:
    kind, index = container.kind, container.index
    found: list[Operation] = [
        Add(resource_path(kind, index, key, each), quantities.format_amount(each, wanted[each]))
        for each in BOTH
        if each in wanted
    ]
    return found if present is not None else [Add(resource_path(kind, index, key), {}), *found]


# The same few paths are in every patch.
@lru_cache(maxsize=4096)
def resource_path(kind: ContainerKind, index: int, *keys: str) -> str:
    """Return the path of a container's resources, or of a part of them."""
    return json_patch.pointer("spec", kind, index, "resources", *keys)


def is_bare(container: Container) -> bool:
    """Return True if the container has no map of resources at all."""
    own = container.spec
    return own.requests is None and own.limits is None and not container.has_claims
