"""A small simulated cluster for tests: its machinery, makers of objects, and a quick kubelet."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import TypeVar

from makers import MIB, amounts

from trimtab.core.pods import Allocation, Pod, PodPhase
from trimtab.core.selectors import Selector, equality
from trimtab.simulation.admitting import Admitting
from trimtab.simulation.controllers import Controllers
from trimtab.simulation.objects import ContainerTemplate, Node, PodTemplate, WorkloadObject
from trimtab.simulation.scheduling import Scheduler
from trimtab.simulation.serving import Serving
from trimtab.simulation.tables import Change
from trimtab.simulation.virtual_time import VirtualClock, run_virtually
from trimtab.simulation.world import World

_T = TypeVar("_T")

START_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class SmallCluster:
    """The machinery of a cluster, without components."""

    world: World
    serving: Serving
    admitting: Admitting
    scheduler: Scheduler

    def pods(self, app: str) -> list[Pod]:
        """The pods of an app that neither have ended nor are about to, by name."""
        found = [pod for pod in self.world.pods if pod.labels.get("app") == app]
        return sorted((pod for pod in found if _is_live(pod)), key=lambda pod: pod.name)

    def change(self, workload: WorkloadObject, **fields: object) -> WorkloadObject:
        """Let a user change some fields of a workload."""
        current = self.world.find_workload(workload.identity)
        assert current is not None
        return self.world.workloads_of(workload.kind).put(replace(current, **fields))  # type: ignore[arg-type]

    def delete(self, workload: WorkloadObject) -> None:
        """Let a user delete a workload."""
        self.world.workloads_of(workload.kind).delete(workload.namespace, workload.name)


@asynccontextmanager
async def a_cluster(*, nodes: int = 3, seed: int = 1) -> AsyncIterator[SmallCluster]:
    """A cluster that runs while the block lasts."""
    world = World(clock=VirtualClock(), random=Random(seed))
    serving, admitting, scheduler = Serving(world), Admitting(world), Scheduler(world)
    for number in range(nodes):
        world.nodes.put(a_node(f"node-{number}"))
    scheduler.start()
    QuickKubelet(world).start()
    controllers = asyncio.create_task(Controllers(world, serving, admitting).run())
    try:
        yield SmallCluster(world, serving, admitting, scheduler)
    finally:
        controllers.cancel()
        with suppress(asyncio.CancelledError):
            await controllers


def in_a_cluster(
    play: Callable[[SmallCluster], Awaitable[_T]], *, nodes: int = 3, seed: int = 1
) -> _T:
    """What the play returns, after it was played in a cluster of its own."""

    async def run() -> _T:
        async with a_cluster(nodes=nodes, seed=seed) as cluster:
            return await play(cluster)

    return run_virtually(run())


async def passing(**span: float) -> None:
    """Let virtual time pass."""
    await asyncio.sleep(timedelta(**span).total_seconds())


class QuickKubelet:
    """Starts every pod that has a node, a little later; a job's pod succeeds in its time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.never_ready: set[str] = set()

    def start(self) -> None:
        self._world.pods.subscribe(self._notice)

    def _notice(self, change: Change[Pod]) -> None:
        pod = change.after
        had_node = change.before is not None and change.before.node_name
        if pod is not None and pod.node_name and not had_node:
            asyncio.get_running_loop().call_later(START_SECONDS, self._run, pod)

    def _run(self, pod: Pod) -> None:
        current = self._world.pods.find(pod.namespace, pod.name)
        if current is None or current.uid != pod.uid:
            return
        now = self._world.now()
        containers = tuple(
            replace(container, status=container.spec, is_running=True)
            for container in current.containers
        )
        running = replace(
            current,
            phase=PodPhase.RUNNING,
            containers=containers,
            started_at=now,
            ready_since=None if current.is_deleting else now,
        )
        self._world.pods.put(running)
        runs_for = self._world.templates[pod.uid].runs_for
        if runs_for is not None:
            asyncio.get_running_loop().call_later(runs_for.total_seconds(), self._finish, pod)

    def _finish(self, pod: Pod) -> None:
        current = self._world.pods.find(pod.namespace, pod.name)
        if current is not None and current.uid == pod.uid:
            ended = replace(current, phase=PodPhase.SUCCEEDED, ready_since=None)
            self._world.pods.put(ended)


def a_node(
    name: str = "node-0", *, cpu: int = 8000, memory: int = 16384 * MIB, **fields: object
) -> Node:
    return Node(name, amounts(cpu, memory), **fields)  # type: ignore[arg-type]


def a_template(
    app: str = "web", *, cpu: int | None = 100, memory: int | None = 100 * MIB, **fields: object
) -> PodTemplate:
    container = ContainerTemplate("app", Allocation(amounts(cpu, memory)))
    usual: dict[str, object] = {"labels": {"app": app}, "containers": (container,)}
    return PodTemplate(**(usual | fields))  # type: ignore[arg-type]


def a_workload(
    kind: str = "Deployment", name: str = "web", *, replicas: int | None = 3, **fields: object
) -> WorkloadObject:
    usual: dict[str, object] = {
        "namespace": "default",
        "template": a_template(name),
        "selector": Selector((equality("app", name),)),
    }
    return WorkloadObject(kind=kind, name=name, replicas=replicas, **(usual | fields))  # type: ignore[arg-type]


def _is_live(pod: Pod) -> bool:
    return not pod.is_deleting and pod.phase in (PodPhase.PENDING, PodPhase.RUNNING)
