"""A workload with its autoscaler on a real API server, for tests of the recommender."""

import json
from collections.abc import Callable

from support.stages.components import SLOW_SECONDS, Json, install

from rig import waiting
from rig.controlplane import ControlPlane
from trimtab.api.kinds.autoscalers import decode_autoscaler
from trimtab.api.kinds.checkpoints import decode_checkpoint
from trimtab.core.histogram.checkpoint import AggregateCheckpoint
from trimtab.core.model.autoscalers import ContainerRecommendation
from trimtab.core.model.resources import Resources

AUTOSCALING = "/apis/autoscaling.k8s.io/v1/namespaces"


class World:
    """A namespace with a Deployment and its autoscaler."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.autoscaler = f"{AUTOSCALING}/{namespace}/verticalpodautoscalers/web"
        self.checkpoints = f"{AUTOSCALING}/{namespace}/verticalpodautoscalercheckpoints"
        self.deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"

    def deploy(self, template: Json) -> None:
        template["metadata"]["labels"] = {"app": "web"}
        spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
        self._create(self.deployments, "apps/v1", "Deployment", spec)

    def autoscale(self) -> None:
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        path = self.autoscaler.rpartition("/")[0]
        version = "autoscaling.k8s.io/v1"
        self._create(path, version, "VerticalPodAutoscaler", {"targetRef": target})

    def wait_until_measured(self) -> None:
        path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{self.namespace}/pods"
        self.plane.wait_for(path, lambda found: found["items"], patience_seconds=SLOW_SECONDS)

    def wait_for_target(
        self, holds: Callable[[Resources], object] = bool, container: str = "app"
    ) -> Resources:
        """What the autoscaler recommends, as soon as it is as wanted."""
        return waiting.wait_for(
            lambda: self.target(container), holds, patience_seconds=SLOW_SECONDS
        )

    def target(self, container: str = "app") -> Resources:
        said = self.recommendation()
        return next((dict(one.target) for one in said if one.container_name == container), {})

    def recommendation(self) -> tuple[ContainerRecommendation, ...]:
        _, body = self.plane.request("GET", self.autoscaler)
        return tuple(decode_autoscaler(body).recommendation or ())

    def stored(self, container: str = "app") -> AggregateCheckpoint:
        """What is stored of a container; nothing while there is no checkpoint."""
        status, body = self.plane.request("GET", f"{self.checkpoints}/web-{container}")
        return decode_checkpoint(body).aggregate if status == 200 else AggregateCheckpoint()

    def forget_status(self) -> None:
        patch = json.dumps({"status": None}).encode()
        kind = "application/merge-patch+json"
        status, body = self.plane.request("PATCH", f"{self.autoscaler}/status", patch, kind)
        assert status == 200, body

    def stop_pods(self) -> None:
        """Nothing is measured any more."""
        self.scale(0)
        pods = f"/api/v1/namespaces/{self.namespace}/pods"
        self.plane.wait_for(pods, lambda found: not found["items"], patience_seconds=SLOW_SECONDS)

    def scale(self, replicas: int) -> None:
        patch = json.dumps({"spec": {"replicas": replicas}}).encode()
        kind = "application/merge-patch+json"
        self.plane.request("PATCH", f"{self.deployments}/web", patch, kind)

    def flags(self, *more: str) -> tuple[str, ...]:
        """Those of a recommender that is for this namespace alone, and is quick."""
        return (
            f"--vpa-object-namespace={self.namespace}",
            "--recommender-interval=1s",
            f"--leader-elect-resource-namespace={self.namespace}",
            *more,
        )

    def _create(self, path: str, version: str, kind: str, spec: Json) -> None:
        manifest = {"apiVersion": version, "kind": kind, "metadata": {"name": "web"}, "spec": spec}
        self.plane.create(path, manifest)


def a_small_world(plane: ControlPlane, namespace: str, status: Json) -> World:
    """A world whose pods request 100m and 100Mi, and whose autoscaler has a status."""
    install(plane)
    made = World(plane, namespace)
    template = a_template()
    requests = {"cpu": "100m", "memory": "100Mi"}
    template["spec"]["containers"][0]["resources"] = {"requests": requests}
    made.deploy(template)
    made.autoscale()
    plane.wait_for(f"/api/v1/namespaces/{namespace}/pods", lambda told: told["items"])
    body = json.dumps({"status": status}).encode()
    plane.request("PATCH", f"{made.autoscaler}/status", body, "application/merge-patch+json")
    return made


def a_template(cpu: str = "150m", memory: str = "400Mi") -> Json:
    """Pods of which the fake node tells that they use so much."""
    usage = {"kwok.x-k8s.io/usage-cpu": cpu, "kwok.x-k8s.io/usage-memory": memory}
    containers = [{"name": "app", "image": "none"}]
    return {"metadata": {"annotations": usage}, "spec": {"containers": containers}}
