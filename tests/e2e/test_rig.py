"""The rig itself: a cluster whose fake node runs and resizes pods, and that leaves no trace."""

import json
import os
import re
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rig import controlplane, fake_node, programs, stages, waiting
from rig.controlplane import ControlPlane

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
STRATEGIC = "application/strategic-merge-patch+json"
BEFORE = {"requests": {"cpu": "100m", "memory": "64Mi"}}
AFTER = {"requests": {"cpu": "250m", "memory": "64Mi"}}

Json = dict[str, Any]

# A run in a process of its own, which will be killed.
RUN = """\
import signal
from rig import controlplane
with controlplane.running(*controlplane.Part) as plane:
    print(plane.directory, flush=True)
    signal.pause()
"""


def a_template(resources: Json, annotations: dict[str, str]) -> Json:
    container = {"name": "app", "image": "none", "resources": resources}
    return {
        "metadata": {"labels": {"app": "web"}, "annotations": annotations},
        "spec": {"containers": [container, {"name": "besteffort", "image": "none"}]},
    }


def a_deployment(replicas: int) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": a_template(BEFORE, {}),
        },
    }


def create(cluster: ControlPlane, path: str, manifest: Json) -> Json:
    status, body = cluster.request("POST", path, json.dumps(manifest).encode())
    assert status == 201, body
    created: Json = json.loads(body)
    return created


def patch(cluster: ControlPlane, path: str, change: Json) -> None:
    status, body = cluster.request("PATCH", path, json.dumps(change).encode(), STRATEGIC)
    assert status == 200, body


def is_running(pod: Json) -> bool:
    """Whether a pod runs and reports its resources, without which it cannot be resized."""
    statuses = pod["status"].get("containerStatuses", [])
    return pod["status"]["phase"] == "Running" and all("resources" in each for each in statuses)


