"""The objects of a simulated cluster that deciders never see whole: what workloads are made of.

Pods, autoscalers, checkpoints and leases are the very records that components know. These are the
rest: whatever makes pods, gives them room, or restricts them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from trimtab.core.model import hpa, nodes, selectors, workloads
from trimtab.core.model.autoscalers import Held
from trimtab.core.model.limit_ranges import LimitRangeItem
from trimtab.core.model.nodes import NodeExpression, NodeTerm, Placement, Toleration
from trimtab.core.model.pods import (
    Allocation,
    Container,
    ContainerKind,
    OwnerReference,
    Pod,
    PodPhase,
    ResizeState,
    WorkloadName,
)
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.model.selectors import Selector
from trimtab.core.model.workloads import Workload
from trimtab.core.sizing.node_capacity import DAEMON_SET
from trimtab.simulation.world.loads import Load

_API_VERSIONS: Final = {"CronJob": "batch/v1", "Job": "batch/v1", "ReplicationController": "v1"}
ENDED: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED)
"""The phases from which no pod comes back."""
_KEEPING_AWAY: Final = ("NoSchedule", "NoExecute")
_NOT_READY: Final = nodes.Taint("node.kubernetes.io/not-ready", effect="NoSchedule")
"""What the node controller puts on a node of which nothing is heard."""
_STATEFUL_SET: Final = "StatefulSet"
_CREATING_KINDS: Final = frozenset(
    {DAEMON_SET, "ReplicaSet", "ReplicationController", _STATEFUL_SET}
)
_UNCOUNTED_KINDS: Final = frozenset({"CronJob", "Job"})
"""Kinds that have no `spec.replicas`; how many pods a Job may have at once is not that."""


class RestartPolicy(StrEnum):
    """What the kubelet does when a container ends."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


@dataclass(frozen=True, slots=True)
class Startup:
    """What a container does before it is ready."""

    delay: timedelta = timedelta(seconds=2)
    """Time that passes whatever it may use."""
    work_cpu_seconds: float = 0.0
    """CPU time that it needs before it is ready; the more CPU it may use, the sooner."""
    max_millicores: int = 4000
    """More CPU than this does not make it faster."""


@dataclass(frozen=True, slots=True)
class ContainerTemplate:
    """A container as its workload describes it, and how it will behave."""

    name: str
    allocation: Allocation = field(default_factory=Allocation)
    kind: ContainerKind = ContainerKind.REGULAR
    restarts_on_resize: bool = False
    load: Load = field(default_factory=Load)
    role_loads: Mapping[str, Load] = field(default_factory=dict)
    """What it does instead while its pod's role label has one of these values."""
    startup: Startup = field(default_factory=Startup)
    needs: Resources = field(default_factory=dict)
    """A container that starts with smaller requests than these never gets ready."""


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """What the pods of a workload are made from."""

    labels: Mapping[str, str]
    containers: tuple[ContainerTemplate, ...]
    annotations: Mapping[str, str] = field(default_factory=dict)
    restart_policy: RestartPolicy = RestartPolicy.ALWAYS
    runs_for: timedelta | None = None
    """When a pod of a job is done; None for one that never ends by itself."""
    node_name: str = ""
    """The only node that may run it; any may if there is no name."""

    @property
    def placement(self) -> Placement | None:
        """Node constraints of the pod spec, as the DaemonSet controller writes them."""
        if not self.node_name:
            return None
        only = NodeExpression("metadata.name", "In", (self.node_name,))
        tolerations = (Toleration(operator="Exists"),)
        return Placement(terms=(NodeTerm(fields=(only,)),), tolerations=tolerations)


@dataclass(frozen=True, slots=True)
class WorkloadObject:
    """A workload of any kind."""

    namespace: str
    kind: str
    name: str
    template: PodTemplate
    selector: Selector
    uid: str = ""
    resource_version: str = ""
    owner: OwnerReference | None = None
    api_version: str = "apps/v1"
    replicas: int | None = 1
    """How many pods it should have; None where it does not say (a CronJob)."""
    max_unavailable: int = 1
    """How many pods may be missing during a rollout."""
    revision: int = 1
    """Counts the changes of its template; pods of an older one are replaced."""
    every: timedelta | None = None
    """How often a CronJob makes a Job."""
    created_at: datetime | None = None
    last_run_at: datetime | None = None
    """When a CronJob last should have made a Job, and did."""
    succeeded: tuple[str, ...] = ()
    """The uids of a Job's pods that have succeeded."""
    failed: tuple[str, ...] = ()
    """The uids of a Job's pods that have failed, or did not live to the end."""
    retry_at: datetime | None = None
    """When a Job may next replace a pod that failed."""
    role_lease: str = ""
    """The lease by which its pods elect one of them, if they do."""
    ready: int | None = None
    """Number of ready pods in the status of a DaemonSet."""
    updated: int | None = None
    """Number of pods of the present template in the status of a DaemonSet."""
    has_scale: bool = True
    """False for a custom resource without a scale subresource."""

    @property
    def identity(self) -> WorkloadName:
        """Its namespace, kind and name."""
        return WorkloadName(self.namespace, self.kind, self.name)

    @property
    def reference(self) -> OwnerReference:
        """How what it makes names it as its owner."""
        api_version = _API_VERSIONS.get(self.kind, self.api_version)
        return OwnerReference(self.kind, self.name, api_version, self.uid)

    @property
    def known(self) -> Workload:
        """What deciders know of it."""
        replicas = None if self.kind in _UNCOUNTED_KINDS else self.replicas
        return Workload(
            self.identity,
            self.owner,
            self.selector,
            replicas,
            self.uid,
            self.role_lease,
            _known_template(self) if self.kind == DAEMON_SET else None,
            sizes=self._sizes(),
            ready=self.ready,
            updated=self.updated,
            first_ordinal=0 if self.kind == _STATEFUL_SET else None,
        )

    def _sizes(self) -> dict[str, Allocation] | None:
        """Return what its template asks for, if pods are created from that."""
        if self.kind not in _CREATING_KINDS or not self.replicas:
            return None
        return {each.name: each.allocation for each in self.template.containers}


