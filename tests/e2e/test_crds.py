"""Our CRDs in a real API server: accepted, served, and as strict as the original's."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from golden.deviations import DEVIATIONS

from rig.controlplane import ControlPlane
from trimtab.api.crds import definitions as crds
from trimtab.api.crds.comparison import compare_definition

pytestmark = pytest.mark.e2e

VECTORS = Path(__file__).parents[1] / "golden/vpa_validation.json"
CASES = json.loads(VECTORS.read_text(encoding="utf-8"))["cases"]
DRY_RUN = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers?dryRun=All"

Kubectl = Callable[..., str]

# Said beside other causes: rules are not tried on an object whose shape is wrong.
NOT_A_FIELD = "<nil>"


def refused_fields(control_plane: ControlPlane, manifest: dict[str, Any]) -> set[str]:
    status, body = control_plane.request("POST", DRY_RUN, json.dumps(manifest).encode())
    answer = json.loads(body)
    if status == 201:
        return set()
    assert status == 422, answer
    return {cause["field"] for cause in answer["details"]["causes"]} - {NOT_A_FIELD}


def an_object(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def allowed_differences(case: dict[str, Any]) -> list[str]:
    return [
        deviation.where
        for deviation in DEVIATIONS
        if deviation.set == "vpa_validation" and deviation.applies(case)
    ]


def test_the_api_server_establishes_both_kinds(applied_crds: str, kubectl: Kubectl) -> None:
    served = kubectl("api-resources", "--api-group=autoscaling.k8s.io", "-o", "name").split()

    assert applied_crds.count("serverside-applied") == 2
    assert sorted(served) == [
        "verticalpodautoscalercheckpoints.autoscaling.k8s.io",
        "verticalpodautoscalers.autoscaling.k8s.io",
    ]


def test_the_schema_is_structural_and_complete(applied_crds: str, kubectl: Kubectl) -> None:
    assert applied_crds

    listed = json.loads(kubectl("get", "crds", "-o", "json"))["items"]
    conditions = {
        (crd["metadata"]["name"], condition["type"]): condition["status"]
        for crd in listed
        for condition in crd["status"]["conditions"]
    }
    assert not [key for key in conditions if key[1] == "NonStructuralSchema"]
    assert {status for (_, kind), status in conditions.items() if kind == "NamesAccepted"} == {
        "True"
    }


@pytest.mark.usefixtures("applied_crds")
@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
def test_the_api_server_refuses_the_fields_that_the_original_s_schema_refuses(
    control_plane: ControlPlane, case: dict[str, Any]
) -> None:
    ours = refused_fields(control_plane, case["input"]["object"])
    theirs = {error.partition(": ")[0] for error in case["expected"]["crdSchema"]["errors"]}
    found = [
        *(f"crdSchema: {field!r} != absent" for field in sorted(ours - theirs)),
        *(f"crdSchema: absent != {field!r}" for field in sorted(theirs - ours)),
    ]

    allowed = allowed_differences(case)
    assert [line for line in found if not any(re.match(where, line) for where in allowed)] == []


@pytest.mark.usefixtures("applied_crds")
def test_fields_of_our_own_are_kept_as_they_were_written(kubectl: Kubectl) -> None:
    spec = {
        "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"},
        "selector": {
            "matchLabels": {"role": "leader"},
            "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}],
        },
        "updatePolicy": {"updateMode": "UpscaleOnly"},
        "startupBoost": {"cpu": {"type": "Factor", "factor": 2, "duration": "10s"}},
    }
    stored = kubectl("create", "-f", "-", "-o", "json", given=json.dumps(an_object("own", spec)))

    assert json.loads(stored)["spec"] == spec


@pytest.mark.usefixtures("applied_crds")
def test_a_listed_autoscaler_shows_its_mode_and_its_recommendation(kubectl: Kubectl) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"targetRef": target, "updatePolicy": {"updateMode": "Recreate"}}
    recommendation = {"containerName": "app", "target": {"cpu": "25m", "memory": "250Mi"}}
    provided = {
        "type": "RecommendationProvided",
        "status": "True",
        "lastTransitionTime": "2026-08-22T12:00:00Z",
    }
    status = {
        "conditions": [provided],
        "recommendation": {"containerRecommendations": [recommendation]},
    }
    kubectl("create", "-f", "-", given=json.dumps(an_object("listed", spec)))
    patch = json.dumps({"status": status})
    kubectl("patch", "vpa", "listed", "--subresource=status", "--type=merge", f"--patch={patch}")

    header, row = kubectl("get", "vpa", "listed").splitlines()
    assert header.split() == ["NAME", "MODE", "CPU", "MEM", "PROVIDED", "AGE"]
    assert row.split()[:5] == ["listed", "Recreate", "25m", "250Mi", "True"]


BOUNDS = {"maxItems", "maxLength", "maxProperties"}
CRD = "verticalpodautoscalers.autoscaling.k8s.io"


def without_bounds(part: Any) -> Any:
    """The schema as the original has it: without bounds on lists and texts."""
    if isinstance(part, list):
        return [without_bounds(each) for each in part]
    if not isinstance(part, dict):
        return part
    return {name: without_bounds(each) for name, each in part.items() if name not in BOUNDS}


@pytest.mark.usefixtures("applied_crds")
def test_a_stored_object_beyond_the_bounds_keeps_working(
    control_plane: ControlPlane, kubectl: Kubectl
) -> None:
    """An object of the original's, with more policies than allowed now, is edited as before."""
    bounded = json.loads(kubectl("get", "crd", CRD, "-o", "json"))
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    policies = [{"containerName": f"c{number}"} for number in range(400)]
    large = an_object(
        "large", {"targetRef": target, "resourcePolicy": {"containerPolicies": policies}}
    )
    kubectl("replace", "-f", "-", given=json.dumps(without_bounds(bounded)))
    wait_for(lambda: refused_fields(control_plane, large) == set())
    kubectl("create", "-f", "-", given=json.dumps(large))
    del bounded["metadata"]["resourceVersion"]
    kubectl("replace", "-f", "-", given=json.dumps(bounded))
    field = "spec.resourcePolicy.containerPolicies"
    wait_for(lambda: refused_fields(control_plane, {**large, "metadata": {"name": "x"}}) == {field})

    mode = {"spec": {"updatePolicy": {"updateMode": "Off"}}}
    status = {"status": {"conditions": [{"type": "ConfigUnsupported", "status": "True"}]}}
    kubectl("patch", "vpa", "large", "--type=merge", "-p", json.dumps(mode))
    kubectl(
        "patch", "vpa", "large", "--subresource=status", "--type=merge", "-p", json.dumps(status)
    )
    found = json.loads(kubectl("get", "vpa", "large", "-o", "json"))

    assert found["spec"]["updatePolicy"] == mode["spec"]["updatePolicy"]
    assert len(found["spec"]["resourcePolicy"]["containerPolicies"]) == len(policies)
    kubectl("delete", "vpa", "large")


