"""The way of pods to the API server: bytes pass, and both ends are who they say they are."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rig import api_relay, certificates, controlplane
from rig.flags import LOOPBACK


async def _shout_back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write((await reader.read(100)).upper())
    await writer.drain()
    writer.close()


@asynccontextmanager
async def relaying(folder: Path, target_port: int) -> AsyncIterator[int]:
    (port,) = controlplane.free_ports(1)
    task = asyncio.create_task(api_relay.serve(LOOPBACK, port, target_port, folder))
    try:
        yield port
    finally:
        task.cancel()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    certificates.make(tmp_path)
    certificates.issue(tmp_path, "relay", "/CN=relay", f"IP:{LOOPBACK}")
    return tmp_path


async def _ask(port: int, folder: Path) -> bytes:
    trust = ssl.create_default_context(cafile=folder / "ca.crt")
    while True:
        try:
            reader, writer = await asyncio.open_connection(LOOPBACK, port, ssl=trust)
        except ConnectionRefusedError:
            await asyncio.sleep(0)
        else:
            writer.write(b"hello")
            answer = await reader.read()
            writer.close()
            return answer


async def test_what_a_client_says_reaches_the_server_and_its_answer_comes_back(
    folder: Path,
) -> None:
    shown = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    shown.load_cert_chain(folder / "server.crt", folder / "server.key")
    server = await asyncio.start_server(_shout_back, LOOPBACK, 0, ssl=shown)
    async with server, relaying(folder, server.sockets[0].getsockname()[1]) as port:
        answer = await _ask(port, folder)

    assert answer == b"HELLO"


async def test_a_server_that_is_gone_ends_the_connection(folder: Path) -> None:
    (nobody,) = controlplane.free_ports(1)
    async with relaying(folder, nobody) as port:
        try:
            answer = await _ask(port, folder)
        except ConnectionResetError:
            answer = b""

    assert answer == b""
