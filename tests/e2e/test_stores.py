"""Views and elections under load and long stalls of a real API server.

The same without load, in every world, is in `tests/contract`.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from random import Random

import aiohttp
import pytest
from contract.stage import meanwhile
from support.servers.relay import LOOPBACK, Relay, relaying
from support.stages.administrator import CLOCK, a_client

from rig.controlplane import ControlPlane
from trimtab.api.wire.lists import decode_list
from trimtab.cluster.errors import ClusterError, ConflictError, NotFoundError
from trimtab.cluster.http import paths
from trimtab.cluster.http.client import Client
from trimtab.cluster.live.cluster import LiveCluster, Scope
from trimtab.cluster.live.leader_election import ElectionSettings, Elector
from trimtab.cluster.watch.interning import decode_thrifty_pod
from trimtab.core.model.pods import Pod

pytestmark = pytest.mark.e2e

PODS = 5_000
KEPT = 1_500
"""So many are there at a time; beyond that, the oldest is deleted for each that is created."""
WORKERS = 24


@pytest.fixture
async def administrator(control_plane: ControlPlane, applied_crds: str) -> AsyncIterator[Client]:
    assert applied_crds
    async with a_client(control_plane, control_plane.port) as client:
        yield client


@pytest.fixture
async def namespace(control_plane: ControlPlane, administrator: Client) -> AsyncIterator[str]:
    name = f"load-{secrets.token_hex(4)}"
    await administrator.post("/api/v1/namespaces", encode({"metadata": {"name": name}}))
    # No controller makes it here, and without it no pod is let in.
    accounts = paths.collection("v1", "serviceaccounts", name)
    await administrator.post(accounts, encode({"metadata": {"name": "default"}}))
    yield name
    # All at once takes longer than any client of ours would wait.
    everything = f"{paths.pods(name)}?gracePeriodSeconds=0"
    delete = partial(control_plane.request, "DELETE", everything, timeout_seconds=120)
    await asyncio.to_thread(delete)


def encode(document: object) -> bytes:
    return json.dumps(document).encode()


@asynccontextmanager
async def watched(plane: ControlPlane, namespace: str) -> AsyncIterator[tuple[LiveCluster, Relay]]:
    """The namespace as a component sees it, and the way there."""
    async with relaying(plane.port) as relay, a_client(plane, relay.port) as client:
        cluster = LiveCluster(client, Scope(namespace), clock=CLOCK, random=Random(1))
        async with meanwhile(cluster.run()):
            await cluster.synced()
            yield cluster, relay


async def insist(act: Callable[[], Awaitable[bytes]]) -> None:
    """Do it, however often the server is not there meanwhile."""
    while True:
        try:
            await act()
        except (ConflictError, NotFoundError):
            return
        except ClusterError:
            await asyncio.sleep(0.2)
        else:
            return


async def turn_over(client: Client, namespace: str, numbers: Iterable[int]) -> None:
    """Create the pods of these numbers, and for each delete the one that is KEPT behind it."""
    path = paths.pods(namespace)
    spec = {"containers": [{"name": "app", "image": "none"}]}
    left = iter(numbers)

    async def work() -> None:
        for number in left:
            body = encode({"metadata": {"name": f"pod-{number}"}, "spec": spec})
            await insist(partial(client.post, path, body))
            if number >= KEPT:
                old = paths.item(path, f"pod-{number - KEPT}") + "?gracePeriodSeconds=0"
                await insist(partial(client.delete, old))

    async with asyncio.TaskGroup() as group:
        for _ in range(WORKERS):
            group.create_task(work())


async def cut_again_and_again(relay: Relay) -> None:
    for _ in range(5):
        await asyncio.sleep(1)
        relay.cut()


async def restart(plane: ControlPlane) -> None:
    await asyncio.sleep(2)
    await asyncio.to_thread(plane.restart_apiserver)


async def compact_and_restart(plane: ControlPlane, client: Client) -> None:
    await asyncio.sleep(2)
    listed = json.loads(await client.fetch("/api/v1/namespaces"))
    order = {"revision": int(listed["metadata"]["resourceVersion"]), "physical": True}
    url = f"http://{LOOPBACK}:{plane.ports.etcd}/v3/kv/compaction"
    async with aiohttp.ClientSession() as session, session.post(url, json=order) as answer:
        assert answer.status == 200, await answer.text()
    await asyncio.to_thread(plane.restart_apiserver)


async def wait_for(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while True:
            if condition():
                return
            await asyncio.sleep(0.1)


def shows(cluster: LiveCluster, pods: Mapping[str, Pod]) -> bool:
    return {pod.name: pod for pod in cluster.pods} == pods


async def list_pods(client: Client, namespace: str) -> dict[str, Pod]:
    listing = decode_list(await client.fetch(paths.pods(namespace)), decode_thrifty_pod)
    return {pod.name: pod for pod in listing.items}


async def test_while_5000_pods_come_and_go_a_view_survives_every_disturbance(
    control_plane: ControlPlane, administrator: Client, namespace: str
) -> None:
    async with watched(control_plane, namespace) as (cluster, relay):
        disturbances = [
            partial(cut_again_and_again, relay),
            partial(restart, control_plane),
            partial(compact_and_restart, control_plane, administrator),
        ]
        third = PODS // len(disturbances) + 1
        for turn, disturb in enumerate(disturbances):
            numbers = range(turn * third, min((turn + 1) * third, PODS))
            async with asyncio.TaskGroup() as group:
                group.create_task(disturb())
                group.create_task(turn_over(administrator, namespace, numbers))
            truth = await list_pods(administrator, namespace)
            await wait_for(partial(shows, cluster, truth))

            assert len(truth) == min(numbers.stop, KEPT)


def an_elector(client: Client, namespace: str, identity: str) -> Elector:
    cluster = LiveCluster(client, Scope(namespace), clock=CLOCK, random=Random(1))
    settings = ElectionSettings(namespace, "vpa-updater", identity)
    return Elector(cluster, settings, clock=CLOCK, elapsed=CLOCK.elapsed)


async def test_while_the_server_stalls_for_a_minute_nobody_leads_and_afterwards_one_does(
    control_plane: ControlPlane, administrator: Client, namespace: str
) -> None:
    async def act() -> None:
        await asyncio.Event().wait()

    async def watch_closely(*electors: Elector) -> None:
        while True:
            assert sum(elector.leads() for elector in electors) <= 1
            await asyncio.sleep(0.005)

    async with AsyncExitStack() as stack:
        other = await stack.enter_async_context(a_client(control_plane, control_plane.port))
        one = an_elector(administrator, namespace, "one")
        two = an_elector(other, namespace, "two")
        await stack.enter_async_context(meanwhile(watch_closely(one, two)))
        for elector in (one, two):
            await stack.enter_async_context(meanwhile(elector.run(act)))
        await wait_for(lambda: one.leads() or two.leads())
        with control_plane.processes["kube-apiserver"].paused():
            stalled_at = CLOCK.elapsed()
            # By its own clock a leader stops before others may begin.
            await asyncio.sleep(one_deadline().total_seconds())
            led_on = one.leads() or two.leads()
            await asyncio.sleep(60 - (CLOCK.elapsed() - stalled_at).total_seconds())
            leads_at_the_end = one.leads() or two.leads()
        await wait_for(lambda: one.leads() or two.leads())

        assert not led_on
        assert not leads_at_the_end


def one_deadline() -> timedelta:
    """How long anybody may lead after the last renewal that succeeded, and a little more."""
    return ElectionSettings("some", "lease", "somebody").renew_deadline + timedelta(seconds=1)
