"""The administrator of a real API server, who may do everything, also in another's name."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from random import Random

from support.servers.relay import LOOPBACK
from support.stages.manifests import Json

from rig.controlplane import ControlPlane
from trimtab.cluster.auth.credentials import Connection, FixedCredentials, Identity
from trimtab.cluster.clock import RealClock
from trimtab.cluster.errors import ClusterError, NotFoundError
from trimtab.cluster.http import paths
from trimtab.cluster.http.client import MERGE_PATCH, Client, ClientSettings
from trimtab.cluster.http.rate_limit import RequestBudget

CLOCK = RealClock()
PATIENCE_SECONDS = 60
_SETTINGS = ClientSettings(request_timeout=timedelta(seconds=5))
"""Patient enough for a server that is restarted, and no test waits long for one that is silent."""


def an_identity(plane: ControlPlane, user: str = "") -> Identity:
    """The administrator, or whomever the administrator plays."""
    trust = ssl.create_default_context(cafile=plane.certificates.authority)
    token = ("Authorization", f"Bearer {plane.token}")
    return Identity(trust, (token, ("Impersonate-User", user)) if user else (token,))


def a_client(plane: ControlPlane, port: int, user: str = "") -> Client:
    """A client that reaches the server through the port, as that user."""
    credentials = FixedCredentials(an_identity(plane, user))
    return Client(
        Connection(f"https://{LOOPBACK}:{port}", credentials),
        clock=CLOCK,
        random=Random(1),
        budget=RequestBudget(CLOCK, rate=0, burst=1),
        settings=_SETTINGS,
    )


async def wait_until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.05)


class Administrator:
    """Reads and writes the objects of a server as its administrator."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def create(self, path: str, manifest: Json) -> Json:
        created: Json = json.loads(await self._client.post(path, json.dumps(manifest).encode()))
        return created

    async def change(self, path: str, changes: Json) -> None:
        await self._client.patch(path, json.dumps(changes).encode(), MERGE_PATCH)

    async def delete(self, path: str) -> None:
        with suppress(NotFoundError):
            await self._client.delete(path)

    async def fetch(self, path: str) -> bytes:
        return await self._client.fetch(path)

    async def read(self, path: str) -> Json:
        found: Json = json.loads(await self._client.fetch(path))
        return found

    async def is_served(self, path: str) -> bool:
        with suppress(ClusterError):
            await self._client.fetch(path)
            return True
        return False

    @asynccontextmanager
    async def existing(self, path: str, manifest: Json) -> AsyncIterator[Json]:
        """Let an object exist for as long as the block lasts."""
        created = await self.create(path, manifest)
        try:
            yield created
        finally:
            await self.delete(paths.item(path, manifest["metadata"]["name"]))
