"""The HTTP server of a component: metrics for Prometheus, probes for the kubelet, pages.

It answers requests that have no body, one after the other; a whole web framework would cost more
memory than all that it shows. Whoever reaches it may ask, so metrics and pages, which may take a
while where there are many pods, never take most of a component's time. Connections, and how many
there may be, are left to `http_visits.py`.

With a `Protection` metrics and pages are served with TLS, to callers with the right to read them.
Probes stay open: a kubelet has no token.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from typing import Final, TypeAlias, assert_never
from urllib.parse import parse_qsl

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest

from trimtab.admission.server.connections import ConnectionAcceptor, Handshakes
from trimtab.admission.server.http import MAX_HEAD_BYTES, has_stray
from trimtab.cli.errors import UsageError
from trimtab.cli.runtime import workers
from trimtab.core.webhook import load_shedding
from trimtab.core.webhook.page_access import Access, Decision

_HEAD_END: Final = b"\r\n\r\n"
_LAST_WORDS: Final = timedelta(seconds=1)
"""Time in which the other side may read why its request was refused."""
_PIECE_BYTES: Final = 64 * 1024
"""So much of an answer is written at once: no visitor has a copy of all that it has to read."""


@dataclass(frozen=True, slots=True)
class VisitLimits:
    """What one server bears."""

    visitors: int = 100
    idle_time: timedelta = timedelta(minutes=2)
    """How long one may be silent, or read an answer; Prometheus comes each minute, or oftener."""
    request_time: timedelta = timedelta(seconds=10)
    """How long a request may take to come, from its first byte on."""
    unread_bytes: int = 32 * 1024 * 1024
    """So much is kept of answers that are not read yet, of all visitors together."""


USUAL_LIMITS: Final = VisitLimits()
TLS_LIMITS: Final = VisitLimits(visitors=50)
"""TLS buffers half a megabyte per connection."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The head of a request."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By their names in lower case."""
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class PageResponse:
    """What is sent to whoever asked."""

    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"

    def format_head(self, *, is_last: bool) -> bytes:
        """What comes before the body."""
        closing = "Connection: close\r\n" if is_last else ""
        if self.status is HTTPStatus.UNAUTHORIZED:
            closing += "WWW-Authenticate: Bearer\r\n"
        head = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\n"
            f"Content-Type: {self.content_type}\r\nContent-Length: {len(self.body)}\r\n"
            f"{closing}\r\n"
        )
        return head.encode("ascii")


_MALFORMED: Final = PageResponse(
    HTTPStatus.BAD_REQUEST, b"the head of the request holds a bare CR, a bare LF or NUL\n"
)
_TOO_LONG: Final = PageResponse(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, b"the head of the request is above 16 KiB\n"
)

Answering: TypeAlias = Callable[[PageRequest], Awaitable[PageResponse]]
"""The answer to a request; it must not raise."""


@dataclass(slots=True, eq=False)
class _Visitor:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    awaited_since: float | None
    heard: bytearray = field(default_factory=bytearray)
    """Bytes that it has sent and that belong to no whole head yet."""
    unread: bytes = b""
    """The body that it has not read to its end."""


class Visits:
    """Whoever is connected at the moment."""

    def __init__(
        self, answer: Answering, timer: Callable[[], float], limits: VisitLimits = USUAL_LIMITS
    ) -> None:
        self._answer = answer
        self._timer = timer
        self._limits = limits
        self._visitors: dict[_Visitor, asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer somebody until they leave, or have to make room."""
        if len(self._visitors) >= self._limits.visitors:
            # Where all of them wait for us, they wait for pages, and a probe is more urgent.
            self._show_out(
                load_shedding.find_longest_awaited(self._visitors) or next(iter(self._visitors))
            )
        visitor = _Visitor(reader, writer, self._timer())
        self._visitors[visitor] = asyncio.create_task(self._serve(visitor))

    async def end(self) -> None:
        """Show everybody out."""
        for visitor in list(self._visitors):
            self._show_out(visitor)
        await asyncio.gather(*self._leaving, return_exceptions=True)

    def _show_out(self, visitor: _Visitor) -> None:
        task = self._visitors.pop(visitor)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
        # Not left to the task, which may not even have begun.
        visitor.writer.transport.abort()
        task.cancel()

    async def _serve(self, visitor: _Visitor) -> None:
        try:
            with suppress(OSError, EOFError):
                while await self._attend(visitor):
                    pass
        finally:
            visitor.writer.transport.abort()
            self._visitors.pop(visitor, None)

    async def _attend(self, visitor: _Visitor) -> bool:
        """Answer one request; return True if another may follow."""
        head = await self._hear(visitor)
        if isinstance(head, PageResponse):
            await self._refuse(visitor, head)
            return False
        request = _parse_request(head)
        visitor.awaited_since = None
        answer = await self._answer(request)
        visitor.awaited_since = self._timer()
        visitor.unread = b"" if request.method == "HEAD" else answer.body
        self._limit_unread(visitor)
        async with asyncio.timeout(self._limits.idle_time.total_seconds()):
            await _send(visitor, answer.format_head(is_last=request.is_last))
            if request.is_last:
                await _part(visitor)
        return not request.is_last

    async def _refuse(self, visitor: _Visitor, answer: PageResponse) -> None:
        """Say why this is the end, and throw away what still comes until that was read.

        Ending the connection at once would reset it, and the other side might never see why.
        """
        visitor.awaited_since = self._timer()
        visitor.unread = answer.body
        async with asyncio.timeout(_LAST_WORDS.total_seconds()):
            await _send(visitor, answer.format_head(is_last=True))
            if visitor.writer.can_write_eof():
                visitor.writer.write_eof()
            while await visitor.reader.read(MAX_HEAD_BYTES):
                pass

    async def _hear(self, visitor: _Visitor) -> bytes | PageResponse:
        """Return the head of the next request, or the answer to one that nothing can follow."""
        # Who sends a thousand requests in a row is not the only one to be heard.
        await asyncio.sleep(0)
        if not visitor.heard:
            async with asyncio.timeout(self._limits.idle_time.total_seconds()):
                await _listen(visitor)
        visitor.awaited_since = self._timer()
        async with asyncio.timeout(self._limits.request_time.total_seconds()):
            scanned = 0
            while (head := _take_head(visitor.heard, scanned)) is None:
                # A head that comes byte by byte must not be read from its beginning each time.
                scanned = max(len(visitor.heard) - len(_HEAD_END), 0)
                await _listen(visitor)
        return head

    def _limit_unread(self, newest: _Visitor) -> None:
        """Show those out who have been reading longest, until what is not read is little enough."""
        while _count_bytes(each.unread for each in self._visitors) > self._limits.unread_bytes:
            others = (each for each in self._visitors if each.unread and each is not newest)
            slowest = load_shedding.find_longest_awaited(others)
            if slowest is None:
                return
            self._show_out(slowest)


