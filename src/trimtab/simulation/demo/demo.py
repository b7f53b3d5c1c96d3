"""The demo: the real components at work on the workloads of `workloads.py`.

It runs in virtual time and the caller advances it, so the caller sets its speed. All settings are
the components' defaults. No faults are injected. Owners of workloads act as in any cluster: they
release new versions, and another pod takes over as leader now and then.
"""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import count
from random import Random
from typing import Final

from msgspec import structs

from trimtab.core.model.pods import Pod, WorkloadName
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.recommender.controller import Recommender
from trimtab.recommender.settings import RecommenderSettings
from trimtab.simulation import components
from trimtab.simulation.demo.news import DemoEvent, DemoEventKind, Newsroom, requests_of
from trimtab.simulation.demo.picture import (
    Picture,
    asked_for,
    live_pods,
    picture_row,
    total,
    usage_by_pod,
)
from trimtab.simulation.demo.workloads import FOLLOWER, LEADER, NAMESPACE, nodes, parts, workloads
from trimtab.simulation.processes import ProcessSurroundings
from trimtab.simulation.simulation import Simulation
from trimtab.simulation.world.loads import ROLE_LABEL
from trimtab.simulation.world.virtual_time import VirtualLoop
from trimtab.updater.controller import Updater
from trimtab.updater.settings import UpdaterSettings

INSTALLED_AFTER: Final = timedelta(minutes=5)
"""Run time of the workloads when the components are installed and the demo begins."""
RELEASES: Final = timedelta(hours=6)
"""Interval at which the owners of the JVM roll out a new version."""
HAND_OVERS: Final = timedelta(hours=4)
"""Interval at which another pod of the database becomes the leader."""
_BOOKS: Final = timedelta(minutes=1)
"""Interval at which savings are counted."""
_ELECTION: Final = timedelta(seconds=10)
_NOTHING: Final[Resources] = {Resource.CPU: 0, Resource.MEMORY: 0}


class Demo:
    """A running demo."""

    def __init__(self, simulation: Simulation, runner: asyncio.Runner) -> None:
        self._simulation = simulation
        self._runner = runner
        self._parts = parts()
        self._newsroom = Newsroom(self._parts)
        self._saved = dict.fromkeys(BOTH, 0.0)
        self._tasks: list[asyncio.Task[None]] = []

    def advance(self, span: timedelta) -> Picture:
        """Let time pass, and return the state of the cluster after it."""
        return self._runner.run(self._advance(span))

    async def begin(self) -> None:
        """Start workloads, components and owners."""
        simulation = self._simulation
        for node in nodes():
            simulation.world.nodes.put(node)
        for workload in workloads():
            simulation.world.add_workload(workload)
        await simulation.clock.sleep(INSTALLED_AFTER)
        for part in self._parts:
            simulation.world.add_autoscaler(part.autoscaler)
        simulation.world.subscribe(self._newsroom.listen)
        simulation.add("recommender", _recommend)
        simulation.add("updater", _update)
        simulation.add("admission", partial(components.run_admission, simulation.admitting))
        self._tasks = [
            asyncio.create_task(each)
            for each in (self._keep_books(), self._release(), self._elect())
        ]

    async def end(self) -> None:
        """Stop the owners."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _advance(self, span: timedelta) -> Picture:
        await self._simulation.clock.sleep(span)
        self._check()
        return self._look()

    def _check(self) -> None:
        self._simulation.check()
        for failure in self._simulation.failures().values():
            raise failure
        for task in self._tasks:
            if task.done():
                task.result()

    # What is seen

    def _look(self) -> Picture:
        world = self._simulation.world
        used = usage_by_pod(self._simulation.kubelet)
        pods = live_pods(world)
        return Picture(
            now=world.now(),
            elapsed=self._simulation.clock.elapsed() - INSTALLED_AFTER,
            rows=tuple(picture_row(world, part, used) for part in self._parts),
            asked=total(asked_for(world, pod) for pod in pods),
            requested=total(requests_of(pod) for pod in pods),
            saved_hours=dict(self._saved),
            counts=self._newsroom.counts(),
            news=self._newsroom.take(),
        )

    async def _keep_books(self) -> None:
        world = self._simulation.world
        # In the middle of a minute, apart from other timers: those of one moment have no order.
        await self._simulation.clock.sleep(_BOOKS / 2)
        while True:
            pods = live_pods(world)
            asked = total(asked_for(world, pod) for pod in pods)
            requested = total(requests_of(pod) for pod in pods)
            for resource in BOTH:
                saved = asked[resource] - requested[resource]
                self._saved[resource] += saved * (_BOOKS / timedelta(hours=1))
            await self._simulation.clock.sleep(_BOOKS)

    # What owners do

    async def _release(self) -> None:
        world = self._simulation.world
        while True:
            await self._simulation.clock.sleep(RELEASES)
            workload = world.find_workload(WorkloadName(NAMESPACE, "Deployment", "orders"))
            assert workload is not None
            world.workloads_of("Deployment").put(replace(workload, revision=workload.revision + 1))
            self._newsroom.add(
                DemoEvent(world.now(), "orders", DemoEventKind.RELEASED, _NOTHING, _NOTHING)
            )

    async def _elect(self) -> None:
        """Label one pod of the database as its leader, as its operator would."""
        world, clock = self._simulation.world, self._simulation.clock
        for number in count():
            name = f"database-{number % 3}"
            while (pod := world.pods.find(NAMESPACE, name)) is None or not pod.ready_since:
                await clock.sleep(_ELECTION)
            for other in world.pods:
                if other.labels.get(ROLE_LABEL) == LEADER:
                    world.pods.put(_in_role(other, FOLLOWER))
            world.pods.put(_in_role(pod, LEADER))
            self._newsroom.add(
                DemoEvent(
                    world.now(), "db leader", DemoEventKind.TOOK_OVER, _NOTHING, _NOTHING, name
                )
            )
            await clock.sleep(HAND_OVERS)


@contextmanager
def open_demo(seed: int) -> Iterator[Demo]:
    """Open a demo that lasts as long as the block."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        simulation = Simulation(random=Random(seed))
        demo = Demo(simulation, runner)
        stack = AsyncExitStack()
        runner.run(_open(stack, simulation, demo))
        try:
            yield demo
        finally:
            runner.run(stack.aclose())


async def _open(stack: AsyncExitStack, simulation: Simulation, demo: Demo) -> None:
    await stack.enter_async_context(simulation)
    await demo.begin()
    stack.push_async_callback(demo.end)


async def _recommend(surroundings: ProcessSurroundings) -> None:
    recommender = Recommender(
        surroundings.cluster,
        surroundings.usage,
        settings=RecommenderSettings(),
        clock=surroundings.clock,
    )
    await recommender.run()


async def _update(surroundings: ProcessSurroundings) -> None:
    updater = Updater(surroundings.cluster, settings=UpdaterSettings(), clock=surroundings.clock)
    await updater.run()


def _in_role(pod: Pod, role: str) -> Pod:
    return structs.replace(pod, labels={**pod.labels, ROLE_LABEL: role})
