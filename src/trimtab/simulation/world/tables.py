"""Tables: all objects of one kind, with versions, and a log from which watches are fed.

The log stands for the watch cache of an API server. A watch continues at its version while the log
reaches back to it, and has to list all objects again otherwise. An index finds objects by a key
other than their name, without a scan of the table.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, takewhile
from typing import Final, Generic, Protocol, TypeVar

from trimtab.api.wire.lists import Unreadable
from trimtab.api.wire.watch_events import ObjectName

LOG_KEPT: Final = 10_000
"""Number of changes of one kind that are kept for watches that are behind."""


class Named(Protocol):
    """An object with a namespace and a name."""

    @property
    def namespace(self) -> str:
        """Empty for cluster-wide objects."""

    @property
    def name(self) -> str:
        """Unique in its namespace."""


RecordT = TypeVar("RecordT", bound=Named)


class Versions:
    """The versions of all tables of a cluster; a later one is larger."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.latest = 0

    def draw(self) -> int:
        """Return a new version."""
        self.latest = next(self._numbers)
        return self.latest


@dataclass(frozen=True, slots=True)
class TableChange(Generic[RecordT]):
    """One entry of a log."""

    version: int
    name: ObjectName
    before: RecordT | None
    after: RecordT | None
    """None if the object was deleted, or has become unreadable."""
    unreadable: Unreadable | None = None
    """The unreadable object in its place, if there is one."""


Listener = Callable[[TableChange[RecordT]], None]


class Table(Generic[RecordT]):
    """All objects of one kind, by namespace and name."""

    def __init__(
        self, versions: Versions, stamp: Callable[[RecordT, str], RecordT] | None = None
    ) -> None:
        self._versions = versions
        self._stamp = stamp
        self._records: dict[ObjectName, RecordT] = {}
        self._listeners: list[Listener[RecordT]] = []
        self.unreadable: dict[ObjectName, Unreadable] = {}
        """Objects that exist but cannot be decoded."""
        self.log: deque[TableChange[RecordT]] = deque()
        self.forgotten = 0
        """Changes up to this version are no longer in the log."""

    def __iter__(self) -> Iterator[RecordT]:
        # A copy: controllers change the table while they go through it.
        return iter(list(self._records.values()))

    def __len__(self) -> int:
        return len(self._records)

    def find(self, namespace: str, name: str) -> RecordT | None:
        """Return the object of that name; None if there is none."""
        return self._records.get(ObjectName(namespace, name))

    def subscribe(self, listener: Listener[RecordT]) -> None:
        """Call a listener at once for every change from now on."""
        self._listeners.append(listener)

    def unsubscribe(self, listener: Listener[RecordT]) -> None:
        """Stop calling a listener."""
        self._listeners.remove(listener)

    def put(self, record: RecordT) -> RecordT:
        """Create or replace the object, and return it as stored, with its new version."""
        name = ObjectName(record.namespace, record.name)
        version = self._versions.draw()
        stored = record if self._stamp is None else self._stamp(record, str(version))
        before = self._records.get(name)
        self._records[name] = stored
        self.unreadable.pop(name, None)
        self._notify(TableChange(version, name, before, stored))
        return stored

    def delete(self, namespace: str, name: str) -> None:
        """Delete the object; one that is gone already is no error."""
        key = ObjectName(namespace, name)
        before = self._records.pop(key, None)
        if before is not None:
            self._notify(TableChange(self._versions.draw(), key, before, None))

    def spoil(self, unreadable: Unreadable) -> None:
        """Replace the object by one that cannot be decoded."""
        name = ObjectName(unreadable.namespace, unreadable.name)
        before = self._records.pop(name, None)
        self.unreadable[name] = unreadable
        self._notify(TableChange(self._versions.draw(), name, before, None, unreadable))

    def after(self, version: int) -> list[TableChange[RecordT]]:
        """Return the changes since a version, as far as the log reaches, oldest first."""
        # From the newest backwards: a watch is usually a few changes behind.
        recent = takewhile(lambda change: change.version > version, reversed(self.log))
        return list(recent)[::-1]

    def compact(self) -> None:
        """Clear the log: watches that have not read it must list all objects again."""
        # Of the whole cluster: a watch of this table may be at a version that another table drew.
        self.forgotten = self._versions.latest
        self.log.clear()

    def _notify(self, change: TableChange[RecordT]) -> None:
        self.log.append(change)
        if len(self.log) > LOG_KEPT:
            self.forgotten = self.log.popleft().version
        # A copy: a listener may unsubscribe while it is called.
        for listener in list(self._listeners):
            listener(change)


class TableIndex(Generic[RecordT]):
    """The objects of a table by a key, always up to date."""

    def __init__(self, table: Table[RecordT], key: Callable[[RecordT], str]) -> None:
        self._key = key
        self._groups: dict[str, dict[ObjectName, RecordT]] = {}
        for record in table:
            self._add(ObjectName(record.namespace, record.name), record)
        table.subscribe(self._notice)

    def under(self, key: str) -> list[RecordT]:
        """Return the objects with this key, in the order in which they got it."""
        return list(self._groups.get(key, {}).values())

    def count(self, key: str) -> int:
        """Return the number of objects with this key."""
        return len(self._groups.get(key, {}))

    def _notice(self, change: TableChange[RecordT]) -> None:
        before, after = change.before, change.after
        if before is not None and (after is None or self._key(after) != self._key(before)):
            self._drop(change.name, self._key(before))
        if after is not None:
            self._add(change.name, after)

    def _add(self, name: ObjectName, record: RecordT) -> None:
        self._groups.setdefault(self._key(record), {})[name] = record

    def _drop(self, name: ObjectName, key: str) -> None:
        group = self._groups[key]
        del group[name]
        if not group:
            del self._groups[key]
