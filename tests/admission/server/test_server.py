"""The webhook server on loopback: real sockets, real TLS, clients of all kinds."""

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest
import uvloop
from support.makers.certificates import Pair, a_pair, an_authority
from support.servers.waiting import until

from trimtab.admission.server.limits import ServerLimits
from trimtab.admission.server.request_queue import QueueShare
from trimtab.admission.server.server import WebhookServer, keep_memory
from trimtab.admission.server.tls import (
    CertificateFiles,
    TlsVersion,
    load_pair,
    make_context,
    parse_ciphers,
    parse_version,
    require_clients,
)
from trimtab.api.http.requests import HttpRequest
from trimtab.cluster.auth.credentials import show_certificate

LOOPBACK = "127.0.0.1"
PATIENCE = timedelta(seconds=10)
QUICK = ServerLimits(sweep_interval=timedelta(milliseconds=5))

Scene = Callable[[], Awaitable[None]]
Play = Callable[[Scene], None]


@pytest.fixture(params=["uvloop", "asyncio"])
def play(request: pytest.FixtureRequest) -> Play:
    """Plays a scene in an event loop of either kind."""
    run = uvloop.run if request.param == "uvloop" else asyncio.run

    def play_scene(scene: Scene) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(PATIENCE.total_seconds()):
                await scene()

        run(bounded())

    return play_scene


@pytest.fixture(scope="module")
def authority() -> Pair:
    return an_authority()


@pytest.fixture
def certificate(authority: Pair, tmp_path: Path) -> CertificateFiles:
    return written(a_pair(authority, "first"), tmp_path, "first")


def written(pair: Pair, folder: Path, name: str) -> CertificateFiles:
    files = CertificateFiles(folder / f"{name}.crt", folder / f"{name}.key")
    files.certificate.write_text(pair.certificate, encoding="utf-8")
    files.key.write_text(pair.key, encoding="utf-8")
    return files


@dataclass
class Echo:
    """Answers with what it was sent, and remembers what it was told."""

    answered: int = 0
    let_through_unseen: int = 0
    refused: list[HTTPStatus] = field(default_factory=list)
    now: float = 0.0
    is_ready: bool = True
    """True if it can answer without waiting."""
    fails: int = 0
    """How many of the next requests it fails to answer."""
    cost_seconds: float = 0.0
    """Time for which it keeps the loop busy with each request."""
    put_off: int = 0
    sizes: list[int] = field(default_factory=list)
    """Sizes of the bodies that it answered, in their order."""

    def timer(self) -> float:
        return self.now

    def answer(
        self, request: HttpRequest, waited_seconds: float, *, may_wait: bool = False
    ) -> bytes | QueueShare:
        assert waited_seconds >= 0
        time.sleep(self.cost_seconds)
        if may_wait and not self.is_ready:
            self.put_off += 1
            return QueueShare("pods", request.content_type)
        if self.fails:
            self.fails -= 1
            raise RuntimeError
        self.answered += 1
        self.sizes.append(len(request.body))
        return request.body

    def let_through(self, request: HttpRequest) -> bytes:
        del request
        self.let_through_unseen += 1
        return b"unseen"

    def allow_failed(self, request: HttpRequest, error: Exception) -> bytes:
        del request
        if self.fails:
            self.fails -= 1
            raise error
        return b"failed"

    def note_written(self, seconds: float) -> None:
        assert seconds >= 0

    def note_refused(self, status: HTTPStatus) -> None:
        self.refused.append(status)


@dataclass(frozen=True, slots=True)
class Open:
    """A server that listens."""

    server: WebhookServer
    port: int
    echo: Echo


