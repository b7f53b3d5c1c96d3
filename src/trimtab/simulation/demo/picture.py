"""State of the demo's cluster at one moment; every number is read from the cluster."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import fmean
from typing import Final

from trimtab.core.model.autoscalers import ContainerRecommendation
from trimtab.core.model.pods import Pod, PodPhase
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.sizing import startup_boost
from trimtab.simulation.demo.news import DemoEvent, DemoEventKind, requests_of
from trimtab.simulation.demo.workloads import NAMESPACE, DemoWorkload
from trimtab.simulation.nodes.kubelet import Kubelet
from trimtab.simulation.world.world import World

_ALIVE: Final = (PodPhase.PENDING, PodPhase.RUNNING)


@dataclass(frozen=True, slots=True)
class Gauge:
    """One resource of a part, per pod; None where a value is unknown."""

    used: int | None
    requested: int | None
    asked: int | None
    """Request in the workload's template."""
    target: int | None
    """Recommended request."""
    lower_bound: int | None
    upper_bound: int | None


@dataclass(frozen=True, slots=True)
class DemoRow:
    """State of the pods of a part."""

    title: str
    habit: str
    pods: int
    is_boosted: bool
    gauges: Mapping[Resource, Gauge]


@dataclass(frozen=True, slots=True)
class Picture:
    """The cluster at one moment, and what has happened since the last one."""

    now: datetime
    elapsed: timedelta
    rows: tuple[DemoRow, ...]
    asked: Resources
    """Total requests in the templates of all live pods."""
    requested: Resources
    """Total requests of these pods now."""
    saved_hours: Mapping[Resource, float]
    """Net millicore-hours and byte-hours saved so far."""
    counts: Mapping[DemoEventKind, int]
    news: tuple[DemoEvent, ...]


def live_pods(world: World) -> list[Pod]:
    """Return the pods that have neither ended nor are being deleted."""
    return [pod for pod in world.pods if pod.phase in _ALIVE and not pod.is_deleting]


def asked_for(world: World, pod: Pod) -> Resources:
    """Return the total requests in a pod's template."""
    templates = world.templates[pod.uid].containers
    requests = [template.allocation.requests or {} for template in templates]
    return total(requests)


def total(amounts: Iterable[Resources]) -> Resources:
    """Return the sum of all amounts."""
    given = list(amounts)
    return {resource: sum(each.get(resource, 0) for each in given) for resource in BOTH}


def usage_by_pod(kubelet: Kubelet) -> Mapping[str, Resources]:
    """Return the last measured usage of each pod, by its uid."""
    running, readings = kubelet.running, kubelet.readings()
    if readings is None:
        return {}
    places = running.places_of(readings)
    columns = readings.cpu_millicores[places].tolist(), readings.memory_bytes[places].tolist()
    names = running.names_of(readings.rows[places])
    return {
        name.uid: dict(zip(BOTH, amounts, strict=True))
        for name, *amounts in zip(names, *columns, strict=True)
    }


def picture_row(world: World, part: DemoWorkload, used: Mapping[str, Resources]) -> DemoRow:
    """Return the present state of the pods of a part."""
    pods = [pod for pod in live_pods(world) if part.labels.matches(pod.labels)]
    measured = [used[pod.uid] for pod in pods if pod.uid in used]
    recommendation = _recommendation(world, part)
    return DemoRow(
        title=part.title,
        habit=part.habit,
        pods=len(pods),
        is_boosted=any(map(startup_boost.boosted_containers, pods)),
        gauges={
            resource: Gauge(
                used=_mean(measured, resource),
                requested=_mean([requests_of(pod) for pod in pods], resource),
                asked=_mean([asked_for(world, pod) for pod in pods], resource),
                target=recommendation.target.get(resource),
                lower_bound=(recommendation.lower_bound or {}).get(resource),
                upper_bound=(recommendation.upper_bound or {}).get(resource),
            )
            for resource in BOTH
        },
    )


def _recommendation(world: World, part: DemoWorkload) -> ContainerRecommendation:
    found = world.autoscalers.find(NAMESPACE, part.autoscaler.name)
    given = (found and found.recommendation) or ()
    return next(iter(given), ContainerRecommendation("", {}))


def _mean(amounts: Sequence[Resources], resource: Resource) -> int | None:
    return round(fmean(each[resource] for each in amounts)) if amounts else None
