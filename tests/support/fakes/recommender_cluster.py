"""A small cluster in memory behind the ports: real stores, a clock that goes when it is told to.

It shows at once what is written to it, unless a test holds that back, and fails where a test says
so. Objects take the way over the wire where they are kept: what does not survive that is lost.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from support.fakes.clocks import StillClock
from support.makers.records import MIB, NOW, a_container, amounts
from support.makers.usage import a_selector

from trimtab.api.kinds.checkpoints import Checkpoint, decode_checkpoint, encode_checkpoint
from trimtab.api.kinds.events import Event
from trimtab.api.kinds.evictions import MemoryEviction
from trimtab.api.kinds.leases import Lease
from trimtab.api.kinds.workloads import WELL_KNOWN_KINDS
from trimtab.api.usage.pod_metrics import UsageColumns
from trimtab.api.wire.watch_events import ObjectName, StoredObject
from trimtab.cluster.errors import ClusterError
from trimtab.cluster.ports import IndexedStore, Owners, Store, SummedStore
from trimtab.cluster.watch.store import Writer, open_store
from trimtab.core.model.autoscalers import (
    Autoscaler,
    AutoscalerName,
    Condition,
    ContainerRecommendation,
    TargetReference,
)
from trimtab.core.model.hpa import Horizontal
from trimtab.core.model.json_patch import Patch
from trimtab.core.model.limit_ranges import LimitRangeItem
from trimtab.core.model.nodes import Node
from trimtab.core.model.pods import (
    Container,
    OwnerReference,
    Pod,
    PodHead,
    PodPhase,
    Termination,
    WorkloadName,
)
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.model.workloads import Lookup, Namespace, PeekedOwner, PeekedWorkload, Workload
from trimtab.core.sizing.quotas import Quota
from trimtab.recommender.controller import NOT_LISTED_YET, Recommender
from trimtab.recommender.settings import RecommenderSettings


class RefusedError(ClusterError):
    """What a test lets go wrong."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a container uses."""

    cpu: float = 100
    memory: float = 300 * MIB