def wait_for(holds: Callable[[], bool]) -> None:
    """Wait until the API server has taken over another schema."""
    ends_at = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < ends_at
        time.sleep(0.2)


def test_crds_that_kubectl_create_made_are_taken_over_only_by_force(
    control_plane: ControlPlane,
) -> None:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    wanted: dict[str, Any] = json.loads(
        json.dumps(crds.definitions()[1]).replace("autoscaling.k8s.io", "example.com")
    )
    wanted["metadata"]["annotations"] = {}
    older = json.loads(json.dumps(wanted))
    older["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    name = f"{definitions}/{wanted['metadata']['name']}"
    applied = json.dumps(wanted).encode()
    status, stored = control_plane.request(
        "POST", f"{definitions}?fieldManager=kubectl-create", json.dumps(older).encode()
    )
    try:
        assert status == 201, stored
        plain, refusal = control_plane.request(
            "PATCH", f"{name}?fieldManager=kubectl", applied, "application/apply-patch+yaml"
        )
        forced, _ = control_plane.request(
            "PATCH",
            f"{name}?fieldManager=kubectl&force=true",
            applied,
            "application/apply-patch+yaml",
        )
    finally:
        control_plane.request("DELETE", name)

    assert compare_definition(wanted, stored).managers == ("kubectl-create",)
    assert (plain, forced) == (409, 200)
    assert b"kubectl-create" in refusal
