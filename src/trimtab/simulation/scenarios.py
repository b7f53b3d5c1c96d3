"""Scenarios: the initial state of a run, drawn from one seed.

A scenario is a plain record, so that it can be printed, compared and replayed. Its faults are drawn
in `faults/kinds.py`, from the same seed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Final, TypeVar

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
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.model.selectors import LabelRequirement, Operator, Selector
from trimtab.simulation.world.loads import OFFICE_DAY, Load, Wave
from trimtab.simulation.world.objects import (
    ContainerTemplate,
    DisruptionBudget,
    HorizontalScaler,
    LimitRange,
    NodeObject,
    PodTemplate,
    QuotaObject,
    RestartPolicy,
    Startup,
    WorkloadObject,
)

_Choice = TypeVar("_Choice")

_MIB: Final = 1024 * 1024
_NAMESPACES: Final = ("shop", "batch", "platform")
_KINDS: Final = {
    "Deployment": 6,
    "StatefulSet": 3,
    "DaemonSet": 1,
    "Job": 1,
    "CronJob": 1,
    "Rollout": 1,
}
"""Relative frequency of each kind; components do not know Rollouts, but can read their scale."""
_API_VERSIONS: Final = {"Job": "batch/v1", "CronJob": "batch/v1", "Rollout": "example.com/v1"}
_SCALABLE: Final = ("Deployment", "StatefulSet", "Rollout")
_MODES: Final = {
    UpdateMode.RECREATE: 4,
    UpdateMode.IN_PLACE_OR_RECREATE: 4,
    UpdateMode.IN_PLACE: 2,
    UpdateMode.UPSCALE_ONLY: 2,
    UpdateMode.AUTO: 1,
    UpdateMode.INITIAL: 1,
    UpdateMode.OFF: 1,
}


@dataclass(frozen=True, slots=True)
class Size:
    """Size of drawn scenarios; pairs are the smallest and the largest number."""

    nodes: tuple[int, int] = (3, 6)
    workloads: tuple[int, int] = (3, 8)
    replicas: tuple[int, int] = (1, 5)
    disturbed_hours: tuple[int, int] = (4, 12)
    """Length of the part with faults."""
    settling_hours: int = 5
    """Time that the cluster may take to come to rest after all faults have ended."""
    quiet_hours: int = 2
    """Length of the quiet phase, in which nothing may happen."""
    horizontal_share: float = 0.15
    """Share of the scalable workloads that have a horizontal autoscaler."""
    hazard_share: float = 0.5
    """Amount of hazards between 0 and 1 (`faults/hazards.py`); 0 for none."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Objects with which a run begins, and the lengths of its parts."""

    seed: int
    disturbed: timedelta
    settling: timedelta
    quiet: timedelta
    kubelet_period: timedelta
    nodes: tuple[NodeObject, ...]
    workloads: tuple[WorkloadObject, ...]
    autoscalers: tuple[Autoscaler, ...]
    budgets: tuple[DisruptionBudget, ...] = ()
    quotas: tuple[QuotaObject, ...] = ()
    limit_ranges: tuple[LimitRange, ...] = ()
    scalers: tuple[HorizontalScaler, ...] = ()


def draw_scenario(seed: int, size: Size) -> Scenario:
    """Draw the scenario of a seed: always the same for the same size."""
    chance = Random(seed)
    workloads = tuple(
        _draw_workload(chance, number, size) for number in range(chance.randint(*size.workloads))
    )
    return Scenario(
        seed=seed,
        disturbed=timedelta(hours=chance.randint(*size.disturbed_hours)),
        settling=timedelta(hours=size.settling_hours),
        quiet=timedelta(hours=size.quiet_hours),
        kubelet_period=timedelta(seconds=chance.choice((15, 30, 60))),
        nodes=tuple(_draw_node(chance, number) for number in range(chance.randint(*size.nodes))),
        workloads=workloads,
        autoscalers=tuple(
            _draw_autoscaler(chance, workload) for workload in workloads if happens(chance, 0.85)
        ),
        budgets=tuple(
            _draw_budget(chance, workload) for workload in workloads if happens(chance, 0.4)
        ),
        quotas=_draw_quotas(chance, workloads),
        limit_ranges=_draw_limit_ranges(chance),
        # From a generator of their own, so that older seeds draw the rest as before.
        scalers=_draw_scalers(Random(f"scalers of {seed}"), workloads, size.horizontal_share),
    )