def start_pod(cluster: ControlPlane, namespace: str, **annotations: str) -> str:
    """The path of a pod that runs on the fake node."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    named = {
        stages.ANNOTATION if name == "resize" else name: annotations[name] for name in annotations
    }
    manifest = {"apiVersion": "v1", "kind": "Pod", **a_template(BEFORE, named)}
    manifest["metadata"]["name"] = "web"
    create(cluster, pods, manifest)
    cluster.wait_for(f"{pods}/web", is_running)
    return f"{pods}/web"


def resize(cluster: ControlPlane, pod: str, resources: Json) -> None:
    containers = [{"name": "app", "resources": resources}]
    patch(cluster, f"{pod}/resize", {"spec": {"containers": containers}})


def reported(pod: Json) -> Json:
    resources: Json = pod["status"]["containerStatuses"][0]["resources"]
    return resources


def resize_conditions(pod: Json) -> list[tuple[str, str, str]]:
    return [
        (each["type"], each["status"], each.get("reason", ""))
        for each in pod["status"]["conditions"]
        if each["type"].startswith("PodResize")
    ]


@pytest.mark.skipif(
    programs.find_installed("kube-apiserver") is not None,
    reason="kube-apiserver is installed, in whatever version",
)
def test_the_api_server_has_the_version_that_is_pinned(cluster: ControlPlane) -> None:
    _, body = cluster.request("GET", "/version")

    assert json.loads(body)["gitVersion"] == programs.recipe("kube-apiserver").version


def test_a_deployment_gets_its_pods_and_they_run_on_the_fake_node(
    cluster: ControlPlane, namespace: str
) -> None:
    create(cluster, f"/apis/apps/v1/namespaces/{namespace}/deployments", a_deployment(3))
    listed = cluster.wait_for(
        f"/api/v1/namespaces/{namespace}/pods",
        lambda pods: len(pods["items"]) == 3 and all(map(is_running, pods["items"])),
    )

    assert {pod["spec"]["nodeName"] for pod in listed["items"]} == {fake_node.NAME}
    assert len({pod["status"]["podIP"] for pod in listed["items"]}) == 3
    for pod in listed["items"]:
        statuses = {each["name"]: each["resources"] for each in pod["status"]["containerStatuses"]}
        assert statuses == {"app": BEFORE, "besteffort": {}}


def test_an_eviction_is_refused_while_a_disruption_budget_is_spent(
    cluster: ControlPlane, namespace: str
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    }
    create(cluster, f"/apis/apps/v1/namespaces/{namespace}/deployments", a_deployment(2))
    create(cluster, budgets, budget)
    cluster.wait_for(
        f"{budgets}/web", lambda each: each.get("status", {}).get("currentHealthy") == 2
    )
    _, body = cluster.request("GET", pods)
    name = json.loads(body)["items"][0]["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    asked = json.dumps(eviction).encode()
    refused, answer = cluster.request("POST", f"{pods}/{name}/eviction", asked)
    cluster.request("DELETE", f"{budgets}/web")
    granted, _ = cluster.request("POST", f"{pods}/{name}/eviction", asked)

    assert refused == 429
    assert json.loads(answer)["details"]["causes"][0]["reason"] == "DisruptionBudget"
    assert granted == 201
    assert cluster.wait_for(
        pods,
        lambda found: (
            sum(map(is_running, found["items"])) == 2
            and name not in {pod["metadata"]["name"] for pod in found["items"]}
        ),
    )


def test_a_resize_succeeds_unless_told_otherwise(cluster: ControlPlane, namespace: str) -> None:
    pod = start_pod(cluster, namespace)
    resize(cluster, pod, AFTER)
    found = cluster.wait_for(pod, lambda it: reported(it) == AFTER)

    status = found["status"]["containerStatuses"][0]
    assert status["allocatedResources"] == AFTER["requests"]
    assert status["restartCount"] == 0
    assert resize_conditions(found) == []


@pytest.mark.parametrize("outcome", stages.OUTCOMES, ids=lambda outcome: str(outcome.annotation))
def test_a_resize_stands_as_the_annotation_says_until_it_goes(
    cluster: ControlPlane, namespace: str, outcome: stages.Outcome
) -> None:
    pod = start_pod(cluster, namespace, resize=outcome.annotation)
    resize(cluster, pod, AFTER)
    held = cluster.wait_for(pod, resize_conditions)
    patch(cluster, pod, {"metadata": {"annotations": {stages.ANNOTATION: None}}})
    done = cluster.wait_for(pod, lambda it: reported(it) == AFTER)

    allocated = held["status"]["containerStatuses"][0]["allocatedResources"]
    assert resize_conditions(held) == [(outcome.condition, "True", outcome.reason)]
    assert reported(held) == BEFORE
    assert allocated == (AFTER if outcome.is_allocated else BEFORE)["requests"]
    assert resize_conditions(done) == []


def test_a_resize_that_is_taken_back_leaves_no_condition(
    cluster: ControlPlane, namespace: str
) -> None:
    pod = start_pod(cluster, namespace, resize="deferred")
    resize(cluster, pod, AFTER)
    cluster.wait_for(pod, resize_conditions)
    resize(cluster, pod, BEFORE)

    assert cluster.wait_for(pod, lambda it: not resize_conditions(it))


def test_one_outcome_follows_another_when_the_annotation_changes(
    cluster: ControlPlane, namespace: str
) -> None:
    pod = start_pod(cluster, namespace, resize="deferred")
    resize(cluster, pod, AFTER)
    cluster.wait_for(pod, resize_conditions)
    patch(cluster, pod, {"metadata": {"annotations": {stages.ANNOTATION: "error"}}})

    expected = [("PodResizeInProgress", "True", "Error")]
    assert cluster.wait_for(pod, lambda it: resize_conditions(it) == expected)


def test_the_fake_node_tells_the_usage_that_a_pod_s_annotations_say(
    cluster: ControlPlane, namespace: str
) -> None:
    start_pod(cluster, namespace, **{"kwok.x-k8s.io/usage-memory": "96Mi"})
    line = re.compile(
        rf'^container_memory_working_set_bytes{{container="app",namespace="{namespace}",'
        r'pod="web"} (\S+)',
        re.MULTILINE,
    )
    found = waiting.wait_for(lambda: line.search(cluster.read_usage()), lambda match: match)

    assert found
    assert float(found[1]) == 96 * 2**20


def test_the_fake_node_holds_a_lease_so_that_it_is_never_given_up(cluster: ControlPlane) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{fake_node.NAME}"
    lease = cluster.wait_for(path, bool)

    # Controllers give a node up that has been silent for 50 seconds.
    assert lease["spec"]["leaseDurationSeconds"] < 50


def test_an_api_server_that_is_started_again_still_knows_its_objects() -> None:
    with controlplane.running() as plane:
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kept"}}
        create(plane, "/api/v1/namespaces", manifest)
        plane.restart_apiserver()

        assert plane.can_read("/api/v1/namespaces/kept")


def test_an_api_server_that_stands_still_answers_when_it_goes_on() -> None:
    with controlplane.running() as plane:
        server = plane.processes["kube-apiserver"]
        with server.paused(), pytest.raises(TimeoutError):
            plane.request("GET", "/readyz", timeout_seconds=0.5)

        assert plane.wait_for("/api/v1/namespaces/default", bool)


def pids_in(directory: Path) -> list[int]:
    """The processes of a run: each of them works in its folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if (each / "cwd").readlink() == directory:
                found.append(int(each.name))
        except OSError:
            continue
    return found


def test_a_run_that_is_killed_leaves_no_process_and_the_next_removes_its_folder() -> None:
    with subprocess.Popen([sys.executable, "-c", RUN], stdout=subprocess.PIPE, cwd=ROOT) as run:
        assert run.stdout is not None
        directory = Path(run.stdout.readline().decode().strip())
        watched = {pid: os.pidfd_open(pid) for pid in pids_in(directory)}
        run.kill()

    for pidfd in watched.values():
        ended, _, _ = select.select([pidfd], [], [], 30)
        os.close(pidfd)
        assert ended
    assert len(watched) == 12
    assert pids_in(directory) == []
    assert directory.exists()
    with controlplane._own_directory():
        assert not directory.exists()
