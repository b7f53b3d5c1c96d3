"""The way of pods to the API server, which listens on loopback alone.

A program of its own on the node's bridge: it shows a certificate for the node's address, and hands
on what clients say, byte for byte. Pods are told of it by the variables by which all pods find
their API server, so nothing needs the network of the machine. Clients are known by their tokens;
certificates of clients do not get through.
"""

import asyncio
import ssl
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_CHUNK_BYTES: Final = 65_536
PORT: Final = 6443
"""Where the API server is, as far as pods know."""


async def serve(address: str, port: int, target_port: int, folder: Path) -> None:
    """Relay connections for ever, with the certificate `relay.crt` of a folder."""
    shown = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    shown.load_cert_chain(folder / "relay.crt", folder / "relay.key")
    trust = ssl.create_default_context(cafile=folder / "ca.crt")

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far = await asyncio.open_connection("127.0.0.1", target_port, ssl=trust)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(_pump(reader, far[1]), _pump(far[0], writer))

    server = await asyncio.start_server(relay, address, port, ssl=shown)
    await server.serve_forever()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])))
