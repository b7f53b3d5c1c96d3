"""Visitors on loopback, in either event loop: many, silent, slow, and who does not read."""

import asyncio
import inspect
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from http import HTTPStatus

import pytest
import uvloop
from support.servers.waiting import until

from trimtab.api.http.requests import HttpRequest
from trimtab.cli.runtime.visits import Answering, PageResponse, VisitLimits, Visits

LOOPBACK = "127.0.0.1"
PATIENCE = timedelta(seconds=10)
SHORT = timedelta(milliseconds=20)
FEW = VisitLimits(visitors=3)
PING = b"GET /ping HTTP/1.1\r\n\r\n"


def in_either_loop(test: Callable[..., Coroutine[None, None, None]]) -> Callable[..., None]:
    """Components run in uvloop, and asyncio's own loop says more when something is wrong."""

    @pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
    def play(run: Callable[[Coroutine[None, None, None]], None], **given: object) -> None:
        run(test(**given))

    run = inspect.Parameter("run", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.signature(test)
    given = list(signature.parameters.values())
    vars(play)["__signature__"] = signature.replace(parameters=[run, *given])
    play.__name__ = test.__name__
    return play


async def echo(request: HttpRequest) -> PageResponse:
    """The target comes back."""
    return PageResponse(HTTPStatus.OK, request.target.encode())


@dataclass
class Client:
    """One connection, on which nothing is read unless it is asked for."""

    wire: socket.socket
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    async def ask(self, request: bytes = PING) -> bytes:
        await self.loop.sock_sendall(self.wire, request)
        answer = await self.loop.sock_recv(self.wire, 1000)
        return answer.rpartition(b"\r\n\r\n")[2]

    async def read_all(self) -> bytes:
        """What comes until the other side has ended it."""
        read = bytearray()
        with suppress(ConnectionError):
            while piece := await self.loop.sock_recv(self.wire, 1 << 20):
                read += piece
        return bytes(read)

    def is_open(self) -> bool:
        """Whether the other side has not ended it, and has said nothing."""
        try:
            self.wire.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except ConnectionError:
            pass
        return False


class Clock:
    """Goes on whenever somebody looks at it."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return self.looks


@dataclass
class Scene:
    port: int
    stack: AsyncExitStack
    clock: Clock
    writers: list[asyncio.StreamWriter]
    """Of whoever has come to the server, in their order."""

    def connect(self) -> Client:
        """Somebody who has connected, and may not have come yet."""
        wire = self.stack.enter_context(closing(socket.socket()))
        # What nobody reads is to stay with the server, not in buffers of the machine.
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.connect((LOOPBACK, self.port))
        wire.settimeout(0)
        return Client(wire)

    async def enter(self) -> Client:
        there, client = len(self.writers), self.connect()
        await until(lambda: len(self.writers) > there)
        return client

    async def enter_several(self, number: int) -> list[Client]:
        """So many, in their order."""
        return [await self.enter() for _ in range(number)]


@asynccontextmanager
async def a_scene(limits: VisitLimits = FEW, answer: Answering = echo) -> AsyncIterator[Scene]:
    """A server, and whoever comes to it."""
    clock, writers = Clock(), list[asyncio.StreamWriter]()
    visits = Visits(answer, clock, limits)

    def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        visits.receive(reader, writer)

    async with asyncio.timeout(PATIENCE.total_seconds()):
        server = await asyncio.start_server(receive, LOOPBACK, 0)
        try:
            async with AsyncExitStack() as stack:
                yield Scene(server.sockets[0].getsockname()[1], stack, clock, writers)
        finally:
            server.close()
            await visits.end()


@pytest.mark.parametrize(
    ("said", "leaves"),
    [
        pytest.param({}, 0, id="of the silent the first"),
        pytest.param({0: PING}, 1, id="who has asked may rest longer than who never did"),
        pytest.param({0: PING, 1: PING}, 2, id="even if it came earlier"),
        pytest.param({1: PING, 2: PING, 0: PING}, 1, id="of those who asked who did so first"),
    ],
)
@in_either_loop
async def test_who_was_silent_longest_makes_room(said: dict[int, bytes], leaves: int) -> None:
    async with a_scene() as scene:
        there = await scene.enter_several(3)
        for number, request in said.items():
            await there[number].ask(request)
        newcomer = await scene.enter()
        answer = await newcomer.ask()

        assert answer == b"/ping"
        assert [number for number, each in enumerate(there) if not each.is_open()] == [leaves]


@in_either_loop
async def test_half_a_request_counts_from_its_beginning() -> None:
    async with a_scene() as scene:
        slow, silent, lively = await scene.enter_several(3)
        looks = scene.clock.looks
        slow.wire.send(PING[:-1])
        await until(lambda: scene.clock.looks > looks)
        await lively.ask()
        await (await scene.enter()).ask()
        assert not silent.is_open()
        await (await scene.enter()).ask()

        assert not slow.is_open()
        assert lively.is_open()


@in_either_loop
async def test_who_waits_for_an_answer_stays_while_somebody_is_silent() -> None:
    asked, ready = asyncio.Event(), asyncio.Event()

    async def take_long(request: HttpRequest) -> PageResponse:
        if request.target == "/slow":
            asked.set()
            await ready.wait()
        return await echo(request)

    async with a_scene(replace(FEW, visitors=2), take_long) as scene:
        waiting, silent = await scene.enter_several(2)
        answer = asyncio.create_task(waiting.ask(b"GET /slow HTTP/1.1\r\n\r\n"))
        await asked.wait()
        answers = [await (await scene.enter()).ask() for _ in range(2)]
        ready.set()

        assert answers == [b"/ping"] * 2
        assert not silent.is_open()
        assert await answer == b"/slow"


@in_either_loop
async def test_where_all_wait_for_answers_the_first_of_them_makes_room() -> None:
    asked = list[str]()

    async def answer_pings(request: HttpRequest) -> PageResponse:
        asked.append(request.target)
        if request.target == "/slow":
            await asyncio.Event().wait()
        return await echo(request)

    async with a_scene(answer=answer_pings) as scene:
        there = await scene.enter_several(3)
        for each in there:
            each.wire.send(b"GET /slow HTTP/1.1\r\n\r\n")
        await until(lambda: len(asked) == len(there))
        answer = await (await scene.enter()).ask()

        assert answer == b"/ping"
        assert [each.is_open() for each in there] == [False, True, True]


@in_either_loop
async def test_a_crowd_that_comes_at_once_leaves_nothing_open() -> None:
    async with a_scene() as scene:
        crowd = [scene.connect() for _ in range(40)]
        answer = await scene.connect().ask()

        assert answer == b"/ping"
        assert [each.is_open() for each in crowd] == [False] * 38 + [True] * 2
        assert sum(not each.transport.is_closing() for each in scene.writers) == 3


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        pytest.param(replace(FEW, idle_time=SHORT), b"", id="who says nothing"),
        pytest.param(replace(FEW, idle_time=SHORT), PING, id="who says nothing more"),
        pytest.param(replace(FEW, request_time=SHORT), PING[:-1], id="who says half of it"),
        pytest.param(
            replace(FEW, idle_time=SHORT),
            b"GET /ping HTTP/1.0\r\n\r\n",
            id="who was told that this is the end",
        ),
    ],
)
@in_either_loop
async def test_whoever_is_waited_for_in_vain_is_ended(limits: VisitLimits, said: bytes) -> None:
    async with a_scene(limits) as scene:
        client = await scene.enter()
        client.wire.send(said)
        answer = await client.read_all()
        await until(scene.writers[0].transport.is_closing)

        assert answer.endswith(b"/ping") is (b"\r\n\r\n" in said)


@in_either_loop
async def test_byte_after_byte_is_no_way_to_stay() -> None:
    async with a_scene(replace(FEW, request_time=SHORT)) as scene:
        client = await scene.enter()
        with suppress(ConnectionError):
            while client.is_open():
                client.wire.send(b"x")
                await asyncio.sleep(0.001)

        assert not client.is_open()


@in_either_loop
async def test_of_an_answer_that_nobody_reads_only_a_piece_is_copied() -> None:
    async def answer_much(request: HttpRequest) -> PageResponse:
        return replace(await echo(request), body=bytes(50_000_000))

    async with a_scene(replace(FEW, idle_time=SHORT), answer_much) as scene:
        client, held = await scene.enter(), list[int]()
        client.wire.send(PING)
        await client.loop.sock_recv(client.wire, 1)
        transport = scene.writers[0].transport
        while not transport.is_closing():
            held.append(transport.get_write_buffer_size())
            await asyncio.sleep(0)

        assert 0 < max(held) < 200_000


@pytest.mark.parametrize(
    ("make_body", "read"),
    [
        pytest.param(lambda: bytes(6_000_000), 2, id="each their own: only what fits"),
        pytest.param(lambda body=bytes(6_000_000): body, 5, id="all the same one, kept once"),
    ],
)
@in_either_loop
async def test_answers_that_nobody_reads_are_bounded_together(
    make_body: Callable[[], bytes], read: int
) -> None:
    asked = list[str]()

    async def answer_much(request: HttpRequest) -> PageResponse:
        asked.append(request.target)
        return replace(await echo(request), body=make_body())

    limits = VisitLimits(visitors=10, unread_bytes=15_000_000)
    async with a_scene(limits, answer_much) as scene:
        there = await scene.enter_several(5)
        for number, each in enumerate(there, start=1):
            each.wire.send(b"GET /much HTTP/1.0\r\n\r\n")
            await until(lambda number=number: len(asked) == number)  # type: ignore[misc]
        whole = [len(await each.read_all()) > 6_000_000 for each in there]

        assert whole == [False] * (5 - read) + [True] * read


@in_either_loop
async def test_one_answer_may_be_larger_than_all_together() -> None:
    async def answer_much(request: HttpRequest) -> PageResponse:
        return replace(await echo(request), body=bytes(6_000_000))

    async with a_scene(replace(FEW, unread_bytes=1000), answer_much) as scene:
        client = await scene.enter()
        client.wire.send(b"GET /much HTTP/1.0\r\n\r\n")

        assert len(await client.read_all()) > 6_000_000


@in_either_loop
async def test_who_sends_many_requests_in_a_row_is_not_the_only_one_who_is_heard() -> None:
    asked = list[str]()

    async def note(request: HttpRequest) -> PageResponse:
        asked.append(request.target)
        return await echo(request)

    async with a_scene(answer=note) as scene:
        eager, other = await scene.enter_several(2)
        await eager.ask()
        await other.ask()
        eager.wire.send(PING * 500)
        await other.ask(b"GET /other HTTP/1.1\r\n\r\n")

        assert asked.index("/other") < 50


BAD_HEADS = [
    pytest.param(b"GET /ping HTTP/1.1\nHost: x\n\n", 400, id="bare LF only"),
    pytest.param(b"GET /ping HTTP/1.1\r\nA: b\nC: d\r\n\r\n", 400, id="bare LF"),
    pytest.param(b"GET /ping HTTP/1.1\r\nA: b\rC: d\r\n\r\n", 400, id="bare CR"),
    pytest.param(b"GET /ping HTTP/1.1\r\nA: b\r\r\n\r\n", 400, id="CR at the end"),
    pytest.param(b"GET /ping HTTP/1.1\r\nA: b\0c\r\n\r\n", 400, id="NUL"),
    pytest.param(b"GET /pi\0ng HTTP/1.1\r\n\r\n", 400, id="NUL in the target"),
    pytest.param(PING[:-2] + b"A: " + b"x" * 20_000 + b"\r\n\r\n", 431, id="too long"),
    pytest.param(PING[:-2] + b"A: " + b"x" * 1_000_000, 431, id="without end"),
]


@pytest.mark.parametrize("before", [b"", PING], ids=["first", "second"])
@pytest.mark.parametrize(("sent", "status"), BAD_HEADS)
@in_either_loop
async def test_a_head_that_is_malformed_or_too_long_is_refused(
    before: bytes, sent: bytes, status: int
) -> None:
    asked = list[HttpRequest]()

    async def note(request: HttpRequest) -> PageResponse:
        asked.append(request)
        return await echo(request)

    async with a_scene(answer=note) as scene:
        client = await scene.enter()
        sending = asyncio.create_task(client.loop.sock_sendall(client.wire, before + sent + PING))
        answer = await client.read_all()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

        assert answer.count(b"HTTP/1.1 ") == 1 + bool(before)
        assert b"HTTP/1.1 %d " % status in answer
        assert len(asked) == bool(before)


@in_either_loop
async def test_a_head_may_come_in_pieces() -> None:
    async with a_scene() as scene:
        client = await scene.enter()
        request = b"GET /pieces HTTP/1.1\r\nA: b\r\n\r\n"
        for place in range(len(request) - 1):
            client.wire.send(request[place : place + 1])
            await asyncio.sleep(0.001)

        assert await client.ask(request[-1:]) == b"/pieces"


@in_either_loop
async def test_who_does_not_read_why_it_was_refused_leaves_soon() -> None:
    async with a_scene() as scene:
        client = await scene.enter()
        client.wire.send(b"GET /\0 HTTP/1.1\r\n\r\n")
        await until(scene.writers[0].transport.is_closing)

        assert (await client.read_all()).startswith(b"HTTP/1.1 400 ")
