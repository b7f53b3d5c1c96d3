"""Pods below custom resources, and copies of running pods, as a real API server shows them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.stages.admission import (
    MERGE_PATCH,
    Stage,
    Webhook,
    admission_controller,
    an_autoscaler,
)
from support.stages.components import Lacking, an_account, install, is_established, rights_of

from rig import waiting
from rig.controlplane import ControlPlane

pytestmark = pytest.mark.e2e

Json = dict[str, Any]

GROUP = "owners.example.com"
V1 = f"{GROUP}/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LABELS = {"app": "hamster"}
SMALL, TARGET = {"cpu": "100m", "memory": "100Mi"}, {"cpu": "250m", "memory": "200Mi"}
SMALL_ONE = {"name": "hamster", "image": "none", "resources": {"requests": SMALL}}
UNKNOWN = 'vpa_admission_controller_pod_outcomes_total{outcome="OwnerUnknown"}'
FAILED = 'vpa_admission_controller_pod_outcomes_total{outcome="Failed"}'


def a_definition(kind: str, *, has_scale: bool) -> Json:
    """A custom kind that may look like anything."""
    plural = f"{kind.lower()}s"
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": anything},
        "subresources": {"status": {}, **({"scale": scale} if has_scale else {})},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


@pytest.fixture(scope="module")
def plane(cluster: ControlPlane) -> ControlPlane:
    """The cluster with an Argo-like Rollout, and a Fleet that cannot be scaled."""
    install(cluster)
    for kind, has_scale in (("Rollout", True), ("Fleet", False)):
        definition = a_definition(kind, has_scale=has_scale)
        cluster.create(DEFINITIONS, definition)
        cluster.wait_for(f"{DEFINITIONS}/{definition['metadata']['name']}", is_established)
    return cluster


@pytest.fixture
def webhook(plane: ControlPlane, tmp_path: Path) -> Iterator[Webhook]:
    """An admission controller that remembers nothing of other tests."""
    with (
        admission_controller(plane.kubeconfig, tmp_path) as it,
        it.registered(plane, "vpa-webhook-config"),
    ):
        yield it


class Scene(Stage):
    """A namespace with custom resources."""

    def autoscale_kind(self, kind: str, api_version: str = V1) -> None:
        """An autoscaler for `hamster` of that kind, whose recommendation the webhook has seen."""
        self._recommend_for("hamster", kind, api_version)
        # A watch tells of changes in their order, so the first of two is known if the second is.
        owner = self._create_empty("probe")
        self._recommend_for("probe", "ReplicaSet", "apps/v1")
        waiting.wait_for(lambda: self._try_pod("probe", owner), TARGET.__eq__)

    def _recommend_for(self, name: str, kind: str, api_version: str) -> None:
        manifest = an_autoscaler({}, name, name)
        manifest["spec"]["targetRef"] |= {"apiVersion": api_version, "kind": kind}
        self.plane.create(self.autoscalers, manifest)
        self.recommend({"hamster": TARGET}, name)

    def _create_empty(self, name: str) -> Json:
        """A ReplicaSet without pods; a reference to it as their controller."""
        path = f"/apis/apps/v1/namespaces/{self.namespace}/replicasets"
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [SMALL_ONE]}}
        spec = {"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": template}
        kind = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
        made = self.plane.create(path, {**kind, "metadata": {"name": name}, "spec": spec})
        return {**kind, "name": name, "uid": made["metadata"]["uid"], "controller": True}

    def _try_pod(self, name: str, owner: Json) -> Json:
        """The requests that a pod of the owner would get, if it were created."""
        metadata = {"name": name, "labels": {"app": name}, "ownerReferences": [owner]}
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        body = json.dumps({**manifest, "spec": {"containers": [SMALL_ONE]}}).encode()
        status, answer = self.plane.request("POST", f"{self.pods}?dryRun=All", body)
        assert status == 201, answer
        found: Json = json.loads(answer)["spec"]["containers"][0]["resources"]["requests"]
        return found

    def create_custom(self, kind: str) -> Json:
        """The custom resource `hamster` of that kind; a reference to it as its controller."""
        path = f"/apis/{V1}/namespaces/{self.namespace}/{kind.lower()}s"
        manifest = {"apiVersion": V1, "kind": kind, "metadata": {"name": "hamster"}}
        made = self.plane.create(path, {**manifest, "spec": {"replicas": 3}})
        if kind == "Rollout":
            # As its controller does, which is not here.
            patch = json.dumps({"status": {"selector": "app=hamster", "replicas": 3}}).encode()
            answer = self.plane.request("PATCH", f"{path}/hamster/status", patch, MERGE_PATCH)
            assert answer[0] == 200, answer
        return {
            "apiVersion": V1,
            "kind": kind,
            "name": "hamster",
            "uid": made["metadata"]["uid"],
            "controller": True,
        }

    def create_owned(self, kind: str, owner: Json) -> None:
        """A workload with three pods, owned by a custom resource."""
        template = {"metadata": {"labels": LABELS}, "spec": {"containers": [SMALL_ONE]}}
        spec: Json = {"replicas": 3, "selector": {"matchLabels": LABELS}, "template": template}
        if kind == "StatefulSet":
            spec |= {"podManagementPolicy": "Parallel", "serviceName": "hamster"}
        metadata = {"name": "hamster", "ownerReferences": [owner]}
        manifest = {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}
        path = f"/apis/apps/v1/namespaces/{self.namespace}/{kind.lower()}s"
        self.plane.create(path, manifest)

    def sizes(self) -> list[Json]:
        """The requests of the first three pods that there are."""
        found = self.plane.wait_for(self.pods, lambda pods: len(pods["items"]) == 3)
        return [each["spec"]["containers"][0]["resources"]["requests"] for each in found["items"]]

    def await_webhook(self) -> None:
        """Return once the API server asks the webhook: a moment after it was registered."""
        nonsense = {"updatePolicy": {"minReplicas": -1}}
        manifest = json.dumps(an_autoscaler(nonsense, "hamster", "hamster")).encode()

        def is_denied() -> bool:
            path = f"{self.autoscalers}?dryRun=All"
            return b"admission webhook" in self.plane.request("POST", path, manifest)[1]

        waiting.wait_for(is_denied, bool)


@pytest.fixture
def scene(webhook: Webhook, plane: ControlPlane, namespace: str) -> Scene:
    assert webhook.port
    scene = Scene(plane, namespace)
    scene.await_webhook()
    return scene


@pytest.mark.parametrize("is_target_first", [True, False])
def test_the_first_pods_of_an_argo_like_rollout_get_their_size(
    scene: Scene, webhook: Webhook, *, is_target_first: bool
) -> None:
    if is_target_first:
        owner = scene.create_custom("Rollout")
        scene.autoscale_kind("Rollout")
    else:
        scene.autoscale_kind("Rollout")
        owner = scene.create_custom("Rollout")
    scene.create_owned("ReplicaSet", owner)

    assert scene.sizes() == [TARGET] * 3
    assert webhook.run.metric(FAILED) == 0


@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment"])
def test_the_first_pods_of_a_workload_below_a_custom_resource_get_their_size(
    scene: Scene, webhook: Webhook, kind: str
) -> None:
    scene.autoscale_kind(kind, "apps/v1")
    scene.create_owned(kind, scene.create_custom("Fleet"))

    assert scene.sizes() == [TARGET] * 3
    assert webhook.run.metric(FAILED) == 0


def test_pods_of_a_deployment_below_a_rollout_get_the_size_of_the_rollout(scene: Scene) -> None:
    scene.autoscale_kind("Rollout")
    scene.create_owned("Deployment", scene.create_custom("Rollout"))

    assert scene.sizes() == [TARGET] * 3


def test_a_custom_resource_that_cannot_be_scaled_is_no_target(
    scene: Scene, webhook: Webhook
) -> None:
    scene.autoscale_kind("Fleet")
    scene.create_owned("StatefulSet", scene.create_custom("Fleet"))

    assert scene.sizes() == [SMALL] * 3
    assert webhook.run.metric(FAILED) == 0


def test_pods_come_in_as_they_are_where_scales_may_not_be_read(
    plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    scene = Scene(plane, namespace)
    lacking = Lacking("*", "*/scale", "get", "")
    rights = lacking.taken_from(rights_of("admission-controller"))
    kubeconfig = an_account(plane, namespace, rights, tmp_path, everywhere=True)
    with (
        admission_controller(kubeconfig, tmp_path) as it,
        it.registered(plane, f"blind-{namespace}"),
    ):
        scene.await_webhook()
        scene.autoscale_kind("Rollout")
        before = it.run.metric(UNKNOWN)
        scene.create_owned("ReplicaSet", scene.create_custom("Rollout"))
        sizes = scene.sizes()
        waiting.wait_for(lambda: it.run.metric(UNKNOWN), lambda count: count >= before + 3)
        ready = it.run.ask("/readyz")[0]
        failures = it.run.metric(FAILED)
        asked = plane.audited(f"system:serviceaccount:{namespace}:default")

    scales = [each for each in asked if each.resource == "rollouts/scale"]
    assert sizes == [SMALL] * 3
    assert (ready, failures) == (200, 0)
    assert 0 < len(scales) < 10


@pytest.mark.parametrize(
    "resources",
    [
        pytest.param({"requests": SMALL, "limits": {"cpu": "80"}}, id="much larger limits"),
        pytest.param({"requests": {"cpu": "4"}, "limits": {"cpu": "1"}}, id="inconsistent ones"),
    ],
)
def test_a_copy_of_a_running_pod_gets_what_its_spec_calls_for(
    scene: Scene, resources: Json
) -> None:
    scene.autoscale({})
    scene.recommend({"hamster": TARGET})
    own = {"requests": SMALL, "limits": {"cpu": "200m"}}
    scene.deploy({"containers": [{"name": "hamster", "image": "none", "resources": own}]})
    first = scene.observed_pod()
    status = {"name": "hamster", "image": "none", "imageID": "", "restartCount": 3, "ready": True}
    copied = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "copy",
            "labels": first["metadata"]["labels"],
            "ownerReferences": first["metadata"]["ownerReferences"],
        },
        "spec": {"containers": [{"name": "hamster", "image": "none", "resources": own}]},
        "status": {
            "phase": "Running",
            "startTime": "2026-08-01T00:00:00Z",
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
            "containerStatuses": [{**status, "resources": resources}],
        },
    }
    made = scene.plane.create(scene.pods, copied)

    assert made["spec"]["containers"][0]["resources"] == {
        "requests": TARGET,
        "limits": {"cpu": "500m"},
    }
    assert first["spec"]["containers"][0]["resources"] == {
        "requests": TARGET,
        "limits": {"cpu": "500m"},
    }
