"""What tests of a real updater have in common: Deployments, and what is planned for them.

Recommendations are written by hand, and so is the lease of an admission controller.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from support.stages.admission import OBSERVED
from support.stages.components import SLOW_SECONDS, Json, Run, running

from rig import waiting
from rig.controlplane import ControlPlane
from trimtab.api.wire.times import format_micro_time

MERGE = "application/merge-patch+json"
AUTOSCALING = "autoscaling.k8s.io/v1"
WORKLOADS = {
    "Deployment": ("apps/v1", "deployments"),
    "ReplicaSet": ("apps/v1", "replicasets"),
    "ReplicationController": ("v1", "replicationcontrollers"),
    "StatefulSet": ("apps/v1", "statefulsets"),
}
BATCH = "batch/v1"
HIGHER_CPU = {"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}
HIGHER_MEMORY = {"resources": ["memory"], "changeRequirement": "TargetHigherThanRequests"}
HIGHER = {"resources": ["cpu", "memory"], "changeRequirement": "TargetHigherThanRequests"}
SMALL, LARGE = {"cpu": "100m", "memory": "100Mi"}, {"cpu": "500m", "memory": "500Mi"}
TARGET = {"cpu": "200m", "memory": "200Mi"}

updater = partial(running, "updater")


class Stage:
    """A namespace with workloads and their autoscalers."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._autoscalers = f"/apis/{AUTOSCALING}/namespaces/{namespace}/verticalpodautoscalers"

    def deploy(
        self,
        name: str = "web",
        *requests: Json,
        kind: str = "Deployment",
        replicas: int = 2,
        annotations: dict[str, str] | None = None,
        limits: Json | None = None,
    ) -> list[str]:
        """A workload with a container for each of the requests; the uids of its pods."""
        template = a_template(*requests, annotations=annotations, limits=limits)
        pods = self.start(template, name=name, kind=kind, replicas=replicas)
        return [pod["metadata"]["uid"] for pod in pods]

    def start(
        self, template: Json, *, name: str = "web", kind: str = "Deployment", replicas: int = 2
    ) -> list[Json]:
        """The pods of a new workload, as soon as all of them tell what they have."""
        self.create(template, name=name, kind=kind, replicas=replicas)
        return self.wait_until_running(replicas, name)

    def create(
        self, template: Json, *, name: str = "web", kind: str = "Deployment", replicas: int = 2
    ) -> None:
        """Create a workload, and wait for nothing."""
        labels = {"app": name}
        template["metadata"]["labels"] = labels
        spec = {
            "replicas": replicas,
            "selector": labels if kind == "ReplicationController" else {"matchLabels": labels},
            "template": template,
        }
        version, resource = WORKLOADS[kind]
        root = "/api/v1" if version == "v1" else f"/apis/{version}"
        path = f"{root}/namespaces/{self.namespace}/{resource}"
        self._create(path, version, name, spec, kind=kind)

    def wait_until_running(self, count: int, name: str = "web") -> list[Json]:
        """The pods of a workload, as soon as that many tell what they have and no others are."""
        return self.wait_for_pods(
            lambda pods: len(pods) == count and all(map(reports_resources, pods)), name
        )

    def autoscale(
        self,
        *targets: Json,
        name: str = "web",
        kind: str = "Deployment",
        mode: str = "Recreate",
        requirements: list[Json] | None = None,
        **spec: Any,
    ) -> None:
        """An autoscaler of the workload, with bounds that are the targets themselves."""
        policy = {"updateMode": mode, "evictionRequirements": requirements or []}
        version = WORKLOADS[kind][0] if kind in WORKLOADS else BATCH
        target = {"apiVersion": version, "kind": kind, "name": name}
        wanted = {"targetRef": target, "updatePolicy": policy, **spec}
        self._create(self._autoscalers, AUTOSCALING, name, wanted, kind="VerticalPodAutoscaler")
        self.recommend(*targets or (TARGET,), name=name)

    def recommend(
        self,
        *targets: Json,
        name: str = "web",
        lower: Json | None = None,
        upper: Json | None = None,
    ) -> None:
        recommended = [
            {
                "containerName": f"c{index}",
                "target": each,
                "lowerBound": lower or each,
                "upperBound": upper or each,
            }
            for index, each in enumerate(targets)
        ]
        status = {"recommendation": {"containerRecommendations": recommended}}
        self._patch(f"{self._autoscalers}/{name}/status", {"status": status})

    def wait_until_observed(self, count: int, name: str = "web") -> list[Json]:
        """The pods of a workload that an admission controller has seen, as soon as they run.

        Those that came before their owner was known are deleted, and others come.
        """

        def look() -> list[Json]:
            pods = self.pods(name)
            for pod in pods:
                if OBSERVED not in pod["metadata"].get("annotations", {}):
                    self.plane.request("DELETE", f"{self._pods}/{pod['metadata']['name']}")
            return pods

        def are_there(pods: list[Json]) -> bool:
            observed = [pod for pod in pods if OBSERVED in pod["metadata"].get("annotations", {})]
            return len(pods) == len(observed) == count and all(map(reports_resources, pods))

        return waiting.wait_for(look, are_there, patience_seconds=SLOW_SECONDS)

    def edit(self, policy: Json, name: str = "web") -> None:
        self._patch(f"{self._autoscalers}/{name}", {"spec": {"updatePolicy": policy}})

    def annotate(self, pod: str, annotations: Mapping[str, str | None]) -> None:
        self._patch(f"{self._pods}/{pod}", {"metadata": {"annotations": annotations}})

    def protect(self, name: str = "web", *, max_unavailable: int = 0) -> None:
        """A PodDisruptionBudget of the pods, that its controller has seen."""
        path = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets"
        spec = {"maxUnavailable": max_unavailable, "selector": {"matchLabels": {"app": name}}}
        self._create(path, "policy/v1", name, spec, kind="PodDisruptionBudget")
        self.plane.wait_for(
            f"{path}/{name}", lambda found: found.get("status", {}).get("observedGeneration")
        )

    def allow_unavailable(self, count: int, name: str = "web") -> None:
        """Let the PodDisruptionBudget allow that many pods to be down."""
        path = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets/{name}"
        self._patch(path, {"spec": {"maxUnavailable": count}})

    def promise_admission(self) -> None:
        """The lease that an admission controller would renew, written once."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        now = format_micro_time(datetime.now(UTC))
        spec = {"holderIdentity": "test", "leaseDurationSeconds": 60, "renewTime": now}
        self._create(path, "coordination.k8s.io/v1", "vpa-admission-controller", spec, kind="Lease")

    def flags(self, *more: str) -> tuple[str, ...]:
        """Those of an updater that is for this namespace alone, and is quick."""
        return (
            f"--vpa-object-namespace={self.namespace}",
            f"--admission-controller-status-lease-namespace={self.namespace}",
            "--admission-controller-status-lease-timeout=1h",
            f"--leader-elect-resource-namespace={self.namespace}",
            "--updater-interval=1s",
            "--eviction-rate-limit=0",
            *more,
        )

    def pods(self, name: str = "web") -> list[Json]:
        _, body = self.plane.request("GET", f"{self._pods}?labelSelector=app%3D{name}")
        found: list[Json] = json.loads(body)["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def wait_for_pods(self, holds: Callable[[list[Json]], object], name: str = "web") -> list[Json]:
        return waiting.wait_for(lambda: self.pods(name), holds, patience_seconds=SLOW_SECONDS)

    def uids(self, name: str = "web") -> set[str]:
        return {pod["metadata"]["uid"] for pod in self.pods(name)}

    def condition(self, kind: str, name: str = "web") -> Json:
        """A condition of the autoscaler, as soon as it has it."""
        found = self.plane.wait_for(
            f"{self._autoscalers}/{name}",
            lambda found: kind in conditions(found),
            patience_seconds=SLOW_SECONDS,
        )
        told: Json = conditions(found)[kind]
        return told

    def kill(self, pod: Json) -> None:
        """Delete the pod, as somebody might; return when it is gone."""
        path = f"{self._pods}/{pod['metadata']['name']}"
        self.plane.request("DELETE", path)
        uid = pod["metadata"]["uid"]
        self.wait_for_pods(lambda pods: uid not in {each["metadata"]["uid"] for each in pods})

    def limit(self, item: Json) -> None:
        """Let pods of the namespace have only so much."""
        path = f"/api/v1/namespaces/{self.namespace}/limitranges"
        self._create(path, "v1", "bounds", {"limits": [item]}, kind="LimitRange")

    def _create(self, path: str, version: str, name: str, spec: Json, *, kind: str) -> None:
        manifest = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        self.plane.create(path, manifest)

    def _patch(self, path: str, patch: Json) -> None:
        status, body = self.plane.request("PATCH", path, json.dumps(patch).encode(), MERGE)
        assert status == 200, body


def a_template(
    *requests: Json, annotations: dict[str, Any] | None = None, limits: Json | None = None
) -> Json:
    """The template of pods with a container for each of the requests."""
    containers = [
        {
            "name": f"c{index}",
            "image": "none",
            "resources": {"requests": each, "limits": limits or {}},
        }
        for index, each in enumerate(requests or (SMALL,))
    ]
    return {"metadata": {"annotations": annotations or {}}, "spec": {"containers": containers}}


def conditions(autoscaler: Json) -> dict[str, Json]:
    return {each["type"]: each for each in autoscaler.get("status", {}).get("conditions", [])}


def reports_resources(pod: Json) -> bool:
    statuses = pod["status"].get("containerStatuses", [])
    return bool(statuses) and all("resources" in each for each in statuses)


def requests(pods: list[Json]) -> list[list[Json]]:
    """What the containers of each pod have, by the word of its node."""
    return [
        [
            each.get("resources", {}).get("requests", {})
            for each in pod["status"].get("containerStatuses", [])
        ]
        for pod in pods
    ]


def plan(run: Run, name: str = "web") -> dict[str, Json]:
    """The entries of the plan about an autoscaler's pods."""
    _, body = run.ask(f"/plan?autoscaler={name}")
    return {entry["pod"]: entry for entry in json.loads(body or '{"pods": []}')["pods"]}


def wait_for_plan(run: Run, holds: Callable[[list[Json]], object], name: str = "web") -> list[Json]:
    return waiting.wait_for(
        lambda: list(plan(run, name).values()), holds, patience_seconds=SLOW_SECONDS
    )


def wait_for_holds(run: Run, *reasons: str, name: str = "web") -> list[Json]:
    """The plan, as soon as it holds every pod for one of the reasons."""
    return wait_for_plan(
        run,
        lambda entries: entries and all(each.get("reason") in reasons for each in entries),
        name,
    )
