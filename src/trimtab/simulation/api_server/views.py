"""Views: one component's copy of one kind of objects, fed through its connection.

Changes arrive with a delay, or only after a lost watch is open again. The watch then continues at
its last version, or the view lists all objects again if the log no longer reaches back so far.
"""

import asyncio
from collections import deque
from datetime import timedelta
from typing import Final, Generic, TypeVar

from trimtab.api.wire.watch_events import ObjectName, StoredObject
from trimtab.cluster.errors import ClusterError, UnreachableError
from trimtab.cluster.ports import Clock
from trimtab.cluster.watch import store
from trimtab.simulation.api_server.connection import SimulatedConnection
from trimtab.simulation.api_server.requests import Act, ObjectKind, Request
from trimtab.simulation.world.tables import Named, Table, TableChange, Versions

RecordT = TypeVar("RecordT", bound=Named)

BOOKMARK_INTERVAL: Final = timedelta(minutes=1)
"""Interval at which an idle watch confirms that nothing has changed."""
RETRY_INTERVAL: Final = timedelta(seconds=1)
"""Interval at which a lost watch is retried."""
_RETRY_SECONDS: Final = RETRY_INTERVAL.total_seconds()
_NOT_CONNECTED: Final = -1
_MOMENT: Final = 1e-6
"""Seconds by which a timer may be early."""


class View(Generic[RecordT]):
    """Feeds the store of one component from the table of the world."""

    def __init__(
        self,
        table: Table[RecordT],
        line: SimulatedConnection,
        kind: ObjectKind,
        *,
        clock: Clock,
        versions: Versions,
    ) -> None:
        self._table = table
        self._line = line
        self._versions = versions
        self.resource = kind.resource
        self._loop = asyncio.get_running_loop()
        self._position = -1
        self._connection = _NOT_CONNECTED
        self._writer: store.Writer[RecordT]
        self.reader: store.Reader[RecordT]
        self._writer, self.reader = store.open_store(clock)
        self._list_request = Request(Act.LIST, kind.right(Act.LIST))
        self._watch_request = Request(Act.WATCH, kind.right(Act.WATCH))
        self._due: asyncio.TimerHandle | None = None
        self.problem: ClusterError | None = None
        """The error that stops updates; None while the watch works."""
        self._underway: deque[tuple[float, int]] = deque()
        """Arrival time and version of the changes that the watch has not delivered yet."""
        table.subscribe(self._notice)
        if line.latency:
            self._look_at(self._time() + line.latency.total_seconds())
        else:
            self.look()

    def _notice(self, change: TableChange[RecordT]) -> None:
        if self._line.is_dead:
            self._table.unsubscribe(self._notice)
            return
        arrives = self._time() + self._line.watch_lag.total_seconds()
        if self._underway:
            # A watch delivers changes in order, even if an earlier one was slow.
            arrives = max(arrives, self._underway[-1][0])
        self._underway.append((arrives, change.version))
        if arrives <= self._time():
            # Without a lag a change is visible as soon as the write returns.
            self.look()
        elif self._due is None or self._due.when() > arrives:
            self._look_at(arrives)

    def _time(self) -> float:
        return self._loop.time()

    def _look_at(self, moment: float) -> None:
        if self._due is not None:
            self._due.cancel()
        self._due = self._loop.call_at(moment, self.look)

    def look(self) -> None:
        """Bring the store up to date, as far as the connection allows now."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if self._line.is_dead:
            return
        if self._is_still_cut() or not self._catch_up():
            self._due = self._loop.call_at(self._loop.time() + _RETRY_SECONDS, self.look)
            return
        bookmark = self._time() + BOOKMARK_INTERVAL.total_seconds()
        self._look_at(min(bookmark, self._underway[0][0]) if self._underway else bookmark)

    def _is_still_cut(self) -> bool:
        """Return True if the watch was refused before, and the connection is cut.

        This is the most common case in a run, and computing the same refusal each second is slow.
        """
        is_refused = self._connection == _NOT_CONNECTED and self.problem is not None
        return is_refused and self._line.is_cut and not self._line.is_silent

    def _catch_up(self) -> bool:
        """Return True if the view has received all changes that are due."""
        line = self._line
        is_connected = self._connection == line.breaks and not line.is_cut
        if line.is_silent:
            if not is_connected:
                # An open watch receives nothing; a lost one cannot be opened.
                self.problem = UnreachableError(str(self._watch_request), "no answer in time")
            return False
        if is_connected and line.is_stalled(self.resource):
            return False
        if self._position < self._table.forgotten and not self._list():
            return False
        if not is_connected and not self._connect():
            return False
        self._read_log()
        return True

    def _connect(self) -> bool:
        self._connection = _NOT_CONNECTED
        self.problem = self._line.refusal(self._watch_request)
        if self.problem is None:
            self._connection = self._line.breaks
            # A new watch delivers at once all changes since its version.
            self._underway.clear()
        return self.problem is None

    def _list(self) -> bool:
        self.problem = self._line.refusal(self._list_request)
        if self.problem is not None:
            return False
        entries = [
            StoredObject(ObjectName(record.namespace, record.name), record)
            for record in self._table
        ]
        self._writer.replace(entries, self._table.unreadable.values())
        self._position = self._versions.latest
        self._underway.clear()
        return True

    def _read_log(self) -> None:
        self._writer.confirm()
        told = self._hear()
        for change in self._table.after(self._position):
            if change.version > told:
                break
            if change.unreadable is not None:
                self._writer.spoil(change.unreadable)
            elif change.after is None:
                self._writer.drop(change.name)
            else:
                self._writer.put(StoredObject(change.name, change.after))
        self._position = told

    def _hear(self) -> int:
        """Return the version up to which the watch has delivered all changes."""
        told = self._position
        while self._underway and self._underway[0][0] <= self._time() + _MOMENT:
            told = max(told, self._underway.popleft()[1])
        return told if self._underway else self._versions.latest
