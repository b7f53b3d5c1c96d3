"""One user's way to a real API server, and what may happen to it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import aiohttp
from contract.stage import meanwhile
from support.servers.relay import LOOPBACK, Relay
from support.stages import manifests
from support.stages.administrator import Administrator, an_identity, wait_until

from rig.controlplane import ControlPlane
from trimtab.cluster.errors import ApiError
from trimtab.cluster.http import paths
from trimtab.cluster.http.client import JSON, Client
from trimtab.cluster.live.cluster import LiveCluster
from trimtab.cluster.live.webhook_host import LiveWebhookHost
from trimtab.cluster.usage.metrics_api import MetricsApi

_EVENTS = paths.collection("v1", "events", "default")
_LEVELS = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"
_FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
_TURN = aiohttp.ClientTimeout(total=30)
"""How long one request is kept up; the server gives up after a minute."""
_WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@dataclass(frozen=True, slots=True)
class RealLink:
    """One user of the API server, who reaches it through a relay."""

    plane: ControlPlane
    administrator: Administrator
    user: str
    client: Client
    relay: Relay
    cluster: LiveCluster
    usage: MetricsApi
    webhooks: LiveWebhookHost

    @property
    def roles(self) -> LiveCluster:
        return self.cluster

    async def cut(self) -> None:
        self.relay.cut()

    @asynccontextmanager
    async def silent(self) -> AsyncIterator[None]:
        self.relay.hold_up()
        try:
            yield
        finally:
            self.relay.go_on()

    @asynccontextmanager
    async def busy(self) -> AsyncIterator[None]:
        """Let flow control give this user one turn at a time, and take that turn."""
        existing = self.administrator.existing
        async with (
            existing(_LEVELS, manifests.narrow_level(self.user)),
            existing(_FLOWS, manifests.flow_to_level(self.user, self.user)) as flow,
            self._session() as session,
        ):
            await wait_until(lambda: self._flows_in(session, flow["metadata"]["uid"]))
            async with meanwhile(self._take_the_turn(session)):
                await wait_until(lambda: self._is_refused(429))
                yield
        await wait_until(self._is_let_in)

    @asynccontextmanager
    async def failing(self) -> AsyncIterator[None]:
        """Let the server ask a webhook that nobody serves whenever this user writes."""
        webhook = manifests.broken_webhook(self.user, self.user)
        async with self.administrator.existing(_WEBHOOKS, webhook):
            await wait_until(lambda: self._is_refused(500))
            yield
        await wait_until(self._is_let_in)

    def _session(self) -> aiohttp.ClientSession:
        """A way in that no relay disturbs."""
        identity = an_identity(self.plane, self.user)
        headers = [*identity.headers, ("Content-Type", JSON)]
        connector = aiohttp.TCPConnector(ssl=identity.trust or True)
        url = f"https://{LOOPBACK}:{self.plane.port}"
        return aiohttp.ClientSession(url, headers=headers, connector=connector)

    async def _flows_in(self, session: aiohttp.ClientSession, flow: str) -> bool:
        async with session.get("/version") as answer:
            return answer.headers.get("X-Kubernetes-PF-FlowSchema-UID") == flow

    async def _take_the_turn(self, session: aiohttp.ClientSession) -> None:
        """Send requests whose bodies never end, one after the other."""

        async def endless() -> AsyncIterator[bytes]:
            yield b"{"
            await asyncio.Event().wait()

        while True:
            with suppress(aiohttp.ClientError, TimeoutError):
                async with session.post(_EVENTS, data=endless(), timeout=_TURN):
                    pass
            await asyncio.sleep(0.05)

    async def _is_let_in(self) -> bool:
        return await self._refusal() == 0

    async def _is_refused(self, code: int) -> bool:
        return await self._refusal() == code

    async def _refusal(self) -> int:
        """What the server says to a write that changes nothing."""
        event = {"metadata": {"name": "dry"}, "involvedObject": {"namespace": "default"}}
        try:
            await self.client.post(f"{_EVENTS}?dryRun=All", json.dumps(event).encode())
        except ApiError as error:
            return error.status.code
        return 0
