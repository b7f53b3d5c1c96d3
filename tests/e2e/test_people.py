"""What people may do by the chart's lists of rules, which become part of Kubernetes' roles."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.rights_stage import Account
from support.stages.components import TRIMTAB, Json, install, rules_of
from support.stages.updater import SMALL, Stage

from rig.controlplane import ControlPlane

pytestmark = pytest.mark.e2e

_RBAC = "rbac.authorization.k8s.io"
_ROLES = f"/apis/{_RBAC}/v1/clusterroles"
_KIND = "verticalpodautoscalers"


@pytest.fixture(scope="module")
def installed(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """A cluster whose roles for people know autoscalers."""
    install(cluster)
    included = {"view": ("view", "edit", "admin"), "edit": ("edit", "admin")}
    for role, others in included.items():
        labels = {f"{_RBAC}/aggregate-to-{other}": "true" for other in others}
        metadata = {"name": f"people-{role}", "labels": labels}
        manifest = {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": metadata}
        cluster.create(_ROLES, {**manifest, "rules": rules_of(f"people-{role}")})
        cluster.wait_for(f"{_ROLES}/{role}", _knows_autoscalers)
    yield cluster
    for role in included:
        cluster.request("DELETE", f"{_ROLES}/people-{role}")


def _knows_autoscalers(role: Json) -> bool:
    return any(_KIND in rule.get("resources", []) for rule in role["rules"] or [])


@pytest.fixture
def stage(installed: ControlPlane, namespace: str) -> Stage:
    made = Stage(installed, namespace)
    made.deploy("web", SMALL)
    made.autoscale(mode="Off")
    return made


def deploy_component(stage: Stage, component: str) -> None:
    """A Deployment that looks like a component, so that its rights are asked for."""
    labels = {
        "app.kubernetes.io/part-of": "trimtab",
        "app.kubernetes.io/component": component,
    }
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": component, "image": "none"}]},
    }
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": component, "labels": labels},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }
    stage.plane.create(f"/apis/apps/v1/namespaces/{stage.namespace}/deployments", manifest)


def run(kubeconfig: Path, command: str, *flags: str) -> subprocess.CompletedProcess[str]:
    words = [str(TRIMTAB), *command.split(), f"--kubeconfig={kubeconfig}", *flags]
    return subprocess.run(
        words, capture_output=True, text=True, check=False, env={"COLUMNS": "100"}
    )


def test_who_may_view_a_namespace_sees_its_autoscalers_and_why(
    stage: Stage, tmp_path: Path
) -> None:
    reader = Account(stage.plane, stage.namespace, "reader")
    reader.become("view", stage.namespace)
    kubeconfig = reader.write_kubeconfig(tmp_path)
    here = f"--namespace={stage.namespace}"

    got = run(kubeconfig, "get", here)
    explained = run(kubeconfig, "explain web --offline", here)
    inspected = run(kubeconfig, "checkpoint inspect", here)
    reader.note_requests()

    assert [each.returncode for each in (got, explained, inspected)] == [0, 0, 0]
    assert "200m" in got.stdout
    # Whether an admission controller is there is told outside of the namespace.
    assert {one.resource for one in reader.refused()} <= {"leases"}


def test_who_may_edit_a_namespace_makes_autoscalers_and_who_may_view_it_does_not(
    stage: Stage,
) -> None:
    reader = Account(stage.plane, stage.namespace, "reader")
    reader.become("view", stage.namespace)
    writer = Account(stage.plane, stage.namespace, "writer")
    writer.become("edit", stage.namespace)
    path = f"/apis/autoscaling.k8s.io/v1/namespaces/{stage.namespace}/{_KIND}"
    manifest = {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "other"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}},
    }
    body = json.dumps(manifest).encode()

    answers = [each.ask("POST", path, body, "application/json") for each in (reader, writer)]

    assert answers == [403, 201]


def test_who_may_diagnose_is_refused_nothing_and_has_no_right_in_vain(
    stage: Stage, tmp_path: Path
) -> None:
    doctor = Account(stage.plane, stage.namespace, "doctor")
    doctor.become("view")
    doctor.allow_everywhere(rules_of("people-doctor"))
    kubeconfig = doctor.write_kubeconfig(tmp_path)
    deploy_component(stage, "updater")
    try:
        said = run(kubeconfig, "doctor --as-components")
        report = run(kubeconfig, "report -A --watch-for=1s --min-samples=1")
        explained = run(kubeconfig, "explain web --offline", f"--namespace={stage.namespace}")
        doctor.note_requests()
    finally:
        doctor.leave()

    assert said.returncode in (0, 3), said.stderr
    assert report.returncode in (0, 1), report.stderr
    assert explained.returncode == 0, explained.stderr
    assert doctor.refused() == []
    assert doctor.unused() == []
