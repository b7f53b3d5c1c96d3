"""Requests that wait for their answers, in a bounded queue.

Requests wait in the order in which they came, and a few are answered per turn of the event loop.
Large requests wait in a queue of their own: they cost most, and must not delay the others. One of
them is answered per turn. A request whose client has left is dropped. Where a queue is full, a
request is allowed at once without a review: an answer that is too late is worth less than none.

A request about whose object more may be known soon is deferred a few times, until patience ends.
Namespaces share the room for such requests.
"""

import asyncio
from collections import deque
from http import HTTPStatus
from typing import Final, Protocol

import msgspec

from trimtab.admission.logs import Timer
from trimtab.admission.server.limits import ServerLimits
from trimtab.admission.server.request_queue import QueueShare, WaitingRoom
from trimtab.api.http.requests import HttpRequest

_ANSWERED_PER_TURN: Final = 16
"""Number of answers after which the event loop reads what has come meanwhile."""
_TURN_SECONDS: Final = 0.01
"""Time after which a turn ends early."""
_RETRIES_SECONDS: Final = (0.025, 0.05, 0.1, 0.2)
"""Delays before each retry of a deferred request; the last one repeats."""
_RETRIES_SHARE: Final = 0.25
"""Maximum share of the time that goes into retries of deferred requests."""
_LARGE_BYTES: Final = 64 * 1024
"""A larger request waits in the queue of large requests."""


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


class ClientConnection(Protocol):
    """The connection on which a request came."""

    @property
    def is_gone(self) -> bool:
        """True if no answer would be read."""

    def respond(self, request: HttpRequest, body: bytes) -> None:
        """Write the answer."""

    def abort(self) -> None:
        """End the connection immediately."""


class _Turn(msgspec.Struct, eq=False):
    """A request that waits for its answer."""

    connection: ClientConnection
    request: HttpRequest
    since: float
    retries: int = 0
    is_last: bool = False
    """True if the server must answer the request this time."""


class AnswerQueue:
    """Answers requests in turns of the event loop."""

    def __init__(self, responder: Responder, timer: Timer, limits: ServerLimits) -> None:
        self._responder = responder
        self._timer = timer
        self._limits = limits
        self._patience_seconds = limits.patience.total_seconds()
        self._queue: deque[_Turn] = deque()
        self._large: deque[_Turn] = deque()
        self._queued_bytes = 0
        self._is_answering = False
        self._put_off: WaitingRoom[_Turn] = WaitingRoom(limits.put_off_bytes)
        self._timers: dict[_Turn, asyncio.TimerHandle] = {}
        """Timers of deferred requests that are not in a queue again."""
        self._loop = asyncio.get_running_loop()
        self.is_draining = False
        """True if no request may be deferred any more."""

    @property
    def has_waiting(self) -> bool:
        """True if a request waits for its answer."""
        return bool(self._queue or self._large)

    def enqueue(self, connection: ClientConnection, request: HttpRequest) -> None:
        """Queue the request, or allow it without a review if too many wait."""
        size, limits = len(request.body), self._limits
        is_large = size > _LARGE_BYTES
        queue, most = (self._large, limits.large_queue) if is_large else (self._queue, limits.queue)
        if len(queue) >= most or self._queued_bytes + size > limits.queued_bytes:
            connection.respond(request, self._responder.let_through(request))
            return
        self._append(_Turn(connection, request, self._timer()), queue)

    def _answer_some(self) -> None:
        ends_at = self._timer() + _TURN_SECONDS
        try:
            for _ in range(min(_ANSWERED_PER_TURN, len(self._queue))):
                self._answer_next(self._queue)
                if self._timer() > ends_at:
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
            body = self._responder.allow_failed(turn.request, error)
            turn.connection.respond(turn.request, body)
            is_answered = True
        finally:
            if not is_answered:
                turn.connection.abort()

    def _answer(self, turn: _Turn) -> None:
        began = self._timer()
        waited = began - turn.since
        may_wait = self._may_wait(turn, waited)
        body = self._responder.answer(turn.request, waited, may_wait=may_wait)
        if not isinstance(body, bytes):
            if self._has_room(turn, body):
                self._delay(turn, waited, self._timer() - began)
                return
            body = self._responder.answer(turn.request, waited)
            if not isinstance(body, bytes):
                raise TypeError(body)
        self._put_off.leave(turn)
        since = self._timer()
        turn.connection.respond(turn.request, body)
        self._responder.note_written(self._timer() - since)

    def _append_again(self, turn: _Turn) -> None:
        is_large = len(turn.request.body) > _LARGE_BYTES
        self._append(turn, self._large if is_large else self._queue)

    def _append(self, turn: _Turn, queue: deque[_Turn]) -> None:
        queue.append(turn)
        self._queued_bytes += len(turn.request.body)
        if not self._is_answering:
            self._go_on_answering()

    def _go_on_answering(self) -> None:
        if self.has_waiting and not self._is_answering:
            self._is_answering = True
            self._loop.call_soon(self._answer_some)

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
        self._timers[turn] = self._loop.call_later(min(delay, left), self._resume, turn)

    def _resume(self, turn: _Turn) -> None:
        del self._timers[turn]
        self._append_again(turn)
