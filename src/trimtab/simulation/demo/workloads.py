"""Workloads of the demo: five, each with a behaviour that is common in real clusters.

Nothing is drawn here: the seed affects only random usage while they run.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
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
from trimtab.core.model.pods import Allocation
from trimtab.core.model.recommendation import MIB
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.model.selectors import Selector
from trimtab.simulation.world.loads import ROLE_LABEL, Load, Wave
from trimtab.simulation.world.objects import (
    ContainerTemplate,
    NodeObject,
    PodTemplate,
    RestartPolicy,
    Startup,
    WorkloadObject,
)

NAMESPACE: Final = "shop"
CONTAINER: Final = "app"
LEADER: Final = "leader"
FOLLOWER: Final = "follower"

_GIB: Final = 1024 * MIB
_NIGHT_OWLS: Final = (
    *(0.8, 0.9, 1.0, 1.0, 0.9, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1, 0.1),
    *(0.1, 0.1, 0.1, 0.1, 0.2, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8),
)
"""Load of customers on another continent, hour by hour from midnight UTC."""


@dataclass(frozen=True, slots=True)
class DemoWorkload:
    """One row of the demo: the pods of one autoscaler, and their behaviour."""

    title: str
    habit: str
    autoscaler: Autoscaler
    labels: Selector
    """Selector of its pods."""


def nodes() -> tuple[NodeObject, ...]:
    """Return the nodes, with room for all workloads at their original requests."""
    return tuple(NodeObject(f"node-{number}", _amounts(8000, 32 * _GIB)) for number in range(3))


def web() -> WorkloadObject:
    """Return a website that is busy for half of the day, with requests for its peak."""
    load = Load(
        cpu=Wave(base=60.0, daily=400.0, noise=40.0),
        memory=Wave(base=380.0 * MIB, daily=60.0 * MIB, noise=8.0 * MIB),
        day=_NIGHT_OWLS,
    )
    allocation = Allocation(_amounts(2000, 2 * _GIB), {Resource.MEMORY: 4 * _GIB})
    return _workload("Deployment", "web", _container(allocation, load), replicas=3)


def orders() -> WorkloadObject:
    """Return a JVM that needs a core and a half to start, and little CPU afterwards."""
    load = Load(cpu=Wave(base=100.0, noise=40.0), memory=Wave(base=900.0 * MIB, noise=30.0 * MIB))
    size = _amounts(1500, 2 * _GIB)
    startup = Startup(delay=timedelta(seconds=5), work_cpu_seconds=80.0)
    container = replace(_container(Allocation(size, size), load), startup=startup)
    return _workload("Deployment", "orders", container, replicas=2)


def cache() -> WorkloadObject:
    """Return a cache that starts with too little memory, and never frees any."""
    load = Load(
        cpu=Wave(base=80.0, noise=20.0),
        memory=Wave(base=200.0 * MIB, noise=10.0 * MIB, leak_per_hour=400.0 * MIB),
    )
    allocation = Allocation(_amounts(250, 256 * MIB), {Resource.MEMORY: 256 * MIB})
    return _workload("Deployment", "cache", _container(allocation, load), replicas=1)


def database() -> WorkloadObject:
    """Return a database of three pods: the leader works, the followers mostly wait."""
    data = Wave(base=900.0 * MIB, noise=20.0 * MIB)
    leads = Load(cpu=Wave(base=650.0, noise=100.0), memory=data)
    follows = Load(cpu=Wave(base=80.0, noise=20.0), memory=data)
    allocation = Allocation(_amounts(1000, 2 * _GIB), {Resource.MEMORY: 4 * _GIB})
    container = replace(_container(allocation, follows), role_loads={LEADER: leads})
    made = _workload("StatefulSet", "database", container, replicas=3)
    labels = {**made.template.labels, ROLE_LABEL: FOLLOWER}
    return replace(made, template=replace(made.template, labels=labels))


def report() -> WorkloadObject:
    """Return a batch job that requests far more than it uses."""
    load = Load(cpu=Wave(base=300.0, noise=60.0), memory=Wave(base=500.0 * MIB, noise=20.0 * MIB))
    container = _container(Allocation(_amounts(4000, 8 * _GIB)), load)
    made = _workload("CronJob", "report", container, replicas=None)
    template = replace(
        made.template,
        restart_policy=RestartPolicy.NEVER,
        runs_for=timedelta(minutes=25),
    )
    return replace(made, api_version="batch/v1", template=template, every=timedelta(minutes=30))


def workloads() -> tuple[WorkloadObject, ...]:
    """Return all workloads of the demo."""
    return web(), orders(), cache(), database(), report()


def parts() -> tuple[DemoWorkload, ...]:
    """Return the rows of the demo, from top to bottom, with the autoscaler of each."""
    boost = CpuBoost(BoostType.FACTOR, factor=10, duration=timedelta(seconds=30))
    at_most = ContainerPolicy(CONTAINER, max_allowed={Resource.MEMORY: 3 * _GIB // 2})
    in_place = UpdateMode.IN_PLACE_OR_RECREATE
    return (
        _part("web", "busy half the day", Autoscaler(NAMESPACE, "web", mode=in_place), web()),
        _part(
            "orders",
            "JVM, slow start",
            # A JVM reads its memory size only at its start, so it has to restart.
            Autoscaler(NAMESPACE, "orders", mode=UpdateMode.RECREATE, boost=boost),
            orders(),
        ),
        _part(
            "cache",
            "leaks memory",
            # Its owner allows restarts of the only pod.
            Autoscaler(NAMESPACE, "cache", mode=in_place, min_replicas=1, policies=(at_most,)),
            cache(),
        ),
        _part_of_role("db leader", "does the work", LEADER),
        _part_of_role("db others", "follow the leader", FOLLOWER),
        _part(
            "report",
            "batch job",
            # A batch job is not interrupted; the next one starts with the right size.
            Autoscaler(NAMESPACE, "report", mode=UpdateMode.INITIAL),
            report(),
        ),
    )


def _part(title: str, habit: str, autoscaler: Autoscaler, workload: WorkloadObject) -> DemoWorkload:
    target = TargetReference(workload.kind, workload.name, workload.api_version)
    return DemoWorkload(title, habit, replace(autoscaler, target=target), workload.selector)


def _part_of_role(title: str, habit: str, role: str) -> DemoWorkload:
    of_role = selectors.equality(ROLE_LABEL, role)
    autoscaler = Autoscaler(
        NAMESPACE,
        f"database-{role}",
        selector=Selector((of_role,)),
        # Restarting the leader would make another pod lead.
        mode=UpdateMode.IN_PLACE,
    )
    made = _part(title, habit, autoscaler, database())
    return replace(made, labels=Selector((*made.labels.requirements, of_role)))


def _workload(
    kind: str, name: str, container: ContainerTemplate, *, replicas: int | None
) -> WorkloadObject:
    return WorkloadObject(
        namespace=NAMESPACE,
        kind=kind,
        name=name,
        template=PodTemplate({"app": name}, (container,)),
        selector=Selector((selectors.equality("app", name),)),
        replicas=replicas,
    )


def _container(allocation: Allocation, load: Load) -> ContainerTemplate:
    return ContainerTemplate(CONTAINER, allocation, load=load)


def _amounts(millicores: int, memory_bytes: int) -> Resources:
    return {Resource.CPU: millicores, Resource.MEMORY: memory_bytes}
