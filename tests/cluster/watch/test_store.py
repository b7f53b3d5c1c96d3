import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fakes.clocks import StillClock
from support.makers.records import minutes

from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.lists import Unreadable
from trimtab.api.wire.watch_events import ObjectName, StoredObject
from trimtab.cluster.ports import Store
from trimtab.cluster.watch import store as stores
from trimtab.cluster.watch.store import Reader, Writer, open_store
from trimtab.core.model.resources import Resource

BAD = Unreadable("default", "a", DecodeError("value", "bad"))


def a_thing(name: str, value: int = 1, namespace: str = "default") -> StoredObject[int]:
    return StoredObject(ObjectName(namespace, name), value)


def a_store(*things: StoredObject[int]) -> tuple[Writer[int], Reader[int], StillClock]:
    clock = StillClock()
    writer: Writer[int]
    writer, reader = open_store(clock)
    if things:
        writer.replace(things)
    return writer, reader, clock


async def drain(changes: AsyncIterator[int]) -> list[int]:
    """Everything that waits."""
    found = []
    while True:
        try:
            async with asyncio.timeout(0):
                found.append(await anext(changes))
        except TimeoutError:
            return found


def list_store(store: Store[int]) -> list[int]:
    return list(store)


def test_a_reader_is_what_components_call_a_store() -> None:
    _, reader, _ = a_store(a_thing("a", 1))

    assert list_store(reader) == [1]


def test_objects_are_found_by_namespace_and_name() -> None:
    _, reader, _ = a_store(a_thing("b", 2), a_thing("a", 1), a_thing("a", 3, namespace="other"))

    assert sorted(reader) == [1, 2, 3]
    assert len(reader) == 3
    assert reader.find("default", "a") == 1
    assert reader.find("other", "a") == 3
    assert reader.find("other", "b") is None
    assert reader.find("nowhere", "a") is None
    assert reader.in_namespace("default") == (1, 2)
    assert reader.in_namespace("nowhere") == ()


def test_who_reads_on_while_it_changes_reads_what_was_there() -> None:
    writer, reader, _ = a_store(a_thing("a", 1), a_thing("b", 2))
    reading = iter(reader)
    next(reading)

    writer.replace([])

    assert list(reading) == [2]
    assert list(reader) == []


def test_a_view_has_no_age_before_the_first_list() -> None:
    writer, reader, clock = a_store()
    clock.moment += minutes(1)
    assert reader.age() is None

    writer.replace([])
    clock.moment += minutes(2)

    assert reader.age() == minutes(2)


@pytest.mark.parametrize("sign", ["put", "drop", "spoil", "confirm"])
def test_any_sign_of_life_makes_the_view_current(sign: str) -> None:
    writer, reader, clock = a_store(a_thing("a"))
    clock.moment += minutes(5)
    match sign:
        case "put":
            writer.put(a_thing("a"))
        case "drop":
            writer.drop(ObjectName("default", "a"))
        case "spoil":
            writer.spoil(BAD)
        case _:
            writer.confirm()

    assert reader.age() == timedelta()


def test_a_clock_that_was_set_back_makes_no_view_younger_than_current() -> None:
    _, reader, clock = a_store(a_thing("a"))
    clock.moment -= minutes(5)

    assert reader.age() == timedelta()


def test_f28_an_unreadable_object_is_counted_apart_from_those_that_are_known() -> None:
    writer, reader, _ = a_store(a_thing("a"), a_thing("b"))

    writer.spoil(BAD)

    assert reader.unreadable == (BAD,)
    assert reader.find("default", "a") is None
    assert reader.find("default", "b") == 1


@pytest.mark.parametrize("mending", ["put", "drop", "replace"])
def test_an_unreadable_object_is_forgotten_when_it_is_mended_or_gone(mending: str) -> None:
    writer, reader, _ = a_store()
    writer.replace([], [BAD])

    match mending:
        case "put":
            writer.put(a_thing("a"))
        case "drop":
            writer.drop(ObjectName("default", "a"))
        case _:
            writer.replace([])

    assert not reader.unreadable


def test_dropping_what_is_not_there_changes_nothing() -> None:
    writer, reader, _ = a_store(a_thing("a"))

    writer.drop(ObjectName("default", "b"))
    writer.drop(ObjectName("nowhere", "a"))

    assert list(reader) == [1]


async def test_waiting_for_the_first_list_ends_with_it() -> None:
    writer, reader, _ = a_store()
    waiting = asyncio.create_task(reader.synced())
    await asyncio.sleep(0)
    assert not waiting.done()

    writer.replace([])
    await waiting

    assert reader.age() == timedelta()


async def test_changes_begin_when_they_are_asked_for() -> None:
    writer, reader, _ = a_store(a_thing("a", 1))
    changes = reader.changes()

    writer.put(a_thing("b", 2))
    writer.put(a_thing("a", 3))

    assert await drain(changes) == [2, 3]


async def test_whoever_waits_for_a_change_is_woken_by_it() -> None:
    writer, reader, _ = a_store()
    waiting = asyncio.ensure_future(anext(reader.changes()))
    await asyncio.sleep(0)

    writer.put(a_thing("a", 7))

    assert await waiting == 7


async def test_an_object_that_changes_twice_comes_once_as_it_is_now() -> None:
    writer, reader, _ = a_store()
    changes = reader.changes()

    writer.put(a_thing("a", 1))
    writer.put(a_thing("b", 2))
    writer.put(a_thing("a", 3))

    assert await drain(changes) == [3, 2]


