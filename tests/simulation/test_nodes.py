"""Real components on small simulated nodes: what cannot fit is known and not asked for."""

from datetime import timedelta
from random import Random

import pytest
from simulation.toys import SELECTOR
from support.makers.records import MIB, a_recommendation, amounts, an_autoscaler

from trimtab.core.model.autoscalers import UpdateMode
from trimtab.core.model.pods import Allocation, Pod, ResizeState
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.model.selectors import Selector, equality
from trimtab.simulation.components import REAL
from trimtab.simulation.simulation import Simulation
from trimtab.simulation.world.loads import constant
from trimtab.simulation.world.objects import (
    ContainerTemplate,
    NodeObject,
    PodTemplate,
    WorkloadObject,
)
from trimtab.simulation.world.tables import TableChange
from trimtab.simulation.world.virtual_time import run_virtually

MEMORY = 100 * MIB
LOAD = constant(cpu_millicores=20, memory_bytes=20 * MIB)


class Scene:
    """Nodes of 4 CPUs, each with a pod of a DaemonSet, and the components that change pods."""

    def __init__(self, simulation: Simulation, nodes: int) -> None:
        self.simulation = simulation
        self.states: set[ResizeState] = set()
        """Resize states seen so far."""
        world = simulation.world
        world.pods.subscribe(self._notice)
        for number in range(nodes):
            world.nodes.put(NodeObject(f"node-{number}", amounts(4000, 16_000 * MIB)))
        self.add("DaemonSet", "agent", 500)
        components = REAL.build(simulation)
        for name in ("admission", "updater"):
            simulation.add(name, components[name])

    def _notice(self, change: TableChange[Pod]) -> None:
        if change.after is not None and change.after.resize is not None:
            self.states.add(change.after.resize)

    def add(self, kind: str, name: str, cpu: int, replicas: int = 1) -> WorkloadObject:
        program = ContainerTemplate("app", Allocation(amounts(cpu, MEMORY)), load=LOAD)
        template = PodTemplate({"app": name}, (program,))
        selector = SELECTOR if name == "web" else Selector((equality("app", name),))
        return self.simulation.world.add_workload(
            WorkloadObject("default", kind, name, template, selector, replicas=replicas)
        )

    def autoscale(self, target: Resources, mode: UpdateMode) -> None:
        wanted = a_recommendation(target=target, lower=target)
        self.simulation.world.add_autoscaler(
            an_autoscaler(wanted, created_at=None, mode=mode, min_replicas=1)
        )

    async def passing(self, minutes: float) -> None:
        await self.simulation.clock.sleep(timedelta(minutes=minutes))

    def pods(self, name: str) -> list[Pod]:
        return [
            pod
            for pod in self.simulation.world.pods
            if pod.labels["app"] == name and not pod.is_deleting
        ]

    def cpu(self, name: str = "web") -> list[int]:
        """The CPU requests of pods that have a node."""
        return sorted(
            (pod.containers[0].spec.requests or {})[Resource.CPU]
            for pod in self.pods(name)
            if pod.node_name
        )


@pytest.mark.parametrize(
    "mode", [UpdateMode.RECREATE, UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE]
)
def test_d25_pods_that_want_more_than_a_node_get_what_daemon_sets_leave(mode: UpdateMode) -> None:
    async def run() -> None:
        async with Simulation(random=Random(1)) as simulation:
            scene = Scene(simulation, nodes=2)
            scene.add("Deployment", "web", 100, replicas=2)
            await scene.passing(2)
            scene.autoscale(amounts(9000, MEMORY), mode)
            await scene.passing(30)

            assert scene.cpu() == [3500, 3500]
            assert scene.cpu("agent") == [500, 500]
            assert scene.states.isdisjoint({ResizeState.DEFERRED, ResizeState.INFEASIBLE})

    run_virtually(run())


def test_d25_growth_waits_until_its_own_node_has_room() -> None:
    async def run() -> None:
        async with Simulation(random=Random(1)) as simulation:
            scene = Scene(simulation, nodes=1)
            scene.add("Deployment", "web", 100)
            beside = scene.add("Deployment", "beside", 2000)
            await scene.passing(2)
            scene.autoscale(amounts(2000, MEMORY), UpdateMode.IN_PLACE)
            await scene.passing(30)
            before, states = scene.cpu(), set(scene.states)
            simulation.world.workloads_of("Deployment").delete(beside.namespace, beside.name)
            await scene.passing(10)

            assert (before, states) == ([100], set())
            assert scene.cpu() == [2000]
            assert ResizeState.DEFERRED not in scene.states

    run_virtually(run())


def test_d25_a_pod_on_a_full_node_goes_where_there_is_room() -> None:
    async def run() -> None:
        async with Simulation(random=Random(1)) as simulation:
            scene = Scene(simulation, nodes=1)
            scene.add("Deployment", "web", 100)
            scene.add("Deployment", "beside", 2500)
            await scene.passing(2)
            simulation.world.nodes.put(NodeObject("node-1", amounts(4000, 16_000 * MIB)))
            scene.autoscale(amounts(1700, MEMORY), UpdateMode.IN_PLACE_OR_RECREATE)
            await scene.passing(30)

            assert scene.cpu() == [1700]
            assert [pod.node_name for pod in scene.pods("web")] == ["node-1"]
            assert ResizeState.DEFERRED not in scene.states

    run_virtually(run())


def test_d25_a_pod_that_no_other_node_could_take_is_not_evicted() -> None:
    async def run() -> None:
        async with Simulation(random=Random(1)) as simulation:
            scene = Scene(simulation, nodes=1)
            scene.add("Deployment", "web", 100)
            scene.add("Deployment", "beside", 2500)
            await scene.passing(2)
            # All of its room is for the DaemonSet and a pod of 1500.
            simulation.world.nodes.put(NodeObject("node-1", amounts(2000, 16_000 * MIB)))
            scene.autoscale(amounts(1700, MEMORY), UpdateMode.IN_PLACE_OR_RECREATE)
            before = [pod.uid for pod in scene.pods("web")]
            await scene.passing(30)

            assert scene.cpu() == [100]
            assert [pod.uid for pod in scene.pods("web")] == before
            assert scene.states == set()

    run_virtually(run())
