"""What the updater's planning costs: so many autoscalers, with two pods each.

    python -m bench.planning

A plan is the pure call. A turn is all that the updater does up to the first request: it looks at
its stores, plans, and takes one task after the other from its agenda, which here it may not carry
out. Both are measured where nothing is to be done and where every pod is to be changed: for the
first time, again with nothing new, and again after the status of every autoscaler was written.
CPU milliseconds of this process are counted, each the median of some rounds; a round goes through
all sizes, so that a machine which gets slower meanwhile does not look like a cost that grows.

Writes `results/planning.json` and the page of benchmarks.
"""

import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Final

from bench import page, scoring
from bench.telling import say
from rig.progress import format_span
from trimtab.cli.runtime import process
from trimtab.core.model.autoscalers import (
    Autoscaler,
    Condition,
    ContainerRecommendation,
    TargetReference,
    UpdateMode,
)
from trimtab.core.model.pods import Allocation, Container, OwnerReference, Pod, PodPhase
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.model.selectors import Selector, equality
from trimtab.core.updates.plan import Planner
from trimtab.simulation.api_server import connection as lines
from trimtab.simulation.api_server.port import SimulatedCluster
from trimtab.simulation.api_server.writes import Serving
from trimtab.simulation.world.objects import PodTemplate, WorkloadObject
from trimtab.simulation.world.virtual_time import VirtualClock, run_virtually
from trimtab.simulation.world.world import World
from trimtab.updater.controller import Updater
from trimtab.updater.observe import Observer
from trimtab.updater.settings import UpdaterSettings
from trimtab.updater.state import UpdaterMemory

RESULTS: Final = Path(__file__).parent / "results/planning.json"
SIZES: Final = (100, 1_000, 3_000)
PODS_EACH: Final = 2
ROUNDS: Final = 9
SPACE: Final = "bench"
MIB: Final = 1024 * 1024
ENOUGH: Final = {Resource.CPU: 500, Resource.MEMORY: 512 * MIB}
LITTLE: Final = {Resource.CPU: 100, Resource.MEMORY: 128 * MIB}
MODES: Final = (UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE)
SETTINGS: Final = UpdaterSettings(uses_admission_status=False)


@dataclass(frozen=True, slots=True)
class Costs:
    """CPU milliseconds."""

    first: float
    again: float
    """Nothing has changed since."""
    rewritten: float
    """The status of every autoscaler was written since."""


def furnish(world: World, autoscalers: int, has: Resources) -> None:
    """A cluster of Deployments with two pods each, which have this much."""
    # Stores keep equal amounts only once.
    allocation = Allocation(has)
    for number in range(autoscalers):
        name, labels = f"web-{number}", {"app": f"web-{number}"}
        template, selector = PodTemplate(labels, ()), Selector((equality("app", name),))
        deployment = world.add_workload(
            WorkloadObject(SPACE, "Deployment", name, template, selector, replicas=PODS_EACH)
        )
        owner = OwnerReference("Deployment", name, "apps/v1", deployment.uid)
        owned = replace(deployment, kind="ReplicaSet", owner=owner)
        replica_set = world.add_workload(owned)
        for replica in range(PODS_EACH):
            world.pods.put(_a_pod(world, f"{name}-{replica}", labels, replica_set, allocation))
        world.add_autoscaler(_an_autoscaler(name, MODES[number % len(MODES)]))


def rewrite(world: World, message: str) -> None:
    """Write a condition of every autoscaler anew."""
    for autoscaler in world.autoscalers:
        condition = Condition("RecommendationProvided", "True", message=message)
        world.autoscalers.put(replace(autoscaler, conditions=(condition,)))


