"""The one client of the API server: bytes out, bytes in, and errors of our own tree.

It knows HTTP, not Kubernetes: credentials that change, a budget of requests, timeouts, retries
where they are safe. What the bytes mean is for `api/` to say.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from http import HTTPStatus
from random import Random
from types import TracebackType
from typing import Final, Self

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from trimtab import __version__
from trimtab.api.decoding import DecodeError
from trimtab.api.statuses import Status, decode_status
from trimtab.cluster import errors, retries
from trimtab.cluster.budget import RequestBudget
from trimtab.cluster.credentials import Connection, Identity
from trimtab.cluster.errors import ApiError, UnauthorizedError, UnreachableError
from trimtab.cluster.lines import LineError, split_lines
from trimtab.cluster.ports import Clock
from trimtab.cluster.retries import RetrySettings

JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"

_HEADERS: Final = {
    "User-Agent": f"trimtab/{__version__}",
    "Accept": JSON,
    # Inside a cluster the network is faster than any compression.
    "Accept-Encoding": "identity",
}
_MAX_CONNECTIONS: Final = 256
_SHOWN: Final = 200
_MAX_DIGITS: Final = 9


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How patient a client is."""

    connect_timeout: timedelta = timedelta(seconds=10)
    request_timeout: timedelta = timedelta(seconds=30)
    """For one attempt, from the first byte out to the last one in."""
    idle_timeout: timedelta = timedelta(minutes=3)
    """How long a stream may be silent; the server sends bookmarks each minute."""
    max_line_bytes: int = 32 * 1024 * 1024
    """The longest line of a stream; etcd keeps no object of more than 1.5 MiB."""
    retries: RetrySettings = field(default_factory=RetrySettings)


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    parameters: Mapping[str, str]
    body: bytes | None = None
    content_type: str = JSON
    is_urgent: bool = False
    is_exempt: bool = False
    """Whether it neither waits for the budget nor takes from it."""
    is_stream: bool = False

    @property
    def is_read(self) -> bool:
        return self.method == "GET"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Client:
    """Talks to one API server; use it in `async with`, which closes its connections."""

    def __init__(
        self,
        connection: Connection,
        *,
        clock: Clock,
        random: Random,
        budget: RequestBudget,
        settings: ClientSettings | None = None,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._random = random
        self._budget = budget
        self._settings = settings or ClientSettings()
        # On a kept connection that turns out to be dead, the library itself repeats GET, PUT and
        # DELETE once. That is safe: what we PUT names the version that it replaces.
        self._session = aiohttp.ClientSession(
            headers=_HEADERS,
            cookie_jar=aiohttp.DummyCookieJar(),
            # Every watch holds a connection as long as it lasts.
            connector=aiohttp.TCPConnector(limit=_MAX_CONNECTIONS),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.close()
        # Transports that were aborted are closed at the next turn of the loop.
        await asyncio.sleep(0)

    async def fetch(
        self, path: str, parameters: Mapping[str, str] | None = None, *, is_urgent: bool = False
    ) -> bytes:
        """What the path shows."""
        return await self._call(_Request("GET", path, parameters or {}, is_urgent=is_urgent))

    async def post(self, path: str, body: bytes, *, is_urgent: bool = False) -> bytes:
        """The object as it was created from the body."""
        return await self._call(_Request("POST", path, {}, body, is_urgent=is_urgent))

    async def put(self, path: str, body: bytes, *, is_urgent: bool = False) -> bytes:
        """The object as the body replaced it."""
        return await self._call(_Request("PUT", path, {}, body, is_urgent=is_urgent))

    async def patch(
        self, path: str, body: bytes, content_type: str = JSON_PATCH, *, is_exempt: bool = False
    ) -> bytes:
        """The object as the patch left it; one that is exempt is not held up by the budget."""
        return await self._call(
            _Request("PATCH", path, {}, body, content_type, is_exempt=is_exempt)
        )

    async def delete(self, path: str) -> bytes:
        """What the server says of the deletion."""
        return await self._call(_Request("DELETE", path, {}))

    def hurry(self) -> None:
        """Keep to no budget from now on; whoever asks for that bounds what is under way at once."""
        self._budget.lift()

    async def stream(self, path: str, parameters: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """The lines of an answer that has begun, and goes on until the server ends it."""
        request = _Request("GET", path, parameters, is_stream=True)
        return self._read_lines(request, await self._open(request))

    async def _read_lines(
        self, request: _Request, response: aiohttp.ClientResponse
    ) -> AsyncGenerator[bytes, None]:
        chunks = response.content.iter_any()
        with _own_errors(request):
            try:
                async for line in split_lines(chunks, max_bytes=self._settings.max_line_bytes):
                    yield line
            finally:
                _abort(response)

    async def _call(self, request: _Request) -> bytes:
        """The body of the answer, after as many attempts as are worth it."""
        attempt = 1
        while True:
            try:
                return await self._attempt(request)
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

    async def _attempt(self, request: _Request) -> bytes:
        response = await self._open(request)
        with _own_errors(request):
            async with response:
                return await response.read()

    async def _open(self, request: _Request) -> aiohttp.ClientResponse:
        """The answer to a request that the server did not refuse; its body is still to come."""
        credentials = self._connection.credentials
        identity = await credentials.present()
        try:
            return await self._send(request, identity)
        except UnauthorizedError:
            # Nothing was done yet, so this is safe for writes too.
            await credentials.refresh(identity)
            fresh = await credentials.present()
            if fresh is identity:
                raise
            return await self._send(request, fresh)

    async def _send(self, request: _Request, identity: Identity) -> aiohttp.ClientResponse:
        if not request.is_exempt:
            await self._budget.spend(is_urgent=request.is_urgent)
        connection = self._connection
        url = URL(connection.server + request.path, encoded=True)
        headers = CIMultiDict(identity.headers)
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        with _own_errors(request):
            response = await self._session.request(
                request.method,
                url.update_query(request.parameters),
                data=request.body,
                headers=headers,
                timeout=self._patience(request),
                # Whoever can redirect us would be shown our credentials.
                allow_redirects=False,
                ssl=identity.trust or True,
                server_hostname=connection.server_name or None,
                proxy=connection.proxy or None,
            )
            if response.status < HTTPStatus.MULTIPLE_CHOICES:
                return response
            async with response:
                body = await response.read()
        raise errors.refusal(str(request), _read_refusal(response, body))

    def _patience(self, request: _Request) -> aiohttp.ClientTimeout:
        settings = self._settings
        connect = settings.connect_timeout.total_seconds()
        if request.is_stream:
            idle = settings.idle_timeout.total_seconds()
            return aiohttp.ClientTimeout(sock_connect=connect, sock_read=idle)
        total = settings.request_timeout.total_seconds()
        return aiohttp.ClientTimeout(total=total, sock_connect=connect)


@contextmanager
def _own_errors(request: _Request) -> Iterator[None]:
    """Turn what the library raises into errors of our own tree."""
    try:
        yield
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise UnreachableError(str(request), _tell(error), was_sent=False) from error
    except (aiohttp.ClientError, OSError, LineError) as error:
        raise UnreachableError(str(request), _tell(error)) from error


def _tell(error: Exception) -> str:
    # Some errors of the library have no text at all.
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def _abort(response: aiohttp.ClientResponse) -> None:
    """Leave an answer, and cut its connection if it was not read to its end.

    Closing that politely would wait for the server's last words after everybody here has left.
    """
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


def _read_refusal(response: aiohttp.ClientResponse, body: bytes) -> Status:
    """Why the server refused; a proxy between us may answer with something other than a Status."""
    try:
        status = decode_status(body)
    except DecodeError:
        status = Status()
    message = status.message or body[:_SHOWN].decode(errors="replace") or response.reason or ""
    wanted = _parse_seconds(response.headers.get("Retry-After", "")) or status.retry_after
    return replace(status, code=response.status, message=message, retry_after=wanted)


def _parse_seconds(text: str) -> timedelta | None:
    """The delay that a header asks for; None for a date, which no API server sends."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    return timedelta(seconds=int(text)) if is_number else None
