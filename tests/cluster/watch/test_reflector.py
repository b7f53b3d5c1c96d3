import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fakes.clocks import LoopClock, run_virtually
from support.fakes.silent_server import SilentServer
from support.fakes.watch_history import BAD, History, decode_thing, gone

from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.status_errors import Status
from trimtab.cluster.errors import (
    ApiError,
    ForbiddenError,
    GoneError,
    TooLargeError,
    TooManyRequestsError,
    UnreachableError,
)
from trimtab.cluster.watch import reflector
from trimtab.cluster.watch.reflector import Feed, WatchedKind
from trimtab.cluster.watch.store import Reader, Writer, open_store

UNREACHABLE = UnreachableError("GET /things", "no route")
FORBIDDEN = ForbiddenError("GET /things", Status(code=403, message="forbidden"))
WATCH_SECONDS = 60
"""How long the model of a server lets a watch last."""
CUT_SECONDS = 10
"""How long one lasts that is cut and has too little to tell."""


@dataclass(frozen=True)
class Cut:
    """An answer that ends early: so many lines, then perhaps one more, then perhaps an error."""

    lines: int = 0
    last_line: bytes = b""
    error: ApiError | None = None


class Server(SilentServer):
    """A model of a server, whose first answers are disturbed as they are told to be."""

    def __init__(
        self, history: History, disturbances: Iterable[Cut] = (), *, has_bookmarks: bool = True
    ) -> None:
        self.history = history
        self.has_bookmarks = has_bookmarks
        self.disturbances = list(disturbances)
        self.asked: list[tuple[float, Mapping[str, str]]] = []

    async def fetch(self, path: str, parameters: Mapping[str, str] | None = None) -> bytes:
        assert parameters is not None
        cut = self._take_request(path, parameters)
        await asyncio.sleep(0.01)
        if cut and cut.error:
            raise cut.error
        if cut and cut.last_line:
            return cut.last_line
        page = self.history.list_page(int(parameters["limit"]), parameters.get("continue", ""))
        return json.dumps(page).encode()

    async def stream(self, path: str, parameters: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        cut = self._take_request(path, parameters)
        if cut and cut.error and not cut.lines:
            raise cut.error
        return self._tell(cut, parameters)

    async def _tell(
        self, cut: Cut | None, parameters: Mapping[str, str]
    ) -> AsyncGenerator[bytes, None]:
        version = parameters["resourceVersion"]
        lasts = WATCH_SECONDS if self.has_bookmarks else int(parameters["timeoutSeconds"])
        ends_at = _seconds() + (CUT_SECONDS if cut else lasts)
        left = cut.lines if cut else 1_000_000
        while left and _seconds() < ends_at:
            await asyncio.sleep(1)
            for event in self.history.events_after(version)[:left]:
                version = event["object"]["metadata"]["resourceVersion"]
                left -= 1
                yield json.dumps(event).encode()
        if cut is None and self.has_bookmarks:
            yield json.dumps(self.history.bookmark()).encode()
        if cut and cut.last_line:
            yield cut.last_line
        if cut and cut.error:
            raise cut.error

    def _take_request(self, path: str, parameters: Mapping[str, str]) -> Cut | None:
        assert path == "/things"
        self.asked.append((_seconds(), parameters))
        return self.disturbances.pop(0) if self.disturbances else None

    @property
    def lists(self) -> int:
        return sum("limit" in parameters for _, parameters in self.asked)


def _seconds() -> float:
    return asyncio.get_running_loop().time()


class Fed:
    """A store that is fed from a model of a server, for as long as a block lasts."""

    def __init__(self, server: Server, parameters: Mapping[str, str] | None = None) -> None:
        clock = LoopClock()
        self.writer: Writer[int]
        self.reader: Reader[int]
        self.writer, self.reader = open_store(clock)
        kind = WatchedKind("/things", decode_thing, parameters or {}, server.has_bookmarks)
        self.feed = Feed(server, kind, self.writer, clock=clock, random=Random(1))

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self.feed.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert not self._running.done()
        self._running.cancel()

    @property
    def view(self) -> dict[str, int]:
        things = self.writer._contents.by_namespace.get("default", {})
        return dict(things)


def test_a_store_is_filled_page_by_page_and_then_follows_the_watch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reflector, "PAGE_SIZE", 2)
    history = History({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5})
    server = Server(history)

    async def scenario() -> None:
        async with Fed(server) as fed:
            await fed.reader.synced()
            assert fed.view == history.things
            history.put("a", 9)
            history.delete("b")
            await asyncio.sleep(5)

            assert fed.view == {"a": 9, "c": 3, "d": 4, "e": 5}
            assert fed.feed.problem is None

    run_virtually(scenario())
    assert server.lists == 3


