"""Whoever is connected to the plain HTTP server of a component, and what that may cost.

A kubelet restarts a component whose probes it cannot place, so there is always room for one more:
who is silent, sends half a request or does not read its answer leaves when others come, and after a
while in any case. What is answered is left to `http_server.py`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from datetime import timedelta
from http import HTTPStatus
from typing import Final, TypeAlias

from trimtab.admission.http_requests import MAX_HEAD_BYTES, has_stray
from trimtab.core.crowding import find_longest_awaited
from trimtab.core.records import dataclass

_HEAD_END: Final = b"\r\n\r\n"
_LAST_WORDS: Final = timedelta(seconds=1)
"""Time in which the other side may read why its request was refused."""
_PIECE_BYTES: Final = 64 * 1024
"""So much of an answer is written at once: no visitor has a copy of all that it has to read."""


@dataclass(frozen=True, slots=True)
class VisitLimits:
    """What one server bears."""

    visitors: int = 100
    idle_time: timedelta = timedelta(minutes=2)
    """How long one may be silent, or read an answer; Prometheus comes each minute, or oftener."""
    request_time: timedelta = timedelta(seconds=10)
    """How long a request may take to come, from its first byte on."""
    unread_bytes: int = 32 * 1024 * 1024
    """So much is kept of answers that are not read yet, of all visitors together."""


USUAL_LIMITS: Final = VisitLimits()
TLS_LIMITS: Final = VisitLimits(visitors=50)
"""TLS buffers half a megabyte per connection."""


@dataclass(frozen=True, slots=True)
class Request:
    """The head of a request."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By their names in lower case."""
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent to whoever asked."""

    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"

    def format_head(self, *, is_last: bool) -> bytes:
        """What comes before the body."""
        closing = "Connection: close\r\n" if is_last else ""
        if self.status is HTTPStatus.UNAUTHORIZED:
            closing += "WWW-Authenticate: Bearer\r\n"
        head = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\n"
            f"Content-Type: {self.content_type}\r\nContent-Length: {len(self.body)}\r\n"
            f"{closing}\r\n"
        )
        return head.encode("ascii")


_MALFORMED: Final = Answer(
    HTTPStatus.BAD_REQUEST, b"the head of the request holds a bare CR, a bare LF or NUL\n"
)
_TOO_LONG: Final = Answer(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, b"the head of the request is above 16 KiB\n"
)

Answering: TypeAlias = Callable[[Request], Awaitable[Answer]]
"""The answer to a request; it must not raise."""


@dataclass(slots=True, eq=False)
class _Visitor:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    awaited_since: float | None
    heard: bytearray = field(default_factory=bytearray)
    """Bytes that it has sent and that belong to no whole head yet."""
    unread: bytes = b""
    """The body that it has not read to its end."""


class Visits:
    """Whoever is connected at the moment."""

    def __init__(
        self, answer: Answering, timer: Callable[[], float], limits: VisitLimits = USUAL_LIMITS
    ) -> None:
        self._answer = answer
        self._timer = timer
        self._limits = limits
        self._visitors: dict[_Visitor, asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer somebody until they leave, or have to make room."""
        if len(self._visitors) >= self._limits.visitors:
            # Where all of them wait for us, they wait for pages, and a probe is more urgent.
            self._show_out(find_longest_awaited(self._visitors) or next(iter(self._visitors)))
        visitor = _Visitor(reader, writer, self._timer())
        self._visitors[visitor] = asyncio.create_task(self._serve(visitor))

    async def end(self) -> None:
        """Show everybody out."""
        for visitor in list(self._visitors):
            self._show_out(visitor)
        await asyncio.gather(*self._leaving, return_exceptions=True)

    def _show_out(self, visitor: _Visitor) -> None:
        task = self._visitors.pop(visitor)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
        # Not left to the task, which may not even have begun.
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
        if isinstance(head, Answer):
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

    async def _refuse(self, visitor: _Visitor, answer: Answer) -> None:
        """Say why this is the end, and throw away what still comes until that was read.

        Ending the connection at once would reset it, and the other side might never see why.
        """
        visitor.awaited_since = self._timer()
        visitor.unread = answer.body
        async with asyncio.timeout(_LAST_WORDS.total_seconds()):
            await _send(visitor, answer.format_head(is_last=True))
            if visitor.writer.can_write_eof():
                visitor.writer.write_eof()
            while await visitor.reader.read(MAX_HEAD_BYTES):
                pass

    async def _hear(self, visitor: _Visitor) -> bytes | Answer:
        """Return the head of the next request, or the answer to one that nothing can follow."""
        # Who sends a thousand requests in a row is not the only one to be heard.
        await asyncio.sleep(0)
        if not visitor.heard:
            async with asyncio.timeout(self._limits.idle_time.total_seconds()):
                await _listen(visitor)
        visitor.awaited_since = self._timer()
        async with asyncio.timeout(self._limits.request_time.total_seconds()):
            scanned = 0
            while (head := _take_head(visitor.heard, scanned)) is None:
                # A head that comes byte by byte must not be read from its beginning each time.
                scanned = max(len(visitor.heard) - len(_HEAD_END), 0)
                await _listen(visitor)
        return head

    def _limit_unread(self, newest: _Visitor) -> None:
        """Show those out who have been reading longest, until what is not read is little enough."""
        while _count_bytes(each.unread for each in self._visitors) > self._limits.unread_bytes:
            others = (each for each in self._visitors if each.unread and each is not newest)
            slowest = find_longest_awaited(others)
            if slowest is None:
                return
            self._show_out(slowest)


async def _listen(visitor: _Visitor) -> None:
    piece = await visitor.reader.read(MAX_HEAD_BYTES)
    if not piece:
        raise EOFError
    visitor.heard += piece


def _take_head(heard: bytearray, scanned: int) -> bytes | Answer | None:
    """Take a head from what was heard, or the answer to what is none; None if more must come."""
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


def _parse_request(head: bytes) -> Request:
    line, _, rest = head.decode("latin-1").partition("\r\n")
    method, _, target = line.partition(" ")
    target, _, version = target.rpartition(" ")
    fields = (each.partition(":") for each in rest.split("\r\n") if each)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    # What has a body would have to be read to its end, and nobody here has use for it.
    has_body = "content-length" in headers or "transfer-encoding" in headers
    is_closing = "close" in headers.get("connection", "").lower()
    is_last = has_body or is_closing or version != "HTTP/1.1"
    return Request(method, target, headers, is_last)


def _count_bytes(bodies: Iterable[bytes]) -> int:
    """How much memory the bodies take; several may be the same one."""
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
    """Wait for the other side to have read all: to end it at once would throw the rest away."""
    if visitor.writer.can_write_eof():
        visitor.writer.write_eof()
        while await visitor.reader.read(MAX_HEAD_BYTES):
            pass
    else:
        # TLS has no such half of an end.
        visitor.writer.close()
        await visitor.writer.wait_closed()
