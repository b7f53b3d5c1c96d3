import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from random import Random

from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.lists import Unreadable
from trimtab.simulation.api_server import requests
from trimtab.simulation.api_server.connection import (
    ConnectionTrouble,
    Disturbance,
    SimulatedConnection,
)
from trimtab.simulation.api_server.requests import PODS, Act
from trimtab.simulation.api_server.views import BOOKMARK_INTERVAL, View
from trimtab.simulation.world.tables import Table, Versions
from trimtab.simulation.world.virtual_time import VirtualClock, run_virtually

BROKEN = Disturbance(is_cut=True)
SILENT = Disturbance(is_silent=True)


@dataclass(frozen=True)
class Thing:
    name: str
    value: int = 0
    namespace: str = "default"


class Scene:
    """A table, somebody's view of it, and the line between the two."""

    def __init__(self, *things: Thing, usual: Disturbance | None = None) -> None:
        versions = Versions()
        self.table: Table[Thing] = Table(versions)
        for thing in things:
            self.table.put(thing)
        self.line = SimulatedConnection("toy", Random(1))
        if usual is not None:
            self.line.usual = usual
        self.view = View(self.table, self.line, PODS, clock=VirtualClock(), versions=versions)
        self.reader = self.view.reader

    def seen(self) -> dict[str, int]:
        return {thing.name: thing.value for thing in self.reader}

    async def pass_time(self, **span: float) -> None:
        await asyncio.sleep(timedelta(**span).total_seconds())


def play(act: Callable[[Scene], Coroutine[object, object, None]], *things: Thing) -> None:
    async def run() -> None:
        await act(Scene(*things))

    run_virtually(run())


def test_a_view_is_empty_and_has_no_age_until_it_was_listed() -> None:
    async def act(scene: Scene) -> None:
        assert scene.seen() == {}
        assert scene.reader.age() is None

        await scene.reader.synced()

        assert scene.seen() == {"a": 1}
        assert scene.reader.age() == timedelta()

    play(act, Thing("a", 1))


def test_changes_show_after_the_lag_and_not_before() -> None:
    async def act(scene: Scene) -> None:
        scene.line.disturbances.append(Disturbance(watch_lag=timedelta(seconds=10)))
        await scene.reader.synced()
        scene.table.put(Thing("a", 2))
        scene.table.put(Thing("b", 1))
        scene.table.delete("default", "c")

        await scene.pass_time(seconds=9)
        assert scene.seen() == {"a": 1, "c": 1}

        await scene.pass_time(seconds=2)
        assert scene.seen() == {"a": 2, "b": 1}

    play(act, Thing("a", 1), Thing("c", 1))


def test_a_lag_outlasts_the_signs_of_life_of_a_watch() -> None:
    async def act(scene: Scene) -> None:
        scene.line.disturbances.append(Disturbance(watch_lag=timedelta(minutes=2)))
        await scene.reader.synced()
        await scene.pass_time(seconds=59)
        scene.table.put(Thing("a", 2))

        await scene.pass_time(seconds=119)
        assert scene.seen() == {"a": 1}

        await scene.pass_time(seconds=2)
        assert scene.seen() == {"a": 2}

    play(act, Thing("a", 1))


def test_a_watch_keeps_the_order_of_changes_when_it_gets_faster() -> None:
    async def act(scene: Scene) -> None:
        slow = Disturbance(watch_lag=timedelta(seconds=10))
        scene.line.disturbances.append(slow)
        await scene.reader.synced()
        scene.table.put(Thing("a", 2))
        scene.line.disturbances.remove(slow)
        scene.table.put(Thing("b", 1))

        await scene.pass_time(seconds=5)
        assert scene.seen() == {"a": 1}

        await scene.pass_time(seconds=6)
        assert scene.seen() == {"a": 2, "b": 1}

    play(act, Thing("a", 1))


def test_a_quiet_watch_is_never_older_than_its_signs_of_life() -> None:
    async def act(scene: Scene) -> None:
        await scene.reader.synced()
        await scene.pass_time(hours=1, seconds=30)

        age = scene.reader.age()

        assert age is not None
        assert age <= BOOKMARK_INTERVAL

    play(act, Thing("a", 1))


def test_a_lost_watch_goes_on_from_where_it_was() -> None:
    async def act(scene: Scene) -> None:
        await scene.reader.synced()
        told = scene.reader.changes()
        scene.line.disturbances.append(BROKEN)
        scene.table.put(Thing("b", 1))
        scene.table.delete("default", "a")
        await scene.pass_time(minutes=30)
        assert scene.seen() == {"a": 1}
        assert scene.reader.age() == timedelta(minutes=30)
        assert scene.view.problem is not None

        scene.line.disturbances.remove(BROKEN)
        await scene.pass_time(seconds=2)

        assert scene.seen() == {"b": 1}
        assert scene.view.problem is None
        assert await anext(told) == Thing("b", 1)

    play(act, Thing("a", 1))


