"""Pods with larger limits than their template are not evicted into its limits."""

import pytest
from smoke.scene import Scene, describe_pods, is_ready, millicores
from support.stages.updater import a_template

pytestmark = pytest.mark.smoke

TENTH = {"cpu": "100m", "memory": "100Mi"}
LIMITS = {"cpu": "200m", "memory": "200Mi"}
SIZED = {"cpu": "900m", "memory": "900Mi"}
LARGER = {"cpu": "1200m", "memory": "1200Mi"}


def test_no_pod_is_evicted_into_the_limits_of_its_template(hasty_scene: Scene) -> None:
    scene = hasty_scene
    scene.autoscale(SIZED, mode="Initial")
    scene.create(a_template(TENTH, limits=LIMITS))
    pods = scene.wait_for_pods(lambda pods: len(pods) == 2 and all(map(is_ready, pods)))
    assert all(millicores(pod) == 900 for pod in pods), describe_pods(pods)
    only_requests = {"containerName": "*", "controlledValues": "RequestsOnly"}
    autoscalers = scene.path("verticalpodautoscalers", "autoscaling.k8s.io/v1")
    scene.patch(
        f"{autoscalers}/web", {"spec": {"resourcePolicy": {"containerPolicies": [only_requests]}}}
    )
    scene.let_watches_catch_up()
    scene.recommend(LARGER)
    scene.edit({"updateMode": "Recreate"})

    scene.watch_uids(20)
    scene.wait_for_words(scene.condition_messages, "SuccessorSmaller")
