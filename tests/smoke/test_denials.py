"""Sizes that an admission policy refuses: no pod is evicted for one of them."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from smoke.scene import Scene, spec_requests, uids_of
from support.stages.updater import LARGE, SMALL, a_template

pytestmark = pytest.mark.smoke

GROUP = "admissionregistration.k8s.io/v1"
POLICIES = f"/apis/{GROUP}/validatingadmissionpolicies"
BINDINGS = f"/apis/{GROUP}/validatingadmissionpolicybindings"
WITHIN = "quantity(c.resources.requests['cpu']).compareTo(quantity('300m')) <= 0"


@contextmanager
def a_policy(scene: Scene, *kinds: str) -> Iterator[None]:
    """Let no container of the namespace have more than 300m of CPU, new or resized."""
    name = scene.namespace
    operations = {"pods": "CREATE", "pods/resize": "UPDATE"}
    rules = [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": [operations[kind]],
            "resources": [kind],
        }
        for kind in kinds or operations
    ]
    labels = {"kubernetes.io/metadata.name": scene.namespace}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": labels},
            "resourceRules": rules,
        },
        "validations": [
            {
                "expression": f"object.spec.containers.all(c, {WITHIN})",
                "message": "no more than 300m",
            }
        ],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    for path, kind, content in (
        (POLICIES, "ValidatingAdmissionPolicy", spec),
        (BINDINGS, "ValidatingAdmissionPolicyBinding", binding),
    ):
        head = {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}}
        scene.plane.create(path, {**head, "spec": content})
    try:
        yield
    finally:
        for path in (BINDINGS, POLICIES):
            scene.plane.request("DELETE", f"{path}/{name}")


@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "UpscaleOnly"])
def test_no_pod_is_evicted_for_a_size_that_a_policy_refuses(hasty_scene: Scene, mode: str) -> None:
    scene = hasty_scene
    with a_policy(scene):
        scene.create(a_template(SMALL), replicas=4)
        pods = scene.wait_until_running(4)
        scene.let_watches_catch_up()
        scene.autoscale(LARGE, mode=mode)
        scene.wait_for_words(scene.condition_messages, "no more than 300m")
        scene.watch(15, lambda found: uids_of(found) == uids_of(pods))


def test_one_pod_at_most_is_evicted_for_a_size_that_a_policy_refuses(scene: Scene) -> None:
    with a_policy(scene):
        scene.create(a_template(SMALL), replicas=6)
        scene.wait_until_running(6)
        scene.let_watches_catch_up()
        scene.autoscale(LARGE)
        scene.wait_for_pods(lambda found: len(found) < 6)
        scene.watch(75, lambda found: len(found) >= 5)
        # Admission has found out that the owner cannot create pods of that size.
        scene.wait_for_words(scene.condition_messages, "PodsRefused")
        assert len(scene.pods()) == 6


@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "UpscaleOnly"])
def test_a_policy_against_resizes_keeps_no_memory_from_pods_that_die(
    scene: Scene, mode: str
) -> None:
    with a_policy(scene, "pods/resize"):
        scene.create(a_template(SMALL), replicas=3)
        pods = scene.wait_until_running(3)
        for pod in pods:
            scene.play_crash_loop(pod)
        scene.let_watches_catch_up()
        scene.autoscale(LARGE, mode=mode)
        begin = max(int(each["metadata"]["resourceVersion"]) for each in pods)
        scene.wait_for_pods(lambda found: any(spec_requests(each) == LARGE for each in found))

        # One pod goes first. The others wait until its successor has the new size.
        gone: set[str] = set()
        for change in scene.pod_changes_since(begin):
            pod = change["object"]
            if spec_requests(pod) == LARGE:
                break
            if "deletionTimestamp" in pod["metadata"] or change["type"] == "DELETED":
                gone.add(pod["metadata"]["uid"])
        assert len(gone) == 1
        assert gone < uids_of(pods)
