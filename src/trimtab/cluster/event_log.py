"""Events that are told once and then counted, as a server that keeps them for an hour likes it.

The server's answer is nobody's problem: an event that cannot be written is counted and forgotten.
"""

from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from trimtab.api.events import Event, encode_event, encode_event_count, event_name
from trimtab.cluster import paths
from trimtab.cluster.client import MERGE_PATCH, Client
from trimtab.cluster.errors import ClusterError, NotFoundError
from trimtab.cluster.rights import MissingRights
from trimtab.core.records import dataclass

_MAX_SERIES: Final = 4096
"""Different events that are remembered; as many as client-go remembers."""
_COUNT_EVERY: Final = timedelta(minutes=5)
"""How often a count is written; client-go too lets a chatty object through once in 5 minutes."""

_Key: TypeAlias = tuple[object, ...]


@dataclass(slots=True)
class _Series:
    """Equal events: the object that stands for them, and how many there were."""

    path: str
    written_at: datetime
    count: int = 1


class EventLog:
    """Writes events, each kind of them once and then as a count."""

    def __init__(self, client: Client, rights: MissingRights) -> None:
        self._client = client
        self._rights = rights
        self._series: OrderedDict[_Key, _Series] = OrderedDict()
        self.failures = 0
        """How many events the server did not take."""

    async def emit(self, event: Event) -> None:
        """Tell what happened, or that it happened again."""
        try:
            with self._rights.noted("emit"):
                await self._write(event)
        except ClusterError:
            self.failures += 1

    async def _write(self, event: Event) -> None:
        series = self._series.get(_key(event))
        if series is None:
            await self._begin(event)
            return
        self._series.move_to_end(_key(event))
        series.count += 1
        if event.at - series.written_at >= _COUNT_EVERY:
            await self._count(event, series)

    async def _begin(self, event: Event) -> None:
        path = paths.collection("v1", "events", event.about.namespace or "default")
        # Remembered first: equal events that come meanwhile are counted, not told again.
        self._series[_key(event)] = _Series(paths.item(path, event_name(event)), event.at)
        if len(self._series) > _MAX_SERIES:
            self._series.popitem(last=False)
        try:
            await self._client.post(path, encode_event(event))
        except ClusterError:
            self._series.pop(_key(event), None)
            raise

    async def _count(self, event: Event, series: _Series) -> None:
        series.written_at = event.at
        body = encode_event_count(series.count, event.at)
        try:
            await self._client.patch(series.path, body, MERGE_PATCH)
        except NotFoundError:
            # The server forgets events after an hour.
            await self._begin(event)


def _key(event: Event) -> _Key:
    about = event.about
    named = (about.kind, about.namespace, about.name, about.uid)
    return (*named, event.reason, event.message, event.component, event.type)
