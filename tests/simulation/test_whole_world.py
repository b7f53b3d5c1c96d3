"""Checkers and toys in a whole simulated cluster, with controllers, a scheduler and kubelets."""

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random

from simulation.toys import SELECTOR, EvictEverything, PublishTo, Toy
from support.makers.records import MIB, a_recommendation, amounts, an_autoscaler

from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.core.histogram.bank import HistogramBank
from trimtab.core.histogram.buckets import CPU_BUCKETS
from trimtab.core.histogram.checkpoint import AggregateCheckpoint
from trimtab.core.model.autoscalers import UpdateMode
from trimtab.core.model.pods import Allocation, Pod
from trimtab.simulation.checks.base import Rules
from trimtab.simulation.checks.inspector import Inspector
from trimtab.simulation.components import REAL
from trimtab.simulation.processes import ProcessSurroundings
from trimtab.simulation.simulation import Simulation
from trimtab.simulation.world.loads import Load, Wave
from trimtab.simulation.world.objects import (
    ContainerTemplate,
    NodeObject,
    PodTemplate,
    WorkloadObject,
)
from trimtab.simulation.world.virtual_time import START, run_virtually
from trimtab.simulation.world.world import World

LARGER = a_recommendation(target=amounts(200, 300 * MIB))
LOAD = Load(cpu=Wave(base=80.0), memory=Wave(base=60.0 * MIB))


def furnish(world: World, replicas: int) -> None:
    """Three nodes, a Deployment and its autoscaler."""
    for number in range(3):
        world.nodes.put(NodeObject(f"node-{number}", amounts(8000, 32_000 * MIB)))
    allocation = Allocation(amounts(100, 100 * MIB))
    template = PodTemplate({"app": "web"}, (ContainerTemplate("app", allocation, load=LOAD),))
    world.add_workload(
        WorkloadObject("default", "Deployment", "web", template, SELECTOR, replicas=replicas)
    )
    world.add_autoscaler(an_autoscaler(LARGER, created_at=None, mode=UpdateMode.RECREATE))


def broken_rules(*toys: Toy, replicas: int = 6, minutes: float = 30) -> tuple[set[str], str]:
    """The checkers that object to some toys in a cluster, and the hash of what happened."""

    async def run() -> tuple[set[str], str]:
        async with Simulation(random=Random(1)) as simulation:
            inspector = Inspector(simulation.world, Rules(status_lease=None))
            furnish(simulation.world, replicas)
            await simulation.clock.sleep(timedelta(minutes=5))
            for number, toy in enumerate(toys):
                simulation.add(f"toy-{number}", toy)
            await simulation.clock.sleep(timedelta(minutes=minutes))
            inspector.inspect()
            simulation.check()
            broken = {violation.checker for violation in inspector.violations()}
            return broken, simulation.journal.digest()

    return run_virtually(run())


@dataclass(frozen=True)
class EvictPatiently:
    """An updater that waits until all pods are ready again before it takes the next one."""

    replicas: int

    async def __call__(self, surroundings: ProcessSurroundings) -> None:
        cluster, clock = surroundings.cluster, surroundings.clock
        await cluster.synced()
        for seen in list(cluster.pods):
            while sum(map(_is_available, cluster.pods)) < self.replicas:
                await clock.sleep(timedelta(seconds=1))
            pod = cluster.pods.find(seen.namespace, seen.name)
            if pod is not None:
                await cluster.evict(pod)
            await clock.sleep(timedelta(seconds=1))


@dataclass(frozen=True)
class Count:
    """A recommender that saves how many samples it has read, each counted so many times."""

    times: int

    async def __call__(self, surroundings: ProcessSurroundings) -> None:
        cluster, clock = surroundings.cluster, surroundings.clock
        bank = HistogramBank(CPU_BUCKETS, timedelta(days=1), (0.9,))
        row = int(bank.allocate(1)[0])
        known: dict[str, float] = {}
        count = 0
        while True:
            usage = await surroundings.usage.fetch()
            for pod, time, cpu in zip(usage.pods, usage.times, usage.cpu_millicores, strict=True):
                if time > known.get(pod, 0.0):
                    known[pod] = time
                    count += self.times
                    bank.add([row] * self.times, [cpu / 1000] * self.times, 0.1, time)
            aggregate = AggregateCheckpoint(
                bank.encode(row), first_sample_start=START, total_samples_count=count
            )
            await cluster.save_checkpoint(Checkpoint("default", "web", "app", aggregate))
            await clock.sleep(timedelta(minutes=1))


def _is_available(pod: Pod) -> bool:
    return pod.ready_since is not None and not pod.is_deleting


def test_an_updater_that_evicts_everything_at_once_is_caught() -> None:
    broken, _ = broken_rules(EvictEverything())

    assert "Disruption" in broken


def test_an_updater_that_evicts_one_pod_after_the_other_is_left_alone() -> None:
    broken, _ = broken_rules(EvictPatiently(6))

    assert broken == set()


def test_f16_evictions_that_change_nothing_are_caught_in_the_end() -> None:
    async def again_and_again(surroundings: ProcessSurroundings) -> None:
        while True:
            await EvictPatiently(6)(surroundings)
            await surroundings.clock.sleep(timedelta(minutes=5))

    broken, _ = broken_rules(again_and_again, minutes=60)
    assert broken == {"EvictionLoops", "Futility"}


def test_each_sample_of_the_metrics_server_may_be_counted_once_and_not_twice() -> None:
    once, _ = broken_rules(Count(1))
    twice, _ = broken_rules(Count(2))

    assert once == set()
    assert twice == {"SamplesCountedOnce"}


def test_a_target_that_nothing_explains_is_caught() -> None:
    broken, _ = broken_rules(
        Count(1), PublishTo((replace(LARGER, target=amounts(200, 900 * MIB)),))
    )

    assert broken == {"KillsCountedOnce"}


def test_two_runs_of_the_same_toys_are_the_same_run() -> None:
    assert broken_rules(EvictEverything()) == broken_rules(EvictEverything())


async def churn() -> str:
    """The hash of half an hour of the real components, during which many pods go at once."""
    async with Simulation(random=Random(1)) as simulation:
        furnish(simulation.world, replicas=20)
        for name, component in REAL.build(simulation).items():
            simulation.add(name, component)
        for _ in range(3):
            await simulation.clock.sleep(timedelta(minutes=10))
            for pod in list(simulation.world.pods)[:12]:
                simulation.serving.delete_pod(pod)
        simulation.check()
        return simulation.journal.digest()


_PROGRAM = """
import sys; sys.path[:0] = {path!r}
from simulation.test_whole_world import churn
from trimtab.simulation.world.virtual_time import run_virtually
print(run_virtually(churn()))
"""


def test_what_the_real_components_do_does_not_depend_on_how_python_hashes() -> None:
    program = _PROGRAM.format(path=[path for path in sys.path if path])
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(digests) == 1


def test_when_a_second_copy_of_admission_ends_the_first_one_answers_again() -> None:
    async def run() -> list[int]:
        async with Simulation(random=Random(1)) as simulation:
            furnish(simulation.world, 1)
            admission = REAL.build(simulation)["admission"]
            simulation.add("admission", admission)
            copy = simulation.add("admission-copy", admission)
            await simulation.clock.sleep(timedelta(minutes=1))
            counts = [len(simulation.admitting.webhooks)]
            copy.crash()
            await simulation.clock.sleep(timedelta(minutes=1))
            return [*counts, len(simulation.admitting.webhooks)]

    assert run_virtually(run()) == [2, 1]
