"""Explanations of what the next pod would have, beside the pod that comes next."""

import os
import subprocess

import pytest
from smoke.scene import Scene, describe_pods, is_ready, millicores, uids_of
from smoke.test_quotas import HALF, LARGE, TENTH, set_quota, wait_until_ready
from support.stages.components import TRIMTAB, Json
from support.stages.updater import a_template

pytestmark = pytest.mark.smoke


def explain(scene: Scene, name: str = "web") -> str:
    """Return the words of `trimtab explain` in a process of its own."""
    kubeconfig = str(scene.plane.kubeconfig)
    given = ["explain", name, "-n", scene.namespace, "--offline", "--kubeconfig", kubeconfig]
    done = subprocess.run(
        [TRIMTAB, *given],
        capture_output=True,
        check=False,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def wait_for_successor(scene: Scene, before: list[Json]) -> Json:
    """Delete a pod, and return the one that comes in its place."""
    scene.kill(before[0])
    known = uids_of(before)
    pods = scene.wait_for_pods(
        lambda pods: len(uids_of(pods) - known) == 1 and all(map(is_ready, pods))
    )
    return next(pod for pod in pods if pod["metadata"]["uid"] not in known)


def test_explain_knows_that_a_quota_leaves_the_next_pod_as_its_template(scene: Scene) -> None:
    set_quota(scene, {"requests.cpu": "1350m"})
    scene.autoscale(HALF, mode="Initial")
    scene.create(a_template(TENTH), replicas=2)
    pods = wait_until_ready(scene, 2)
    scene.recommend(LARGE)
    scene.let_watches_catch_up()
    said = explain(scene)

    assert [*map(millicores, pods)] == [500, 500], describe_pods(pods)
    assert "the next pod would have requests cpu 100m" in said, said
    assert millicores(wait_for_successor(scene, pods)) == 100


def test_explain_knows_that_an_hpa_leaves_the_next_pod_as_its_template(scene: Scene) -> None:
    scene.autoscale(HALF, mode="Initial")
    scene.create(a_template(TENTH), replicas=2)
    pods = wait_until_ready(scene, 2)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    utilization = {"type": "Utilization", "averageUtilization": 80}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": utilization}}
    manifest = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 5, "metrics": [metric]},
    }
    scene.create_object("horizontalpodautoscalers", manifest)
    scene.let_watches_catch_up()
    said = explain(scene)

    assert [*map(millicores, pods)] == [500, 500], describe_pods(pods)
    assert "the next pod would have requests cpu 100m" in said, said
    assert millicores(wait_for_successor(scene, pods)) == 100
