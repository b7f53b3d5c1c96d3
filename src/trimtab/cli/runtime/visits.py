"""Connections of the pages' server: limited in number, in time, and in answers that wait.

A connection gets its requests answered one after the other. Any client that reaches the address
may connect, so the connection that was awaited longest makes room for a new one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from typing import Final, TypeAlias

from trimtab.api.http.requests import MAX_HEAD_BYTES, HttpFlaw, HttpRequest, RequestReader
from trimtab.core.webhook import load_shedding

_LAST_WORDS: Final = timedelta(seconds=1)
"""Time in which the client may read why its request was refused."""
_PIECE_BYTES: Final = 64 * 1024
"""Bytes written at once, so that no connection buffers a copy of the whole answer."""
_MAX_BODY_BYTES: Final = 16 * 1024
"""Maximum size of a request's body, which no page uses."""


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


_REASONS: Final = {
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: b"the head of the request is above 16 KiB\n",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: b"the body of the request is above 16 KiB\n",
}
_MALFORMED: Final = b"the request can be understood in more than one way\n"

Answering: TypeAlias = Callable[[HttpRequest], Awaitable[PageResponse]]
"""Returns the response to a request; it must not raise."""


@dataclass(slots=True, eq=False)
class _Visitor:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    awaited_since: float | None
    requests: RequestReader = field(default_factory=lambda: RequestReader(_MAX_BODY_BYTES))
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
            visitor.requests.close()
            # `_show_out` may have removed it already.
            self._visitors.pop(visitor, None)

    async def _attend(self, visitor: _Visitor) -> bool:
        """Answer one request; return True if another may follow."""
        request = await self._hear(visitor)
        if isinstance(request, HttpFlaw):
            reason = _REASONS.get(request.status, _MALFORMED)
            await self._refuse(visitor, PageResponse(request.status, reason))
            return False
        # While the answer is made, the client waits for us and not we for the client.
        visitor.awaited_since = None
        answer = await self._answer(request)
        visitor.awaited_since = self._timer()
        visitor.unread = b"" if request.method == "HEAD" else answer.body
        self._limit_unread(visitor)
        async with asyncio.timeout(self._limits.idle_time.total_seconds()):
            await _send(visitor, answer.format_head(is_last=not request.keeps_alive))
            if not request.keeps_alive:
                await _part(visitor)
        return request.keeps_alive

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

    async def _hear(self, visitor: _Visitor) -> HttpRequest | HttpFlaw:
        """Return the next request, or the reason to refuse it."""
        # Yield to other connections: a client may send a thousand requests in a row.
        await asyncio.sleep(0)
        # An idle connection may stay for minutes. A request that has begun has to end soon, or slow
        # clients could take all places.
        if not visitor.requests.is_amid_request:
            async with asyncio.timeout(self._limits.idle_time.total_seconds()):
                await _listen(visitor)
        visitor.awaited_since = self._timer()
        async with asyncio.timeout(self._limits.request_time.total_seconds()):
            while (found := visitor.requests.read()) is None:
                await _listen(visitor)
        return found

    def _limit_unread(self, newest: _Visitor) -> None:
        """Close the connections that have read longest, until unread answers fit the limit."""
        while _count_bytes(each.unread for each in self._visitors) > self._limits.unread_bytes:
            # The newest client had no time to read yet.
            others = (each for each in self._visitors if each.unread and each is not newest)
            slowest = load_shedding.find_longest_awaited(others)
            if slowest is None:
                return
            self._show_out(slowest)


async def _listen(visitor: _Visitor) -> None:
    piece = await visitor.reader.read(MAX_HEAD_BYTES)
    if not piece:
        raise EOFError
    visitor.requests.feed(piece)


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
