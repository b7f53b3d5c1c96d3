"""Pods beside a HorizontalPodAutoscaler keep what their autoscaler once gave them."""

import pytest
from smoke.scene import Scene, describe_pods, is_ready, millicores, spec_requests
from support.stages.components import Json
from support.stages.updater import a_template

pytestmark = pytest.mark.smoke

TENTH = {"cpu": "100m", "memory": "100Mi"}
HALF = {"cpu": "500m", "memory": "100Mi"}
LARGE = {"cpu": "500m", "memory": "300Mi"}


def a_horizontal_autoscaler() -> Json:
    """Return the manifest of a HorizontalPodAutoscaler on CPU."""
    target = {"type": "Utilization", "averageUtilization": 80}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 2,
            "maxReplicas": 5,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }


def start_sized(scene: Scene) -> None:
    scene.autoscale(HALF, mode="Initial")
    scene.create(a_template(TENTH))
    pods = scene.wait_for_pods(lambda pods: len(pods) == 2 and all(map(is_ready, pods)))
    assert all(millicores(pod) == 500 for pod in pods), describe_pods(pods)
    scene.create_object("horizontalpodautoscalers", a_horizontal_autoscaler())
    scene.let_watches_catch_up()
    scene.recommend(LARGE)


def test_no_pod_is_evicted_for_memory_that_would_lose_more_cpu(hasty_scene: Scene) -> None:
    scene = hasty_scene
    start_sized(scene)
    scene.edit({"updateMode": "Recreate"})

    scene.watch_uids(20)
    scene.wait_for_words(scene.condition_messages, "SuccessorSmaller")


def test_memory_grows_in_place_beside_cpu_that_is_left_alone(hasty_scene: Scene) -> None:
    scene = hasty_scene
    start_sized(scene)
    scene.edit({"updateMode": "InPlaceOrRecreate"})

    scene.wait_for_pods(lambda pods: all(spec_requests(pod) == LARGE for pod in pods))
