"""The world in simulation: the same contract, in virtual time."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from http import HTTPStatus
from random import Random

from contract.stage import Scenario
from contract.world import CUSTOM_KIND, Link
from msgspec import structs
from support.makers.records import MIB, amounts

from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.api.kinds.evictions import MemoryEviction
from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.lists import Unreadable
from trimtab.cluster.errors import ApiError, Right
from trimtab.cluster.ports import Clock, UsageSource
from trimtab.core.model import nodes
from trimtab.core.model.autoscalers import Autoscaler, TargetReference
from trimtab.core.model.limit_ranges import LimitRangeItem
from trimtab.core.model.pods import Allocation, Pod, PodPhase, ResizeState, WorkloadName
from trimtab.core.model.resources import Resources
from trimtab.core.model.selectors import Selector, equality
from trimtab.simulation.api_server import requests as refusals
from trimtab.simulation.api_server.connection import (
    ConnectionTrouble,
    Disturbance,
    SimulatedConnection,
)
from trimtab.simulation.api_server.port import SimulatedCluster
from trimtab.simulation.api_server.requests import WRITES
from trimtab.simulation.api_server.webhook_host import SimulatedWebhookHost
from trimtab.simulation.nodes.kubelet import KubeletSettings
from trimtab.simulation.simulation import Simulation
from trimtab.simulation.world.loads import Load, Wave
from trimtab.simulation.world.objects import (
    ContainerTemplate,
    DisruptionBudget,
    HorizontalScaler,
    LimitRange,
    NamespaceObject,
    NodeObject,
    PodTemplate,
    QuotaObject,
    RestartPolicy,
    WorkloadObject,
)
from trimtab.simulation.world.virtual_time import run_virtually

API_VERSIONS = {"CronJob": "batch/v1", "Job": "batch/v1", CUSTOM_KIND[1]: CUSTOM_KIND[0]}
SHORT = timedelta(milliseconds=100)


@dataclass
class SimulatedLink:
    """A process of its own, at the end of its line."""

    line: SimulatedConnection
    cluster: SimulatedCluster
    usage: UsageSource
    webhooks: SimulatedWebhookHost

    @property
    def roles(self) -> SimulatedCluster:
        return self.cluster

    async def cut(self) -> None:
        self.line.breaks += 1

    @asynccontextmanager
    async def silent(self) -> AsyncIterator[None]:
        async with self._disturbed(Disturbance(is_silent=True)):
            yield

    @asynccontextmanager
    async def busy(self) -> AsyncIterator[None]:
        trouble = ConnectionTrouble(1.0, refusals.too_many_requests)
        async with self._disturbed(Disturbance(trouble=trouble)):
            yield

    @asynccontextmanager
    async def failing(self) -> AsyncIterator[None]:
        def fail(request: str) -> ApiError:
            return refusals.refuse(request, HTTPStatus.INTERNAL_SERVER_ERROR)

        async with self._disturbed(Disturbance(trouble=ConnectionTrouble(1.0, fail, only=WRITES))):
            yield

    @asynccontextmanager
    async def _disturbed(self, disturbance: Disturbance) -> AsyncIterator[None]:
        self.line.disturbances.append(disturbance)
        try:
            yield
        finally:
            self.line.disturbances.remove(disturbance)


class SimulatedWorld:
    """A simulated cluster that a test has for itself."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._world = simulation.world
        self._lines: list[SimulatedConnection] = []
        self._webhooks = SimulatedWebhookHost(simulation.world, simulation.admitting)
        self.namespace = "contract"
        self.clock: Clock = simulation.clock

    def elapsed(self) -> timedelta:
        return self._simulation.clock.elapsed()

    @asynccontextmanager
    async def joined(self, *, without: Right | None = None) -> AsyncIterator[Link]:
        line = SimulatedConnection(f"process-{len(self._lines)}", Random(1), lacks=without)
        self._lines.append(line)
        simulation = self._simulation
        cluster = SimulatedCluster(self._world, simulation.serving, line, clock=simulation.clock)
        if without is None:
            await cluster.synced()
        yield SimulatedLink(line, cluster, simulation.metrics.source(line), self._webhooks)
        line.is_dead = True

    async def restart(self) -> None:
        down = Disturbance(is_cut=True)
        for line in self._lines:
            line.disturbances.append(down)
        await self.clock.sleep(timedelta(seconds=2))
        for line in self._lines:
            line.disturbances.remove(down)
            line.breaks += 1

    async def forget_history(self) -> None:
        await self.restart()
        self._world.pods.compact()
        self._world.autoscalers.compact()
        self._world.checkpoints.compact()

    async def list_pods(self) -> Sequence[Pod]:
        return tuple(self._world.pods)

    async def list_autoscalers(self) -> Sequence[Autoscaler]:
        return tuple(self._world.autoscalers)

    async def list_checkpoints(self) -> Sequence[Checkpoint]:
        return tuple(self._world.checkpoints)

    async def create_pod(
        self, name: str, *, resize: ResizeState | None = None, is_placed: bool = True
    ) -> None:
        template = _template(name)
        if not is_placed:
            template = replace(template, node_name="nowhere")
        pod = await self._simulation.admitting.create_pod(self.namespace, name, template, None)
        if resize is not None:
            self._simulation.kubelet.resize_faults[pod.uid] = resize
        if is_placed:
            await self._wait_for(name, 1)

    async def label_pod(self, name: str, label: str, value: str) -> None:
        pod = self._pod(name)
        self._world.pods.put(structs.replace(pod, labels={**pod.labels, label: value}))

    async def delete_pod(self, name: str) -> None:
        if self._world.pods.find(self.namespace, name) is None:
            raise refusals.not_found(name)
        self._world.pods.delete(self.namespace, name)

    async def create_workload(self, kind: str, name: str, *, replicas: int = 1) -> WorkloadName:
        self._world.add_workload(_workload(self.namespace, kind, name, replicas))
        await self._wait_for(name, replicas)
        return WorkloadName(self.namespace, kind, name)

    async def create_autoscaler(self, name: str, target: WorkloadName) -> None:
        api_version = API_VERSIONS.get(target.kind, "apps/v1")
        reference = TargetReference(target.kind, target.name, api_version)
        self._world.add_autoscaler(Autoscaler(self.namespace, name, target=reference))

    async def delete_autoscaler(self, name: str) -> None:
        self._world.autoscalers.delete(self.namespace, name)

    async def delete_registration(self, name: str) -> None:
        await self._webhooks.delete_registration(name)

    async def create_disruption_budget(self, app: str, *, min_available: int) -> None:
        selector = Selector((equality("app", app),))
        self._world.budgets.put(DisruptionBudget(self.namespace, app, selector, min_available))

    async def scale_horizontally(self, target: WorkloadName, *, container: str = "") -> None:
        containers = (container,) if container else ()
        scaler = HorizontalScaler(self.namespace, "hpa", target, containers=containers)
        self._world.scalers.put(scaler)

    async def delete_horizontal(self) -> None:
        self._world.scalers.delete(self.namespace, "hpa")

    async def create_limit_range(self, name: str, item: LimitRangeItem) -> None:
        self._world.limit_ranges.put(LimitRange(self.namespace, name, (item,)))

    async def create_quota(self, name: str, requests: Resources) -> None:
        self._world.quotas.put(QuotaObject(self.namespace, name, requests))

    async def annotate_namespace(self, annotation: str, value: str) -> None:
        self._world.namespaces.put(NamespaceObject(self.namespace, annotations={annotation: value}))

    @asynccontextmanager
    async def node(self, node: nodes.Node) -> AsyncIterator[None]:
        made = NodeObject(
            node.name,
            node.allocatable,
            is_ready=False,
            labels=node.labels,
            taints=node.taints,
            is_unschedulable=node.is_unschedulable,
        )
        self._world.nodes.put(made)
        yield
        self._world.nodes.delete("", node.name)

    async def spoil_checkpoint(self, name: str) -> None:
        error = DecodeError("status", "nobody can read this")
        self._world.checkpoints.spoil(Unreadable(self.namespace, name, error))

    async def set_usage(self, pod: str, *, cpu_millicores: int, memory_bytes: int) -> None:
        load = Load(Wave(base=cpu_millicores), Wave(base=memory_bytes))
        self._simulation.kubelet.set_load(self._pod(pod), "app", load)

    async def starve_pod(self, pod: str, *, memory_bytes: int) -> None:
        at = self._world.now()
        self._world.evictions.append(MemoryEviction(self.namespace, pod, "app", memory_bytes, at))

    def _pod(self, name: str) -> Pod:
        pod = self._world.pods.find(self.namespace, name)
        assert pod is not None
        return pod

    async def _wait_for(self, app: str, count: int) -> None:
        while True:
            pods = [pod for pod in self._world.pods if pod.labels.get("app") == app]
            ready = [pod for pod in pods if pod.phase is PodPhase.RUNNING and pod.ready_since]
            if len(ready) == count:
                return
            await self.clock.sleep(SHORT)