def test_a_watch_whose_history_is_forgotten_lists_anew_without_a_flash_of_emptiness() -> None:
    async def act(scene: Scene) -> None:
        await scene.reader.synced()
        told = scene.reader.changes()
        scene.line.disturbances.append(BROKEN)
        scene.table.put(Thing("b", 2))
        scene.table.delete("default", "c")
        await scene.pass_time(minutes=1)
        scene.table.compact()
        scene.line.disturbances.remove(BROKEN)
        counts = {len(scene.reader)}
        for _ in range(100):
            await scene.pass_time(seconds=0.05)
            counts.add(len(scene.reader))

        assert scene.seen() == {"a": 1, "b": 2}
        assert counts == {3, 2}
        assert await anext(told) == Thing("b", 2)
        assert not told._waiting

    play(act, Thing("a", 1), Thing("b", 1), Thing("c", 1))


def test_silence_makes_a_view_old_but_breaks_nothing() -> None:
    async def act(scene: Scene) -> None:
        await scene.reader.synced()
        scene.line.disturbances.append(SILENT)
        scene.table.put(Thing("a", 2))
        await scene.pass_time(minutes=5)
        assert scene.seen() == {"a": 1}
        assert scene.reader.age() == timedelta(minutes=5)
        assert scene.view.problem is None

        scene.line.disturbances.remove(SILENT)
        await scene.pass_time(seconds=2)

        assert scene.seen() == {"a": 2}

    play(act, Thing("a", 1))


def test_a_busy_server_turns_new_watches_away_and_lets_old_ones_be() -> None:
    async def act(scene: Scene) -> None:
        await scene.reader.synced()
        views = frozenset({Act.LIST, Act.WATCH})
        busy = Disturbance(trouble=ConnectionTrouble(1.0, requests.too_many_requests, views))
        scene.line.disturbances.append(busy)
        scene.table.put(Thing("a", 2))
        await scene.pass_time(seconds=5)
        assert scene.seen() == {"a": 2}

        scene.line.breaks += 1
        scene.table.put(Thing("a", 3))
        await scene.pass_time(minutes=5)
        assert scene.seen() == {"a": 2}
        assert scene.view.problem is not None

        scene.line.disturbances.remove(busy)
        await scene.pass_time(seconds=2)
        assert scene.seen() == {"a": 3}

    play(act, Thing("a", 1))


def test_an_object_that_cannot_be_read_is_told_apart_from_one_that_is_gone() -> None:
    async def act(scene: Scene) -> None:
        await scene.reader.synced()
        bad = Unreadable("default", "a", DecodeError("value", "bad"))
        scene.table.spoil(bad)
        await scene.pass_time(seconds=1)
        assert scene.seen() == {}
        assert list(scene.reader.unreadable) == [bad]

        scene.table.put(Thing("a", 2))
        await scene.pass_time(seconds=1)
        assert scene.seen() == {"a": 2}
        assert list(scene.reader.unreadable) == []

    play(act, Thing("a", 1))


def test_the_view_of_a_dead_copy_never_changes_again() -> None:
    async def act(scene: Scene) -> None:
        await scene.reader.synced()
        scene.line.is_dead = True
        scene.table.put(Thing("a", 2))
        await scene.pass_time(hours=1)

        assert scene.seen() == {"a": 1}
        assert scene.table._listeners == []

    play(act, Thing("a", 1))


def test_without_latency_a_view_shows_every_change_as_it_happens() -> None:
    async def act() -> None:
        scene = Scene(Thing("a", 1), usual=Disturbance())
        listed = scene.seen()
        scene.table.put(Thing("a", 2))

        assert (listed, scene.seen()) == ({"a": 1}, {"a": 2})

    run_virtually(act())


def test_a_stalled_watch_gets_old_while_requests_work_and_shows_all_at_its_end() -> None:
    async def act(scene: Scene) -> None:
        await scene.reader.synced()
        scene.line.disturbances.append(Disturbance(stalled=frozenset({PODS.resource})))
        scene.table.put(Thing("a", 2))
        await scene.line.send(requests.Request(Act.LIST, PODS.right("list")))
        await scene.pass_time(minutes=5)
        stale, age = scene.seen(), scene.reader.age()
        scene.line.disturbances.clear()
        await scene.pass_time(seconds=2)

        assert stale == {"a": 1}
        assert age is not None
        assert age > timedelta(minutes=4)
        assert scene.seen() == {"a": 2}

    play(act, Thing("a", 1))


def test_a_stalled_watch_holds_up_no_other_kind() -> None:
    async def act(scene: Scene) -> None:
        await scene.reader.synced()
        scene.line.disturbances.append(Disturbance(stalled=frozenset({"leases"})))
        scene.table.put(Thing("a", 2))
        await scene.pass_time(seconds=1)

        assert scene.seen() == {"a": 2}

    play(act, Thing("a", 1))
