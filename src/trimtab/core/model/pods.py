"""Pods: the few fields that decisions need, decoded once at the edge."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec import structs

from trimtab.core.model.nodes import Placement
from trimtab.core.model.resources import Resource, Resources


class PodPhase(StrEnum):
    """The pod's phase as the kubelet reports it."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class ContainerKind(StrEnum):
    """The list of the pod spec that holds a container; the value is that list's name.

    Ordinary init containers are never decoded: they end before the pod starts to work.
    """

    REGULAR = "containers"
    SIDECAR = "initContainers"
    """A restartable init container: it runs as long as the pod does, so it counts as one."""


class ResizeState(StrEnum):
    """The kubelet's progress with an in-place resize, from the pod's conditions."""

    DEFERRED = "Deferred"
    INFEASIBLE = "Infeasible"
    PENDING_UNKNOWN = "PendingUnknown"
    """PodResizePending is True for a reason that we do not know."""
    IN_PROGRESS = "InProgress"
    ERROR = "Error"
    IN_PROGRESS_UNKNOWN = "InProgressUnknown"
    """PodResizeInProgress is True with a reason or message other than Error."""


PUT_OFF: Final = frozenset(
    {
        ResizeState.DEFERRED,
        ResizeState.INFEASIBLE,
        ResizeState.PENDING_UNKNOWN,
        ResizeState.ERROR,
    }
)
"""The states in which a kubelet does not work on a requested resize."""


class OwnerReference(msgspec.Struct, frozen=True, gc=False):
    """The owner that controls an object (`controller: true`)."""

    kind: str
    name: str
    api_version: str = ""
    uid: str = ""


class WorkloadName(NamedTuple):
    """Identity of a workload or of a pod's direct owner; the API version plays no part in it.

    Made and looked up several times for each pod of each plan, which a tuple does best.
    """

    namespace: str
    kind: str
    name: str


class Allocation(msgspec.Struct, frozen=True, gc=False):
    """The `resources` of one container, as far as CPU and memory are concerned.

    None means that the map is absent on the wire. An empty map is present but names neither CPU
    nor memory; it may hold extended resources, which Trimtab never changes.
    """

    requests: Resources | None = None
    limits: Resources | None = None


_NOTHING: Final = Allocation()


@dataclass(frozen=True, slots=True)
class Envelope:
    """The `resources` of the pod itself, which all of its containers share.

    The API server refuses pods whose containers do not fit in it.
    """

    requests: Resources
    """Upper bound of the requests of all containers together."""
    limits: Resources
    """Upper bound of the limit of each container."""
    init_requests: Resources = field(default_factory=dict)
    """The most that an ordinary init container asks for; sidecars run beside it."""


@dataclass(frozen=True, slots=True)
class Termination:
    """The end of one run of a container."""

    reason: str
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def is_oom_kill(self) -> bool:
        """True if the run ended because the container was OOM-killed."""
        return self.reason == "OOMKilled"


class Container(msgspec.Struct, frozen=True, gc=False):
    """One container of a pod: its spec, and its status."""

    name: str
    index: int = 0
    """Position in its own list of the pod spec, for JSON paths."""
    kind: ContainerKind = ContainerKind.REGULAR
    spec: Allocation = msgspec.field(default_factory=Allocation)
    status: Allocation | None = None
    """Resources that the kubelet reports, completed by the spec; None before it reports any."""
    has_claims: bool = False
    """True if its resources hold claims on devices, which Trimtab never changes."""
    restarts_on_resize: frozenset[Resource] = frozenset()
    """The resources whose change restarts it (resizePolicy RestartContainer)."""
    restart_count: int = 0
    is_running: bool = False
    termination: Termination | None = None
    """Set while the container is terminated."""
    last_termination: Termination | None = None
    base: Allocation | None = None
    """Size whose proportions its limits keep; None if that is what it has."""

    @property
    def proportions(self) -> Allocation:
        """Return the size whose proportions its limits keep."""
        return self.current if self.base is None else self.base

    @property
    def current(self) -> Allocation:
        """The resources it has now: the status if the kubelet filled it, else the spec."""
        return self.spec if self.status is None else self.status


