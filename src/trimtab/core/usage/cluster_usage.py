"""Usage: from samples and OOM kills to the aggregates that each autoscaler learns from.

Only this module knows all parts: pods feed aggregates through their containers, autoscalers learn
from aggregates through links and from their checkpoints. It is level-based: callers may repeat the
current state as often as they like, and only changes cause work.
"""

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import repeat
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np

from trimtab.core.histogram import checkpoint as checkpoint_codec
from trimtab.core.histogram.buckets import Floats, Ints
from trimtab.core.histogram.checkpoint import AggregateCheckpoint, AggregateContent
from trimtab.core.model import autoscalers
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName
from trimtab.core.model.recommendation import RecommendationSettings
from trimtab.core.model.resources import BOTH, Resources
from trimtab.core.model.selectors import Selector
from trimtab.core.usage import samples as intake
from trimtab.core.usage.aggregates import (
    AggregateKey,
    Aggregates,
    LabelSet,
    UsageSettings,
    to_seconds,
)
from trimtab.core.usage.containers import REQUESTS, ContainerMemory, Containers, PodName
from trimtab.core.usage.pressure import PressureReadings
from trimtab.core.usage.sample_log import NameTable, SampleLog
from trimtab.core.usage.samples import Intake, Samples
from trimtab.core.usage.selector_index import AggregateIndex, AutoscalerAggregates

Place: TypeAlias = tuple[str, str, str]
"""The namespace, the pod and the name of a container."""

_NO_CONTAINERS: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Tracked:
    """A pod that feeds aggregates, with the rows of its containers."""

    labels: LabelSet
    containers: dict[str, int]


@dataclass(frozen=True, slots=True)
class Expected:
    """A container that may come back, as one autoscaler remembers it."""

    owner: AutoscalerName
    memory: ContainerMemory
    is_booked: bool = False
    """True if its window is booked already, in the aggregate that its owner restored."""


