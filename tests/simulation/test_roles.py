"""The role keeper in bad days: leases change hands, everything breaks, and never two pods lead."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random

import pytest
from msgspec import structs
from simulation.bare_cluster import virtually
from simulation.toys import SELECTOR
from support.makers.records import MIB, a_recommendation, amounts, an_autoscaler

from trimtab.core.model.autoscalers import Autoscaler, TargetReference, UpdateMode
from trimtab.core.model.pods import Allocation, Pod
from trimtab.core.model.resources import Resource
from trimtab.core.model.selectors import LabelRequirement, Operator, Selector, equality
from trimtab.core.roles import Role
from trimtab.simulation.components import Stack, run_roles
from trimtab.simulation.controllers.leader_election import DURATION, Elections, identity, members
from trimtab.simulation.faults.kinds import OF_COMPONENTS, FaultKind, draw_faults
from trimtab.simulation.processes import Component, ProcessSurroundings
from trimtab.simulation.run import RunReport, run_scenario
from trimtab.simulation.scenarios import Scenario
from trimtab.simulation.simulation import Simulation
from trimtab.simulation.world.objects import (
    ContainerTemplate,
    NodeObject,
    PodTemplate,
    WorkloadObject,
)
from trimtab.simulation.world.virtual_time import run_virtually
from trimtab.updater.controller import Updater
from trimtab.updater.settings import UpdaterSettings

ROLE = Role()
CPU = Resource.CPU
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
OF_CLUSTER = {FaultKind.NODE_LOST, FaultKind.POD_DELETED, FaultKind.ROLLOUT}
# A crash may come after its time, and then nobody starts the component again.
FAULTS = tuple(sorted({*OF_COMPONENTS, *OF_CLUSTER} - {FaultKind.CRASH}))


def a_workload(kind: str, name: str, replicas: int = 3) -> WorkloadObject:
    container = ContainerTemplate("app", Allocation(amounts(100, 100 * MIB)))
    template = PodTemplate({"app": "web"}, (container,))
    return WorkloadObject(
        "default", kind, name, template, SELECTOR, replicas=replicas, role_lease=f"{name}-leader"
    )


def nodes() -> tuple[NodeObject, ...]:
    return tuple(NodeObject(f"node-{number}", amounts(8000, 32_000 * MIB)) for number in range(3))


def build(simulation: Simulation) -> Mapping[str, Component]:
    elections = Elections(simulation.world, simulation.serving, Random(7))

    async def elect(_: ProcessSurroundings) -> None:
        await elections.run()

    return {"elections": elect, "roles": run_roles}


def run(seed: int, *, trouble: timedelta = HOUR) -> RunReport:
    scenario = Scenario(
        seed=seed,
        disturbed=trouble,
        settling=HOUR / 2,
        quiet=timedelta(),
        kubelet_period=MINUTE,
        nodes=nodes(),
        workloads=(a_workload("StatefulSet", "db"), a_workload("Deployment", "queue", replicas=2)),
        autoscalers=(),
    )
    faults = draw_faults(Random(~seed), ("roles",), until=trouble, per_hour=12.0, kinds=FAULTS)
    return run_virtually(run_scenario(scenario, faults, Stack(("roles",), build)))


@pytest.mark.parametrize("seed", [1, 2, 100])
def test_never_do_two_pods_lead_whatever_breaks(seed: int) -> None:
    report = run(seed)

    assert report.violations == (), "\n".join(report.lines())
    assert report.facts["PodPatched"] > 10


def test_never_do_two_pods_lead_in_a_run_that_nobody_has_seen(fresh_seed: int) -> None:
    report = run(fresh_seed)

    assert report.violations == (), "\n".join(report.lines())


class Stage:
    """A cluster with one StatefulSet whose pods elect a leader, without accidents."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.world = simulation.world
        for node in nodes():
            self.world.nodes.put(node)
        self.workload = self.world.add_workload(a_workload("StatefulSet", "db"))
        elections = Elections(self.world, simulation.serving, Random(1), is_steady=True)
        self.election = asyncio.create_task(elections.run())

    def leaders(self) -> list[str]:
        found = members(self.world, self.workload)
        return [identity(pod) for pod in found if ROLE.is_worn_by(pod)]

    def holder(self) -> str:
        lease = self.world.leases.find("default", "db-leader")
        return "" if lease is None else lease.holder

    def pod(self, name: str) -> Pod:
        found = self.world.pods.find("default", name)
        assert found is not None
        return found

    async def wait(self, span: timedelta) -> None:
        await self.simulation.clock.sleep(span)
        self.simulation.check()
        assert self.simulation.failures() == {}


