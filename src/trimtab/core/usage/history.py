"""Replay: past usage of one namespace, learned through the same intake as live samples.

Replayed samples stay apart until all of them are there. Then they join the restored checkpoints,
all at once, so that no recommendation is made from half a history. No sample counts twice: for each
container of an autoscaler a checkpoint covers the time from its first sample to its last one, and
live samples cover everything from the first of them on. History fills the rest.

Memory windows of a container that still runs follow each other over the seam. Past windows are
aligned with its live ones, and a window that is open at the seam keeps the peak that it had.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

import numpy as np

from trimtab.core.histogram import row_table
from trimtab.core.histogram.buckets import Ints
from trimtab.core.histogram.memory_peaks import Booleans, Peaks, Windows
from trimtab.core.model import autoscalers
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.resources import Resource
from trimtab.core.usage.aggregates import to_seconds
from trimtab.core.usage.checkpoints import CheckpointKey
from trimtab.core.usage.cluster_usage import Usage
from trimtab.core.usage.containers import PodName
from trimtab.core.usage.history_samples import Owner, PastPod, PastUsage, PodContainer
from trimtab.core.usage.samples import SampleCounts, Samples

_Seat = tuple[AutoscalerName, PodContainer]
"""A container of the past as one autoscaler learns from it."""


_Known = tuple[float, float, float]
"""Times known without history: the first and last sample saved, the first one read live."""
# Such that `times >= first and times <= last` is True for every sample, or for none.
_EVERYTHING: Final[_Known] = (-np.inf, np.inf, -np.inf)
_NOTHING: Final[_Known] = (np.inf, -np.inf, np.inf)


class HistoryReplay:
    """The history of some autoscalers of a namespace while it is being read."""

    def __init__(
        self,
        usage: Usage,
        namespace: str,
        names: Iterable[AutoscalerName],
        pods: Mapping[str, PastPod],
    ) -> None:
        """Make a replay for autoscalers that learn already; `pods` has past pods by name."""
        self._usage = usage
        self._namespace = namespace
        self._selectors = {name: usage.links.learners[name].selector for name in names}
        self._pods = pods
        self._by_target = self._index_targets()
        self._learners: dict[str, list[AutoscalerName]] = {}
        self._aggregates: dict[CheckpointKey, int] = {}
        self._containers: dict[_Seat, int] = {}

    def add(self, resource: Resource, past: PastUsage, now: datetime) -> SampleCounts:
        """Add samples that are later than those of the same containers added before."""
        take_in = self._usage.add_cpu if resource is Resource.CPU else self._usage.add_memory
        total = SampleCounts()
        for seats in self._seat(past.containers):
            # A container with several learners is seated once for each, as if it were several.
            is_new = self._uncovered(seats, past)
            rows = self._rows(seats, past, is_new, now)
            samples = Samples(rows[past.owners[is_new]], past.values[is_new], past.times[is_new])
            total += take_in(samples, to_seconds(now, missing=0.0)).counts
            seated = np.array([seat is not None for seat in seats], np.bool_)[past.owners]
            total += SampleCounts(outdated=int((seated & ~is_new).sum()))
        return total

    def finish(self, now: datetime) -> set[AutoscalerName]:
        """Hand the replayed history over; return the autoscalers still for the same pods."""
        learners = self._usage.links.learners
        served = {
            name
            for name, selector in self._selectors.items()
            if name in learners and learners[name].selector == selector
        }
        for name in sorted(served):
            # Only for the pods that the history was read for: a new selector describes others.
            self._hand_over(name, to_seconds(now, missing=0.0))
        for (name, container_name), row in self._aggregates.items():
            if name in served and self._usage.aggregates.holds_anything(row):
                self._usage.adopt(name, container_name, row)
            else:
                self._usage.aggregates.release(row)
        self._aggregates.clear()
        self.abandon()
        return served

    def abandon(self) -> None:
        """Forget the replayed samples that were not handed over."""
        for row in self._aggregates.values():
            self._usage.aggregates.release(row)
        for row in self._containers.values():
            self._usage.containers.remove(row)
        self._aggregates.clear()
        self._containers.clear()

    def _seat(self, containers: Iterable[PodContainer]) -> Iterator[list[_Seat | None]]:
        """Yield the learner of each container; once more for containers with several learners."""
        given = [(container, self._learners_of(container)) for container in containers]
        for turn in range(max((len(names) for _, names in given), default=0)):
            yield [
                (names[turn], container) if turn < len(names) else None
                for container, names in given
            ]

    def _learners_of(self, container: PodContainer) -> list[AutoscalerName]:
        pod, container_name = container
        if pod not in self._learners:
            matching = self._match(pod)
            self._learners[pod] = [name for name in matching if name in self._selectors]
        return [name for name in self._learners[pod] if self._is_of_use(name, container_name)]

    def _match(self, pod: str) -> list[AutoscalerName]:
        """Find the learners of a pod: by its labels, or by owners where labels are unknown."""
        known = self._pods.get(pod, PastPod())
        labels = self._usage.labels_of(PodName(self._namespace, pod))
        # Labels of live pods come first; those in history may be from before a change.
        if labels is None and known.labels:
            labels = tuple(sorted(known.labels.items()))
        if labels is None:
            # Owners show the target but no labels: only an autoscaler that has no selector of its
            # own is for all pods of its target.
            return [name for owner in known.owners for name in self._by_target.get(owner, ())]
        return self._usage.links.matching_learners(self._namespace, labels)

    def _index_targets(self) -> dict[Owner, list[AutoscalerName]]:
        """Index the autoscalers that are for all pods of their target, by target."""
        found: dict[Owner, list[AutoscalerName]] = {}
        for name in sorted(self._selectors):
            autoscaler = self._usage.links.learners[name].autoscaler
            if autoscaler.target is not None and autoscaler.selector is None:
                owner = (autoscaler.target.kind, autoscaler.target.name)
                found.setdefault(owner, []).append(name)
        return found

    def _is_of_use(self, name: AutoscalerName, container_name: str) -> bool:
        """Return True if pods of an autoscaler still have such a container, or it has no pods."""
        learner = self._usage.links.learners.get(name)
        return learner is not None and (not learner.linked or container_name in learner.linked)

    def _uncovered(self, seats: list[_Seat | None], past: PastUsage) -> Booleans:
        """Return, per sample, True if it has a learner and is not known already."""
        keys = [None if seat is None else (seat[0], seat[1][1]) for seat in seats]
        known = {key: self._known(key) for key in set(keys) if key is not None}
        spans = [_EVERYTHING if key is None else known[key] for key in keys]
        # float64[containers, 3], taken apart by column.
        first_saved, last_saved, live_from = np.array(spans).reshape(-1, 3).T
        times, owners = past.times, past.owners
        is_saved = (times >= first_saved[owners]) & (times <= last_saved[owners])
        return np.asarray(~(is_saved | (times >= live_from[owners])))

    def _known(self, key: CheckpointKey) -> _Known:
        name, container_name = key
        aggregates = self._usage.aggregates
        learner = self._usage.links.learners[name]
        live = sorted(learner.linked.get(container_name, ()))
        live_from = self._live_from(np.array(live, np.int64))
        saved = learner.restored.get(container_name)
        if saved is None:
            return (*_NOTHING[:2], live_from)
        begin, end = aggregates.floats("first")[saved], aggregates.floats("last")[saved]
        if not np.isfinite(begin) and aggregates.holds_anything(saved):
            # It has memory samples only, and no time of the first one.
            begin, end = -np.inf, aggregates.floats("created")[saved]
        return float(begin), float(end), live_from

    def _live_from(self, rows: Ints) -> float:
        """Return the time of the first live sample; of creation where only memory was read."""
        aggregates = self._usage.aggregates
        first, created = aggregates.floats("first")[rows], aggregates.floats("created")[rows]
        is_read = np.isfinite(aggregates.floats("last_memory")[rows])
        begins = np.where(np.isfinite(first), first, np.where(is_read, created, np.inf))
        return float(begins.min(initial=np.inf))

    def _rows(
        self, seats: list[_Seat | None], past: PastUsage, chosen: Booleans, now: datetime
    ) -> Ints:
        """Return the rows of containers that have samples to add; -1 for all others."""
        rows = np.full(len(seats), -1, np.int64)
        starts = np.searchsorted(past.owners, np.arange(len(seats)))
        for place in row_table.list_distinct(past.owners[chosen]).tolist():
            seat = seats[place]
            assert seat is not None
            if seat not in self._containers:
                self._containers[seat] = self._open(seat, now)
                self._align(self._containers[seat], seat[1], float(past.times[starts[place]]))
            rows[place] = self._containers[seat]
        return rows

    def _open(self, seat: _Seat, now: datetime) -> int:
        name, (_, container_name) = seat
        key = (name, container_name)
        if key not in self._aggregates:
            row = self._usage.aggregates.start(now)
            policies = self._usage.links.learners[name].autoscaler.policies
            policy = autoscalers.policy_for(policies, container_name)
            self._usage.aggregates.override(row, () if policy is None else (policy,))
            self._aggregates[key] = row
        return self._usage.containers.add(self._aggregates[key])

    def _align(self, row: int, container: PodContainer, begin: float) -> None:
        """Align the windows of a container that still runs with its live ones."""
        live = self._live(container)
        containers = self._usage.containers
        end = np.nan if live is None else containers.floats("window_end")[live]
        if np.isfinite(end):
            interval = self._usage.aggregates.floats("interval")[containers.aggregate[row]]
            # The first past window must end a whole number of intervals before the live one ends.
            windows = np.ceil((end - begin) / interval)
            containers.floats("window_end")[row] = end - max(windows, 1.0) * interval

    def _live(self, container: PodContainer) -> int | None:
        pod, container_name = container
        return self._usage.containers_of(PodName(self._namespace, pod)).get(container_name)

    def _hand_over(self, name: AutoscalerName, now: float) -> None:
        """Make running containers resume from the replayed state."""
        pairs = [
            (row, live)
            for (owner, container), row in self._containers.items()
            if owner == name and (live := self._live(container)) is not None
        ]
        # int64[2, pairs]; the reshape keeps two columns where there are no pairs.
        past, live_rows = np.array(pairs, np.int64).reshape(-1, 2).T
        containers = self._usage.containers
        for column in ("last_cpu", "last_memory"):
            times = containers.floats(column)
            times[live_rows] = np.maximum(times[live_rows], times[past])
        before, current = containers.windows(past), containers.windows(live_rows)
        # A past window goes on where there is no live one yet, or the same, or where all samples
        # read since lie in it.
        goes_on = np.isnan(current.end) | (current.end == before.end)
        goes_on |= (before.end > now) & (before.end < current.end)
        # Without a past window there is nothing to move.
        goes_on &= np.isfinite(before.end)
        self._join(past[goes_on], live_rows[goes_on])

    def _join(self, past: Ints, live: Ints) -> None:
        """Move open past windows, with their peaks, to the containers that they belong to."""
        containers, aggregates = self._usage.containers, self._usage.aggregates
        before, current = containers.windows(past), containers.windows(live)
        places = np.arange(len(past))
        old, new = containers.aggregate[past], containers.aggregate[live]
        # Both peaks of the window are taken back, and the larger of each kind is booked once.
        aggregates.take_back_peaks(old, Peaks(places, before.peak, before.end))
        booked = Peaks(places, current.peak, current.end).only(np.isfinite(current.end))
        aggregates.take_back_peaks(new, booked)
        joined = Windows(
            before.end,
            np.maximum(before.usage_peak, current.usage_peak),
            np.maximum(before.oom_peak, current.oom_peak),
        )
        aggregates.book_peaks(new, Peaks(places, joined.peak, joined.end))
        containers.put_windows(live, joined)
