"""Incidents: small named scenarios, one for each way in which an independent run hurt pods.

Each is a scenario with its faults and a seed, so that it is one run, like any other. They take a
few simulated hours and few workloads: a second or two of CPU each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from support.makers.records import MIB, amounts

from trimtab.core.model.autoscalers import (
    Autoscaler,
    BoostType,
    ChangeDirection,
    ContainerPolicy,
    CpuBoost,
    EvictionRequirement,
    TargetReference,
    UpdateMode,
)
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import Allocation, ContainerKind
from trimtab.core.model.resources import Resource
from trimtab.core.model.selectors import Selector, equality
from trimtab.simulation.components import REAL
from trimtab.simulation.faults.kinds import Fault, FaultKind
from trimtab.simulation.run import RunReport, run_scenario
from trimtab.simulation.scenarios import Scenario
from trimtab.simulation.world.loads import Load, Wave, constant, leaking
from trimtab.simulation.world.objects import (
    ContainerTemplate,
    DisruptionBudget,
    LimitRange,
    NodeObject,
    PodTemplate,
    QuotaObject,
    Startup,
    WorkloadObject,
)
from trimtab.simulation.world.virtual_time import run_virtually

TRIPLE = CpuBoost(BoostType.FACTOR, factor=3, duration=timedelta(seconds=5))
DAEMONS = "agent"


@dataclass(frozen=True, slots=True)
class Incident:
    """A scenario with what goes wrong in it."""

    scenario: Scenario
    faults: tuple[Fault, ...] = ()


def play(incident: Incident) -> RunReport:
    """The report of an incident."""
    return run_virtually(run_scenario(incident.scenario, incident.faults, REAL))


def a_scenario(
    workloads: Sequence[WorkloadObject],
    autoscalers: Sequence[Autoscaler],
    *,
    seed: int,
    hours: float = 2,
    nodes: int = 3,
    cores: int = 8,
    **fields: object,
) -> Scenario:
    made = [NodeObject(f"node-{n}", amounts(cores * 1000, 32 * 1024 * MIB)) for n in range(nodes)]
    return Scenario(
        seed=seed,
        disturbed=timedelta(hours=hours),
        settling=timedelta(),
        quiet=timedelta(),
        kubelet_period=timedelta(seconds=30),
        nodes=tuple(made),
        workloads=tuple(workloads),
        autoscalers=tuple(autoscalers),
        **fields,  # type: ignore[arg-type]
    )


def a_container(
    requests: Mapping[Resource, int],
    load: Load,
    *,
    name: str = "app",
    limits: Mapping[Resource, int] | None = None,
    **fields: object,
) -> ContainerTemplate:
    return ContainerTemplate(name, Allocation(requests, limits), load=load, **fields)  # type: ignore[arg-type]


def a_workload(
    *containers: ContainerTemplate,
    kind: str = "Deployment",
    name: str = "web",
    replicas: int = 3,
    api_version: str = "apps/v1",
    **fields: object,
) -> WorkloadObject:
    return WorkloadObject(
        "shop",
        kind,
        name,
        PodTemplate({"app": name}, containers),
        Selector((equality("app", name),)),
        replicas=replicas,
        api_version=api_version,
        **fields,  # type: ignore[arg-type]
    )


def an_autoscaler(
    workload: WorkloadObject, mode: UpdateMode = UpdateMode.RECREATE, **fields: object
) -> Autoscaler:
    usual: dict[str, object] = {
        "target": TargetReference(workload.kind, workload.name, workload.api_version),
        "mode": mode,
    }
    return Autoscaler(
        workload.namespace,
        f"{workload.name}-autoscaler",
        **(usual | fields),  # type: ignore[arg-type]
    )


def all_the_time(kind: FaultKind, scenario: Scenario, *, target: str = "") -> Fault:
    """A fault that begins with the run, hits everything, and ends with it."""
    return Fault(kind, timedelta(), scenario.disturbed, target=target, strength=1.0)


def deleted_pods(*, ahead_seconds: float = 0) -> tuple[Fault, ...]:
    """All pods are deleted now and then, so that others come when a known scale has expired."""
    minute = timedelta(minutes=1)
    times = [timedelta(seconds=1210.2 - ahead_seconds + 600.9 * number) for number in range(8)]
    return tuple(Fault(FaultKind.POD_DELETED, at, minute, strength=4.0) for at in times)


def steady(cpu: float, mebibytes: float) -> Load:
    return constant(cpu_millicores=cpu, memory_bytes=mebibytes * MIB)


# 1: a failed unboost must never evict.


def refused_unboosts(mode: UpdateMode, *, seed: int = 1) -> Incident:
    """No kubelet ever takes a boost back."""
    workload = a_workload(a_container(amounts(500, 200 * MIB), steady(60, 100)))
    scenario = a_scenario([workload], [an_autoscaler(workload, mode, boost=TRIPLE)], seed=seed)
    return Incident(scenario, (all_the_time(FaultKind.RESIZES_REFUSED, scenario),))


# 2: a boost must never stop a pod from being created.


def boost_above_limit_range(limit_type: LimitRangeType, *, seed: int = 1) -> Incident:
    """A limit range lets the pod in, but not with its boost."""
    limits = amounts(500, 200 * MIB)
    workload = a_workload(a_container(limits, steady(400, 150), limits=limits))
    item = LimitRangeItem(limit_type, max={Resource.CPU: 1000})
    scenario = a_scenario(
        [workload],
        [an_autoscaler(workload, boost=TRIPLE)],
        seed=seed,
        limit_ranges=(LimitRange("shop", "bounds", (item,)),),
    )
    return Incident(scenario)


def boost_above_quota(*, seed: int = 1) -> Incident:
    """A quota lets all pods in, but not with their boosts."""
    workload = a_workload(
        a_container(amounts(500, 200 * MIB), steady(350, 100)), kind="StatefulSet", replicas=4
    )
    scenario = a_scenario(
        [workload],
        [an_autoscaler(workload, boost=TRIPLE)],
        seed=seed,
        quotas=(QuotaObject("shop", "room", {Resource.CPU: 2500}),),
    )
    return Incident(scenario)


# 3: UpscaleOnly never takes anything away.


def upscale_for_a_mebibyte(*, seed: int = 1) -> Incident:
    """CPU is far too much, memory a little too little, and no node resizes."""
    workload = a_workload(a_container(amounts(1000, 421 * MIB), steady(60, 360)))
    autoscaler = an_autoscaler(workload, UpdateMode.UPSCALE_ONLY)
    scenario = a_scenario([workload], [autoscaler], seed=seed)
    return Incident(scenario, (all_the_time(FaultKind.RESIZES_REFUSED, scenario),))


# 4 and 12: growth in place waits for nothing.


def growth_of_a_single_replica(*, seed: int = 1) -> Incident:
    """A single replica that is far too small, in a mode that grows it in place."""
    workload = a_workload(a_container(amounts(50, 200 * MIB), steady(900, 100)), replicas=1)
    scenario = a_scenario([workload], [an_autoscaler(workload, UpdateMode.UPSCALE_ONLY)], seed=seed)
    return Incident(scenario)


def growth_beside_a_missing_replica(*, seed: int = 1) -> Incident:
    """Pods with far too little memory, while one of them finds no node."""
    workload = a_workload(a_container(amounts(3000, 100 * MIB), steady(2600, 500)))
    autoscaler = an_autoscaler(workload, UpdateMode.IN_PLACE)
    return Incident(a_scenario([workload], [autoscaler], seed=seed, nodes=1))


def growth_that_goes_on(*, seed: int = 1) -> Incident:
    """A leak that is followed step by step."""
    load = leaking(cpu_millicores=50, memory_bytes=100 * MIB, leak_per_hour=2000 * MIB)
    workload = a_workload(a_container(amounts(100, 100 * MIB), load), replicas=2)
    scenario = a_scenario([workload], [an_autoscaler(workload, UpdateMode.IN_PLACE)], seed=seed)
    return Incident(scenario)


# 5: with the gate off nothing is evicted for its boost.


def gate_off_at_the_updater(mode: UpdateMode, *, seed: int = 1) -> Incident:
    """Admission boosts pods that the updater may not unboost."""
    workload = a_workload(a_container(amounts(500, 200 * MIB), steady(60, 100)))
    scenario = a_scenario([workload], [an_autoscaler(workload, mode, boost=TRIPLE)], seed=seed)
    return Incident(scenario, (all_the_time(FaultKind.GATE_OFF, scenario, target="updater"),))


# 6: pods under a custom resource are sized.


def custom_owner(*, has_scale: bool, seed: int = 1) -> Incident:
    """A StatefulSet that a custom resource owns."""
    container = a_container(amounts(500, 200 * MIB), steady(60, 100))
    database = a_workload(
        container, kind="Database", api_version="example.com/v1", has_scale=has_scale
    )
    target = database if has_scale else replace(database, kind="StatefulSet", api_version="apps/v1")
    scenario = a_scenario([database], [an_autoscaler(target)], seed=seed)
    # A pod of a StatefulSet has to be gone before another one comes.
    return Incident(scenario, deleted_pods(ahead_seconds=5))


def foreign_kind(*, seed: int = 1) -> Incident:
    """A kind with ReplicaSets of its own, of which only the scale is known."""
    container = a_container(amounts(500, 200 * MIB), steady(60, 100))
    rollout = a_workload(container, kind="Rollout", api_version="example.com/v1")
    scenario = a_scenario([rollout], [an_autoscaler(rollout)], seed=seed)
    return Incident(scenario, deleted_pods())


# 7: a new pod is judged by its spec alone.


def copied_pods(*, seed: int = 1) -> Incident:
    """Pods are created from the manifests of others that were resized."""
    limits = amounts(1000, 400 * MIB)
    workload = a_workload(a_container(amounts(500, 200 * MIB), steady(5, 30), limits=limits))
    scenario = a_scenario([workload], [an_autoscaler(workload, UpdateMode.IN_PLACE)], seed=seed)
    times = range(45, 110, 5)
    copies = [
        Fault(FaultKind.POD_COPIED, timedelta(minutes=at), timedelta(minutes=1)) for at in times
    ]
    return Incident(scenario, tuple(copies))


# 8: the end of a boost changes nothing but CPU.


def end_of_a_boost(mode: UpdateMode, *, seed: int = 1, requires_growth: bool = False) -> Incident:
    """Memory and a sidecar that has no boost are far too large when boosts end."""
    app = a_container(
        amounts(500, 300 * MIB), steady(300, 100), startup=Startup(work_cpu_seconds=20.0)
    )
    helper = a_container(
        amounts(500, 300 * MIB), steady(10, 50), name="helper", kind=ContainerKind.SIDECAR
    )
    workload = a_workload(app, helper)
    needs = EvictionRequirement((Resource.CPU, Resource.MEMORY), ChangeDirection.TARGET_HIGHER)
    boost = replace(TRIPLE, duration=timedelta(minutes=5))
    autoscaler = an_autoscaler(
        workload,
        mode,
        policies=(ContainerPolicy("app", boost=boost),),
        requirements=(needs,) if requires_growth else (),
    )
    return Incident(a_scenario([workload], [autoscaler], seed=seed, hours=1))


# 9: a factor of 1 is no boost.


def factor_of_one(*, seed: int = 1) -> Incident:
    """A boost by the factor 1 over a spec that asks for more than is recommended."""
    workload = a_workload(a_container(amounts(500, 200 * MIB), steady(60, 100)))
    once = CpuBoost(BoostType.FACTOR, factor=1)
    scenario = a_scenario([workload], [an_autoscaler(workload, boost=once)], seed=seed)
    return Incident(scenario)


# 10: a workload that gets worse is left alone.


def refused_resizes_of_unsized_pods(*, seed: int = 1) -> Incident:
    """Kubelets refuse to resize, and admission does not know the owner of new pods."""
    workload = a_workload(a_container(amounts(500, 512 * MIB), steady(800, 256)), replicas=5)
    autoscaler = an_autoscaler(workload, UpdateMode.IN_PLACE_OR_RECREATE)
    scenario = a_scenario([workload], [autoscaler], seed=seed)
    blind = all_the_time(FaultKind.WATCHES_LOST, scenario, target="admission")
    faults = (
        replace(blind, begins=timedelta(minutes=20)),
        all_the_time(FaultKind.RESIZES_REFUSED, scenario),
        Fault(FaultKind.ROLLOUT, timedelta(minutes=30), timedelta(minutes=1)),
    )
    return Incident(scenario, faults)


def sizes_that_never_get_ready(*, seed: int = 1) -> Incident:
    """No pod gets ready with what is recommended for it."""
    container = a_container(amounts(500, 200 * MIB), steady(60, 100), needs={Resource.CPU: 400})
    workload = a_workload(container, replicas=6)
    return Incident(a_scenario([workload], [an_autoscaler(workload)], seed=seed))


# 11: the largest node is what a pod can really get there.


def beside_daemons(mode: UpdateMode, *, seed: int = 1) -> Incident:
    """A pod wants a whole node, and an agent runs on each."""
    agent = a_workload(
        a_container(amounts(1000, 100 * MIB), steady(50, 50)), kind="DaemonSet", name=DAEMONS
    )
    # It grows to more than a node has, within an hour.
    day = (0.0, *(1.0,) * 23)
    load = Load(Wave(base=500, daily=7500), Wave(base=100 * MIB), day=day)
    greedy = a_workload(a_container(amounts(600, 200 * MIB), load), name="greedy", replicas=2)
    autoscaler = an_autoscaler(greedy, mode)
    return Incident(a_scenario([agent, greedy], [autoscaler], seed=seed))


# 12: pods that all crash for lack of memory are helped at once.


def crash_loop(mode: UpdateMode, *, seed: int = 1, has_budget: bool = False) -> Incident:
    """All replicas are OOM-killed at once, and take long to get ready again."""
    limits = {Resource.MEMORY: 100 * MIB}
    container = a_container(
        amounts(100, 100 * MIB),
        steady(50, 300),
        limits=limits,
        startup=Startup(delay=timedelta(minutes=6)),
    )
    workload = a_workload(container, replicas=4)
    autoscaler = an_autoscaler(workload, mode, min_replicas=1)
    budget = DisruptionBudget("shop", "all", workload.selector, min_available=4)
    budgets = (budget,) if has_budget else ()
    return Incident(a_scenario([workload], [autoscaler], seed=seed, budgets=budgets))
