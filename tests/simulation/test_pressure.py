"""Signals of pressure on the whole stack: capped containers climb out, and nothing ratchets."""

from collections.abc import Sequence
from datetime import timedelta
from random import Random

import pytest
from simulation.toys import SELECTOR
from support.makers.records import MIB, amounts, an_autoscaler

from trimtab.core.model.autoscalers import UpdateMode
from trimtab.core.model.estimation import Estimator
from trimtab.core.model.pods import Allocation
from trimtab.core.model.resources import Resource
from trimtab.simulation.components import DAY, Stack, with_estimator, with_pressure
from trimtab.simulation.simulation import Simulation
from trimtab.simulation.world.loads import Load, Trace, Wave
from trimtab.simulation.world.objects import (
    ContainerTemplate,
    NodeObject,
    PodTemplate,
    WorkloadObject,
)
from trimtab.simulation.world.virtual_time import run_virtually

GIB = 1024 * MIB
WITH, WITHOUT = with_pressure(Estimator.COST), with_estimator(Estimator.COST)
# On average below its limit of one core, and twice as much as it in half of the time.
BURSTY = Load(cpu=Wave(base=1300), memory=Wave(base=300 * MIB), uneven=0.6)
CROWDED = Load(cpu=Wave(base=100), memory=Wave(base=7.6 * GIB))


async def sizes(stack: Stack, load: Load, resource: Resource, span: timedelta) -> Sequence[int]:
    """Return the limit that a pod has, minute by minute; it starts at one core and 8 GiB."""
    async with Simulation(random=Random(7)) as simulation:
        world, size = simulation.world, amounts(1000, 8 * GIB)
        world.nodes.put(NodeObject("node-0", amounts(32_000, 128 * GIB)))
        program = ContainerTemplate("app", Allocation(size, dict(size)), load=load)
        template = PodTemplate({"app": "web"}, (program,))
        world.add_workload(
            WorkloadObject("default", "Deployment", "web", template, SELECTOR, replicas=1)
        )
        world.add_autoscaler(an_autoscaler(mode=UpdateMode.IN_PLACE))
        for name, component in stack.build(simulation).items():
            simulation.add(name, component)
        seen: list[int] = []
        while simulation.clock.elapsed() < span:
            await simulation.clock.sleep(timedelta(minutes=1))
            simulation.check()
            (pod,) = world.pods
            seen.append((pod.containers[0].current.limits or {})[resource])
        return seen


def limits(stack: Stack, load: Load, resource: Resource, hours: float) -> Sequence[int]:
    return run_virtually(sizes(stack, load, resource, timedelta(hours=hours)))


def minutes_until(seen: Sequence[int], size: int) -> int:
    return next(minute for minute, each in enumerate(seen) if each >= size)


def test_a_throttled_container_climbs_out_only_with_signals() -> None:
    climbed = limits(WITH, BURSTY, Resource.CPU, 3)
    stayed = limits(WITHOUT, BURSTY, Resource.CPU, 3)

    assert stayed[-1] < 1000
    assert climbed[-1] > 1500


def test_a_container_at_its_limit_climbs_out_faster_with_signals() -> None:
    # Quiet for five days of half an hour, as a history that one hour cannot outweigh.
    trace = Trace((*[500.0] * 30, *[3000.0] * 30), (300.0 * MIB,) * 60)
    climbed, later = (
        limits(stack, Load(trace=trace), Resource.CPU, 4) for stack in (WITH, WITHOUT)
    )

    assert minutes_until(climbed, 3000) < minutes_until(later, 3000)


@pytest.mark.parametrize(
    ("load", "resource", "most"),
    [
        pytest.param(BURSTY, Resource.CPU, 1.6 * 1300 * 1.5, id="CPU"),
        pytest.param(CROWDED, Resource.MEMORY, 7.6 * GIB * 1.5, id="memory"),
    ],
)
def test_signals_that_last_for_days_do_not_ratchet(
    load: Load, resource: Resource, most: float
) -> None:
    seen = limits(WITH, load, resource, 6 * DAY / timedelta(hours=1))

    assert max(seen) <= most
    # Once it has enough, its size stays: no signal raises and lowers it in turns.
    assert len(set(seen[len(seen) // 2 :])) <= 3
