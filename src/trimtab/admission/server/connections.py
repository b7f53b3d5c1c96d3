"""The door of the webhook server: who comes is let in after a handshake, so many at a time.

A handshake costs an API server milliseconds. Who leaves one unfinished costs us memory and a file,
so past a bound the oldest is ended: whoever means it has long been through.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NoReturn

_BACKLOG: Final = 1024
_SOCKET_BYTES: Final = 64 * 1024
"""Size of a socket's buffers, and so of what TLS decrypts at once and keeps for the connection."""
_PAUSE_SECONDS: Final = 0.1
"""How long nobody is let in after that failed, for want of files most likely."""


@dataclass(frozen=True, slots=True)
class Handshakes:
    """What is borne of those who are not connected yet."""

    at_a_time: int
    max_seconds: float
    note_ended: Callable[[], None]
    """Called when one is ended because there are too many."""


class ConnectionAcceptor:
    """Lets whoever connects to a socket in, for as long as it is open."""

    def __init__(
        self,
        make_protocol: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext | None,
        handshakes: Handshakes,
    ) -> None:
        self._make_protocol = make_protocol
        self._context = context
        self._handshakes = handshakes
        self._greetings: dict[asyncio.Task[None], None] = {}
        """Those under way, the oldest first."""

    async def open(self, listener: socket.socket, closing: asyncio.Event) -> None:
        """Let everybody in until it is to be closed; then nobody listens on the socket any more."""
        listener.settimeout(0)
        # Accepted sockets inherit both; the kernel's memory counts for the pod, too.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BYTES)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
        listener.listen(_BACKLOG)
        try:
            async with asyncio.TaskGroup() as group:
                accepting = group.create_task(self._accept(listener, group))
                await closing.wait()
                accepting.cancel()
                for greeting in self._greetings:
                    greeting.cancel()
        finally:
            listener.close()

    async def _accept(self, listener: socket.socket, group: asyncio.TaskGroup) -> NoReturn:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listener)
            except OSError:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            greeting = group.create_task(self._greet(accepted))
            self._greetings[greeting] = None
            greeting.add_done_callback(self._greetings.pop)
            if len(self._greetings) > self._handshakes.at_a_time:
                self._handshakes.note_ended()
                next(iter(self._greetings)).cancel()

    async def _greet(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        patience = self._handshakes.max_seconds if self._context else None
        # Who breaks off, is too slow or speaks no TLS that we speak is told so by the handshake.
        with suppress(OSError):
            await loop.connect_accepted_socket(
                self._make_protocol, accepted, ssl=self._context, ssl_handshake_timeout=patience
            )
