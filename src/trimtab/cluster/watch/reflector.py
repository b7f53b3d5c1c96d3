"""Reflector: runs the state machine of a watch over the network, and feeds a store.

Disturbances are a cut connection, a restarted server, a forgotten version, or an answer that
cannot be decoded. After each one it waits a little longer and goes on; the store keeps its content.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Final, Generic, NoReturn, TypeVar, assert_never

from trimtab.api.wire import lists, watch_events
from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.watch_events import WatchRefused
from trimtab.cluster import errors
from trimtab.cluster.errors import ClusterError, GoneError, TooLargeError, TooManyRequestsError
from trimtab.cluster.http.api_server import ApiServer
from trimtab.cluster.ports import Clock
from trimtab.cluster.watch import state_machine
from trimtab.cluster.watch.state_machine import Change, Confirm, State
from trimtab.cluster.watch.store import Writer

RecordT = TypeVar("RecordT")

PAGE_SIZE: Final = 500
"""Objects per page of a list: what client-go asks for, and 45 MiB at most for 10 000 pods."""
WATCH_SECONDS: Final = (1800, 3600)
"""Range of the duration of one watch, as an API server has it by default. Missing bookmarks show
that a watch is dead, so it can last longer than in client-go's reflector (300 to 600). Those
reconnects were most of the requests of components at rest."""
QUIET_WATCH_SECONDS: Final = (60, 120)
"""The same for kinds without bookmarks; the client's timeout is longer than that."""
FIRST_DELAY: Final = timedelta(milliseconds=800)
LONGEST_DELAY: Final = timedelta(seconds=30)
"""The delays of client-go's reflector."""
SHORTEST_WATCH: Final = timedelta(seconds=10)
"""A watch that ends sooner counts as a failure, whatever events it brought."""
_DOUBLINGS: Final = 6
# 500, 62, 7, 1: three refusals lead to pages of a single object.
_SMALLER: Final = 8


