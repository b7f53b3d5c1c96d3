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
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final, TypeAlias, assert_never
from urllib.parse import parse_qsl

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest

from trimtab.admission.accepting import Door, Handshakes
from trimtab.admission.http_requests import MAX_HEAD_BYTES
from trimtab.cli import listening
from trimtab.cli.http_visits import TLS_LIMITS, Answer, Request, Visits
from trimtab.cli.usage import UsageError
from trimtab.core.page_access import Access, Decision
from trimtab.core.records import dataclass

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
        raise listening.blame(address, error) from error
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
    door = Door(receive, context, Handshakes(_HANDSHAKES, _HANDSHAKE_SECONDS, lambda: None))
    opened = asyncio.create_task(door.open(listening.bind(host or "", port), closing))
    try:
        yield
    finally:
        closing.set()
        await opened
        await visits.end()


_Route: TypeAlias = Callable[[Mapping[str, str]], Awaitable[Answer]]
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

    async def answer(self, request: Request) -> Answer:
        """What is said to whoever asks for that."""
        path = request.target.partition("?")[0]
        try:
            answer = await self._find(request)
        except Exception:
            # Whoever asks again and again is not to fill the log.
            if path not in self._broken:
                _logger.exception("a page is broken", page=path)
            self._broken.add(path)
            return Answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"this page is broken: see the log\n")
        self._broken.discard(path)
        return answer

    async def _find(self, request: Request) -> Answer:
        path, _, text = request.target.partition("?")
        route = self._routes.get(path)
        if route is None:
            return Answer(HTTPStatus.NOT_FOUND, b"there is no such page\n")
        if request.method not in {"GET", "HEAD"}:
            return Answer(HTTPStatus.METHOD_NOT_ALLOWED, b"pages can only be read\n")
        if self._protection is not None and path in self._protected:
            decision = await self._protection.check(request.headers, path)
            if decision.access is not Access.GRANTED:
                return _refuse(decision, path)
        return await route(dict(parse_qsl(text, keep_blank_values=True)))


def _refuse(decision: Decision, path: str) -> Answer:
    match decision.access:
        case Access.UNKNOWN:
            status = HTTPStatus.UNAUTHORIZED
        case Access.FORBIDDEN:
            status = HTTPStatus.FORBIDDEN
        case Access.UNDECIDED | Access.GRANTED:
            status = HTTPStatus.SERVICE_UNAVAILABLE
        case _:
            assert_never(decision.access)
    return Answer(status, f"{decision.explain(path)}\n".encode("utf-8", "replace"))


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
