"""The plain HTTP server of a component: metrics for Prometheus, probes for the kubelet, pages.

It answers requests that have no body, one after the other; a whole web framework would cost more
memory than all that it shows. Whoever reaches it may ask, so pages, which may take a while where
there are many pods, never take most of a component's time.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Final, TypeAlias
from urllib.parse import parse_qsl

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest

from trimtab.cli.failures import FailedError
from trimtab.cli.usage import UsageError

_MAX_HEAD_BYTES: Final = 16 * 1024
_MAX_VISITORS: Final = 100
_IDLE: Final = timedelta(minutes=2)
"""How long a visitor may be silent, or slow; Prometheus comes each minute, or more often."""
_REST: Final = 4
"""After a page so many times as long as it took no other is made."""

_logger: Final = structlog.stdlib.get_logger(__name__)

Page: TypeAlias = Callable[[Mapping[str, str]], bytes]
"""The JSON that a page shows, given the query of its address."""


@dataclass(frozen=True, slots=True)
class Probes:
    """What a component says of itself: reasons why it is not well, none if it is."""

    health: Callable[[], Sequence[str]]
    readiness: Callable[[], Sequence[str]]


def parse_address(text: str) -> tuple[str | None, int]:
    """The host, or None for all, and the port of an address such as `:8942` or `[::1]:80`."""
    host, colon, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and int(port) < 1 << 16
    if not colon or not is_port or (":" in host and not host.startswith("[")):
        raise UsageError(f"--address: {text!r} is not of the form host:port")
    return host.strip("[]") or None, int(port)


@asynccontextmanager
async def serving(
    address: str, probes: Probes, pages: Mapping[str, Page] | None = None
) -> AsyncIterator[None]:
    """Answer at the address for as long as the block lasts."""
    host, port = parse_address(address)
    routes: dict[str, _Route] = {
        "/metrics": _show_metrics,
        "/health-check": _probe(probes.health),
        "/readyz": _probe(probes.readiness),
    }
    visits = _Visits(routes, pages or {})
    try:
        server = await asyncio.start_server(visits.receive, host, port, limit=_MAX_HEAD_BYTES)
    except OSError as error:
        raise FailedError(f"cannot listen on {address}: {error.strerror or error}") from error
    try:
        yield
    finally:
        server.close()
        await visits.end()


@dataclass(frozen=True, slots=True)
class _Answer:
    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"

    def format(self, *, is_last: bool, is_head: bool) -> bytes:
        """The bytes that are sent."""
        closing = "Connection: close\r\n" if is_last else ""
        head = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\n"
            f"Content-Type: {self.content_type}\r\nContent-Length: {len(self.body)}\r\n"
            f"{closing}\r\n"
        )
        return head.encode("ascii") + (b"" if is_head else self.body)


_Route: TypeAlias = Callable[[Mapping[str, str]], _Answer]
"""The answer to a query."""


class _Visits:
    """Whoever is connected at the moment."""

    def __init__(self, routes: Mapping[str, _Route], pages: Mapping[str, Page]) -> None:
        self._routes = routes
        self._pages = pages
        self._turn = asyncio.Lock()
        self._rested_at = 0.0
        """When the next page may be made, on the clock of the event loop."""
        self._broken: set[str] = set()
        """Pages that could not be shown when they were last asked for."""
        self._tasks: set[asyncio.Task[None]] = set()

    def receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer somebody until they leave, unless there are too many already."""
        if len(self._tasks) >= _MAX_VISITORS:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """Show everybody out."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                while await self._answer(reader, writer):
                    pass
        finally:
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether another may follow."""
        async with asyncio.timeout(_IDLE.total_seconds()):
            head = await reader.readuntil(b"\r\n\r\n")
        line, _, rest = head.decode("latin-1").partition("\r\n")
        method, _, target = line.partition(" ")
        target, _, version = target.rpartition(" ")
        headers = rest.lower()
        # What has a body would have to be read to its end, and nobody here has use for it.
        has_body = "content-length:" in headers or "transfer-encoding:" in headers
        is_last = has_body or "connection: close" in headers or version != "HTTP/1.1"
        answer = await self._attempt(method, target)
        writer.write(answer.format(is_last=is_last, is_head=method == "HEAD"))
        async with asyncio.timeout(_IDLE.total_seconds()):
            await writer.drain()
            if is_last and writer.can_write_eof():
                writer.write_eof()
                # To end it at once would throw away what the other side has not read yet.
                while await reader.read(_MAX_HEAD_BYTES):
                    pass
        return not is_last

    async def _attempt(self, method: str, target: str) -> _Answer:
        path = target.partition("?")[0]
        try:
            answer = await self._find(method, target)
        except Exception:
            # Whoever asks again and again is not to fill the log.
            if path not in self._broken:
                _logger.exception("a page is broken", page=path)
            self._broken.add(path)
            return _Answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"this page is broken: see the log\n")
        self._broken.discard(path)
        return answer

    async def _find(self, method: str, target: str) -> _Answer:
        path, _, text = target.partition("?")
        query = dict(parse_qsl(text, keep_blank_values=True))
        route, page = self._routes.get(path), self._pages.get(path)
        if route is None and page is None:
            return _Answer(HTTPStatus.NOT_FOUND, b"there is no such page\n")
        if method not in {"GET", "HEAD"}:
            return _Answer(HTTPStatus.METHOD_NOT_ALLOWED, b"pages can only be read\n")
        if page is not None:
            return await self._show(page, query)
        assert route is not None
        return route(query)

    async def _show(self, page: Page, query: Mapping[str, str]) -> _Answer:
        """What a page shows, once the last one has been rested from."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            await asyncio.sleep(max(self._rested_at - loop.time(), 0))
            began = loop.time()
            try:
                return _Answer(HTTPStatus.OK, page(query), "application/json")
            finally:
                self._rested_at = loop.time() + _REST * (loop.time() - began)


def format_metrics(registry: CollectorRegistry = REGISTRY) -> bytes:
    """All metrics of this moment, as Prometheus reads them."""
    # The library has no counters without `_total`, as some of the original's are: what it knows no
    # type of is one of those.
    return generate_latest(registry).replace(b" untyped\n", b" counter\n")


def _show_metrics(_: Mapping[str, str]) -> _Answer:
    return _Answer(HTTPStatus.OK, format_metrics(), CONTENT_TYPE_LATEST)


def _probe(list_reasons: Callable[[], Sequence[str]]) -> _Route:
    def answer(_: Mapping[str, str]) -> _Answer:
        reasons = list_reasons()
        status = HTTPStatus.INTERNAL_SERVER_ERROR if reasons else HTTPStatus.OK
        return _Answer(status, "\n".join(reasons or ("OK",)).encode())

    return answer