async def measure(autoscalers: int, has: Resources) -> tuple[Costs, Costs]:
    """What a plan costs, and what a turn of the updater costs."""
    world = World(clock=VirtualClock(), random=Random(1))
    furnish(world, autoscalers, has)
    serving, line = Serving(world), lines.SimulatedConnection("updater", Random(1))
    cluster = SimulatedCluster(world, serving, line, clock=world.clock)
    await cluster.synced()
    process.collect_garbage()

    async def change() -> None:
        rewrite(world, f"at {world.now()}")
        await asyncio.sleep(1)

    return (
        await _measure(_planning(cluster, world), change),
        await _measure(_turning(cluster, world), change),
    )


def _planning(cluster: SimulatedCluster, world: World) -> Callable[[], Awaitable[float]]:
    planner = Planner(SETTINGS.plan)
    observer = Observer(cluster, SETTINGS, UpdaterMemory())

    async def plan() -> float:
        seen = await observer.observe(world.now(), admission_alive=True)
        begin = time.process_time()
        planner.plan(seen.snapshot, world.now())
        return time.process_time() - begin

    return plan


def _turning(cluster: SimulatedCluster, world: World) -> Callable[[], Awaitable[float]]:
    updater = Updater(cluster, settings=SETTINGS, clock=world.clock, may_act=lambda: False)

    async def turn() -> float:
        begin = time.process_time()
        await updater.tick()
        return time.process_time() - begin

    return turn


async def _measure(
    cost: Callable[[], Awaitable[float]], change: Callable[[], Awaitable[None]]
) -> Costs:
    first, again = await cost(), await cost()
    await change()
    return Costs(1000 * first, 1000 * again, 1000 * await cost())


def _an_autoscaler(name: str, mode: UpdateMode) -> Autoscaler:
    most = {kind: 2 * amount for kind, amount in ENOUGH.items()}
    least = {kind: amount // 2 for kind, amount in ENOUGH.items()}
    entry = ContainerRecommendation("app", ENOUGH, least, most, ENOUGH)
    target = TargetReference("Deployment", name, "apps/v1")
    return Autoscaler(SPACE, name, target=target, mode=mode, recommendation=(entry,))


def _a_pod(
    world: World,
    name: str,
    labels: dict[str, str],
    owner: WorkloadObject,
    allocation: Allocation,
) -> Pod:
    container = Container("app", spec=allocation, status=allocation, is_running=True)
    long_ago = world.now() - timedelta(days=1)
    return Pod(
        SPACE,
        name,
        uid=world.new_uid(),
        labels=labels,
        owner=OwnerReference(owner.kind, owner.name, owner.api_version, owner.uid),
        phase=PodPhase.RUNNING,
        containers=(container,),
        created_at=long_ago,
        started_at=long_ago,
        ready_since=long_ago,
    )


@dataclass(frozen=True, slots=True)
class Line:
    """What was measured of plans, or of turns, of one size."""

    autoscalers: int
    to_be_changed: str
    what: str
    costs: Costs


def measure_all() -> Iterator[Line]:
    """One round of everything, the smallest first."""
    for autoscalers in SIZES:
        for title, has in (("nothing", ENOUGH), ("all", LITTLE)):
            costs = run_virtually(measure(autoscalers, has))
            for what, cost in zip(("plan", "turn"), costs, strict=True):
                yield Line(autoscalers, title, what, cost)


def take_medians(rounds: Sequence[Sequence[Line]]) -> Iterator[Line]:
    """Each line of all rounds, with the medians of its costs."""
    for same in zip(*rounds, strict=True):
        costs = zip(*(astuple(line.costs) for line in same), strict=True)
        yield replace(same[0], costs=Costs(*map(statistics.median, costs)))


def main() -> None:
    """Measure, and write down what plans and turns cost."""
    gc.set_threshold(*process.GARBAGE_THRESHOLDS)
    began, rounds = time.monotonic(), []
    for number in range(1, ROUNDS + 1):
        rounds.append(list(measure_all()))
        say(f"round {number} of {ROUNDS}, {format_span(time.monotonic() - began)} so far")
    lines = [asdict(line) for line in take_medians(rounds)]
    scoring.write_json(RESULTS, {"rounds": ROUNDS, "lines": lines})
    page.write()


if __name__ == "__main__":
    main()
