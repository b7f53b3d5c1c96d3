import asyncio

from support.fakes.clocks import StillClock
from support.makers.records import NOW

from trimtab.api.kinds.evictions import MemoryEviction
from trimtab.api.wire.watch_events import ObjectName, StoredObject
from trimtab.cluster.live.cluster import MemoryEvictions
from trimtab.cluster.watch.store import Reader, Writer, open_store

Told = tuple[MemoryEviction, ...]


def an_eviction(pod: str, container: str = "app") -> MemoryEviction:
    return MemoryEviction("default", pod, container, 1 << 30, NOW)


def an_event(name: str, *told: MemoryEviction) -> StoredObject[Told]:
    return StoredObject(ObjectName("default", name), told)


def a_store(*events: StoredObject[Told]) -> tuple[Writer[Told], Reader[Told]]:
    writer: Writer[Told]
    writer, reader = open_store(StillClock())
    writer.replace(events)
    return writer, reader


async def drain(evictions: MemoryEvictions) -> list[str]:
    """The containers of everything that waits."""
    found: list[str] = []
    while True:
        try:
            async with asyncio.timeout(0):
                eviction = await anext(evictions)
        except TimeoutError:
            return found
        found.append(f"{eviction.pod}/{eviction.container}")


async def test_what_is_known_comes_first_and_then_what_happens() -> None:
    writer, reader = a_store(an_event("1", an_eviction("a", "app"), an_eviction("a", "log")))
    evictions = MemoryEvictions(reader)
    writer.put(an_event("2", an_eviction("b")))

    assert await drain(evictions) == ["a/app", "a/log", "b/app"]


async def test_an_eviction_is_told_once_however_often_its_event_is_seen() -> None:
    known, fresh = an_event("1", an_eviction("a")), an_event("2", an_eviction("b"))
    writer, reader = a_store(known)
    evictions = MemoryEvictions(reader)
    writer.put(known)
    writer.replace([known, fresh])
    writer.put(fresh)
    writer.replace([fresh])

    assert await drain(evictions) == ["a/app", "b/app"]


async def test_events_that_blame_nobody_for_memory_tell_nothing() -> None:
    writer, reader = a_store(an_event("1"))
    evictions = MemoryEvictions(reader)
    writer.put(an_event("2"))
    writer.put(an_event("3", an_eviction("c")))

    assert await drain(evictions) == ["c/app"]


async def test_whoever_asks_before_the_first_list_misses_nothing_of_it() -> None:
    writer: Writer[Told]
    writer, reader = open_store(StillClock())
    evictions = MemoryEvictions(reader)
    writer.replace([an_event("1", an_eviction("a"))])

    assert await drain(evictions) == ["a/app"]
