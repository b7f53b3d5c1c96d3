"""What happens in the demo, told as news: acts of the components, kills, and what owners do."""

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
    """What kind of thing happened; the value names it to programs."""

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
    """Something that happened to a pod."""

    at: datetime
    title: str
    """Of the part that it happened to."""
    kind: DemoEventKind
    before: Resources
    after: Resources
    pod: str = ""
    times: int = 1
    """More than once where it is told together with the same of other pods or other moments."""


class Newsroom:
    """Listens to facts, and keeps what is news until somebody asks for it."""

    def __init__(self, parts: Sequence[DemoWorkload]) -> None:
        self._parts = parts
        self._fresh: list[DemoEvent] = []
        self._sizes: dict[str, Resources] = {}
        """With which size the last pod of a part came in."""
        self._counts: Counter[DemoEventKind] = Counter()

    def counts(self) -> Mapping[DemoEventKind, int]:
        """How often each kind of thing has happened so far."""
        return {kind: self._counts[kind] for kind in DemoEventKind}

    def take(self) -> tuple[DemoEvent, ...]:
        """All that is new since the last time."""
        fresh, self._fresh = self._fresh, []
        return tuple(fresh)

    def add(self, news: DemoEvent) -> None:
        """Let something be told."""
        self._counts[news.kind] += 1
        self._fresh.append(news)

    def listen(self, fact: Fact) -> None:
        """Take note of a fact, if it is news."""
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
            # A job comes again and again; that it got the same size again is no news.
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
    """What the containers of a pod request together."""
    return {resource: objects.resource_total(pod, resource) for resource in BOTH}


def gather(news: Iterable[DemoEvent]) -> list[DemoEvent]:
    """The same news; what happened several times in a row is told once, from first to last."""
    told: list[DemoEvent] = []
    for each in news:
        if told and (told[-1].title, told[-1].kind) == (each.title, each.kind):
            first = told.pop()
            told.append(replace(each, before=first.before, times=first.times + each.times))
        else:
            told.append(each)
    return told
