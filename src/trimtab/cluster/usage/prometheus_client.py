"""Queries to a Prometheus: credentials, and bounds on what is in flight.

The number of queries in flight is bounded. An answer that is too large is not read to its end.
`prometheus.py` writes the queries.
"""

import asyncio
import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar
from urllib.parse import urlencode

from trimtab import __version__
from trimtab.api.usage import prometheus
from trimtab.api.usage.prometheus import LabelledSeries, NewestValues
from trimtab.api.wire.codec import DecodeError
from trimtab.cluster import address, errors
from trimtab.cluster.auth import credentials
from trimtab.cluster.auth.credentials import Credentials, FixedCredentials, Identity, TokenFile
from trimtab.cluster.errors import HistoryError, TooMuchHistoryError
from trimtab.cluster.http.connections import ConnectionPool, HttpConnection
from trimtab.cluster.ports import Clock
from trimtab.core.model import validation

_Answer = TypeVar("_Answer")

_HEADERS: Final = (("User-Agent", f"trimtab/{__version__}"), ("Accept-Encoding", "identity"))
_CONNECT_PATIENCE: Final = timedelta(seconds=10)
_SHOWN: Final = 200
_TOO_MUCH: Final = ("too many", "exceed", "hit the max", "cannot select more than")
"""Words of Prometheus, Thanos, Mimir and VictoriaMetrics for queries that are too large."""
_TOO_MUCH_STATUSES: Final = (
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    # Prometheus: a valid query that could not be executed.
    HTTPStatus.UNPROCESSABLE_ENTITY,
)


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """Address of Prometheus, and bounds on queries."""

    address: str = "http://prometheus.monitoring.svc"
    timeout: timedelta = timedelta(minutes=5)
    most_queries: int = 4
    """Maximum number of queries in flight."""
    most_bytes: int = 32 * 2**20
    """Maximum size of an answer; a larger range is split into parts."""

    def __post_init__(self) -> None:
        validation.require_interval("timeout", self.timeout)
        validation.require_at_least("most_queries", self.most_queries, 1)
        validation.require_at_least("most_bytes", self.most_bytes, 1)


@dataclass(frozen=True, slots=True)
class PrometheusAccess:
    """Credentials for Prometheus; of several the first that is given counts."""

    token: str = ""
    token_file: str = ""
    """It is read again as it changes, and wins over the token."""
    username: str = ""
    password: str = ""
    is_insecure: bool = False
    """True to accept any certificate."""

    def credentials(self, clock: Clock) -> Credentials:
        """Return the credentials; raise a CredentialsError if a file is missing."""
        bare = Identity(credentials.trust_anyone() if self.is_insecure else None)
        if self.token_file:
            return TokenFile(Path(self.token_file), bare, clock)
        if self.token:
            return FixedCredentials(credentials.with_token(bare, self.token, field="token"))
        if self.username:
            pair = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
            return FixedCredentials(Identity(bare.trust, (("Authorization", f"Basic {pair}"),)))
        return FixedCredentials(bare)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request that was answered."""

    status: int
    method: str
    span: timedelta


class QueryClient:
    """Client of one Prometheus; use it in `async with`, as often as needed."""

    def __init__(
        self,
        settings: QuerySettings,
        access: PrometheusAccess,
        *,
        clock: Clock,
        note: Callable[[Exchange], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._access = access
        self._clock = clock
        self._note = note
        self._turns = asyncio.Semaphore(settings.most_queries)
        self._credentials: Credentials | None = None
        self._pool: ConnectionPool | None = None

    @property
    def shown_address(self) -> str:
        """The address without the password that it may hold."""
        return str(address.parse_address(self._settings.address))

    async def __aenter__(self) -> Self:
        self._pool = ConnectionPool(self._settings.address, patience=_CONNECT_PATIENCE)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pool, self._pool = self._pool, None
        assert pool is not None
        await pool.close()

    async def query(self, kind: str, parameters: Mapping[str, str]) -> Sequence[LabelledSeries]:
        """Return the series of a query; decoding is part of its turn, which bounds memory."""
        return await self._query(kind, parameters, prometheus.decode_series)

    async def query_newest(self, query: str) -> NewestValues:
        """Return the present values of a query; a series that makes no sense is left out."""
        return await self._query("query", {"query": query}, prometheus.decode_newest)

    async def _query(
        self, kind: str, parameters: Mapping[str, str], decode: Callable[[bytes], _Answer]
    ) -> _Answer:
        async with self._turns:
            try:
                return decode(await self._fetch(f"/api/v1/{kind}", parameters))
            except DecodeError as error:
                raise HistoryError(f"{self.shown_address}: not an answer: {error}") from error

    async def _fetch(self, path: str, parameters: Mapping[str, str]) -> bytes:
        if self._credentials is None:
            self._credentials = self._access.credentials(self._clock)
        identity = await self._credentials.present()
        status, body = await self._send(path, parameters, identity)
        if status == HTTPStatus.UNAUTHORIZED:
            await self._credentials.refresh(identity)
            fresh = await self._credentials.present()
            if fresh is not identity:
                status, body = await self._send(path, parameters, fresh)
        if status != HTTPStatus.OK:
            raise self._refusal(status, body)
        return body

    async def _send(
        self, path: str, parameters: Mapping[str, str], identity: Identity
    ) -> tuple[int, bytes]:
        assert self._pool is not None
        request = self._pool.format_request(
            "GET", f"{path}?{urlencode(parameters)}", [*_HEADERS, *identity.headers]
        )
        with self._own_errors():
            async with asyncio.timeout(self._settings.timeout.total_seconds()):
                return await self._exchange(self._pool, request, identity)

    async def _exchange(
        self, pool: ConnectionPool, request: bytes, identity: Identity
    ) -> tuple[int, bytes]:
        begin = self._clock.now()
        # A kept connection may be dead, and queries are rare.
        pool.forget_idle()
        connection = await pool.take(identity.trust)
        try:
            connection.send(request)
            head = await connection.read_head()
            self._note(Exchange(head.status, "get", self._clock.now() - begin))
            return head.status, await self._read(connection)
        finally:
            pool.give_back(connection)

    async def _read(self, connection: HttpConnection) -> bytes:
        body = bytearray()
        async for piece in connection.read_pieces(self._settings.timeout):
            body += piece
            if len(body) > self._settings.most_bytes:
                most = self._settings.most_bytes
                raise TooMuchHistoryError(f"{self.shown_address}: more than {most} bytes at once")
        return bytes(body)

    def _refusal(self, status: int, body: bytes) -> HistoryError:
        refusal = prometheus.decode_query_refusal(body)
        message = refusal.message or body[:_SHOWN].decode(errors="replace") or str(status)
        is_too_much = status in _TOO_MUCH_STATUSES or refusal.kind == "timeout"
        is_too_much |= any(text in refusal.message for text in _TOO_MUCH)
        kind = TooMuchHistoryError if is_too_much else HistoryError
        return kind(f"{self.shown_address}: {message} ({status})")

    @contextmanager
    def _own_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise HistoryError(f"{self.shown_address}: {errors.describe(error)}") from error
