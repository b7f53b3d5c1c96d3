"""Connections of the webhook server: each reads requests, and all together stay within limits.

The number of slow and silent connections, and of all connections, is bounded. Beyond the bounds,
old connections are ended to make room for new ones.
"""

import asyncio
from collections.abc import Iterator, Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Final, cast

from trimtab.admission.logs import Timer
from trimtab.admission.server.answer_queue import AnswerQueue, Responder
from trimtab.admission.server.limits import MAX_BODY_BYTES, ServerLimits
from trimtab.api.http.requests import HttpFlaw, HttpRequest, RequestReader, format_response
from trimtab.core.webhook import load_shedding

_OK: Final = HTTPStatus.OK
"""Kept, since a member of this class costs a function call in Python 3.11."""
_LAST_WORDS: Final = timedelta(seconds=1)
"""Time for a refused client to read the reason."""
_HEAVY_BYTES: Final = 32 * 1024
"""A connection that sends more at once is heavy: TLS keeps buffers of that size for it."""
_UNREAD_BYTES: Final = 16 * 1024
"""A client that leaves more of its answers unread gets no further ones.

TLS would otherwise keep half a megabyte for each such client.
"""


def check_head(method: str, headers: Mapping[str, str]) -> HTTPStatus | None:
    """Return the status that refuses whatever no API server sends."""
    if method != "POST":
        return HTTPStatus.METHOD_NOT_ALLOWED
    if "content-length" not in headers and "transfer-encoding" not in headers:
        return HTTPStatus.LENGTH_REQUIRED
    return None


class ServerConnections:
    """The open connections of a server."""

    def __init__(
        self, responder: Responder, timer: Timer, limits: ServerLimits, queue: AnswerQueue
    ) -> None:
        self.timer = timer
        self.limits = limits
        self.queue = queue
        self.is_draining = False
        self.buffered_bytes = 0
        """Size of all that was received and belongs to no request in the queue."""
        self.freed_bytes = 0
        """Size of all that was received, as far as it may be free again."""
        self.left = asyncio.Event()
        """Set whenever a connection has closed."""
        self.loop = asyncio.get_running_loop()
        self._responder = responder
        self._connections: dict[ServerConnection, None] = {}
        self._heavy: dict[ServerConnection, None] = {}

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> "Iterator[ServerConnection]":
        return iter(list(self._connections))

    def note_refused(self, status: HTTPStatus) -> None:
        """Count a connection that is ended because of its content, or because of a limit."""
        self._responder.note_refused(status)

    def join(self, connection: "ServerConnection") -> bool:
        """Take on a connection; return False while draining, or if all others wait for answers."""
        if len(self._connections) >= self.limits.connections or self.is_draining:
            self._responder.note_refused(HTTPStatus.SERVICE_UNAVAILABLE)
            if self.is_draining or not self._make_room():
                return False
        self._connections[connection] = None
        return True

    def leave(self, connection: "ServerConnection") -> None:
        """Remove a connection."""
        self._connections.pop(connection, None)
        self._heavy.pop(connection, None)
        self.freed_bytes += connection.received_bytes
        self.left.set()

    def limit_heavy(self, newest: "ServerConnection") -> None:
        """Count a connection that needs large buffers, and end others if there are too many."""
        self._heavy[newest] = None
        if len(self._heavy) > self.limits.heavy_connections:
            others = (each for each in self._heavy if each is not newest)
            leaving = load_shedding.find_longest_awaited(others)
            if leaving is not None:
                self._responder.note_refused(HTTPStatus.SERVICE_UNAVAILABLE)
                leaving.abort()
                self.leave(leaving)

    def limit_buffered(self, newest: "ServerConnection") -> None:
        """Refuse the oldest unfinished requests until the rest is within the limit."""
        while self.buffered_bytes > self.limits.buffered_bytes and newest.buffered_bytes:
            holding = (each for each in self._connections if each.buffered_bytes)
            oldest = load_shedding.find_longest_awaited(holding) or newest
            oldest.refuse(HTTPStatus.SERVICE_UNAVAILABLE)

    def _make_room(self) -> bool:
        """End the connection that was awaited longest; return True if there was one."""
        leaving = load_shedding.find_longest_awaited(self._connections)
        if leaving is not None:
            leaving.abort()
            self.leave(leaving)
        return leaving is not None


