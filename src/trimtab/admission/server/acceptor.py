"""Accepting connections of the webhook server, with a bounded number of TLS handshakes.

A handshake takes an API server milliseconds. An unfinished one costs the server memory and a file
descriptor. So beyond a limit the oldest handshake is ended: a genuine client has finished long ago.
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
"""Pause after accepting has failed, most likely because file descriptors ran out."""


@dataclass(frozen=True, slots=True)
class Handshakes:
    """Limits on unfinished handshakes."""

    at_a_time: int
    max_seconds: float
    note_ended: Callable[[], None]
    """Called when a handshake is ended because there are too many."""


class ConnectionAcceptor:
    """Accepts connections on a socket while it is open."""

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
        """Handshakes in progress, oldest first."""

    async def open(self, listener: socket.socket, closing: asyncio.Event) -> None:
        """Accept connections until `closing` is set, then close the socket."""
        listener.settimeout(0)
        # Accepted sockets inherit both; the kernel's buffers count as the pod's memory, too.
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
        # An aborted, slow or unsupported handshake raises OSError; TLS has informed the client.
        with suppress(OSError):
            await loop.connect_accepted_socket(
                self._make_protocol, accepted, ssl=self._context, ssl_handshake_timeout=patience
            )