def _template(app: str, policy: RestartPolicy = RestartPolicy.ALWAYS) -> PodTemplate:
    container = ContainerTemplate("app", Allocation(amounts(100, 100 * MIB)))
    return PodTemplate({"app": app}, (container,), restart_policy=policy)


def _workload(namespace: str, kind: str, name: str, replicas: int) -> WorkloadObject:
    runs_once = kind in ("Job", "CronJob")
    policy = RestartPolicy.NEVER if runs_once else RestartPolicy.ALWAYS
    return WorkloadObject(
        namespace=namespace,
        kind=kind,
        name=name,
        template=_template(name, policy),
        selector=Selector((equality("app", name),)),
        api_version=API_VERSIONS.get(kind, "apps/v1"),
        replicas=None if kind == "CronJob" else replicas,
        every=timedelta(minutes=1) if kind == "CronJob" else None,
    )


def play(scenario: Scenario) -> None:
    """Open a simulated world and run the scenario in it, in virtual time."""

    async def run() -> None:
        kubelet = KubeletSettings(period=timedelta(seconds=10))
        async with Simulation(random=Random(1), kubelet=kubelet) as simulation:
            simulation.world.nodes.put(
                NodeObject("node-0", amounts(100_000, 100_000 * MIB), max_pods=9999)
            )
            await scenario(SimulatedWorld(simulation))

    run_virtually(run())