@asynccontextmanager
async def a_server(
    context: ssl.SSLContext | None = None,
    limits: ServerLimits = QUICK,
    send_buffer: int | None = None,
    give_back: Callable[[], None] = keep_memory,
    timer: Callable[[], float] | None = None,
) -> AsyncIterator[Open]:
    echo = Echo()
    server = WebhookServer(echo, timer or echo.timer, limits, give_back)
    with socket.create_server((LOOPBACK, 0)) as listener:
        if send_buffer is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        listening = asyncio.create_task(server.listen(listener, context))
        sweeping = asyncio.create_task(server.sweep())
        try:
            await until(lambda: server.is_open)
            yield Open(server, listener.getsockname()[1], echo)
        finally:
            sweeping.cancel()
            await server.drain(timedelta())
            await listening


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, body: bytes) -> tuple[int, bytes]:
        self.writer.write(a_request(body))
        return await self.read()

    async def read(self) -> tuple[int, bytes]:
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return int(head.split()[1]), await self.reader.readexactly(length)

    async def is_ended(self) -> bool:
        """Whether the other side ends it, and says nothing more."""
        with suppress(ConnectionError):
            return await self.reader.read() == b""
        return True

    @property
    def shown(self) -> str:
        """Whose certificate was shown."""
        secured = self.writer.get_extra_info("ssl_object")
        return str(secured.getpeercert()["subject"][0][0][1])


