"""The door: whatever fails while somebody comes in, it stays open; who it closes, it closes."""

import asyncio
import errno
import socket
from datetime import timedelta

from trimtab.admission.server.acceptor import ConnectionAcceptor, Handshakes

LOOPBACK = "127.0.0.1"
PATIENCE = timedelta(seconds=10)


class Greeter(asyncio.Protocol):
    """Says hello, and no more."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"hello")
        transport.close()


def a_door() -> ConnectionAcceptor:
    handshakes = Handshakes(2, PATIENCE.total_seconds(), lambda: None)
    return ConnectionAcceptor(Greeter, None, handshakes)


async def hear(listener: socket.socket) -> bytes:
    """What is said to whoever connects."""
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    said = await reader.read()
    writer.close()
    return said


async def play_where_accepting_fails_once() -> bytes:
    loop, closing = asyncio.get_running_loop(), asyncio.Event()
    accept, failures = loop.sock_accept, [OSError(errno.EMFILE, "too many open files")]

    async def accept_later(sock: socket.socket) -> tuple[socket.socket, object]:
        if failures:
            raise failures.pop()
        return await accept(sock)

    loop.sock_accept = accept_later  # type: ignore[method-assign]
    listener = socket.create_server((LOOPBACK, 0))
    async with asyncio.timeout(PATIENCE.total_seconds()), asyncio.TaskGroup() as group:
        group.create_task(a_door().open(listener, closing))
        said = await hear(listener)
        closing.set()
    return said


async def play_until_closed() -> int:
    closing, listener = asyncio.Event(), socket.create_server((LOOPBACK, 0))
    async with asyncio.timeout(PATIENCE.total_seconds()), asyncio.TaskGroup() as group:
        group.create_task(a_door().open(listener, closing))
        await hear(listener)
        closing.set()
    return listener.fileno()


def test_who_comes_after_a_failure_to_let_somebody_in_is_let_in() -> None:
    assert asyncio.run(play_where_accepting_fails_once()) == b"hello"


def test_when_it_is_closed_nobody_listens_any_more() -> None:
    assert asyncio.run(play_until_closed()) == -1
