"""What recommenders were told of every container: how much may be new, how much may be forgotten.

Of what was told a recommender may have counted all, some or nothing; what it was not told it
cannot have counted. A weight is the most that something weighs, as a histogram sees it from the
moment that it takes for its reference.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

import numpy as np

from trimtab.core.aggregates import CPU_WEIGHT, MEMORY_WEIGHT, UsageSettings
from trimtab.core.buckets import Floats
from trimtab.core.containers import ContainerMemory
from trimtab.core.pods import WorkloadName
from trimtab.simulation.facts import ContainerKilled, Fact, PodPressedOut, UsageTold
from trimtab.simulation.hindsight import Hindsight

ContainerKind: TypeAlias = tuple[WorkloadName, str]
"""A workload, and the name of a container of its pods."""


@dataclass(slots=True)
class _Mentioned:
    """When something was first and last told of one container, in seconds."""

    first: float
    last: float


@dataclass(slots=True)
class _Kind:
    """All that was told of the containers of one kind."""

    samples: list[float] = field(default_factory=list)
    containers: dict[str, _Mentioned] = field(default_factory=dict)
    """By the names of their pods."""


class Told:
    """When readings were told and kills showed, by kind of container."""

    def __init__(self, past: Hindsight, settings: UsageSettings) -> None:
        self._past = past
        self._settings = settings
        self._kinds: dict[ContainerKind, _Kind] = {}
        self._newest: dict[tuple[str, str, str], float] = {}

    def note(self, fact: Fact) -> None:
        """Take in what a fact tells of containers."""
        match fact:
            case UsageTold(usage=usage):
                rows = zip(usage.namespaces, usage.pods, usage.containers, usage.times, strict=True)
                for namespace, pod_name, container, time in rows:
                    if time > self._newest.get((namespace, pod_name, container), 0.0):
                        self._newest[namespace, pod_name, container] = time
                        self._mention(namespace, pod_name, container, time).samples.append(time)
            case ContainerKilled(at=at, pod=pod, container_name=name):
                self._mention(pod.namespace, pod.name, name, at.timestamp())
            case PodPressedOut(at=at, pod=pod, blamed=blamed):
                for eviction in blamed:
                    self._mention(pod.namespace, pod.name, eviction.container, at.timestamp())
            case _:
                return

    def count(self, kind: ContainerKind, *, until: datetime) -> int:
        """How many readings are as old as that."""
        return int(np.count_nonzero(self._samples(kind) <= until.timestamp()))

    def cpu_before(self, kind: ContainerKind, moment: datetime, *, seen_from: datetime) -> float:
        """What all readings weigh together that are as old as that."""
        samples = self._samples(kind)
        return self._cpu_weight(samples[samples <= moment.timestamp()], seen_from)

    def cpu_after(self, kind: ContainerKind, moment: datetime, *, seen_from: datetime) -> float:
        """What all readings weigh together that are newer than that."""
        samples = self._samples(kind)
        return self._cpu_weight(samples[samples > moment.timestamp()], seen_from)

    def memory_before(self, kind: ContainerKind, moment: datetime, *, seen_from: datetime) -> float:
        """What all windows weigh together in which there is anything as old as that."""
        latest = moment.timestamp()
        interval = self._settings.memory_interval.total_seconds()
        ends = [
            min(one.last, latest) + interval
            for one in self._containers(kind).values()
            if one.first <= latest
        ]
        return sum(self._weigh_windows(end, None, seen_from) for end in ends)

    def memory_after(
        self,
        kind: ContainerKind,
        moment: datetime,
        *,
        known: Mapping[str, ContainerMemory],
        seen_from: datetime,
    ) -> float:
        """What all windows weigh that are new since then, given the current ones of that time."""
        interval, total = self._settings.memory_interval.total_seconds(), 0.0
        for pod_name, one in self._containers(kind).items():
            memory = known.get(pod_name)
            if one.last <= moment.timestamp():
                continue
            if memory is None or memory.window_end is None:
                first = max(one.first, moment.timestamp() - interval)
            else:
                first = memory.window_end
            count = int((one.last - first) // interval) + 1
            total += self._weigh_windows(first + count * interval, max(0, count), seen_from)
        return total

    def _weigh_windows(self, last_end: float, count: int | None, seen_from: datetime) -> float:
        """The weight of so many windows in a row, or of any number of them."""
        settings = self._settings
        ratio = 2.0 ** -(settings.memory_interval / settings.memory_half_life)
        half_lives = (last_end - seen_from.timestamp()) / settings.memory_half_life.total_seconds()
        windows = (1 - (0.0 if count is None else ratio**count)) / (1 - ratio)
        return float(MEMORY_WEIGHT * 2.0**half_lives * windows)

    def _cpu_weight(self, times: Floats, seen_from: datetime) -> float:
        half_lives = (times - seen_from.timestamp()) / self._settings.cpu_half_life.total_seconds()
        return float(CPU_WEIGHT * np.exp2(half_lives).sum())

    def _samples(self, kind: ContainerKind) -> Floats:
        return np.array(self._kinds.get(kind, _Kind()).samples)

    def _containers(self, kind: ContainerKind) -> Mapping[str, _Mentioned]:
        return self._kinds.get(kind, _Kind()).containers

    def _mention(self, namespace: str, pod_name: str, container: str, at: float) -> _Kind:
        workload = self._past.workload_named(namespace, pod_name)
        kind = (
            _Kind() if workload is None else self._kinds.setdefault((workload, container), _Kind())
        )
        mentioned = kind.containers.setdefault(pod_name, _Mentioned(at, at))
        mentioned.last = max(mentioned.last, at)
        return kind