@asynccontextmanager
async def a_client(port: int, context: ssl.SSLContext | None = None) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection(LOOPBACK, port, ssl=context)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def a_request(body: bytes) -> bytes:
    head = (
        f"POST / HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def a_client_context(authority: Pair) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.certificate)


def a_context(files: CertificateFiles, oldest: TlsVersion = TlsVersion.V1_2) -> ssl.SSLContext:
    context = make_context(oldest)
    load_pair(context, files)
    return context


def test_many_requests_are_answered_on_one_secure_connection(
    play: Play, authority: Pair, certificate: CertificateFiles
) -> None:
    async def scene() -> None:
        async with (
            a_server(a_context(certificate)) as it,
            a_client(it.port, a_client_context(authority)) as client,
        ):
            answers = [await client.ask(b"%d" % number) for number in range(20)]

            assert answers == [(200, b"%d" % number) for number in range(20)]
            assert it.server.connections == 1
            assert it.server.buffered_bytes == 0

    play(scene)


def test_http_2_is_never_agreed_on(
    play: Play, authority: Pair, certificate: CertificateFiles
) -> None:
    async def scene() -> None:
        context = a_client_context(authority)
        context.set_alpn_protocols(["h2", "http/1.1"])
        async with (
            a_server(a_context(certificate)) as it,
            a_client(it.port, context) as client,
        ):
            secured = client.writer.get_extra_info("ssl_object")

            assert secured.selected_alpn_protocol() == "http/1.1"

    play(scene)


@pytest.mark.parametrize(
    ("oldest", "newest_of_client"),
    [
        pytest.param(TlsVersion.V1_3, ssl.TLSVersion.TLSv1_2, id="1.2 where 1.3 is asked for"),
        pytest.param(TlsVersion.V1_2, ssl.TLSVersion.TLSv1_1, id="1.1 where 1.2 is asked for"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_who_speaks_only_an_older_tls_is_refused(
    play: Play,
    authority: Pair,
    certificate: CertificateFiles,
    oldest: TlsVersion,
    newest_of_client: ssl.TLSVersion,
) -> None:
    async def scene() -> None:
        context = a_client_context(authority)
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        context.maximum_version = newest_of_client
        async with a_server(a_context(certificate, oldest)) as it:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                async with a_client(it.port, context):
                    pass

            assert it.echo.answered == 0

    play(scene)


def test_a_new_certificate_is_shown_to_new_connections_and_old_ones_live_on(
    play: Play, authority: Pair, certificate: CertificateFiles, tmp_path: Path
) -> None:
    async def scene() -> None:
        context, trust = a_context(certificate), a_client_context(authority)
        async with a_server(context) as it, a_client(it.port, trust) as before:
            load_pair(context, written(a_pair(authority, "second"), tmp_path, "second"))
            async with a_client(it.port, trust) as after:
                assert (before.shown, after.shown) == ("first", "second")
                assert await before.ask(b"still there") == (200, b"still there")
                assert await after.ask(b"new") == (200, b"new")

    play(scene)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda files: files.key.unlink(), id="a key that is not there"),
        pytest.param(lambda files: files.certificate.write_text("no"), id="no certificate"),
        pytest.param(
            lambda files: files.key.write_text(an_authority().key), id="the key of another"
        ),
    ],
)
def test_a_bad_pair_changes_nothing(
    play: Play,
    authority: Pair,
    certificate: CertificateFiles,
    tmp_path: Path,
    spoil: Callable[[CertificateFiles], object],
) -> None:
    async def scene() -> None:
        context, trust = a_context(certificate), a_client_context(authority)
        bad = written(a_pair(authority, "second"), tmp_path, "second")
        spoil(bad)
        async with a_server(context) as it:
            with pytest.raises((FileNotFoundError, ssl.SSLError)):
                load_pair(context, bad)
            async with a_client(it.port, trust) as client:
                assert client.shown == "first"

    play(scene)


def test_a_body_that_is_too_large_is_refused_before_it_has_come(play: Play) -> None:
    async def scene() -> None:
        async with a_server() as it, a_client(it.port) as client:
            client.writer.write(b"POST / HTTP/1.1\r\nContent-Length: 5242881\r\n\r\n")
            client.writer.write(b" " * 100_000)

            assert await client.read() == (413, b"")
            assert it.echo.refused == [HTTPStatus.REQUEST_ENTITY_TOO_LARGE]
            assert it.server.buffered_bytes == 0

    play(scene)


def test_a_body_in_chunks_is_answered_like_any_other(play: Play) -> None:
    async def scene() -> None:
        async with a_server() as it, a_client(it.port) as client:
            chunks = b"4\r\nwhat\r\n4;x=y\r\never\r\n0\r\n\r\n"
            head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
            client.writer.write(head + chunks)

            assert await client.read() == (200, b"whatever")
            assert await client.ask(b"and on") == (200, b"and on")

    play(scene)


def test_a_body_in_chunks_is_refused_where_it_is_too_large(play: Play) -> None:
    async def scene() -> None:
        async with a_server() as it, a_client(it.port) as client:
            client.writer.write(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
            client.writer.write(b"FFFFFFFFFFFFFFF\r\n" + b" " * (5 * 1024 * 1024 + 1))

            assert await client.read() == (413, b"")
            assert it.server.buffered_bytes == 0

    play(scene)


def test_who_was_refused_is_ended_whatever_it_still_sends(play: Play) -> None:
    async def scene() -> None:
        async with a_server() as it, a_client(it.port) as client:
            client.writer.write(b"GET /debug/pprof/ HTTP/1.1\r\n\r\n" + a_request(b"more"))
            status = await client.read()
            it.echo.now += 2

            assert status == (405, b"")
            assert await client.is_ended()
            assert it.echo.answered == 0

    play(scene)


def test_an_error_in_one_answer_does_not_silence_the_webhook(play: Play) -> None:
    async def scene() -> None:
        async with a_server() as it, a_client(it.port) as client, a_client(it.port) as other:
            it.echo.fails = 1

            assert await client.ask(b"bad") == (200, b"failed")
            assert await client.ask(b"good") == (200, b"good")
            assert await other.ask(b"good") == (200, b"good")

    play(scene)


def test_a_request_that_cannot_be_answered_at_all_ends_its_connection_alone(play: Play) -> None:
    async def scene() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
        async with a_server() as it, a_client(it.port) as client, a_client(it.port) as other:
            it.echo.fails = 2
            client.writer.write(a_request(b"bad"))

            assert await client.is_ended()
            assert await other.ask(b"good") == (200, b"good")
            await until(lambda: it.server.connections == 1)

    play(scene)


def test_a_request_whose_client_has_left_is_dropped(play: Play) -> None:
    async def scene() -> None:
        async with a_server() as it, a_client(it.port) as other:
            it.echo.is_ready = False
            async with a_client(it.port) as client:
                client.writer.write(a_request(b"about to leave"))
                await until(lambda: it.echo.put_off > 0)
                it.echo.is_ready = True
            await until(lambda: it.server.connections == 1)

            assert await other.ask(b"still here") == (200, b"still here")
            await asyncio.sleep(0.1)
            assert it.echo.answered == 1

    play(scene)


def test_small_requests_are_answered_before_large_ones_that_came_earlier(play: Play) -> None:
    async def scene() -> None:
        async with a_server() as it, AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(a_client(it.port)) for _ in range(8)]
            await until(lambda: it.server.connections == len(clients))
            connections = list(it.server._connections)
            sizes = [*(100_000 for _ in range(6)), 5, 5]
            # All at once, as after a pause of the event loop.
            for connection, size in zip(connections, sizes, strict=True):
                connection._take(HttpRequest({}, b"%d" % size + b" " * size))
            answers = [await client.read() for client in clients]

            assert [int(body) for _, body in answers] == sizes
            assert it.echo.sizes[:2] == [6, 6]

    play(scene)


def test_the_size_of_all_waiting_requests_is_bounded(play: Play) -> None:
    async def scene() -> None:
        limits = ServerLimits(queued_bytes=10, sweep_interval=QUICK.sweep_interval)
        async with a_server(limits=limits) as it, a_client(it.port) as client:
            assert await client.ask(b"x" * 11) == (200, b"unseen")
            assert await client.ask(b"x" * 10) == (200, b"x" * 10)

    play(scene)


def test_connections_with_large_buffers_are_bounded_for_themselves(play: Play) -> None:
    async def scene() -> None:
        limits = ServerLimits(heavy_connections=2, sweep_interval=QUICK.sweep_interval)
        async with a_server(limits=limits) as it, AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(a_client(it.port)) for _ in range(4)]
            small, *large = clients
            await small.ask(b"small")
            for client in large:
                it.echo.now += 1
                status, _ = await client.ask(b" " * 200_000)
                assert status == HTTPStatus.OK

            assert await large[0].is_ended()
            for client in (small, *large[1:]):
                assert await client.ask(b"still here") == (200, b"still here")

    play(scene)