class ServerConnection(asyncio.Protocol):
    """One connection: at most one of its requests is in progress."""

    def __init__(self, group: ServerConnections) -> None:
        self._group = group
        self._reader = RequestReader(MAX_BODY_BYTES, check_head)
        self._held_bytes = 0
        """Size of what the reader holds, as far as it is counted for all connections."""
        self._transport: asyncio.Transport | None = None
        self._is_busy = False
        self._is_paused = False
        self._is_clogged = False
        self._is_over = False
        self._is_heavy = False
        self._since = group.timer()
        self.received_bytes = 0
        """Size of all received data, for which TLS keeps buffers until the end."""

    @property
    def awaited_since(self) -> float | None:
        """Start of its silence, or of its unfinished request; None while an answer is due."""
        return None if self._is_busy else self._since

    @property
    def is_gone(self) -> bool:
        """True if the client has left, or was ended, so that no answer would be read."""
        return self._transport is None or self._transport.is_closing()

    @property
    def buffered_bytes(self) -> int:
        """Size of all that was received and belongs to no request in the queue."""
        return self._held_bytes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Join the group, or end at once."""
        # The transport of uvloop is no subclass of asyncio.Transport.
        joined = cast("asyncio.Transport", transport)
        if self._group.join(self):
            self._transport = joined
            joined.set_write_buffer_limits(_UNREAD_BYTES)
        else:
            joined.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the group."""
        del exc
        self._close_reader()
        self._transport = None
        self._group.leave(self)

    def data_received(self, data: bytes) -> None:
        """Read requests from the bytes, within limits."""
        self.received_bytes += len(data)
        if self._transport is None or self._is_over:
            return
        if len(data) > _HEAVY_BYTES and not self._is_heavy:
            self._is_heavy = True
            self._group.limit_heavy(self)
        if not self._reader.is_amid_request:
            self._since = self._group.timer()
        self._reader.feed(data)
        if self._is_busy or self._is_clogged:
            self._account()
        else:
            self._go_on()
        if self._group.buffered_bytes > self._group.limits.buffered_bytes:
            self._group.limit_buffered(self)
        if (self._is_busy or self._is_clogged) and self._held_bytes:
            # Only for pipelined requests: further data stays in the kernel until the answer.
            self._transport.pause_reading()
            self._is_paused = True

    def pause_writing(self) -> None:
        """Take no further request until the client has read its answers."""
        self._is_clogged = True

    def resume_writing(self) -> None:
        """Take further requests."""
        self._is_clogged = False
        self._go_on()

    def respond(self, request: HttpRequest, body: bytes) -> None:
        """Write the answer, and continue with the next request."""
        self._is_busy = False
        self._since = self._group.timer()
        if self._transport is None:
            return
        keeps_alive = request.keeps_alive and not self._group.is_draining
        self._transport.write(format_response(_OK, body, keeps_alive=keeps_alive))
        if not keeps_alive:
            self._transport.close()
        elif self._reader.is_amid_request:
            # Not a direct call: thousands of pipelined requests would nest as many calls.
            self._group.loop.call_soon(self._go_on)
        else:
            self._resume_reading()

    def end_if_late(self, now: float) -> None:
        """End the connection if its current state has lasted too long."""
        limits = self._group.limits
        if self._is_over:
            span = _LAST_WORDS
        elif self._reader.is_amid_request or self._is_clogged:
            span = limits.request_time
        else:
            span = limits.idle_time
        if not self._is_busy and now - self._since > span.total_seconds():
            self.abort()

    def end_if_idle(self) -> None:
        """End the connection if no part of a request has come."""
        is_idle = self._is_over or not (self._is_busy or self._reader.is_amid_request)
        if self._transport is not None and is_idle:
            self._transport.close()

    def abort(self) -> None:
        """End the connection immediately."""
        if self._transport is not None:
            self._transport.abort()

    def refuse(self, status: HTTPStatus) -> None:
        """Send the reason and discard further data until the client has read it.

        Ending the connection at once would reset it, and the client might never see the reason.
        """
        self._group.note_refused(status)
        self._is_over = True
        self._since = self._group.timer()
        self._close_reader()
        if self._transport is not None:
            self._transport.write(format_response(status, keeps_alive=False))
            self._resume_reading()

    def _go_on(self) -> None:
        if self._transport is None or self._is_busy or self._is_clogged or self._is_over:
            return
        found = self._reader.read()
        self._account()
        match found:
            case None:
                self._resume_reading()
            case HttpRequest():
                self._take(found)
            case HttpFlaw(status=status):
                self.refuse(status)

    def _take(self, request: HttpRequest) -> None:
        self._is_busy = True
        self._group.freed_bytes += len(request.body)
        self._group.queue.enqueue(self, request)

    def _resume_reading(self) -> None:
        if self._transport is not None and self._is_paused:
            self._transport.resume_reading()
            self._is_paused = False

    def _close_reader(self) -> None:
        self._reader.close()
        self._account()

    def _account(self) -> None:
        held_bytes = self._reader.buffered_bytes
        self._group.buffered_bytes += held_bytes - self._held_bytes
        self._held_bytes = held_bytes
