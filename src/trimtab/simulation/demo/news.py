"""Events of the demo: changes by components, OOM kills, and actions of owners."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from trimtab.core.model.pods import Pod
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.sizing import startup_boost
from trimtab.simulation.demo.workloads import DemoWorkload
from trimtab.simulation.world import objects
from trimtab.simulation.world.facts import (
    ContainerKilled,
    Fact,
    PodCreated,
    PodEvicted,
    PodResized,
    StatusPublished,
)


class DemoEventKind(StrEnum):
    """A kind of event; the value names it in machine-readable output."""

    LEARNED = "first-recommendation"
    SIZED = "sized-at-start"
    BOOSTED = "boosted"
    UNBOOSTED = "boost-ended"
    RESIZED = "resized"
    EVICTED = "evicted"
    KILLED = "oom-killed"
    RELEASED = "new-version"
    TOOK_OVER = "took-over"


@dataclass(frozen=True, slots=True)
class DemoEvent:
    """An event about a pod."""

    at: datetime
    title: str
    """Title of the part to which it happened."""
    kind: DemoEventKind
    before: Resources
    after: Resources
    pod: str = ""
    times: int = 1
    """Number of events of the same kind that this one stands for."""


class Newsroom:
    """Turns facts into events, and keeps them until they are taken."""

    def __init__(self, parts: Sequence[DemoWorkload]) -> None:
        self._parts = parts
        self._fresh: list[DemoEvent] = []
        self._sizes: dict[str, Resources] = {}
        """Requests of the last pod that was created, by title of its part."""
        self._counts: Counter[DemoEventKind] = Counter()

    def counts(self) -> Mapping[DemoEventKind, int]:
        """Return the number of events of each kind so far."""
        return {kind: self._counts[kind] for kind in DemoEventKind}

    def take(self) -> tuple[DemoEvent, ...]:
        """Return all events since the last call."""
        fresh, self._fresh = self._fresh, []
        return tuple(fresh)

    def add(self, news: DemoEvent) -> None:
        """Add an event."""
        self._counts[news.kind] += 1
        self._fresh.append(news)

    def listen(self, fact: Fact) -> None:
        """Add the event of a fact, if it has one."""
        match fact:
            case PodCreated(at, wanted, pod):
                self._tell_of_new_pod(at, wanted, pod)
            case PodEvicted(at, _, pod):
                self._tell(at, DemoEventKind.EVICTED, pod, pod)
            case PodResized(at, _, before, after) if requests_of(before) != requests_of(after):
                kind = (
                    DemoEventKind.UNBOOSTED
                    if startup_boost.boosted_containers(before)
                    else DemoEventKind.RESIZED
                )
                self._tell(at, kind, before, after)
            case ContainerKilled(at, pod, _, _, limit_bytes):
                self._tell_of_kill(at, pod, limit_bytes)
            case StatusPublished():
                self._tell_of_first(fact)
            case _:
                pass

    def _tell_of_new_pod(self, at: datetime, wanted: Pod, pod: Pod) -> None:
        size = requests_of(pod)
        title = self._title_of(pod)
        if startup_boost.boosted_containers(pod):
            self._tell(at, DemoEventKind.BOOSTED, wanted, pod)
        elif size == self._sizes.get(title) != requests_of(wanted):
            # A CronJob creates many pods; a pod with the same size as before is no event.
            self._counts[DemoEventKind.SIZED] += 1
        elif size != requests_of(wanted):
            self._tell(at, DemoEventKind.SIZED, wanted, pod)
        self._sizes[title] = size

    def _tell_of_kill(self, at: datetime, pod: Pod, limit_bytes: int) -> None:
        limit = {Resource.MEMORY: limit_bytes}
        self.add(DemoEvent(at, self._title_of(pod), DemoEventKind.KILLED, limit, limit, pod.name))

    def _tell_of_first(self, fact: StatusPublished) -> None:
        if fact.after.recommendation and not fact.before.recommendation:
            (target,) = (each.target for each in fact.after.recommendation)
            (title,) = (
                part.title
                for part in self._parts
                if part.autoscaler.identity == fact.after.identity
            )
            self.add(DemoEvent(fact.at, title, DemoEventKind.LEARNED, target, target))

    def _tell(self, at: datetime, kind: DemoEventKind, before: Pod, after: Pod) -> None:
        title = self._title_of(after)
        self.add(DemoEvent(at, title, kind, requests_of(before), requests_of(after), after.name))

    def _title_of(self, pod: Pod) -> str:
        (title,) = (part.title for part in self._parts if part.labels.matches(pod.labels))
        return title


def requests_of(pod: Pod) -> Resources:
    """Return the total requests of a pod's containers."""
    return {resource: objects.resource_total(pod, resource) for resource in BOTH}


def gather(news: Iterable[DemoEvent]) -> list[DemoEvent]:
    """Merge consecutive events of one kind and part into one, from the first to the last."""
    told: list[DemoEvent] = []
    for each in news:
        if told and (told[-1].title, told[-1].kind) == (each.title, each.kind):
            first = told.pop()
            told.append(replace(each, before=first.before, times=first.times + each.times))
        else:
            told.append(each)
    return told
