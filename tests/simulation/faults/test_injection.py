import asyncio
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from random import Random

import pytest
from simulation.bare_cluster import a_node, a_workload

from trimtab.api.kinds.leases import Lease
from trimtab.cluster.errors import ClusterError
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.json_patch import Add, Patch
from trimtab.core.model.pods import Pod, PodPhase
from trimtab.simulation.faults.injection import break_now
from trimtab.simulation.faults.kinds import OF_COMPONENTS, Fault, FaultKind
from trimtab.simulation.nodes.kubelet import KubeletSettings
from trimtab.simulation.processes import ProcessSurroundings
from trimtab.simulation.scenarios import Scenario
from trimtab.simulation.simulation import Simulation
from trimtab.simulation.world.facts import Fact, FaultBegan, FaultEnded, PodCreated, ProcessCrashed
from trimtab.simulation.world.virtual_time import run_virtually

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
WANTED = {"web": 3, "db": 2}
SCENARIO = Scenario(
    seed=1,
    disturbed=timedelta(),
    settling=timedelta(),
    quiet=timedelta(),
    kubelet_period=15 * SECOND,
    nodes=tuple(a_node(f"node-{number}") for number in range(3)),
    workloads=(
        a_workload("Deployment", "web", replicas=WANTED["web"]),
        a_workload("StatefulSet", "db", replicas=WANTED["db"]),
    ),
    autoscalers=(),
)


async def look_around(surroundings: ProcessSurroundings) -> None:
    """A component that does nothing but ask for things, all the time."""
    while True:
        with suppress(ClusterError):
            await surroundings.cluster.fetch_lease("kube-system", "vpa-updater")
            await surroundings.usage.fetch()
        await surroundings.clock.sleep(timedelta(seconds=5))


async def wait(span: timedelta) -> None:
    await asyncio.sleep(span.total_seconds())


def a_fault(kind: FaultKind) -> Fault:
    target = "updater" if kind in OF_COMPONENTS else ""
    return Fault(kind, timedelta(), 10 * MINUTE, target, strength=0.5)


async def break_and_mend(kind: FaultKind) -> tuple[Simulation, list[Fact]]:
    """What is left an hour after a fault of ten minutes."""
    facts: list[Fact] = []
    kubelet = KubeletSettings(period=SCENARIO.kubelet_period)
    async with Simulation(random=Random(1), kubelet=kubelet) as simulation:
        simulation.world.subscribe(facts.append)
        simulation.furnish(SCENARIO)
        simulation.add("updater", look_around)
        await wait(10 * MINUTE)
        mend = break_now(simulation, a_fault(kind))
        await wait(10 * MINUTE)
        mend()
        await wait(60 * MINUTE)
        simulation.check()
        assert simulation.processes["updater"].is_running
        assert simulation.failures() == {}
        return simulation, facts


@pytest.mark.parametrize("kind", FaultKind)
def test_when_a_fault_has_ended_nothing_is_left_of_it(kind: FaultKind) -> None:
    simulation, facts = run_virtually(break_and_mend(kind))

    world, line = simulation.world, simulation.processes["updater"].line
    assert [type(fact) for fact in facts if isinstance(fact, FaultBegan | FaultEnded)] == [
        FaultBegan,
        FaultEnded,
    ]
    assert list(simulation.processes) == ["updater"]
    assert line.disturbances == []
    assert simulation.processes["updater"].clock.skew == timedelta()
    assert simulation.admitting.outages == 0
    assert simulation.admitting.later_webhooks == []
    assert simulation.metrics.faults == []
    assert simulation.kubelet.memory_factor == 1.0
    assert simulation.kubelet.node_resize_faults == {}
    assert simulation.gates_of("updater") == FeatureGates()
    assert len(world.quotas) == 0
    assert all(node.is_ready for node in world.nodes)
    assert {node.name: node.capacity for node in world.nodes} == simulation.capacities


@pytest.mark.parametrize(
    "kind",
    [
        FaultKind.NODE_LOST,
        FaultKind.ROLLOUT,
        FaultKind.POD_DELETED,
        FaultKind.QUOTA_FULL,
        FaultKind.POD_COPIED,
        FaultKind.SCALED,
    ],
)
def test_the_cluster_brings_its_pods_back_when_a_fault_has_ended(kind: FaultKind) -> None:
    simulation, _ = run_virtually(break_and_mend(kind))

    ready = [
        pod for pod in simulation.world.pods if pod.phase is PodPhase.RUNNING and pod.ready_since
    ]
    assert Counter(pod.labels["app"] for pod in ready) == WANTED