def test_memory_is_given_back_once_much_has_come(play: Play) -> None:
    async def scene() -> None:
        given_back: list[None] = []
        limits = ServerLimits(buffered_bytes=1000, sweep_interval=QUICK.sweep_interval)
        give_back = partial(given_back.append, None)
        async with a_server(limits=limits, give_back=give_back) as it, a_client(it.port) as client:
            await client.ask(b"x" * 900)
            await asyncio.sleep(0.05)
            assert not given_back
            await client.ask(b"x" * 900)
            await until(lambda: len(given_back) == 1)

    play(scene)


def test_memory_of_unfinished_requests_is_given_back_after_they_end(play: Play) -> None:
    async def scene() -> None:
        given_back: list[None] = []
        limits = ServerLimits(buffered_bytes=1000, sweep_interval=QUICK.sweep_interval)
        give_back = partial(given_back.append, None)
        async with a_server(limits=limits, give_back=give_back) as it:
            async with a_client(it.port) as client:
                client.writer.write(a_request(b"x" * 5000)[:-1])
                assert await client.read() == (503, b"")
                assert not given_back
            await until(lambda: len(given_back) == 1)

    play(scene)


def test_where_too_many_wait_a_request_is_let_through_unseen_at_once(play: Play) -> None:
    async def scene() -> None:
        async with (
            a_server(limits=ServerLimits(queue=0)) as it,
            a_client(it.port) as client,
        ):
            assert await client.ask(b"seen?") == (200, b"unseen")
            assert it.echo.let_through_unseen == 1
            assert it.echo.answered == 0

    play(scene)


