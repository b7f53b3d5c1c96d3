"""Pods below custom resources, through the real client, the real stores and the real server."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any

import pytest
from support.makers.reviews import a_review, patch_of
from support.servers.api_server import Asked, Response, Unfinished, a_client, ok, refused, serving

from trimtab.admission.admit import Admission, AdmitOutcome
from trimtab.admission.live_lookups import LiveLookups
from trimtab.admission.logs import RateLimitedLogger
from trimtab.admission.overlap_guard import OverlapGuard
from trimtab.admission.reports import AdmissionCounts
from trimtab.admission.review import Reviewer
from trimtab.admission.server.handler import Answering
from trimtab.admission.server.server import WebhookServer
from trimtab.admission.settings import AdmissionSettings
from trimtab.cluster.clock import RealClock
from trimtab.cluster.live.cluster import LiveCluster, Scope

Json = dict[str, Any]

GROUP = "example.com/v1"
SCALE = "/apis/example.com/v1/namespaces/default/rollouts/web/scale"
FORBIDDEN = (
    'rollouts.example.com "web" is forbidden: User "x" cannot get resource "rollouts/scale"'
    ' in API group "example.com" in the namespace "default"'
)


def metadata(name: str, owner: tuple[str, str] | None = None) -> Json:
    made: Json = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    if owner is not None:
        api_version = "apps/v1" if owner[0] in ("ReplicaSet", "StatefulSet") else GROUP
        made["ownerReferences"] = [
            {
                "apiVersion": api_version,
                "kind": owner[0],
                "name": owner[1],
                "uid": f"uid-{owner[1]}",
                "controller": True,
            }
        ]
    return made


def workload(name: str, owner: tuple[str, str]) -> Json:
    spec = {"selector": {"matchLabels": {"app": "web"}}, "replicas": 2}
    return {"metadata": metadata(name, owner), "spec": spec}


def autoscaler(kind: str, name: str) -> Json:
    api_version = GROUP if kind in ("Rollout", "Fleet") else "apps/v1"
    target = {"cpu": "500m", "memory": "500Mi"}
    recommended = {"containerRecommendations": [{"containerName": "app", "target": target}]}
    return {
        "metadata": {**metadata("vpa"), "creationTimestamp": "2026-08-01T00:00:00Z"},
        "spec": {"targetRef": {"apiVersion": api_version, "kind": kind, "name": name}},
        "status": {"recommendation": recommended},
    }


def pod(kind: str, name: str) -> Json:
    made = metadata("pod", (kind, name))
    del made["name"], made["uid"]
    resources = {"requests": {"cpu": "100m", "memory": "100Mi"}}
    container = {"name": "app", "resources": resources}
    labels = {"app": "web"}
    return {"metadata": {**made, "labels": labels}, "spec": {"containers": [container]}}


class ApiServer:
    """An API server with a Rollout that has a scale, and a Fleet that has none."""

    def __init__(self, target: tuple[str, str]) -> None:
        self.items = {
            "verticalpodautoscalers": [autoscaler(*target)],
            "replicasets": [workload("web-1", ("Rollout", "web"))],
            "statefulsets": [workload("db", ("Fleet", "prod"))],
        }
        kinds = [("rollouts", "Rollout"), ("rollouts/scale", "Scale"), ("fleets", "Fleet")]
        resources = [{"name": name, "kind": kind, "namespaced": True} for name, kind in kinds]
        scale = {
            "metadata": metadata("web"),
            "spec": {"replicas": 2},
            "status": {"selector": "app=web"},
        }
        self.documents: dict[str, Json] = {
            "/apis/example.com": {"versions": [{"version": "v1"}]},
            "/apis/example.com/v1": {"resources": resources},
            SCALE: scale,
        }
        self.is_scale_forbidden = False
        self.asked: list[str] = []

    def answer(self, asked: Asked) -> Response:
        self.asked.append(asked.path)
        if "watch" in asked.query:
            return Unfinished(is_silent=True)
        if asked.path == SCALE and self.is_scale_forbidden:
            return refused(403, reason="Forbidden", message=FORBIDDEN)
        if asked.path in self.documents:
            return ok(self.documents[asked.path])
        if asked.path.startswith("/apis/example.com"):
            return refused(404, reason="NotFound")
        items = self.items.get(asked.path.rpartition("/")[2], [])
        return ok({"metadata": {"resourceVersion": "7"}, "items": items})


class Webhook:
    """An admission controller that is asked over HTTP."""

    def __init__(self, cluster: LiveCluster) -> None:
        settings, teller = AdmissionSettings(), RateLimitedLogger()
        self.cluster = cluster
        self.admission = Admission(cluster, settings, teller)
        lookups = LiveLookups(cluster.fetch_autoscaler, time.perf_counter)
        claims = OverlapGuard(self.admission.index, lookups, time.perf_counter)
        reviewer = Reviewer(self.admission, claims, settings, teller)
        self.tally = AdmissionCounts(pods=self.admission.counts)
        answering = Answering(reviewer, self.tally, time.perf_counter, teller)
        self.server = WebhookServer(answering, time.perf_counter)
        self.port = 0

    async def create(self, new: Json) -> str | None:
        """The CPU that a new pod gets; None if it comes in as it is."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        body = json.dumps(a_review(new)).encode()
        head = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(b"POST /?timeout=5s HTTP/1.1\r\n" + head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        response = json.loads(await reader.readexactly(length))["response"]
        writer.close()
        assert response["allowed"]
        cpu = [each["value"] for each in patch_of(response) if each["path"].endswith("/cpu")]
        return cpu[0] if cpu else None


@asynccontextmanager
async def running(api: ApiServer) -> AsyncIterator[Webhook]:
    clock = RealClock()
    scope = Scope(pods=False, checkpoints=False)
    async with serving(api.answer) as server, a_client(server.url, clock=clock) as client:
        cluster = LiveCluster(client, scope, clock=clock, random=Random(1))
        watching = asyncio.create_task(cluster.run())
        await cluster.synced()
        webhook = Webhook(cluster)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            webhook.port = listener.getsockname()[1]
            tasks = [
                watching,
                asyncio.create_task(webhook.admission.run()),
                asyncio.create_task(webhook.server.listen(listener, None)),
            ]
            try:
                yield webhook
            finally:
                for task in tasks:
                    task.cancel()
                for task in tasks:
                    with suppress(asyncio.CancelledError):
                        await task


IN_ROLLOUT, IN_SET = pod("ReplicaSet", "web-1"), pod("StatefulSet", "db")


@pytest.mark.parametrize(
    ("target", "new", "gets", "how"),
    [
        pytest.param(
            ("Rollout", "web"),
            IN_ROLLOUT,
            "500m",
            AdmitOutcome.PATCHED,
            id="a custom resource with a scale above a ReplicaSet",
        ),
        pytest.param(
            ("Rollout", "web"),
            pod("Rollout", "web"),
            "500m",
            AdmitOutcome.PATCHED,
            id="a custom resource with a scale that owns its pods",
        ),
        pytest.param(
            ("StatefulSet", "db"),
            IN_SET,
            "500m",
            AdmitOutcome.PATCHED,
            id="a StatefulSet below a custom resource without a scale",
        ),
        pytest.param(
            ("Fleet", "prod"),
            IN_SET,
            None,
            AdmitOutcome.UNGOVERNED,
            id="a custom resource without a scale cannot be a target",
        ),
        pytest.param(
            ("ReplicaSet", "web-1"),
            IN_ROLLOUT,
            None,
            AdmitOutcome.UNGOVERNED,
            id="a target that something scalable owns",
        ),
    ],
)
async def test_the_very_first_pod_below_a_custom_resource_gets_its_size(
    target: tuple[str, str], new: Json, gets: str | None, how: AdmitOutcome
) -> None:
    async with running(ApiServer(target)) as webhook:
        assert await webhook.create(new) == gets
        assert webhook.tally.pods == {how: 1}


async def test_a_pod_comes_in_as_it_is_where_its_owner_may_not_be_read() -> None:
    api = ApiServer(("Rollout", "web"))
    api.is_scale_forbidden = True
    async with running(api) as webhook:
        sizes = {await webhook.create(IN_ROLLOUT) for _ in range(50)}
        missing = [str(each) for each in webhook.cluster.shortcomings().values()]

        assert sizes == {None}
        assert webhook.tally.pods == {AdmitOutcome.OWNER_UNKNOWN: 50}
        assert any("rollouts/scale" in each for each in missing)
        assert api.asked.count(SCALE) <= 2


async def test_pods_that_come_together_share_one_lookup() -> None:
    api = ApiServer(("Rollout", "web"))
    async with running(api) as webhook:
        sizes = await asyncio.gather(*(webhook.create(IN_ROLLOUT) for _ in range(30)))

        assert set(sizes) == {"500m"}
        assert api.asked.count(SCALE) == 1