def test_a_watch_asks_for_bookmarks_and_a_bounded_time_and_keeps_the_selectors() -> None:
    server = Server(History())

    async def scenario() -> None:
        async with Fed(server, {"fieldSelector": "status.phase!=Pending"}) as fed:
            await fed.reader.synced()
            await asyncio.sleep(1)

    run_virtually(scenario())
    (_, listed), (_, watched) = server.asked
    assert listed == {"fieldSelector": "status.phase!=Pending", "limit": "500"}
    assert watched["fieldSelector"] == "status.phase!=Pending"
    assert (watched["watch"], watched["allowWatchBookmarks"]) == ("true", "true")
    assert watched["resourceVersion"] == "1"
    assert 1800 <= int(watched["timeoutSeconds"]) <= 3600


def test_a_watch_that_the_server_ends_goes_on_at_once_from_where_it_was() -> None:
    history = History({"a": 1})
    server = Server(history)

    async def scenario() -> None:
        async with Fed(server) as fed:
            await asyncio.sleep(30)
            history.put("a", 2)
            await asyncio.sleep(40)
            history.put("a", 3)
            await asyncio.sleep(5)

            assert fed.view == {"a": 3}

    run_virtually(scenario())
    _, (began, first), (resumed, second) = server.asked
    assert server.lists == 1
    assert (first["resourceVersion"], second["resourceVersion"]) == ("1", "2")
    assert resumed == pytest.approx(began + WATCH_SECONDS)


def test_bookmarks_keep_a_quiet_view_young_and_working_after_history_expired() -> None:
    history = History({"a": 1})
    server = Server(history)

    async def scenario() -> None:
        async with Fed(server) as fed:
            await asyncio.sleep(30)
            # Something else in the cluster changes, which this watch does not tell.
            history.version += 10
            await asyncio.sleep(31)
            history.compact()
            await asyncio.sleep(600)

            age = fed.reader.age()
            assert age is not None
            assert age <= timedelta(seconds=WATCH_SECONDS + 2)

    run_virtually(scenario())
    assert server.lists == 1


def test_a_problem_is_over_as_soon_as_the_watch_is_open_again() -> None:
    server = Server(History({"a": 1}), [Cut(), Cut(error=UNREACHABLE)])

    async def scenario() -> None:
        async with Fed(server) as fed:
            await fed.reader.synced()
            await asyncio.sleep(0.1)
            during = fed.feed.problem
            await asyncio.sleep(2)

            assert during is UNREACHABLE
            assert fed.feed.problem is None

    run_virtually(scenario())
    assert server.asked[-1][0] < 2


def test_without_bookmarks_a_watch_that_ends_in_its_time_says_that_nothing_happened() -> None:
    history = History({"a": 1})
    server = Server(history, has_bookmarks=False)

    async def scenario() -> None:
        async with Fed(server) as fed:
            await fed.reader.synced()
            for _ in range(60):
                await asyncio.sleep(10)
                age = fed.reader.age()

                assert age is not None
                assert age <= timedelta(seconds=122)
                assert fed.feed.problem is None
            history.put("a", 2)
            await asyncio.sleep(2)

            assert fed.view == {"a": 2}

    run_virtually(scenario())
    assert server.lists == 1
    assert len(server.asked) <= 1 + 11


