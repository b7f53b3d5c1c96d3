"""Startup boosts under limit ranges and quotas: the real admission controller and updater."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import pairwise
from random import Random

import pytest
from simulation.toys import SELECTOR
from support.makers.records import MIB, a_recommendation, amounts, an_autoscaler

from trimtab.core.changes.change import Thresholds
from trimtab.core.model.autoscalers import Autoscaler, CpuBoost, UpdateMode
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import Allocation, Pod
from trimtab.core.model.resources import Resource
from trimtab.core.sizing.startup_boost import boosted_containers
from trimtab.simulation.components import run_admission, run_updater
from trimtab.simulation.simulation import Simulation
from trimtab.simulation.world.limit_ranges import completed
from trimtab.simulation.world.loads import Load, Wave
from trimtab.simulation.world.objects import (
    ContainerTemplate,
    LimitRange,
    NodeObject,
    PodTemplate,
    QuotaObject,
    WorkloadObject,
)
from trimtab.simulation.world.virtual_time import run_virtually
from trimtab.simulation.world.world import World
from trimtab.updater.settings import UpdaterSettings

HALF = amounts(500, 100 * MIB)
LOAD = Load(cpu=Wave(base=80.0), memory=Wave(base=60.0 * MIB))
TRIPLE = CpuBoost(factor=3, duration=timedelta(seconds=30))
LESS = a_recommendation(
    target=amounts(400, 100 * MIB),
    lower=amounts(300, 100 * MIB),
    upper=amounts(450, 100 * MIB),
)
QUICK = UpdaterSettings(
    plan=replace(UpdaterSettings().plan, thresholds=Thresholds(lifetime=timedelta()))
)


def bound(of: LimitRangeType) -> Callable[[World], object]:
    item = LimitRangeItem(of, max=amounts(1000))
    return lambda world: world.limit_ranges.put(completed(LimitRange("default", "small", (item,))))


def quota(millicores: int) -> Callable[[World], object]:
    return lambda world: world.quotas.put(QuotaObject("default", "team", amounts(millicores)))


def deploy(world: World, autoscaler: Autoscaler) -> None:
    template = PodTemplate(
        {"app": "web"}, (ContainerTemplate("app", Allocation(HALF, HALF), load=LOAD),)
    )
    world.add_autoscaler(autoscaler)
    world.add_workload(
        WorkloadObject("default", "Deployment", "web", template, SELECTOR, replicas=4)
    )


def ready(world: World) -> list[Pod]:
    found = [pod for pod in world.pods if pod.labels.get("app") == "web"]
    return [pod for pod in found if pod.ready_since is not None and not pod.is_deleting]


def millicores(pod: Pod) -> int:
    return (pod.containers[0].spec.requests or {})[Resource.CPU]


async def a_namespace(simulation: Simulation, furnish: Callable[[World], object]) -> None:
    """Nodes, what bounds pods, and an admission controller that answers."""
    for number in range(3):
        simulation.world.nodes.put(NodeObject(f"node-{number}", amounts(8000, 32_000 * MIB)))
    furnish(simulation.world)
    simulation.add("admission", partial(run_admission, simulation.admitting))
    await simulation.clock.sleep(timedelta(seconds=30))


@pytest.mark.parametrize(
    ("furnish", "least_boosted"),
    [
        pytest.param(bound(LimitRangeType.CONTAINER), 4, id="a limit range for containers"),
        pytest.param(bound(LimitRangeType.POD), 4, id="a limit range for pods"),
        pytest.param(quota(2000), 0, id="a quota that is full without boosts"),
        pytest.param(quota(3000), 1, id="a quota with some room"),
        pytest.param(quota(9000), 4, id="a quota with a lot of room"),
    ],
)
def test_d19_all_pods_of_a_boosted_workload_come_up_at_once(
    furnish: Callable[[World], object], least_boosted: int
) -> None:
    async def scene() -> None:
        async with Simulation(random=Random(1)) as simulation:
            await a_namespace(simulation, furnish)
            world = simulation.world
            deploy(world, an_autoscaler(created_at=None, mode=UpdateMode.OFF, boost=TRIPLE))
            await simulation.clock.sleep(timedelta(seconds=20))
            pods = [pod for pod in world.pods if pod.labels.get("app") == "web"]
            boosted = sum(bool(boosted_containers(pod)) for pod in pods)
            await simulation.clock.sleep(timedelta(minutes=3))
            simulation.check()

            assert len(pods) == len(ready(world)) == 4
            assert boosted >= least_boosted

    run_virtually(scene())


def test_d19_boosted_successors_do_not_shrink_a_workload_in_a_tight_quota() -> None:
    async def scene() -> list[set[str]]:
        async with Simulation(random=Random(1)) as simulation:
            await a_namespace(simulation, quota(2000))
            world = simulation.world
            autoscaler = an_autoscaler(created_at=None, mode=UpdateMode.OFF)
            deploy(world, autoscaler)
            await simulation.clock.sleep(timedelta(minutes=5))
            assert [millicores(pod) for pod in ready(world)] == [500] * 4
            found = world.autoscalers.find("default", autoscaler.name)
            assert found is not None
            world.autoscalers.put(
                replace(found, mode=UpdateMode.RECREATE, boost=TRIPLE, recommendation=(LESS,))
            )
            simulation.add("updater", partial(run_updater, settings=QUICK))
            samples = []
            for _ in range(120):
                await simulation.clock.sleep(timedelta(seconds=30))
                samples.append({pod.name for pod in ready(world)})
            simulation.check()

            assert [millicores(pod) for pod in ready(world)] == [400] * 4
            return samples

    samples = run_virtually(scene())

    # One pod at a time, and never two samples in a row without its successor.
    assert min(map(len, samples)) >= 3
    assert all(len(one) == 4 or one != other for one, other in pairwise(samples))
