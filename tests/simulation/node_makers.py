"""A node under the microscope: one kubelet, pods placed by hand, and all that is said of them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import TypeVar

from msgspec import structs
from support.makers.records import MIB, amounts

from trimtab.core.model.pods import (
    Allocation,
    Container,
    ContainerKind,
    OwnerReference,
    Pod,
    PodPhase,
)
from trimtab.core.model.resources import BOTH, Resources
from trimtab.simulation.api_server.connection import SimulatedConnection
from trimtab.simulation.api_server.writes import Serving
from trimtab.simulation.nodes.kubelet import Kubelet, KubeletSettings
from trimtab.simulation.nodes.metrics_server import Metrics
from trimtab.simulation.world.facts import Fact
from trimtab.simulation.world.loads import Load, constant
from trimtab.simulation.world.objects import (
    ContainerTemplate,
    NodeObject,
    PodTemplate,
    RestartPolicy,
    Startup,
)
from trimtab.simulation.world.tables import TableChange
from trimtab.simulation.world.virtual_time import VirtualClock, run_virtually
from trimtab.simulation.world.world import World

_T = TypeVar("_T")

QUICK = Startup(delay=timedelta(seconds=1))
PERIOD = timedelta(seconds=10)


def a_load(cpu: float = 50, memory: float = 50 * MIB) -> Load:
    return constant(cpu_millicores=cpu, memory_bytes=memory)


def a_program(
    name: str = "app",
    *,
    requests: Resources | None = amounts(100, 100 * MIB),
    limits: Resources | None = None,
    load: Load = a_load(),
    startup: Startup = QUICK,
    **fields: object,
) -> ContainerTemplate:
    """A container that a pod is made of, and what it does."""
    allocation = Allocation(requests, limits)
    return ContainerTemplate(name, allocation, load=load, startup=startup, **fields)  # type: ignore[arg-type]


@dataclass
class Stage:
    """A world with a kubelet and nothing else that acts."""

    world: World
    kubelet: Kubelet
    metrics: Metrics
    facts: list[Fact] = field(default_factory=list)
    history: list[TableChange[Pod]] = field(default_factory=list)

    def place(
        self,
        *programs: ContainerTemplate,
        name: str = "web-0",
        node: str = "node-0",
        labels: Mapping[str, str] | None = None,
        restart_policy: RestartPolicy = RestartPolicy.ALWAYS,
        runs_for: timedelta | None = None,
        owner: OwnerReference | None = None,
    ) -> Pod:
        """Make a pod that the scheduler has already put on a node."""
        template = PodTemplate(
            labels or {},
            programs or (a_program(),),
            restart_policy=restart_policy,
            runs_for=runs_for,
        )
        uid = self.world.new_uid()
        self.world.templates[uid] = template
        pod = Pod(
            "default",
            name,
            uid=uid,
            labels=labels or {},
            phase=PodPhase.PENDING,
            containers=tuple(_containers(template.containers)),
            owner=owner,
            node_name=node,
        )
        return self.world.pods.put(pod)

    def pod(self, name: str = "web-0") -> Pod:
        found = self.world.pods.find("default", name)
        assert found is not None
        return found

    def container(self, name: str = "app", pod: str = "web-0") -> Container:
        (found,) = [each for each in self.pod(pod).containers if each.name == name]
        return found

    def ask(
        self,
        requests: Resources | None = None,
        limits: Resources | None = None,
        *,
        name: str = "app",
        pod: str = "web-0",
    ) -> None:
        """Let somebody want other resources for a container."""
        spec = Allocation(requests, limits)
        containers = tuple(
            structs.replace(each, spec=spec) if each.name == name else each
            for each in self.pod(pod).containers
        )
        self.world.pods.put(structs.replace(self.pod(pod), containers=containers))

    def label(self, labels: Mapping[str, str], pod: str = "web-0") -> None:
        self.world.pods.put(structs.replace(self.pod(pod), labels=labels))

    def told(self, kind: type[_T]) -> list[_T]:
        """The facts of one kind, in the order in which they became facts."""
        return [fact for fact in self.facts if isinstance(fact, kind)]

    async def until(self, check: Callable[[], object], *, within: timedelta) -> timedelta:
        """How long it took until something was so."""
        begin = self.world.clock.elapsed()
        while not check():
            assert self.world.clock.elapsed() - begin <= within, "it never came to be"
            await asyncio.sleep(0.1)
        return self.world.clock.elapsed() - begin

    def usage_of_last_turn(self) -> list[int]:
        """The memory that was measured, of containers that may be gone by now."""
        readings = self.kubelet.readings()
        return [] if readings is None else readings.memory_bytes.tolist()

    async def usage(self, actor: str = "recommender") -> dict[tuple[str, str], tuple[int, int]]:
        """What a component hears that each container of each pod uses."""
        told = await self.metrics.source(SimulatedConnection(actor, Random(1))).fetch()
        amounts_used = zip(told.cpu_millicores, told.memory_bytes, strict=True)
        return dict(zip(zip(told.pods, told.containers, strict=True), amounts_used, strict=True))


def on_a_stage(
    play: Callable[[Stage], Awaitable[_T]],
    *,
    seed: int = 1,
    settings: KubeletSettings = KubeletSettings(period=PERIOD),
    nodes: Iterable[NodeObject] = (NodeObject("node-0", amounts(8000, 16384 * MIB)),),
) -> _T:
    """What the play returns, played on a stage of its own."""

    async def run() -> _T:
        world = World(clock=VirtualClock(), random=Random(seed))
        kubelet = Kubelet(world, Serving(world), settings)
        stage = Stage(world, kubelet, Metrics(kubelet))
        world.subscribe(stage.facts.append)
        world.pods.subscribe(stage.history.append)
        for node in nodes:
            world.nodes.put(node)
        kubelet.start()
        return await play(stage)

    return run_virtually(run())


async def passing(span: timedelta) -> None:
    """Let virtual time pass."""
    await asyncio.sleep(span.total_seconds())


def _containers(templates: tuple[ContainerTemplate, ...]) -> Iterable[Container]:
    for kind in ContainerKind:
        for index, template in enumerate(each for each in templates if each.kind is kind):
            yield Container(
                template.name,
                index,
                kind,
                template.allocation,
                restarts_on_resize=frozenset(BOTH if template.restarts_on_resize else ()),
            )