def test_a_request_is_put_off_until_its_answer_is_known(play: Play) -> None:
    async def scene() -> None:
        async with a_server() as it, a_client(it.port) as early, a_client(it.port) as late:
            it.echo.is_ready = False
            asked = asyncio.create_task(early.ask(b"early"))
            await until(lambda: it.echo.put_off > 0)
            it.echo.is_ready = True

            assert await late.ask(b"late") == (200, b"late")
            assert await asked == (200, b"early")
            assert it.echo.answered == 2

    play(scene)


def test_a_request_is_put_off_a_few_times_and_no_longer_than_patience_lasts(play: Play) -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        limits = ServerLimits(patience=timedelta(milliseconds=300))
        async with (
            a_server(limits=limits, timer=loop.time) as it,
            a_client(it.port) as client,
        ):
            it.echo.is_ready = False
            began = loop.time()
            answer = await client.ask(b"who?")
            took = loop.time() - began

            assert answer == (200, b"who?")
            assert took >= 0.29
            assert 2 <= it.echo.put_off <= 5

    play(scene)


def test_a_request_for_which_there_is_no_room_is_answered_at_once(play: Play) -> None:
    async def scene() -> None:
        limits = ServerLimits(put_off_bytes=0)
        async with a_server(limits=limits) as it, a_client(it.port) as client:
            it.echo.is_ready = False

            assert await client.ask(b"one") == (200, b"one")
            assert it.echo.put_off == 1

    play(scene)


def test_a_large_request_is_put_off_like_others(play: Play) -> None:
    async def scene() -> None:
        async with a_server() as it, a_client(it.port) as client:
            it.echo.is_ready = False
            asked = asyncio.create_task(client.ask(b"x" * 200_000))
            await until(lambda: it.echo.put_off > 0)
            it.echo.is_ready = True

            assert await asked == (200, b"x" * 200_000)
            assert it.echo.answered == 1

    play(scene)


def take(it: Open, number: int, namespace: str, body: bytes = b"?") -> None:
    """Let a connection ask for something in a namespace."""
    list(it.server._connections)[number]._take(HttpRequest({"content-type": namespace}, body))


def test_a_namespace_makes_room_for_others_by_what_it_has_waiting(play: Play) -> None:
    async def scene() -> None:
        limits = ServerLimits(put_off_bytes=4 * 64 * 1024, patience=timedelta(seconds=30))
        async with a_server(limits=limits) as it, AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(a_client(it.port)) for _ in range(7)]
            await until(lambda: it.server.connections == len(clients))
            it.echo.is_ready = False
            for number in range(5):
                take(it, number, "tenant", b"%d" % number)
            # The fifth finds no room, and those that came first go on waiting.
            assert await clients[4].read() == (200, b"4")
            assert it.echo.answered == 1
            take(it, 5, "other", b"5")
            # The oldest of the tenant is answered from what is known, and the other one waits.
            assert await clients[0].read() == (200, b"0")
            assert it.echo.answered == 2
            take(it, 6, "other", b"6")
            # Now both have two.
            assert await clients[1].read() == (200, b"1")
            assert it.echo.answered == 3
            it.echo.is_ready = True
            rest = [await clients[number].read() for number in (2, 3, 5, 6)]

            assert rest == [(200, b"2"), (200, b"3"), (200, b"5"), (200, b"6")]

    play(scene)


def test_retries_of_costly_requests_leave_time_for_others(play: Play) -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        limits = ServerLimits(patience=timedelta(seconds=1))
        async with a_server(limits=limits, timer=loop.time) as it, AsyncExitStack() as stack:
            it.echo.is_ready, it.echo.cost_seconds = False, 0.01
            clients = [await stack.enter_async_context(a_client(it.port)) for _ in range(16)]
            await asyncio.gather(*(client.ask(b"?") for client in clients))

            # First tries, last ones, and a quarter of a second of a hundred retries between.
            assert it.echo.put_off + it.echo.answered <= 2 * 16 + 40

    play(scene)


def test_what_was_put_off_is_answered_before_the_end(play: Play) -> None:
    async def scene() -> None:
        async with a_server() as it, a_client(it.port) as client:
            it.echo.is_ready = False
            asked = asyncio.create_task(client.ask(b"in time?"))
            await until(lambda: it.echo.put_off > 0)

            assert await it.server.drain(timedelta(seconds=10))
            assert await asked == (200, b"in time?")

    play(scene)