class Usage:
    """All histories of all containers, and the autoscalers that learn from them."""

    def __init__(self, settings: UsageSettings, recommendations: RecommendationSettings) -> None:
        self.aggregates = Aggregates(settings, recommendations)
        self.containers = Containers()
        self.links = AggregateIndex()
        self.log = SampleLog()
        self.log.pressure_lifetime = recommendations.cost.pressure.lifetime.total_seconds()
        self.pod_names = NameTable()
        """Names of the pods in the log."""
        self._pods: dict[PodName, _Tracked] = {}
        self._places: dict[Place, int] = {}
        self._expected: dict[Place, list[Expected]] = {}
        self._resumed: list[tuple[int, ContainerMemory]] = []
        """Aggregates with windows that `_book_resumed` still has to book there."""

    # Pods

    def track(
        self,
        pod: PodName,
        labels: Mapping[str, str],
        container_names: Iterable[str],
        now: datetime,
        *,
        created_at: datetime | None = None,
    ) -> None:
        """Record that exactly these containers of a pod feed the aggregates of these labels."""
        born = to_seconds(created_at, missing=-math.inf)
        # One object for all pods with these labels: they are compared in every tick.
        label_set = self.links.shared_labels(pod.namespace, tuple(sorted(labels.items())))
        tracked = self._pods.get(pod, _Tracked(label_set, {}))
        # Sorted below: the order in which rows are made must not depend on the hashes of names.
        names = set(container_names)
        for gone in sorted(tracked.containers.keys() - names):
            self._remove_container(pod, tracked, gone)
        for name in sorted(names - tracked.containers.keys()):
            aggregate = self._aggregate(AggregateKey(pod.namespace, name, label_set), now)
            row = self.containers.add(aggregate, born)
            tracked.containers[name] = row
            self._places[pod.namespace, pod.name, name] = row
            if self.log.is_kept:
                self.containers.pods[row] = self.pod_names.number(pod.name)
            self._feed(aggregate, 1, now)
            self._resume(row, (pod.namespace, pod.name, name))
        if tracked.labels != label_set:
            self._relabel(pod, replace(tracked, labels=label_set), now)
        self._pods[pod] = replace(tracked, labels=label_set)

    def forget(self, pod: PodName) -> None:
        """Stop tracking a pod; its samples stay in the aggregates."""
        tracked = self._pods.pop(pod, None)
        if tracked is not None:
            for name in list(tracked.containers):
                self._remove_container(pod, tracked, name)

    def note_requests(
        self,
        pod: PodName,
        requests: Mapping[str, Resources],
        limits: Mapping[str, Resources] | None = None,
    ) -> None:
        """Note the requests and limits of the containers of a tracked pod."""
        for name, row in self.containers_of(pod).items():
            self.containers.put_requests(row, requests.get(name, {}), (limits or {}).get(name, {}))

    def note_starts(self, pod: PodName, until: Mapping[str, float]) -> None:
        """Note until when the CPU usage of containers is that of their start, in seconds."""
        for name, row in self.containers_of(pod).items():
            self.containers.floats("start_until")[row] = until.get(name, -math.inf)

    def note_pressure(self, readings: PressureReadings, ceiling_bytes: float = np.inf) -> int:
        """Note the pressure on containers; return the number of those that are tracked.

        No pressure proves a need of memory above the ceiling.
        """
        self.log.ceiling_bytes = ceiling_bytes
        found = [
            (row, reading)
            for place, reading in readings.by_container.items()
            if (row := self._places.get(place)) is not None
        ]
        if found:
            rows, given = zip(*found, strict=True)
            times = np.array([each.seconds for each in given])
            strengths = np.array([each.row() for each in given])
            self.containers.pressure.note(np.array(rows, np.int64), times, strengths)
        return len(found)

    def keep_log(self) -> None:
        """Log accepted samples from now on, for an estimator that reads them each tick."""
        if not self.log.is_kept:
            self.log.is_kept = True
            for (_, pod, _), row in self._places.items():
                self.containers.pods[row] = self.pod_names.number(pod)

    def span_requests(self, aggregates: Ints, starts: Ints) -> Floats:
        """Find the least and the most that the containers of groups of aggregates request.

        The result is float64[groups, resources, 2], NaN where nothing is requested.
        """
        # First fold containers into aggregates, then aggregates into groups. `fmin` and `fmax` skip
        # NaN, which stands for no request.
        rows = np.flatnonzero(self.containers.aggregate >= 0)
        owners = self.containers.aggregate[rows]
        spans = np.full((len(starts), len(BOTH), 2), np.nan)
        if not len(starts):
            return spans
        for place, resource in enumerate(BOTH):
            requested = self.containers.floats(REQUESTS[resource])[rows]
            for end, fold in enumerate((np.fmin, np.fmax)):
                found = np.full(len(self.aggregates.ints("feeders")), np.nan)
                fold.at(found, owners, requested)
                spans[:, place, end] = fold.reduceat(found[aggregates], starts)
        return spans

    def containers_of(self, pod: PodName) -> Mapping[str, int]:
        """Return the rows of a pod's containers by their names; none if it is not tracked."""
        tracked = self._pods.get(pod)
        return _NO_CONTAINERS if tracked is None else tracked.containers

    def labels_of(self, pod: PodName) -> LabelSet | None:
        """Return the labels of a tracked pod; None for any other."""
        tracked = self._pods.get(pod)
        return None if tracked is None else tracked.labels

    def find_containers(
        self, namespaces: Sequence[str], pods: Sequence[str], names: Sequence[str]
    ) -> Ints:
        """Return the rows of containers given in columns, -1 for each that is not tracked."""
        places = zip(namespaces, pods, names, strict=True)
        # In C throughout: this looks up every container of the cluster in every tick.
        found = map(self._places.get, places, repeat(-1))
        return np.fromiter(found, np.int64, len(names))

    def list_containers(self) -> dict[int, Place]:
        """Return the container of each row."""
        return {row: place for place, row in self._places.items()}

    def is_tracked(self, place: Place) -> bool:
        """Return True if a container is tracked, and so feeds an aggregate."""
        return place in self._places

    def expect(self, place: Place, expected: Expected) -> None:
        """Remember a container for one autoscaler, so that it resumes once it is tracked."""
        self._expected.setdefault(place, []).append(expected)

    def drain_expected(self) -> list[tuple[Place, Expected]]:
        """Return, and forget, expected containers whose windows are not booked yet.

        They did not come back, or came back in another role.
        """
        self._book_resumed()
        expected, self._expected = self._expected, {}
        places = expected.items()
        return [
            (place, one) for place, all_of_it in places for one in all_of_it if not one.is_booked
        ]

    def count_feeders(self, pods: Iterable[PodName]) -> Ints:
        """Count the containers of some pods that feed each aggregate."""
        rows = [row for pod in pods for row in self.containers_of(pod).values()]
        owners = self.containers.aggregate[np.array(rows, dtype=np.int64)]
        return np.bincount(owners, minlength=len(self.aggregates.ints("feeders")))

    # Samples

    def add_cpu(self, samples: Samples, now: float) -> Intake:
        """Add CPU samples, in millicores; now is in seconds, like their times."""
        return intake.add_cpu(self.aggregates, self.containers, samples, now, log=self.log)

    def add_memory(self, samples: Samples, now: float) -> Intake:
        """Add memory samples, in bytes."""
        return intake.add_memory(self.aggregates, self.containers, samples, now, log=self.log)

    def add_oom_kills(self, kills: Samples, now: float, ceiling_bytes: float = np.inf) -> Intake:
        """Add OOM kills, with the memory requests of the killed containers in bytes."""
        return intake.add_oom_kills(
            self.aggregates, self.containers, kills, now, ceiling_bytes, log=self.log
        )

    def forget_kills(self, now: datetime) -> None:
        """Forget the OOM kills that are as old as the histories are long."""
        self.aggregates.forget_kills(to_seconds(now, missing=0.0))

    # Autoscalers

    def learn(self, autoscaler: Autoscaler, selector: Selector | None) -> None:
        """Make an autoscaler learn from the pods of its namespace that a selector matches.

        The selector is the target's and the autoscaler's own together; None matches no pod, as
        while the target is gone. Aggregates restored from checkpoints wait for the target to come
        back. They are dropped once there is another selector, because they describe other pods.
        """
        known = self.links.learners.get(autoscaler.identity)
        if known is None:
            self.links.add_learner(AutoscalerAggregates(autoscaler, selector))
        elif known.selector != selector:
            self._reselect(known, autoscaler, selector)
        elif known.autoscaler is not autoscaler:
            self.links.update_learner(autoscaler)
        else:
            return
        self._override(self.links.linked_rows(autoscaler.identity))
        self._override_restored(self.links.learners[autoscaler.identity])

    def _reselect(
        self, known: AutoscalerAggregates, autoscaler: Autoscaler, selector: Selector | None
    ) -> None:
        rows = self.links.linked_rows(known.name)
        self.links.remove_learner(known.name)
        last = known.last_selector
        # None means that the target is missing for a moment. Only another selector says that what
        # was restored describes other pods.
        if selector is not None and last is not None and selector != last:
            self._release(known.restored.values())
            known.restored.clear()
        renewed = AutoscalerAggregates(
            autoscaler, selector, restored=known.restored, last_selector=last
        )
        self.links.add_learner(renewed)
        # Its policy no longer applies to aggregates that others still learn from.
        self._override(rows)

    def unlearn(self, name: AutoscalerName) -> None:
        """Forget an autoscaler and its restored aggregates; the other aggregates stay."""
        learner = self.links.learners.get(name)
        if learner is None:
            return
        rows = self.links.linked_rows(name)
        self.links.remove_learner(name)
        self._release(learner.restored.values())
        self._override(rows)

    def has_pods(self, name: AutoscalerName) -> bool:
        """Return True if an autoscaler has pods to learn from now."""
        # Mostly it is one row, for which arrays are slow.
        return any(map(self.aggregates.ints("feeders").item, self.links.linked_rows(name)))

    def live_containers(self, name: AutoscalerName) -> set[str]:
        """Return the names of containers that any pod of an autoscaler has now."""
        return self.links.learners[name].live_names(self.aggregates.ints("feeders"))

    def restore(
        self, name: AutoscalerName, container_name: str, checkpoint: AggregateCheckpoint
    ) -> None:
        """Restore a checkpoint of one container for an autoscaler that learns already."""
        self.restore_all({(name, container_name): checkpoint_codec.decode_aggregate(checkpoint)})

    def restore_all(self, contents: Mapping[tuple[AutoscalerName, str], AggregateContent]) -> None:
        """Restore many checkpoints, which is cheaper than one after the other."""
        rows = self.aggregates.restore(list(contents.values()))
        for (name, container_name), row in zip(contents, rows, strict=True):
            # A checkpoint replaces what was restored before: both describe the same past.
            self.drop_restored(name, container_name)
            self.links.put_restored(name, container_name, row)
        for name in {name for name, _ in contents}:
            self._override_restored(self.links.learners[name])

    def adopt(self, name: AutoscalerName, container_name: str, row: int) -> None:
        """Give an aggregate without a key to an autoscaler, as if it was restored."""
        restored = self.links.learners[name].restored.get(container_name)
        if restored is not None:
            self.aggregates.absorb(restored, row)
        self.links.put_restored(name, container_name, row if restored is None else restored)

    def drop_restored(self, name: AutoscalerName, container_name: str) -> None:
        """Forget the restored aggregate of one container."""
        row = self.links.learners[name].restored.get(container_name)
        if row is not None:
            self.links.put_restored(name, container_name, None)
            self.aggregates.release(row)

    # Aggregates

    def release_from(self, pod: PodName, aggregates: Container[int]) -> None:
        """Stop tracking those containers of a pod that feed some aggregates."""
        tracked = self._pods.get(pod, _Tracked((), {}))
        for name, row in list(tracked.containers.items()):
            if int(self.containers.aggregate[row]) in aggregates:
                self._remove_container(pod, tracked, name)

    def fold(self, row: int, now: datetime) -> None:
        """Move an aggregate that no container feeds into its autoscalers' restored ones."""
        container_name = self.aggregates.key(row).container_name
        for name in sorted(self.links.learners_of(row)):
            learner = self.links.learners[name]
            # Each autoscaler gets a copy: from here on their selectors may part.
            if container_name not in learner.restored:
                self.links.put_restored(name, container_name, self.aggregates.start(now))
                self._override_restored(learner)
            self.aggregates.include(learner.restored[container_name], row)
        self.drop_aggregate(row)

    def drop_aggregate(self, row: int) -> None:
        """Forget an aggregate that no container feeds."""
        assert self.aggregates.ints("feeders")[row] == 0
        self.links.remove_aggregate(row, self.aggregates.key(row))
        self.containers.drop_parked(row)
        self.aggregates.release(row)

    def _aggregate(self, key: AggregateKey, now: datetime) -> int:
        found = self.aggregates.find(key)
        if found is not None:
            return found
        row = self.aggregates.create(key, now)
        self.links.add_aggregate(row, key)
        self._override([row])
        return row

    def _release(self, rows: Iterable[int]) -> None:
        for row in rows:
            self.aggregates.release(row)

    def _override(self, rows: Iterable[int]) -> None:
        for row in rows:
            policies = self.links.policies(row, self.aggregates.key(row).container_name)
            self.aggregates.override(row, policies)

    def _override_restored(self, learner: AutoscalerAggregates) -> None:
        for container_name, row in learner.restored.items():
            policy = autoscalers.policy_for(learner.autoscaler.policies, container_name)
            self.aggregates.override(row, () if policy is None else (policy,))

    def _resume(self, row: int, place: Place) -> None:
        """Resume the remembered window of a new container, for the role that it has now.

        Windows of other roles stay expected, and are booked where they were: autoscalers that learn
        from this role do not use them. A sample that was read in any role is not read again.
        """
        expected = self._expected.pop(place, None)
        if expected is None:
            return
        aggregate = int(self.containers.aggregate[row])
        # Of several autoscalers with checkpoints of the same container the newest window counts.
        mine = [one for one in expected if self._may_learn(one.owner, aggregate)]
        newest = max(mine, key=lambda one: one.memory.last_memory, default=None)
        memory = ContainerMemory() if newest is None else newest.memory
        last_cpu = max(one.memory.last_cpu for one in expected)
        last_memory = max(one.memory.last_memory for one in expected)
        self.containers.resume(row, replace(memory, last_cpu=last_cpu, last_memory=last_memory))
        covered = [newest]
        if newest is not None and not newest.is_booked:
            self._resumed.append((aggregate, memory))
            # The same window under another autoscaler: booking it once is enough.
            covered += [one for one in mine if one.memory.window_end == memory.window_end]
        if left := [one for one in expected if one not in covered]:
            self._expected[place] = left

    def _may_learn(self, name: AutoscalerName, aggregate: int) -> bool:
        """Return True if an autoscaler learns from an aggregate, or may once it has a target."""
        learner = self.links.learners.get(name)
        is_waiting = learner is not None and learner.selector is None
        return is_waiting or name in self.links.learners_of(aggregate)

    def _book_resumed(self) -> None:
        """Book the windows of resumed containers, many at once after a start."""
        resumed, self._resumed = self._resumed, []
        self.aggregates.book_windows(resumed)

    def _relabel(self, pod: PodName, tracked: _Tracked, now: datetime) -> None:
        for name, row in tracked.containers.items():
            key = AggregateKey(pod.namespace, name, tracked.labels)
            aggregate = self._aggregate(key, now)
            before = int(self.containers.aggregate[row])
            if aggregate != before:
                self.containers.move(row, aggregate)
                # Samples taken until now may have been measured in the old role.
                self.containers.outdate(row, to_seconds(now, missing=0.0))
                self._feed(before, -1, now)
                self._feed(aggregate, 1, now)

    def _remove_container(self, pod: PodName, tracked: _Tracked, name: str) -> None:
        row = tracked.containers.pop(name)
        del self._places[pod.namespace, pod.name, name]
        self._feed(int(self.containers.aggregate[row]), -1)
        self.containers.remove(row)

    def _feed(self, aggregate: int, change: int, now: datetime | None = None) -> None:
        feeders = self.aggregates.ints("feeders")
        was_live = feeders[aggregate] > 0
        feeders[aggregate] += change
        # Changes of one replica among many touch nothing: only the first and the last one matter.
        if was_live != (feeders[aggregate] > 0):
            # The pod's floor is split over its live containers, so their number matters.
            self.links.touch(aggregate)
        if not was_live:
            self.aggregates.floats("live_since")[aggregate] = to_seconds(now, missing=0.0)
