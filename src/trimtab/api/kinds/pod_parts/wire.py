"""Wire records of pods: the fields that Trimtab reads."""

import msgspec

from trimtab.api.kinds.pod_placement import WireAffinity, WireSpread, WireToleration
from trimtab.api.wire.codec import Int32, Int64, Wire
from trimtab.api.wire.metadata import Metadata
from trimtab.api.wire.quantities import AmountMap, WireAmounts


class ResourcesWire(Wire, frozen=True, kw_only=True):
    """Resources of a container, or of the pod itself."""

    requests: AmountMap | None = None
    limits: AmountMap | None = None
    claims: tuple[msgspec.Raw, ...] | None = None


class StatusResourcesWire(Wire, frozen=True, kw_only=True):
    """Resources that the kubelet reports for a container."""

    requests: WireAmounts | None = None
    limits: WireAmounts | None = None


class ResizePolicyWire(Wire, frozen=True, kw_only=True):
    """The rule that says if a change of one resource restarts the container."""

    resource_name: str | None = None
    restart_policy: str | None = None


class PortWire(Wire, frozen=True, kw_only=True):
    """A port of a container."""

    host_port: Int32 | None = None


class ContainerWire(Wire, frozen=True, kw_only=True):
    """A container of a spec."""

    name: str | None = None
    resources: ResourcesWire | None = None
    ports: tuple[PortWire, ...] | None = None
    resize_policy: tuple[ResizePolicyWire, ...] | None = None
    restart_policy: str | None = None


class OsWire(Wire, frozen=True, kw_only=True):
    """The operating system that a pod asks for."""

    name: str | None = None


class NewPodSpec(Wire, frozen=True, kw_only=True):
    """The part of a spec that affects the size of a new pod."""

    containers: tuple[ContainerWire, ...] | None = None
    init_containers: tuple[ContainerWire, ...] | None = None
    resources: ResourcesWire | None = None
    os: OsWire | None = None
    node_selector: dict[str, str | None] | None = None
    affinity: WireAffinity | None = None
    tolerations: tuple[WireToleration, ...] | None = None
    priority_class_name: str | None = None
    priority: Int32 | None = None
    preemption_policy: str | None = None
    active_deadline_seconds: Int64 | None = None
    overhead: WireAmounts | None = None


class PodSpecWire(NewPodSpec, frozen=True, kw_only=True):
    """A spec, with the fields that matter once the pod runs."""

    node_name: str | None = None
    topology_spread_constraints: tuple[WireSpread, ...] | None = None
    volumes: tuple[dict[str, msgspec.Raw], ...] | None = None


class RunningWire(Wire, frozen=True, kw_only=True):
    """The state of a container that runs."""


class TerminatedWire(Wire, frozen=True, kw_only=True):
    """The state of a container that has ended."""

    reason: str | None = None
    started_at: str | None = None
    finished_at: str | None = None


class StateWire(Wire, frozen=True, kw_only=True):
    """The state of a container."""

    running: RunningWire | None = None
    terminated: TerminatedWire | None = None


class ContainerStatusWire(Wire, frozen=True, kw_only=True):
    """The status of a container."""

    name: str | None = None
    resources: StatusResourcesWire | None = None
    restart_count: Int32 | None = None
    state: StateWire | None = None
    last_state: StateWire | None = None


class ConditionWire(Wire, frozen=True, kw_only=True):
    """A condition of a pod."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class PodStatusWire(Wire, frozen=True, kw_only=True):
    """The status of a pod."""

    phase: str | None = None
    start_time: str | None = None
    conditions: tuple[ConditionWire, ...] | None = None
    container_statuses: tuple[ContainerStatusWire, ...] | None = None
    init_container_statuses: tuple[ContainerStatusWire, ...] | None = None


class PodWire(Wire, frozen=True, kw_only=True):
    """A pod."""

    metadata: Metadata | None = None
    spec: PodSpecWire | None = None
    status: PodStatusWire | None = None


class PodTemplateWire(Wire, frozen=True, kw_only=True):
    """The template of a workload: a pod without its status."""

    metadata: Metadata | None = None
    spec: PodSpecWire | None = None
