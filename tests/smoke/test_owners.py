"""Admission: owners of custom kinds, and pods that come with a status."""

import time

import pytest
from smoke.scene import Scene, describe_pods, spec_requests, uids_of
from support.stages import components
from support.stages.admission import OBSERVED
from support.stages.components import Json
from support.stages.updater import SMALL, TARGET, a_template, requests

pytestmark = pytest.mark.smoke

LIMITS = {"cpu": "200m", "memory": "200Mi"}
SCALE: Json = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


def define(scene: Scene, kind: str, subresources: Json) -> str:
    """Create a kind of its own for the test; return its API version."""
    group, plural = f"{scene.namespace}.example.com", f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": subresources,
    }
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [version],
        },
    }
    components.define(scene.plane, definition)
    return f"{group}/v1"


def own(scene: Scene, version: str, kind: str) -> Json:
    """Create an object of a custom kind; return the reference to it as a controller."""
    resource = f"{kind.lower()}s"
    manifest = {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {"replicas": 2},
    }
    path = scene.path(resource, version)
    scene.plane.wait_for(path, bool)
    made = scene.create_object(resource, manifest)
    scene.patch(f"{path}/web/status", {"status": {"replicas": 0, "selector": "app=web"}})
    return {
        "apiVersion": version,
        "kind": kind,
        "name": "web",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }


def create_owned(scene: Scene, kind: str, resource: str, owner: Json) -> None:
    """Create a workload without pods, that belongs to a custom resource."""
    labels = {"app": "web"}
    template = a_template(SMALL)
    template["metadata"]["labels"] = labels
    manifest = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web", "ownerReferences": [owner]},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }
    scene.create_object(resource, manifest)
    scene.let_watches_catch_up()


def start_sized(scene: Scene, resource: str) -> None:
    """Let the workload have two pods, and expect the very first ones to be sized."""
    scene.patch(f"{scene.path(resource)}/web", {"spec": {"replicas": 2}})
    pods = scene.wait_until_running(2)
    assert [spec_requests(pod) for pod in pods] == [TARGET] * 2, describe_pods(pods)


def keep_killing(scene: Scene, seconds: float) -> None:
    """Kill a pod every few seconds, and expect each successor to be sized."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        scene.kill(scene.pods()[0])
        pods = scene.wait_until_running(2)
        assert [spec_requests(pod) for pod in pods] == [TARGET] * 2, describe_pods(pods)
        scene.let_watches_catch_up()


def test_the_first_pods_of_a_stateful_set_under_a_custom_resource_are_sized(
    scene: Scene,
) -> None:
    version = define(scene, "Database", {"status": {}})
    owner = own(scene, version, "Database")
    scene.autoscale(mode="Recreate", kind="StatefulSet")
    create_owned(scene, "StatefulSet", "statefulsets", owner)
    start_sized(scene, "statefulsets")

    scene.watch_uids(10)


def test_the_first_pods_of_a_custom_kind_that_scales_are_sized_and_stay_so(scene: Scene) -> None:
    version = define(scene, "Rollout", {"status": {}, "scale": SCALE})
    owner = own(scene, version, "Rollout")
    target = {"apiVersion": version, "kind": "Rollout", "name": "web"}
    scene.autoscale(mode="Recreate", targetRef=target)
    create_owned(scene, "ReplicaSet", "replicasets", owner)
    start_sized(scene, "replicasets")

    scene.watch_uids(10)
    # What is known of a scale is asked for again after a minute.
    keep_killing(scene, 70)


def copy_of(pod: Json, reported: Json) -> Json:
    """Return a pod as `kubectl get -o yaml` shows it, under another name."""
    metadata = pod["metadata"]
    kept = {key: metadata[key] for key in ("labels", "namespace", "ownerReferences")}
    (status,) = pod["status"]["containerStatuses"]
    statuses = [{**status, "resources": reported, "allocatedResources": reported["requests"]}]
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    resources = {"requests": SMALL, "limits": LIMITS}
    spec["containers"] = [{**pod["spec"]["containers"][0], "resources": resources}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**kept, "name": "copy"},
        "spec": spec,
        "status": {**pod["status"], "containerStatuses": statuses},
    }


@pytest.mark.parametrize(
    "reported",
    [
        pytest.param(
            {
                "requests": {"cpu": "1m", "memory": "1Mi"},
                "limits": {"cpu": "2", "memory": "2Gi"},
            },
            id="far below its limits",
        ),
        pytest.param(
            {
                "requests": {"cpu": "1", "memory": "1Gi"},
                "limits": {"cpu": "1", "memory": "1Gi"},
            },
            id="equal to its limits",
        ),
    ],
)
def test_a_new_pod_with_a_status_is_judged_by_its_spec(scene: Scene, reported: Json) -> None:
    scene.autoscale(mode="Initial")
    scene.create(a_template(SMALL, limits=LIMITS))
    first, _ = scene.wait_until_observed(2)
    made = scene.create_object("pods", copy_of(first, reported))

    (container,) = made["spec"]["containers"]
    assert OBSERVED in made["metadata"]["annotations"]
    assert container["resources"] == {
        "requests": TARGET,
        "limits": {"cpu": "400m", "memory": "400Mi"},
    }


def test_a_pod_without_an_owner_is_left_alone(hasty_scene: Scene) -> None:
    scene = hasty_scene
    template = a_template(SMALL)
    labels = {"app": "web", "made": "by-hand"}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lone", "labels": labels}}
    made = scene.create_object("pods", {**manifest, "spec": template["spec"]})
    scene.create(a_template(SMALL))
    scene.wait_until_running(3)
    scene.autoscale(mode="Recreate")
    pods = scene.wait_for_pods(lambda pods: requests(pods).count([TARGET]) == 2)
    (lone,) = [pod for pod in pods if "made" in pod["metadata"]["labels"]]

    assert uids_of([lone]) == {made["metadata"]["uid"]}
    assert requests([lone]) == [[SMALL]]
