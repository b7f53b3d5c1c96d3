import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fakes.watch_history import History, decode_thing

from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.lists import Listing, Unreadable, decode_list
from trimtab.api.wire.watch_events import (
    Applied,
    Bookmark,
    ObjectEvent,
    ObjectName,
    Removed,
    Spoiled,
    StoredObject,
    WatchRefused,
    decode_entry,
    decode_event,
)
from trimtab.cluster.errors import GoneError
from trimtab.cluster.watch import state_machine
from trimtab.cluster.watch.state_machine import (
    EMPTY,
    Change,
    Confirm,
    Drop,
    Empty,
    Gathering,
    Keep,
    Listed,
    Put,
    Replace,
    Spoil,
    State,
    Watching,
)

A, B = StoredObject(ObjectName("default", "a"), 1), StoredObject(ObjectName("default", "b"), 2)
BAD = Unreadable("default", "c", DecodeError("value", "bad"))


def a_page(
    *entries: StoredObject[int], version: str = "5", token: str = ""
) -> Listing[StoredObject[int]]:
    return Listing(entries, (), version, token)


def test_a_list_of_one_page_replaces_everything_at_once() -> None:
    page = Listing((A, B), (BAD,), "5", "")

    assert state_machine.take_page(EMPTY, page) == (Listed("5"), Replace((A, B), (BAD,)))


def test_pages_are_gathered_and_change_nothing_before_the_last() -> None:
    first, last = a_page(A, token="more"), a_page(B)

    state, change = state_machine.take_page(EMPTY, first)
    assert isinstance(state, Gathering)
    assert change == Keep()
    assert state_machine.continue_token(state) == "more"
    assert state_machine.take_page(state, last) == (Listed("5"), Replace((A, B), ()))


def test_a_new_list_begins_without_a_token() -> None:
    assert state_machine.continue_token(EMPTY) == ""


def test_a_watch_goes_on_from_the_oldest_version_that_any_page_shows() -> None:
    state, _ = state_machine.take_page(EMPTY, a_page(A, version="5", token="more"))
    assert isinstance(state, Gathering)

    assert state_machine.take_page(state, a_page(B, version="9"))[0] == Listed("5")


@pytest.mark.parametrize(
    ("event", "state", "change"),
    [
        pytest.param(Applied(A, "8"), Watching("8"), Put(A), id="an object changes"),
        pytest.param(Removed(A.name, "8"), Watching("8"), Drop(A.name), id="an object goes"),
        pytest.param(Spoiled(BAD, "8"), Watching("8"), Spoil(BAD), id="one becomes unreadable"),
        pytest.param(Bookmark("8"), Watching("8"), Confirm(), id="nothing changes"),
        pytest.param(Bookmark(""), Watching("5"), Confirm(), id="no version says nothing new"),
    ],
)
def test_each_event_moves_the_version_and_changes_one_object(
    event: ObjectEvent[int], state: Watching, change: Change[int]
) -> None:
    assert state_machine.take_event(Watching("5"), event) == (state, change)


@pytest.mark.parametrize(
    ("state", "after"),
    [
        pytest.param(Watching("5"), Listed("5"), id="a watch goes on from where it was"),
        pytest.param(Listed("5"), Listed("5"), id="a watch that never began begins again"),
        pytest.param(EMPTY, EMPTY, id="a list that never began begins again"),
        pytest.param(Gathering(()), Gathering(()), id="a list goes on with the same page"),
    ],
)
def test_an_interruption_loses_nothing_that_was_told(state: State[int], after: State[int]) -> None:
    assert state_machine.interrupt(state) == after


def test_a_watch_opens_at_the_version_that_is_known() -> None:
    assert state_machine.open_watch(Listed("5")) == Watching("5")
    assert state_machine.expire() == Empty()


class Machine:
    """Runs the state machine over a model of a server, and checks what its readers would see."""

    def __init__(self, history: History, limit: int) -> None:
        self.history = history
        self.limit = limit
        self.state: State[int] = EMPTY
        self.view: dict[str, int] | None = None
        self.unreadable: set[str] = set()

    def turn(self, max_events: int) -> None:
        """One request, of whose answer a part may be lost."""
        try:
            self._ask(max_events)
        except GoneError:
            self.state = state_machine.expire()
        self.state = state_machine.interrupt(self.state)

    def _ask(self, max_events: int) -> None:
        match self.state:
            case Empty() | Gathering() as state:
                token = state_machine.continue_token(state)
                data = json.dumps(self.history.list_page(self.limit, token)).encode()
                page = decode_list(data, lambda item: decode_entry(item, decode_thing))
                self.state, change = state_machine.take_page(state, page)
                self._see(change)
            case Listed() | Watching() as state:
                told = state_machine.open_watch(state)
                for line in self.history.events_after(told.version)[:max_events]:
                    event = decode_event(json.dumps(line).encode(), decode_thing)
                    assert not isinstance(event, WatchRefused)
                    told, change = state_machine.take_event(told, event)
                    self.state = told
                    self._see(change)

    def _see(self, change: Change[int]) -> None:
        match change:
            case Replace(entries, unreadable):
                self.view = {entry.name.name: entry.record for entry in entries}
                self.unreadable = {each.name for each in unreadable}
            case Put(entry):
                assert self.view is not None
                self.view[entry.name.name] = entry.record
                self.unreadable.discard(entry.name.name)
            case Drop(name):
                self._forget(name.name)
            case Spoil(unreadable_one):
                self._forget(unreadable_one.name)
                self.unreadable.add(unreadable_one.name)
            case Confirm() | Keep():
                pass

    def _forget(self, name: str) -> None:
        assert self.view is not None
        self.view.pop(name, None)
        self.unreadable.discard(name)


NAMES = st.sampled_from("abcdef")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), NAMES, st.integers(-1, 3)),
        st.tuples(st.just("delete"), NAMES, st.just(0)),
        st.tuples(st.just("compact"), st.just(""), st.just(0)),
        st.tuples(st.just("turn"), st.just(""), st.integers(0, 4)),
    ),
    max_size=60,
)


@given(
    things=st.dictionaries(NAMES, st.integers(0, 3)),
    steps=STEPS,
    limit=st.integers(1, 4),
)
def test_after_any_disturbances_the_view_is_the_truth_and_was_never_emptied(
    things: dict[str, int], steps: list[tuple[str, str, int]], limit: int
) -> None:
    history = History(things)
    machine = Machine(history, limit)
    touched: set[str] = set()
    for what, name, number in steps:
        match what:
            case "put":
                history.put(name, number)
                touched.add(name)
            case "delete":
                history.delete(name)
                touched.add(name)
            case "compact":
                history.compact()
            case _:
                machine.turn(number)
        untouched = things.keys() - touched

        assert machine.view is None or untouched <= machine.view.keys()
    for _ in range(12):
        machine.turn(1_000)

    readable = {name: value for name, value in history.things.items() if value >= 0}
    assert machine.view == readable
    assert machine.unreadable == history.things.keys() - readable.keys()
