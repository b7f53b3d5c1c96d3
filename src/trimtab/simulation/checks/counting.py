"""Checks that no sample counts twice: compares the metrics server's readings with checkpoints.

The checkers cannot detect a sample that was left out: its pod may have been unknown to the
recommender. Usage from a source other than the metrics server would look like too much.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.api.usage.pod_metrics import UsageColumns
from trimtab.core.histogram.checkpoint import HistogramCheckpoint
from trimtab.core.model import autoscalers, estimation, limits
from trimtab.core.model.autoscalers import Autoscaler, ContainerRecommendation
from trimtab.core.model.estimation import Estimator
from trimtab.core.model.pods import UPDATES, Container, Pod, WorkloadName
from trimtab.core.model.recommendation import RecommendationSettings
from trimtab.core.model.resources import Resource
from trimtab.core.usage.aggregates import CPU_WEIGHT
from trimtab.simulation.checks.base import Checker, Rules
from trimtab.simulation.checks.held_memory import MemorySteps
from trimtab.simulation.checks.hindsight import Hindsight
from trimtab.simulation.world.facts import (
    CheckpointSaved,
    ContainerKilled,
    Fact,
    PodCreated,
    PodPressedOut,
    StatusPublished,
    UsageTold,
)
from trimtab.simulation.world.virtual_time import START
from trimtab.simulation.world.world import World

_ROUNDING: Final = 1e-6


@dataclass(slots=True)
class _Sent:
    """Samples that the metrics server has reported for the containers of one kind."""

    samples: int = 0
    weight: float = 0.0
    """Total weight of all CPU samples, with the start of simulated time as reference."""


class SamplesCountedOnce(Checker):
    """No checkpoint holds more samples or more CPU weight than the metrics server has reported."""

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._sent = dict[tuple[WorkloadName, str], _Sent]()
        self._newest: dict[tuple[str, str, str], float] = {}
        self._given: dict[tuple[str, str], tuple[int, float]] = {}

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report samples that were counted but never reported."""
        match fact:
            case UsageTold(usage=usage):
                self._take_in(usage)
            case CheckpointSaved(actor=actor, before=before, after=after):
                for excess in self._find_excess(before, after):
                    yield f"{actor} saved {after.namespace}/{after.name} with {excess}"
            case _:
                return

    def _take_in(self, usage: UsageColumns) -> None:
        half_life = self.rules.usage.cpu_half_life.total_seconds()
        begin = START.timestamp()
        rows = zip(usage.namespaces, usage.pods, usage.containers, usage.times, strict=True)
        for namespace, pod_name, container, time in rows:
            place = (namespace, pod_name, container)
            # The metrics server repeats a reading until it has a newer one, and faults serve old
            # ones.
            if time <= self._newest.get(place, 0.0):
                continue
            self._newest[place] = time
            workload = self.past.workload_named(namespace, pod_name)
            if workload is not None:
                sent = self._sent.setdefault((workload, container), _Sent())
                sent.samples += 1
                sent.weight += CPU_WEIGHT * math.exp2((time - begin) / half_life)

    def _find_excess(self, before: Checkpoint | None, after: Checkpoint) -> Iterator[str]:
        half_life = self.rules.usage.cpu_half_life
        place = (after.namespace, after.name)
        if place not in self._given:
            # An earlier recommender saved what was there at first sight.
            samples = 0 if before is None else before.aggregate.total_samples_count
            weight = 0.0 if before is None else _weight(before.aggregate.cpu_histogram, half_life)
            self._given[place] = (samples, weight)
        target = self.past.target_of(after.namespace, after.autoscaler_name)
        if target is None:
            return
        samples, weight = self._given[place]
        sent = self._sent.get((target, after.container_name), _Sent())
        saved = after.aggregate
        if saved.total_samples_count > samples + sent.samples:
            yield f"{saved.total_samples_count} samples, {samples + sent.samples} were served"
        most = (weight + sent.weight) * (1 + _ROUNDING)
        if _weight(saved.cpu_histogram, half_life) > most:
            yield "more CPU weight than all samples have"


def _weight(histogram: HistogramCheckpoint, half_life: timedelta) -> float:
    """Return the weight of a histogram, with the start of simulated time as reference."""
    if histogram.reference_time is None:
        return 0.0
    shift: float = (histogram.reference_time - START) / half_life
    return histogram.total_weight * math.exp2(shift)


_BUCKET_GROWTH: Final = 1.05
"""Largest ratio of the end of a bucket to a value inside it."""
_FIRST_BUCKET_BYTES: Final = 10_000_000
_MEMORY_SET: Final = "memory request"
"""Part of the annotation of a pod whose memory request admission has set."""


