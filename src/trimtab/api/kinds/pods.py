"""Pods: the few fields that decisions read, decoded directly from the API server's bytes."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from sys import intern
from typing import Final

import msgspec

from trimtab.api.kinds.pod_placement import (
    WireAffinity,
    WireSpread,
    WireToleration,
    convert_placement,
    depends_on_pods,
)
from trimtab.api.wire import codec, quantities, times
from trimtab.api.wire.codec import Int32, Int64, Wire
from trimtab.api.wire.metadata import NO_METADATA, Metadata, controlling_owner, text_map
from trimtab.api.wire.quantities import AmountMap, WireAmounts
from trimtab.api.wire.times import ZERO_TIME
from trimtab.core.model.pods import (
    LIMITS_PREFIX,
    Allocation,
    Container,
    ContainerKind,
    Envelope,
    Pod,
    PodHead,
    PodPhase,
    ResizeState,
    Termination,
)
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.sizing import limit_ratios


class _Resources(Wire, frozen=True, kw_only=True):
    requests: AmountMap | None = None
    limits: AmountMap | None = None
    claims: tuple[msgspec.Raw, ...] | None = None


class _StatusResources(Wire, frozen=True, kw_only=True):
    requests: WireAmounts | None = None
    limits: WireAmounts | None = None


class _ResizePolicy(Wire, frozen=True, kw_only=True):
    resource_name: str | None = None
    restart_policy: str | None = None


class _Port(Wire, frozen=True, kw_only=True):
    host_port: Int32 | None = None


class _Container(Wire, frozen=True, kw_only=True):
    name: str | None = None
    resources: _Resources | None = None
    ports: tuple[_Port, ...] | None = None
    resize_policy: tuple[_ResizePolicy, ...] | None = None
    restart_policy: str | None = None


class _Os(Wire, frozen=True, kw_only=True):
    name: str | None = None


class NewPodSpec(Wire, frozen=True, kw_only=True):
    """The part of a spec that affects the size of a new pod."""

    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None
    resources: _Resources | None = None
    os: _Os | None = None
    node_selector: dict[str, str | None] | None = None
    affinity: WireAffinity | None = None
    tolerations: tuple[WireToleration, ...] | None = None
    priority_class_name: str | None = None
    priority: Int32 | None = None
    preemption_policy: str | None = None
    active_deadline_seconds: Int64 | None = None
    overhead: WireAmounts | None = None


class _Spec(NewPodSpec, frozen=True, kw_only=True):
    node_name: str | None = None
    topology_spread_constraints: tuple[WireSpread, ...] | None = None
    volumes: tuple[dict[str, msgspec.Raw], ...] | None = None


class _Running(Wire, frozen=True, kw_only=True):
    pass


class _Terminated(Wire, frozen=True, kw_only=True):
    reason: str | None = None
    started_at: str | None = None
    finished_at: str | None = None


class _State(Wire, frozen=True, kw_only=True):
    running: _Running | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(Wire, frozen=True, kw_only=True):
    name: str | None = None
    resources: _StatusResources | None = None
    restart_count: Int32 | None = None
    state: _State | None = None
    last_state: _State | None = None


class _Condition(Wire, frozen=True, kw_only=True):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class _Status(Wire, frozen=True, kw_only=True):
    phase: str | None = None
    start_time: str | None = None
    conditions: tuple[_Condition, ...] | None = None
    container_statuses: tuple[_ContainerStatus, ...] | None = None
    init_container_statuses: tuple[_ContainerStatus, ...] | None = None


class _Pod(Wire, frozen=True, kw_only=True):
    metadata: Metadata | None = None
    spec: _Spec | None = None
    status: _Status | None = None


class PodTemplateWire(Wire, frozen=True, kw_only=True):
    """The template of a workload: a pod without its status."""

    metadata: Metadata | None = None
    spec: _Spec | None = None


_DECODER: Final = msgspec.json.Decoder(_Pod)
_PHASES: Final = {phase.value: phase for phase in PodPhase}
_STATUS_LISTS: Final = {
    ContainerKind.REGULAR: "containerStatuses",
    ContainerKind.SIDECAR: "initContainerStatuses",
}
_SIDECAR: Final = "Always"
"""Restart policy of an init container that is a sidecar."""
_NEVER: Final = "Never"
"""Preemption policy of a pod that preempts no other pod."""
_WINDOWS: Final = "windows"
_OS_LABEL: Final = "kubernetes.io/os"
_PENDING: Final = "PodResizePending"
_IN_PROGRESS: Final = "PodResizeInProgress"
_PENDING_STATES: Final = {
    "Deferred": ResizeState.DEFERRED,
    "Infeasible": ResizeState.INFEASIBLE,
}
_FREE_VOLUMES: Final = frozenset(
    {"name", "configMap", "downwardAPI", "emptyDir", "image", "nfs", "projected", "secret"}
)
"""Keys of volumes that any node can mount; other kinds may be bound to some nodes."""
_KNOWN_RESOURCES: Final = frozenset({"cpu", "memory"})
_ZEROS: Final = (b'"0"', b"0", b"null")
_MOST_WORDS: Final = 512
"""Maximum number of characters kept of a message."""
_RESOURCES: Final = {kind.value: kind for kind in BOTH}
_NO_RESOURCES: Final[frozenset[Resource]] = frozenset()
_NO_SPEC: Final = _Spec()
_NO_STATUS: Final = _Status()
_NO_STATE: Final = _State()
_NO_STATUSES: Final[Mapping[str, tuple[int, _ContainerStatus]]] = {}
_NOTHING: Final = Allocation()


def decode_pod(data: bytes) -> Pod:
    """Return the pod in the JSON of one Pod; without a name yet, it is named `<generateName>%`."""
    source = codec.decode(_DECODER, data)
    metadata = source.metadata or NO_METADATA
    return _convert_pod(metadata, source.spec or _NO_SPEC, source.status or _NO_STATUS)


def convert_new_pod(
    head: PodHead,
    labels: Mapping[str, str],
    annotations: Mapping[str, str | None] | None,
    spec: NewPodSpec,
) -> Pod:
    """Return a pod that is being created, with the fields that affect its size.

    It has neither a node nor a status. A copy of a running pod (`kubectl get -o yaml | kubectl
    create -f -`) comes with the status of its original. The API server drops that status, but
    only after calling the webhooks.
    """
    init = spec.init_containers
    init_peak = _init_peak(spec) if init else _NOTHING
    return Pod(
        namespace=head.namespace,
        name="",
        labels=labels,
        annotations={key: value or "" for key, value in (annotations or {}).items()},
        has_empty_annotations=annotations == {},
        owner=head.owner,
        containers=_list_containers(spec, _NO_STATUS),
        envelope=None if spec.resources is None else _convert_envelope(spec.resources, init_peak),
        placement=convert_placement(spec.node_selector, spec.affinity, spec.tolerations),
        priority_class=spec.priority_class_name or "",
        preemption_priority=_preemption_priority(spec),
        has_deadline=spec.active_deadline_seconds is not None,
        init_peak=init_peak,
        init_steps=_init_steps(init) if init else (),
        init_stated=_init_stated(spec) if init else None,
        init_requests=_init_requests(init) if init else None,
        overhead=quantities.decode_amounts(spec.overhead, "spec.overhead")
        if spec.overhead
        else None,
        is_windows=_is_windows(spec),
    )


def _convert_pod(metadata: Metadata, spec: _Spec, status: _Status) -> Pod:
    conditions = status.conditions or ()
    init_peak = _init_peak(spec) if spec.init_containers else _NOTHING
    return Pod(
        namespace=intern(metadata.namespace or ""),
        name=metadata.name or f"{metadata.generate_name or ''}%",
        uid=metadata.uid or "",
        resource_version=metadata.resource_version or "",
        labels=text_map(metadata.labels),
        annotations=text_map(metadata.annotations),
        has_empty_annotations=metadata.annotations == {},
        owner=controlling_owner(metadata),
        phase=_PHASES.get(status.phase or "", PodPhase.UNKNOWN),
        containers=_with_proportions(_list_containers(spec, status), metadata.annotations),
        created_at=times.decode_time(metadata.creation_timestamp, "metadata.creationTimestamp"),
        started_at=times.decode_time(status.start_time, "status.startTime"),
        ready_since=_ready_since(conditions),
        resize=_resize_state(conditions),
        resize_message=_resize_message(conditions),
        is_deleting=metadata.deletion_timestamp is not None,
        node_name=intern(spec.node_name or ""),
        unschedulable_since=(
            _unschedulable_since(conditions) if conditions and not spec.node_name else None
        ),
        envelope=None if spec.resources is None else _convert_envelope(spec.resources, init_peak),
        placement=convert_placement(spec.node_selector, spec.affinity, spec.tolerations),
        priority_class=intern(spec.priority_class_name or ""),
        preemption_priority=_preemption_priority(spec),
        has_deadline=spec.active_deadline_seconds is not None,
        init_peak=init_peak,
        init_steps=_init_steps(spec.init_containers) if spec.init_containers else (),
        init_stated=_init_stated(spec) if spec.init_containers else None,
        init_requests=_init_requests(spec.init_containers) if spec.init_containers else None,
        overhead=quantities.decode_amounts(spec.overhead, "spec.overhead")
        if spec.overhead
        else None,
        # Matters only for pods with a node: only those can move to another.
        has_unseen_demands=bool(spec.node_name) and _has_unseen_demands(spec),
        is_windows=_is_windows(spec),
    )


def _preemption_priority(spec: NewPodSpec) -> int:
    # The API server has resolved both from the priority class before calling webhooks.
    return 0 if spec.preemption_policy == _NEVER else spec.priority or 0


def _has_unseen_demands(spec: _Spec) -> bool:
    """Return True if the pod needs more of a node than room and matching labels."""
    return (
        depends_on_pods(spec.affinity, spec.topology_spread_constraints)
        or any(not _FREE_VOLUMES.issuperset(each) for each in spec.volumes or ())
        or any(map(_needs_more, spec.containers or ()))
        or any(map(_needs_more, spec.init_containers or ()))
    )


def _needs_more(container: _Container) -> bool:
    """Return True if a container needs a host port, a device, or another resource."""
    if container.ports and any(each.host_port for each in container.ports):
        return True
    resources = container.resources
    if resources is None:
        return False
    return bool(resources.claims) or any(
        bytes(amount) not in _ZEROS
        for given in (resources.requests, resources.limits)
        if given and not _KNOWN_RESOURCES.issuperset(given)
        for name, amount in given.items()
        if name not in _KNOWN_RESOURCES
    )


def _is_windows(spec: NewPodSpec) -> bool:
    """Return True if the pod runs on Windows, by its `os` or by its node selector alone."""
    if spec.os is not None and spec.os.name:
        return spec.os.name == _WINDOWS
    return spec.node_selector is not None and spec.node_selector.get(_OS_LABEL) == _WINDOWS


def convert_template(source: PodTemplateWire, namespace: str) -> Pod:
    """Return the pod that a template describes, without a name; paths begin at the template."""
    spec, metadata = source.spec or _NO_SPEC, source.metadata or NO_METADATA
    init_peak = _init_peak(spec)
    return Pod(
        namespace=intern(namespace),
        name="",
        labels=text_map(metadata.labels),
        containers=_list_containers(spec, _NO_STATUS),
        envelope=None if spec.resources is None else _convert_envelope(spec.resources, init_peak),
        placement=convert_placement(spec.node_selector, spec.affinity, spec.tolerations),
        init_peak=init_peak,
        init_requests=_init_requests(spec.init_containers) if spec.init_containers else None,
        overhead=quantities.decode_amounts(spec.overhead, "spec.overhead")
        if spec.overhead
        else None,
    )


def _with_proportions(
    containers: tuple[Container, ...], annotations: Mapping[str, str | None] | None
) -> tuple[Container, ...]:
    if not annotations or not any(name.startswith(LIMITS_PREFIX) for name in annotations):
        return containers
    texts = text_map(annotations)
    return tuple(limit_ratios.with_proportions(each, texts) for each in containers)


def _convert_envelope(source: _Resources, init_peak: Allocation) -> Envelope:
    own = _convert_allocation(source, "spec.resources") or Allocation()
    return Envelope(own.requests or {}, own.limits or {}, init_peak.requests or {})


def _init_peak(spec: NewPodSpec) -> Allocation:
    """Return the maximum of each resource over the ordinary init containers."""
    if not spec.init_containers:
        return _NOTHING
    asked = [
        _convert_allocation(each.resources, f"spec.initContainers[{index}].resources")
        for index, each in enumerate(spec.init_containers)
        if each.restart_policy != _SIDECAR
    ]
    given = [each for each in asked if each is not None]
    requests = [each.requests for each in given if each.requests]
    limits = [each.limits for each in given if each.limits]
    return Allocation(_peak(requests), _peak(limits)) if requests or limits else _NOTHING


def _init_steps(containers: tuple[_Container, ...]) -> tuple[tuple[int, Allocation], ...]:
    """Return the maxima of ordinary init containers by the number of sidecars before them."""
    if all(each.restart_policy != _SIDECAR for each in containers):
        return ()
    steps: dict[int, list[Allocation]] = {}
    sidecars = 0
    for index, each in enumerate(containers):
        if each.restart_policy == _SIDECAR:
            sidecars += 1
            continue
        path = f"spec.initContainers[{index}].resources"
        steps.setdefault(sidecars, []).append(_convert_allocation(each.resources, path) or _NOTHING)
    return tuple(
        (
            count,
            Allocation(
                _peak([each.requests or {} for each in found]),
                _peak([each.limits or {} for each in found]),
            ),
        )
        for count, found in steps.items()
    )


def _peak(amounts: Sequence[Resources]) -> Resources:
    given = {kind: [one[kind] for one in amounts if kind in one] for kind in BOTH}
    return {kind: max(found) for kind, found in given.items() if found}


def _init_stated(spec: NewPodSpec) -> Allocation | None:
    """Return the minimum of each amount that all ordinary init containers state."""
    asked = [
        _convert_allocation(each.resources, f"spec.initContainers[{index}].resources") or _NOTHING
        for index, each in enumerate(spec.init_containers or ())
        if each.restart_policy != _SIDECAR
    ]
    if not asked:
        return None
    requests = [each.requests or {} for each in asked]
    limits = [each.limits or {} for each in asked]
    return Allocation(_least(requests), _least(limits))


def _least(amounts: Sequence[Resources]) -> Resources:
    given = {kind: [one[kind] for one in amounts if kind in one] for kind in BOTH}
    return {kind: min(found) for kind, found in given.items() if len(found) == len(amounts)}


def _init_requests(containers: tuple[_Container, ...]) -> Resources | None:
    """Return the maximum total requests while one of the ordinary init containers runs.

    The sidecars before it in the list run beside it.
    """
    most = dict.fromkeys(BOTH, 0)
    beside = dict.fromkeys(BOTH, 0)
    for index, container in enumerate(containers):
        path = f"spec.initContainers[{index}].resources"
        own = _convert_allocation(container.resources, path) or Allocation()
        for kind, amount in (own.requests or {}).items():
            if container.restart_policy == _SIDECAR:
                beside[kind] += amount
            else:
                most[kind] = max(most[kind], beside[kind] + amount)
    return most if any(most.values()) else None


def _list_containers(spec: NewPodSpec, status: _Status) -> tuple[Container, ...]:
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
            if container.restart_policy == _SIDECAR
        ]
    return tuple(found)


def _by_name(
    statuses: tuple[_ContainerStatus, ...] | None,
) -> Mapping[str, tuple[int, _ContainerStatus]]:
    if not statuses:
        return _NO_STATUSES
    # Of two statuses with the same name, the first one counts, as in the original.
    numbered = list(enumerate(statuses))
    return {status.name or "": (index, status) for index, status in reversed(numbered)}


def _convert_container(
    source: _Container,
    index: int,
    kind: ContainerKind,
    statuses: Mapping[str, tuple[int, _ContainerStatus]],
) -> Container:
    name = intern(source.name or "")
    spec = _convert_allocation(source.resources, _resources_path(kind, index)) or _NOTHING
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
        status=_completed(_convert_allocation(status.resources, f"{path}.resources"), spec),
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


def _convert_allocation(
    source: _Resources | _StatusResources | None, path: str
) -> Allocation | None:
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


def _restarts_on_resize(source: _Container) -> frozenset[Resource]:
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


def _convert_termination(state: _State, path: str) -> Termination | None:
    if state.terminated is None:
        return None
    return Termination(
        reason=intern(state.terminated.reason or ""),
        started_at=times.decode_time(state.terminated.started_at, f"{path}.terminated.startedAt"),
        finished_at=times.decode_time(
            state.terminated.finished_at, f"{path}.terminated.finishedAt"
        ),
    )


def _ready_since(conditions: tuple[_Condition, ...]) -> datetime | None:
    for index, condition in enumerate(conditions):
        if condition.type == "Ready" and condition.status == "True":
            path = f"status.conditions[{index}].lastTransitionTime"
            return times.decode_time(condition.last_transition_time, path) or ZERO_TIME
    return None


def _unschedulable_since(conditions: tuple[_Condition, ...]) -> datetime | None:
    for index, condition in enumerate(conditions):
        if condition.type == "PodScheduled" and condition.reason == "Unschedulable":
            path = f"status.conditions[{index}].lastTransitionTime"
            return times.decode_time(condition.last_transition_time, path) or ZERO_TIME
    return None


def _resize_state(conditions: Iterable[_Condition]) -> ResizeState | None:
    resizes = [condition for condition in conditions if condition.type in (_PENDING, _IN_PROGRESS)]
    if not resizes or resizes[0].status != "True":
        return None
    for condition in resizes:
        if condition.type == _PENDING:
            return _PENDING_STATES.get(condition.reason or "", ResizeState.PENDING_UNKNOWN)
    return _progress_state(resizes[0])


def _resize_message(conditions: Iterable[_Condition]) -> str:
    """Return the kubelet's message about a resize, cut to a length that fits an event."""
    for kind in (_PENDING, _IN_PROGRESS):
        for condition in conditions:
            if condition.type == kind and condition.status == "True" and condition.message:
                return condition.message[:_MOST_WORDS]
    return ""


def _progress_state(condition: _Condition) -> ResizeState:
    if condition.reason == "Error":
        return ResizeState.ERROR
    if condition.reason or condition.message:
        return ResizeState.IN_PROGRESS_UNKNOWN
    return ResizeState.IN_PROGRESS
