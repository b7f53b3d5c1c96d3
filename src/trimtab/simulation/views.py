"""Views: one component's copy of one kind of objects, fed through its line.

What is true in the world arrives a little later, or much later, or only when a lost watch is back:
then it goes on from where it was, or lists anew if the cluster has forgotten that far back.
"""

import asyncio
from datetime import timedelta
from typing import Final, Generic, TypeVar

from trimtab.api.watch_events import Entry, ObjectName
from trimtab.cluster.errors import ClusterError, UnreachableError
from trimtab.cluster.ports import Clock
from trimtab.cluster.store import Reader, Writer, open_store
from trimtab.simulation.lines import Line
from trimtab.simulation.requests import Act, Kind, Request
from trimtab.simulation.tables import Change, Named, Table, Versions

RecordT = TypeVar("RecordT", bound=Named)

BOOKMARK_INTERVAL: Final = timedelta(minutes=1)
"""How often a watch confirms that nothing has changed."""
RETRY_INTERVAL: Final = timedelta(seconds=1)
"""How often a lost watch is tried again."""
_NOT_CONNECTED: Final = -1


class View(Generic[RecordT]):
    """Feeds the store of one component from the table of the world."""

    def __init__(
        self,
        table: Table[RecordT],
        line: Line,
        kind: Kind,
        *,
        clock: Clock,
        versions: Versions,
    ) -> None:
        self._table = table
        self._line = line
        self._kind = kind
        self._versions = versions
        self._position = -1
        self._connection = _NOT_CONNECTED
        self._writer: Writer[RecordT]
        self.reader: Reader[RecordT]
        self._writer, self.reader = open_store(clock)
        self._due: asyncio.TimerHandle | None = None
        self.problem: ClusterError | None = None
        """What keeps it from getting newer; None while all is well."""
        table.subscribe(self._notice)
        self._look_in(line.latency)

    def _notice(self, _: Change[RecordT]) -> None:
        if self._line.is_dead:
            self._table.unsubscribe(self._notice)
            return
        lag = self._line.watch_lag
        loop = asyncio.get_running_loop()
        if self._due is None or self._due.when() > loop.time() + lag.total_seconds():
            self._look_in(lag)

    def _look_in(self, span: timedelta) -> None:
        if self._due is not None:
            self._due.cancel()
        loop = asyncio.get_running_loop()
        self._due = loop.call_later(span.total_seconds(), self._look)

    def _look(self) -> None:
        self._due = None
        if self._line.is_dead:
            return
        self._look_in(BOOKMARK_INTERVAL if self._catch_up() else RETRY_INTERVAL)

    def _catch_up(self) -> bool:
        """Whether the view is as new as the world now."""
        line = self._line
        is_connected = self._connection == line.breaks and not line.is_cut
        if line.is_silent:
            if not is_connected:
                # A watch that is there just hears nothing; one that is not cannot be made.
                self.problem = UnreachableError(str(self._ask(Act.WATCH)), "no answer in time")
            return False
        if self._position < self._table.forgotten and not self._list():
            return False
        if not is_connected and not self._connect():
            return False
        self._read_log()
        return True

    def _connect(self) -> bool:
        self._connection = _NOT_CONNECTED
        self.problem = self._line.refusal(self._ask(Act.WATCH))
        if self.problem is None:
            self._connection = self._line.breaks
        return self.problem is None

    def _list(self) -> bool:
        self.problem = self._line.refusal(self._ask(Act.LIST))
        if self.problem is not None:
            return False
        entries = [
            Entry(ObjectName(record.namespace, record.name), record) for record in self._table
        ]
        self._writer.replace(entries, self._table.unreadable.values())
        self._position = self._versions.latest
        return True

    def _ask(self, act: Act) -> Request:
        return Request(act, self._kind.right(act))

    def _read_log(self) -> None:
        self._writer.confirm()
        for change in self._table.after(self._position):
            if change.unreadable is not None:
                self._writer.spoil(change.unreadable)
            elif change.after is None:
                self._writer.drop(change.name)
            else:
                self._writer.put(Entry(change.name, change.after))
        self._position = self._versions.latest
