"""Hazards: conditions that make a scenario dangerous for pods that an autoscaler changes.

Each hazard interferes with one feature: a limit range below a boost, a quota without headroom, a
container that never gets ready with less than it was given. They are drawn from a generator of
their own, so the rest of a scenario is the same as without them.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Final

from trimtab.core.model import selectors
from trimtab.core.model.autoscalers import (
    Autoscaler,
    BoostType,
    ContainerPolicy,
    CpuBoost,
    TargetReference,
    UpdateMode,
)
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import Allocation
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.model.selectors import Selector
from trimtab.simulation import scenarios
from trimtab.simulation.scenarios import Scenario
from trimtab.simulation.world import loads
from trimtab.simulation.world.objects import (
    ContainerTemplate,
    DisruptionBudget,
    LimitRange,
    PodTemplate,
    QuotaObject,
    WorkloadObject,
)

_MIB: Final = 1024 * 1024
_THOUSAND: Final = 1000
_MOST_NODES: Final = 6
_DATABASES: Final = "example.com/v1"
_LASTING: Final = ("Deployment", "StatefulSet", "Rollout", "Database")


def endanger(scenario: Scenario, chance: Random, share: float) -> Scenario:
    """Return the scenario with some hazards; `share`, between 0 and 1, scales their likelihood."""
    for hazard, weight in _HAZARDS.items():
        # Each hazard has its own generator, so a new hazard changes no other draw.
        own = Random(chance.getrandbits(64))
        if scenarios.happens(own, share * weight):
            scenario = hazard(scenario, own)
    return scenario


def _vary_boosts(scenario: Scenario, chance: Random) -> Scenario:
    """Set boosts of all types, amounts and durations, also for one container alone."""
    varied = tuple(
        _with_boost(each, chance) if scenarios.happens(chance, 0.6) else each
        for each in scenario.autoscalers
    )
    return replace(scenario, autoscalers=varied)


def _with_boost(autoscaler: Autoscaler, chance: Random) -> Autoscaler:
    boost = _draw_boost(chance)
    if scenarios.happens(chance, 0.7):
        return replace(autoscaler, boost=boost)
    others = [each for each in autoscaler.policies if each.container_name != "app"]
    own = [each for each in autoscaler.policies if each.container_name == "app"]
    policy = own[0] if own else ContainerPolicy("app")
    policies = (replace(policy, boost=boost), *others)
    return replace(autoscaler, boost=None, policies=policies)


def _draw_boost(chance: Random) -> CpuBoost:
    duration = chance.choice((None, 0, 5, 30, 300))
    span = None if duration is None else timedelta(seconds=duration)
    if scenarios.happens(chance, 0.3):
        quantity = chance.choice((0, 200, 1000, 4000))
        return CpuBoost(BoostType.QUANTITY, quantity_millicores=quantity, duration=span)
    return CpuBoost(BoostType.FACTOR, factor=chance.choice((1, 2, 3, 10)), duration=span)


def _narrow_limit_ranges(scenario: Scenario, chance: Random) -> Scenario:
    """Add a limit range that allows the pods of a workload's namespace, and little more."""
    chosen = chance.choice(scenario.workloads)
    neighbours = [each for each in scenario.workloads if each.namespace == chosen.namespace]
    slack = chance.choice((1.0, 1.5, 3.0))
    most = {kind: int(slack * max(_largest(each, kind) for each in neighbours)) for kind in BOTH}
    kinds = chance.choice(((Resource.CPU,), (Resource.CPU, Resource.MEMORY)))
    largest = {kind: most[kind] for kind in kinds}
    least = {Resource.CPU: 5, Resource.MEMORY: 8 * _MIB}
    items = [LimitRangeItem(LimitRangeType.CONTAINER, min=least, max=largest)]
    if scenarios.happens(chance, 0.5):
        width = max(len(each.template.containers) for each in neighbours)
        whole = {kind: width * most[kind] for kind in kinds}
        items.append(LimitRangeItem(LimitRangeType.POD, max=whole))
        if scenarios.happens(chance, 0.5):
            # Only the pod as a whole is bounded; containers without a limit get a default.
            items[0] = replace(items[0], max=None, default=largest)
    if scenarios.happens(chance, 0.3):
        smallest = min(_smallest_request(each, Resource.CPU) for each in neighbours)
        ratio = 2 + most[Resource.CPU] // max(1, smallest)
        items[0] = replace(items[0], max_cpu_ratio=ratio * _THOUSAND)
    added = LimitRange(chosen.namespace, "narrow", tuple(items))
    return replace(scenario, limit_ranges=(*scenario.limit_ranges, added))


