"""How the demo's cluster is at one moment: every number is read from it, none is made up."""

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
    """One resource of a part, per pod; None where nothing is known."""

    used: int | None
    requested: int | None
    asked: int | None
    """What the owner of the workload wrote down once."""
    target: int | None
    """What is recommended."""
    lower_bound: int | None
    upper_bound: int | None


@dataclass(frozen=True, slots=True)
class DemoRow:
    """How the pods of a part are."""

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
    """What the owners of all pods that live now asked for."""
    requested: Resources
    """What these pods request instead."""
    saved_hours: Mapping[Resource, float]
    """Millicore-hours and byte-hours that were not set aside so far, on balance."""
    counts: Mapping[DemoEventKind, int]
    news: tuple[DemoEvent, ...]


def live_pods(world: World) -> list[Pod]:
    """The pods that have neither ended nor are about to."""
    return [pod for pod in world.pods if pod.phase in _ALIVE and not pod.is_deleting]


def asked_for(world: World, pod: Pod) -> Resources:
    """What the owner of a pod's workload asked for."""
    templates = world.templates[pod.uid].containers
    requests = [template.allocation.requests or {} for template in templates]
    return total(requests)


def total(amounts: Iterable[Resources]) -> Resources:
    """All of them together."""
    given = list(amounts)
    return {resource: sum(each.get(resource, 0) for each in given) for resource in BOTH}


def usage_by_pod(kubelet: Kubelet) -> Mapping[str, Resources]:
    """What each pod used when it was last measured, by its uid."""
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
    """How the pods of a part are now."""
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
