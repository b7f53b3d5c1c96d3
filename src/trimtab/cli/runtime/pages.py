"""Probes, metrics and pages of a component: routes from requests to answers.

Any client that reaches the address may ask, and pages are slow where there are many pods. So
metrics and pages never take most of a component's time. With a `Protection` metrics and pages are
served to callers with the right to read them. Probes stay open: a kubelet has no token.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, TypeAlias, assert_never
from urllib.parse import parse_qsl

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest

from trimtab.api.http.requests import HttpRequest
from trimtab.cli.runtime.visits import PageResponse
from trimtab.core.webhook.page_access import Access, Decision

_REST: Final = 4
"""Pause after a page, as a multiple of the time it took; metrics likewise."""

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


Route: TypeAlias = Callable[[Mapping[str, str]], Awaitable[PageResponse]]
"""Returns the response to a query."""


class Router:
    """Routes requests to probes, metrics and pages."""

    def __init__(
        self,
        probes: Mapping[str, Route],
        pages: Mapping[str, Route],
        protection: Protection | None = None,
    ) -> None:
        self._routes = {**probes, **pages}
        self._protected = frozenset(pages) if protection is not None else frozenset()
        self._protection = protection
        self._broken: set[str] = set()
        """Paths whose last request failed."""

    async def answer(self, request: HttpRequest) -> PageResponse:
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

    async def _find(self, request: HttpRequest) -> PageResponse:
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
        # No answer from the API server grants nothing, but the caller may try again.
        case Access.UNDECIDED | Access.GRANTED:
            status = HTTPStatus.SERVICE_UNAVAILABLE
        case _:
            assert_never(decision.access)
    return PageResponse(status, f"{decision.explain(path)}\n".encode("utf-8", "replace"))


def route_probes(probes: Probes) -> dict[str, Route]:
    """Return the routes of the probes by path."""
    return {"/health-check": _probe(probes.health), "/readyz": _probe(probes.readiness)}


def route_pages(pages: Mapping[str, Page]) -> dict[str, Route]:
    """Return the routes of metrics and pages by path."""
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
            # In `finally`, since a page that fails has taken time as well.
            self._over_at = loop.time() + _REST * (loop.time() - began)


class _Shower:
    """Makes pages, one at a time."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._rest = _Rest()

    def route(self, page: Page) -> Route:
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
            # There is no task switch between making a text and counting it. So a text that was
            # counted since then was begun after this request came.
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


def _probe(list_reasons: Callable[[], Sequence[str]]) -> Route:
    async def answer(_: Mapping[str, str]) -> PageResponse:
        reasons = list_reasons()
        status = HTTPStatus.INTERNAL_SERVER_ERROR if reasons else HTTPStatus.OK
        return PageResponse(status, "\n".join(reasons or ("OK",)).encode())

    return answer
