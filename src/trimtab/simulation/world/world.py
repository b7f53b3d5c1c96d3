"""The world: every object of a simulated cluster, and the facts about them.

It holds the true state and makes no decisions. Components change it through `api_server`. The
cluster's own machinery (controllers, scheduler, kubelet) listens to the tables and changes it too.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from random import Random
from typing import Final

from msgspec import structs

from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.api.kinds.leases import Lease
from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.pods import OwnerReference, Pod, WorkloadName
from trimtab.simulation.world.eviction_events import EvictionLog
from trimtab.simulation.world.facts import Fact
from trimtab.simulation.world.limit_ranges import completed
from trimtab.simulation.world.objects import (
    ENDED,
    DisruptionBudget,
    HorizontalScaler,
    LimitRange,
    NamespaceObject,
    NodeObject,
    PodTemplate,
    QuotaObject,
    WorkloadObject,
    with_own_selector,
)
from trimtab.simulation.world.tables import Listener, Table, TableIndex, Versions
from trimtab.simulation.world.virtual_time import VirtualClock

WELL_KNOWN: Final = (
    "CronJob",
    "DaemonSet",
    "Deployment",
    "Job",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
)
"""The kinds of workloads that components watch; they fetch the scale of any other kind."""


class World:
    """A simulated cluster."""

    def __init__(self, *, clock: VirtualClock, random: Random) -> None:
        self.clock = clock
        self.random = random
        self.versions = Versions()
        self.namespaces: Table[NamespaceObject] = Table(self.versions, _stamp_namespace)
        self.nodes: Table[NodeObject] = Table(self.versions, _stamp_node)
        self.pods: Table[Pod] = Table(self.versions, _stamp_pod)
        self.pods_by_owner: TableIndex[Pod] = TableIndex(self.pods, _owner_uid)
        self.pods_by_node: TableIndex[Pod] = TableIndex(self.pods, _node_name)
        self.pods_by_namespace: TableIndex[Pod] = TableIndex(self.pods, _namespace)
        self.workloads: dict[str, Table[WorkloadObject]] = {}
        self._workloads_by_owner: dict[str, TableIndex[WorkloadObject]] = {}
        self._workload_listeners: list[Listener[WorkloadObject]] = []
        for kind in WELL_KNOWN:
            self._open_kind(kind)
        self.autoscalers: Table[Autoscaler] = Table(self.versions, _stamp_autoscaler)
        self.checkpoints: Table[Checkpoint] = Table(self.versions, _stamp_checkpoint)
        self.leases: Table[Lease] = Table(self.versions, _stamp_lease)
        self.limit_ranges: Table[LimitRange] = Table(self.versions, _stamp_limit_range)
        self.quotas: Table[QuotaObject] = Table(self.versions)
        self.budgets: Table[DisruptionBudget] = Table(self.versions)
        self.scalers: Table[HorizontalScaler] = Table(self.versions)
        self.templates: dict[str, PodTemplate] = {}
        """The template of each pod, by uid: only the simulation knows how a pod behaves."""
        self.evictions = EvictionLog(self.versions)
        """Events about pods that kubelets evicted because of memory pressure."""
        self._listeners: list[Callable[[Fact], None]] = []

    def now(self) -> datetime:
        """Return the true time."""
        return self.clock.now()

    def subscribe(self, listener: Callable[[Fact], None]) -> None:
        """Call a listener at once with every fact from now on."""
        self._listeners.append(listener)

    def record(self, fact: Fact) -> None:
        """Report a fact to all listeners."""
        for listener in self._listeners:
            listener(fact)

    def new_uid(self) -> str:
        """Return a uid that no other object has or had."""
        return f"{self.random.getrandbits(64):016x}"

    def workloads_of(self, kind: str) -> Table[WorkloadObject]:
        """Return all workloads of one kind, well known or not."""
        if kind not in self.workloads:
            self._open_kind(kind)
        return self.workloads[kind]

    def workloads_owned_by(self, uid: str) -> list[WorkloadObject]:
        """Return the workloads of any kind whose owner has this uid."""
        indexes = self._workloads_by_owner.values()
        return [workload for index in indexes for workload in index.under(uid)]

    def subscribe_to_workloads(self, listener: Listener[WorkloadObject]) -> None:
        """Call a listener for every change of a workload, also of kinds that are added later."""
        self._workload_listeners.append(listener)
        for table in self.workloads.values():
            table.subscribe(listener)

    def neighbours_of(self, pod: Pod) -> list[Pod]:
        """List the other pods of the pod's node that have not ended."""
        others = self.pods_by_node.under(pod.node_name)
        return [each for each in others if each.uid != pod.uid and each.phase not in ENDED]

    def limit_ranges_in(self, namespace: str) -> list[LimitRange]:
        """Return the limit ranges of a namespace."""
        return [each for each in self.limit_ranges if each.namespace == namespace]

    def find_workload(self, name: WorkloadName) -> WorkloadObject | None:
        """Return the workload of that name; None if there is none."""
        return self.workloads_of(name.kind).find(name.namespace, name.name)

    def find_owner(self, namespace: str, owner: OwnerReference | None) -> WorkloadObject | None:
        """Return the owner that a reference names; None if it is gone or was recreated."""
        if owner is None:
            return None
        found = self.find_workload(WorkloadName(namespace, owner.kind, owner.name))
        return found if found is not None and found.uid == owner.uid else None

    def add_workload(self, workload: WorkloadObject) -> WorkloadObject:
        """Create a workload with a new uid."""
        made = replace(workload, uid=self.new_uid(), created_at=self.now())
        if made.kind == "Job":
            made = with_own_selector(made)
        return self.workloads_of(workload.kind).put(made)

    def add_autoscaler(self, autoscaler: Autoscaler) -> Autoscaler:
        """Create an autoscaler."""
        made = replace(
            autoscaler,
            uid=self.new_uid(),
            generation=1,
            created_at=autoscaler.created_at or self.now(),
        )
        return self.autoscalers.put(made)

    def change_autoscaler(self, autoscaler: Autoscaler) -> Autoscaler:
        """Store a user's edit of the autoscaler's spec."""
        return self.autoscalers.put(replace(autoscaler, generation=autoscaler.generation + 1))

    def _open_kind(self, kind: str) -> None:
        table: Table[WorkloadObject] = Table(self.versions, _stamp_workload)
        self.workloads[kind] = table
        self._workloads_by_owner[kind] = TableIndex(table, _owner_uid)
        for listener in self._workload_listeners:
            table.subscribe(listener)


def _stamp_namespace(record: NamespaceObject, version: str) -> NamespaceObject:
    return replace(record, resource_version=version)


def _stamp_node(record: NodeObject, version: str) -> NodeObject:
    return replace(record, resource_version=version)


def _stamp_pod(record: Pod, version: str) -> Pod:
    return structs.replace(record, resource_version=version)


def _stamp_workload(record: WorkloadObject, version: str) -> WorkloadObject:
    return replace(record, resource_version=version)


def _stamp_autoscaler(record: Autoscaler, version: str) -> Autoscaler:
    return replace(record, resource_version=version)


def _stamp_checkpoint(record: Checkpoint, version: str) -> Checkpoint:
    return replace(record, resource_version=version)


def _stamp_lease(record: Lease, version: str) -> Lease:
    return replace(record, resource_version=version)


def _stamp_limit_range(record: LimitRange, version: str) -> LimitRange:
    return replace(completed(record), resource_version=version)


def _owner_uid(record: Pod | WorkloadObject) -> str:
    return "" if record.owner is None else record.owner.uid


def _node_name(pod: Pod) -> str:
    return pod.node_name


def _namespace(pod: Pod) -> str:
    return pod.namespace