async def _listen(visitor: _Visitor) -> None:
    piece = await visitor.reader.read(MAX_HEAD_BYTES)
    if not piece:
        raise EOFError
    visitor.heard += piece


def _take_head(heard: bytearray, scanned: int) -> bytes | PageResponse | None:
    """Take a head from what was heard, or the answer to what is none; None if more must come."""
    end = heard.find(_HEAD_END, scanned, MAX_HEAD_BYTES)
    if end < 0:
        if has_stray(heard, scanned):
            return _MALFORMED
        return _TOO_LONG if len(heard) >= MAX_HEAD_BYTES else None
    head = bytes(heard[:end])
    if has_stray(head) or head.endswith(b"\r"):
        return _MALFORMED
    del heard[: end + len(_HEAD_END)]
    return head


def _parse_request(head: bytes) -> PageRequest:
    line, _, rest = head.decode("latin-1").partition("\r\n")
    method, _, target = line.partition(" ")
    target, _, version = target.rpartition(" ")
    fields = (each.partition(":") for each in rest.split("\r\n") if each)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    # What has a body would have to be read to its end, and nobody here has use for it.
    has_body = "content-length" in headers or "transfer-encoding" in headers
    is_closing = "close" in headers.get("connection", "").lower()
    is_last = has_body or is_closing or version != "HTTP/1.1"
    return PageRequest(method, target, headers, is_last)


def _count_bytes(bodies: Iterable[bytes]) -> int:
    """How much memory the bodies take; several may be the same one."""
    return sum({id(body): len(body) for body in bodies}.values())


async def _send(visitor: _Visitor, head: bytes) -> None:
    writer, body = visitor.writer, visitor.unread
    writer.write(head + body[:_PIECE_BYTES])
    await writer.drain()
    for start in range(_PIECE_BYTES, len(body), _PIECE_BYTES):
        writer.write(body[start : start + _PIECE_BYTES])
        await writer.drain()
    visitor.unread = b""


