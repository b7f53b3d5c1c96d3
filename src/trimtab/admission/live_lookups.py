"""Live lookups of autoscalers: requests to the API server that run beside the waiting reviews.

The watch may lag, and a claim may stand for an object that was never stored. A review that would be
refused because of another autoscaler waits for a lookup that began after the review came.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from trimtab.admission.coverage import Coverage, cover
from trimtab.admission.logs import Timer
from trimtab.api.wire.codec import DecodeError
from trimtab.cluster.errors import ClusterError
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName

_MAX_WAITING: Final = 64
"""Maximum number of lookups of one namespace that wait; requests ask for further ones again."""
_MAX_KEPT_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of the results that are kept; the newest is kept whatever its size."""
_NOTHING_BYTES: Final = 1024
"""Generous size of a result without an autoscaler."""
_AT_A_TIME: Final = 4
_ANSWER_SECONDS: Final = 2.5
"""Maximum time for one lookup, retries of the client included: no review waits longer."""

FetchAutoscaler: TypeAlias = Callable[[AutoscalerName], Awaitable[Autoscaler | None]]


@dataclass(frozen=True, slots=True)
class Seen:
    """State of an autoscaler on the API server."""

    coverage: Coverage | None
    """None if there is no such autoscaler, or it has no target."""
    asked_at: float

    @property
    def size_bytes(self) -> int:
        """Size in memory, rounded up."""
        return _NOTHING_BYTES if self.coverage is None else self.coverage.size_bytes


class LiveLookups:
    """Fetches autoscalers on demand, and keeps the latest results for a moment."""

    def __init__(self, fetch: FetchAutoscaler, timer: Timer) -> None:
        self._fetch = fetch
        self._timer = timer
        self._waiting: OrderedDict[str, OrderedDict[AutoscalerName, None]] = OrderedDict()
        """Names by their namespaces; the namespace whose turn is next comes first."""
        self._under_way: dict[AutoscalerName, float] = {}
        """Moments at which the lookups began."""
        self._outdated: set[AutoscalerName] = set()
        self._seen: OrderedDict[AutoscalerName, Seen] = OrderedDict()
        self._kept_bytes = 0
        self._has_work = asyncio.Event()

    def find(self, name: AutoscalerName, since: float) -> Seen | None:
        """Return a result of a lookup that began at `since` or later; ask for one otherwise."""
        seen = self._seen.get(name)
        if seen is not None and seen.asked_at >= since:
            return seen
        self.ask(name, since)
        return None

    def ask(self, name: AutoscalerName, since: float) -> None:
        """Ask for a lookup, unless one that began at `since` or later is under way.

        Does nothing if too many of the namespace wait.
        """
        began_at = self._under_way.get(name)
        if began_at is not None and began_at >= since and name not in self._outdated:
            return
        of_namespace = self._waiting.setdefault(name.namespace, OrderedDict())
        if len(of_namespace) < _MAX_WAITING:
            of_namespace[name] = None
            self._has_work.set()

    def forget(self, name: AutoscalerName) -> None:
        """Drop the result for an autoscaler, and that of a lookup that is under way."""
        self._outdated |= self._under_way.keys() & {name}
        self._drop(name)

    async def run(self) -> None:
        """Make lookups as they are asked for, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_A_TIME):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            name = self._take()
            if name is None:
                self._has_work.clear()
                await self._has_work.wait()
                continue
            self._under_way[name] = self._timer()
            try:
                await self._look_up(name)
            except (ClusterError, DecodeError, TimeoutError):
                # A waiting request asks again.
                continue
            finally:
                del self._under_way[name]
                self._outdated.discard(name)
                self._has_work.set()

    def _take(self) -> AutoscalerName | None:
        """Return a lookup that waits and is not under way already; namespaces take turns."""
        for namespace, names in self._waiting.items():
            for name in names:
                if name not in self._under_way:
                    del names[name]
                    self._waiting.move_to_end(namespace)
                    if not names:
                        del self._waiting[namespace]
                    return name
        return None

    async def _look_up(self, name: AutoscalerName) -> None:
        asked_at = self._under_way[name]
        async with asyncio.timeout(_ANSWER_SECONDS):
            found = await self._fetch(name)
        if name not in self._outdated:
            self._keep(name, Seen(None if found is None else cover(found), asked_at))

    def _keep(self, name: AutoscalerName, seen: Seen) -> None:
        self._drop(name)
        self._seen[name] = seen
        self._kept_bytes += seen.size_bytes
        while self._kept_bytes > _MAX_KEPT_BYTES and len(self._seen) > 1:
            self._kept_bytes -= self._seen.popitem(last=False)[1].size_bytes

    def _drop(self, name: AutoscalerName) -> None:
        seen = self._seen.pop(name, None)
        self._kept_bytes -= 0 if seen is None else seen.size_bytes
