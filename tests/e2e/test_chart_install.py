"""The chart on a real API server: all that it renders, upgrades, and what stays in the end."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from e2e.chart_stage import CASES, FOREIGN, Json, Tools, foreign_definitions, of_kind, render
from e2e.conftest import Bring
from support.stages.components import an_account

from rig import chart, controlplane, waiting
from rig.controlplane import ControlPlane

pytestmark = pytest.mark.e2e

NAMESPACES = "/api/v1/namespaces"
DEFINITION = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    "/verticalpodautoscalers.autoscaling.k8s.io"
)
AUTOSCALER = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers/web"
REGISTRATION = (
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/vpa-webhook-config"
)
WHATEVER = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
BOOST = "startupBoost"
"""A field that older definitions do not have."""


@pytest.fixture(scope="module")
def tools(bring: Bring, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    """An API server of its own: definitions are taken away and put back here."""
    bring(*controlplane.needed(), "kubectl", "helm")
    logs = tmp_path_factory.mktemp("chart-plane")
    with controlplane.running(logs=logs) as plane:
        made = Tools(plane, tmp_path_factory.mktemp("helm"), plane.kubeconfig)
        made.apply(*foreign_definitions())
        made.wait_until_served(*FOREIGN)
        yield made


def make_namespace(tools: Tools, name: str) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    tools.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    )
    # Nobody else makes the account of a namespace here.
    metadata = {"name": "default", "namespace": name}
    tools.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})


def pod_of(deployment: Json) -> Json:
    """A pod as the Deployment would make it."""
    metadata, template = deployment["metadata"], deployment["spec"]["template"]
    place = {"name": metadata["name"], "namespace": metadata["namespace"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        **template,
        "metadata": {**template["metadata"], **place},
    }


def try_pod(tools: Tools, deployment: Json) -> tuple[int, bytes]:
    """What the API server says to a pod of the Deployment."""
    place = deployment["metadata"]["namespace"]
    path = f"{NAMESPACES}/{place}/pods?dryRun=All&fieldValidation=Strict"
    return tools.plane.request("POST", path, json.dumps(pod_of(deployment)).encode())


@pytest.mark.parametrize("name", [pytest.param(name, id=name) for name in CASES])
def test_all_that_is_rendered_is_accepted_and_its_pods_are_restricted(
    tools: Tools, name: str
) -> None:
    make_namespace(tools, name)
    objects = render(name)
    said = tools.apply(*objects)

    assert said.count("serverside-applied") == len(objects)
    for deployment in of_kind(objects, "Deployment"):
        status, answer = try_pod(tools, deployment)
        assert status == 201, answer


@pytest.mark.parametrize("manifest", chart.MANIFESTS, ids=lambda manifest: manifest.path)
def test_plain_manifests_are_accepted_as_their_first_lines_say(
    tools: Tools, manifest: chart.Manifest
) -> None:
    text = (chart.ROOT / manifest.path).read_text(encoding="utf-8")
    if not manifest.makes_namespace:
        make_namespace(tools, "shop")
    given = text.replace("my-namespace", "shop")
    done = tools.run("kubectl", "apply", "--server-side", "-f", "-", given=given)

    assert "kubectl apply --server-side -f" in text.partition("---")[0]
    assert done.returncode == 0, done.stderr
    assert "helm" not in text.lower()


def older_chart(folder: Path) -> Path:
    """The chart as it was before there were boosts."""
    older = folder / "older"
    shutil.copytree(chart.CHART, older)
    crds = older / "files/crds.yaml"
    documents = list(yaml.safe_load_all(crds.read_text(encoding="utf-8")))
    for version in documents[1]["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        spec["properties"].pop(BOOST, None)
        spec.pop("x-kubernetes-validations", None)
    text = "\n---\n".join(yaml.safe_dump(each, width=1000) for each in documents)
    crds.write_text(text, encoding="utf-8")
    return older


def boosted() -> Json:
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            BOOST: {"cpu": {"type": "Factor", "factor": 2}},
        },
    }


def test_an_upgrade_brings_new_definitions_and_an_uninstall_leaves_them(
    tools: Tools, tmp_path: Path
) -> None:
    tools.remove_definitions()
    install = ["upgrade", "--install", "trimtab", "--namespace=trimtab", "--create-namespace"]
    tools.helm(*install, str(older_chart(tmp_path)), "--take-ownership")
    tools.wait_until_served("autoscaling.k8s.io")
    refused = tools.run("kubectl", "create", "-f", "-", given=json.dumps(boosted()))
    notes = tools.helm(*install, str(chart.CHART))
    created = tools.wait_until_created(boosted())
    tools.helm("uninstall", "trimtab", "--namespace=trimtab")

    assert f'unknown field "spec.{BOOST}"' in refused.stderr
    assert "trimtab get" in notes
    assert BOOST in created["spec"]
    assert tools.read(DEFINITION)
    assert tools.read(AUTOSCALER)
    assert tools.read(REGISTRATION) is None
    assert tools.read("/apis/apps/v1/namespaces/trimtab/deployments/trimtab-updater") is None


def test_what_the_component_registers_survives_an_upgrade(tools: Tools) -> None:
    install = ["upgrade", "--install", "trimtab", "--namespace=trimtab", "--create-namespace"]
    tools.helm(*install, str(chart.CHART), "--take-ownership")
    webhook = {
        "name": "vpa.k8s.io",
        "clientConfig": {"url": "https://127.0.0.1:8000"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    patch = json.dumps({"webhooks": [webhook]}).encode()
    tools.plane.request("PATCH", REGISTRATION, patch, "application/merge-patch+json")
    tools.helm(*install, str(chart.CHART), "--set=commonLabels.team=platform")

    found = tools.read(REGISTRATION)
    assert found is not None
    assert found["metadata"]["labels"]["team"] == "platform"
    assert [each["name"] for each in found["webhooks"]] == ["vpa.k8s.io"]


def test_one_namespace_needs_no_right_outside_of_it(tools: Tools, tmp_path: Path) -> None:
    make_namespace(tools, "tenant")
    kubeconfig = an_account(tools.plane, "tenant", WHATEVER, tmp_path)
    tenant = Tools(tools.plane, tmp_path, kubeconfig)
    flags = ["upgrade", "--install", "tenant", str(chart.CHART), "--namespace=tenant"]
    whole = tenant.run("helm", *flags)
    tenant.helm(*flags, f"--values={chart.CHART / 'values-namespaced.yaml'}")

    assert "forbidden" in whole.stderr
    assert tools.read("/apis/apps/v1/namespaces/tenant/deployments/tenant-trimtab-updater")


def as_account(plane: ControlPlane, namespace: str, name: str) -> ControlPlane:
    """The same API server, asked by an account."""
    path = f"{NAMESPACES}/{namespace}/serviceaccounts/{name}/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return replace(plane, token=plane.create(path, asked)["status"]["token"])


def test_components_may_change_metadata_of_pods_try_some_and_make_none(tools: Tools) -> None:
    make_namespace(tools, "careful")
    flags = ["upgrade", "--install", "careful", str(chart.CHART), "--namespace=careful"]
    tools.helm(*flags, "--take-ownership")
    updater = as_account(tools.plane, "careful", "careful-trimtab-updater")
    admission = as_account(tools.plane, "careful", "careful-trimtab-admission-controller")
    (deployment,) = of_kind(render("only-updater"), "Deployment")
    pods = f"{NAMESPACES}/careful/pods"
    pod = pod_of(deployment)
    pod["metadata"] = {"name": "web", "namespace": "careful"}
    pod["spec"] = {**pod["spec"], "serviceAccountName": "default"}
    tools.apply(pod)
    tried = json.dumps({**pod, "metadata": {"generateName": "tried-"}}).encode()

    def patch(change: Json) -> tuple[int, bytes]:
        body = json.dumps(change).encode()
        return updater.request("PATCH", f"{pods}/web", body, "application/merge-patch+json")

    # Policies are in force a moment after they were made.
    waiting.wait_for(lambda: admission.request("POST", pods, tried), lambda said: said[0] == 422)
    assert admission.request("POST", f"{pods}?dryRun=All", tried)[0] == 201
    assert patch({"metadata": {"annotations": {"a": "b"}}})[0] == 200
    status, said = patch({"spec": {"activeDeadlineSeconds": 1}})
    assert (status, b"nothing else of a spec" in said) == (422, True)
