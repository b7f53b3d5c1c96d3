"""Sampling: the newest readings of all containers, and the OOM kills that were seen, into usage.

Readings stay columns from the decoder to the histograms; finding a container's row costs one
lookup, and everything else is done on arrays.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from trimtab.api.usage.external_metrics import PodGroup
from trimtab.api.usage.pod_metrics import UsageColumns
from trimtab.cluster.ports import ExternalMetrics
from trimtab.core.histogram.buckets import Floats
from trimtab.core.model.resources import Resource
from trimtab.core.model.selectors import Selector
from trimtab.core.usage import aggregates
from trimtab.core.usage.cluster_usage import Usage
from trimtab.core.usage.containers import PodName
from trimtab.core.usage.samples import Samples
from trimtab.recommender.load_cluster import is_wanted
from trimtab.recommender.oom_observer import ObservedKill
from trimtab.recommender.reports import Accepted, TickReport
from trimtab.recommender.settings import RecommenderSettings
from trimtab.recommender.state import RecommenderState


def take_in_usage(usage: Usage, columns: UsageColumns, now: datetime) -> TickReport:
    """Add every reading to the aggregate that its container feeds."""
    seconds = aggregates.to_seconds(now, missing=0.0)
    rows = usage.find_containers(columns.namespaces, columns.pods, columns.containers)
    times = np.array(columns.times, np.float64)
    cpu = Samples(rows, np.array(columns.cpu_millicores, np.float64), times)
    cpu = cpu.pick(np.array(columns.has_cpu, np.bool_))
    memory = Samples(rows, np.array(columns.memory_bytes, np.float64), times)
    memory = memory.pick(np.array(columns.has_memory, np.bool_))
    newer_cpu = cpu.pick(cpu.times > _last(usage, "last_cpu", cpu))
    return TickReport(
        cpu=usage.add_cpu(cpu, seconds),
        memory=usage.add_memory(memory, seconds),
        accepted=(
            _accepted(usage, Resource.CPU, newer_cpu),
            _accepted(usage, Resource.MEMORY, memory),
        ),
    )


def count_oom_kills(
    knowledge: RecommenderState,
    sightings: Iterable[ObservedKill],
    settings: RecommenderSettings,
    now: datetime,
) -> TickReport:
    """Add the kills that were seen, of pods that are gone again too."""
    seen = list(sightings)
    if not seen:
        knowledge.usage.forget_kills(now)
        return TickReport()
    unplaced, rows, values, times = 0, [], [], []
    for sighting in seen:
        kill, pod = sighting.kill, sighting.pod
        row = _place(knowledge, sighting, settings, now)
        if row is None:
            unplaced += 1
        elif not _is_counted(knowledge, sighting, row):
            place = (pod.namespace, pod.name, kill.container_name)
            knowledge.pods.counted_kills[place] = kill.time
            rows.append(row)
            values.append(kill.memory_bytes)
            times.append(aggregates.to_seconds(kill.time, missing=0.0))
    kills = Samples(
        np.array(rows, np.int64), np.array(values, np.float64), np.array(times, np.float64)
    )
    seconds = aggregates.to_seconds(now, missing=0.0)
    intake = knowledge.usage.add_oom_kills(kills, seconds, knowledge.oom_ceiling_bytes)
    knowledge.usage.forget_kills(now)
    accepted = _accepted(knowledge.usage, Resource.MEMORY, kills, is_oom_kill=True)
    return TickReport(oom_kills=intake, unplaced_oom_kills=unplaced, accepted=(accepted,))


def _accepted(
    usage: Usage, resource: Resource, samples: Samples, *, is_oom_kill: bool = False
) -> Accepted:
    """Those that counted: afterwards they are the last of their containers."""
    column = "last_cpu" if resource is Resource.CPU else "last_memory"
    fresh = samples.pick(_last(usage, column, samples) == samples.times)
    rows = usage.containers.aggregate[fresh.containers]
    return Accepted(resource, rows, fresh.values, is_oom_kill)


def _last(usage: Usage, column: str, samples: Samples) -> Floats:
    """When the container of each sample told something last; NaN where it is not known."""
    known = samples.containers >= 0
    last = np.full(len(samples), np.nan)
    last[known] = usage.containers.floats(column)[samples.containers[known]]
    return last


def _is_counted(knowledge: RecommenderState, sighting: ObservedKill, row: int) -> bool:
    """Whether a kill was counted already, by us or by whoever wrote the checkpoints."""
    kill, pod = sighting.kill, sighting.pod
    place = (pod.namespace, pod.name, kill.container_name)
    if place in knowledge.pods.counted_kills:
        last = knowledge.pods.counted_kills[place]
        return last is not None and kill.time <= last
    aggregate = int(knowledge.usage.containers.aggregate[row])
    learners = knowledge.usage.links.learners_of(aggregate)
    known = [knowledge.subjects[name].counted_until for name in learners]
    return any(until is not None and kill.time <= until for until in known)


def _place(
    knowledge: RecommenderState,
    sighting: ObservedKill,
    settings: RecommenderSettings,
    now: datetime,
) -> int | None:
    """The row of the container that was killed; it is tracked for that if need be."""
    pod, killed = sighting.pod, sighting.kill.container_name
    name = PodName(pod.namespace, pod.name)
    known = knowledge.usage.containers_of(name)
    if killed in known:
        return known[killed]
    if killed not in [container.name for container in pod.containers]:
        return None
    if not settings.covers(pod.namespace):
        return None
    if settings.memory_saver and not is_wanted(knowledge, pod):
        return None
    # Of the pod's other containers nothing is known, and a pod that never gets to run has them no
    # more: whoever knew them for a moment would share the minimum of a pod with them.
    if not known:
        knowledge.pods.leaving.add(name)
    knowledge.usage.track(name, pod.labels, [*known, killed], now)
    return knowledge.usage.containers_of(name)[killed]


@dataclass(frozen=True, slots=True)
class ExternalUsage:
    """The usage of all pods that autoscalers of ours are for."""

    metrics: ExternalMetrics
    knowledge: Callable[[], RecommenderState]
    """What is known at the moment of asking."""

    async def fetch(self) -> UsageColumns:
        """The newest reading of every container."""
        return await self.metrics.fetch(list_groups(self.knowledge()))


def list_groups(knowledge: RecommenderState) -> list[PodGroup]:
    """The running pods that somebody learns from, each once, by a selector that finds it."""
    found: defaultdict[tuple[str, Selector], list[str]] = defaultdict(list)
    for namespace, name in sorted(knowledge.pods.tracked):
        pod = PodName(namespace, name)
        selector = _selector_of(knowledge, pod)
        if selector is not None and pod not in knowledge.pods.ended:
            found[namespace, selector].append(name)
    return [PodGroup(*place, tuple(pods)) for place, pods in found.items()]


def _selector_of(knowledge: RecommenderState, pod: PodName) -> Selector | None:
    """The selector of an autoscaler of ours that is for the pod; None if none is."""
    links, containers = knowledge.usage.links, knowledge.usage.containers
    # All containers of a pod have the same labels, so one tells of all.
    for row in knowledge.usage.containers_of(pod).values():
        learners = links.learners_of(int(containers.aggregate[row]))
        ours = sorted(name for name in learners if knowledge.subjects[name].is_ours)
        return links.learners[ours[0]].selector if ours else None
    return None