def _known_template(daemon_set: WorkloadObject) -> Pod:
    """Return the DaemonSet's template as deciders see it; its pods go to all nodes."""
    template = daemon_set.template
    return Pod(
        daemon_set.namespace,
        name="",
        labels=template.labels,
        containers=tuple(
            Container(each.name, kind=each.kind, spec=each.allocation)
            for each in template.containers
        ),
        placement=Placement(tolerations=(Toleration(operator="Exists"),)),
    )


def with_own_selector(job: WorkloadObject) -> WorkloadObject:
    """The Job with the labels and the selector that the API server gives it, by its uid."""
    labels = {
        "batch.kubernetes.io/controller-uid": job.uid,
        "batch.kubernetes.io/job-name": job.name,
    }
    template = replace(job.template, labels={**job.template.labels, **labels})
    selector = Selector((selectors.equality("batch.kubernetes.io/controller-uid", job.uid),))
    return replace(job, template=template, selector=selector)


@dataclass(frozen=True, slots=True)
class Node:
    """A machine that runs pods."""

    name: str
    capacity: Resources
    namespace: str = ""
    resource_version: str = ""
    is_ready: bool = True
    max_pods: int = 110
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[nodes.Taint, ...] = ()
    is_unschedulable: bool = False

    @property
    def is_open(self) -> bool:
        """Whether nothing keeps pods away that tolerate nothing."""
        keeps_away = any(taint.effect in _KEEPING_AWAY for taint in self.taints)
        return not self.is_unschedulable and not keeps_away

    @property
    def known(self) -> nodes.Node:
        """What deciders know of it."""
        taints = self.taints if self.is_ready else (*self.taints, _NOT_READY)
        return nodes.Node(self.name, self.capacity, self.labels, taints, self.is_unschedulable)


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget: how many of some pods must stay."""

    namespace: str
    name: str
    selector: Selector
    min_available: int | None = None
    max_unavailable: int | None = None
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class Quota:
    """A ResourceQuota: how much all pods of a namespace may request together."""

    namespace: str
    name: str
    requests: Resources
    resource_version: str = ""
    limits: Resources = field(default_factory=dict)
    """The most that all limits together may come to."""


@dataclass(frozen=True, slots=True)
class LimitRange:
    """A LimitRange object."""

    namespace: str
    name: str
    items: tuple[LimitRangeItem, ...]
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class HorizontalScaler:
    """A HorizontalPodAutoscaler: which workload it scales, and by which resources."""

    namespace: str
    name: str
    target: WorkloadName
    resources: tuple[str, ...] = ("cpu",)
    containers: tuple[str, ...] = ()
    """Only of these containers; of whole pods if there are none."""
    resource_version: str = ""

    @property
    def known(self) -> hpa.Horizontal:
        """What deciders know of it."""
        resources = frozenset(map(Resource, self.resources))
        claims = {Held(each, name) for each in resources for name in self.containers}
        return hpa.Horizontal(
            self.namespace,
            self.name,
            self.target.kind,
            self.target.name,
            frozenset() if claims else resources,
            frozenset(claims),
        )


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace; its own namespace is empty, as that of every cluster-wide object."""

    name: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    resource_version: str = ""

    @property
    def known(self) -> workloads.Namespace:
        """What deciders know of it."""
        return workloads.Namespace(self.name, self.annotations)


def resource_total(pod: Pod, resource: Resource) -> int:
    """What all containers of a pod request together."""
    return sum((container.spec.requests or {}).get(resource, 0) for container in pod.containers)


def total_requests(allocations: Iterable[Allocation]) -> Resources:
    """What all of these request together."""
    requests = [allocation.requests or {} for allocation in allocations]
    return {kind: sum(each.get(kind, 0) for each in requests) for kind in BOTH}


def reserved_total(pod: Pod, resource: Resource) -> int:
    """What the scheduler and quotas set aside for a pod.

    While a resize is under way this is the larger of what is wanted and what is there; of one that
    can never be, only what is there.
    """
    is_refused = pod.resize is ResizeState.INFEASIBLE
    return sum(
        _reserved(container, resource, is_refused=is_refused) for container in pod.containers
    )


def _reserved(container: Container, resource: Resource, *, is_refused: bool) -> int:
    wanted = (container.spec.requests or {}).get(resource, 0)
    if container.status is None:
        return wanted
    there = (container.status.requests or {}).get(resource, 0)
    return there if is_refused else max(wanted, there)
