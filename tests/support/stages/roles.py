"""What tests of roles have in common: a workload whose pods differ, an autoscaler for each role."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from support.stages.components import SLOW_SECONDS, Json, running
from support.stages.updater import AUTOSCALING, MERGE, WORKLOADS, Stage

from rig import waiting
from trimtab.api.kinds.leases import Lease, decode_lease, encode_lease
from trimtab.api.wire.times import format_micro_time

LABEL = "trimtab.dev/role"
LEASE = "db-leader"
LEADER: Json = {"matchLabels": {LABEL: "leader"}}
OTHERS: Json = {
    "matchExpressions": [{"key": LABEL, "operator": "NotIn", "values": ["leader"]}],
}
FOLLOWER: Json = {"matchLabels": {LABEL: "follower"}}
BIG, LITTLE = {"cpu": "500m", "memory": "128Mi"}, {"cpu": "100m", "memory": "128Mi"}

role_keeper = partial(running, "roles")


class Cast:
    """The pods of a workload, which play roles that autoscalers tell apart."""

    def __init__(self, stage: Stage, name: str = "db", kind: str = "StatefulSet") -> None:
        self.stage = stage
        self.name = name
        self.kind = kind
        self.plane = stage.plane
        self.pods = f"/api/v1/namespaces/{stage.namespace}/pods"
        self.autoscalers = (
            f"/apis/{AUTOSCALING}/namespaces/{stage.namespace}/verticalpodautoscalers"
        )
        self.leases = f"/apis/coordination.k8s.io/v1/namespaces/{stage.namespace}/leases"
        version, resource = WORKLOADS[kind]
        self.workload = f"/apis/{version}/namespaces/{stage.namespace}/{resource}/{name}"

    def start(self, replicas: int = 3, requests: Json | None = None) -> None:
        """The pods, none of which has a role yet."""
        self.stage.deploy(self.name, requests or LITTLE, kind=self.kind, replicas=replicas)

    def give(self, role: str | None, *names: str) -> None:
        """Let the pods have that role from now on; None for no role at all."""
        for name in names:
            self.patch(f"{self.pods}/{name}", {"metadata": {"labels": {LABEL: role}}})

    def use(self, name: str, *, cpu: str, memory: str = "64Mi") -> None:
        """Let a pod of the fake node use so much."""
        used = {"kwok.x-k8s.io/usage-cpu": cpu, "kwok.x-k8s.io/usage-memory": memory}
        self.patch(f"{self.pods}/{name}", {"metadata": {"annotations": used}})

    def autoscale(
        self, name: str, selector: Json, target: Json | None = None, *, mode: str = "InPlace"
    ) -> tuple[int, Json]:
        """The answer to the creation of an autoscaler of a part of the pods."""
        spec = {
            "targetRef": {"apiVersion": "apps/v1", "kind": self.kind, "name": self.name},
            "updatePolicy": {"updateMode": mode},
            "selector": selector,
        }
        manifest = {
            "apiVersion": AUTOSCALING,
            "kind": "VerticalPodAutoscaler",
            "metadata": {"name": name},
            "spec": spec,
        }
        status, body = self.plane.request("POST", self.autoscalers, json.dumps(manifest).encode())
        if target is not None:
            self.stage.recommend(target, name=name)
        return status, json.loads(body)

    def name_lease(self, lease: str | None = LEASE) -> None:
        """Let the workload say by which lease its pods elect a leader."""
        annotations = {"trimtab.dev/role-lease": lease}
        self.patch(self.workload, {"metadata": {"annotations": annotations}})

    def hold(self, holder: str, *, seconds: int = 3600, lease: str = LEASE) -> None:
        """Let somebody hold the lease for so long."""
        found = self.find_lease(lease)
        version = "" if found is None else found.resource_version
        wanted = json.loads(
            encode_lease(Lease(self.stage.namespace, lease, version, holder=holder))
        )
        renewed = format_micro_time(datetime.now(UTC))
        wanted["spec"] |= {"leaseDurationSeconds": seconds, "renewTime": renewed}
        place = f"{self.leases}/{lease}" if version else self.leases
        method = "PUT" if version else "POST"
        status, body = self.plane.request(method, place, json.dumps(wanted).encode())
        assert status in (200, 201), body

    def find_lease(self, lease: str = LEASE) -> Lease | None:
        """The lease, if there is one."""
        status, body = self.plane.request("GET", f"{self.leases}/{lease}")
        return decode_lease(body) if status == 200 else None

    def identity(self) -> str:
        """Who holds the lease, by its own word; empty if nobody does."""
        found = self.find_lease()
        return "" if found is None else found.holder

    def holder(self) -> str:
        """The name of the pod that holds the lease; empty if none does."""
        return self.identity().partition("_")[0]

    def leaders(self) -> list[str]:
        """The names of the pods that have the role."""
        found = self.stage.pods(self.name)
        return [name_of(pod) for pod in found if pod["metadata"]["labels"].get(LABEL) == "leader"]

    def wait_for_leaders(self, *expected: str) -> None:
        """Return as soon as these pods have the role, and no others."""
        waiting.wait_for(self.leaders, [*expected].__eq__, patience_seconds=SLOW_SECONDS)

    def sizes(self) -> dict[str, str]:
        """The CPU that each pod has, by the word of its node."""
        return {
            name_of(pod): status.get("resources", {}).get("requests", {}).get("cpu", "")
            for pod in self.stage.pods(self.name)
            for status in pod["status"].get("containerStatuses", [])
        }

    def wait_for_sizes(self, *expected: str) -> None:
        """Return as soon as the pods have so much CPU, in the order of their numbers."""
        wanted = {f"{self.name}-{number}": cpu for number, cpu in enumerate(expected)}
        waiting.wait_for(self.sizes, wanted.__eq__, patience_seconds=SLOW_SECONDS)

    def wait_for_target(self, autoscaler: str, holds: Callable[[Json], object] = bool) -> Json:
        """What is recommended to the pods of an autoscaler, as soon as it is as wanted."""
        return waiting.wait_for(
            lambda: self.target(autoscaler), holds, patience_seconds=SLOW_SECONDS
        )

    def target(self, autoscaler: str) -> Json:
        """What is recommended to the pods of an autoscaler now."""
        _, body = self.plane.request("GET", f"{self.autoscalers}/{autoscaler}")
        said = json.loads(body).get("status", {}).get("recommendation", {})
        found: list[Json] = said.get("containerRecommendations", [])
        return dict(found[0]["target"]) if found else {}

    def patch(self, path: str, patch: Json) -> None:
        """Change an object."""
        status, body = self.plane.request("PATCH", path, json.dumps(patch).encode(), MERGE)
        assert status == 200, body


def name_of(pod: Json) -> str:
    return str(pod["metadata"]["name"])
