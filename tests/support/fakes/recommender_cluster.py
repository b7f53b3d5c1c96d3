"""The cluster in memory for tests of the recommender, with usage that tests decide.

Its clock goes when a test or a sleeper moves it.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from msgspec import structs
from support.fakes.clocks import StillClock
from support.fakes.cluster import FakeCluster
from support.makers.records import MIB, NOW, a_container, amounts
from support.makers.usage import a_selector

from trimtab.api.kinds.checkpoints import Checkpoint, decode_checkpoint, encode_checkpoint
from trimtab.api.usage.pod_metrics import UsageColumns
from trimtab.cluster.live.owners import WatchedOwners
from trimtab.core.model.autoscalers import Autoscaler, Condition, TargetReference
from trimtab.core.model.pods import (
    Container,
    OwnerReference,
    Pod,
    PodPhase,
    Termination,
    WorkloadName,
)
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.model.workloads import Workload
from trimtab.recommender.controller import NOT_LISTED_YET, Recommender
from trimtab.recommender.settings import RecommenderSettings
from trimtab.simulation.api_server.port import _Scales
from trimtab.simulation.world.objects import NodeObject, PodTemplate, WorkloadObject
from trimtab.simulation.world.tables import Table


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


class RecommenderCluster(FakeCluster):
    """A cluster and the source of its usage, in a time that only tests move."""

    clock: TellingClock

    def __init__(self) -> None:
        self.clock = TellingClock()
        super().__init__(self.clock)
        self.owners = _Owners(self)
        self.loads: dict[str, Load] = {}
        """By the name of a pod, or of a container, or empty for all others."""
        self.silent: set[str] = set()
        """Pods without usage readings."""
        self.read_at: datetime | None = None
        """When usage was read, if not just now."""
        self.readings: set[datetime] = set()
        """When usage was read."""

    # What a test does

    @property
    def deployments(self) -> Table[WorkloadObject]:
        """All Deployments."""
        return self.truth.workloads_of("Deployment")

    def own(self, kind: str, name: str) -> WorkloadObject:
        """Create a custom resource that owns the Deployment, which is the only one."""
        (owned,) = self.deployments
        owner = replace(owned, kind=kind, name=name, uid=name, api_version="example.com/v1")
        self.deployments.put(replace(owned, owner=owner.reference))
        return self.truth.workloads_of(kind).put(owner)

    def remove_deployments(self) -> None:
        """Delete all Deployments; their pods stay."""
        for each in self.deployments:
            self.deployments.delete(each.namespace, each.name)

    def deploy(
        self,
        name: str = "web",
        *containers: Container,
        replicas: int = 1,
        namespace: str = "default",
    ) -> None:
        """A Deployment whose pods run."""
        self.deployments.put(
            WorkloadObject(
                namespace, "Deployment", name, PodTemplate({}, ()), a_selector(app=name), uid=name
            )
        )
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
        usual: dict[str, object] = {
            "uid": self.truth.new_uid(),
            "labels": {"app": app, **(labels or {})},
            "owner": OwnerReference("Deployment", app),
            "phase": PodPhase.RUNNING,
            "containers": containers or (a_container(requests=amounts(100, 200 * MIB)),),
            "created_at": self.clock.now(),
            "started_at": self.clock.now(),
        }
        self.put_pod(Pod(namespace, name, **(usual | fields)))  # type: ignore[arg-type]

    def put_pod(self, pod: Pod) -> None:
        self.truth.pods.put(pod)

    def pod(self, name: str, namespace: str = "default") -> Pod:
        found = self.pods.find(namespace, name)
        assert found is not None
        return found

    def end(self, name: str, namespace: str = "default") -> None:
        """A pod is deleted."""
        self.truth.pods.delete(namespace, name)

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
        killed = structs.replace(
            first,
            restart_count=first.restart_count + is_back,
            is_running=is_back,
            termination=None if is_back else end,
            last_termination=end if is_back else first.last_termination,
        )
        self.put_pod(structs.replace(seen, containers=(killed, *others)))

    def add_node(self, name: str, memory: int) -> None:
        """A node that has so much memory to give."""
        self.truth.nodes.put(NodeObject(name, {Resource.MEMORY: memory}))

    def autoscale(self, name: str = "web", *, namespace: str = "default", **fields: object) -> None:
        """An autoscaler of the Deployment of its name, or something else that it says now."""
        known = self.truth.autoscalers.find(namespace, name) or Autoscaler(
            namespace,
            name,
            uid=f"uid-{name}",
            generation=0,
            created_at=NOW,
            target=TargetReference("Deployment", name, "apps/v1"),
        )
        changed = replace(known, generation=known.generation + 1, **fields)  # type: ignore[arg-type]
        self.truth.autoscalers.put(changed)

    def remove_autoscaler(self, name: str = "web", namespace: str = "default") -> None:
        self.truth.autoscalers.delete(namespace, name)

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

    # The source of usage

    async def fetch(self) -> UsageColumns:
        await asyncio.sleep(0)
        self.arrive("fetch")
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

    def compact(self) -> None:
        """Let the API server forget the past of its objects, as etcd does."""
        for table in (self.truth.pods, self.truth.autoscalers, self.truth.checkpoints):
            table.compact()

    # Checkpoints

    def store_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint as it comes back from the server."""
        decoded = decode_checkpoint(encode_checkpoint(checkpoint))
        self.truth.checkpoints.put(replace(decoded, name=checkpoint.written_name))

    def checkpoint(self, name: str = "web-app", namespace: str = "default") -> Checkpoint:
        found = self.checkpoints.find(namespace, name)
        assert found is not None
        return found


class _Owners(WatchedOwners):
    """Owners whose lookups wait and fail as requests do."""

    def __init__(self, cluster: RecommenderCluster) -> None:
        super().__init__(cluster._known, _Scales(cluster.truth, cluster.line))
        self._cluster = cluster

    async def workload(self, name: WorkloadName, api_version: str = "") -> Workload | None:
        await asyncio.sleep(0)
        self._cluster.arrive("workload", name.name)
        return await super().workload(name, api_version)
