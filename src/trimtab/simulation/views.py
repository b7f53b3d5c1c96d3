"""Views: one component's copy of one kind of objects, fed through its line.

What is true in the world arrives a little later, or much later, or only when a lost watch is back:
then it goes on from where it was, or lists anew if the cluster has forgotten that far back.
"""

import asyncio
from datetime import timedelta
from typing import Final, Generic, TypeVar

from trimtab.api.lists import Unreadable
from trimtab.api.watch_events import Entry, ObjectName
from trimtab.cluster.ports import Clock
from trimtab.cluster.store import Reader, Writer, open_store
from trimtab.simulation.lines import Line
from trimtab.simulation.tables import Change, Named, Table, Versions

RecordT = TypeVar("RecordT", bound=Named)

BOOKMARK_INTERVAL: Final = timedelta(minutes=1)
"""How often a watch confirms that nothing has changed."""
RETRY_INTERVAL: Final = timedelta(seconds=1)
"""How often a lost watch is tried again."""


class View(Generic[RecordT]):
    """Feeds the store of one component from the table of the world."""

    def __init__(
        self, table: Table[RecordT], line: Line, *, clock: Clock, versions: Versions
    ) -> None:
        self._table = table
        self._line = line
        self._versions = versions
        self._position = -1
        self._writer: Writer[RecordT]
        self.reader: Reader[RecordT]
        self._writer, self.reader = open_store(clock)
        self._due: asyncio.TimerHandle | None = None
        table.subscribe(self._notice)
        self._catch_up_in(line.latency)

    def spoil(self, unreadable: Unreadable) -> None:
        """Let an object be one that this component cannot read."""
        self._writer.spoil(unreadable)

    def _notice(self, _: Change[RecordT]) -> None:
        if self._line.is_dead:
            self._table.unsubscribe(self._notice)
            return
        lag = self._line.watch_lag.total_seconds()
        loop = asyncio.get_running_loop()
        if self._due is None or self._due.when() > loop.time() + lag:
            self._catch_up_in(self._line.watch_lag)

    def _catch_up_in(self, span: timedelta) -> None:
        if self._due is not None:
            self._due.cancel()
        loop = asyncio.get_running_loop()
        self._due = loop.call_later(span.total_seconds(), self._catch_up)

    def _catch_up(self) -> None:
        self._due = None
        line = self._line
        if line.is_dead:
            return
        if line.watches_lost:
            self._catch_up_in(RETRY_INTERVAL)
            return
        if self._position < self._table.forgotten:
            self._list()
        else:
            self._read_log()
        self._position = self._versions.latest
        self._catch_up_in(BOOKMARK_INTERVAL)

    def _list(self) -> None:
        entries = [Entry(_name(record), record) for record in self._table]
        self._writer.replace(entries, self.reader.unreadable)

    def _read_log(self) -> None:
        self._writer.confirm()
        for change in self._table.after(self._position):
            if change.after is None:
                self._writer.drop(change.name)
            else:
                self._writer.put(Entry(change.name, change.after))


def _name(record: Named) -> ObjectName:
    return ObjectName(record.namespace, record.name)
