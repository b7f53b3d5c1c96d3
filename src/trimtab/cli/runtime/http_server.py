"""The HTTP server of a component: metrics for Prometheus, probes for the kubelet, pages.

It answers requests without a body, one after the other per connection; a web framework would cost
more memory than all pages. Any client that reaches the address may send requests, and pages are
slow where there are many pods. So metrics and pages never take most of a component's time, and the
number of connections is limited.

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
"""Time in which the client may read why its request was refused."""
_PIECE_BYTES: Final = 64 * 1024
"""Bytes written at once, so that no connection buffers a copy of the whole answer."""


@dataclass(frozen=True, slots=True)
class VisitLimits:
    """Limits of one server."""

    visitors: int = 100
    idle_time: timedelta = timedelta(minutes=2)
    """Timeout of an idle connection, and of an unread answer; Prometheus comes every minute."""
    request_time: timedelta = timedelta(seconds=10)
    """Timeout of a request, from its first byte to the end of its head."""
    unread_bytes: int = 32 * 1024 * 1024
    """Maximum size of all answers that clients have not read yet."""


USUAL_LIMITS: Final = VisitLimits()
TLS_LIMITS: Final = VisitLimits(visitors=50)
"""TLS buffers half a megabyte per connection."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The head of a request."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values by header name in lower case."""
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class PageResponse:
    """The response to a request."""

    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"

    def format_head(self, *, is_last: bool) -> bytes:
        """Format the status line and the headers."""
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
"""Returns the response to a request; it must not raise."""


@dataclass(slots=True, eq=False)
class _Visitor:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    awaited_since: float | None
    heard: bytearray = field(default_factory=bytearray)
    """Received bytes that form no whole head yet."""
    unread: bytes = b""
    """The body that the client has not read completely."""


class Visits:
    """The open connections of a server, limited in number and in unread bytes."""

    def __init__(
        self, answer: Answering, timer: Callable[[], float], limits: VisitLimits = USUAL_LIMITS
    ) -> None:
        self._answer = answer
        self._timer = timer
        self._limits = limits
        self._visitors: dict[_Visitor, asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection until the client closes it, or another one needs its place."""
        if len(self._visitors) >= self._limits.visitors:
            # If every client waits for a page, close any: the new request may be a probe.
            self._show_out(
                load_shedding.find_longest_awaited(self._visitors) or next(iter(self._visitors))
            )
        visitor = _Visitor(reader, writer, self._timer())
        self._visitors[visitor] = asyncio.create_task(self._serve(visitor))

    async def end(self) -> None:
        """Close all connections, and wait for their tasks."""
        for visitor in list(self._visitors):
            self._show_out(visitor)
        await asyncio.gather(*self._leaving, return_exceptions=True)

    def _show_out(self, visitor: _Visitor) -> None:
        task = self._visitors.pop(visitor)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
        # The task cannot be trusted to do this: it may not have begun.
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
        """Send the refusal, and discard further input until the client closes the connection.

        Closing at once would reset the connection, and the client might not see the reason.
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
        """Return the head of the next request, or the refusal of a malformed or too long one."""
        # Yield to other connections: a client may send a thousand requests in a row.
        await asyncio.sleep(0)
        if not visitor.heard:
            async with asyncio.timeout(self._limits.idle_time.total_seconds()):
                await _listen(visitor)
        visitor.awaited_since = self._timer()
        async with asyncio.timeout(self._limits.request_time.total_seconds()):
            scanned = 0
            while (head := _take_head(visitor.heard, scanned)) is None:
                # Keep the position, so that a head that comes byte by byte is scanned only once.
                scanned = max(len(visitor.heard) - len(_HEAD_END), 0)
                await _listen(visitor)
        return head

    def _limit_unread(self, newest: _Visitor) -> None:
        """Close the connections that have read longest, until unread answers fit the limit."""
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
    """Remove a head from the bytes; return it, a refusal, or None if it is incomplete."""
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
    # A body would have to be read to its end, and no page uses one: close instead.
    has_body = "content-length" in headers or "transfer-encoding" in headers
    is_closing = "close" in headers.get("connection", "").lower()
    is_last = has_body or is_closing or version != "HTTP/1.1"
    return PageRequest(method, target, headers, is_last)


def _count_bytes(bodies: Iterable[bytes]) -> int:
    """Return the memory that the bodies take; bodies that are the same object count once."""
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
    """Wait until the client has read everything: closing at once would discard the rest."""
    if visitor.writer.can_write_eof():
        visitor.writer.write_eof()
        while await visitor.reader.read(MAX_HEAD_BYTES):
            pass
    else:
        # TLS cannot close only one direction.
        visitor.writer.close()
        await visitor.writer.wait_closed()


_REST: Final = 4
"""Pause after a page, as a multiple of the time it took; metrics likewise."""

_HANDSHAKES: Final = 32
"""Maximum TLS handshakes under way; beyond it the oldest is aborted."""
_HANDSHAKE_SECONDS: Final = 5.0

_logger: Final = structlog.stdlib.get_logger(__name__)

Page: TypeAlias = Callable[[Mapping[str, str]], bytes]
"""Returns the JSON of a page, given the query of its URL."""


@dataclass(frozen=True, slots=True)
class Probes:
    """Probes of a component: each lists the reasons of a failure, none if all is well."""

    health: Callable[[], Sequence[str]]
    readiness: Callable[[], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Protection:
    """TLS for everything that is served, and access control for all but probes."""

    context: ssl.SSLContext
    check: Callable[[Mapping[str, str], str], Awaitable[Decision]]
    """Decide if the sender of these headers may get a path; it must not raise."""


def parse_address(text: str, flag: str = "--address") -> tuple[str | None, int]:
    """Parse an address such as `:8942` or `[::1]:80` into host, None for all, and port."""
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
    """Serve probes, metrics and pages at the address for as long as the block lasts."""
    desk = _Desk(_probe_routes(probes), _page_routes(pages or {}), protection)
    if protection is None:
        async with _listening(address, desk):
            yield
    else:
        async with _listening_with_tls(address, desk, protection.context):
            yield


@asynccontextmanager
async def serving_probes(address: str, probes: Probes) -> AsyncIterator[None]:
    """Serve probes only, at the address for as long as the block lasts."""
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
    # Unfinished handshakes are bounded, too; a server of asyncio would accept any number.
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
"""Returns the response to a query."""


class _Desk:
    """Routes requests to probes, metrics and pages."""

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
        """Paths whose last request failed."""

    async def answer(self, request: PageRequest) -> PageResponse:
        """Return the response to a request; an error becomes status 500."""
        path = request.target.partition("?")[0]
        try:
            answer = await self._find(request)
        except Exception:
            # Log the error once, so that repeated requests do not fill the log.
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
    """Pauses between pieces of work, in proportion to the time they take."""

    def __init__(self) -> None:
        self._over_at = 0.0
        """Time on the clock of the event loop."""

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Wait until the pause after the last block is over, then run this block."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(self._over_at - loop.time(), 0))
        began = loop.time()
        try:
            yield
        finally:
            self._over_at = loop.time() + _REST * (loop.time() - began)


class _Shower:
    """Makes pages, one at a time."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._rest = _Rest()

    def route(self, page: Page) -> _Route:
        """Return the route of a page."""

        async def show(query: Mapping[str, str]) -> PageResponse:
            async with self._turn, self._rest.taken():
                return PageResponse(HTTPStatus.OK, page(query), "application/json")

        return show


class _Scrapes:
    """Makes metrics: one text for all requests that came before it was begun."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._rest = _Rest()
        self._made = 0
        """Number of texts made so far."""
        self._text = b""

    async def show(self, _: Mapping[str, str]) -> PageResponse:
        """Return metrics that were made after the request came."""
        made_before = self._made
        async with self._turn:
            if self._made == made_before:
                async with self._rest.taken():
                    self._text = format_metrics()
                self._made += 1
            return PageResponse(HTTPStatus.OK, self._text, CONTENT_TYPE_LATEST)


def format_metrics(registry: CollectorRegistry = REGISTRY) -> bytes:
    """Format all current metrics for Prometheus."""
    # The library has no counters without `_total`, which the original has: ours are untyped in the
    # library, and no other metrics are.
    return generate_latest(registry).replace(b" untyped\n", b" counter\n")


def _probe(list_reasons: Callable[[], Sequence[str]]) -> _Route:
    async def answer(_: Mapping[str, str]) -> PageResponse:
        reasons = list_reasons()
        status = HTTPStatus.INTERNAL_SERVER_ERROR if reasons else HTTPStatus.OK
        return PageResponse(status, "\n".join(reasons or ("OK",)).encode())

    return answer