def test_a_watch_that_ends_before_its_time_says_nothing_and_leads_to_no_storm() -> None:
    server = Server(History({"a": 1}), [Cut()] * 30, has_bookmarks=False)

    async def scenario() -> None:
        async with Fed(server) as fed:
            await fed.reader.synced()
            await asyncio.sleep(300)

            assert fed.reader.age() == timedelta(seconds=300)

    run_virtually(scenario())
    assert len(server.asked) <= 25


@pytest.mark.parametrize(
    "cut",
    [
        pytest.param(Cut(error=gone()), id="as an answer"),
        pytest.param(
            Cut(last_line=b'{"type": "ERROR", "object": {"code": 410}}'), id="as an event"
        ),
    ],
)
def test_a_forgotten_version_leads_to_a_new_list_that_tells_only_differences(cut: Cut) -> None:
    history = History({"a": 1, "b": 2, "c": 3})
    server = Server(history, [Cut(), cut])

    async def scenario() -> None:
        async with Fed(server) as fed:
            await fed.reader.synced()
            changes = fed.reader.changes()
            history.put("b", 5)
            history.delete("c")
            await asyncio.sleep(30)

            assert fed.view == {"a": 1, "b": 5}
            assert await anext(changes) == 5
            assert not changes._waiting

    run_virtually(scenario())
    assert server.lists == 2


def test_a_list_whose_pages_expire_starts_over_and_the_old_view_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reflector, "PAGE_SIZE", 1)
    history = History({"a": 1, "b": 2})
    well = Cut()
    server = Server(history, [well, well, Cut(error=gone()), well, Cut(error=gone())])

    async def scenario() -> None:
        async with Fed(server) as fed:
            await fed.reader.synced()
            history.put("c", 3)
            while server.disturbances:
                assert fed.view.keys() >= {"a", "b"}
                await asyncio.sleep(0.001)
            await asyncio.sleep(10)

            assert fed.view == history.things

    run_virtually(scenario())
    assert server.lists == 2 + 2 + 3


@pytest.mark.parametrize(
    ("cut", "lists"),
    [
        pytest.param(Cut(error=UNREACHABLE), 1, id="the watch cannot be opened"),
        pytest.param(Cut(lines=1, error=UNREACHABLE), 1, id="the connection breaks"),
        pytest.param(Cut(lines=1), 1, id="the server ends it early"),
        pytest.param(Cut(lines=0), 1, id="the server ends it before it told anything"),
        pytest.param(Cut(last_line=b'{"type": "ERROR", "object": {"code": 500}}'), 1, id="500"),
        pytest.param(Cut(lines=1, last_line=b'{"type'), 2, id="a line makes no sense"),
        pytest.param(Cut(last_line=b'{"type": "ADDED", "object": {}}'), 2, id="no name"),
    ],
)
def test_whatever_ends_a_watch_nothing_is_lost(cut: Cut, lists: int) -> None:
    history = History({"a": 1})
    server = Server(history, [Cut(), cut])

    async def scenario() -> None:
        async with Fed(server) as fed:
            await fed.reader.synced()
            history.put("a", 2)
            history.put("b", 3)
            history.put("c", 4)
            await asyncio.sleep(30)

            assert fed.view == history.things

    run_virtually(scenario())
    assert server.lists == lists


def test_a_first_list_that_fails_is_asked_for_until_it_comes() -> None:
    server = Server(
        History({"a": 1}), [Cut(error=UNREACHABLE), Cut(last_line=b"<html>"), Cut(error=FORBIDDEN)]
    )

    async def scenario() -> list[type[Exception]]:
        problems = []
        async with Fed(server) as fed:
            while fed.reader.age() is None:
                if fed.feed.problem and type(fed.feed.problem) not in problems:
                    problems.append(type(fed.feed.problem))
                await asyncio.sleep(0.01)

            assert fed.view == {"a": 1}
            assert fed.feed.problem is None
        return problems

    assert run_virtually(scenario()) == [UnreachableError, DecodeError, ForbiddenError]


