"""What a kube-proxy would do on the rig's node, for the few Services that somebody there needs.

Two ways lead through here, and each byte is handed on as it is:

- from pods to the API server, which listens on loopback alone. Pods ask at the node's address, are
  shown a certificate for that, and are known by their tokens;
- from the API server, and from pods, to Services: each Service with a selector has its address on
  the node's bridge for as long as it exists, and leads to any of its pods that is ready.

Started by path, without our packages: `python -I -S service_relay.py ADDRESS BRIDGE PORT FOLDER`.
The port is the API server's, the folder that of the control plane.
"""

import asyncio
import http.client
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

API_PORT: Final = 6443
"""Where the API server is, as far as pods know."""

_LOOPBACK: Final = "127.0.0.1"
_CHUNK_BYTES: Final = 65_536
_LOOK_SECONDS: Final = 0.2

Json = dict[str, Any]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ApiServer:
    """The API server, as its administrator sees it."""

    def __init__(self, port: int, folder: Path) -> None:
        self.port = port
        self.trust = ssl.create_default_context(cafile=folder / "ca.crt")
        self._token = (folder / "tokens.csv").read_text(encoding="utf-8").partition(",")[0]

    async def read_items(self, path: str) -> list[Json]:
        """The items at a path; none while nobody answers."""
        return await asyncio.to_thread(self._read_items, path)

    def _read_items(self, path: str) -> list[Json]:
        connection = http.client.HTTPSConnection(
            _LOOPBACK, self.port, context=self.trust, timeout=5
        )
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self._token}"})
            items: list[Json] = json.loads(connection.getresponse().read()).get("items", [])
        except (OSError, ValueError):
            return []
        else:
            return items
        finally:
            connection.close()


def find_doors(services: list[Json]) -> dict[tuple[str, int], Json]:
    """The addresses and ports at which Services are asked for, with the Service of each."""
    return {
        (service["spec"]["clusterIP"], port["port"]): service
        for service in services
        if service["spec"].get("selector")
        and service["spec"].get("clusterIP") not in {None, "None"}
        for port in service["spec"]["ports"]
    }


def find_targets(slices: list[Json]) -> list[tuple[str, int]]:
    """Where the pods of a Service that are ready listen, at its first port."""
    return [
        (address, each["ports"][0]["port"])
        for each in slices
        for endpoint in each["endpoints"] or []
        if endpoint["conditions"].get("ready")
        for address in endpoint["addresses"]
    ]


class Relay:
    """Doors on the node's bridge, and where they lead."""

    def __init__(self, server: ApiServer, bridge: str) -> None:
        self._server = server
        self._bridge = bridge
        self._open: dict[tuple[str, int], asyncio.Server] = {}

    async def open_to_pods(self, address: str, port: int, folder: Path) -> asyncio.Server:
        """Let pods find the API server at an address."""
        shown = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        shown.load_cert_chain(folder / "relay.crt", folder / "relay.key")
        return await asyncio.start_server(self._lead_to_server, address, port, ssl=shown)

    async def follow_services(self) -> None:
        """Open and close doors as Services come and go, for ever."""
        while True:
            wanted = find_doors(await self._server.read_items("/api/v1/services"))
            for door in self._open.keys() - wanted.keys():
                self._open.pop(door).close()
                self._ip("delete", door[0])
            for door in wanted.keys() - self._open.keys():
                self._ip("add", door[0])
                lead = partial(self._lead_to_pods, wanted[door])
                self._open[door] = await asyncio.start_server(lead, *door)
            await asyncio.sleep(_LOOK_SECONDS)

    def _ip(self, verb: str, address: str) -> None:
        command = ["ip", "address", verb, f"{address}/32", "dev", self._bridge]
        subprocess.run(command, check=False)

    async def _lead_to_server(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with _ending(writer):
            far = await asyncio.open_connection(
                _LOOPBACK, self._server.port, ssl=self._server.trust
            )
            await _join((reader, writer), far)

    async def _lead_to_pods(
        self, service: Json, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        namespace, name = service["metadata"]["namespace"], service["metadata"]["name"]
        slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        chosen = f"{slices}?labelSelector=kubernetes.io/service-name%3D{name}"
        targets = find_targets(await self._server.read_items(chosen))
        with _ending(writer):
            far = await asyncio.open_connection(*targets[0])
            await _join((reader, writer), far)


@contextmanager
def _ending(writer: asyncio.StreamWriter) -> Iterator[None]:
    """End a connection with what it leads to, or with nothing that it could lead to."""
    try:
        with suppress(OSError, LookupError):
            yield
    finally:
        writer.transport.abort()


async def _join(near: Streams, far: Streams) -> None:
    await asyncio.gather(_pump(near[0], far[1]), _pump(far[0], near[1]))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()


async def main(address: str, bridge: str, port: int, folder: Path) -> None:
    """Keep both ways open until the end."""
    relay = Relay(ApiServer(port, folder), bridge)
    async with await relay.open_to_pods(address, API_PORT, folder):
        await relay.follow_services()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])))
