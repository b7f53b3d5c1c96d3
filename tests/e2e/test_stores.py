"""Stores, owners and elections against a real API server that is disturbed."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from random import Random
from typing import Any

import aiohttp
import pytest
from relay import LOOPBACK, Relay, relaying

from rig.controlplane import ControlPlane
from trimtab.cluster import feeding
from trimtab.cluster.adapter import LiveCluster, Scope
from trimtab.cluster.budget import RequestBudget
from trimtab.cluster.client import Client
from trimtab.cluster.clock import RealClock
from trimtab.cluster.election import ElectionSettings, Elector
from trimtab.cluster.errors import NotFoundError
from trimtab.cluster.kubeconfig import load_kubeconfig
from trimtab.cluster.ports import Cluster
from trimtab.core.pods import Pod, WorkloadName

pytestmark = pytest.mark.e2e

Json = dict[str, Any]
CLOCK = RealClock()


@dataclass
class World:
    """A namespace of a real cluster, as a component sees it and as it is."""

    plane: ControlPlane
    namespace: str
    direct: Client
    relay: Relay
    disturbed: Client

    def path(self, root: str, resource: str, name: str = "") -> str:
        return f"{root}/namespaces/{self.namespace}/{resource}/{name}".rstrip("/")

    async def create(self, root: str, resource: str, manifest: Json) -> Json:
        body = json.dumps(manifest).encode()
        created: Json = json.loads(await self.direct.post(self.path(root, resource), body))
        return created

    async def create_pod(self, name: str, **metadata: Any) -> Json:
        container = {"name": "app", "image": "none", "resources": {"requests": {"cpu": "10m"}}}
        manifest = {"metadata": {"name": name, **metadata}, "spec": {"containers": [container]}}
        return await self.create("/api/v1", "pods", manifest)

    async def delete_pod(self, name: str) -> None:
        # Nothing runs them, so nobody would end them gracefully.
        path = self.path("/api/v1", "pods", name) + "?gracePeriodSeconds=0"
        with suppress(NotFoundError):
            await self.direct.delete(path)

    async def label_pod(self, name: str, value: str) -> None:
        patch = [{"op": "add", "path": "/metadata/labels", "value": {"turn": value}}]
        await self.direct.patch(self.path("/api/v1", "pods", name), json.dumps(patch).encode())

    async def list_pods(self) -> dict[str, str]:
        """Every pod of the namespace with its version, freshly listed."""
        listed = json.loads(await self.direct.fetch(self.path("/api/v1", "pods")))
        return {
            item["metadata"]["name"]: item["metadata"]["resourceVersion"]
            for item in listed["items"]
        }


def a_client(plane: ControlPlane, port: int) -> Client:
    connection = load_kubeconfig([plane.kubeconfig], environment={}, clock=CLOCK)
    connection = replace(connection, server=f"https://{LOOPBACK}:{port}")
    budget = RequestBudget(CLOCK, rate=0, burst=1)
    return Client(connection, clock=CLOCK, random=Random(1), budget=budget)


@pytest.fixture
async def world(control_plane: ControlPlane, applied_crds: str) -> AsyncIterator[World]:
    assert applied_crds
    namespace = f"stores-{secrets.token_hex(4)}"
    async with AsyncExitStack() as stack:
        relay = await stack.enter_async_context(relaying(control_plane.port))
        direct = await stack.enter_async_context(a_client(control_plane, control_plane.port))
        disturbed = await stack.enter_async_context(a_client(control_plane, relay.port))
        found = World(control_plane, namespace, direct, relay, disturbed)
        await direct.post(
            "/api/v1/namespaces", json.dumps({"metadata": {"name": namespace}}).encode()
        )
        # No controller makes it here, and without it no pod is let in.
        await found.create("/api/v1", "serviceaccounts", {"metadata": {"name": "default"}})
        yield found
        await direct.delete(f"/api/v1/namespaces/{namespace}")


@asynccontextmanager
async def watched(world: World) -> AsyncIterator[LiveCluster]:
    cluster = LiveCluster(
        world.disturbed, Scope(namespace=world.namespace), clock=CLOCK, random=Random(1)
    )
    running = asyncio.create_task(cluster.run())
    try:
        async with asyncio.timeout(30):
            await cluster.synced()
        yield cluster
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def versions(pods: list[Pod]) -> dict[str, str]:
    return {pod.name: pod.resource_version for pod in pods}


async def wait_for(condition: Callable[[], bool | Awaitable[bool]], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while True:
            holds = condition()
            if holds is True or (not isinstance(holds, bool) and await holds):
                return
            await asyncio.sleep(0.05)


async def cut_the_watch(world: World) -> None:
    for _ in range(3):
        world.relay.cut()
        await asyncio.sleep(0.3)


async def hold_up_the_network(world: World) -> None:
    world.relay.hold_up()
    await asyncio.sleep(2)
    world.relay.go_on()


async def restart_the_server(world: World) -> None:
    # What it remembered of the past is gone: it no longer knows the version to go on from.
    await asyncio.to_thread(world.plane.restart_apiserver)


async def compact_and_restart(world: World) -> None:
    listed = json.loads(await world.direct.fetch("/api/v1/namespaces"))
    revision = int(listed["metadata"]["resourceVersion"])
    url = f"http://{LOOPBACK}:{world.plane.ports.etcd}/v3/kv/compaction"
    order = {"revision": revision, "physical": True}
    async with aiohttp.ClientSession() as session, session.post(url, json=order) as answer:
        assert answer.status == 200, await answer.text()
    await restart_the_server(world)


@pytest.mark.parametrize(
    "disturb",
    [
        pytest.param(cut_the_watch, id="the watch is cut"),
        pytest.param(hold_up_the_network, id="the network stands still"),
        pytest.param(restart_the_server, id="the server is restarted"),
        pytest.param(compact_and_restart, id="history is compacted"),
    ],
)
async def test_under_churn_a_store_equals_a_fresh_list_after_every_disturbance(
    world: World, disturb: Callable[[World], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeding, "PAGE_SIZE", 40)
    steady = [f"steady-{number}" for number in range(100)]
    for name in steady:
        await world.create_pod(name)

    async def churn() -> None:
        for number in count():
            with suppress(Exception):
                await world.create_pod(f"churn-{number}")
                await world.label_pod(steady[number % 100], str(number))
                await world.delete_pod(f"churn-{number - 5}")
            await asyncio.sleep(0.005)

    async def watch_closely(cluster: LiveCluster) -> None:
        while True:
            assert versions(list(cluster.pods)).keys() >= set(steady)
            await asyncio.sleep(0.005)

    async with watched(world) as cluster:
        assert versions(list(cluster.pods)) == await world.list_pods()
        churning = asyncio.create_task(churn())
        watching = asyncio.create_task(watch_closely(cluster))
        await asyncio.sleep(1)
        await disturb(world)
        await asyncio.sleep(1)
        churning.cancel()
        truth = await world.list_pods()
        await wait_for(lambda: versions(list(cluster.pods)) == truth)

        assert not watching.done()
        assert world.path("/api/v1", "pods") not in cluster.problems()
        watching.cancel()


async def test_an_event_makes_the_view_of_its_kind_current(world: World) -> None:
    async with watched(world) as cluster:
        await asyncio.sleep(2)
        await world.create_pod("a")
        await wait_for(lambda: cluster.pods.find(world.namespace, "a") is not None)
        age, whole = cluster.pods.age(), cluster.age()

        assert age is not None
        assert whole is not None
        assert age < timedelta(seconds=2) <= whole


async def test_changes_tell_what_happens_to_pods(world: World) -> None:
    async with watched(world) as cluster:
        changes = cluster.pods.changes()
        await world.create_pod("a")
        async with asyncio.timeout(10):
            first = await anext(changes)
        await world.label_pod("a", "second")
        async with asyncio.timeout(10):
            second = await anext(changes)

        assert (first.name, dict(first.labels)) == ("a", {})
        assert (second.name, dict(second.labels)) == ("a", {"turn": "second"})


def controlled_by(owner: Json, kind: str, api_version: str) -> list[Json]:
    metadata = owner["metadata"]
    reference = {"apiVersion": api_version, "kind": kind, "name": metadata["name"]}
    return [{**reference, "uid": metadata["uid"], "controller": True}]


CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "rollouts.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "rollouts", "kind": "Rollout", "listKind": "RolloutList"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector",
                    },
                },
            }
        ],
    },
}


@pytest.fixture
async def rollouts(world: World) -> AsyncIterator[str]:
    """A kind that nobody here knows, and that can be scaled."""
    root = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await world.direct.post(root, json.dumps(CRD).encode())

    async def is_served() -> bool:
        with suppress(NotFoundError):
            data = await world.direct.fetch("/apis/example.com/v1")
            return "rollouts/scale" in data.decode()
        return False

    await wait_for(is_served)
    yield "/apis/example.com/v1"
    await world.direct.delete(f"{root}/rollouts.example.com")


async def create_rollout(world: World, root: str) -> Json:
    rollout: Json = {"apiVersion": "example.com/v1", "kind": "Rollout"}
    rollout |= {"metadata": {"name": "web"}, "spec": {"replicas": 1}}
    created = await world.create(root, "rollouts", rollout)
    created["status"] = {"replicas": 1, "selector": "app=web"}
    path = world.path(root, "rollouts", "web") + "/status"
    await world.direct.put(path, json.dumps(created).encode())
    return created


async def create_replica_set(world: World, owners: list[Json]) -> Json:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "app", "image": "none"}]},
    }
    spec = {"selector": {"matchLabels": {"app": "web"}}, "replicas": 1, "template": template}
    manifest = {"metadata": {"name": "web-1", "ownerReferences": owners}, "spec": spec}
    return await world.create("/apis/apps/v1", "replicasets", manifest)


async def test_the_owner_of_a_pod_is_found_through_stores_and_scales(
    world: World, rollouts: str
) -> None:
    rollout = await create_rollout(world, rollouts)
    owners = controlled_by(rollout, "Rollout", "example.com/v1")
    replica_set = await create_replica_set(world, owners)
    owners = controlled_by(replica_set, "ReplicaSet", "apps/v1")
    await world.create_pod("web-1-a", ownerReferences=owners)
    await world.create_pod("stray", ownerReferences=[{**owners[0], "uid": "another"}])
    async with watched(world) as cluster:
        pod = cluster.pods.find(world.namespace, "web-1-a")
        stray = cluster.pods.find(world.namespace, "stray")
        assert pod is not None
        assert stray is not None
        topmost = await cluster.owners.topmost(pod)
        workload = await cluster.owners.workload(
            WorkloadName(world.namespace, "Rollout", "web"), "example.com/v1"
        )

        assert topmost == WorkloadName(world.namespace, "Rollout", "web")
        assert await cluster.owners.topmost(stray) is None
        assert workload is not None
        assert workload.selector is not None
        assert workload.selector.matches({"app": "web"})
        assert await cluster.owners.topmost(workload) == topmost


async def test_limit_ranges_are_seen_in_their_namespace_alone(world: World) -> None:
    item = {"type": "Container", "max": {"cpu": "2"}}
    manifest = {"metadata": {"name": "bounds"}, "spec": {"limits": [item]}}
    await world.create("/api/v1", "limitranges", manifest)
    async with watched(world) as cluster:
        items = as_component(cluster).limit_ranges(world.namespace)

        assert [dict(each.max or {}) for each in items] == [{"cpu": 2000}]
        assert list(as_component(cluster).limit_ranges("default")) == []


def as_component(cluster: Cluster) -> Cluster:
    """The cluster as the port that components see."""
    return cluster


async def test_two_electors_on_a_real_lease_never_lead_at_once_even_if_the_server_stalls(
    world: World,
) -> None:
    async with AsyncExitStack() as stack:
        steady = await stack.enter_async_context(a_client(world.plane, world.plane.port))
        spans = {
            "lease_duration": timedelta(seconds=3),
            "renew_deadline": timedelta(seconds=2),
            "retry_period": timedelta(milliseconds=300),
        }
        electors = [
            Elector(
                LiveCluster(client, Scope(world.namespace), clock=CLOCK, random=Random(1)),
                ElectionSettings(world.namespace, "trimtab", identity, **spans),
                clock=CLOCK,
                elapsed=CLOCK.elapsed,
            )
            for identity, client in (("one", world.disturbed), ("two", steady))
        ]
        one, two = electors

        async def act() -> None:
            await asyncio.Event().wait()

        async def watch_closely() -> None:
            while True:
                assert not (one.leads() and two.leads())
                await asyncio.sleep(0.005)

        watching = asyncio.create_task(watch_closely())
        running = [asyncio.create_task(one.run(act))]
        await wait_for(one.leads)
        running.append(asyncio.create_task(two.run(act)))
        await asyncio.sleep(1)
        assert not two.leads()

        world.relay.hold_up()
        await wait_for(two.leads, seconds=10)
        world.relay.go_on()
        await asyncio.sleep(1)

        assert not one.leads()
        assert two.leads()
        assert not watching.done()
        for task in (*running, watching):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