@pytest.mark.parametrize("queue", [0, 512])
def test_requests_that_are_sent_in_a_row_are_answered_in_their_order(
    play: Play, queue: int
) -> None:
    async def scene() -> None:
        async with (
            a_server(limits=ServerLimits(queue=queue)) as it,
            a_client(it.port) as client,
        ):
            client.writer.write(b"".join(a_request(b"%d" % number) for number in range(3000)))
            answers = [(await client.read())[1] for _ in range(3000)]

            seen = [b"%d" % number for number in range(3000)]
            assert answers == (seen if queue else [b"unseen"] * 3000)
            assert it.server.buffered_bytes == 0

    play(scene)


def test_who_does_not_read_its_answers_is_not_answered_for_ever(play: Play) -> None:
    async def scene() -> None:
        body = b" " * 100_000
        async with a_server() as it, a_client(it.port) as client:
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            for _ in range(400):
                client.writer.write(a_request(body))
            answered = -1
            while it.echo.answered > answered:
                answered = it.echo.answered
                await asyncio.sleep(0.05)

            assert it.echo.answered < 400
            assert it.server.buffered_bytes < 1_000_000
            client.writer.transport.abort()

    play(scene)


def test_of_secure_answers_that_nobody_reads_little_is_kept(
    play: Play, authority: Pair, certificate: CertificateFiles
) -> None:
    request, trust = a_request(b" " * 1000), a_client_context(authority)

    def connect(port: int) -> ssl.SSLSocket:
        wire = socket.socket()
        # What is not read is to stay with the server, not in buffers of the machine.
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.connect((LOOPBACK, port))
        return trust.wrap_socket(wire, server_hostname=LOOPBACK)

    async def scene() -> None:
        async with a_server(a_context(certificate), send_buffer=4096) as it:
            with await asyncio.to_thread(connect, it.port) as wire:
                wire.settimeout(0)
                answered = -1
                while it.echo.answered > answered:
                    answered = it.echo.answered
                    with suppress(ssl.SSLWantWriteError):
                        while wire.send(request):
                            pass
                    await asyncio.sleep(0.05)

                assert 0 < it.echo.answered < 250

    play(scene)


@pytest.mark.parametrize(
    ("sent", "seconds", "is_ended"),
    [
        pytest.param(b"POST / HT", 9, False, id="a request may take ten seconds"),
        pytest.param(b"POST / HT", 11, True, id="and no longer"),
        pytest.param(a_request(b"12345678")[:-1], 11, True, id="nor may its body"),
        pytest.param(b"", 119, False, id="a connection may rest for two minutes"),
        pytest.param(b"", 121, True, id="and no longer than that"),
    ],
)
def test_who_is_slow_or_silent_is_ended(
    play: Play, sent: bytes, seconds: float, *, is_ended: bool
) -> None:
    async def scene() -> None:
        async with a_server() as it, a_client(it.port) as client:
            assert await client.ask(b"hello") == (200, b"hello")
            client.writer.write(sent)
            await until(lambda: bool(it.server.buffered_bytes) or not sent)
            it.echo.now += seconds
            ended = asyncio.create_task(client.is_ended())
            await asyncio.wait([ended], timeout=None if is_ended else 0.05)

            assert ended.done() is is_ended
            ended.cancel()

    play(scene)


def test_of_too_many_connections_the_one_that_was_silent_longest_makes_room(play: Play) -> None:
    async def scene() -> None:
        async with (
            a_server(limits=ServerLimits(connections=2)) as it,
            a_client(it.port) as first,
            a_client(it.port) as second,
        ):
            for client in (first, second, first):
                it.echo.now += 1
                await client.ask(b"hello")
            async with a_client(it.port) as third:
                assert await third.ask(b"new") == (200, b"new")
                assert await second.is_ended()
                assert await first.ask(b"still") == (200, b"still")
            assert it.echo.refused == [HTTPStatus.SERVICE_UNAVAILABLE]

    play(scene)