def _draw_node(chance: Random, number: int) -> NodeObject:
    cores = chance.choice((8, 16, 32))
    return NodeObject(
        f"node-{number}", {Resource.CPU: cores * 1000, Resource.MEMORY: cores * 4096 * _MIB}
    )


def _draw_workload(chance: Random, number: int, size: Size) -> WorkloadObject:
    kind = _choose(chance, _KINDS)
    name = f"{kind.lower()}-{number}"
    labels = {"app": name}
    return WorkloadObject(
        namespace=chance.choice(_NAMESPACES),
        kind=kind,
        name=name,
        template=_draw_template(chance, kind, labels),
        selector=Selector((LabelRequirement("app", Operator.IN, (name,)),)),
        api_version=_API_VERSIONS.get(kind, "apps/v1"),
        replicas=None if kind == "CronJob" else chance.randint(*size.replicas),
        max_unavailable=chance.choice((1, 1, 2)),
        every=timedelta(minutes=chance.choice((5, 15, 60))) if kind == "CronJob" else None,
    )


def _draw_template(chance: Random, kind: str, labels: Mapping[str, str]) -> PodTemplate:
    runs_once = kind in ("Job", "CronJob")
    containers = [_draw_container(chance, "app", ContainerKind.REGULAR)]
    if happens(chance, 0.3):
        containers.append(_draw_container(chance, "helper", ContainerKind.REGULAR))
    if happens(chance, 0.2):
        containers.append(_draw_container(chance, "proxy", ContainerKind.SIDECAR))
    if kind == "CronJob":
        # With short simulated days each start would outweigh all runs before it.
        containers = [
            replace(each, startup=replace(each.startup, work_cpu_seconds=0.0))
            for each in containers
        ]
    return PodTemplate(
        labels=labels,
        containers=tuple(containers),
        restart_policy=chance.choice((RestartPolicy.NEVER, RestartPolicy.ON_FAILURE))
        if runs_once
        else RestartPolicy.ALWAYS,
        runs_for=timedelta(seconds=chance.choice((20, 120, 900))) if runs_once else None,
    )


def _draw_container(chance: Random, name: str, kind: ContainerKind) -> ContainerTemplate:
    load = _draw_load(chance)
    allocation = _draw_allocation(chance, load)
    restarts = happens(chance, 0.15)
    delay = timedelta(seconds=chance.choice((1, 5, 30)))
    work = chance.choice((0.0, 0.0, 5.0, 20.0))
    if Resource.CPU in (allocation.limits or {}):
        # A throttled start lasts many measurements; with short days it would count as usage.
        work = 0.0
    return ContainerTemplate(
        name=name,
        allocation=allocation,
        kind=kind,
        restarts_on_resize=restarts,
        load=load,
        startup=Startup(delay=delay, work_cpu_seconds=work),
    )


def _draw_load(chance: Random) -> Load:
    cpu = chance.choice((10.0, 30.0, 100.0, 300.0)) * chance.uniform(1.0, 3.0)
    memory = chance.choice((20.0, 60.0, 200.0, 600.0)) * chance.uniform(1.0, 3.0) * _MIB
    shape = chance.choice(("steady", "daily", "spiky", "leaking"))
    return Load(
        cpu=Wave(
            base=cpu,
            daily=2.0 * cpu if shape == "daily" else 0.0,
            weekend_factor=chance.choice((1.0, 0.3)),
            noise=0.1 * cpu,
            spike=4.0 * cpu if shape == "spiky" else 0.0,
            spike_chance=0.01,
        ),
        memory=Wave(
            base=memory,
            daily=0.5 * memory if shape == "daily" else 0.0,
            noise=0.02 * memory,
            spike=1.0 * memory if shape == "spiky" else 0.0,
            spike_chance=0.002,
            leak_per_hour=0.3 * memory if shape == "leaking" else 0.0,
        ),
        day=OFFICE_DAY,
    )


def _draw_allocation(chance: Random, load: Load) -> Allocation:
    """Draw requests between far too little and far too much."""
    requests = {
        Resource.CPU: max(10, int(load.cpu.base * chance.choice((0.3, 1.0, 2.0, 6.0)))),
        Resource.MEMORY: max(16 * _MIB, int(load.memory.base * chance.choice((0.8, 1.5, 4.0)))),
    }
    match chance.randrange(4):
        case 0:
            return Allocation(requests)
        case 1:
            return Allocation(requests, dict(requests))
        case 2:
            return Allocation(requests, {kind: 2 * requests[kind] for kind in BOTH})
        case _:
            return Allocation(requests, {Resource.MEMORY: int(1.5 * requests[Resource.MEMORY])})


