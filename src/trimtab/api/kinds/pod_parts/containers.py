"""Containers of pods: their specs and statuses."""

from collections.abc import Mapping
from functools import lru_cache
from sys import intern
from typing import Final

from trimtab.api.kinds.pod_parts.wire import (
    ContainerStatusWire,
    ContainerWire,
    NewPodSpec,
    PodStatusWire,
    ResourcesWire,
    StateWire,
    StatusResourcesWire,
)
from trimtab.api.wire import quantities, times
from trimtab.core.model.pods import Allocation, Container, ContainerKind, Termination
from trimtab.core.model.resources import BOTH, Resource, Resources

SIDECAR: Final = "Always"
"""Restart policy of an init container that is a sidecar."""
_STATUS_LISTS: Final = {
    ContainerKind.REGULAR: "containerStatuses",
    ContainerKind.SIDECAR: "initContainerStatuses",
}
_RESOURCES: Final = {kind.value: kind for kind in BOTH}
_NO_RESOURCES: Final[frozenset[Resource]] = frozenset()
_NO_STATE: Final = StateWire()
_NO_STATUSES: Final[Mapping[str, tuple[int, ContainerStatusWire]]] = {}
_NOTHING: Final = Allocation()


def list_containers(spec: NewPodSpec, status: PodStatusWire) -> tuple[Container, ...]:
    """Return the regular containers in order, then the sidecars in order."""
    statuses = _by_name(status.container_statuses)
    found = [
        _convert_container(container, index, ContainerKind.REGULAR, statuses)
        for index, container in enumerate(spec.containers or ())
    ]
    if spec.init_containers:
        statuses = _by_name(status.init_container_statuses)
        found += [
            _convert_container(container, index, ContainerKind.SIDECAR, statuses)
            for index, container in enumerate(spec.init_containers)
            if container.restart_policy == SIDECAR
        ]
    return tuple(found)


def _by_name(
    statuses: tuple[ContainerStatusWire, ...] | None,
) -> Mapping[str, tuple[int, ContainerStatusWire]]:
    if not statuses:
        return _NO_STATUSES
    # Of two statuses with the same name, the first one counts, as in the original.
    numbered = list(enumerate(statuses))
    return {status.name or "": (index, status) for index, status in reversed(numbered)}


def _convert_container(
    source: ContainerWire,
    index: int,
    kind: ContainerKind,
    statuses: Mapping[str, tuple[int, ContainerStatusWire]],
) -> Container:
    name = intern(source.name or "")
    spec = convert_allocation(source.resources, _resources_path(kind, index)) or _NOTHING
    has_claims = source.resources is not None and bool(source.resources.claims)
    restarts = _restarts_on_resize(source) if source.resize_policy else _NO_RESOURCES
    if name not in statuses:
        return Container(name, index, kind, spec, None, has_claims, restarts)
    place, status = statuses[name]
    path = f"status.{_STATUS_LISTS[kind]}[{place}]"
    state = status.state or _NO_STATE
    last_state = status.last_state or _NO_STATE
    return Container(
        name=name,
        index=index,
        kind=kind,
        spec=spec,
        status=_completed(convert_allocation(status.resources, f"{path}.resources"), spec),
        has_claims=has_claims,
        restarts_on_resize=restarts,
        restart_count=status.restart_count or 0,
        is_running=state.running is not None,
        termination=_convert_termination(state, f"{path}.state"),
        last_termination=_convert_termination(last_state, f"{path}.lastState"),
    )


# Cached: only errors need the path, and all pods share the same few.
@lru_cache(maxsize=1024)
def _resources_path(kind: ContainerKind, index: int) -> str:
    return f"spec.{kind}[{index}].resources"


def convert_allocation(
    source: ResourcesWire | StatusResourcesWire | None, path: str
) -> Allocation | None:
    """Return the CPU and memory of a map of resources; None without one."""
    if source is None:
        return None
    return quantities.decode_allocation(source.requests, source.limits, path)


def _completed(status: Allocation | None, spec: Allocation) -> Allocation | None:
    """Return the status with the amounts of the spec that it does not name.

    Some runtimes and virtual kubelets report none or only some of the resources. A container
    has the amounts of its spec, unless its status reports others.
    """
    if status is None:
        return None
    requests = _filled(status.requests, spec.requests)
    limits = _filled(status.limits, spec.limits)
    # Most statuses name all amounts, and share their record with others.
    if requests is status.requests and limits is status.limits:
        return status
    return _shared_allocation(_items(requests), _items(limits))


@lru_cache(maxsize=4096)
def _shared_allocation(
    requests: tuple[tuple[Resource, int], ...] | None,
    limits: tuple[tuple[Resource, int], ...] | None,
) -> Allocation:
    # Pods of one workload share their record.
    return Allocation(
        None if requests is None else dict(requests), None if limits is None else dict(limits)
    )


def _items(amounts: Resources | None) -> tuple[tuple[Resource, int], ...] | None:
    return None if amounts is None else tuple(amounts.items())


def _filled(named: Resources | None, spec: Resources | None) -> Resources | None:
    if not spec or (named and named.keys() >= spec.keys()):
        return named
    return {**spec, **named} if named else spec


def _restarts_on_resize(source: ContainerWire) -> frozenset[Resource]:
    restarting = [
        policy.resource_name or ""
        for policy in source.resize_policy or ()
        if policy.restart_policy == "RestartContainer"
    ]
    if not restarting:
        return _NO_RESOURCES
    # An unknown resource name may stand for any resource.
    named = [(_RESOURCES[name],) if name in _RESOURCES else BOTH for name in restarting]
    return frozenset(kind for kinds in named for kind in kinds)


def _convert_termination(state: StateWire, path: str) -> Termination | None:
    if state.terminated is None:
        return None
    return Termination(
        reason=intern(state.terminated.reason or ""),
        started_at=times.decode_time(state.terminated.started_at, f"{path}.terminated.startedAt"),
        finished_at=times.decode_time(
            state.terminated.finished_at, f"{path}.terminated.finishedAt"
        ),
    )