@pytest.mark.parametrize("kind", [FaultKind.CRASH, FaultKind.CRASH_LOOP])
def test_a_component_that_crashes_does_so_at_one_of_its_requests(kind: FaultKind) -> None:
    _, facts = run_virtually(break_and_mend(kind))

    crashes = [fact for fact in facts if isinstance(fact, ProcessCrashed) and fact.during]
    assert {crash.during for crash in crashes} <= {
        "fetch lease kube-system/vpa-updater",
        "list pods.metrics.k8s.io",
    }
    assert (len(crashes) > 1) is (kind is FaultKind.CRASH_LOOP)
    assert crashes


def test_a_component_that_asked_nothing_while_it_should_crash_does_not_crash_later() -> None:
    async def run() -> bool:
        async with Simulation(random=Random(1)) as simulation:
            simulation.furnish(SCENARIO)
            simulation.add("updater", look_around)
            # Over before the component asks for anything.
            break_now(simulation, a_fault(FaultKind.CRASH))()
            await wait(60 * MINUTE)
            return simulation.processes["updater"].is_running

    assert run_virtually(run())


def test_two_faults_of_one_kind_end_one_by_one() -> None:
    async def run() -> list[bool]:
        async with Simulation(random=Random(1)) as simulation:
            simulation.add("updater", look_around)
            one = break_now(simulation, a_fault(FaultKind.CUT_OFF))
            other = break_now(simulation, a_fault(FaultKind.CUT_OFF))
            line = simulation.processes["updater"].line
            seen = [line.is_cut]
            one()
            seen.append(line.is_cut)
            other()
            return [*seen, line.is_cut]

    assert run_virtually(run()) == [True, True, False]


def test_a_lease_of_the_component_is_in_other_hands() -> None:
    async def run() -> list[str]:
        async with Simulation(random=Random(1)) as simulation:
            simulation.add("updater", look_around)
            leases = simulation.world.leases
            for name, holder in (("vpa-updater", "updater_trimtab"), ("other", "another")):
                leases.put(Lease("kube-system", name, holder=holder))
            break_now(simulation, a_fault(FaultKind.LOST_LEASE))
            return [lease.holder for lease in leases]

    assert run_virtually(run()) == ["thief", "another"]


def test_a_component_restarts_with_its_gate_off_and_with_its_gate_on() -> None:
    async def run() -> list[bool]:
        seen: list[bool] = []
        async with Simulation(random=Random(1)) as simulation:

            async def look_at_gates(surroundings: ProcessSurroundings) -> None:
                seen.append(simulation.gates_of("updater").cpu_startup_boost)
                await look_around(surroundings)

            simulation.add("updater", look_at_gates)
            await wait(MINUTE)
            mend = break_now(simulation, a_fault(FaultKind.GATE_OFF))
            await wait(MINUTE)
            mend()
            await wait(MINUTE)
        return seen

    assert run_virtually(run()) == [True, False, True]


def test_no_kubelet_resizes_a_pod_while_resizes_are_refused() -> None:
    async def run() -> list[bool]:
        async with Simulation(random=Random(1)) as simulation:
            simulation.furnish(SCENARIO)
            await wait(10 * MINUTE)
            fault = Fault(FaultKind.RESIZES_REFUSED, timedelta(), MINUTE, strength=1.0)
            mend = break_now(simulation, fault)
            pod = next(iter(simulation.world.pods))
            patch = (Add("/spec/containers/0/resources/requests/cpu", "200m"),)
            simulation.serving.resize("updater", pod, patch)
            await wait(5 * MINUTE)
            seen = [_has_what_it_asks_for(simulation, pod)]
            mend()
            await wait(5 * MINUTE)
            return [*seen, _has_what_it_asks_for(simulation, pod)]

    assert run_virtually(run()) == [False, True]


def _has_what_it_asks_for(simulation: Simulation, pod: Pod) -> bool:
    current = simulation.world.pods.find(pod.namespace, pod.name)
    assert current is not None
    return all(each.status == each.spec for each in current.containers)


def test_a_copied_pod_shows_the_status_of_another_one_to_the_webhook_only() -> None:
    async def run() -> tuple[list[bool], list[object]]:
        seen: list[bool] = []
        facts: list[Fact] = []

        async def webhook(pod: Pod) -> Patch:
            seen.append(pod.containers[0].status is not None)
            return ()

        async with Simulation(random=Random(1)) as simulation:
            simulation.furnish(SCENARIO)
            await wait(10 * MINUTE)
            simulation.admitting.webhooks.append(webhook)
            simulation.world.subscribe(facts.append)
            break_now(simulation, a_fault(FaultKind.POD_COPIED))
            await wait(SECOND)
        created = [fact.pod for fact in facts if isinstance(fact, PodCreated)]
        return seen, [pod.containers[0].status for pod in created]

    assert run_virtually(run()) == ([True], [None])
