"""Connections to one HTTP server, kept open for the next request, through a proxy if need be.

The clients write requests and interpret answers. A library would cost a component as much
memory as all of its own code, and more time at its start and for each request.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import timedelta
from http import HTTPStatus
from typing import Final, cast

from trimtab.api.http.responses import Head, ResponseError, ResponseReader, TooLongError
from trimtab.cluster import address
from trimtab.cluster.address import Address

MAX_CONNECTIONS: Final = 256
"""Every watch holds one connection as long as it lasts."""
_IDLE_SECONDS: Final = 75.0
"""API servers close connections that were idle for 90 s; we close first and avoid the race."""
_KEEP_ALIVE_SECONDS: Final = 30
"""The same as in Go: it detects a peer that is gone, and keeps NAT entries alive."""
_MAX_UNREAD_BYTES: Final = 1024 * 1024
_ANY_BYTES: Final = 1 << 62


class ProxyError(ConnectionError):
    """The proxy cannot be reached, so nothing is known of the server."""


class HttpConnection(asyncio.Protocol):
    """One connection, on which one request is in flight at a time."""

    def __init__(self) -> None:
        self.trust: ssl.SSLContext | None = None
        self.was_used = False
        """True if there was a request before this one."""
        self.idle_since = 0.0
        self.transport: asyncio.Transport | None = None
        self._reader = ResponseReader()
        self._pieces: list[bytes] = []
        self._unread_bytes = 0
        self._wants_all = False
        self._most_bytes = _ANY_BYTES
        self._problem: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_open(self) -> bool:
        """True if the transport is open."""
        return self.transport is not None and not self.transport.is_closing()

    @property
    def can_be_kept(self) -> bool:
        """True if another request may follow."""
        return self.is_open and self._problem is None and self._reader.keeps_alive

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        # uvloop's transport has the same methods but not the same base class.
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take in bytes and wake the waiting reader; one that wants all is woken at the end."""
        try:
            pieces = self._reader.feed(data)
        except ResponseError as error:
            self._problem = error
            self.abort()
        else:
            self._pieces += pieces
            self._unread_bytes += len(data)
            if self._wants_all and not self._reader.is_done:
                if self._unread_bytes <= self._most_bytes:
                    return
                self._problem = TooLongError(self._most_bytes)
                self._pieces = []
                self.abort()
            # A slow reader of a watch holds the server back instead of filling our memory.
            elif self._unread_bytes > _MAX_UNREAD_BYTES and self.transport is not None:
                self.transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end of the connection and wake the waiting reader."""
        self.transport = None
        if self._problem is None and exc is not None:
            self._problem = exc
        elif self._problem is None:
            try:
                # An answer without a length ends with the connection, and only then is it complete.
                self._reader.end()
            except ResponseError as error:
                self._problem = error
        self._wake()

    def send(self, request: bytes, *, has_body: bool = True) -> None:
        """Send a whole request, whose answer is expected next."""
        transport = self.require_open()
        # A reader for each answer: nothing of an earlier one can leak into this one.
        self._reader = ResponseReader(has_body=has_body)
        self._pieces, self._unread_bytes, self._wants_all = [], 0, False
        self._most_bytes = _ANY_BYTES
        transport.write(request)

    def require_open(self) -> asyncio.Transport:
        """Return the transport; raise the problem that has ended the connection."""
        if self.transport is None or self._problem is not None:
            raise self._problem or ConnectionResetError("the connection has ended")
        return self.transport

    async def read_head(self) -> Head:
        """Return the head of the answer, as soon as it has come."""
        while self._reader.head is None:
            await self._wait()
        return self._reader.head

    async def read_all(self, most_bytes: int = _ANY_BYTES) -> bytes:
        """Return the whole body; a TooLongError if it has more than `most_bytes`."""
        self._wants_all, self._most_bytes = True, most_bytes
        # Reading may be paused since more than a stretch came before anyone asked for it.
        self._go_on()
        while not self._reader.is_done:
            await self._wait()
        return self._take()

    async def read_pieces(self, patience: timedelta) -> AsyncIterator[bytes]:
        """Yield the body as it comes; a TimeoutError if nothing comes within `patience`."""
        seconds = patience.total_seconds()
        while self._pieces or not self._reader.is_done:
            if not self._pieces:
                # For each piece, not for the whole stream: a watch lasts for an hour.
                async with asyncio.timeout(seconds):
                    await self._wait()
            if piece := self._take():
                yield piece

    def abort(self) -> None:
        """Close at once: a graceful end would wait for the server."""
        if self.transport is not None:
            self.transport.abort()

    def _take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        self._unread_bytes = 0
        self._go_on()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _go_on(self) -> None:
        if self.transport is not None and not self.transport.is_reading():
            self.transport.resume_reading()

    async def _wait(self) -> None:
        """Wait until something has come; raise the problem that keeps it from coming."""
        if self._problem is not None:
            raise self._problem
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        # The waiter may be cancelled already, as at a timeout.
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class ConnectionPool:
    """Connections to one server, each for one request at a time, and reused."""

    def __init__(
        self, server: str, *, proxy: str = "", server_name: str = "", patience: timedelta
    ) -> None:
        """Connect to the server, whose certificate may have another name."""
        self.server = address.parse_address(server)
        self._proxy = address.parse_address(proxy) if proxy else None
        self._server_name = server_name or self.server.host
        self._patience = patience
        self._reached = ""
        self._turns = asyncio.Semaphore(MAX_CONNECTIONS)
        self._idle: list[HttpConnection] = []
        self._all: set[HttpConnection] = set()

    async def close(self) -> None:
        """Close all connections."""
        for connection in self._all:
            connection.abort()
        # Transports that were aborted are closed at the next turn of the loop.
        await asyncio.sleep(0)

    def format_request(
        self, method: str, path: str, headers: Sequence[tuple[str, str]], body: bytes | None = None
    ) -> bytes:
        """Format a whole request for a path at the server."""
        lines = [("Host", self.server.authority), *headers]
        if self.server.authorization and "Authorization" not in dict(headers):
            lines.append(("Authorization", self.server.authorization))
        base = self.server.path
        if self._proxy is not None and not self.server.is_secure:
            # A plain proxy wants the whole URL in the request line (RFC 9112, section 3.2.2).
            base = str(self.server)
            lines += _proxy_authorization(self._proxy)
        if body is None:
            return _format_head(method, base + path, lines)
        lines.append(("Content-Length", str(len(body))))
        return _format_head(method, base + path, lines) + body

    async def take(self, trust: ssl.SSLContext | None) -> HttpConnection:
        """Return a connection made with this trust, for one request; give it back afterwards."""
        await self._turns.acquire()
        try:
            return self._find_idle(trust) or await self._open(trust)
        # Also a cancellation: a turn that is not given back would be lost for good.
        except BaseException:
            self._turns.release()
            raise

    def give_back(self, connection: HttpConnection) -> None:
        """Keep the connection for another request, if that is possible."""
        self._turns.release()
        if connection.can_be_kept:
            connection.was_used = True
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
            self._end_old()
        else:
            self._end(connection)

    def forget_idle(self) -> None:
        """Close all idle connections: one of them turned out to be dead."""
        for connection in self._idle:
            self._end(connection)
        self._idle.clear()

    def _find_idle(self, trust: ssl.SSLContext | None) -> HttpConnection | None:
        """Return the most recently used idle connection, so that surplus ones time out."""
        while self._idle:
            connection = self._idle.pop()
            # A connection made before the CA was replaced has been checked against the old one.
            if _is_fresh(connection) and connection.trust is trust:
                return connection
            self._end(connection)
        return None

    def _end_old(self) -> None:
        """Close idle connections that are too old to be used again."""
        while self._idle and not _is_fresh(self._idle[0]):
            self._end(self._idle.pop(0))

    def _end(self, connection: HttpConnection) -> None:
        connection.abort()
        self._all.discard(connection)

    async def _open(self, trust: ssl.SSLContext | None) -> HttpConnection:
        async with asyncio.timeout(self._patience.total_seconds()):
            if self._proxy is None:
                connection = await self._connect(self.server, trust, self._server_name)
            else:
                connection = await self._reach(self._proxy, trust)
        # Identity, not equality, is compared: each loaded CA is a context of its own.
        connection.trust = trust
        return connection

    async def _reach(self, proxy: Address, trust: ssl.SSLContext | None) -> HttpConnection:
        """Connect to the proxy, and through a tunnel to a server with TLS."""
        try:
            connection = await self._connect(proxy, None, proxy.host)
        except OSError as error:
            where = f"{proxy.host}:{proxy.port}"
            raise ProxyError(f"the proxy at {where} cannot be reached") from error
        try:
            if self.server.is_secure:
                await self._tunnel(connection, proxy, trust)
        except BaseException:
            self._end(connection)
            raise
        return connection

    async def _connect(
        self, server: Address, trust: ssl.SSLContext | None, name: str
    ) -> HttpConnection:
        # The default context trusts the CAs of the system.
        secured = (trust or ssl.create_default_context()) if server.is_secure else None
        places = await self._resolve(server)
        # Each address gets a part of the time: one may never answer.
        seconds = self._patience.total_seconds() / len(places)
        for number, place in enumerate(places, 1):
            try:
                async with asyncio.timeout(seconds):
                    transport, connection = await asyncio.get_running_loop().create_connection(
                        HttpConnection,
                        place,
                        server.port,
                        ssl=secured,
                        server_hostname=name if secured else None,
                    )
            # TimeoutError is an OSError too, so a place that does not answer is followed by the
            # next.
            except OSError:
                if number == len(places):
                    raise
            else:
                self._reached = place
                self._all.add(connection)
                _keep_alive(transport)
                return connection
        raise AssertionError("a name has no place at all")

    async def _resolve(self, server: Address) -> list[str]:
        """Resolve the host; the address that was reached last comes first."""
        found = await asyncio.get_running_loop().getaddrinfo(
            server.host, server.port, type=socket.SOCK_STREAM
        )
        places = dict.fromkeys(str(where[0]) for *_, where in found)
        # The sort is stable: the others stay in the order of the resolver.
        return sorted(places, key=lambda place: place != self._reached)

    async def _tunnel(
        self, connection: HttpConnection, proxy: Address, trust: ssl.SSLContext | None
    ) -> None:
        """Open a tunnel through the proxy to the server, and begin TLS in it."""
        where = self.server.endpoint
        lines = [("Host", where), *_proxy_authorization(proxy)]
        # No body after a successful CONNECT: what follows belongs to the tunnel (RFC 9110, 9.3.6).
        connection.send(_format_head("CONNECT", where, lines), has_body=False)
        answer = await connection.read_head()
        if answer.status != HTTPStatus.OK:
            raise ConnectionRefusedError(f"the proxy says {answer.status} {answer.reason}")
        # A proxy may say yes and hang up, or send a page that belongs to no tunnel.
        opened = connection.require_open()
        # The same protocol object goes on, now above TLS; `connection_made` is not called again.
        transport = await asyncio.get_running_loop().start_tls(
            opened,
            connection,
            trust or ssl.create_default_context(),
            server_hostname=self._server_name,
        )
        if transport is None:
            raise ConnectionResetError("the proxy has closed the tunnel")
        connection.connection_made(transport)


def _is_fresh(connection: HttpConnection) -> bool:
    """True if an idle connection can be used again."""
    waited = asyncio.get_running_loop().time() - connection.idle_since
    return connection.is_open and waited < _IDLE_SECONDS


def _proxy_authorization(proxy: Address) -> list[tuple[str, str]]:
    return [("Proxy-Authorization", proxy.authorization)] if proxy.authorization else []


def _format_head(method: str, target: str, headers: Iterable[tuple[str, str]]) -> bytes:
    lines = [f"{name}: {value}\r\n" for name, value in headers]
    return f"{method} {target} HTTP/1.1\r\n{''.join(lines)}\r\n".encode()


def _keep_alive(transport: asyncio.BaseTransport) -> None:
    plain = transport.get_extra_info("socket")
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Not every system lets us set the intervals.
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        if hasattr(socket, name):
            plain.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), _KEEP_ALIVE_SECONDS)