def _draw_autoscaler(chance: Random, workload: WorkloadObject) -> Autoscaler:
    return Autoscaler(
        namespace=workload.namespace,
        name=f"{workload.name}-autoscaler",
        target=TargetReference(workload.kind, workload.name, workload.api_version),
        mode=_choose(chance, _MODES),
        min_replicas=chance.choice((None, None, 1, 1, 2)),
        requirements=_draw_requirements(chance),
        policies=tuple(
            _draw_policy(chance, container.name)
            for container in workload.template.containers
            if happens(chance, 0.6)
        ),
        boost=CpuBoost(BoostType.FACTOR, factor=3, duration=timedelta(seconds=30))
        if happens(chance, 0.25)
        else None,
    )


def _draw_requirements(chance: Random) -> tuple[EvictionRequirement, ...]:
    if happens(chance, 0.8):
        return ()
    return (EvictionRequirement((chance.choice(BOTH),), chance.choice(tuple(ChangeDirection))),)


def _draw_policy(chance: Random, container_name: str) -> ContainerPolicy:
    least: Resources = {Resource.CPU: chance.choice((5, 50)), Resource.MEMORY: 20 * _MIB}
    most: Resources = {Resource.CPU: chance.choice((500, 4000)), Resource.MEMORY: 8192 * _MIB}
    return ContainerPolicy(
        container_name,
        min_allowed=least if happens(chance, 0.7) else {},
        max_allowed=most if happens(chance, 0.7) else {},
    )


def _draw_budget(chance: Random, workload: WorkloadObject) -> DisruptionBudget:
    least_that_stays = max(0, (workload.replicas or 1) - chance.choice((0, 1, 1, 2)))
    return DisruptionBudget(
        workload.namespace,
        f"{workload.name}-budget",
        workload.selector,
        min_available=least_that_stays if happens(chance, 0.5) else None,
        max_unavailable=1,
    )


def _draw_quotas(chance: Random, workloads: tuple[WorkloadObject, ...]) -> tuple[QuotaObject, ...]:
    """Draw no quota, or one that leaves little room."""
    if happens(chance, 0.7):
        return ()
    namespace = chance.choice(_NAMESPACES)
    needed = sum(
        (workload.replicas or 1) * _requested_millicores(workload)
        for workload in workloads
        if workload.namespace == namespace
    )
    return (
        QuotaObject(
            namespace, "room", {Resource.CPU: int(needed * chance.uniform(1.1, 3.0)) + 100}
        ),
    )


def _draw_scalers(
    chance: Random, workloads: tuple[WorkloadObject, ...], share: float
) -> tuple[HorizontalScaler, ...]:
    """Draw horizontal autoscalers for some scalable workloads; they never change replicas."""
    return tuple(
        HorizontalScaler(
            workload.namespace,
            f"{workload.name}-hpa",
            workload.identity,
            resources=chance.choice((("cpu",), ("cpu",), ("memory",), ("cpu", "memory"))),
            containers=chance.choice(((), (), ("app",))),
        )
        for workload in workloads
        if workload.kind in _SCALABLE and happens(chance, share)
    )


def _requested_millicores(workload: WorkloadObject) -> int:
    containers = workload.template.containers
    return sum((each.allocation.requests or {}).get(Resource.CPU, 0) for each in containers)


def _draw_limit_ranges(chance: Random) -> tuple[LimitRange, ...]:
    if happens(chance, 0.7):
        return ()
    most = {Resource.CPU: 16_000, Resource.MEMORY: 64 * 1024 * _MIB}
    item = LimitRangeItem(LimitRangeType.CONTAINER, min={Resource.CPU: 5}, default=most)
    return (LimitRange(chance.choice(_NAMESPACES), "bounds", (item,)),)


def happens(chance: Random, share: float) -> bool:
    """Return True with the given probability."""
    return chance.random() < share


def _choose(chance: Random, weights: Mapping[_Choice, int]) -> _Choice:
    return chance.choices(list(weights), list(weights.values()))[0]
