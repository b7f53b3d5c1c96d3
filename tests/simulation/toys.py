"""A stage for sins: a world without controllers and kubelets, and components that do one thing.

What is on the stage is what a test puts there, so that each checker can be shown exactly what it is
for. The toys act through the ports, like any component.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random

from support.makers.records import MIB, a_recommendation, amounts, an_autoscaler

from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.api.kinds.leases import Lease
from trimtab.api.usage.pod_metrics import UsageColumns
from trimtab.cluster.errors import ClusterError
from trimtab.core.histogram.checkpoint import AggregateCheckpoint
from trimtab.core.model.autoscalers import Autoscaler, ContainerRecommendation
from trimtab.core.model.json_patch import Add, Patch
from trimtab.core.model.pods import Allocation, Container, OwnerReference, Pod, PodPhase
from trimtab.core.model.quantities import format_amount
from trimtab.core.model.resources import BOTH, Resources
from trimtab.core.model.selectors import LabelRequirement, Operator, Selector
from trimtab.simulation.api_server.connection import SimulatedConnection
from trimtab.simulation.api_server.writes import Serving
from trimtab.simulation.checks.base import Checker, Rules
from trimtab.simulation.checks.inspector import Inspector
from trimtab.simulation.processes import Process, ProcessSurroundings
from trimtab.simulation.world.facts import Fact
from trimtab.simulation.world.objects import ContainerTemplate, PodTemplate, WorkloadObject
from trimtab.simulation.world.virtual_time import VirtualClock, run_virtually
from trimtab.simulation.world.world import World

USUAL = amounts(100, 100 * MIB)
SELECTOR = Selector((LabelRequirement("app", Operator.IN, ("web",)),))


class NoUsage:
    """A source of samples that has none."""

    async def fetch(self) -> UsageColumns:
        return UsageColumns()


class Stage:
    """A world in which one Deployment `web` has pods, and whoever watches it."""

    def __init__(self, *checkers: type[Checker], rules: Rules | None = None) -> None:
        self.world = World(clock=VirtualClock(), random=Random(1))
        self.serving = Serving(self.world)
        self.inspector = Inspector(self.world, rules, checkers)
        self.replica_set = self.put_workload(replicas=0)

    def put_workload(self, *, replicas: int) -> WorkloadObject:
        """The Deployment and its ReplicaSet, which is returned."""
        template = PodTemplate({"app": "web"}, (ContainerTemplate("app"),))
        deployment = WorkloadObject(
            "default", "Deployment", "web", template, SELECTOR, uid="web", replicas=replicas
        )
        replica_set = replace(
            deployment, kind="ReplicaSet", name="web-1", uid="web-1", owner=deployment.reference
        )
        self.world.workloads_of("Deployment").put(deployment)
        self.replica_set = self.world.workloads_of("ReplicaSet").put(replica_set)
        return self.replica_set

    def put_pods(self, count: int, **fields: object) -> list[Pod]:
        """So many pods of the Deployment that run and are ready, all that it wants."""
        self.put_workload(replicas=count)
        return [self.put_pod(f"web-1-{number}", **fields) for number in range(count)]

    def put_pod(self, name: str, **fields: object) -> Pod:
        """One pod of the Deployment, which runs and is ready."""
        usual: dict[str, object] = {
            "uid": f"uid-{name}",
            "labels": {"app": "web"},
            "owner": self.owner,
            "phase": PodPhase.RUNNING,
            "containers": (Container("app", spec=Allocation(USUAL)),),
            "created_at": self.world.now(),
            "started_at": self.world.now(),
            "ready_since": self.world.now(),
            "node_name": "node-1",
        }
        made = Pod("default", name, **(usual | fields))  # type: ignore[arg-type]
        return self.world.pods.put(made)

    @property
    def owner(self) -> OwnerReference:
        return self.replica_set.reference

    def put_autoscaler(
        self, *recommendations: ContainerRecommendation, **fields: object
    ) -> Autoscaler:
        """An autoscaler of the Deployment."""
        made = an_autoscaler(*recommendations, **fields)  # type: ignore[arg-type]
        return self.world.autoscalers.put(made)

    def tell(self, fact: Fact) -> None:
        """Let something be known that nobody did."""
        self.world.record(fact)

    def start(self, toy: "Toy", name: str = "toy") -> Process:
        """A copy of a toy, which runs from now on."""
        process = Process(name, toy, world=self.world, serving=self.serving, usage=_no_usage)
        process.start()
        return process

    async def wait(self, span: timedelta) -> None:
        await asyncio.sleep(span.total_seconds())

    async def play(self, toy: "Toy", name: str = "toy") -> None:
        """Let a toy do all that it does, and what follows from it."""
        process = self.start(toy, name)
        while process.is_running:
            await self.wait(timedelta(seconds=1))
        failure = process.failure()
        if failure is not None:
            raise failure
        # Nobody looks at its views any more.
        process.line.is_dead = True


Toy = Callable[[ProcessSurroundings], Coroutine[object, object, None]]
Scene = Callable[[Stage], Awaitable[None]]


def judge(checker: type[Checker], scene: Scene, rules: Rules | None = None) -> list[str]:
    """What a checker objects to in a scene."""

    async def run() -> list[str]:
        stage = Stage(checker, rules=rules)
        await scene(stage)
        stage.inspector.inspect()
        return [violation.detail for violation in stage.inspector.violations()]

    return run_virtually(run())


@dataclass(frozen=True)
class EvictEverything:
    """An updater that evicts every pod it sees, whatever that does."""

    pause: timedelta = timedelta()
    most: int = 1000

    async def __call__(self, surroundings: ProcessSurroundings) -> None:
        cluster = surroundings.cluster
        await cluster.synced()
        for pod in list(cluster.pods)[: self.most]:
            with suppress(ClusterError):
                await cluster.evict(pod)
            await surroundings.clock.sleep(self.pause)


@dataclass(frozen=True)
class ResizeEverything:
    """An updater that gives every pod the same resources, one after the other."""

    requests: tuple[Resources, ...]
    pause: timedelta = timedelta()

    async def __call__(self, surroundings: ProcessSurroundings) -> None:
        cluster = surroundings.cluster
        await cluster.synced()
        for wanted in self.requests:
            for pod in cluster.pods:
                await cluster.resize(pod, set_amounts(pod, "requests", wanted))
            await surroundings.clock.sleep(self.pause)


@dataclass(frozen=True)
class PublishTo:
    """A recommender that says the same of every autoscaler."""

    recommendations: tuple[ContainerRecommendation, ...]

    async def __call__(self, surroundings: ProcessSurroundings) -> None:
        cluster = surroundings.cluster
        await cluster.synced()
        for autoscaler in cluster.autoscalers:
            await cluster.publish_status(autoscaler, self.recommendations, ())


@dataclass(frozen=True)
class ActWhenElected:
    """A recommender that takes the lease at some moment, and publishes something at others."""

    elected_after: timedelta
    acts_after: tuple[timedelta, ...]

    async def __call__(self, surroundings: ProcessSurroundings) -> None:
        cluster, clock, holder = surroundings.cluster, surroundings.clock, surroundings.line.actor
        await clock.sleep(self.elected_after)
        seen = await cluster.fetch_lease("kube-system", "leader")
        lease = seen or Lease("kube-system", "leader")
        await cluster.write_lease(replace(lease, holder=holder))
        for moment in self.acts_after:
            await clock.sleep(moment - clock.elapsed())
            target = amounts(int((moment - self.elected_after).total_seconds()))
            await PublishTo((a_recommendation(target=target),))(surroundings)


@dataclass(frozen=True)
class SaveCheckpoints:
    """A recommender that saves what it is told to, one after the other."""

    aggregates: tuple[AggregateCheckpoint, ...]

    async def __call__(self, surroundings: ProcessSurroundings) -> None:
        cluster = surroundings.cluster
        for aggregate in self.aggregates:
            await cluster.save_checkpoint(Checkpoint("default", "web", "app", aggregate))


async def halve_checkpoints(surroundings: ProcessSurroundings) -> None:
    """A recommender that loses half of what it reads."""
    cluster = surroundings.cluster
    await cluster.synced()
    for checkpoint in cluster.checkpoints:
        histogram = checkpoint.aggregate.cpu_histogram
        halved = replace(histogram, total_weight=histogram.total_weight / 2)
        aggregate = replace(checkpoint.aggregate, cpu_histogram=halved)
        await cluster.save_checkpoint(replace(checkpoint, aggregate=aggregate))


async def delete_checkpoints(surroundings: ProcessSurroundings) -> None:
    """A recommender that takes every checkpoint for an orphan."""
    cluster = surroundings.cluster
    await cluster.synced()
    for checkpoint in cluster.checkpoints:
        await cluster.delete_checkpoint(checkpoint.namespace, checkpoint.name)


def set_amounts(pod: Pod, which: str, wanted: Resources) -> Patch:
    """Operations that set requests or limits of every container."""
    return tuple(
        Add(f"/spec/containers/{container.index}/resources/{which}/{kind}", text)
        for container in pod.containers
        for kind in BOTH
        if kind in wanted
        for text in [format_amount(kind, wanted[kind])]
    )


def _no_usage(line: SimulatedConnection) -> NoUsage:
    del line
    return NoUsage()
