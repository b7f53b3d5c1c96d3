"""A simulation: the world, its own machinery, and the components that act on it."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from random import Random
from types import TracebackType
from typing import Self

from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.resources import Resources
from trimtab.simulation.api_server.admission import Admitting
from trimtab.simulation.api_server.writes import Serving
from trimtab.simulation.controllers.manager import Controllers
from trimtab.simulation.nodes.kubelet import Kubelet, KubeletSettings
from trimtab.simulation.nodes.metrics_server import Metrics
from trimtab.simulation.nodes.scheduler import Scheduler
from trimtab.simulation.processes import Component, Process
from trimtab.simulation.scenarios import Scenario
from trimtab.simulation.world.journal import Journal
from trimtab.simulation.world.virtual_time import VirtualClock
from trimtab.simulation.world.world import World


class Simulation:
    """A simulated cluster that runs as long as its context is open."""

    def __init__(self, *, random: Random, kubelet: KubeletSettings | None = None) -> None:
        self.random = random
        self.clock = VirtualClock()
        self.world = World(clock=self.clock, random=Random(self.random.getrandbits(64)))
        self.journal = Journal(self.world)
        self.serving = Serving(self.world)
        self.admitting = Admitting(self.world)
        self.scheduler = Scheduler(self.world)
        self.kubelet = Kubelet(self.world, self.serving, kubelet or KubeletSettings())
        self.metrics = Metrics(self.kubelet)
        self.processes: dict[str, Process] = {}
        self.capacities = dict[str, Resources]()
        """Capacity of each node without faults."""
        self.gates_off: Counter[str] = Counter()
        """Number of active faults, by component, that switch its gate of startup boosts off."""
        self._controllers = Controllers(self.world, self.serving, self.admitting)
        self._running: asyncio.Task[None] | None = None
        self._broken: list[BaseException] = []

    async def __aenter__(self) -> Self:
        asyncio.get_running_loop().set_exception_handler(self._note_failure)
        self.scheduler.start()
        self.kubelet.start()
        self._running = asyncio.create_task(self._controllers.run())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self.processes.values():
            process.crash()
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running

    def add(self, name: str, component: Component) -> Process:
        """Start a new copy of a component and return it."""
        process = Process(
            name, component, world=self.world, serving=self.serving, usage=self.metrics.source
        )
        self.processes[name] = process
        process.start()
        return process

    def gates_of(self, name: str) -> FeatureGates:
        """Return the feature gates with which a component starts now."""
        return FeatureGates(cpu_startup_boost=not self.gates_off[name])

    def furnish(self, scenario: Scenario) -> None:
        """Create all objects of a scenario in the world."""
        world = self.world
        for node in scenario.nodes:
            world.nodes.put(node)
            self.capacities[node.name] = node.capacity
        for limit_range in scenario.limit_ranges:
            world.limit_ranges.put(limit_range)
        for quota in scenario.quotas:
            world.quotas.put(quota)
        for budget in scenario.budgets:
            world.budgets.put(budget)
        for scaler in scenario.scalers:
            world.scalers.put(scaler)
        for workload in scenario.workloads:
            world.add_workload(workload)
        for autoscaler in scenario.autoscalers:
            world.add_autoscaler(autoscaler)

    def check(self) -> None:
        """Raise the first error of the simulation itself, if there is one."""
        ended = self._running is not None and self._running.done()
        if ended and self._running is not None and not self._running.cancelled():
            self._running.result()
        if self._broken:
            raise self._broken[0]

    def failures(self) -> Mapping[str, BaseException]:
        """Return the errors that ended components, which should run forever."""
        ended = {name: process.failure() for name, process in self.processes.items()}
        return {name: failure for name, failure in ended.items() if failure is not None}

    def _note_failure(
        self, loop: asyncio.AbstractEventLoop, context: dict[str, BaseException]
    ) -> None:
        error = context.get("exception")
        if error is None:
            loop.default_exception_handler(context)
        else:
            self._broken.append(error)
