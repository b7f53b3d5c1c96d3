"""A small cluster in memory behind the ports: real stores, owners that bring pods back at once.

New pods pass the real admission function, unless a test says that the webhook is broken. What is
done shows at once, unless a test freezes the view.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from msgspec import structs
from support.fakes.clocks import LoopClock
from support.makers.records import MIB, NOW, a_container, amounts
from support.makers.usage import a_selector

from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.api.kinds.events import Event
from trimtab.api.kinds.evictions import MemoryEviction
from trimtab.api.kinds.leases import Lease
from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.lists import Unreadable
from trimtab.api.wire.status_errors import Status
from trimtab.api.wire.watch_events import ObjectName, StoredObject
from trimtab.cluster.errors import (
    BudgetError,
    ClusterError,
    ConflictError,
    NotFoundError,
    UnreachableError,
)
from trimtab.cluster.live.owners import WatchedOwners
from trimtab.cluster.live.scales import CachedScale, Missing, Unknown
from trimtab.cluster.ports import IndexedStore, Owners, Store, SummedStore
from trimtab.cluster.watch.store import Writer, open_store
from trimtab.core.model.autoscalers import (
    Autoscaler,
    AutoscalerName,
    Condition,
    ContainerRecommendation,
    TargetReference,
)
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.hpa import Horizontal
from trimtab.core.model.json_patch import Patch
from trimtab.core.model.limit_ranges import LimitRangeItem
from trimtab.core.model.nodes import Node
from trimtab.core.model.pods import (
    Container,
    OwnerReference,
    Pod,
    PodPhase,
    WorkloadName,
    asks_for_same,
)
from trimtab.core.model.resources import Resource
from trimtab.core.model.workloads import Namespace, Workload
from trimtab.core.sizing.admission_patch import admission_patch
from trimtab.core.sizing.quotas import Quota
from trimtab.simulation.api_server.json_patch import apply_patch

LEASE = ("kube-system", "vpa-admission-controller")


def a_lease() -> Lease:
    """The status lease of an admission controller that started with the world."""
    return Lease(*LEASE, renewed_at=NOW)


class _Workloads:
    """Workloads of one kind."""

    def __init__(self) -> None:
        self.by_name: dict[tuple[str, str], Workload] = {}

    def find(self, namespace: str, name: str) -> Workload | None:
        return self.by_name.get((namespace, name))


class _Scales:
    """Workloads of other kinds."""

    def __init__(self) -> None:
        self.by_name: dict[WorkloadName, Workload | Unknown] = {}
        self.lookup_seconds = 0
        self.known: set[WorkloadName] = set()
        """Workloads that were looked up, where a lookup takes time."""

    def peek(self, name: WorkloadName, api_version: str, uid: str = "") -> CachedScale | None:
        del api_version, uid
        if self.lookup_seconds and name not in self.known:
            return None
        return CachedScale(self.by_name.get(name) or Missing.OBJECT, is_fresh=True)

    async def workload(
        self, name: WorkloadName, api_version: str, uid: str = ""
    ) -> Workload | Unknown | None:
        # Asked for without its group, a kind is looked for among those of the core group.
        del uid
        if self.lookup_seconds and name not in self.known:
            await asyncio.sleep(self.lookup_seconds)
            self.known.add(name)
        return self.by_name.get(name) if api_version else None


class UpdaterCluster:
    """The cluster; tests change its attributes to let things go wrong."""

    pods: SummedStore[Pod]
    autoscalers: IndexedStore[Autoscaler]
    checkpoints: Store[Checkpoint]
    nodes: Store[Node]
    daemon_sets: Store[Workload]
    horizontals: IndexedStore[Horizontal]
    namespaces: Store[Namespace]
    owners: Owners
    live_autoscalers: dict[AutoscalerName, Autoscaler] | None = None
    """What the API server holds where the store lags behind it."""
    closed: frozenset[str] = frozenset()
    """Namespaces in which no pod can be created."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self._pod_writer: Writer[Pod]
        self._autoscaler_writer: Writer[Autoscaler]
        self._checkpoint_writer: Writer[Checkpoint]
        self._pod_writer, self.pods = open_store(self.clock)
        self._autoscaler_writer, self.autoscalers = open_store(self.clock)
        self._checkpoint_writer, self.checkpoints = open_store(self.clock)
        self.node_writer: Writer[Node]
        self.node_writer, self.nodes = open_store(self.clock)
        self.daemon_set_writer: Writer[Workload]
        self.daemon_set_writer, self.daemon_sets = open_store(self.clock)
        self.horizontal_writer: Writer[Horizontal]
        self.horizontal_writer, self.horizontals = open_store(self.clock)
        self._namespace_writer: Writer[Namespace]
        self._namespace_writer, self.namespaces = open_store(self.clock)
        self._pod_writer.replace(())
        self._autoscaler_writer.replace(())
        self._workloads = {"Deployment": _Workloads(), "ReplicaSet": _Workloads()}
        self._scales = _Scales()
        self.owners = WatchedOwners(self._workloads, self._scales)
        self._templates: dict[str, tuple[Container, ...]] = {}
        self._versions = 0
        self._frozen: list[Callable[[], None]] | None = None
        self.truth: dict[ObjectName, Pod] = {}
        """All pods, whatever the view shows."""
        self.leases = {LEASE: a_lease()}
        self.items: dict[str, list[LimitRangeItem]] = {}
        self.known_quotas: dict[str, list[Quota]] = {}
        self.resizes_in_place = True
        self.has_webhook = True
        self.undo: Callable[[Pod], Pod] = lambda pod: pod
        """Another webhook that comes after ours."""
        self.has_quota = True
        self.is_kubelet_quick = True
        self.starts_at_once = True
        """Whether new pods are ready from the beginning."""
        self.protected: set[str] = set()
        """Deployments whose PodDisruptionBudget allows nothing."""
        self.refusals: dict[str, list[ClusterError]] = {}
        """Errors of the next acts, by the name of the act."""
        self.mute: set[str] = set()
        """Acts that have their effect and get no answer."""
        self.latency = timedelta(milliseconds=20)
        self.view_age: timedelta | None = timedelta()
        self.events: list[Event] = []
        self.acts: list[tuple[str, str]] = []
        """What succeeded, in order: the act and the pod."""
        self.requests: Counter[str] = Counter()
        """What was asked for, whether it succeeded or not."""

    # What tests set up and look at.

    def scale_horizontally(self, *resources: Resource, name: str = "web") -> None:
        """A horizontal autoscaler of the Deployment of its name; without resources it is gone."""
        place = ObjectName("default", name)
        if not resources:
            self.horizontal_writer.drop(place)
            return
        found = Horizontal("default", name, "Deployment", name, frozenset(resources))
        self.horizontal_writer.put(StoredObject(place, found))

    def deploy(
        self,
        name: str = "web",
        *containers: Container,
        replicas: int = 2,
        labels: Mapping[str, str] | None = None,
        namespace: str = "default",
    ) -> None:
        deployment = WorkloadName(namespace, "Deployment", name)
        replica_set = WorkloadName(namespace, "ReplicaSet", f"{name}-1")
        selector = a_selector(app=name)
        self._workloads["Deployment"].by_name[namespace, name] = Workload(
            deployment, selector=selector, replicas=replicas, uid=f"d-{name}"
        )
        self._workloads["ReplicaSet"].by_name[namespace, replica_set.name] = Workload(
            replica_set,
            owner=OwnerReference("Deployment", name, "apps/v1", f"d-{name}"),
            selector=selector,
            replicas=replicas,
            uid=f"rs-{name}",
        )
        self._templates[name] = containers or (a_container(requests=amounts(100, 100 * MIB)),)
        for _ in range(replicas):
            self.put(self._new_pod(name, labels or {}))

    def bring_back(self, name: str, count: int = 1) -> None:
        """Let the Deployment create pods that it has missed."""
        for _ in range(count):
            self.put(self._new_pod(name, {}))

    def count_pods(
        self, existing: int, replicas: int, name: str = "web", first_ordinal: int | None = None
    ) -> None:
        """Let the ReplicaSet say how many pods it has and wants, and if it makes them in order."""
        place = self._workloads["ReplicaSet"].by_name
        found = place["default", f"{name}-1"]
        place["default", f"{name}-1"] = replace(
            found, existing=existing, replicas=replicas, first_ordinal=first_ordinal
        )

    def put_workload(self, workload: Workload) -> None:
        """Let a workload of a well-known kind be like this."""
        name = workload.name
        self._workloads[name.kind].by_name[name.namespace, name.name] = workload

    def roll_out(self, name: str = "web") -> Pod:
        """The first pod of another ReplicaSet of the Deployment."""
        place = self._workloads["ReplicaSet"].by_name
        older = place["default", f"{name}-1"]
        newer = replace(older, name=older.name._replace(name=f"{name}-2"), uid=f"rs2-{name}")
        place["default", f"{name}-2"] = newer
        owner = OwnerReference("ReplicaSet", f"{name}-2", "apps/v1", newer.uid)
        return self.put(structs.replace(self._new_pod(name, {}), owner=owner))

    def slow_lookups(self, seconds: int) -> None:
        """Let it take so long to look up a workload of a kind that is not well known."""
        self._scales.lookup_seconds = seconds

    def hide_scale(self, owner: WorkloadName) -> None:
        """Make reads of a workload's scale fail."""
        self._scales.by_name[owner] = Unknown(UnreachableError("GET scale", "no route"))

    def own(self, name: str, owner: WorkloadName) -> None:
        """Let something that can be scaled own the Deployment, and be its autoscaler's target."""
        place = self._workloads["Deployment"].by_name
        owned = place["default", name]
        reference = OwnerReference(owner.kind, owner.name, "example.com/v1", "u-owner")
        place["default", name] = replace(owned, owner=reference)
        self._scales.by_name[owner] = Workload(
            owner, selector=owned.selector, replicas=owned.replicas, uid="u-owner"
        )
        target = TargetReference(owner.kind, owner.name, "example.com/v1")
        self.autoscale(name=name, target=target)

    def show_autoscaler(self, autoscaler: Autoscaler) -> None:
        """Let the watch show an autoscaler as it is stored."""
        self._autoscaler_writer.put(
            StoredObject(ObjectName(autoscaler.namespace, autoscaler.name), autoscaler)
        )

    def autoscale(
        self, *recommendations: ContainerRecommendation, name: str = "web", **fields: object
    ) -> None:
        namespace = self._home_of(name)
        known = self.autoscalers.find(namespace, name) or Autoscaler(
            namespace,
            name,
            uid=f"uid-{name}",
            created_at=NOW,
            target=TargetReference("Deployment", name, "apps/v1"),
        )
        changed = replace(
            known,
            recommendation=recommendations or known.recommendation,
            generation=known.generation + bool(fields),
            **fields,  # type: ignore[arg-type]
        )
        self._put_autoscaler(changed)

    def put(self, pod: Pod) -> Pod:
        """Store the pod in a new version."""
        self._versions += 1
        stored = structs.replace(pod, resource_version=str(self._versions))
        name = ObjectName(pod.namespace, pod.name)
        self.truth[name] = stored
        self._show(lambda: self._pod_writer.put(StoredObject(name, stored)))
        return stored

    def drop(self, pod: Pod) -> None:
        name = ObjectName(pod.namespace, pod.name)
        del self.truth[name]
        self._show(lambda: self._pod_writer.drop(name))

    def scale(self, name: str, replicas: int) -> None:
        """Let a Deployment and its ReplicaSet want another number of pods; it makes none."""
        for kind, owner in (("Deployment", name), ("ReplicaSet", f"{name}-1")):
            by_name = self._workloads[kind].by_name
            by_name["default", owner] = replace(by_name["default", owner], replicas=replicas)

    def drop_autoscaler(self, name: str = "web") -> None:
        self._autoscaler_writer.drop(ObjectName("default", name))

    def spoil_autoscaler(self, name: str = "web") -> None:
        self._autoscaler_writer.spoil(Unreadable("default", name, DecodeError("spec", "odd")))

    def freeze(self) -> None:
        """Let the view show nothing new."""
        self._frozen = []

    def thaw(self) -> None:
        """Let the view show all that happened meanwhile."""
        waiting, self._frozen = self._frozen or [], None
        for show in waiting:
            show()

    def pods_of(self, name: str) -> list[Pod]:
        return [pod for pod in self.truth.values() if pod.labels["app"] == name]

    def condition(self, kind: str, name: str = "web") -> Condition | None:
        found = self.autoscalers.find("default", name)
        assert found is not None
        return next((each for each in found.conditions if each.type == kind), None)

    def renew(self) -> None:
        """The admission controller renews its lease."""
        self.leases[LEASE] = replace(self.leases[LEASE], renewed_at=self.clock.now())

    def annotate_namespace(self, name: str = "default", **annotations: str) -> None:
        """Give the namespace these annotations of ours, by the ends of their names."""
        ours = {f"trimtab.dev/{key}": value for key, value in annotations.items()}
        self._namespace_writer.put(StoredObject(ObjectName("", name), Namespace(name, ours)))

    # The ports.

    def quotas(self, namespace: str) -> Sequence[Quota]:
        return self.known_quotas.get(namespace, ())

    async def can_resize(self) -> bool:
        return self.resizes_in_place

    def limit_ranges(self, namespace: str) -> Sequence[LimitRangeItem]:
        return self.items.get(namespace, ())

    def memory_evictions(self) -> AsyncIterator[MemoryEviction]:
        raise NotImplementedError

    def age(self) -> timedelta | None:
        return self.view_age

    def problems(self) -> Mapping[str, Exception]:
        return {}

    async def publish_status(
        self,
        autoscaler: Autoscaler,
        recommendation: Sequence[ContainerRecommendation],
        conditions: Sequence[Condition],
    ) -> None:
        raise NotImplementedError

    async def publish_conditions(
        self, autoscaler: Autoscaler, conditions: Sequence[Condition]
    ) -> None:
        await self._arrive("publish_conditions")
        stored = self.autoscalers.find(autoscaler.namespace, autoscaler.name)
        if stored is None or stored.resource_version != autoscaler.resource_version:
            raise ConflictError("PATCH status", Status(code=409))
        self._put_autoscaler(replace(stored, conditions=tuple(conditions)))

    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        raise NotImplementedError

    async def has_autoscaler(self, name: AutoscalerName) -> bool:
        raise NotImplementedError

    async def fetch_autoscaler(self, name: AutoscalerName) -> Autoscaler | None:
        await self._arrive("fetch_autoscaler")
        found = self.autoscalers.find(name.namespace, name.name)
        return found if self.live_autoscalers is None else self.live_autoscalers.get(name)

    async def delete_checkpoint(
        self, namespace: str, name: str, resource_version: str = ""
    ) -> None:
        raise NotImplementedError

    async def evict(self, pod: Pod) -> None:
        await self._arrive("evict")
        stored = self._stored(pod)
        if stored.resource_version != pod.resource_version:
            raise ConflictError("POST eviction", Status(code=409))
        if pod.labels["app"] in self.protected:
            raise BudgetError("POST eviction", Status(code=429))
        self.drop(stored)
        self.acts.append(("evict", pod.name))
        if self.has_quota and pod.namespace not in self.closed:
            self.put(self._new_pod(pod.labels["app"], pod.labels))
        self._answer("evict")

    async def try_eviction(self, pod: Pod) -> None:
        await self._arrive("try_eviction")
        if self._stored(pod).resource_version != pod.resource_version:
            raise ConflictError("POST eviction", Status(code=409))
        if pod.labels["app"] in self.protected:
            raise BudgetError("POST eviction", Status(code=429))

    async def resize(self, pod: Pod, patch: Patch) -> None:
        await self._arrive("resize")
        stored = self._stored(pod)
        if not asks_for_same(stored, pod):
            raise ConflictError("PATCH resize", Status(code=409))
        changed = apply_patch(stored, patch)
        if self.is_kubelet_quick:
            containers = tuple(
                structs.replace(each, status=each.spec) for each in changed.containers
            )
            changed = structs.replace(changed, containers=containers)
        self.put(changed)
        self.acts.append(("resize", pod.name))
        self._answer("resize")

    async def patch_pod(self, pod: Pod, patch: Patch) -> None:
        await self._arrive("patch_pod")
        self.put(apply_patch(self._stored(pod), patch))
        self._answer("patch_pod")

    async def fetch_lease(self, namespace: str, name: str) -> Lease | None:
        await self._arrive("fetch_lease")
        return self.leases.get((namespace, name))

    async def write_lease(self, lease: Lease) -> Lease:
        await self._arrive("write_lease")
        self.leases[lease.namespace, lease.name] = lease
        return lease

    async def emit(self, event: Event) -> None:
        self.events.append(event)

    async def _arrive(self, act: str) -> None:
        self.requests[act] += 1
        await self.clock.sleep(self.latency)
        if self.refusals.get(act):
            raise self.refusals[act].pop(0)

    def _answer(self, act: str) -> None:
        if act in self.mute:
            raise UnreachableError(act, "no answer in time")

    def _stored(self, pod: Pod) -> Pod:
        stored = self.truth.get(ObjectName(pod.namespace, pod.name))
        if stored is None:
            raise NotFoundError("pod", Status(code=404))
        if stored.uid != pod.uid:
            raise ConflictError("pod", Status(code=409))
        return stored

    def _new_pod(self, name: str, labels: Mapping[str, str]) -> Pod:
        namespace = self._home_of(name)
        number = next(
            number
            for number in range(1000)
            if ObjectName(namespace, f"{name}-{number}") not in self.truth
        )
        self._versions += 1
        now = self.clock.now()
        pod = Pod(
            namespace,
            f"{name}-{number}",
            uid=f"uid-{self._versions}",
            labels={"app": name, **labels},
            owner=OwnerReference("ReplicaSet", f"{name}-1", "apps/v1", f"rs-{name}"),
            phase=PodPhase.RUNNING,
            containers=self._templates[name],
            created_at=now,
            started_at=now,
            ready_since=now if self.starts_at_once else None,
        )
        return self.undo(self._admit(pod)) if self.has_webhook else pod

    def _home_of(self, name: str) -> str:
        """The namespace of a Deployment; no two have the same name."""
        places = self._workloads["Deployment"].by_name
        return next((namespace for namespace, each in places if each == name), "default")

    def _admit(self, pod: Pod) -> Pod:
        autoscaler = self.autoscalers.find(pod.namespace, pod.labels["app"])
        patch = admission_patch(
            pod,
            autoscaler,
            gates=FeatureGates(),
            limit_ranges=self.limit_ranges(pod.namespace),
        )
        return apply_patch(pod, patch)

    def _put_autoscaler(self, autoscaler: Autoscaler) -> None:
        self._versions += 1
        stored = replace(autoscaler, resource_version=str(self._versions))
        self._autoscaler_writer.put(StoredObject(ObjectName(stored.namespace, stored.name), stored))

    def _show(self, show: Callable[[], None]) -> None:
        if self._frozen is None:
            show()
        else:
            self._frozen.append(show)
