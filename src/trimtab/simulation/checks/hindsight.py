"""Hindsight: recent states of the world, on which components may still act.

It follows the tables of the world from its creation. It keeps values only as long as a component
may be behind; the workload of a pod is kept for longer, because a pod may outlive its owner.
"""

from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from trimtab.core.model import matching
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName
from trimtab.core.model.limit_ranges import LimitRangeItem
from trimtab.core.model.matching import ObservedAutoscaler
from trimtab.core.model.pods import Pod, WorkloadName
from trimtab.core.model.selectors import Selector
from trimtab.simulation.faults.calm import Calm
from trimtab.simulation.world.tables import TableChange
from trimtab.simulation.world.world import WELL_KNOWN, World

_Value = TypeVar("_Value")


class RecentValues(Generic[_Value]):
    """The recent values of something, as far back as a component may be behind."""

    def __init__(self, span: timedelta) -> None:
        self._span = span
        self._entries: deque[tuple[datetime, _Value]] = deque()

    def put(self, at: datetime, value: _Value) -> None:
        """Record the value that holds from now on."""
        self._entries.append((at, value))
        self._forget(at)

    def seen(self, now: datetime) -> list[_Value]:
        """Return all values within the span, the latest last."""
        self._forget(now)
        return [value for _, value in self._entries]

    def moments(self, now: datetime) -> list[datetime]:
        """Return the times of all changes within the span."""
        self._forget(now)
        return [at for at, _ in self._entries if at > now - self._span]

    def at(self, moment: datetime) -> _Value | None:
        """Return the value at that moment; None if there was none."""
        found = None
        for at, value in self._entries:
            if at > moment:
                break
            found = value
        return found

    def _forget(self, now: datetime) -> None:
        # The entry before the span stays: it is what held when the span began.
        while len(self._entries) > 1 and self._entries[1][0] <= now - self._span:
            self._entries.popleft()


