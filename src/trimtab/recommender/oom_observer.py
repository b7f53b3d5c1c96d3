"""The watch for OOM kills: looks at pods as they come, and a queue of what was seen.

Every look at a pod is compared with the one before, so that a kill counts once, however often it
is shown and by whom. A pod is remembered for a while after it is gone: the event that tells of its
eviction may come later than its end.
"""

from collections import deque
from collections.abc import Container, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from trimtab.api.kinds.evictions import MemoryEviction
from trimtab.core.model.pods import Pod
from trimtab.core.usage import oom_kills
from trimtab.core.usage.oom_kills import OomKill

PodKey: TypeAlias = tuple[str, str]
"""A namespace and a name."""

MOST_WAITING: Final = 50_000
"""So many kills wait for a tick at most; then the oldest is forgotten."""
MEMORY_OF_THE_GONE: Final = timedelta(minutes=10)
"""How long a pod is remembered that is no more."""


@dataclass(frozen=True, slots=True)
class ObservedKill:
    """A kill, and the pod as it was seen when it was found out."""

    pod: Pod
    kill: OomKill


class OomWatch:
    """What was seen of kills and not counted yet."""

    def __init__(self) -> None:
        self._looks: dict[PodKey, Pod] = {}
        self._gone_since: dict[PodKey, datetime] = {}
        self._last_kills: dict[PodKey, dict[str, datetime]] = {}
        self._evictions: deque[MemoryEviction] = deque(maxlen=MOST_WAITING)
        self._waiting: deque[ObservedKill] = deque(maxlen=MOST_WAITING)
        self.overlooked = 0
        """Evictions of pods that were never seen."""

    def look(self, pod: Pod) -> None:
        """Take note of the kills that this look at a pod shows and none before did."""
        key = (pod.namespace, pod.name)
        before = self._looks.get(key)
        if before is pod:
            return
        self._looks[key] = pod
        self._gone_since.pop(key, None)
        same = before is not None and before.uid == pod.uid
        kills = (
            oom_kills.find_oom_kills(before, pod)
            if before and same
            else oom_kills.list_oom_kills(pod)
        )
        for kill in kills:
            self._note(key, ObservedKill(pod, kill))

    def note_eviction(self, eviction: MemoryEviction) -> None:
        """Take note of a container that was evicted for want of memory."""
        self._evictions.append(eviction)

    def drain(self) -> list[ObservedKill]:
        """The kills that were seen since the last time, in the order of their times."""
        while self._evictions:
            self._place(self._evictions.popleft())
        found = sorted(self._waiting, key=lambda sighting: sighting.kill.time)
        self._waiting.clear()
        return found

    def forget(self, gone: Iterable[PodKey], now: datetime) -> None:
        """Remember pods that are no more only for a while."""
        for key in gone:
            self._gone_since.setdefault(key, now)
        past = [key for key, at in self._gone_since.items() if now - at >= MEMORY_OF_THE_GONE]
        for key in past:
            del self._gone_since[key]
            self._looks.pop(key, None)
            self._last_kills.pop(key, None)

    def gone(self, present: Container[PodKey]) -> list[PodKey]:
        """The pods that were looked at and are not among those that are there."""
        return [key for key in self._looks if key not in present]

    def _place(self, eviction: MemoryEviction) -> None:
        key = (eviction.namespace, eviction.pod)
        pod = self._looks.get(key)
        if pod is None:
            self.overlooked += 1
            return
        kill = OomKill(eviction.container, eviction.memory_bytes, eviction.at)
        self._note(key, ObservedKill(pod, kill))

    def _note(self, key: PodKey, sighting: ObservedKill) -> None:
        # Kills of one container follow each other, so the last one tells which are known.
        kill, known = sighting.kill, self._last_kills.setdefault(key, {})
        last = known.get(kill.container_name)
        if last is None or kill.time > last:
            known[kill.container_name] = kill.time
            self._waiting.append(sighting)
