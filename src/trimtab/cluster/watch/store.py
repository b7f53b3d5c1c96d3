"""Stores: the local copy of all objects of one kind, with one handle to write and one to read.

The feed of a store holds its `Writer`. Components get the `Reader`, which cannot change anything.
Readers always see a complete list: `replace` swaps the whole content and reports only differences.
"""

import asyncio
from collections.abc import (
    AsyncIterator,
    Callable,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar
from weakref import ReferenceType, ref

from trimtab.api.wire.lists import Unreadable
from trimtab.api.wire.watch_events import ObjectName, StoredObject
from trimtab.cluster.ports import Clock
from trimtab.core.model.resources import Resources

RecordT = TypeVar("RecordT")

CHANGES_KEPT: Final = 100_000
"""Maximum number of changed objects that wait for one reader; beyond it the oldest is dropped."""


class Changes(AsyncIterator[RecordT]):
    """Objects that have appeared or changed, oldest first; one that changed twice comes once.

    It is filled from the moment it is made, as long as there is a reference to it.
    """

    def __init__(self) -> None:
        self._waiting: dict[ObjectName, RecordT] = {}
        self._filled = asyncio.Event()
        self.forgotten = 0
        """Number of objects that were dropped because too many waited."""

    async def __anext__(self) -> RecordT:
        while not self._waiting:
            self._filled.clear()
            await self._filled.wait()
        # A dict keeps the order in which names came first, so this is a queue without duplicates.
        return self._waiting.pop(next(iter(self._waiting)))

    def add(self, entry: StoredObject[RecordT]) -> None:
        """Add the object, in the place of its earlier state."""
        self._waiting[entry.name] = entry.record
        if len(self._waiting) > CHANGES_KEPT:
            del self._waiting[next(iter(self._waiting))]
            self.forgotten += 1
        self._filled.set()


class StoreIndex(Generic[RecordT]):
    """The objects of a store by a key of theirs, always as the store holds them."""

    def __init__(self, key: Callable[[RecordT], Hashable]) -> None:
        self._key = key
        self._groups: dict[Hashable, dict[ObjectName, RecordT]] = {}

    def under(self, key: Hashable) -> Sequence[RecordT]:
        """Return the objects with this key, in the order in which they came to it."""
        found = self._groups.get(key)
        return () if found is None else tuple(found.values())

    def has(self, key: Hashable) -> bool:
        """Return True if any object has this key."""
        return key in self._groups

    def put(self, name: ObjectName, before: RecordT | None, after: RecordT | None) -> None:
        """Note how an object changed; None where it did or does not exist."""
        # A record that keeps its key keeps its place in the group.
        if before is not None and (after is None or self._key(after) != self._key(before)):
            self._drop(name, self._key(before))
        if after is not None:
            self._groups.setdefault(self._key(after), {})[name] = after

    def clear(self) -> None:
        """Remove everything."""
        self._groups = {}

    def _drop(self, name: ObjectName, key: Hashable) -> None:
        group = self._groups[key]
        del group[name]
        if not group:
            del self._groups[key]


class StoreTotals(Generic[RecordT]):
    """Sums of what the objects of a store take, by a key of theirs, always up to date."""

    def __init__(
        self, key: Callable[[RecordT], str | None], amounts: Callable[[RecordT], Resources]
    ) -> None:
        """Take a key, which is None for objects that do not count, and what an object takes."""
        self._key = key
        self._amounts = amounts
        self._sums: dict[str, tuple[int, Resources]] = {}
        """Number of objects and their sums, by key."""

    def by_key(self) -> Mapping[str, Resources]:
        """Return the sums as they are now; they never change later."""
        # A copy of the outer dict is enough: `_add` replaces inner ones and never changes them.
        return {key: amounts for key, (_, amounts) in self._sums.items()}

    def counts(self) -> Mapping[str, int]:
        """Return the numbers of objects that have the keys now; they never change later."""
        return {key: count for key, (count, _) in self._sums.items()}

    def put(self, name: ObjectName, before: RecordT | None, after: RecordT | None) -> None:  # noqa: ARG002
        """Count how an object changed; None where it did or does not exist."""
        lost, gained = self._share(before), self._share(after)
        # Most changes of an object leave its amounts as they are.
        if lost != gained:
            self._add(*lost, -1)
            self._add(*gained, 1)

    def clear(self) -> None:
        """Remove everything."""
        self._sums = {}

    def _share(self, record: RecordT | None) -> tuple[str | None, Resources]:
        key = None if record is None else self._key(record)
        return (None, {}) if record is None or key is None else (key, self._amounts(record))

    def _add(self, key: str | None, amounts: Resources, sign: int) -> None:
        if key is None:
            return
        count, sums = self._sums.get(key, (0, {}))
        count += sign
        if not count:
            del self._sums[key]
            return
        added = {kind: sums.get(kind, 0) + sign * amount for kind, amount in amounts.items()}
        self._sums[key] = count, {**sums, **added}


class _Contents(Generic[RecordT]):
    """Content that both handles share."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.by_namespace: dict[str, dict[str, RecordT]] = {}
        self.unreadable: dict[ObjectName, Unreadable] = {}
        self.current_at: datetime | None = None
        self.synced = asyncio.Event()
        # Weak: a reader that nothing refers to any more must not be filled for ever.
        self.readers: list[ReferenceType[Changes[RecordT]]] = []
        """In the order in which they came; a reader without references leaves the list."""
        self.indexes: list[StoreIndex[RecordT] | StoreTotals[RecordT]] = []

    def find(self, name: ObjectName) -> RecordT | None:
        return self.by_namespace.get(name.namespace, {}).get(name.name)

    def confirm(self) -> None:
        self.current_at = self.clock.now()

    def fill(self, index: StoreIndex[RecordT] | StoreTotals[RecordT]) -> None:
        index.clear()
        for namespace, siblings in self.by_namespace.items():
            for name, record in siblings.items():
                index.put(ObjectName(namespace, name), None, record)

    def notify(self, entry: StoredObject[RecordT]) -> None:
        # A copy: one reader may leave while another is filled.
        for reference in tuple(self.readers):
            if (reader := reference()) is not None:
                reader.add(entry)


class Reader(Generic[RecordT]):
    """The store as components see it."""

    def __init__(self, contents: _Contents[RecordT]) -> None:
        self._contents = contents

    def __iter__(self) -> Iterator[RecordT]:
        # A copy, since the store may change while the caller waits between two objects.
        return iter(
            [record for each in self._contents.by_namespace.values() for record in each.values()]
        )

    def __len__(self) -> int:
        return sum(map(len, self._contents.by_namespace.values()))

    def find(self, namespace: str, name: str) -> RecordT | None:
        """Return the object of that name, if there is one that can be read."""
        siblings = self._contents.by_namespace.get(namespace)
        return None if siblings is None else siblings.get(name)

    def in_namespace(self, namespace: str) -> Sequence[RecordT]:
        """Return all objects of one namespace, in the order of their names."""
        siblings = self._contents.by_namespace.get(namespace)
        return () if siblings is None else tuple(siblings[name] for name in sorted(siblings))

    def age(self) -> timedelta | None:
        """Return the time since the view was known to be current; None before the first list."""
        at = self._contents.current_at
        # A wall clock may be set back; an age is never negative.
        return None if at is None else max(timedelta(), self._contents.clock.now() - at)

    @property
    def current_at(self) -> datetime | None:
        """Time at which the view was last known to be current; None before the first list."""
        return self._contents.current_at

    def changes(self) -> Changes[RecordT]:
        """Yield objects as they appear or change from now on; several changes may come as one."""
        changes: Changes[RecordT] = Changes()
        readers = self._contents.readers
        readers.append(ref(changes, readers.remove))
        return changes

    def index(self, key: Callable[[RecordT], Hashable]) -> StoreIndex[RecordT]:
        """Make an index by a key that follows from each object; kept as long as the store."""
        index = StoreIndex(key)
        self._contents.fill(index)
        self._contents.indexes.append(index)
        return index

    def totals(
        self, key: Callable[[RecordT], str | None], amounts: Callable[[RecordT], Resources]
    ) -> StoreTotals[RecordT]:
        """Make sums of what the objects take, by a key; kept as long as the store."""
        totals = StoreTotals(key, amounts)
        self._contents.fill(totals)
        self._contents.indexes.append(totals)
        return totals

    @property
    def unreadable(self) -> Sequence[Unreadable]:
        """Objects that exist but cannot be read; they must not be taken for deleted."""
        return tuple(self._contents.unreadable.values())

    async def synced(self) -> None:
        """Return once the first list is complete."""
        await self._contents.synced.wait()


class Writer(Generic[RecordT]):
    """The store as its feed sees it."""

    def __init__(self, contents: _Contents[RecordT]) -> None:
        self._contents = contents

    def replace(
        self, entries: Iterable[StoredObject[RecordT]], unreadable: Iterable[Unreadable] = ()
    ) -> None:
        """Hold exactly these objects, and report which of them are new or different."""
        contents = self._contents
        fresh: dict[str, dict[str, RecordT]] = {}
        different = []
        for entry in entries:
            if contents.find(entry.name) != entry.record:
                different.append(entry)
            fresh.setdefault(entry.name.namespace, {})[entry.name.name] = entry.record
        contents.by_namespace = fresh
        for index in contents.indexes:
            contents.fill(index)
        contents.unreadable = {ObjectName(each.namespace, each.name): each for each in unreadable}
        contents.confirm()
        contents.synced.set()
        for entry in different:
            contents.notify(entry)

    def put(self, entry: StoredObject[RecordT]) -> None:
        """Hold this object in the place of its earlier state."""
        contents = self._contents
        contents.confirm()
        contents.unreadable.pop(entry.name, None)
        name, record = entry.name, entry.record
        before = contents.find(name)
        if before != record:
            contents.by_namespace.setdefault(name.namespace, {})[name.name] = record
            for index in contents.indexes:
                index.put(name, before, record)
            contents.notify(entry)

    def spoil(self, unreadable: Unreadable) -> None:
        """Hold the object as one that cannot be read; its earlier state is no longer true."""
        name = ObjectName(unreadable.namespace, unreadable.name)
        self.drop(name)
        self._contents.unreadable[name] = unreadable

    def drop(self, name: ObjectName) -> None:
        """Remove the object."""
        contents = self._contents
        contents.confirm()
        contents.unreadable.pop(name, None)
        siblings = contents.by_namespace.get(name.namespace, {})
        before = siblings.pop(name.name, None)
        for index in contents.indexes:
            index.put(name, before, None)
        if not siblings:
            contents.by_namespace.pop(name.namespace, None)

    def confirm(self) -> None:
        """Note that nothing has changed up to now."""
        self._contents.confirm()


def open_store(clock: Clock) -> tuple[Writer[RecordT], Reader[RecordT]]:
    """Make a new store and return its two handles."""
    contents: _Contents[RecordT] = _Contents(clock)
    return Writer(contents), Reader(contents)