def test_each_failure_in_a_row_is_followed_by_a_longer_wait_up_to_a_bound() -> None:
    server = Server(History(), [Cut(error=UNREACHABLE)] * 12)

    async def scenario() -> None:
        async with Fed(server) as fed:
            await fed.reader.synced()

    run_virtually(scenario())
    times = [at for at, _ in server.asked]
    waits = [after - before for before, after in pairwise(times)][:12]
    for number, wait in enumerate(waits):
        longest = min(0.8 * 2**number, 30)
        assert longest / 2 <= wait <= longest + 0.02


def test_a_server_that_asks_for_patience_gets_it() -> None:
    busy = Status(code=429, retry_after=timedelta(seconds=20))
    server = Server(History(), [Cut(error=TooManyRequestsError("GET /things", busy))])

    async def scenario() -> None:
        async with Fed(server) as fed:
            await fed.reader.synced()

    run_virtually(scenario())
    assert server.asked[1][0] >= 20


@pytest.mark.parametrize("seconds", [31, 3600, 2**31 - 1])
def test_a_server_that_asks_for_too_much_patience_is_asked_again_after_half_a_minute(
    seconds: int,
) -> None:
    busy = Status(code=429, retry_after=timedelta(seconds=seconds))
    server = Server(History(), [Cut(error=TooManyRequestsError("GET /things", busy))])

    async def scenario() -> None:
        async with Fed(server) as fed:
            await fed.reader.synced()

    run_virtually(scenario())
    assert server.asked[1][0] == pytest.approx(30, abs=0.1)


class BookmarkServer(Server):
    """A server that ends each watch with one bookmark, after so many seconds."""

    def __init__(self, history: History, seconds: float, last_line: bytes = b"") -> None:
        super().__init__(history)
        self.seconds = seconds
        self.last_line = last_line

    async def _tell(
        self, cut: Cut | None, parameters: Mapping[str, str]
    ) -> AsyncGenerator[bytes, None]:
        del cut, parameters
        await asyncio.sleep(self.seconds)
        yield json.dumps(self.history.bookmark()).encode()
        if self.last_line:
            yield self.last_line


GONE_EVENT = b'{"type": "ERROR", "object": {"code": 410}}'


@pytest.mark.parametrize("last_line", [b"", GONE_EVENT], ids=["a good end", "410 each time"])
def test_watches_that_end_at_once_after_a_bookmark_lead_to_no_storm(last_line: bytes) -> None:
    server = BookmarkServer(History({"a": 1}), 0.01, last_line)

    async def scenario() -> None:
        async with Fed(server) as fed:
            await fed.reader.synced()
            await asyncio.sleep(300)

    run_virtually(scenario())
    assert len(server.asked) <= 2 * 20


def test_after_a_watch_that_has_lived_the_next_one_follows_at_once() -> None:
    server = BookmarkServer(History({"a": 1}), 0.01)

    async def scenario() -> None:
        async with Fed(server) as fed:
            await fed.reader.synced()
            await asyncio.sleep(120)
            server.seconds = 15
            await asyncio.sleep(300)

    run_virtually(scenario())
    watched = [at for at, parameters in server.asked if "watch" in parameters]
    assert [later - earlier for earlier, later in pairwise(watched[-4:])] == [15, 15, 15]


def test_failures_are_forgotten_once_a_watch_that_has_lived_tells_something() -> None:
    history = History({"a": 1})
    failures = [Cut(error=UNREACHABLE)] * 6
    server = Server(history, [*failures, Cut(), Cut(lines=1, error=UNREACHABLE)])

    async def scenario() -> None:
        async with Fed(server) as fed:
            await fed.reader.synced()
            await asyncio.sleep(CUT_SECONDS - 0.5)
            history.put("a", 2)
            await asyncio.sleep(10)

    run_virtually(scenario())
    _, (opened, _), (resumed, _) = server.asked[6:]
    assert resumed - opened <= CUT_SECONDS + 0.8


