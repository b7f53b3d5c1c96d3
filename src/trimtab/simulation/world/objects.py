"""Objects of a simulated cluster that components never see whole.

Pods, autoscalers, checkpoints and leases are the records that components use. The objects here make
pods, give them room, or restrict them.
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
"""The phases of pods that have ended for good."""
_KEEPING_AWAY: Final = ("NoSchedule", "NoExecute")
_NOT_READY: Final = nodes.Taint("node.kubernetes.io/not-ready", effect="NoSchedule")
"""The taint that the node controller sets on a lost node."""
_STATEFUL_SET: Final = "StatefulSet"
_CREATING_KINDS: Final = frozenset(
    {DAEMON_SET, "ReplicaSet", "ReplicationController", _STATEFUL_SET}
)
_UNCOUNTED_KINDS: Final = frozenset({"CronJob", "Job"})
"""Kinds that have no `spec.replicas`; a Job's parallelism is no number of replicas."""


class RestartPolicy(StrEnum):
    """The restart policy of a pod, as the kubelet applies it."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


@dataclass(frozen=True, slots=True)
class Startup:
    """Work and delay of a container before it is ready."""

    delay: timedelta = timedelta(seconds=2)
    """Fixed delay, with any amount of CPU."""
    work_cpu_seconds: float = 0.0
    """CPU time that it needs before it is ready; more CPU makes it ready sooner."""
    max_millicores: int = 4000
    """More CPU than this does not make it faster."""


@dataclass(frozen=True, slots=True)
class ContainerTemplate:
    """A container as its workload describes it, with its simulated behaviour."""

    name: str
    allocation: Allocation = field(default_factory=Allocation)
    kind: ContainerKind = ContainerKind.REGULAR
    restarts_on_resize: bool = False
    load: Load = field(default_factory=Load)
    role_loads: Mapping[str, Load] = field(default_factory=dict)
    """Loads that replace `load` while its pod's role label has the given value."""
    startup: Startup = field(default_factory=Startup)
    needs: Resources = field(default_factory=dict)
    """A container that starts with smaller requests than these never gets ready."""


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """The template for the pods of a workload."""

    labels: Mapping[str, str]
    containers: tuple[ContainerTemplate, ...]
    annotations: Mapping[str, str] = field(default_factory=dict)
    restart_policy: RestartPolicy = RestartPolicy.ALWAYS
    runs_for: timedelta | None = None
    """Run time of a pod of a Job; None for a pod that never ends by itself."""
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
    """Number of pods it should have; None if it has no such number (a CronJob)."""
    max_unavailable: int = 1
    """Number of pods that may be missing during a rollout."""
    revision: int = 1
    """Counts the changes of its template; pods of an older one are replaced."""
    every: timedelta | None = None
    """Interval at which a CronJob creates a Job."""
    created_at: datetime | None = None
    last_run_at: datetime | None = None
    """Scheduled time of the last Job that a CronJob created."""
    succeeded: tuple[str, ...] = ()
    """The uids of a Job's pods that have succeeded."""
    failed: tuple[str, ...] = ()
    """The uids of a Job's pods that have failed, or were deleted before their end."""
    retry_at: datetime | None = None
    """Time from which a Job may replace a failed pod."""
    role_lease: str = ""
    """The lease by which its pods elect a leader; empty if they do not."""
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
        """The owner reference in the objects that it creates."""
        api_version = _API_VERSIONS.get(self.kind, self.api_version)
        return OwnerReference(self.kind, self.name, api_version, self.uid)

    @property
    def known(self) -> Workload:
        """The record of this object that components see."""
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
        """Return the template's requests and limits, if pods are created from it."""
        if self.kind not in _CREATING_KINDS or not self.replicas:
            return None
        return {each.name: each.allocation for each in self.template.containers}


def _known_template(daemon_set: WorkloadObject) -> Pod:
    """Return the DaemonSet's template as components see it; its pods go to all nodes."""
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
    """Return the Job with the labels and selector that the API server derives from its uid."""
    labels = {
        "batch.kubernetes.io/controller-uid": job.uid,
        "batch.kubernetes.io/job-name": job.name,
    }
    template = replace(job.template, labels={**job.template.labels, **labels})
    selector = Selector((selectors.equality("batch.kubernetes.io/controller-uid", job.uid),))
    return replace(job, template=template, selector=selector)


@dataclass(frozen=True, slots=True)
class NodeObject:
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
        """True if pods without tolerations may be scheduled here."""
        keeps_away = any(taint.effect in _KEEPING_AWAY for taint in self.taints)
        return not self.is_unschedulable and not keeps_away

    @property
    def known(self) -> nodes.Node:
        """The record of this object that components see."""
        taints = self.taints if self.is_ready else (*self.taints, _NOT_READY)
        return nodes.Node(self.name, self.capacity, self.labels, taints, self.is_unschedulable)


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget: the number of pods that must stay."""

    namespace: str
    name: str
    selector: Selector
    min_available: int | None = None
    max_unavailable: int | None = None
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class QuotaObject:
    """A ResourceQuota: total requests and limits of all pods of a namespace."""

    namespace: str
    name: str
    requests: Resources
    resource_version: str = ""
    limits: Resources = field(default_factory=dict)
    """Maximum sum of all limits."""


@dataclass(frozen=True, slots=True)
class LimitRange:
    """A LimitRange object."""

    namespace: str
    name: str
    items: tuple[LimitRangeItem, ...]
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class HorizontalScaler:
    """A HorizontalPodAutoscaler: the workload that it scales, and the resources it scales on."""

    namespace: str
    name: str
    target: WorkloadName
    resources: tuple[str, ...] = ("cpu",)
    containers: tuple[str, ...] = ()
    """Containers whose resources count; empty for whole pods."""
    resource_version: str = ""

    @property
    def known(self) -> hpa.Horizontal:
        """The record of this object that components see."""
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
class NamespaceObject:
    """A namespace; its own namespace is empty, as that of every cluster-wide object."""

    name: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    resource_version: str = ""

    @property
    def known(self) -> workloads.Namespace:
        """The record of this object that components see."""
        return workloads.Namespace(self.name, self.annotations)


def resource_total(pod: Pod, resource: Resource) -> int:
    """Return the total request of all containers of a pod."""
    return sum((container.spec.requests or {}).get(resource, 0) for container in pod.containers)


def total_requests(allocations: Iterable[Allocation]) -> Resources:
    """Return the sum of all requests."""
    requests = [allocation.requests or {} for allocation in allocations]
    return {kind: sum(each.get(kind, 0) for each in requests) for kind in BOTH}


def reserved_total(pod: Pod, resource: Resource) -> int:
    """Return the amount that the scheduler and quotas reserve for a pod.

    During a resize this is the larger of the requested and the actual amount. For an infeasible
    resize it is the actual amount.
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
