"""The webhook server: connections, a bounded queue before the answers, and a drain without loss.

Requests wait in the order in which they came, and a few are answered per turn of the event loop.
Large requests wait in a queue of their own: they cost most, and must not delay the others. One of
them is answered per turn. A request whose client has left is dropped. Where a queue is full, a
request is allowed at once without a review: an answer that is too late is worth less than none.

A request about whose object more may be known soon is deferred a few times, until patience ends.
Namespaces share the room for such requests. The number of slow and silent connections, and of all
connections, is bounded. Beyond the bounds, old connections are ended to make room for new ones.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from socket import socket
from typing import Final, NoReturn, Protocol, cast

from trimtab.admission.logs import Timer
from trimtab.admission.server.connections import ConnectionAcceptor, Handshakes
from trimtab.admission.server.http import (
    HttpFlaw,
    HttpRequest,
    Read,
    RequestReader,
    format_response,
)
from trimtab.admission.server.request_queue import QueueShare, WaitingRoom
from trimtab.core.webhook import load_shedding

_ANSWERED_PER_TURN: Final = 16
"""Number of answers after which the event loop reads what has come meanwhile."""
_TURN_SECONDS: Final = 0.01
"""Time after which a turn ends early."""
_LAST_WORDS: Final = timedelta(seconds=1)
"""Time for a refused client to read the reason."""
_RETRIES_SECONDS: Final = (0.025, 0.05, 0.1, 0.2)
"""Delays before each retry of a deferred request; the last one repeats."""
_RETRIES_SHARE: Final = 0.25
"""Maximum share of the time that goes into retries of deferred requests."""
_LARGE_BYTES: Final = 64 * 1024
"""A larger request waits in the queue of large requests."""
_HEAVY_BYTES: Final = 32 * 1024
"""A connection that sends more at once is heavy: TLS keeps buffers of that size for it."""
_UNREAD_BYTES: Final = 16 * 1024
"""A client that leaves more of its answers unread gets no further ones.

TLS would otherwise keep half a megabyte for each such client.
"""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of one server."""

    queue: int = 512
    """Maximum number of waiting requests; further ones are allowed without a review."""
    large_queue: int = 32
    """Maximum number of waiting large requests."""
    queued_bytes: int = 32 * 1024 * 1024
    """Maximum size of all waiting requests; further ones are allowed without a review."""
    connections: int = 512
    """Maximum number of connections; beyond it, the one silent or slow for longest is ended."""
    heavy_connections: int = 128
    """Maximum number of connections with large TLS buffers; the one awaited longest goes."""
    handshakes: int = 128
    """Maximum number of concurrent handshakes; beyond it, the oldest is ended."""
    buffered_bytes: int = 32 * 1024 * 1024
    """Maximum size of all unfinished requests; beyond it, the oldest is refused."""
    put_off_bytes: int = 8 * 1024 * 1024
    """Size of the deferred requests, 64 KiB each at least; namespaces share it."""
    patience: timedelta = timedelta(seconds=1)
    """Maximum time for which a request is deferred."""
    request_time: timedelta = timedelta(seconds=10)
    """Maximum time for a request to arrive, and for a handshake."""
    idle_time: timedelta = timedelta(minutes=2)
    """Maximum silence of a connection; an API server ends it after 90 s."""
    sweep_interval: timedelta = timedelta(seconds=1)
    """Time between two checks of these times."""


USUAL_LIMITS: Final = ServerLimits()


class Responder(Protocol):
    """Supplies the answers to requests, and counts the events of the server."""

    def answer(
        self, request: HttpRequest, waited_seconds: float, *, may_wait: bool = False
    ) -> bytes | QueueShare:
        """Return the body of the answer, or the share of a request that may and should wait.

        It must not raise.
        """

    def let_through(self, request: HttpRequest) -> bytes:
        """Return the body of an answer that changes nothing, as fast as possible."""

    def allow_failed(self, request: HttpRequest, error: Exception) -> bytes:
        """Return an answer that changes nothing, after `answer` has raised an error."""

    def note_written(self, seconds: float) -> None:
        """Count an answer that was written within that time."""

    def note_refused(self, status: HTTPStatus) -> None:
        """Count a connection that was ended because of its content, or because of a limit."""