async def _part(visitor: _Visitor) -> None:
    """Wait for the other side to have read all: to end it at once would throw the rest away."""
    if visitor.writer.can_write_eof():
        visitor.writer.write_eof()
        while await visitor.reader.read(MAX_HEAD_BYTES):
            pass
    else:
        # TLS has no such half of an end.
        visitor.writer.close()
        await visitor.writer.wait_closed()


_REST: Final = 4
"""After a page so many times as long as it took no other is made; metrics likewise."""

_HANDSHAKES: Final = 32
"""So many TLS handshakes are under way at a time; of more the oldest is ended."""
_HANDSHAKE_SECONDS: Final = 5.0

_logger: Final = structlog.stdlib.get_logger(__name__)

Page: TypeAlias = Callable[[Mapping[str, str]], bytes]
"""The JSON that a page shows, given the query of its address."""


@dataclass(frozen=True, slots=True)
class Probes:
    """What a component says of itself: reasons why it is not well, none if it is."""

    health: Callable[[], Sequence[str]]
    readiness: Callable[[], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Protection:
    """TLS for all that is served, and rights for all of it but probes."""

    context: ssl.SSLContext
    check: Callable[[Mapping[str, str], str], Awaitable[Decision]]
    """Decide if the sender of these headers may get a path; it must not raise."""


def parse_address(text: str, flag: str = "--address") -> tuple[str | None, int]:
    """The host, or None for all, and the port of an address such as `:8942` or `[::1]:80`."""
    host, colon, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and int(port) < 1 << 16
    if not colon or not is_port or (":" in host and not host.startswith("[")):
        raise UsageError(f"{flag}: {text!r} is not of the form host:port")
    return host.strip("[]") or None, int(port)


@asynccontextmanager
async def serving(
    address: str,
    probes: Probes,
    pages: Mapping[str, Page] | None = None,
    protection: Protection | None = None,
) -> AsyncIterator[None]:
    """Answer at the address for as long as the block lasts."""
    desk = _Desk(_probe_routes(probes), _page_routes(pages or {}), protection)
    if protection is None:
        async with _listening(address, desk):
            yield
    else:
        async with _listening_with_tls(address, desk, protection.context):
            yield


@asynccontextmanager
async def serving_probes(address: str, probes: Probes) -> AsyncIterator[None]:
    """Answer a kubelet, and no other question, at the address for as long as the block lasts."""
    async with _listening(address, _Desk(_probe_routes(probes), {})):
        yield


@asynccontextmanager
async def _listening(address: str, desk: "_Desk") -> AsyncIterator[None]:
    host, port = parse_address(address)
    visits = Visits(desk.answer, asyncio.get_running_loop().time)
    try:
        server = await asyncio.start_server(visits.receive, host, port, limit=MAX_HEAD_BYTES)
    except (OSError, UnicodeError) as error:
        raise workers.blame(address, error) from error
    try:
        yield
    finally:
        server.close()
        await visits.end()


@asynccontextmanager
async def _listening_with_tls(
    address: str, desk: "_Desk", context: ssl.SSLContext
) -> AsyncIterator[None]:
    host, port = parse_address(address)
    loop = asyncio.get_running_loop()
    visits = Visits(desk.answer, loop.time, TLS_LIMITS)

    def receive() -> asyncio.Protocol:
        reader = asyncio.StreamReader(limit=MAX_HEAD_BYTES, loop=loop)
        return asyncio.StreamReaderProtocol(reader, visits.receive, loop=loop)

    closing = asyncio.Event()
    # Handshakes that are not finished are bounded, too; a server of asyncio would bear any number.
    door = ConnectionAcceptor(
        receive, context, Handshakes(_HANDSHAKES, _HANDSHAKE_SECONDS, lambda: None)
    )
    opened = asyncio.create_task(door.open(workers.bind(host or "", port), closing))
    try:
        yield
    finally:
        closing.set()
        await opened
        await visits.end()


_Route: TypeAlias = Callable[[Mapping[str, str]], Awaitable[PageResponse]]
"""The answer to a query."""


class _Desk:
    """Where everything is answered."""

    def __init__(
        self,
        probes: Mapping[str, _Route],
        pages: Mapping[str, _Route],
        protection: Protection | None = None,
    ) -> None:
        self._routes = {**probes, **pages}
        self._protected = frozenset(pages) if protection is not None else frozenset()
        self._protection = protection
        self._broken: set[str] = set()
        """Pages that could not be shown when they were last asked for."""

    async def answer(self, request: PageRequest) -> PageResponse:
        """What is said to whoever asks for that."""
        path = request.target.partition("?")[0]
        try:
            answer = await self._find(request)
        except Exception:
            # Whoever asks again and again is not to fill the log.
            if path not in self._broken:
                _logger.exception("a page is broken", page=path)
            self._broken.add(path)
            return PageResponse(
                HTTPStatus.INTERNAL_SERVER_ERROR, b"this page is broken: see the log\n"
            )
        self._broken.discard(path)
        return answer

    async def _find(self, request: PageRequest) -> PageResponse:
        path, _, text = request.target.partition("?")
        route = self._routes.get(path)
        if route is None:
            return PageResponse(HTTPStatus.NOT_FOUND, b"there is no such page\n")
        if request.method not in {"GET", "HEAD"}:
            return PageResponse(HTTPStatus.METHOD_NOT_ALLOWED, b"pages can only be read\n")
        if self._protection is not None and path in self._protected:
            decision = await self._protection.check(request.headers, path)
            if decision.access is not Access.GRANTED:
                return _refuse(decision, path)
        return await route(dict(parse_qsl(text, keep_blank_values=True)))


def _refuse(decision: Decision, path: str) -> PageResponse:
    match decision.access:
        case Access.UNKNOWN:
            status = HTTPStatus.UNAUTHORIZED
        case Access.FORBIDDEN:
            status = HTTPStatus.FORBIDDEN
        case Access.UNDECIDED | Access.GRANTED:
            status = HTTPStatus.SERVICE_UNAVAILABLE
        case _:
            assert_never(decision.access)
    return PageResponse(status, f"{decision.explain(path)}\n".encode("utf-8", "replace"))


def _probe_routes(probes: Probes) -> dict[str, _Route]:
    return {"/health-check": _probe(probes.health), "/readyz": _probe(probes.readiness)}


def _page_routes(pages: Mapping[str, Page]) -> dict[str, _Route]:
    shower = _Shower()
    shown = {path: shower.route(page) for path, page in pages.items()}
    return {"/metrics": _Scrapes().show, **shown}


class _Rest:
    """Time that is left to others between two pieces of work."""

    def __init__(self) -> None:
        self._over_at = 0.0
        """On the clock of the event loop."""

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Once the last piece of work has been rested from, do the next one in the block."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(self._over_at - loop.time(), 0))
        began = loop.time()
        try:
            yield
        finally:
            self._over_at = loop.time() + _REST * (loop.time() - began)


class _Shower:
    """Pages, one at a time."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._rest = _Rest()

    def route(self, page: Page) -> _Route:
        """What shows that page."""

        async def show(query: Mapping[str, str]) -> PageResponse:
            async with self._turn, self._rest.taken():
                return PageResponse(HTTPStatus.OK, page(query), "application/json")

        return show


class _Scrapes:
    """Metrics: one text for all who have asked before it was begun, however many they are."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._rest = _Rest()
        self._made = 0
        """How many texts there have been."""
        self._text = b""

    async def show(self, _: Mapping[str, str]) -> PageResponse:
        """The metrics of a moment after this was asked for."""
        made_before = self._made
        async with self._turn:
            if self._made == made_before:
                async with self._rest.taken():
                    self._text = format_metrics()
                self._made += 1
            return PageResponse(HTTPStatus.OK, self._text, CONTENT_TYPE_LATEST)


def format_metrics(registry: CollectorRegistry = REGISTRY) -> bytes:
    """All metrics of this moment, as Prometheus reads them."""
    # The library has no counters without `_total`, as some of the original's are: what it knows no
    # type of is one of those.
    return generate_latest(registry).replace(b" untyped\n", b" counter\n")


def _probe(list_reasons: Callable[[], Sequence[str]]) -> _Route:
    async def answer(_: Mapping[str, str]) -> PageResponse:
        reasons = list_reasons()
        status = HTTPStatus.INTERNAL_SERVER_ERROR if reasons else HTTPStatus.OK
        return PageResponse(status, "\n".join(reasons or ("OK",)).encode())

    return answer
