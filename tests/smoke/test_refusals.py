"""Admission policies that refuse pods for their size: the pods come up with less of it."""

import time
from collections.abc import Callable

import pytest
from smoke.scene import Scene, describe_pods, is_marked, is_ready, millicores
from smoke.test_limits import LASTING
from smoke.test_successors import a_webhook_that_is_down
from support.stages.components import Json
from support.stages.updater import a_template

pytestmark = pytest.mark.smoke

_GROUP = "admissionregistration.k8s.io/v1"
TENTH = {"cpu": "100m", "memory": "100Mi"}
HALF = {"cpu": "500m", "memory": "100Mi"}
LARGE = {"cpu": "1500m", "memory": "100Mi"}
NINE = {"cpu": "900m", "memory": "900Mi"}
PATIENCE_SECONDS = 150
"""Recommendations are left out after a minute, and attempts come ever more rarely."""
_BOUND = "object.spec.containers.all(c, quantity(c.resources.requests['cpu']).isLessThan({most}))"


def forbid_large_pods(scene: Scene, most: str = "1001m") -> None:
    """Create a policy that refuses pods whose container asks for as much CPU as that."""
    expression = _BOUND.format(most=f"quantity('{most}')")
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    labels = {"kubernetes.io/metadata.name": scene.namespace}
    spec: Json = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": labels},
            "resourceRules": [{**rule, "resources": ["pods"]}],
        },
        "validations": [{"expression": expression, "message": f"{most} CPU are too many"}],
    }
    binding = {"policyName": scene.namespace, "validationActions": ["Deny"]}
    for resource, kind, given in (
        ("validatingadmissionpolicies", "ValidatingAdmissionPolicy", spec),
        ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", binding),
    ):
        manifest = {
            "apiVersion": _GROUP,
            "kind": kind,
            "metadata": {"name": scene.namespace},
            "spec": given,
        }
        scene.plane.create(f"/apis/{_GROUP}/{resource}", manifest)
    # The API server compiles policies beside the requests.
    time.sleep(5)


def notes(pod: Json) -> str:
    """Return what admission noted on the pod."""
    found: str = pod["metadata"]["annotations"].get("vpaUpdates", "")
    return found


def wait_until_all_ready(
    scene: Scene, count: int, holds: Callable[[Json], bool] = lambda _: True
) -> list[Json]:
    return scene.wait_for_pods(
        lambda pods: len(pods) == count and all(is_ready(each) and holds(each) for each in pods),
        patience_seconds=PATIENCE_SECONDS,
    )


def test_a_boost_above_a_policy_keeps_no_pod_out(scene: Scene) -> None:
    forbid_large_pods(scene)
    scene.autoscale(HALF, mode="Off", startupBoost=LASTING)
    scene.create(a_template(HALF), replicas=3)
    pods = wait_until_all_ready(scene, 3)

    assert [(millicores(pod), is_marked(pod)) for pod in pods] == [(500, False)] * 3
    assert all("startup boost left out" in notes(pod) for pod in pods), describe_pods(pods)


@pytest.mark.parametrize("mode", ["Initial", "Auto"])
def test_a_recommendation_above_a_policy_keeps_no_pod_out(scene: Scene, mode: str) -> None:
    forbid_large_pods(scene)
    scene.autoscale(LARGE, mode=mode)
    scene.create(a_template(TENTH), replicas=3)
    pods = wait_until_all_ready(scene, 3)

    assert [millicores(pod) for pod in pods] == [100] * 3
    assert all("cpu NOT updated since pods" in notes(pod) for pod in pods), describe_pods(pods)


def test_a_boosted_recommendation_above_a_policy_keeps_no_pod_out(scene: Scene) -> None:
    forbid_large_pods(scene)
    scene.autoscale(LARGE, mode="Initial", startupBoost=LASTING)
    scene.create(a_template(TENTH), replicas=2)
    pods = wait_until_all_ready(scene, 2)

    assert [(millicores(pod), is_marked(pod)) for pod in pods] == [(100, False)] * 2


def test_only_the_boost_is_left_out_where_the_recommendation_is_allowed(scene: Scene) -> None:
    forbid_large_pods(scene)
    scene.autoscale(HALF, mode="Initial", startupBoost=LASTING)
    scene.create(a_template(TENTH), replicas=2)
    pods = wait_until_all_ready(scene, 2)

    assert [(millicores(pod), is_marked(pod)) for pod in pods] == [(500, False)] * 2


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet", "Job"])
def test_a_boost_above_a_policy_keeps_no_pod_of_other_kinds_out(scene: Scene, kind: str) -> None:
    forbid_large_pods(scene)
    scene.autoscale(HALF, mode="Off", kind=kind, startupBoost=LASTING)
    scene.let_watches_catch_up()
    template = a_template(HALF)
    labels = template["metadata"]["labels"] = {"app": "web"}
    selector = {"matchLabels": labels}
    manifest: Json = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"}}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
        manifest |= {"apiVersion": "batch/v1", "spec": {"template": template}}
    elif kind == "DaemonSet":
        manifest["spec"] = {"selector": selector, "template": template}
    else:
        manifest["spec"] = {"replicas": 1, "selector": selector, "template": template}
    scene.create_object(f"{kind.lower()}s", manifest)
    pods = scene.wait_for_pods(bool, patience_seconds=PATIENCE_SECONDS)

    assert {(millicores(pod), is_marked(pod)) for pod in pods} == {(500, False)}


@pytest.mark.parametrize("seconds", [2.0, 3.5, 10.0])
def test_an_outage_of_another_webhook_takes_no_pod_its_recommendation(
    scene: Scene, seconds: float
) -> None:
    scene.autoscale(NINE, mode="Initial")
    scene.create(a_template(TENTH), replicas=2)
    wait_until_all_ready(scene, 2)
    with a_webhook_that_is_down(scene):
        scene.let_watches_catch_up()
        template = {"metadata": {"annotations": {"version": "2"}}}
        scene.patch(f"{scene.path('deployments')}/web", {"spec": {"template": template}})
        time.sleep(seconds)
    pods = wait_until_all_ready(
        scene, 2, lambda pod: pod["metadata"].get("annotations", {}).get("version") == "2"
    )

    assert [millicores(pod) for pod in pods] == [900] * 2, describe_pods(pods)


def test_a_large_scale_up_that_nothing_refuses_keeps_its_boosts(scene: Scene) -> None:
    scene.autoscale(HALF, mode="Off", startupBoost=LASTING)
    scene.create(a_template({"cpu": "1m", "memory": "1Mi"}), replicas=1)
    scene.patch(f"{scene.path('deployments')}/web", {"spec": {"replicas": 150}})
    pods = scene.wait_for_pods(lambda found: len(found) == 150, patience_seconds=90)

    assert {(millicores(pod), is_marked(pod)) for pod in pods} == {(3, True)}