@dataclass(slots=True, eq=False)
class _Turn:
    """A request that waits for its answer."""

    connection: "_Connection"
    request: HttpRequest
    since: float
    retries: int = 0
    is_last: bool = False
    """True if the server must answer the request this time."""


def keep_memory() -> None:
    """Return no memory to the system."""


class WebhookServer:
    """Answers reviews for as long as it is open."""

    def __init__(
        self,
        responder: Responder,
        timer: Timer,
        limits: ServerLimits = USUAL_LIMITS,
        give_back: Callable[[], None] = keep_memory,
    ) -> None:
        """Take the responder, and a callback that returns free memory to the system."""
        self.responder = responder
        self.timer = timer
        self.limits = limits
        self._patience_seconds = limits.patience.total_seconds()
        self.is_draining = False
        self.buffered_bytes = 0
        self._give_back = give_back
        self._freed_bytes = 0
        """Size of all memory freed since `give_back` was last called."""
        self._queue: deque[_Turn] = deque()
        self._large: deque[_Turn] = deque()
        self._queued_bytes = 0
        self._is_answering = False
        self._put_off: WaitingRoom[_Turn] = WaitingRoom(limits.put_off_bytes)
        self._timers: dict[_Turn, asyncio.TimerHandle] = {}
        """Timers of deferred requests that are not in a queue again."""
        self._connections: dict[_Connection, None] = {}
        self._heavy: dict[_Connection, None] = {}
        self._doors: set[ConnectionAcceptor] = set()
        self._closing = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self._left = asyncio.Event()
        """Set whenever a connection or a listener has closed."""

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._connections)

    @property
    def is_open(self) -> bool:
        """True if new connections are accepted."""
        return bool(self._doors) and not self.is_draining

    async def listen(self, listener: socket, context: ssl.SSLContext | None) -> None:
        """Answer the clients of a socket, which is bound already, until the server drains."""
        handshakes = Handshakes(
            self.limits.handshakes,
            self.limits.request_time.total_seconds(),
            lambda: self.responder.note_refused(HTTPStatus.SERVICE_UNAVAILABLE),
        )
        door = ConnectionAcceptor(lambda: _Connection(self), context, handshakes)
        self._doors.add(door)
        try:
            await door.open(listener, self._closing)
        finally:
            self._doors.remove(door)
            self._left.set()

    async def sweep(self) -> NoReturn:
        """End connections that are too slow or silent, until cancelled."""
        while True:
            await asyncio.sleep(self.limits.sweep_interval.total_seconds())
            now = self.timer()
            for connection in list(self._connections):
                connection.end_if_late(now)
            # Not while requests wait: the call takes some milliseconds.
            if self._freed_bytes > self.limits.buffered_bytes and not self._has_waiting:
                self._freed_bytes = 0
                self._give_back()

    async def drain(self, patience: timedelta) -> bool:
        """Stop listening and answer pending requests; return True if all ended in time."""
        self.is_draining = True
        self._closing.set()
        await self._wait_until(lambda: not self._doors)
        for connection in list(self._connections):
            connection.end_if_idle()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience.total_seconds()):
                await self._wait_until(lambda: not self._connections)
        is_done = not self._connections
        for connection in list(self._connections):
            connection.abort()
        return is_done

    def join(self, connection: "_Connection") -> bool:
        """Take on a connection; return False while draining, or if all others wait for answers."""
        if len(self._connections) >= self.limits.connections or self.is_draining:
            self.responder.note_refused(HTTPStatus.SERVICE_UNAVAILABLE)
            if self.is_draining or not self._make_room():
                return False
        self._connections[connection] = None
        return True

    def leave(self, connection: "_Connection") -> None:
        """Remove a connection."""
        self._connections.pop(connection, None)
        self._heavy.pop(connection, None)
        self._freed_bytes += connection.received_bytes
        self._left.set()

    def limit_heavy(self, newest: "_Connection") -> None:
        """Count a connection that needs large buffers, and end others if there are too many."""
        self._heavy[newest] = None
        if len(self._heavy) > self.limits.heavy_connections:
            others = (each for each in self._heavy if each is not newest)
            leaving = load_shedding.find_longest_awaited(others)
            if leaving is not None:
                self.responder.note_refused(HTTPStatus.SERVICE_UNAVAILABLE)
                leaving.abort()
                self.leave(leaving)

    def limit_buffered(self, newest: "_Connection") -> None:
        """Refuse the oldest unfinished requests until the rest is within the limit."""
        while self.buffered_bytes > self.limits.buffered_bytes and newest.buffered_bytes:
            holding = (each for each in self._connections if each.buffered_bytes)
            oldest = load_shedding.find_longest_awaited(holding) or newest
            oldest.refuse(HTTPStatus.SERVICE_UNAVAILABLE)

    def enqueue(self, connection: "_Connection", request: HttpRequest) -> None:
        """Queue the request, or allow it without a review if too many wait."""
        size, limits = len(request.body), self.limits
        self._freed_bytes += size
        is_large = size > _LARGE_BYTES
        queue, most = (self._large, limits.large_queue) if is_large else (self._queue, limits.queue)
        if len(queue) >= most or self._queued_bytes + size > limits.queued_bytes:
            connection.respond(request, self.responder.let_through(request))
            return
        self._append(_Turn(connection, request, self.timer()), queue)

    def _make_room(self) -> bool:
        """End the connection that was awaited longest; return True if there was one."""
        leaving = load_shedding.find_longest_awaited(self._connections)
        if leaving is not None:
            leaving.abort()
            self.leave(leaving)
        return leaving is not None

    async def _wait_until(self, is_done: Callable[[], bool]) -> None:
        while not is_done():
            self._left.clear()
            await self._left.wait()

    @property
    def _has_waiting(self) -> bool:
        return bool(self._queue or self._large)

    def _answer_some(self) -> None:
        ends_at = self.timer() + _TURN_SECONDS
        try:
            for _ in range(min(_ANSWERED_PER_TURN, len(self._queue))):
                self._answer_next(self._queue)
                if self.timer() > ends_at:
                    break
            if self._large:
                self._answer_next(self._large)
        finally:
            # After any error, the other requests still need their answers.
            self._is_answering = False
            self._go_on_answering()

    def _answer_next(self, queue: deque[_Turn]) -> None:
        turn = queue.popleft()
        self._queued_bytes -= len(turn.request.body)
        if turn.connection.is_gone:
            self._put_off.leave(turn)
            return
        is_answered = False
        try:
            self._answer(turn)
            is_answered = True
        except Exception as error:  # noqa: BLE001 - one request must not silence the webhook.
            self._put_off.leave(turn)
            body = self.responder.allow_failed(turn.request, error)
            turn.connection.respond(turn.request, body)
            is_answered = True
        finally:
            if not is_answered:
                turn.connection.abort()

    def _answer(self, turn: _Turn) -> None:
        began = self.timer()
        waited = began - turn.since
        may_wait = self._may_wait(turn, waited)
        body = self.responder.answer(turn.request, waited, may_wait=may_wait)
        if not isinstance(body, bytes):
            if self._has_room(turn, body):
                self._delay(turn, waited, self.timer() - began)
                return
            body = self.responder.answer(turn.request, waited)
            if not isinstance(body, bytes):
                raise TypeError(body)
        self._put_off.leave(turn)
        since = self.timer()
        turn.connection.respond(turn.request, body)
        self.responder.note_written(self.timer() - since)

    def _append_again(self, turn: _Turn) -> None:
        is_large = len(turn.request.body) > _LARGE_BYTES
        self._append(turn, self._large if is_large else self._queue)

    def _append(self, turn: _Turn, queue: deque[_Turn]) -> None:
        queue.append(turn)
        self._queued_bytes += len(turn.request.body)
        if not self._is_answering:
            self._go_on_answering()

    def _go_on_answering(self) -> None:
        if self._has_waiting and not self._is_answering:
            self._is_answering = True
            self.loop.call_soon(self._answer_some)

    def _may_wait(self, turn: _Turn, waited: float) -> bool:
        return not turn.is_last and waited < self._patience_seconds and not self.is_draining

    def _has_room(self, turn: _Turn, share: QueueShare) -> bool:
        """Return True if the request may be deferred; others are answered now to make room."""
        if turn in self._put_off:
            return True
        leaving = self._put_off.enter(turn, share, len(turn.request.body))
        for each in leaving or ():
            each.is_last = True
            timer = self._timers.pop(each, None)
            if timer is not None:
                timer.cancel()
                self._append_again(each)
        return leaving is not None

    def _delay(self, turn: _Turn, waited: float, took: float) -> None:
        """Retry the request a little later, and for the last time when patience ends."""
        step = _RETRIES_SECONDS[min(turn.retries, len(_RETRIES_SECONDS) - 1)]
        # Retries of all deferred requests must leave time for new ones.
        delay = max(step, took * len(self._put_off) / _RETRIES_SHARE)
        left = self._patience_seconds - waited
        turn.retries += 1
        turn.is_last = delay >= left
        self._timers[turn] = self.loop.call_later(min(delay, left), self._resume, turn)

    def _resume(self, turn: _Turn) -> None:
        del self._timers[turn]
        self._append_again(turn)