def test_who_never_asks_shuts_nobody_out(
    play: Play, authority: Pair, certificate: CertificateFiles
) -> None:
    async def scene() -> None:
        trust, limits = a_client_context(authority), ServerLimits(connections=3)
        async with a_server(a_context(certificate), limits) as it, AsyncExitStack() as stack:
            for _ in range(8):
                await stack.enter_async_context(a_client(it.port, trust))
                it.echo.now += 1
            async with a_client(it.port, trust) as earnest:
                assert await earnest.ask(b"hello") == (200, b"hello")
                assert it.server.connections == 3

    play(scene)


def test_who_comes_in_a_crowd_makes_room_as_well(play: Play) -> None:
    async def scene() -> None:
        async with a_server(limits=ServerLimits(connections=3)) as it, AsyncExitStack() as stack:
            for _ in range(10):
                stack.enter_context(socket.create_connection((LOOPBACK, it.port)))
            async with a_client(it.port) as earnest:
                assert await earnest.ask(b"hello") == (200, b"hello")
                assert it.server.connections == 3

    play(scene)


def test_where_nobody_could_make_room_the_last_is_ended(play: Play) -> None:
    async def scene() -> None:
        async with (
            a_server(limits=ServerLimits(connections=0)) as it,
            a_client(it.port) as client,
        ):
            assert await client.is_ended()
            assert it.echo.refused == [HTTPStatus.SERVICE_UNAVAILABLE]

    play(scene)


def test_of_too_many_handshakes_the_oldest_ends_and_an_honest_client_gets_through(
    play: Play, authority: Pair, certificate: CertificateFiles
) -> None:
    async def scene() -> None:
        limits = ServerLimits(handshakes=3)
        async with a_server(a_context(certificate), limits) as it, AsyncExitStack() as stack:
            silent = [await stack.enter_async_context(a_client(it.port)) for _ in range(5)]
            earnest = await stack.enter_async_context(
                a_client(it.port, a_client_context(authority))
            )

            assert await earnest.ask(b"hello") == (200, b"hello")
            for one in silent[:3]:
                assert await one.is_ended()
            assert it.echo.refused == [HTTPStatus.SERVICE_UNAVAILABLE] * 3
            assert not silent[-1].reader.at_eof()

    play(scene)


def test_a_handshake_that_lasts_too_long_is_ended(
    play: Play, certificate: CertificateFiles
) -> None:
    async def scene() -> None:
        limits = ServerLimits(request_time=timedelta(milliseconds=20))
        async with (
            a_server(a_context(certificate), limits) as it,
            a_client(it.port) as silent,
        ):
            assert await silent.is_ended()
            assert it.echo.refused == []

    play(scene)


def test_who_breaks_off_or_speaks_no_tls_keeps_nobody_out(
    play: Play, authority: Pair, certificate: CertificateFiles
) -> None:
    async def scene() -> None:
        limits = ServerLimits(handshakes=3)
        async with a_server(a_context(certificate), limits) as it:
            for _ in range(10):
                async with a_client(it.port) as plain:
                    plain.writer.write(b"GET / HTTP/1.1\r\n\r\n")
                    await plain.is_ended()
            async with a_client(it.port, a_client_context(authority)) as client:
                assert await client.ask(b"hello") == (200, b"hello")
            assert it.echo.refused == []

    play(scene)


def test_of_too_much_that_is_half_sent_the_oldest_is_refused(play: Play) -> None:
    async def scene() -> None:
        limits = ServerLimits(buffered_bytes=150_000)
        request = a_request(b" " * 200_000)
        async with (
            a_server(limits=limits) as it,
            a_client(it.port) as first,
            a_client(it.port) as second,
        ):
            first.writer.write(request[:100_000])
            await until(lambda: it.server.buffered_bytes > 99_000)
            it.echo.now += 1
            second.writer.write(request[:100_000])

            assert await first.read() == (503, b"")
            assert it.server.buffered_bytes <= 100_000
            assert it.echo.refused == [HTTPStatus.SERVICE_UNAVAILABLE]

    play(scene)


