"""Resizes that restart containers: never more at once than a PodDisruptionBudget bears."""

import pytest
from smoke.scene import Scene, millicores, uids_of
from support.stages.updater import LARGE, SMALL, a_template

from rig import stages

pytestmark = pytest.mark.smoke

NAMES = ("one", "two", "three")


def start_under_one_budget(scene: Scene) -> None:
    """Create Deployments whose pods restart when they are resized, and a budget over all."""
    for name in NAMES:
        template = a_template(SMALL)
        restart = {"resourceName": "cpu", "restartPolicy": "RestartContainer"}
        template["spec"]["containers"][0]["resizePolicy"] = [restart]
        template["metadata"]["labels"] = {"app": name, "tier": "all"}
        # The kubelet takes its time, and so the restart does.
        template["metadata"]["annotations"] = {stages.ANNOTATION: "in-progress"}
        spec = {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        }
        head = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}}
        scene.create_object("deployments", {**head, "spec": spec})
    for name in NAMES:
        scene.wait_until_running(2, name)
    head = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "all"}}
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"tier": "all"}}}
    scene.create_object("poddisruptionbudgets", {**head, "spec": spec})
    scene.plane.wait_for(
        f"{scene.path('poddisruptionbudgets', 'policy/v1')}/all",
        lambda found: found.get("status", {}).get("disruptionsAllowed") == 1,
    )


def test_owners_under_one_budget_restart_one_pod_after_the_other(scene: Scene) -> None:
    start_under_one_budget(scene)
    for name in NAMES:
        scene.autoscale(LARGE, name=name, mode="InPlaceOrRecreate")

    def count_resized() -> int:
        pods = [pod for name in NAMES for pod in scene.pods(name)]
        return sum(millicores(pod) == 500 for pod in pods)

    scene.wait_for_pods(lambda _: count_resized(), NAMES[0])
    scene.watch(6, lambda _: count_resized() == 1, *NAMES)


def test_nothing_is_evicted_beside_a_restart_under_one_budget(scene: Scene) -> None:
    """One owner restarts a pod, and the other one's pods are to be evicted."""
    start_under_one_budget(scene)
    scene.autoscale(LARGE, name="one", mode="InPlaceOrRecreate")
    scene.wait_for_pods(lambda pods: any(millicores(pod) == 500 for pod in pods), "one")
    before = scene.uids("two")
    scene.autoscale(LARGE, name="two", mode="Recreate")

    scene.watch(6, lambda pods: uids_of(pods) == before, "two")
    scene.wait_for_pods(lambda pods: not uids_of(pods) & before, "two")
