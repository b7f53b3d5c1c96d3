"""The webhook as a process: hostile clients, few rights, and an end in the middle of everything."""

import asyncio
import json
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.makers.certificates import a_pair, an_authority
from support.makers.hostile_requests import hostile_requests
from support.makers.reviews import a_pod_object, a_review
from support.stages.admission import Webhook, admission_controller
from support.stages.components import install

from rig import waiting
from rig.controlplane import ControlPlane
from rig.flags import LOOPBACK
from trimtab.cluster.auth.credentials import show_certificate

pytestmark = pytest.mark.e2e

Json = dict[str, Any]

HOSTILE = 100_000
WARM = 20_000
"""Until here caches fill, which are bounded."""
MOST_GROWTH_KIB = 24 * 1024
"""What all bounded caches together may hold, and a little more."""
CLIENTS = 4


@pytest.fixture(scope="module")
def installed(cluster: ControlPlane) -> ControlPlane:
    install(cluster)
    return cluster


@pytest.fixture
def webhook(installed: ControlPlane, tmp_path: Path) -> Iterator[Webhook]:
    with admission_controller(installed.kubeconfig, tmp_path) as it:
        yield it


class Client:
    """A client that goes on whatever happens to its connection."""

    def __init__(self, webhook: Webhook) -> None:
        self._port = webhook.port
        self._context = ssl.create_default_context(cadata=webhook.bundle)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, content_type: str, body: bytes) -> tuple[int, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(LOOPBACK, self._port, ssl=self._context)
        reader, writer = self._streams
        headers = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(b"POST / HTTP/1.1\r\n" + headers.encode("latin-1") + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        found = await reader.readexactly(length)
        if b"Connection: close" in answer:
            await self.close()
        return int(answer.split()[1]), found

    async def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            with suppress(OSError):
                await self._streams[1].wait_closed()
            self._streams = None


def resident_kib(webhook: Webhook) -> int:
    """The memory of the process."""
    status = Path(f"/proc/{webhook.run.pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0])


async def send_hostile(webhook: Webhook, seed: int, count: int) -> int:
    """How many of the hostile requests got a valid review."""
    client, valid = Client(webhook), 0
    for content_type, body in hostile_requests(seed, count):
        status, answer = await client.send(content_type, body)
        valid += status == 200 and isinstance(json.loads(answer)["response"]["allowed"], bool)
    await client.close()
    return valid


async def besiege(webhook: Webhook, first_seed: int, count: int) -> int:
    share = count // CLIENTS
    valid = await asyncio.gather(
        *(send_hostile(webhook, first_seed + each, share) for each in range(CLIENTS))
    )
    return sum(valid)


def test_memory_stays_flat_over_a_hundred_thousand_hostile_requests(webhook: Webhook) -> None:
    warmed = asyncio.run(besiege(webhook, 0, WARM))
    before = resident_kib(webhook)
    valid = asyncio.run(besiege(webhook, CLIENTS, HOSTILE))
    growth = resident_kib(webhook) - before

    assert (warmed, valid) == (WARM, HOSTILE)
    assert growth < MOST_GROWTH_KIB
    assert webhook.run.ask("/readyz") == (200, "OK")


def test_callers_need_a_certificate_where_an_authority_for_them_is_named(
    installed: ControlPlane, tmp_path: Path
) -> None:
    clients = an_authority()
    (tmp_path / "clients.pem").write_text(clients.certificate, encoding="utf-8")
    flag = f"--webhook-client-ca-file={tmp_path / 'clients.pem'}"
    body = json.dumps(a_review(a_pod_object())).encode()
    pair = a_pair(clients, "kube-apiserver")

    async def review(webhook: Webhook, *, shows: bool) -> int:
        client = Client(webhook)
        if shows:
            given = (pair.certificate, pair.key)
            show_certificate(client._context, *given, source="test", field="")
        try:
            return (await client.send("application/json", body))[0]
        except (OSError, asyncio.IncompleteReadError):
            return 0
        finally:
            await client.close()

    with admission_controller(installed.kubeconfig, tmp_path, flag) as webhook:
        found = [asyncio.run(review(webhook, shows=shows)) for shows in (True, False, True)]

    assert found == [200, 0, 200]


def test_what_has_begun_to_come_is_answered_when_it_is_told_to_end(webhook: Webhook) -> None:
    body = json.dumps(a_review(a_pod_object())).encode()
    unanswered: list[bytes] = []

    async def ask_until_the_end() -> int:
        """How often there was an answer; a request that gets none is remembered."""
        client, count = Client(webhook), 0
        with suppress(ConnectionError):
            while True:
                try:
                    status, _ = await client.send("application/json", body)
                except asyncio.IncompleteReadError as error:
                    unanswered.append(error.partial)
                    break
                assert status == 200
                count += 1
        return count

    async def scene() -> list[int]:
        asking = asyncio.gather(*(ask_until_the_end() for _ in range(CLIENTS)))
        await asyncio.to_thread(
            waiting.wait_for,
            lambda: webhook.run.metric("vpa_admission_controller_connections"),
            lambda count: count == CLIENTS,
        )
        webhook.run.process.popen.terminate()
        return await asking

    counts = asyncio.run(scene())

    assert webhook.run.process.popen.wait(30) == 0
    assert all(counts)
    # A connection may end between two requests, before it is told, but never within an answer.
    assert set(unanswered) <= {b""}