@asynccontextmanager
async def a_stage() -> AsyncIterator[Stage]:
    """A stage that has been on for a while."""
    async with Simulation(random=Random(1)) as simulation:
        stage = Stage(simulation)
        simulation.add("roles", run_roles)
        await stage.wait(2 * MINUTE)
        yield stage
        stage.election.cancel()


@virtually
async def test_the_holder_of_the_lease_alone_gets_the_role() -> None:
    async with a_stage() as stage:
        leaders, holder = stage.leaders(), stage.holder()

    assert holder
    assert leaders == [holder]


@virtually
async def test_the_role_moves_within_seconds_after_another_pod_has_won() -> None:
    async with a_stage() as stage:
        before, meanwhile = stage.holder(), list[list[str]]()
        stage.simulation.serving.delete_pod(stage.pod(before.partition("_")[0]))
        while stage.holder() == before:
            await stage.wait(SECOND)
            meanwhile.append(stage.leaders())
        await stage.wait(6 * SECOND)
        holder, leaders = stage.holder(), stage.leaders()

    assert meanwhile[-1] == []
    assert leaders == [holder]


@virtually
async def test_nobody_has_the_role_after_the_lease_has_expired() -> None:
    async with a_stage() as stage:
        before = stage.leaders()
        stage.election.cancel()
        await stage.wait(DURATION + 6 * SECOND)
        after = stage.leaders()

    assert (len(before), after) == (1, [])


@virtually
async def test_a_label_that_others_write_is_put_right() -> None:
    async with a_stage() as stage:
        for name in ("db-0", "db-1", "db-2"):
            pod = stage.pod(name)
            stage.world.pods.put(
                structs.replace(pod, labels={**pod.labels, ROLE.label: ROLE.value})
            )
        before = stage.leaders()
        await stage.wait(6 * SECOND)
        after, holder = stage.leaders(), stage.holder()

    assert (len(before), after) == (3, [holder])


def sized(name: str, requirement: LabelRequirement, cpu: int) -> Autoscaler:
    """An autoscaler of a part of the pods, which knows what it wants."""
    target = amounts(cpu, 100 * MIB)
    return an_autoscaler(
        a_recommendation(target=target, lower=target, upper=target),
        name=name,
        created_at=None,
        target=TargetReference("StatefulSet", "db", "apps/v1"),
        mode=UpdateMode.IN_PLACE,
        selector=Selector((requirement,)),
    )


async def update(surroundings: ProcessSurroundings) -> None:
    settings = UpdaterSettings(uses_admission_status=False)
    await Updater(surroundings.cluster, settings=settings, clock=surroundings.clock).run()


def sizes(stage: Stage) -> dict[str, int]:
    found = members(stage.world, stage.workload)
    return {identity(pod): (pod.containers[0].current.requests or {})[CPU] for pod in found}


@virtually
async def test_the_size_of_a_leader_is_another_pod_s_within_seconds_of_the_election() -> None:
    async with a_stage() as stage:
        leads = equality(ROLE.label, ROLE.value)
        follows = LabelRequirement(ROLE.label, Operator.NOT_IN, (ROLE.value,))
        stage.world.add_autoscaler(sized("leader", leads, 800))
        stage.world.add_autoscaler(sized("others", follows, 100))
        stage.simulation.add("updater", update)
        await stage.wait(2 * MINUTE)
        before, large = stage.holder(), sizes(stage)
        stage.simulation.serving.delete_pod(stage.pod(before.partition("_")[0]))
        while stage.holder() == before:
            await stage.wait(SECOND)
        await stage.wait(15 * SECOND)
        after, moved = stage.holder(), sizes(stage)

    assert sorted(large.values()) == [100, 100, 800]
    assert large[before] == 800
    assert moved[after] == 800
    assert sorted(moved.values()) == [100, 100, 800]