class TellingClock(StillClock):
    """A clock that tells when somebody went to sleep for a minute: a tick is over.

    A nap of somebody who sees nothing yet lasts until a test ends it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tick_done = asyncio.Event()
        self.nap_begun = asyncio.Event()
        self.nap_over = asyncio.Event()

    async def sleep(self, span: timedelta) -> None:
        if span == timedelta(minutes=1):
            self.tick_done.set()
            await super().sleep(span)
        elif span == NOT_LISTED_YET:
            self.nap_begun.set()
            await self.nap_over.wait()
        else:
            # Listeners that wait to listen again do not move the time.
            await asyncio.Event().wait()


class SmallWorld:
    """The cluster, its owners, and the source of its usage, in one."""

    pods: SummedStore[Pod]
    autoscalers: IndexedStore[Autoscaler]
    checkpoints: Store[Checkpoint]
    nodes: Store[Node]
    daemon_sets: Store[Workload]
    horizontals: IndexedStore[Horizontal]
    namespaces: Store[Namespace]
    owners: Owners

    def __init__(self) -> None:
        self.clock = TellingClock()
        self.owners = self
        self.pod_writer: Writer[Pod]
        self.autoscaler_writer: Writer[Autoscaler]
        self.checkpoint_writer: Writer[Checkpoint]
        self.pod_writer, self.pods = open_store(self.clock)
        self.autoscaler_writer, self.autoscalers = open_store(self.clock)
        self.checkpoint_writer, self.checkpoints = open_store(self.clock)
        self.node_writer: Writer[Node]
        self.node_writer, self.nodes = open_store(self.clock)
        self.daemon_set_writer: Writer[Workload]
        self.daemon_set_writer, self.daemon_sets = open_store(self.clock)
        self.horizontal_writer: Writer[Horizontal]
        self.horizontal_writer, self.horizontals = open_store(self.clock)
        self._namespace_writer: Writer[Namespace]
        self._namespace_writer, self.namespaces = open_store(self.clock)
        for writer in (self.pod_writer, self.autoscaler_writer, self.checkpoint_writer):
            writer.replace([])
        self.workloads: dict[WorkloadName, Workload] = {}
        self.loads: dict[str, Load] = {}
        """By the name of a pod, or of a container, or empty for all others."""
        self.silent: set[str] = set()
        """Pods whose usage nobody reads."""
        self.read_at: datetime | None = None
        """When usage was read, if not just now."""
        self.failing: set[str] = set()
        """Acts that fail now: a method's name, or a method's name, a space and an object's."""
        self.acts: Counter[str] = Counter()
        self.readings: set[datetime] = set()
        """When usage was read."""
        self.evictions: list[MemoryEviction] = []
        self.is_listed = True
        self.view_age = timedelta()
        self.shows_statuses = True
        """Whether the store of autoscalers shows what is written."""
        self.unseen: set[str] = set()
        """Autoscalers that the server has, and the store does not show."""
        self._versions = 0

    # What a test does

    def deploy(
        self,
        name: str = "web",
        *containers: Container,
        replicas: int = 1,
        namespace: str = "default",
    ) -> None:
        """A Deployment whose pods run."""
        workload = WorkloadName(namespace, "Deployment", name)
        self.workloads[workload] = Workload(workload, selector=a_selector(app=name), uid=name)
        for number in range(replicas):
            self.start(f"{name}-{number}", *containers, app=name, namespace=namespace)

    def start(
        self,
        name: str,
        *containers: Container,
        app: str = "web",
        namespace: str = "default",
        labels: Mapping[str, str] | None = None,
        **fields: object,
    ) -> None:
        """A pod of a Deployment, or another one in its place."""
        self._versions += 1
        usual: dict[str, object] = {
            "uid": f"uid-{self._versions}",
            "labels": {"app": app, **(labels or {})},
            "owner": OwnerReference("Deployment", app),
            "phase": PodPhase.RUNNING,
            "containers": containers or (a_container(requests=amounts(100, 200 * MIB)),),
            "created_at": self.clock.now(),
            "started_at": self.clock.now(),
        }
        self.put_pod(Pod(namespace, name, **(usual | fields)))  # type: ignore[arg-type]

    def put_pod(self, pod: Pod) -> None:
        self.pod_writer.put(StoredObject(ObjectName(pod.namespace, pod.name), pod))

    def pod(self, name: str, namespace: str = "default") -> Pod:
        found = self.pods.find(namespace, name)
        assert found is not None
        return found

    def end(self, name: str, namespace: str = "default") -> None:
        """A pod is deleted."""
        self.pod_writer.drop(ObjectName(namespace, name))

    def kill(
        self,
        pod: str,
        *,
        at: datetime | None = None,
        is_back: bool = True,
        namespace: str = "default",
    ) -> None:
        """The first container of a pod is killed for want of memory, and perhaps runs again."""
        seen = self.pod(pod, namespace)
        first, *others = seen.containers
        end = Termination("OOMKilled", finished_at=at or self.clock.now())
        killed = replace(
            first,
            restart_count=first.restart_count + is_back,
            is_running=is_back,
            termination=None if is_back else end,
            last_termination=end if is_back else first.last_termination,
        )
        self.put_pod(replace(seen, containers=(killed, *others)))

    def add_node(self, name: str, memory: int) -> None:
        """A node that has so much memory to give."""
        node = Node(name, {Resource.MEMORY: memory})
        self.node_writer.put(StoredObject(ObjectName("", name), node))

    def autoscale(self, name: str = "web", *, namespace: str = "default", **fields: object) -> None:
        """An autoscaler of the Deployment of its name, or something else that it says now."""
        known = self.autoscalers.find(namespace, name) or Autoscaler(
            namespace,
            name,
            uid=f"uid-{name}",
            generation=0,
            created_at=NOW,
            target=TargetReference("Deployment", name, "apps/v1"),
        )
        changed = replace(known, generation=known.generation + 1, **fields)  # type: ignore[arg-type]
        self._put_autoscaler(changed)

    def remove_autoscaler(self, name: str = "web", namespace: str = "default") -> None:
        self.autoscaler_writer.drop(ObjectName(namespace, name))

    def autoscaler(self, name: str = "web", namespace: str = "default") -> Autoscaler:
        found = self.autoscalers.find(namespace, name)
        assert found is not None
        return found

    def target(
        self, name: str = "web", container: str = "app", namespace: str = "default"
    ) -> Resources:
        """What an autoscaler recommends for a container; nothing if it does not."""
        said = self.autoscaler(name, namespace).recommendation or ()
        return next((dict(one.target) for one in said if one.container_name == container), {})

    def condition(self, kind: str, name: str = "web") -> Condition | None:
        conditions = self.autoscaler(name).conditions
        return next((one for one in conditions if one.type == kind), None)

    def recommender(self, **settings: object) -> Recommender:
        """A new process that has seen nothing yet."""
        given = RecommenderSettings(**settings)  # type: ignore[arg-type]
        return Recommender(self, self, settings=given, clock=self.clock)

    async def tick_done(self) -> None:
        """Return when the next tick of a recommender that runs is over."""
        self.clock.tick_done.clear()
        await self.clock.tick_done.wait()

    def wait(self, span: timedelta = timedelta(minutes=1)) -> None:
        self.clock.moment += span

    # The ports

    async def fetch(self) -> UsageColumns:
        await asyncio.sleep(0)
        self._act("fetch")
        self.readings.add(self.read_at or self.clock.now())
        rows = list(self._read_usage())
        return UsageColumns(*zip(*rows, strict=True)) if rows else UsageColumns()

    def _read_usage(self) -> Iterator[tuple[str, str, str, float, float, float, bool, bool]]:
        time = (self.read_at or self.clock.now()).timestamp()
        for pod in self.pods:
            if pod.phase is not PodPhase.RUNNING or pod.name in self.silent:
                continue
            for container in pod.containers:
                load = self._load(pod.name, container.name)
                yield (
                    *(pod.namespace, pod.name, container.name),
                    *(time, load.cpu, load.memory, True, True),
                )

    def _load(self, pod: str, container: str) -> Load:
        for name in (pod, container, ""):
            if name in self.loads:
                return self.loads[name]
        return Load()

    def known(self, name: WorkloadName) -> Workload | None:
        return self.workloads.get(name) if name.kind in WELL_KNOWN_KINDS else None

    async def workload(self, name: WorkloadName, api_version: str = "") -> Workload | None:
        del api_version
        # Whoever asks has to wait, as long as that is not for long.
        await asyncio.sleep(0)
        self._act("workload", name.name)
        return self.workloads.get(name)

    async def look_up(self, lookup: Lookup) -> None:
        raise NotImplementedError

    def peek(self, owned: Pod | PodHead | Workload) -> PeekedOwner:
        raise NotImplementedError

    def peek_workload(self, name: WorkloadName, api_version: str = "") -> PeekedWorkload:
        raise NotImplementedError

    async def topmost(self, owned: Pod | Workload) -> WorkloadName | None:
        if isinstance(owned, Workload):
            return owned.name
        owner = owned.owner
        name = WorkloadName(owned.namespace, owner.kind, owner.name) if owner else None
        return name if name in self.workloads else None

    def quotas(self, namespace: str) -> Sequence[Quota]:
        raise NotImplementedError

    async def can_resize(self) -> bool:
        raise NotImplementedError

    def limit_ranges(self, namespace: str) -> Sequence[LimitRangeItem]:
        del namespace
        return ()

    async def memory_evictions(self) -> AsyncIterator[MemoryEviction]:
        for eviction in self.evictions:
            yield eviction

    def age(self) -> timedelta | None:
        return self.view_age if self.is_listed else None

    def problems(self) -> Mapping[str, Exception]:
        return {}

    async def publish_status(
        self,
        autoscaler: Autoscaler,
        recommendation: Sequence[ContainerRecommendation],
        conditions: Sequence[Condition],
    ) -> None:
        self._act("publish_status", autoscaler.name)
        status = replace(
            autoscaler,
            recommendation=tuple(recommendation),
            conditions=tuple(conditions),
            observed_generation=autoscaler.generation or None,
        )
        if self.shows_statuses:
            self._put_autoscaler(status)

    async def publish_conditions(
        self, autoscaler: Autoscaler, conditions: Sequence[Condition]
    ) -> None:
        self._put_autoscaler(replace(autoscaler, conditions=tuple(conditions)))

    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        self._act("save_checkpoint", checkpoint.written_name)
        self.store_checkpoint(checkpoint)

    def store_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint as it comes back from the server."""
        self._versions += 1
        decoded = decode_checkpoint(encode_checkpoint(checkpoint))
        kept = replace(decoded, resource_version=str(self._versions))
        self.checkpoint_writer.put(StoredObject(ObjectName(kept.namespace, kept.name), kept))

    def checkpoint(self, name: str = "web-app", namespace: str = "default") -> Checkpoint:
        found = self.checkpoints.find(namespace, name)
        assert found is not None
        return found

    async def has_autoscaler(self, name: AutoscalerName) -> bool:
        await asyncio.sleep(0)
        self._act("has_autoscaler", name.name)
        is_shown = self.autoscalers.find(name.namespace, name.name) is not None
        return is_shown or name.name in self.unseen

    async def delete_checkpoint(
        self, namespace: str, name: str, resource_version: str = ""
    ) -> None:
        self._act("delete_checkpoint", name)
        if resource_version not in ("", self.checkpoint(name, namespace).resource_version):
            raise RefusedError("another version")
        self.checkpoint_writer.drop(ObjectName(namespace, name))

    async def try_eviction(self, pod: Pod) -> None:
        raise NotImplementedError

    async def evict(self, pod: Pod) -> None:
        raise NotImplementedError(pod)

    async def resize(self, pod: Pod, patch: Patch) -> None:
        raise NotImplementedError(pod, patch)

    async def patch_pod(self, pod: Pod, patch: Patch) -> None:
        raise NotImplementedError(pod, patch)

    async def fetch_lease(self, namespace: str, name: str) -> Lease | None:
        raise NotImplementedError(namespace, name)

    async def write_lease(self, lease: Lease) -> Lease:
        raise NotImplementedError(lease)

    async def emit(self, event: Event) -> None:
        raise NotImplementedError(event)

    def _act(self, name: str, about: str = "") -> None:
        self.acts[name] += 1
        if not self.failing.isdisjoint({name, f"{name} {about}"}):
            raise RefusedError(f"{name} {about}")

    def _put_autoscaler(self, autoscaler: Autoscaler) -> None:
        self._versions += 1
        stored = replace(autoscaler, resource_version=str(self._versions))
        name = ObjectName(autoscaler.namespace, autoscaler.name)
        self.autoscaler_writer.put(StoredObject(name, stored))