def _tighten_quotas(scenario: Scenario, chance: Random) -> Scenario:
    """Add a quota with room for the pods of a workload's namespace, and little more."""
    chosen = chance.choice(scenario.workloads)
    neighbours = [each for each in scenario.workloads if each.namespace == chosen.namespace]
    slack = chance.choice((1.0, 1.1, 1.5))
    requests = {
        kind: int(slack * sum(_requested(each, kind) for each in neighbours)) for kind in BOTH
    }
    kinds = chance.choice(((Resource.CPU,), (Resource.CPU, Resource.MEMORY)))
    limits: Resources = {}
    if scenarios.happens(chance, 0.3):
        limited = {id(each): _with_cpu_limits(each) for each in neighbours}
        workloads = tuple(limited.get(id(each), each) for each in scenario.workloads)
        scenario = replace(scenario, workloads=workloads)
        limits = {Resource.CPU: int(slack * sum(map(_limited, limited.values())))}
    quota = QuotaObject(
        chosen.namespace, "tight", {kind: requests[kind] for kind in kinds}, limits=limits
    )
    return replace(scenario, quotas=(*scenario.quotas, quota))


def _demand_sizes(scenario: Scenario, chance: Random) -> Scenario:
    """Make some containers need a share of their requests to get ready."""
    kind, part = chance.choice(BOTH), chance.choice((0.3, 0.6, 0.9))

    def demand(container: ContainerTemplate) -> ContainerTemplate:
        least = int(part * (container.allocation.requests or {}).get(kind, 0))
        return replace(container, needs={kind: least})

    return _change_some(scenario, chance, 0.4, demand)


def _starve(scenario: Scenario, chance: Random) -> Scenario:
    """OOM-kill all replicas of a workload, under a budget that protects all of them."""
    lasting = [each for each in scenario.workloads if each.kind in _LASTING]
    if not lasting:
        return scenario
    chosen = chance.choice(lasting)
    memory = int(0.6 * chosen.template.containers[0].load.memory.base)

    def starve(container: ContainerTemplate) -> ContainerTemplate:
        own = container.allocation
        requests = {**(own.requests or {}), Resource.MEMORY: memory}
        limits = {**(own.limits or {}), Resource.MEMORY: memory}
        return replace(container, allocation=Allocation(requests, limits))

    starved = _change_app(chosen, starve)
    budget = DisruptionBudget(
        chosen.namespace, f"{chosen.name}-all", chosen.selector, min_available=chosen.replicas
    )
    workloads = tuple(starved if each is chosen else each for each in scenario.workloads)
    return replace(scenario, workloads=workloads, budgets=(*scenario.budgets, budget))


def _own_by_operators(scenario: Scenario, chance: Random) -> Scenario:
    """Put StatefulSets under custom resources, with a scale subresource or without."""
    owned: dict[tuple[str, str], bool] = {}
    workloads = []
    for each in scenario.workloads:
        if each.kind != "StatefulSet" or scenarios.happens(chance, 0.3):
            workloads.append(each)
            continue
        has_scale = scenarios.happens(chance, 0.5)
        owned[each.namespace, each.name] = has_scale
        database = replace(each, kind="Database", api_version=_DATABASES, has_scale=has_scale)
        workloads.append(database)
    autoscalers = tuple(
        # Without a scale the StatefulSet itself is the topmost that can be a target.
        replace(each, target=TargetReference("Database", each.target.name, _DATABASES))
        if each.target is not None and owned.get((each.namespace, each.target.name))
        else each
        for each in scenario.autoscalers
    )
    kept = tuple(
        each for each in scenario.scalers if (each.namespace, each.target.name) not in owned
    )
    return replace(scenario, workloads=tuple(workloads), autoscalers=autoscalers, scalers=kept)