class KillsCountedOnce(Checker):
    """No memory target exceeds what the largest reading or a single OOM kill explains.

    Under the estimator `cost` a target may also start at what pods request by themselves, and the
    steps of OOM kills grow with each kill at a higher limit.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._used: dict[tuple[WorkloadName, str], int] = {}
        self._killed_with: dict[tuple[WorkloadName, str], int] = {}
        self._held: defaultdict[tuple[WorkloadName, str], MemorySteps] = defaultdict(MemorySteps)
        self._saved: set[tuple[str, str]] = set()

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report a memory target that nothing explains."""
        match fact:
            case UsageTold(usage=usage):
                self._take_in(usage)
            case PodCreated(wanted=wanted, pod=pod):
                self._note_requests(wanted, pod)
            case ContainerKilled(pod=pod, container_name=name, limit_bytes=limit):
                self._note_kill(pod, name, _request_of(pod, name), limit)
            case PodPressedOut(pod=pod, blamed=blamed):
                for eviction in blamed:
                    self._note_kill(pod, eviction.container, eviction.memory_bytes)
            case CheckpointSaved(before=None, after=after):
                self._saved.add((after.namespace, after.name))
            case StatusPublished(actor=actor, before=before, after=after):
                if before.recommendation != after.recommendation:
                    for entry in after.recommendation or ():
                        yield from self._check(actor, after, entry)
            case _:
                return

    def _take_in(self, usage: UsageColumns) -> None:
        rows = zip(usage.namespaces, usage.pods, usage.containers, usage.memory_bytes, strict=True)
        for namespace, pod_name, container_name, memory in rows:
            workload = self.past.workload_named(namespace, pod_name)
            if workload is not None:
                kind = (workload, container_name)
                self._used[kind] = max(self._used.get(kind, 0), memory)

    def _note_requests(self, wanted: Pod, pod: Pod) -> None:
        """Note the requests of a new pod that no component has set."""
        workload = self.past.workload_named(pod.namespace, pod.name)
        if workload is None:
            return
        # Without admission a pod has what it wanted, or the defaults of a limit range.
        is_set = _MEMORY_SET in pod.annotations.get(UPDATES, "")
        for container in (wanted if is_set else pod).containers:
            # The API server takes a limit for a request that is missing.
            asked = (container.spec.requests, container.spec.limits)
            amounts = [limits.amount_of(each, Resource.MEMORY) for each in asked]
            memory = amounts[0] or amounts[1]
            held = self._held[workload, container.name]
            held.given = max(held.given, memory)

    def _note_kill(self, pod: Pod, container_name: str, memory: int, limit: int = 0) -> None:
        workload = self.past.workload_named(pod.namespace, pod.name)
        if workload is not None:
            kind = (workload, container_name)
            self._killed_with[kind] = max(self._killed_with.get(kind, 0), memory)
            reached = limit or max(memory, self._used.get(kind, 0))
            self._held[kind].note_kill(reached, self.world.now(), self.rules.cost)

    def _check(
        self, actor: str, autoscaler: Autoscaler, entry: ContainerRecommendation
    ) -> Iterator[str]:
        target = limits.amount_of(entry.uncapped_target or entry.target, Resource.MEMORY)
        workload = self.past.target_of(autoscaler.namespace, autoscaler.name)
        if workload is None or self._has_older_history(autoscaler, entry):
            return
        most = self._most((workload, entry.container_name), autoscaler)
        if target > most:
            where = f"{autoscaler.namespace}/{autoscaler.name} {entry.container_name}"
            yield f"{actor} published {target} bytes for {where}; nothing explains over {most}"

    def _has_older_history(self, autoscaler: Autoscaler, entry: ContainerRecommendation) -> bool:
        """Return True if a checkpoint exists that was not created while the checker looked."""
        place = (autoscaler.namespace, f"{autoscaler.name}-{entry.container_name}")
        return place not in self._saved and self.world.checkpoints.find(*place) is not None

    def _most(self, kind: tuple[WorkloadName, str], autoscaler: Autoscaler) -> int:
        used = self._used.get(kind, 0)
        needed = float(used)
        policy = autoscalers.policy_for(autoscaler.policies, kind[1])
        if kind in self._killed_with:
            had = max(self._killed_with[kind], used)
            usage = self.rules.usage
            own_ratio = None if policy is None else policy.oom_bump_up_ratio
            own_bytes = None if policy is None else policy.oom_min_bump_up_bytes
            by_ratio = had * max(own_ratio or 0.0, usage.oom_bump_up_ratio)
            by_bytes = had + max(own_bytes or 0, usage.oom_min_bump_up_bytes)
            needed = max(by_ratio, by_bytes)
        level = needed * _BUCKET_GROWTH + _FIRST_BUCKET_BYTES
        estimate = level * (1 + self.rules.safety_margin)
        if self._is_held(autoscaler):
            least = 0 if policy is None else limits.amount_of(policy.min_allowed, Resource.MEMORY)
            estimate = max(estimate, self._held[kind].most(level, self.rules.cost), least)
        return max(int(estimate), RecommendationSettings().memory.pod_floor)

    def _is_held(self, autoscaler: Autoscaler) -> bool:
        chosen = estimation.chosen_estimator(autoscaler.annotations, self.rules.estimator)
        return chosen is Estimator.COST


def _request_of(pod: Pod, container_name: str) -> int:
    """Return the largest memory request that the container may seem to have had when killed."""
    found = [container for container in pod.containers if container.name == container_name]
    return max(map(_largest_request, found), default=0)


def _largest_request(container: Container) -> int:
    asked = (container.spec.requests, container.current.requests)
    return max(limits.amount_of(amounts, Resource.MEMORY) for amounts in asked)
