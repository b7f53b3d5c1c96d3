"""A watch as a state machine: what is known, the next request, and the effect of its answer.

1. All transitions are here, and nothing else: no network, no clock, no store.
2. Each state holds only what it needs; the store's content is not part of any of them.
3. The store changes by whole lists or by single objects. A new list is gathered beside the old
   view and replaces it in one step at its end. A reader always sees one complete list.
4. A version is remembered only once everything up to it has been taken in. A watch that goes on
   from there has no gap. An event that comes twice does no harm.

    Empty -> Gathering -> Listed <-> Watching
      ^----------+----------+----------+  (the version is forgotten)
"""

from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar, assert_never

from trimtab.api.wire import watch_events
from trimtab.api.wire.lists import Listing, Unreadable
from trimtab.api.wire.watch_events import ObjectEvent, ObjectName, StoredObject

RecordT = TypeVar("RecordT")


@dataclass(frozen=True, slots=True)
class Empty:
    """No version is known to go on from; the first page of a list is next."""


@dataclass(frozen=True, slots=True)
class Gathering(Generic[RecordT]):
    """Some pages of a list have come, and there are more."""

    pages: tuple[Listing[StoredObject[RecordT]], ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """Everything up to a version has been taken in, and no watch is open."""

    version: str


@dataclass(frozen=True, slots=True)
class Watching:
    """Everything up to a version has been taken in, and a watch brings what comes after it."""

    version: str


State: TypeAlias = Empty | Gathering[RecordT] | Listed | Watching


@dataclass(frozen=True, slots=True)
class Replace(Generic[RecordT]):
    """Hold exactly these objects; all others are gone."""

    entries: tuple[StoredObject[RecordT], ...]
    unreadable: tuple[Unreadable, ...]


@dataclass(frozen=True, slots=True)
class Put(Generic[RecordT]):
    """Hold this new state of one object."""

    entry: StoredObject[RecordT]


@dataclass(frozen=True, slots=True)
class Spoil:
    """Note that one object can no longer be read."""

    unreadable: Unreadable


@dataclass(frozen=True, slots=True)
class Drop:
    """Remove one object."""

    name: ObjectName


@dataclass(frozen=True, slots=True)
class Confirm:
    """Note that the view is current, without a change."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Change nothing."""


Change: TypeAlias = Replace[RecordT] | Put[RecordT] | Spoil | Drop | Confirm | Keep

EMPTY: Final = Empty()
_KEEP: Final = Keep()


def continue_token(state: Empty | Gathering[RecordT]) -> str:
    """Return the token for the next page of the list; empty for the first page of a new one."""
    return state.pages[-1].continue_token if isinstance(state, Gathering) else ""


def take_page(
    state: Empty | Gathering[RecordT], page: Listing[StoredObject[RecordT]]
) -> tuple[State[RecordT], Change[RecordT]]:
    """Take in a page of the list."""
    pages = (*state.pages, page) if isinstance(state, Gathering) else (page,)
    # Nothing is written yet: the store goes on showing the list before.
    if page.continue_token:
        return Gathering(pages), _KEEP
    entries = tuple(entry for each in pages for entry in each.items)
    unreadable = tuple(each for listing in pages for each in listing.unreadable)
    # All pages show the version of the first one; should they ever differ, the oldest has no gap.
    return Listed(pages[0].resource_version), Replace(entries, unreadable)


def take_event(state: Watching, event: ObjectEvent[RecordT]) -> tuple[Watching, Change[RecordT]]:
    """Take in an event of the watch."""
    match event:
        case watch_events.Applied(entry, version):
            return _at(version, state), Put(entry)
        case watch_events.Spoiled(unreadable, version):
            return _at(version, state), Spoil(unreadable)
        case watch_events.Removed(name, version):
            return _at(version, state), Drop(name)
        case watch_events.Bookmark(version):
            return _at(version, state), Confirm()
        case _:
            assert_never(event)


def open_watch(state: Listed | Watching) -> Watching:
    """Begin a watch, after the server was asked for events."""
    return Watching(state.version)


def expire() -> Empty:
    """Start from an empty state, after a version was forgotten or an answer made no sense."""
    return EMPTY


def interrupt(state: State[RecordT]) -> State[RecordT]:
    """Return the state after an answer has ended or failed to come: what was taken in stays."""
    # A list that was begun stays too: its token is good for minutes, and pages are dear.
    return Listed(state.version) if isinstance(state, Watching) else state


def _at(version: str, state: Watching) -> Watching:
    # An event whose object cannot be decoded may lack a version; then the one before still holds,
    # and the worst case is an event that comes twice.
    return Watching(version or state.version)