def test_a_version_that_expires_again_and_again_leads_to_no_storm_of_lists() -> None:
    server = Server(History({"a": 1}), [Cut(), Cut(error=gone())] * 100)

    async def scenario() -> None:
        async with Fed(server) as fed:
            await fed.reader.synced()
            await asyncio.sleep(300)

            assert isinstance(fed.feed.problem, GoneError)

    run_virtually(scenario())
    assert server.lists <= 18


def test_f28_one_bad_object_never_stops_the_others() -> None:
    history = History({"a": 1, "bad": BAD, "c": 3})
    server = Server(history)

    async def scenario() -> None:
        async with Fed(server) as fed:
            await fed.reader.synced()
            assert fed.view == {"a": 1, "c": 3}
            assert [each.name for each in fed.reader.unreadable] == ["bad"]
            history.put("a", BAD)
            history.put("c", 4)
            history.put("bad", 5)
            await asyncio.sleep(5)

            assert fed.view == {"bad": 5, "c": 4}
            assert [each.name for each in fed.reader.unreadable] == ["a"]

    run_virtually(scenario())


NAMES = st.sampled_from("abcdefgh")
CUTS = st.builds(
    Cut,
    lines=st.integers(0, 3),
    last_line=st.sampled_from(
        [b"", b"", b"{", b'{"type": "ERROR", "object": {"code": 410}}', b'{"type": "BOOKMARK"}']
    ),
    error=st.sampled_from([None, None, UNREACHABLE, gone(), FORBIDDEN]),
)
CHURN = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "delete", "compact"]),
        NAMES,
        st.integers(-1, 5),
        st.floats(0, 3),
    ),
    max_size=40,
)


@settings(max_examples=50)
@given(
    things=st.dictionaries(NAMES, st.integers(0, 5)),
    cuts=st.lists(CUTS, max_size=12),
    churn=CHURN,
)
def test_after_any_disturbances_a_store_holds_the_truth_and_was_never_emptied(
    things: dict[str, int], cuts: list[Cut], churn: list[tuple[str, str, int, float]]
) -> None:
    history = History(things)
    touched: set[str] = set()

    async def disturb(fed: Fed) -> None:
        for what, name, value, pause in churn:
            match what:
                case "put":
                    touched.add(name)
                    history.put(name, value)
                case "delete":
                    touched.add(name)
                    history.delete(name)
                case _:
                    history.compact()
            await asyncio.sleep(pause)

            assert fed.reader.age() is None or things.keys() - touched <= fed.view.keys()

    async def scenario() -> None:
        async with Fed(Server(history, cuts)) as fed:
            await disturb(fed)
            # Twelve cuts, and twelve of the longest waits.
            await asyncio.sleep(12 * (CUT_SECONDS + 31) + WATCH_SECONDS)

            assert fed.view == {name: it for name, it in history.things.items() if it >= 0}
            assert fed.feed.problem is None

    run_virtually(scenario())


def test_a_page_that_is_too_large_is_asked_for_in_smaller_pages() -> None:
    too_large = TooLargeError("GET /things", "the answer has more than 9 bytes")
    server = Server(History({"a": 1}), [Cut(error=too_large)] * 5)

    async def scenario() -> None:
        async with Fed(server) as fed:
            await fed.reader.synced()

    run_virtually(scenario())
    limits = [parameters["limit"] for _, parameters in server.asked if "limit" in parameters]
    assert limits == ["500", "62", "7", "1", "1", "1"]


def test_empty_pages_that_promise_more_are_not_followed_for_ever() -> None:
    empty = json.dumps({"metadata": {"resourceVersion": "1", "continue": "more"}, "items": []})
    server = Server(History({"a": 1}), [Cut(last_line=empty.encode())] * 1000)

    async def scenario() -> None:
        async with Fed(server) as fed:
            await asyncio.sleep(300)

            assert isinstance(fed.feed.problem, DecodeError)

    run_virtually(scenario())
    assert len(server.asked) <= 25
