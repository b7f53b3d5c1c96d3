"""Checks that components stop when their changes make a workload worse."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from trimtab.core.model import limits
from trimtab.core.model.pods import Pod, WorkloadName
from trimtab.core.model.resources import BOTH, Resource
from trimtab.simulation.checks import pod_changes
from trimtab.simulation.checks.base import Checker, Rules
from trimtab.simulation.checks.hindsight import Hindsight
from trimtab.simulation.world.facts import Fact, PodCreated, PodEvicted, PodResized, ProcessStarted
from trimtab.simulation.world.tables import TableChange
from trimtab.simulation.world.world import World

_RUNS_ONCE: Final = ("Job", "CronJob")
_ALIKE: Final = 0.1
"""Two sizes that differ by less than this share of one of them look the same."""
_MORE_MEMORY: Final = 0.05
"""Share by which memory grows if its histogram has moved by one bucket."""
_HOUR: Final = timedelta(hours=1)
_ONE_MISSING_IN: Final = 20
"""Number of pods of which one may be missing: large workloads are never whole."""


@dataclass(slots=True)
class _Health:
    """A workload with pods that a component has disrupted."""

    wanted: int
    """Number of pods that were ready before, less those that others took away since."""
    worse_since: datetime
    disrupted: set[str] = field(default_factory=set)
    """The pods that were evicted or restarted, by their uid."""


class Availability(Checker):
    """The updater soon stops changing a workload that has fewer ready pods than before (D22).

    Pods that others take away, and replicas that the owner no longer wants, are not counted. One in
    twenty may be missing. A pod that was OOM-killed may be changed at any time, and so may one that
    no node has taken. An updater that has just started does not know about earlier changes.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._open: dict[WorkloadName, _Health] = {}
        self._ready: dict[WorkloadName, dict[str, None]] = {}
        world.pods.subscribe(self._follow)

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report a disruption of a workload that has had too few ready pods for too long."""
        match fact:
            case ProcessStarted(actor=actor) if actor.startswith("updater"):
                for health in self._open.values():
                    health.worse_since = fact.at
            case PodEvicted(actor=actor, pod=pod):
                yield from self._check(pod, f"{actor} evicted")
            case PodResized(actor=actor, before=before, after=after):
                if _restarts(before, after):
                    yield from self._check(before, f"{actor} restarted")
            case _:
                return

    def _check(self, pod: Pod, what: str) -> Iterator[str]:
        workload, now = self.past.topmost(pod), self.world.now()
        if workload is None or workload.kind in _RUNS_ONCE or not pod.node_name:
            return
        self._review(workload)
        ready = len(self._ready.get(workload, ()))
        health = self._open.get(workload)
        if health is None:
            health = self._open[workload] = _Health(ready, now)
        elif now - health.worse_since > self._patience() and not _is_starved(pod):
            yield (
                f"{what} {pod.namespace}/{pod.name} though only {ready} of {health.wanted} pods "
                f"of {workload.name} are ready since {health.worse_since:%H:%M:%S}"
            )
        health.disrupted.add(pod.uid)

    def _patience(self) -> timedelta:
        works_since = self.past.calm.works_since("updater")
        return self.rules.worse_for + (self.rules.staleness if works_since is None else timedelta())

    def _review(self, workload: WorkloadName) -> None:
        """Forget the disruptions of a workload that has all its ready pods back."""
        health = self._open.get(workload)
        if health is None:
            return
        found = self.world.find_workload(workload)
        if found is not None and found.replicas is not None:
            health.wanted = min(health.wanted, found.replicas)
        if len(self._ready.get(workload, ())) >= health.wanted - health.wanted // _ONE_MISSING_IN:
            del self._open[workload]

    def _follow(self, change: TableChange[Pod]) -> None:
        before, after = change.before, change.after
        if before is not None and (after is None or after.uid != before.uid):
            self._note(before, is_ready=False)
        if after is not None:
            is_ready = after.ready_since is not None and not after.is_deleting
            was_ready = before is not None and before.uid == after.uid and _serves(before)
            if is_ready != was_ready:
                self._note(after, is_ready=is_ready)

    def _note(self, pod: Pod, *, is_ready: bool) -> None:
        workload = self.past.topmost(pod)
        if workload is None:
            return
        ready = self._ready.setdefault(workload, {})
        health = self._open.get(workload)
        if is_ready:
            ready[pod.uid] = None
        elif pod.uid in ready:
            del ready[pod.uid]
            if health is not None and pod.uid not in health.disrupted:
                health.wanted -= 1
        if health is not None:
            self._review(workload)


@dataclass(slots=True)
class _Loop:
    """Evictions of one workload whose successors looked like the evicted pods."""

    waiting: deque[Pod] = field(default_factory=deque)
    """Evicted pods whose successors have not come yet."""
    repeated: deque[datetime] = field(default_factory=deque)
    """Times at which such successors were created."""


class EvictionLoops(Checker):
    """No workload's pods are evicted repeatedly while each successor looks like the evicted pod.

    An evicted pod is compared by the resources that it has, not by its spec: a boost that the
    kubelet never took back still counts. Slowly growing usage moves memory by one bucket at a time:
    a successor with one bucket more looks different.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._loops: dict[WorkloadName, _Loop] = {}

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report an eviction after too many repetitions."""
        match fact:
            case ProcessStarted(actor=actor) if actor.startswith("updater"):
                self._loops.clear()
            case PodCreated(pod=pod):
                self._learn(pod)
            case PodEvicted(at=at, actor=actor, pod=pod):
                workload = self.past.topmost(pod)
                if workload is None or workload.kind in _RUNS_ONCE:
                    return
                loop = self._loops.setdefault(workload, _Loop())
                loop.waiting.append(pod)
                while loop.repeated and at - loop.repeated[0] > _HOUR:
                    loop.repeated.popleft()
                if len(loop.repeated) > self._allowed(workload):
                    times = f"{len(loop.repeated)} successors look like those before them"
                    yield f"{actor} evicted {pod.namespace}/{pod.name} though {times}"
            case _:
                return

    def _allowed(self, workload: WorkloadName) -> int:
        found = self.world.find_workload(workload)
        replicas = 1 if found is None else found.replicas or 1
        return self.rules.max_misses + replicas

    def _learn(self, pod: Pod) -> None:
        workload = self.past.topmost(pod)
        loop = None if workload is None else self._loops.get(workload)
        if loop is None or not loop.waiting:
            return
        if _look_alike(loop.waiting.popleft(), pod):
            loop.repeated.append(self.world.now())
        else:
            loop.repeated.clear()


def _restarts(before: Pod, after: Pod) -> bool:
    pairs = zip(before.containers, after.containers, strict=True)
    return any(old.restarts_on_resize and old.spec != new.spec for old, new in pairs)


def _serves(pod: Pod) -> bool:
    return pod.ready_since is not None and not pod.is_deleting


def _is_starved(pod: Pod) -> bool:
    return any(map(pod_changes.ran_out_of_memory, pod.containers))


def _look_alike(before: Pod, after: Pod) -> bool:
    had = {each.name: each.current.requests for each in before.containers}
    return all(
        -_ALIKE * max(old, new) <= new - old <= _grown(kind) * max(old, new)
        for each in after.containers
        for kind in BOTH
        for old in (limits.amount_of(had.get(each.name), kind),)
        for new in (limits.amount_of(each.spec.requests, kind),)
    )


def _grown(resource: Resource) -> float:
    return _MORE_MEMORY if resource is Resource.MEMORY else _ALIKE
