"""What a simulated day costs: a thousand pods, one look a minute, all components running.

    python -m bench.simulation

Once the components run with their own settings, and once as in `make sim`, where half an hour is a
day to them: then requests follow the load, and every pod is resized several times a day.

CPU seconds of this process are counted, not the time on the wall, so that other work on the machine
does not matter much.
"""

import argparse
import asyncio
import gc
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from random import Random

from trimtab.cli.runtime.process import GARBAGE_THRESHOLDS
from trimtab.core.model.autoscalers import Autoscaler, TargetReference, UpdateMode
from trimtab.core.model.pods import Allocation
from trimtab.core.model.resources import Resource
from trimtab.core.model.selectors import Selector, equality
from trimtab.recommender.settings import RecommenderSettings
from trimtab.simulation.components import REAL, Stack, run_recommender, run_updater
from trimtab.simulation.processes import Component
from trimtab.simulation.simulation import Simulation
from trimtab.simulation.world import loads
from trimtab.simulation.world.objects import (
    ContainerTemplate,
    NodeObject,
    PodTemplate,
    WorkloadObject,
)
from trimtab.simulation.world.virtual_time import run_virtually
from trimtab.updater.settings import UpdaterSettings

MIB = 1024 * 1024
NONE = Stack((), lambda _simulation: {})


def as_installed(simulation: Simulation) -> Mapping[str, Component]:
    """All components with their own defaults, for which a day is a day."""
    return {
        **REAL.build(simulation),
        "recommender": partial(run_recommender, settings=RecommenderSettings()),
        "updater": partial(run_updater, settings=UpdaterSettings()),
    }


STACKS = (
    ("the cluster alone", NONE),
    ("with all components as they are installed", Stack(REAL.names, as_installed)),
    ("with all components, in a hurry", REAL),
)


def furnish(simulation: Simulation, workloads: int, replicas: int) -> None:
    """A cluster of Deployments with one container each, and an autoscaler for each of them."""
    world = simulation.world
    for number in range(max(1, workloads * replicas // 100)):
        capacity = {Resource.CPU: 64_000, Resource.MEMORY: 256 * 1024 * MIB}
        world.nodes.put(NodeObject(f"node-{number}", capacity))
    for number in range(workloads):
        name = f"web-{number}"
        allocation = Allocation({Resource.CPU: 200, Resource.MEMORY: 300 * MIB})
        load = loads.office_day(cpu_millicores=150.0, memory_bytes=200.0 * MIB)
        container = ContainerTemplate("app", allocation, load=load)
        selector = Selector((equality("app", name),))
        template = PodTemplate({"app": name}, (container,))
        world.add_workload(
            WorkloadObject("bench", "Deployment", name, template, selector, replicas=replicas)
        )
        target = TargetReference("Deployment", name, "apps/v1")
        mode = UpdateMode.IN_PLACE_OR_RECREATE
        world.add_autoscaler(Autoscaler("bench", name, target=target, mode=mode))


async def live(stack: Stack, workloads: int, replicas: int, span: timedelta) -> int:
    """How many pods ran at the end of the span."""
    async with Simulation(random=Random(1)) as simulation:
        furnish(simulation, workloads, replicas)
        for name, component in stack.build(simulation).items():
            simulation.add(name, component)
        await asyncio.sleep(span.total_seconds())
        simulation.check()
        return len(simulation.world.pods)


def main() -> None:
    """Print the CPU seconds of a day, without and with components."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", type=int, default=100)
    parser.add_argument("--replicas", type=int, default=10)
    parser.add_argument("--hours", type=float, default=24.0)
    given = parser.parse_args()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    for name, stack in STACKS:
        begin = time.process_time()
        span = timedelta(hours=given.hours)
        pods = run_virtually(live(stack, given.workloads, given.replicas, span))
        spent = time.process_time() - begin
        sys.stdout.write(f"{name}: {pods} pods for {span}: {spent:.1f} CPU seconds\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