async def test_an_object_that_goes_before_it_was_told_is_told_all_the_same() -> None:
    writer, reader, _ = a_store()
    changes = reader.changes()

    writer.put(a_thing("a", 1))
    writer.drop(ObjectName("default", "a"))

    assert await drain(changes) == [1]


async def test_a_new_list_tells_only_what_is_different() -> None:
    writer, reader, _ = a_store(a_thing("a", 1), a_thing("b", 2), a_thing("c", 3))
    changes = reader.changes()

    writer.replace([a_thing("a", 1), a_thing("b", 5), a_thing("d", 6)])
    writer.put(a_thing("a", 1))

    assert await drain(changes) == [5, 6]


async def test_each_reader_is_told_everything() -> None:
    writer, reader, _ = a_store()
    one, other = reader.changes(), reader.changes()

    writer.put(a_thing("a", 1))

    assert await drain(one) == [1]
    assert await drain(other) == [1]


async def test_those_who_wait_are_woken_in_the_order_in_which_they_came() -> None:
    writer, reader, _ = a_store()
    woken: list[int] = []

    async def wait(number: int) -> None:
        await anext(reader.changes())
        woken.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(50):
            group.create_task(wait(number))
        await asyncio.sleep(0)
        writer.put(a_thing("a", 1))

    assert woken == list(range(50))


async def test_changes_that_nobody_holds_any_more_are_not_kept() -> None:
    writer, reader, _ = a_store()
    changes = reader.changes()
    assert len(writer._contents.readers) == 1

    del changes
    gc.collect()

    assert len(writer._contents.readers) == 0


async def test_of_too_many_changes_the_oldest_are_forgotten_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stores, "CHANGES_KEPT", 2)
    writer, reader, _ = a_store()
    changes = reader.changes()

    for number in range(5):
        writer.put(a_thing(str(number), number))

    assert await drain(changes) == [3, 4]
    assert changes.forgotten == 3


THINGS = st.dictionaries(
    st.tuples(st.sampled_from("xy"), st.sampled_from("abc")), st.integers(0, 2)
)


@given(lists=st.lists(THINGS, max_size=6))
async def test_who_follows_the_changes_knows_every_object_as_the_store_does(
    lists: list[dict[tuple[str, str], int]],
) -> None:
    writer: Writer[tuple[str, str, int]]
    writer, reader = open_store(StillClock())
    changes = reader.changes()
    known: dict[tuple[str, str], int] = {}
    for things in lists:
        writer.replace(
            [StoredObject(ObjectName(*name), (*name, value)) for name, value in things.items()]
        )
        while changes._waiting:
            namespace, name, value = await anext(changes)
            known[namespace, name] = value

        assert {name: known[name] for name in things} == things
        assert len(reader) == len(things)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abc"), st.integers(0, 2)),
        st.tuples(st.just("drop"), st.sampled_from("abc"), st.just(0)),
        st.tuples(st.just("list"), st.sampled_from("abc"), st.integers(0, 2)),
    ),
    max_size=12,
)


@given(steps=STEPS)
def test_an_index_holds_under_each_key_what_the_store_holds(
    steps: list[tuple[str, str, int]],
) -> None:
    writer, reader, _ = a_store(a_thing("a", 0))
    early = reader.index(lambda thing: thing % 2)
    for act, name, value in steps:
        if act == "put":
            writer.put(a_thing(name, value))
        elif act == "drop":
            writer.drop(ObjectName("default", name))
        else:
            writer.replace([a_thing(name, value), a_thing("z", 1)])
    late = reader.index(lambda thing: thing % 2)

    for key in (0, 1):
        held = sorted(thing for thing in reader if thing % 2 == key)
        assert sorted(early.under(key)) == sorted(late.under(key)) == held


def test_totals_are_kept_by_key_and_leave_out_what_does_not_count() -> None:
    writer, reader, _ = a_store(a_thing("a", 1), a_thing("b", 3))
    totals = reader.totals(
        lambda value: "odd" if value % 2 else None, lambda value: {Resource.CPU: value}
    )
    before = totals.by_key()
    writer.put(a_thing("c", 5))
    writer.put(a_thing("a", 2))
    after = totals.by_key()
    writer.drop(ObjectName("default", "b"))
    writer.drop(ObjectName("default", "c"))

    assert before == {"odd": {Resource.CPU: 4}}
    assert after == {"odd": {Resource.CPU: 8}}
    assert totals.by_key() == {}


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.none() | st.integers(0, 9)), max_size=30))
def test_totals_are_the_sums_of_what_the_store_holds(acts: list[tuple[str, int | None]]) -> None:
    writer, reader, _ = a_store(a_thing("a", 4), a_thing("z", 7))
    totals = reader.totals(
        lambda value: str(value % 3) if value % 3 else None, lambda value: {Resource.CPU: value}
    )
    for name, value in acts:
        if value is None:
            writer.drop(ObjectName("default", name))
        else:
            writer.put(a_thing(name, value))
    counted = [value for value in reader if value % 3]
    expected = {
        str(key): {Resource.CPU: sum(value for value in counted if value % 3 == key)}
        for key in {value % 3 for value in counted}
    }

    assert totals.by_key() == expected
    assert totals.counts() == Counter(str(value % 3) for value in counted)
    writer.replace([a_thing("a", 5)])
    assert totals.by_key() == {"2": {Resource.CPU: 5}}
