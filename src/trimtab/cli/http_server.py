"""The plain HTTP server of a component: metrics for Prometheus, probes for the kubelet, pages.

It answers requests that have no body, one after the other; a whole web framework would cost more
memory than all that it shows. Whoever reaches it may ask, so metrics and pages, which may take a
while where there are many pods, never take most of a component's time. Connections, and how many
there may be, are left to `http_visits.py`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final, TypeAlias
from urllib.parse import parse_qsl

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest

from trimtab.cli.failures import FailedError
from trimtab.cli.http_visits import MAX_HEAD_BYTES, Answer, Visits
from trimtab.cli.usage import UsageError
from trimtab.core.records import dataclass

_REST: Final = 4
"""After a page so many times as long as it took no other is made; metrics likewise."""

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
    timer = asyncio.get_running_loop().time
    visits = Visits(_Desk(probes, pages or {}).answer, timer)
    try:
        server = await asyncio.start_server(visits.receive, host, port, limit=MAX_HEAD_BYTES)
    except OSError as error:
        raise FailedError(f"cannot listen on {address}: {error.strerror or error}") from error
    try:
        yield
    finally:
        server.close()
        await visits.end()


_Route: TypeAlias = Callable[[Mapping[str, str]], Awaitable[Answer]]
"""The answer to a query."""


class _Desk:
    """Where everything is answered."""

    def __init__(self, probes: Probes, pages: Mapping[str, Page]) -> None:
        shower = _Shower()
        self._routes: dict[str, _Route] = {
            "/metrics": _Scrapes().show,
            "/health-check": _probe(probes.health),
            "/readyz": _probe(probes.readiness),
            **{path: shower.route(page) for path, page in pages.items()},
        }
        self._broken: set[str] = set()
        """Pages that could not be shown when they were last asked for."""

    async def answer(self, method: str, target: str) -> Answer:
        """What is said to whoever asks for that."""
        path = target.partition("?")[0]
        try:
            answer = await self._find(method, target)
        except Exception:
            # Whoever asks again and again is not to fill the log.
            if path not in self._broken:
                _logger.exception("a page is broken", page=path)
            self._broken.add(path)
            return Answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"this page is broken: see the log\n")
        self._broken.discard(path)
        return answer

    async def _find(self, method: str, target: str) -> Answer:
        path, _, text = target.partition("?")
        route = self._routes.get(path)
        if route is None:
            return Answer(HTTPStatus.NOT_FOUND, b"there is no such page\n")
        if method not in {"GET", "HEAD"}:
            return Answer(HTTPStatus.METHOD_NOT_ALLOWED, b"pages can only be read\n")
        return await route(dict(parse_qsl(text, keep_blank_values=True)))


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

        async def show(query: Mapping[str, str]) -> Answer:
            async with self._turn, self._rest.taken():
                return Answer(HTTPStatus.OK, page(query), "application/json")

        return show


class _Scrapes:
    """Metrics: one text for all who have asked before it was begun, however many they are."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._rest = _Rest()
        self._made = 0
        """How many texts there have been."""
        self._text = b""

    async def show(self, _: Mapping[str, str]) -> Answer:
        """The metrics of a moment after this was asked for."""
        made_before = self._made
        async with self._turn:
            if self._made == made_before:
                async with self._rest.taken():
                    self._text = format_metrics()
                self._made += 1
            return Answer(HTTPStatus.OK, self._text, CONTENT_TYPE_LATEST)


def format_metrics(registry: CollectorRegistry = REGISTRY) -> bytes:
    """All metrics of this moment, as Prometheus reads them."""
    # The library has no counters without `_total`, as some of the original's are: what it knows no
    # type of is one of those.
    return generate_latest(registry).replace(b" untyped\n", b" counter\n")


def _probe(list_reasons: Callable[[], Sequence[str]]) -> _Route:
    async def answer(_: Mapping[str, str]) -> Answer:
        reasons = list_reasons()
        status = HTTPStatus.INTERNAL_SERVER_ERROR if reasons else HTTPStatus.OK
        return Answer(status, "\n".join(reasons or ("OK",)).encode())

    return answer
