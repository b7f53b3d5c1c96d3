"""The webhook server: accepts connections, answers their requests, and drains without loss."""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from http import HTTPStatus
from socket import socket
from typing import NoReturn

from trimtab.admission.logs import Timer
from trimtab.admission.server.acceptor import ConnectionAcceptor, Handshakes
from trimtab.admission.server.answer_queue import AnswerQueue, Responder
from trimtab.admission.server.connections import ServerConnection, ServerConnections
from trimtab.admission.server.limits import USUAL_LIMITS, ServerLimits


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
        self._responder = responder
        self._timer = timer
        self._limits = limits
        self._give_back = give_back
        self._queue = AnswerQueue(responder, timer, limits)
        self._connections = ServerConnections(responder, timer, limits, self._queue)
        self._doors: set[ConnectionAcceptor] = set()
        self._closing = asyncio.Event()

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._connections)

    @property
    def buffered_bytes(self) -> int:
        """Size of all that was received and belongs to no complete request."""
        return self._connections.buffered_bytes

    @property
    def is_open(self) -> bool:
        """True if new connections are accepted."""
        return bool(self._doors) and not self._connections.is_draining

    async def listen(self, listener: socket, context: ssl.SSLContext | None) -> None:
        """Answer the clients of a socket, which is bound already, until the server drains."""
        handshakes = Handshakes(
            self._limits.handshakes,
            self._limits.request_time.total_seconds(),
            lambda: self._responder.note_refused(HTTPStatus.SERVICE_UNAVAILABLE),
        )
        door = ConnectionAcceptor(lambda: ServerConnection(self._connections), context, handshakes)
        self._doors.add(door)
        try:
            await door.open(listener, self._closing)
        finally:
            self._doors.remove(door)
            self._connections.left.set()

    async def sweep(self) -> NoReturn:
        """End connections that are too slow or silent, until cancelled."""
        while True:
            await asyncio.sleep(self._limits.sweep_interval.total_seconds())
            now = self._timer()
            for connection in self._connections:
                connection.end_if_late(now)
            # Not while requests wait: the call takes some milliseconds.
            if (
                self._connections.freed_bytes > self._limits.buffered_bytes
                and not self._queue.has_waiting
            ):
                self._connections.freed_bytes = 0
                self._give_back()

    async def drain(self, patience: timedelta) -> bool:
        """Stop listening and answer pending requests; return True if all ended in time."""
        self._queue.is_draining = self._connections.is_draining = True
        self._closing.set()
        await self._wait_until(lambda: not self._doors)
        for connection in self._connections:
            connection.end_if_idle()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience.total_seconds()):
                await self._wait_until(lambda: not self._connections)
        is_done = not self._connections
        for connection in self._connections:
            connection.abort()
        return is_done

    async def _wait_until(self, is_done: Callable[[], bool]) -> None:
        while not is_done():
            self._connections.left.clear()
            await self._connections.left.wait()