def test_one_request_that_is_too_much_for_all_is_refused(play: Play) -> None:
    async def scene() -> None:
        limits = ServerLimits(buffered_bytes=50_000)
        async with a_server(limits=limits) as it, a_client(it.port) as client:
            client.writer.write(a_request(b" " * 200_000))

            assert await client.read() == (503, b"")
            assert it.server.buffered_bytes == 0

    play(scene)


def test_the_end_waits_for_what_has_begun_to_come_and_takes_nothing_new(play: Play) -> None:
    async def scene() -> None:
        request = a_request(b"12345678")
        async with (
            a_server() as it,
            a_client(it.port) as idle,
            a_client(it.port) as busy,
        ):
            await idle.ask(b"hello")
            busy.writer.write(request[:-4])
            await until(lambda: bool(it.server.buffered_bytes))
            draining = asyncio.create_task(it.server.drain(PATIENCE))
            assert await idle.is_ended()
            with pytest.raises(ConnectionError):
                await asyncio.open_connection(LOOPBACK, it.port)
            busy.writer.write(request[-4:])

            assert await busy.read() == (200, b"12345678")
            assert await busy.is_ended()
            assert await draining is True

    play(scene)


def test_the_end_does_not_wait_for_ever(play: Play) -> None:
    async def scene() -> None:
        async with a_server() as it, a_client(it.port) as client:
            client.writer.write(b"POST / HT")
            await until(lambda: bool(it.server.buffered_bytes))

            assert await it.server.drain(timedelta(milliseconds=10)) is False
            assert await client.is_ended()

    play(scene)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        pytest.param("tls1_2", TlsVersion.V1_2, id="1.2"),
        pytest.param("tls1_3", TlsVersion.V1_3, id="1.3"),
        pytest.param("", TlsVersion.V1_2, id="nothing is 1.2"),
    ],
)
def test_versions_have_the_names_of_the_original(text: str, version: TlsVersion) -> None:
    assert parse_version(text) is version


def test_a_version_that_is_too_old_is_not_known() -> None:
    with pytest.raises(ValueError, match="tls1_1"):
        parse_version("tls1_1")


def test_ciphers_are_known_by_their_names_in_go() -> None:
    named = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256:nonsense, TLS_RSA_WITH_AES_256_GCM_SHA384"
    found = parse_ciphers(named)

    assert found == ("ECDHE-ECDSA-AES128-GCM-SHA256", "AES256-GCM-SHA384")
    context = make_context(TlsVersion.V1_2, found)
    offered = {each["name"] for each in context.get_ciphers() if each["protocol"] == "TLSv1.2"}
    assert offered == set(found)


def test_with_an_authority_for_clients_others_get_no_answer(
    play: Play, authority: Pair, certificate: CertificateFiles, tmp_path: Path
) -> None:
    known, unknown = an_authority(), an_authority()
    accepted = tmp_path / "clients.pem"
    accepted.write_text(known.certificate, encoding="utf-8")

    def a_caller(signer: Pair | None) -> ssl.SSLContext:
        context = a_client_context(authority)
        if signer is not None:
            pair = a_pair(signer, "kube-apiserver")
            show_certificate(context, pair.certificate, pair.key, source="test", field="")
        return context

    async def scene() -> None:
        context = a_context(certificate)
        require_clients(context, accepted)
        async with a_server(context) as it:
            async with a_client(it.port, a_caller(known)) as client:
                assert await client.ask(b"review") == (200, b"review")
            for signer in (None, unknown):
                # With TLS 1.3 a client learns only by reading that it was refused.
                with pytest.raises((OSError, asyncio.IncompleteReadError)):
                    async with a_client(it.port, a_caller(signer)) as client:
                        await client.ask(b"review")

    play(scene)