class Hindsight:
    """The world as components that are a little behind may see it."""

    def __init__(self, world: World, span: timedelta) -> None:
        self.calm = Calm(world)
        self._world = world
        self._span = span
        self._autoscalers: dict[AutoscalerName, RecentValues[Autoscaler | None]] = {}
        self._by_target: dict[WorkloadName, dict[AutoscalerName, None]] = {}
        self._labels: dict[str, RecentValues[Mapping[str, str]]] = {}
        self._workloads: dict[str, WorkloadName] = {}
        self._workloads_by_name: dict[tuple[str, str], WorkloadName] = {}
        self._selectors: dict[WorkloadName, Selector] = {}
        for autoscaler in world.autoscalers:
            self._note_autoscaler(autoscaler.identity, None, autoscaler)
        for pod in world.pods:
            self._note_pod(None, pod)
        self._relabelled: dict[WorkloadName, datetime] = {}
        world.autoscalers.subscribe(self._follow_autoscaler)
        world.pods.subscribe(self._follow_pod)

    def governors(self, pod: Pod, acts: Callable[[Autoscaler], bool]) -> list[Autoscaler]:
        """Return every version of an autoscaler that may seem to govern the pod, latest last."""
        workload, now = self.topmost(pod), self._world.now()
        if workload is None:
            return []
        timelines = [self._autoscalers[name] for name in self._by_target.get(workload, ())]
        # The governor can change whenever any of the versions does, and at no other time.
        moments = {now - self._span, *(at for each in timelines for at in each.moments(now))}
        found: list[Autoscaler] = []
        for moment in sorted(moments):
            index = matching.index_by_workload(self._observed(timelines, moment, workload))
            for labels in self._seen_labels(pod, now):
                governor = matching.governing(
                    matching.match_autoscalers(index, workload, labels), acts
                )
                if governor is not None and governor.autoscaler not in found:
                    found.append(governor.autoscaler)
        return found

    def versions(self, name: AutoscalerName) -> list[Autoscaler]:
        """Return the recent versions of the autoscaler, the latest last; none if it was absent."""
        timeline = self._autoscalers.get(name)
        seen = [] if timeline is None else timeline.seen(self._world.now())
        return [each for each in seen if each is not None]

    def topmost(self, pod: Pod) -> WorkloadName | None:
        """Return the workload at the top of the pod's owners, which may be gone by now."""
        return self._workloads.get(pod.uid) or find_topmost(self._world, pod)

    def workload_named(self, namespace: str, pod_name: str) -> WorkloadName | None:
        """Return the workload of the last pod that had this name."""
        return self._workloads_by_name.get((namespace, pod_name))

    def labels_of(self, namespace: str, pod_name: str) -> list[Mapping[str, str]]:
        """Return the labels that a pod may seem to have, the latest last; none if it is gone."""
        pod = self._world.pods.find(namespace, pod_name)
        return [] if pod is None else self._seen_labels(pod, self._world.now())

    def uid_of(self, namespace: str, pod_name: str) -> str:
        """Return the uid of a pod; empty if it is gone."""
        pod = self._world.pods.find(namespace, pod_name)
        return "" if pod is None else pod.uid

    def target_of(self, namespace: str, autoscaler_name: str) -> WorkloadName | None:
        """Return the current target of an autoscaler; None if either is missing."""
        found = self._world.autoscalers.find(namespace, autoscaler_name)
        if found is None or found.target is None:
            return None
        return WorkloadName(namespace, found.target.kind, found.target.name)

    def relabelled_at(self, workload: WorkloadName) -> datetime | None:
        """Return when labels of any pod of the workload last changed; None if never."""
        return self._relabelled.get(workload)

    def selector_of(self, workload: WorkloadName) -> Selector | None:
        """Return the pod selector of the workload, which may be gone by now."""
        found = self._world.find_workload(workload)
        if found is not None:
            self._selectors[workload] = found.selector
        return self._selectors.get(workload)

    def limit_ranges(self, namespace: str) -> list[LimitRangeItem]:
        """Return the items of all limit ranges of a namespace."""
        found = [each for each in self._world.limit_ranges if each.namespace == namespace]
        return [item for each in found for item in each.items]

    def _observed(
        self,
        timelines: list[RecentValues[Autoscaler | None]],
        moment: datetime,
        workload: WorkloadName,
    ) -> list[ObservedAutoscaler]:
        versions = [timeline.at(moment) for timeline in timelines]
        selector = self.selector_of(workload)
        return [ObservedAutoscaler(each, selector) for each in versions if each is not None]

    def _seen_labels(self, pod: Pod, now: datetime) -> list[Mapping[str, str]]:
        timeline = self._labels.get(pod.uid)
        return [pod.labels] if timeline is None else timeline.seen(now)

    def _follow_autoscaler(self, change: TableChange[Autoscaler]) -> None:
        self._note_autoscaler(AutoscalerName(*change.name), change.before, change.after)

    def _note_autoscaler(
        self, name: AutoscalerName, before: Autoscaler | None, after: Autoscaler | None
    ) -> None:
        # Status writes are no news: no component acts differently after them.
        if before is not None and after is not None and _says(before) == _says(after):
            return
        timeline = self._autoscalers.setdefault(name, RecentValues(self._span))
        timeline.put(self._world.now(), after)
        if after is not None and after.target is not None:
            target = WorkloadName(name.namespace, after.target.kind, after.target.name)
            self._by_target.setdefault(target, {})[name] = None

    def _follow_pod(self, change: TableChange[Pod]) -> None:
        self._note_pod(change.before, change.after)

    def _note_pod(self, before: Pod | None, after: Pod | None) -> None:
        if after is None:
            if before is not None:
                self._labels.pop(before.uid, None)
                self._workloads.pop(before.uid, None)
            return
        if before is None or before.uid != after.uid or before.labels != after.labels:
            timeline = self._labels.setdefault(after.uid, RecentValues(self._span))
            timeline.put(self._world.now(), after.labels)
            if before is not None and before.uid in self._workloads:
                self._relabelled[self._workloads[before.uid]] = self._world.now()
        if after.uid not in self._workloads:
            workload = find_topmost(self._world, after)
            if workload is not None:
                self._workloads[after.uid] = workload
                self._workloads_by_name[after.namespace, after.name] = workload
                self.selector_of(workload)


def find_topmost(world: World, pod: Pod) -> WorkloadName | None:
    """Return the workload that is at the top of the pod's owners now."""
    found = world.find_owner(pod.namespace, pod.owner)
    while found is not None:
        above = world.find_owner(pod.namespace, found.owner)
        if above is None or not (above.has_scale or above.kind in WELL_KNOWN):
            return found.identity
        found = above
    return None


def _says(autoscaler: Autoscaler) -> tuple[object, ...]:
    """Return the fields of an autoscaler on which components act."""
    return (
        autoscaler.uid,
        autoscaler.generation,
        autoscaler.mode,
        autoscaler.annotations,
        autoscaler.target,
        autoscaler.selector,
        autoscaler.policies,
        autoscaler.boost,
        autoscaler.min_replicas,
        autoscaler.recommendation,
    )