class Pod(msgspec.Struct, frozen=True, gc=False):
    """A pod with the fields that decisions need."""

    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    """1 plus the number of changes of its spec; 0 if the API server does not count them."""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    has_empty_annotations: bool = False
    """The map of annotations is there, but empty: a patch need not make it."""
    owner: OwnerReference | None = None
    phase: PodPhase = PodPhase.UNKNOWN
    containers: tuple[Container, ...] = ()
    """Regular containers in their order, then restartable init containers in theirs."""
    created_at: datetime | None = None
    started_at: datetime | None = None
    ready_since: datetime | None = None
    """Time at which the Ready condition last became True; None while it is not True."""
    resize: ResizeState | None = None
    """None while no resize is under way."""
    resize_message: str = ""
    """The kubelet's message about a resize that is under way."""
    is_deleting: bool = False
    node_name: str = ""
    unschedulable_since: datetime | None = None
    """Time since which the scheduler reports no node for it; None without such a report."""
    envelope: Envelope | None = None
    """None for a pod without resources of its own, as most are."""
    placement: Placement | None = None
    """None for a pod that may go to any node without a taint, as most may."""
    priority_class: str = ""
    preemption_priority: int = 0
    """Priority below which other pods may be preempted for it; 0 for a pod that never preempts."""
    has_deadline: bool = False
    """True if it must end some time after its start (`activeDeadlineSeconds`)."""
    init_peak: Allocation = _NOTHING
    """The most that any ordinary init container asks for; sidecars run beside it."""
    init_steps: tuple[tuple[int, Allocation], ...] = ()
    """The same by the number of sidecars that start before; empty for a pod without sidecars."""
    init_stated: Allocation | None = None
    """The least of each amount that all ordinary init containers state; None without any."""
    init_requests: Resources | None = None
    """The most that the pod requests while an ordinary init container runs; None for most pods."""
    overhead: Resources | None = None
    """Amounts that its runtime class adds to its requests; None for most pods."""
    has_unseen_demands: bool = False
    """True if other pods, volumes, ports or devices decide which nodes take it, too.

    Another node than its own may then refuse it, however much room that has.
    """
    is_windows: bool = False
    """True for a pod of Windows, which Kubernetes does not resize."""


class PodHead(msgspec.Struct, frozen=True, gc=False):
    """The part of a pod that names its owner."""

    namespace: str
    owner: OwnerReference | None = None


def was_resized(pod: Pod) -> bool:
    """Return True if the pod may have been resized in place.

    The annotation is lost if the request after the resize fails, and others write none. The
    generation counts every change of the spec, and the deletion as one more.
    """
    return IN_PLACE_UPDATED in pod.annotations or pod.generation > 1 + pod.is_deleting


def asks_for_same(pod: Pod, other: Pod) -> bool:
    """Return True if the specs of both pods ask for the same CPU and memory."""
    return [each.spec for each in pod.containers] == [each.spec for each in other.containers]


def without_status(pod: Pod) -> Pod:
    """Return the pod with its metadata and spec only, as a new one without a status."""
    return structs.replace(
        pod,
        phase=PodPhase.UNKNOWN,
        containers=tuple(
            Container(
                name=each.name,
                index=each.index,
                kind=each.kind,
                spec=each.spec,
                has_claims=each.has_claims,
                restarts_on_resize=each.restarts_on_resize,
            )
            for each in pod.containers
        ),
        started_at=None,
        ready_since=None,
        resize=None,
        resize_message="",
        unschedulable_since=None,
    )


TargetResources: TypeAlias = Mapping[str, Allocation]
"""The requests and limits to set, by container; amounts that are not named stay."""


UPDATES: Final = "vpaUpdates"
"""The changes that admission made, as text for people."""

OBSERVED_CONTAINERS: Final = "vpaObservedContainers"
"""The containers that admission saw; later ones were injected by others."""

IN_PLACE_UPDATED: Final = "vpaInPlaceUpdated"
"""`true` once the pod was resized in place."""

BOOST_PREFIX: Final = "vpaCpuStartupBoost/"
"""Followed by the name of a container that is boosted."""

LIMITS_PREFIX: Final = "limits.trimtab.dev/"
"""Followed by the name of a container: the size whose proportions its limits keep in place."""

PAUSED: Final = "trimtab.dev/paused"
"""Annotation of an autoscaler or a namespace: `true` while Trimtab must change nothing for it."""
_YES: Final = frozenset({"true", "t", "yes", "y", "on", "1"})

ROLE_LEASE: Final = "trimtab.dev/role-lease"
"""Annotation of a workload: the name of the lease whose holder has the role among its pods."""

KEEPS_FROM_EVICTION: Final = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
"""Annotations by which a pod's owner asks node autoscalers not to move the pod."""

NAME_SEPARATOR: Final = ", "


def says_paused(annotations: Mapping[str, str]) -> bool:
    """Return True if an annotation calls for a pause, in any spelling of yes."""
    return annotations.get(PAUSED, "").strip().lower() in _YES


def keeps_from_eviction(annotations: Mapping[str, str]) -> bool:
    """Return True if an annotation asks that the pod not be evicted."""
    return any(annotations.get(name) == value for name, value in KEEPS_FROM_EVICTION.items())


def format_observed_containers(containers: Iterable[Container]) -> str:
    """Return the value of `vpaObservedContainers`."""
    return NAME_SEPARATOR.join([container.name for container in containers])
