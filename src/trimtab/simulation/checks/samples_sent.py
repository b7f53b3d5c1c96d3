"""Readings and kills that recommenders could see: limits for new and for forgotten weight.

A recommender may have counted any part of what it could see, and nothing else. Each weight here is
an upper limit, computed against the reference time of a histogram.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

import numpy as np

from trimtab.core.histogram.buckets import Floats
from trimtab.core.model.pods import WorkloadName
from trimtab.core.usage.aggregates import CPU_WEIGHT, MEMORY_WEIGHT, LabelSet, UsageSettings
from trimtab.core.usage.containers import ContainerMemory
from trimtab.simulation.checks.hindsight import Hindsight
from trimtab.simulation.world.facts import ContainerKilled, Fact, PodPressedOut, UsageTold

ContainerKind: TypeAlias = tuple[WorkloadName, str]
"""A workload, and the name of a container of its pods."""


_Role: TypeAlias = tuple[str, str, LabelSet]
"""Name, uid and labels of a pod: a container has a memory window for each (S25a).

A successor of the same name may continue the window of its predecessor, or not.
"""


@dataclass(slots=True)
class _Mentioned:
    """The first and the last time, in seconds, at which one container in one role was seen."""

    first: float
    last: float
    sent_at: datetime
    """Time at which the last reading was reported; the reading itself is older."""


@dataclass(slots=True)
class _Kind:
    """All readings and kills of the containers of one kind."""

    samples: list[float] = field(default_factory=list)
    containers: dict[_Role, _Mentioned] = field(default_factory=dict)


class SamplesSent:
    """Times of reported readings and of kills, by kind of container."""

    def __init__(self, past: Hindsight, settings: UsageSettings) -> None:
        self._past = past
        self._settings = settings
        self._kinds: dict[ContainerKind, _Kind] = {}
        self._newest: dict[tuple[str, str, str], float] = {}
        self._roles: dict[tuple[str, str], list[_Role]] = {}

    def note(self, fact: Fact) -> None:
        """Record the readings or kills of a fact."""
        match fact:
            case UsageTold(at=at, usage=usage):
                rows = zip(usage.namespaces, usage.pods, usage.containers, usage.times, strict=True)
                for namespace, pod_name, container, time in rows:
                    if time > self._newest.get((namespace, pod_name, container), 0.0):
                        self._newest[namespace, pod_name, container] = time
                        kind = self._mention(namespace, pod_name, container, time, at)
                        kind.samples.append(time)
            case ContainerKilled(at=at, pod=pod, container_name=name):
                self._mention(pod.namespace, pod.name, name, at.timestamp(), at)
            case PodPressedOut(at=at, pod=pod, blamed=blamed):
                for eviction in blamed:
                    self._mention(pod.namespace, pod.name, eviction.container, at.timestamp(), at)
            case _:
                return

    def count(self, kind: ContainerKind, *, until: datetime) -> int:
        """Count the readings up to a time."""
        return int(np.count_nonzero(self._samples(kind) <= until.timestamp()))

    def cpu_before(self, kind: ContainerKind, moment: datetime, *, seen_from: datetime) -> float:
        """Return the CPU weight of all readings up to a time."""
        samples = self._samples(kind)
        return self._cpu_weight(samples[samples <= moment.timestamp()], seen_from)

    def cpu_after(self, kind: ContainerKind, moment: datetime, *, seen_from: datetime) -> float:
        """Return the CPU weight of all readings after a time."""
        samples = self._samples(kind)
        return self._cpu_weight(samples[samples > moment.timestamp()], seen_from)

    def memory_before(self, kind: ContainerKind, moment: datetime, *, seen_from: datetime) -> float:
        """Return the weight of all memory windows that hold anything up to a time."""
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
        begun: datetime,
    ) -> float:
        """Return the weight of all windows that are new since `moment`.

        `known` holds the windows that were current at that moment. A recommender that started at
        `begun` has lost earlier readings that were not saved. Where it knows no window, a new one
        begins with its own first reading.
        """
        interval, total = self._settings.memory_interval.total_seconds(), 0.0
        current = {
            pod_name: memory.window_end
            for pod_name, memory in known.items()
            if memory.window_end is not None
        }
        for (pod_name, _, _), one in self._containers(kind).items():
            if one.last <= moment.timestamp():
                continue
            anew = max(one.first, moment.timestamp() - interval)
            is_known = pod_name in current
            # A known window continues in one role; every other role has a new one.
            begins = {current.pop(pod_name, anew)}
            if one.first > moment.timestamp():
                begins.add(anew)
            if not is_known and one.sent_at > begun:
                begins.add(one.last)
            total += max(self._weigh_since(first, one.last, seen_from) for first in begins)
        return total

    def _weigh_since(self, first: float, last: float, seen_from: datetime) -> float:
        """Return the weight of consecutive windows, from the start of one up to a reading."""
        interval = self._settings.memory_interval.total_seconds()
        count = int((last - first) // interval) + 1
        return self._weigh_windows(first + count * interval, max(0, count), seen_from)

    def _weigh_windows(self, last_end: float, count: int | None, seen_from: datetime) -> float:
        """Return the weight of `count` consecutive windows, or of any number if it is None."""
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

    def _containers(self, kind: ContainerKind) -> Mapping[_Role, _Mentioned]:
        return self._kinds.get(kind, _Kind()).containers

    def _mention(
        self, namespace: str, pod_name: str, container: str, time: float, sent_at: datetime
    ) -> _Kind:
        workload = self._past.workload_named(namespace, pod_name)
        kind = (
            _Kind() if workload is None else self._kinds.setdefault((workload, container), _Kind())
        )
        for role in self._believed_roles(namespace, pod_name):
            mentioned = kind.containers.setdefault(role, _Mentioned(time, time, sent_at))
            mentioned.last = max(mentioned.last, time)
            mentioned.sent_at = sent_at
        return kind

    def _believed_roles(self, namespace: str, pod_name: str) -> list[_Role]:
        """Return the roles that the pod has or seems to have; the last known ones if it is gone."""
        seen = self._past.labels_of(namespace, pod_name)
        if seen:
            uid = self._past.uid_of(namespace, pod_name)
            self._roles[namespace, pod_name] = [
                (pod_name, uid, tuple(sorted(labels.items()))) for labels in seen
            ]
        return self._roles.get((namespace, pod_name), [(pod_name, "", ())])