class _Connection(asyncio.Protocol):
    """One connection: at most one of its requests is in progress."""

    def __init__(self, server: WebhookServer) -> None:
        self._server = server
        self._reader = RequestReader()
        self._transport: asyncio.Transport | None = None
        self._is_busy = False
        self._is_paused = False
        self._is_clogged = False
        self._is_over = False
        self._is_heavy = False
        self._since = server.timer()
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
        """Number of received bytes that belong to no complete request yet."""
        return self._reader.buffered_bytes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The transport of uvloop is no subclass of asyncio.Transport.
        joined = cast("asyncio.Transport", transport)
        if self._server.join(self):
            self._transport = joined
            joined.set_write_buffer_limits(_UNREAD_BYTES)
        else:
            joined.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._account(-self._reader.buffered_bytes)
        self._transport = None
        self._server.leave(self)

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        if self._transport is None or self._is_over:
            return
        if len(data) > _HEAVY_BYTES and not self._is_heavy:
            self._is_heavy = True
            self._server.limit_heavy(self)
        if not self._reader.is_amid_request:
            self._since = self._server.timer()
        is_free = not (self._is_busy or self._is_clogged)
        if is_free and (request := self._reader.read_at_once(data)) is not None:
            self._take(request)
            return
        self._reader.feed(data)
        self._account(len(data))
        if self._server.buffered_bytes > self._server.limits.buffered_bytes:
            self._server.limit_buffered(self)
        self._go_on()
        if (self._is_busy or self._is_clogged) and self._reader.buffered_bytes:
            # Only for pipelined requests: further data stays in the kernel until the answer.
            self._transport.pause_reading()
            self._is_paused = True

    def pause_writing(self) -> None:
        self._is_clogged = True

    def resume_writing(self) -> None:
        self._is_clogged = False
        self._go_on()

    def respond(self, request: HttpRequest, body: bytes) -> None:
        """Write the answer, and continue with the next request."""
        self._is_busy = False
        self._since = self._server.timer()
        if self._transport is None:
            return
        keeps_alive = request.keeps_alive and not self._server.is_draining
        self._transport.write(format_response(HTTPStatus.OK, body, keeps_alive=keeps_alive))
        if not keeps_alive:
            self._transport.close()
        elif self._reader.is_amid_request:
            # Not a direct call: thousands of pipelined requests would nest as many calls.
            self._server.loop.call_soon(self._go_on)
        else:
            self._resume_reading()

    def end_if_late(self, now: float) -> None:
        """End the connection if its current state has lasted too long."""
        limits = self._server.limits
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
        self._server.responder.note_refused(status)
        self._is_over = True
        self._since = self._server.timer()
        self._account(-self._reader.buffered_bytes)
        self._reader = RequestReader()
        if self._transport is not None:
            self._transport.write(format_response(status, keeps_alive=False))
            self._resume_reading()

    def _go_on(self) -> None:
        if self._transport is None or self._is_busy or self._is_clogged or self._is_over:
            return
        before = self._reader.buffered_bytes
        found: Read = self._reader.read()
        self._account(self._reader.buffered_bytes - before)
        match found:
            case None:
                self._resume_reading()
            case HttpRequest():
                self._take(found)
            case HttpFlaw(status=status):
                self.refuse(status)

    def _take(self, request: HttpRequest) -> None:
        self._is_busy = True
        self._server.enqueue(self, request)

    def _resume_reading(self) -> None:
        if self._transport is not None and self._is_paused:
            self._transport.resume_reading()
            self._is_paused = False

    def _account(self, count: int) -> None:
        self._server.buffered_bytes += count