@dataclass(frozen=True, slots=True)
class WatchedKind(Generic[RecordT]):
    """Objects to watch, and their decoder."""

    path: str
    decode: Callable[[bytes], RecordT]
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Selectors of labels or fields, if not all objects are wanted."""
    has_bookmarks: bool = True
    """True if the server sends a bookmark each minute; it does not for Event objects."""


class Feed(Generic[RecordT]):
    """Keeps one store up to date."""

    def __init__(
        self,
        server: ApiServer,
        kind: WatchedKind[RecordT],
        writer: Writer[RecordT],
        *,
        clock: Clock,
        random: Random,
    ) -> None:
        self._server = server
        self._kind = kind
        self._writer = writer
        self._clock = clock
        self._random = random
        self._state: State[RecordT] = state_machine.EMPTY
        self._failures = 0
        self._page_size = PAGE_SIZE
        """Shrinks when a page has more bytes than the client takes."""
        self.path = kind.path
        self.problem: Exception | None = None
        """Error of the last request; None once the server has answered again."""

    async def run(self) -> NoReturn:
        """Feed the store until cancelled."""
        while True:
            try:
                is_well = await self._ask()
            except (GoneError, DecodeError) as error:
                # The object of a line that cannot be decoded is unknown; going on
                # after it would leave a gap.
                self._state = state_machine.expire()
                is_well, self.problem = False, error
            except TooLargeError as error:
                self._page_size = max(self._page_size // _SMALLER, 1)
                self._state = state_machine.expire()
                is_well, self.problem = False, error
            except ClusterError as error:
                # Nothing is lost: pages that came stay, and a watch goes on from the last version.
                self._state = state_machine.interrupt(self._state)
                is_well, self.problem = False, error
            if not is_well:
                self._failures += 1
                await self._clock.sleep(self._delay())

    async def _ask(self) -> bool:
        """Send the next request; return False if the one after it has to wait."""
        match self._state:
            case state_machine.Empty() | state_machine.Gathering() as state:
                await self._take_page(state)
                return True
            case state_machine.Listed() | state_machine.Watching() as state:
                return await self._take_events(state)
            case _:
                assert_never(self._state)

    async def _take_page(
        self, state: state_machine.Empty | state_machine.Gathering[RecordT]
    ) -> None:
        kind = self._kind
        # No resourceVersion: a consistent read. With version 0 the API server would ignore the
        # limit and answer from its cache, which may be behind what this process has seen.
        parameters = {**kind.parameters, "limit": str(self._page_size)}
        if token := state_machine.continue_token(state):
            parameters["continue"] = token
        data = await self._server.fetch(kind.path, parameters)
        page = lists.decode_list(
            data, partial(watch_events.decode_entry, decode_record=kind.decode)
        )
        if not page.resource_version:
            # Any JSON object would pass for an empty list, and empty the store.
            raise DecodeError("metadata.resourceVersion", "a list without a version")
        if page.continue_token and not (page.items or page.unreadable):
            # A server fills each page but the last one; such a list would never end.
            raise DecodeError("items", "an empty page that says that more follows")
        self._state, change = state_machine.take_page(state, page)
        self._write(change)

    async def _take_events(self, state: state_machine.Listed | state_machine.Watching) -> bool:
        opened = self._state = state_machine.open_watch(state)
        # Random each time, so that not all watches reconnect at once.
        bounds = WATCH_SECONDS if self._kind.has_bookmarks else QUIET_WATCH_SECONDS
        seconds = self._random.randint(*bounds)
        began_at = self._clock.now()
        ends_at = began_at + timedelta(seconds=seconds)
        # Closed at once on an error: the connection would otherwise count as taken until collected.
        async with aclosing(await self._open_stream(opened.version, seconds)) as lines:
            # Without changes it takes a minute until the first line.
            self.problem = None
            followed = opened
            async for line in lines:
                event = watch_events.decode_event(line, self._kind.decode)
                # Also in a stream with status 200: an ERROR event holds the Status, such as 410
                # Gone.
                if isinstance(event, WatchRefused):
                    raise errors.refusal(f"watch {self._kind.path}", event.status)
                followed, change = state_machine.take_event(followed, event)
                self._state = followed
                self._write(change)
                # Only time proves that a watch works: a server may send events and end each watch
                # at once.
                if self._has_lived(began_at):
                    self._failures = 0
        self._state = state_machine.interrupt(followed)
        has_lasted = self._clock.now() >= ends_at
        if has_lasted:
            # A server that ends a watch on time has sent everything up to then.
            self._failures = 0
            self._write(Confirm())
        # A server that ends each watch after one bookmark must not be asked as fast as it answers.
        return has_lasted or (followed is not opened and self._has_lived(began_at))

    def _has_lived(self, began_at: datetime) -> bool:
        return self._clock.now() - began_at >= SHORTEST_WATCH

    async def _open_stream(self, version: str, seconds: int) -> AsyncGenerator[bytes, None]:
        parameters = {
            **self._kind.parameters,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        return await self._server.stream(self._kind.path, parameters)

    def _write(self, change: Change[RecordT]) -> None:
        match change:
            case state_machine.Replace(entries, unreadable):
                self._writer.replace(entries, unreadable)
            case state_machine.Put(entry):
                self._writer.put(entry)
            case state_machine.Spoil(unreadable_one):
                self._writer.spoil(unreadable_one)
            case state_machine.Drop(name):
                self._writer.drop(name)
            case Confirm():
                self._writer.confirm()
            case state_machine.Keep():
                return
            case _:
                assert_never(change)
        self.problem = None

    def _delay(self) -> timedelta:
        # 0.8, 1.6, 3.2 … 30 s; the exponent is bounded, since failures may go on for months.
        doubled = FIRST_DELAY * (1 << min(self._failures - 1, _DOUBLINGS))
        # Half of it is random, so that all watches do not come back in the same moment.
        delay = min(doubled, LONGEST_DELAY) * self._random.uniform(0.5, 1.0)
        problem = self.problem
        wanted = problem.retry_after if isinstance(problem, TooManyRequestsError) else None
        return max(delay, wanted or delay)
