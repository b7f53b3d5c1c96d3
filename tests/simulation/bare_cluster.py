"""A small simulated cluster for tests: its machinery, makers of objects, and a quick kubelet."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import wraps
from random import Random
from typing import ParamSpec

from msgspec import structs
from support.makers.records import MIB, NOW, a_container, a_pod, amounts

from trimtab.core.model.pods import Allocation, Container, Pod, PodPhase
from trimtab.core.model.selectors import Selector, equality
from trimtab.simulation.api_server.admission import Admitting
from trimtab.simulation.api_server.writes import Serving
from trimtab.simulation.controllers.manager import Controllers
from trimtab.simulation.nodes.scheduler import Scheduler
from trimtab.simulation.world.objects import (
    ContainerTemplate,
    NodeObject,
    PodTemplate,
    WorkloadObject,
)
from trimtab.simulation.world.tables import TableChange
from trimtab.simulation.world.virtual_time import VirtualClock, run_virtually
from trimtab.simulation.world.world import World

P = ParamSpec("P")

START_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class BareCluster:
    """The machinery of a cluster, without components."""

    world: World
    serving: Serving
    admitting: Admitting
    scheduler: Scheduler
    kubelet: "QuickKubelet"

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
async def a_cluster(*, nodes: int = 3, seed: int = 1) -> AsyncIterator[BareCluster]:
    """A cluster that runs while the block lasts."""
    world = World(clock=VirtualClock(), random=Random(seed))
    serving, admitting, scheduler = Serving(world), Admitting(world), Scheduler(world)
    for number in range(nodes):
        world.nodes.put(a_node(f"node-{number}"))
    scheduler.start()
    kubelet = QuickKubelet(world)
    kubelet.start()
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    controllers = asyncio.create_task(Controllers(world, serving, admitting).run())
    try:
        yield BareCluster(world, serving, admitting, scheduler, kubelet)
    finally:
        controllers.cancel()
        with suppress(asyncio.CancelledError):
            await controllers
    assert not failures, failures


async def passing(**span: float) -> None:
    """Let virtual time pass."""
    await asyncio.sleep(timedelta(**span).total_seconds())


def virtually(
    test: Callable[P, Coroutine[object, object, None]],
) -> Callable[P, None]:
    """The test, played in virtual time."""

    @wraps(test)
    def play(*args: P.args, **kwargs: P.kwargs) -> None:
        run_virtually(test(*args, **kwargs))

    return play


class QuickKubelet:
    """Starts every pod that has a node, a little later; a job's pod succeeds in its time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.broken: set[str] = set()
        """Apps whose pods never get ready."""

    def start(self) -> None:
        self._world.pods.subscribe(self._notice)

    def _notice(self, change: TableChange[Pod]) -> None:
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
            structs.replace(container, status=container.spec, is_running=True)
            for container in current.containers
        )
        running = structs.replace(
            current,
            phase=PodPhase.RUNNING,
            containers=containers,
            started_at=now,
            ready_since=now if self._gets_ready(current) else None,
        )
        self._world.pods.put(running)
        runs_for = self._world.templates[pod.uid].runs_for
        if runs_for is not None:
            asyncio.get_running_loop().call_later(runs_for.total_seconds(), self._finish, pod)

    def _gets_ready(self, pod: Pod) -> bool:
        return not pod.is_deleting and pod.labels.get("app") not in self.broken

    def _finish(self, pod: Pod) -> None:
        current = self._world.pods.find(pod.namespace, pod.name)
        if current is not None and current.uid == pod.uid:
            ended = structs.replace(current, phase=PodPhase.SUCCEEDED, ready_since=None)
            self._world.pods.put(ended)


def a_node(
    name: str = "node-0", *, cpu: int = 8000, memory: int = 16384 * MIB, **fields: object
) -> NodeObject:
    return NodeObject(name, amounts(cpu, memory), **fields)  # type: ignore[arg-type]


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


def a_world(*, seed: int = 1) -> World:
    """A world in which nothing happens by itself."""
    return World(clock=VirtualClock(), random=Random(seed))


def a_placed_pod(*containers: Container, name: str = "web-0", **fields: object) -> Pod:
    """A pod that runs on a node, as its kubelet reports it."""
    made = containers or (a_container(requests=amounts(100, 100 * MIB)),)
    running = [
        structs.replace(each, status=each.status or each.spec, is_running=True) for each in made
    ]
    usual: dict[str, object] = {"node_name": "node-0", "ready_since": NOW, "owner": None}
    return a_pod(*running, name=name, **(usual | fields))  # type: ignore[arg-type]
