"""Sampling: the latest usage of all containers, and the observed OOM kills, into histograms.

Samples stay columns from the decoder to the histograms. Finding a container's row costs one lookup;
everything else runs on arrays.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from trimtab.api.usage.external_metrics import PodGroup
from trimtab.api.usage.pod_metrics import UsageColumns
from trimtab.cluster.ports import ExternalMetrics
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
    """Add every sample to the aggregate that its container feeds."""
    seconds = aggregates.to_seconds(now, missing=0.0)
    rows = usage.find_containers(columns.namespaces, columns.pods, columns.containers)
    times = np.array(columns.times, np.float64)
    cpu = Samples(rows, np.array(columns.cpu_millicores, np.float64), times)
    cpu = cpu.pick(np.array(columns.has_cpu, np.bool_))
    memory = Samples(rows, np.array(columns.memory_bytes, np.float64), times)
    memory = memory.pick(np.array(columns.has_memory, np.bool_))
    of_cpu, of_memory = usage.add_cpu(cpu, seconds), usage.add_memory(memory, seconds)
    return TickReport(
        cpu=of_cpu.counts,
        memory=of_memory.counts,
        accepted=(
            _accepted(usage, Resource.CPU, of_cpu.accepted),
            _accepted(usage, Resource.MEMORY, of_memory.accepted),
        ),
    )


def count_oom_kills(
    state: RecommenderState,
    sightings: Iterable[ObservedKill],
    settings: RecommenderSettings,
    now: datetime,
) -> TickReport:
    """Add the observed OOM kills, those of pods that are already gone included."""
    seen = list(sightings)
    if not seen:
        state.usage.forget_kills(now)
        return TickReport()
    unplaced, rows, values, times, limits = 0, [], [], [], []
    for sighting in seen:
        kill, pod = sighting.kill, sighting.pod
        row = _place(state, sighting, settings, now)
        if row is None:
            unplaced += 1
        elif not _is_counted(state, sighting, row):
            place = (pod.namespace, pod.name, kill.container_name)
            state.pods.counted_kills[place] = kill.time
            rows.append(row)
            values.append(kill.memory_bytes)
            times.append(aggregates.to_seconds(kill.time, missing=0.0))
            # NaN stands for no limit (`Samples.limits`).
            limits.append(kill.limit_bytes or np.nan)
    kills = Samples(
        np.array(rows, np.int64),
        np.array(values, np.float64),
        np.array(times, np.float64),
        np.array(limits, np.float64),
    )
    seconds = aggregates.to_seconds(now, missing=0.0)
    intake = state.usage.add_oom_kills(kills, seconds, state.oom_ceiling_bytes)
    state.usage.forget_kills(now)
    accepted = _accepted(state.usage, Resource.MEMORY, intake.accepted, is_oom_kill=True)
    return TickReport(oom_kills=intake.counts, unplaced_oom_kills=unplaced, accepted=(accepted,))


def _accepted(
    usage: Usage, resource: Resource, samples: Samples, *, is_oom_kill: bool = False
) -> Accepted:
    rows = usage.containers.aggregate[samples.containers]
    return Accepted(resource, rows, samples.values, is_oom_kill)


def _is_counted(state: RecommenderState, sighting: ObservedKill, row: int) -> bool:
    """True if a kill was counted already, in this process or in the checkpoints."""
    kill, pod = sighting.kill, sighting.pod
    place = (pod.namespace, pod.name, kill.container_name)
    if place in state.pods.counted_kills:
        last = state.pods.counted_kills[place]
        return last is not None and kill.time <= last
    aggregate = int(state.usage.containers.aggregate[row])
    learners = state.usage.links.learners_of(aggregate)
    known = [state.subjects[name].counted_until for name in learners]
    return any(until is not None and kill.time <= until for until in known)


def _place(
    state: RecommenderState,
    sighting: ObservedKill,
    settings: RecommenderSettings,
    now: datetime,
) -> int | None:
    """Return the row of the killed container, tracked first if necessary; None if unknown."""
    pod, killed = sighting.pod, sighting.kill.container_name
    name = PodName(pod.namespace, pod.name)
    known = state.usage.containers_of(name)
    if killed in known:
        return known[killed]
    if killed not in [container.name for container in pod.containers]:
        return None
    if not settings.covers(pod.namespace):
        return None
    if settings.memory_saver and not is_wanted(state, pod):
        return None
    # Add only the killed container: the others of an unknown pod may never run, and would then
    # take a share of the pod's minimum.
    if not known:
        # The pod is gone, or about to go; the next tick stops tracking it.
        state.pods.leaving.add(name)
    state.usage.track(name, pod.labels, [*known, killed], now)
    return state.usage.containers_of(name)[killed]


@dataclass(frozen=True, slots=True)
class ExternalUsage:
    """Usage of all pods that served autoscalers select."""

    metrics: ExternalMetrics
    state: Callable[[], RecommenderState]
    """Returns the recommender's current state."""

    async def fetch(self) -> UsageColumns:
        """Return the latest sample of every container."""
        return await self.metrics.fetch(list_groups(self.state()))


def list_groups(state: RecommenderState) -> list[PodGroup]:
    """Return the running pods that served autoscalers select, each once, grouped by selector."""
    found: defaultdict[tuple[str, Selector], list[str]] = defaultdict(list)
    for namespace, name in sorted(state.pods.tracked):
        pod = PodName(namespace, name)
        selector = _selector_of(state, pod)
        if selector is not None and pod not in state.pods.ended:
            found[namespace, selector].append(name)
    return [PodGroup(*place, tuple(pods)) for place, pods in found.items()]


def _selector_of(state: RecommenderState, pod: PodName) -> Selector | None:
    """Return the selector of a served autoscaler that selects the pod; None if there is none."""
    links, containers = state.usage.links, state.usage.containers
    # All containers of a pod have the same labels, so one of them stands for all.
    for row in state.usage.containers_of(pod).values():
        learners = links.learners_of(int(containers.aggregate[row]))
        ours = sorted(name for name in learners if state.subjects[name].is_ours)
        return links.learners[ours[0]].selector if ours else None
    return None
