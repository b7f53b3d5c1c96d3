"""Components that are restarted together, or run twice, in a simulated cluster."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from simulation.incidents import a_container, a_scenario, a_workload, an_autoscaler
from support.makers.records import MIB, amounts

from trimtab.recommender.controller import Recommender
from trimtab.simulation.checks.base import Rules
from trimtab.simulation.checks.inspector import Inspector
from trimtab.simulation.components import _RECOMMENDER, REAL, USAGE, Stack
from trimtab.simulation.nodes.kubelet import KubeletSettings
from trimtab.simulation.processes import Component, ProcessSurroundings
from trimtab.simulation.scenarios import Scenario
from trimtab.simulation.simulation import Simulation
from trimtab.simulation.world.facts import Fact, PodEvicted
from trimtab.simulation.world.loads import constant
from trimtab.simulation.world.virtual_time import run_virtually

MINUTE = timedelta(minutes=1)


def a_full_cluster(workloads: int, hours: float) -> Scenario:
    """Nodes whose room is requested to nine tenths by pods that use a quarter of it."""
    made = [
        a_workload(
            a_container(
                amounts(900, 3000 * MIB), constant(cpu_millicores=200, memory_bytes=800 * MIB)
            ),
            name=f"web-{number}",
            replicas=4,
        )
        for number in range(workloads)
    ]
    autoscalers = [an_autoscaler(each) for each in made]
    return a_scenario(made, autoscalers, seed=17, hours=hours, nodes=workloads // 2 + 1)


async def play(
    scenario: Scenario, stack: Stack, restart_at: tuple[timedelta, ...] = ()
) -> tuple[list[PodEvicted], list[str]]:
    """The evictions, and the rules that were broken."""
    evictions: list[PodEvicted] = []
    pending = [*restart_at]

    def note(fact: Fact) -> None:
        if isinstance(fact, PodEvicted):
            evictions.append(fact)

    kubelet = KubeletSettings(period=scenario.kubelet_period)
    async with Simulation(random=Random(scenario.seed), kubelet=kubelet) as simulation:
        simulation.world.subscribe(note)
        inspector = Inspector(simulation.world, Rules(usage=USAGE))
        simulation.furnish(scenario)
        for name, component in stack.build(simulation).items():
            simulation.add(name, component)
        while simulation.clock.elapsed() < scenario.disturbed:
            await simulation.clock.sleep(MINUTE)
            simulation.check()
            inspector.inspect()
            if pending and simulation.clock.elapsed() >= pending[0]:
                del pending[0]
                for name in ("recommender", "updater"):
                    simulation.processes[name].crash()
                await simulation.clock.sleep(timedelta(seconds=1))
                for name in ("recommender", "updater"):
                    simulation.processes[name].start()
        return evictions, [str(each) for each in inspector.violations()]


def test_f17_recommender_and_updater_restarted_on_a_full_cluster_keep_the_pace() -> None:
    restarts = (40 * MINUTE, 44 * MINUTE)
    evictions, violations = run_virtually(play(a_full_cluster(30, 1.2), REAL, restarts))
    # The surge guard holds all 120 pods until the first restart, which forgets what was usual.
    first = evictions[0].at
    minutes = Counter((each.at - first) // MINUTE for each in evictions)

    assert violations == []
    assert len(evictions) == 120
    # A tenth of one a second in the first minute after each start, then a little more.
    assert minutes[0] <= 8
    assert min(minutes[minute] for minute in (4, 5)) <= 8 < minutes[3]
    assert max(minutes.values()) <= 60


async def recommend_without_lease(surroundings: ProcessSurroundings) -> None:
    """A recommender that takes part in no election."""
    recommender = Recommender(
        surroundings.cluster, surroundings.usage, settings=_RECOMMENDER, clock=surroundings.clock
    )
    await recommender.run()


def two_recommenders() -> Stack:
    def build(simulation: Simulation) -> Mapping[str, Component]:
        others = {**REAL.build(simulation)}
        del others["recommender"]
        return {
            "recommender": recommend_without_lease,
            "other-recommender": recommend_without_lease,
            **others,
        }

    return Stack(("recommender", "other-recommender", "updater", "admission"), build)


def test_f18_two_recommenders_without_leases_lead_to_no_double_eviction() -> None:
    evictions, violations = run_virtually(play(a_full_cluster(6, 2), two_recommenders()))
    evicted = Counter(each.pod.uid for each in evictions)
    workloads = Counter(each.pod.labels["app"] for each in evictions)

    assert violations == []
    assert workloads
    assert set(evicted.values()) == {1}
    # Each of the four pods of a workload comes to its size once.
    assert max(workloads.values()) <= 4


async def play_deletion(scenario: Scenario, away: timedelta) -> list[str]:
    """Return the rules that were broken around a restart and an autoscaler that is replaced."""
    kubelet = KubeletSettings(period=scenario.kubelet_period)
    async with Simulation(random=Random(scenario.seed), kubelet=kubelet) as simulation:
        world, clock = simulation.world, simulation.clock
        inspector = Inspector(world, Rules(usage=USAGE))
        simulation.furnish(scenario)
        for name, component in REAL.build(simulation).items():
            simulation.add(name, component)

        async def watch(until: timedelta) -> None:
            while clock.elapsed() < until:
                await clock.sleep(MINUTE / 2)
                simulation.check()
                inspector.inspect()

        await watch(30 * MINUTE)
        simulation.processes["recommender"].crash()
        await watch(31 * MINUTE)
        simulation.processes["recommender"].start()
        await watch(65 * MINUTE)
        (deleted,) = world.autoscalers
        world.autoscalers.delete(deleted.namespace, deleted.name)
        await watch(65 * MINUTE + away)
        world.add_autoscaler(replace(deleted, recommendation=None, conditions=()))
        await watch(scenario.disturbed)
        return [str(each) for each in inspector.violations()]


@pytest.mark.parametrize(
    "away",
    [
        pytest.param(2 * MINUTE, id="for two minutes"),
        pytest.param(4 * MINUTE, id="for four minutes"),
        pytest.param(25 * MINUTE, id="until its checkpoint is gone"),
    ],
)
def test_an_autoscaler_created_again_after_a_restart_counts_no_sample_twice(
    away: timedelta,
) -> None:
    load = constant(cpu_millicores=300, memory_bytes=100 * MIB)
    workload = a_workload(a_container(amounts(500, 200 * MIB), load))
    scenario = a_scenario([workload], [an_autoscaler(workload)], seed=1, hours=2)

    assert run_virtually(play_deletion(scenario, away)) == []
