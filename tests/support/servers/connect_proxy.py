"""A proxy on loopback that opens tunnels by CONNECT, and keeps the heads of its requests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class ConnectProxy:
    hosts: dict[str, str] = field(default_factory=dict)
    """Addresses of names that only the proxy knows."""
    heads: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        host, _, port = head.split()[1].decode().rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(
            self.hosts.get(host, host), int(port)
        )
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with suppress(OSError):
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, far_writer))
                group.create_task(_pump(far_reader, writer))

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Serve for as long as the block lasts; yield the host and the port."""
        async with await asyncio.start_server(self.serve, "127.0.0.1", 0) as server:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()
