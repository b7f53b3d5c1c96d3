"""A way to the API server that can be cut or held up, byte for byte."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

LOOPBACK = "127.0.0.1"


class Relay:
    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._open: set[asyncio.StreamWriter] = set()
        self._may_pass = asyncio.Event()
        self._may_pass.set()
        self.port = 0

    def cut(self) -> None:
        """Break every connection."""
        for writer in self._open:
            writer.transport.abort()

    def hold_up(self) -> None:
        """Let nothing through, without breaking anything."""
        self._may_pass.clear()

    def go_on(self) -> None:
        self._may_pass.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(LOOPBACK, self._target_port)
        except OSError:
            writer.transport.abort()
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pump(reader, far_writer))
            group.create_task(self._pump(far_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        with suppress(OSError):
            while data := await reader.read(65_536):
                await self._may_pass.wait()
                writer.write(data)
                await writer.drain()
        self._open.discard(writer)
        writer.transport.abort()


@asynccontextmanager
async def relaying(target_port: int) -> AsyncIterator[Relay]:
    relay = Relay(target_port)
    server = await asyncio.start_server(relay.serve, LOOPBACK, 0)
    relay.port = server.sockets[0].getsockname()[1]
    try:
        yield relay
    finally:
        relay.go_on()
        relay.cut()
        server.close()
        await server.wait_closed()
