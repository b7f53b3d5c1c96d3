"""Reviews as an API server sends them, and a webhook over a small cluster that answers them."""

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any

from support.fakes.updater_cluster import UpdaterCluster

from trimtab.admission.admit import Admission
from trimtab.admission.live_lookups import LiveLookups
from trimtab.admission.logs import RateLimitedLogger
from trimtab.admission.overlap_guard import MAX_PATIENCE, OverlapGuard
from trimtab.admission.reports import AdmissionCounts
from trimtab.admission.review import Probe, Reviewer, no_probe
from trimtab.admission.server.handler import Answering
from trimtab.admission.settings import AdmissionSettings
from trimtab.api.http.requests import HttpRequest

Json = dict[str, Any]

AUTOSCALERS = ("autoscaling.k8s.io", "v1", "verticalpodautoscalers")
PODS = ("", "v1", "pods")


def a_pod_object(**fields: object) -> Json:
    """A pod of the Deployment `web`, as its ReplicaSet asks for it."""
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web-1",
        "uid": "rs-web",
        "controller": True,
    }
    requests = {"cpu": "100m", "memory": "100Mi"}
    spec: Json = {"containers": [{"name": "app", "resources": {"requests": requests}}]}
    metadata = {"generateName": "web-1-", "labels": {"app": "web"}, "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": {**spec, **fields}}


def an_autoscaler_object(name: str = "new", target: str = "api", **spec: object) -> Json:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    return {"metadata": {"name": name}, "spec": {"targetRef": reference, **spec}}


def a_review(
    given: Json | None,
    place: tuple[str, str, str] = PODS,
    *,
    old: Json | None = None,
    **fields: object,
) -> Json:
    group, version, resource = place
    name = (given or {}).get("metadata", {}).get("name", "")
    request: Json = {
        "uid": "u-1",
        "resource": {"group": group, "version": version, "resource": resource},
        "namespace": "default",
        "name": name,
        "operation": "CREATE" if old is None else "UPDATE",
        "object": given,
        "oldObject": old,
        **fields,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def loop_seconds() -> float:
    """Return the time of the loop that runs."""
    return asyncio.get_running_loop().time()


class Webhook:
    """Everything behind the port, and a timer that a test may turn."""

    def __init__(
        self,
        cluster: UpdaterCluster,
        settings: AdmissionSettings | None = None,
        probe: Probe = no_probe,
        timer: Callable[[], float] = lambda: 0.0,
    ) -> None:
        settings = settings or AdmissionSettings()
        teller = RateLimitedLogger(timer)
        self.admission = Admission(cluster, settings, teller, timer)
        lookups = LiveLookups(cluster.fetch_autoscaler, loop_seconds)
        self.claims = OverlapGuard(self.admission.index, lookups, loop_seconds)
        reviewer = Reviewer(self.admission, self.claims, settings, teller, probe)
        self.tally = AdmissionCounts(pods=self.admission.counts)
        self.answering = Answering(reviewer, self.tally, timer, teller)

    def ask(self, review: Json) -> Json:
        """The response to a review."""
        return self.send(json.dumps(review).encode())["response"]  # type: ignore[no-any-return]

    async def ask_patiently(self, review: Json) -> Json:
        """Return the response to a review that the server puts off as long as it may."""
        came = loop_seconds()
        while True:
            waited = loop_seconds() - came
            found = self.answering.answer(
                HttpRequest({"content-type": "application/json"}, json.dumps(review).encode()),
                waited,
                may_wait=waited < MAX_PATIENCE.total_seconds(),
            )
            if isinstance(found, bytes):
                response: Json = json.loads(found)["response"]
                return response
            await asyncio.sleep(0.05)

    def send(self, body: bytes, content_type: str = "application/json") -> Json:
        """The answer to whatever is sent."""
        found = self.answering.answer(HttpRequest({"content-type": content_type}, body), 0.0)
        assert isinstance(found, bytes)
        answer: Json = json.loads(found)
        return answer


def patch_of(response: Json) -> list[Json]:
    """The operations in a response."""
    patch: list[Json] = json.loads(base64.b64decode(response.get("patch", "W10=")))
    return patch
