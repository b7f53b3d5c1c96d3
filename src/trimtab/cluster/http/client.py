"""The HTTP client of the API server: bytes out, bytes in, and errors of our own tree.

It handles HTTP, not Kubernetes: changing credentials, a budget of requests, timeouts, and
retries where they are safe. `api/` decodes the bytes.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from http import HTTPStatus
from random import Random
from types import TracebackType
from typing import Final, Self, TypeVar
from urllib.parse import urlencode

from trimtab import __version__
from trimtab.api.http.responses import Head, TooLongError
from trimtab.api.wire import status_errors
from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.status_errors import Status
from trimtab.cluster import errors
from trimtab.cluster.auth.credentials import Connection, Identity
from trimtab.cluster.errors import ApiError, TooLargeError, UnauthorizedError, UnreachableError
from trimtab.cluster.http import retries
from trimtab.cluster.http.connections import ConnectionPool, HttpConnection
from trimtab.cluster.http.rate_limit import RequestBudget
from trimtab.cluster.http.retries import RetrySettings
from trimtab.cluster.ports import NO_TRACES, Clock, Span, Tracer


class LineError(ValueError):
    """A line that exceeds its maximum length."""


async def split_lines(chunks: AsyncIterator[bytes], *, max_bytes: int) -> AsyncIterator[bytes]:
    """Yield the lines without their ends; skip empty ones and a last one that was cut off."""
    begun: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            line = b"".join((*begun, piece))
            begun, size = [], 0
            if len(line) > max_bytes:
                raise LineError(f"a line of more than {max_bytes} bytes")
            if line:
                yield line
        # Pieces are joined once per line; joining at each chunk would copy a long line again and
        # again.
        begun.append(rest)
        size += len(rest)
        if size > max_bytes:
            raise LineError(f"a line of more than {max_bytes} bytes")


JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"

_HEADERS: Final = (
    ("User-Agent", f"trimtab/{__version__}"),
    ("Accept", JSON),
    # Inside a cluster the network is faster than any compression.
    ("Accept-Encoding", "identity"),
)
_SHOWN: Final = 200
_MAX_DIGITS: Final = 9

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Timeouts, size limits and retries of a client."""

    connect_timeout: timedelta = timedelta(seconds=10)
    request_timeout: timedelta = timedelta(seconds=30)
    """For one attempt, from the first byte sent to the last one received."""
    idle_timeout: timedelta = timedelta(minutes=3)
    """Maximum silence of a stream; the server sends bookmarks each minute."""
    max_line_bytes: int = 8 * 1024 * 1024
    """Maximum length of a line of a stream; an API server takes no object of more than 3 MiB."""
    max_body_bytes: int = 128 * 1024 * 1024
    """Maximum size of an answer: the usage of 150 000 pods, which comes in one piece."""
    max_page_bytes: int = 16 * 1024 * 1024
    """Maximum size of a page of a list: 500 pods of 32 KiB, where most have 10."""
    retries: RetrySettings = field(default_factory=RetrySettings)


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    parameters: Mapping[str, str]
    body: bytes | None = None
    content_type: str = JSON
    is_urgent: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    """Sent along with those of the identity."""
    is_exempt: bool = False
    """True if it neither waits for the budget nor takes from it."""

    @property
    def is_read(self) -> bool:
        return self.method == "GET"

    @property
    def is_repeatable(self) -> bool:
        """True if it may reach the server twice: a PUT names the version that it replaces."""
        return self.method in {"GET", "PUT", "DELETE"}

    @property
    def is_page(self) -> bool:
        """True for a list that is asked for in pages."""
        return "limit" in self.parameters

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Client:
    """Client of one API server; use it in `async with`, which closes its connections."""

    def __init__(
        self,
        connection: Connection,
        *,
        clock: Clock,
        random: Random,
        budget: RequestBudget,
        settings: ClientSettings | None = None,
        tracer: Tracer = NO_TRACES,
    ) -> None:
        self.tracer = tracer
        """Tracer of our requests, and of the work that they are part of."""
        self._connection = connection
        self._clock = clock
        self._random = random
        self._budget = budget
        self._settings = settings or ClientSettings()
        self._pool = ConnectionPool(
            connection.server,
            proxy=connection.proxy,
            server_name=connection.server_name,
            patience=self._settings.connect_timeout,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._pool.close()

    async def fetch(
        self,
        path: str,
        parameters: Mapping[str, str] | None = None,
        *,
        headers: tuple[tuple[str, str], ...] = (),
        is_urgent: bool = False,
    ) -> bytes:
        """Return the body of a GET."""
        asked = parameters or {}
        return await self._call(_Request("GET", path, asked, headers=headers, is_urgent=is_urgent))

    async def fetch_date(self, path: str) -> str:
        """Return the `Date` header of an answer of any status; empty if there is none."""
        request = _Request("GET", path, {})
        return await self._present(lambda identity: self._read_date(request, identity))

    async def post(self, path: str, body: bytes, *, is_urgent: bool = False) -> bytes:
        """Create an object from the body and return it."""
        return await self._call(_Request("POST", path, {}, body, is_urgent=is_urgent))

    async def put(self, path: str, body: bytes, *, is_urgent: bool = False) -> bytes:
        """Replace an object by the body and return it."""
        return await self._call(_Request("PUT", path, {}, body, is_urgent=is_urgent))

    async def patch(
        self, path: str, body: bytes, content_type: str = JSON_PATCH, *, is_exempt: bool = False
    ) -> bytes:
        """Patch an object and return it; an exempt patch does not wait for the budget."""
        return await self._call(
            _Request("PATCH", path, {}, body, content_type, is_exempt=is_exempt)
        )

    async def delete(self, path: str, body: bytes | None = None) -> bytes:
        """Delete the object and return the server's response; the body may hold preconditions."""
        return await self._call(_Request("DELETE", path, {}, body))

    def hurry(self) -> None:
        """Lift the rate limit; the caller then bounds the number of requests in flight."""
        self._budget.lift()

    async def stream(self, path: str, parameters: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Open a stream of lines, which lasts until the server ends it."""
        request = _Request("GET", path, parameters)
        opened = await self._present(lambda identity: self._open(request, identity))
        return self._read_lines(request, opened)

    async def _read_lines(
        self, request: _Request, connection: HttpConnection
    ) -> AsyncGenerator[bytes, None]:
        settings = self._settings
        pieces = connection.read_pieces(settings.idle_timeout)
        with _own_errors(request):
            try:
                async for line in split_lines(pieces, max_bytes=settings.max_line_bytes):
                    yield line
            finally:
                self._pool.give_back(connection)

    async def _call(self, request: _Request) -> bytes:
        """Return the body of the answer, after as many attempts as are useful."""
        # The budget is spent for each attempt: retries are requests like any other.
        attempt = 1
        while True:
            try:
                return await self._present(lambda identity: self._ask(request, identity))
            except ApiError as error:
                delay = retries.plan_retry(
                    error,
                    attempt=attempt,
                    is_read=request.is_read,
                    chance=self._random.random(),
                    settings=self._settings.retries,
                )
                if delay is None:
                    raise
            await self._clock.sleep(delay)
            attempt += 1

    async def _present(self, send: Callable[[Identity], Awaitable[_T]]) -> _T:
        """Send; if the identity or the certificate is refused, try once more with a fresh one."""
        credentials = self._connection.credentials
        identity = await credentials.present()
        try:
            return await send(identity)
        except UnauthorizedError:
            # The server has done nothing yet, so this is safe for writes too.
            await credentials.refresh(identity)
            # Without other credentials a second attempt would only be refused again.
            fresh = await credentials.present()
            if fresh is identity:
                raise
            return await send(fresh)
        except UnreachableError as error:
            if not isinstance(error.__cause__, ssl.SSLCertVerificationError):
                raise
            # The cluster's CA may have been replaced; the handshake comes before any request.
            await credentials.refresh(identity)
            fresh = await credentials.present()
            if fresh.trust is identity.trust:
                raise
            return await send(fresh)

    async def _ask(self, request: _Request, identity: Identity) -> bytes:
        """Send once and return the body of a successful answer."""
        # Before the timeout starts: waiting for the budget is not the server's fault.
        if not request.is_exempt:
            await self._budget.spend(is_urgent=request.is_urgent)
        with self._watched(request) as span, _own_errors(request):
            async with asyncio.timeout(self._settings.request_timeout.total_seconds()):
                connection = await self._send(request, identity, span)
                try:
                    return await connection.read_all(self._most_bytes(request))
                finally:
                    self._pool.give_back(connection)

    async def _read_date(self, request: _Request, identity: Identity) -> str:
        with _own_errors(request):
            async with asyncio.timeout(self._settings.request_timeout.total_seconds()):
                connection, head = await self._exchange(request, identity)
                try:
                    await connection.read_all(self._most_bytes(request))
                finally:
                    self._pool.give_back(connection)
        return head.headers.get("date", "")

    async def _open(self, request: _Request, identity: Identity) -> HttpConnection:
        """Return a connection whose answer has begun; its body may take any time."""
        await self._budget.spend()
        with self._watched(request) as span, _own_errors(request):
            async with asyncio.timeout(self._settings.idle_timeout.total_seconds()):
                return await self._send(request, identity, span)

    def _watched(self, request: _Request) -> AbstractContextManager[Span]:
        about = {"http.request.method": request.method, "url.path": request.path}
        return self.tracer.span(request.method, about)

    async def _send(self, request: _Request, identity: Identity, span: Span) -> HttpConnection:
        """Return a connection with a successful answer; the caller gives it back."""
        connection, head = await self._exchange(request, identity)
        span.note("http.response.status_code", head.status)
        if head.status < HTTPStatus.MULTIPLE_CHOICES:
            return connection
        try:
            # The Status in the body has the reason. It is read even of a stream, whose answer is
            # short.
            body = await connection.read_all(self._most_bytes(request))
        finally:
            self._pool.give_back(connection)
        raise errors.refusal(str(request), _read_refusal(head, body))

    async def _exchange(self, request: _Request, identity: Identity) -> tuple[HttpConnection, Head]:
        """Return a connection with an answer of any status."""
        message = self._format(request, identity)
        while True:
            with _own_errors(request, was_sent=False):
                connection = await self._pool.take(identity.trust)
            try:
                connection.send(message)
                return connection, await connection.read_head()
            # Also a cancellation: the connection has half an answer in it and must not be used
            # again. `can_be_kept` is false then, so `give_back` closes it.
            except BaseException as error:
                self._pool.give_back(connection)
                # The server has closed this kept connection, and perhaps the other idle ones too.
                is_stale = connection.was_used and isinstance(error, OSError)
                if not (is_stale and request.is_repeatable):
                    raise
                self._pool.forget_idle()

    def _most_bytes(self, request: _Request) -> int:
        settings = self._settings
        return settings.max_page_bytes if request.is_page else settings.max_body_bytes

    def _format(self, request: _Request, identity: Identity) -> bytes:
        path = request.path
        if request.parameters:
            path += f"?{urlencode(request.parameters)}"
        headers = [*_HEADERS, *identity.headers, *request.headers]
        if request.body is not None:
            headers.append(("Content-Type", request.content_type))
        return self._pool.format_request(request.method, path, headers, request.body)


@contextmanager
def _own_errors(request: _Request, *, was_sent: bool = True) -> Iterator[None]:
    """Turn errors of the network into errors of our own tree."""
    try:
        yield
    except TooLongError as error:
        raise TooLargeError(str(request), str(error), was_sent=was_sent) from error
    except (OSError, LineError) as error:
        raise UnreachableError(str(request), errors.describe(error), was_sent=was_sent) from error


def _read_refusal(head: Head, body: bytes) -> Status:
    """Return the reason for a refusal; a proxy may answer with something other than a Status."""
    try:
        status = status_errors.decode_status(body)
    except DecodeError:
        # Load balancers and proxies answer in HTML or plain text.
        status = Status()
    message = status.message or body[:_SHOWN].decode(errors="replace") or head.reason
    wanted = _parse_seconds(head.headers.get("retry-after", "")) or status.retry_after
    return replace(status, code=head.status, message=message, retry_after=wanted)


def _parse_seconds(text: str) -> timedelta | None:
    """Return the delay that a header asks for; None for a date, which no API server sends."""
    # `isdigit` alone is true for digits of other scripts, which `int` would read as well.
    is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    return timedelta(seconds=int(text)) if is_number else None