def _crowd_nodes(scenario: Scenario, chance: Random) -> Scenario:
    """Add an agent on every node, and a workload that uses most of the largest node."""
    smallest = min(node.capacity[Resource.CPU] for node in scenario.nodes)
    largest = max(node.capacity[Resource.CPU] for node in scenario.nodes)
    agent = _plain("DaemonSet", "agent", int(chance.choice((0.1, 0.25)) * smallest), 0.0)
    greed = chance.choice((0.7, 0.85))
    greedy = _plain("Deployment", "greedy", largest // 4, greed * largest)
    greedy = replace(greedy, replicas=chance.choice((1, 2)))
    mode = chance.choice(
        (UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.UPSCALE_ONLY)
    )
    autoscaler = Autoscaler(
        greedy.namespace,
        "greedy-autoscaler",
        target=TargetReference(greedy.kind, greedy.name, greedy.api_version),
        mode=mode,
        min_replicas=1,
    )
    return replace(
        scenario,
        workloads=(*scenario.workloads, agent, greedy),
        autoscalers=(*scenario.autoscalers, autoscaler),
    )


def _only_upscale(scenario: Scenario, chance: Random) -> Scenario:
    """Set the mode UpscaleOnly for some autoscalers."""
    varied = tuple(
        replace(each, mode=UpdateMode.UPSCALE_ONLY) if scenarios.happens(chance, 0.4) else each
        for each in scenario.autoscalers
    )
    return replace(scenario, autoscalers=varied)


def _plain(kind: str, name: str, millicores: int, load_millicores: float) -> WorkloadObject:
    load = loads.constant(cpu_millicores=load_millicores or 5.0, memory_bytes=50.0 * _MIB)
    requests = {Resource.CPU: millicores, Resource.MEMORY: 100 * _MIB}
    container = ContainerTemplate("app", Allocation(requests), load=load)
    return WorkloadObject(
        "system",
        kind,
        name,
        PodTemplate({"app": name}, (container,)),
        Selector((selectors.equality("app", name),)),
    )


def _change_some(
    scenario: Scenario,
    chance: Random,
    share: float,
    change: Callable[[ContainerTemplate], ContainerTemplate],
) -> Scenario:
    workloads = tuple(
        _change_app(each, change)
        if each.kind in _LASTING and scenarios.happens(chance, share)
        else each
        for each in scenario.workloads
    )
    return replace(scenario, workloads=workloads)


def _change_app(
    workload: WorkloadObject, change: Callable[[ContainerTemplate], ContainerTemplate]
) -> WorkloadObject:
    first, *others = workload.template.containers
    template = replace(workload.template, containers=(change(first), *others))
    return replace(workload, template=template)


def _largest(workload: WorkloadObject, kind: Resource) -> int:
    """Return the largest request or limit of the resource in the workload's containers."""
    specs = [each.allocation for each in workload.template.containers]
    return max(
        max((spec.requests or {}).get(kind, 0), (spec.limits or {}).get(kind, 0)) for spec in specs
    )


def _smallest_request(workload: WorkloadObject, kind: Resource) -> int:
    specs = [each.allocation for each in workload.template.containers]
    return min((spec.requests or {}).get(kind, 1) for spec in specs)


def _requested(workload: WorkloadObject, kind: Resource) -> int:
    specs = [each.allocation for each in workload.template.containers]
    return _pods(workload) * sum((spec.requests or {}).get(kind, 0) for spec in specs)


def _pods(workload: WorkloadObject) -> int:
    # One extra pod lets rollouts continue; a DaemonSet has as many pods as there are nodes.
    return _MOST_NODES if workload.kind == "DaemonSet" else (workload.replicas or 1) + 1


def _limited(workload: WorkloadObject) -> int:
    specs = [each.allocation for each in workload.template.containers]
    return _pods(workload) * sum((spec.limits or {}).get(Resource.CPU, 0) for spec in specs)


def _with_cpu_limits(workload: WorkloadObject) -> WorkloadObject:
    """Return the workload with a CPU limit for each container, as quotas of limits demand."""
    containers = tuple(map(_with_cpu_limit, workload.template.containers))
    return replace(workload, template=replace(workload.template, containers=containers))


def _with_cpu_limit(container: ContainerTemplate) -> ContainerTemplate:
    requests, limits = container.allocation.requests or {}, container.allocation.limits or {}
    limit = 2 * requests.get(Resource.CPU, 0)
    allocation = Allocation(requests, {Resource.CPU: limit, **limits})
    # As for all drawn containers: a throttled start lasts several measurements.
    startup = replace(container.startup, work_cpu_seconds=0.0)
    return replace(container, allocation=allocation, startup=startup)


_HAZARDS: Final[dict[Callable[[Scenario, Random], Scenario], float]] = {
    _vary_boosts: 0.8,
    _narrow_limit_ranges: 0.5,
    _tighten_quotas: 0.4,
    _demand_sizes: 0.4,
    _starve: 0.2,
    _own_by_operators: 0.5,
    _crowd_nodes: 0.3,
    _only_upscale: 0.4,
}
"""Likelihood of each hazard where the share is 1."""
