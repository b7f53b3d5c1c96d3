"""The watch for OOM kills: compares successive states of each pod and queues new kills.

Every state of a pod is compared with the one before. So a kill counts once, however often and from
whatever source it is seen. A deleted pod is remembered for a while: the event of its eviction may
come after its deletion.
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
"""Maximum number of kills that wait for a tick; beyond it, the oldest is dropped."""
MEMORY_OF_THE_GONE: Final = timedelta(minutes=10)
"""Time for which a deleted pod is remembered."""


@dataclass(frozen=True, slots=True)
class ObservedKill:
    """A kill, and the pod as it was when the kill was found."""

    pod: Pod
    kill: OomKill


class OomWatch:
    """Kills that were observed and not counted yet."""

    def __init__(self) -> None:
        self._looks: dict[PodKey, Pod] = {}
        self._gone_since: dict[PodKey, datetime] = {}
        self._last_kills: dict[PodKey, dict[str, datetime]] = {}
        self._evictions: deque[MemoryEviction] = deque(maxlen=MOST_WAITING)
        self._waiting: deque[ObservedKill] = deque(maxlen=MOST_WAITING)
        self.overlooked = 0
        """Number of evictions of pods that were never seen."""

    def look(self, pod: Pod) -> None:
        """Queue the kills that this state of a pod shows and no earlier state did."""
        key = (pod.namespace, pod.name)
        before = self._looks.get(key)
        # Called for every pod in every tick; most are the object of the tick before.
        if before is pod:
            return
        self._looks[key] = pod
        self._gone_since.pop(key, None)
        # A StatefulSet gives the next pod the same name.
        same = before is not None and before.uid == pod.uid
        kills = (
            oom_kills.find_oom_kills(before, pod)
            if before and same
            else oom_kills.list_oom_kills(pod)
        )
        for kill in kills:
            self._note(key, ObservedKill(pod, kill))

    def note_eviction(self, eviction: MemoryEviction) -> None:
        """Queue the memory eviction of a container."""
        self._evictions.append(eviction)

    def drain(self) -> list[ObservedKill]:
        """Return the kills observed since the last call, in order of time."""
        while self._evictions:
            self._place(self._evictions.popleft())
        # By time: a kill that is counted late must not hide an earlier one.
        found = sorted(self._waiting, key=lambda sighting: sighting.kill.time)
        self._waiting.clear()
        return found

    def forget(self, gone: Iterable[PodKey], now: datetime) -> None:
        """Drop deleted pods once they have been gone for a while."""
        for key in gone:
            self._gone_since.setdefault(key, now)
        past = [key for key, at in self._gone_since.items() if now - at >= MEMORY_OF_THE_GONE]
        for key in past:
            del self._gone_since[key]
            self._looks.pop(key, None)
            self._last_kills.pop(key, None)

    def gone(self, present: Container[PodKey]) -> list[PodKey]:
        """Return the remembered pods that are not among the present ones."""
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
        # Kills of one container are in order of time, so the last time shows which are known.
        kill, known = sighting.kill, self._last_kills.setdefault(key, {})
        last = known.get(kill.container_name)
        if last is None or kill.time > last:
            known[kill.container_name] = kill.time
            self._waiting.append(sighting)
