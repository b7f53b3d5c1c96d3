"""The plain path, from usage to a sized successor, with what guards it."""

import pytest
from smoke.crews import GC_SECONDS
from smoke.scene import POLL_SECONDS, Scene, is_ready, millicores, spec_requests, uids_of
from support.stages.components import SLOW_SECONDS
from support.stages.updater import SMALL, TARGET, a_template, requests

from rig import waiting

pytestmark = pytest.mark.smoke

USAGE = {"kwok.x-k8s.io/usage-cpu": "600m", "kwok.x-k8s.io/usage-memory": "400Mi"}


def wait_for_targets(
    scene: Scene, autoscaler: str, *names: str, patience_seconds: float = SLOW_SECONDS
) -> None:
    """Wait until exactly these containers have a recommendation."""

    def read() -> list[str]:
        recommended = scene.read(autoscaler).get("status", {}).get("recommendation", {})
        found = recommended.get("containerRecommendations", [])
        return [each["containerName"] for each in found]

    waiting.wait_for(
        read, [*names].__eq__, patience_seconds=patience_seconds, poll_seconds=POLL_SECONDS
    )


def test_pods_are_evicted_one_after_another_and_come_back_sized(scene: Scene) -> None:
    uids = scene.deploy(replicas=4)
    scene.autoscale(mode="Recreate")
    scene.watch(5, lambda pods: sum(map(is_ready, pods)) >= 2)
    scene.wait_for_pods(lambda pods: requests(pods) == [[TARGET]] * 4)

    assert scene.uids().isdisjoint(uids)
    scene.watch_uids(10)


def test_usage_becomes_a_recommendation_a_resize_and_the_size_of_successors(
    hasty_scene: Scene,
) -> None:
    scene = hasty_scene
    autoscaler = scene.learn()
    uids = set(scene.deploy("web", SMALL, annotations=USAGE))
    scene.plane.read_usage()
    wait_for_targets(scene, autoscaler, "c0")
    resized = scene.wait_for_pods(lambda pods: all(millicores(pod) > 500 for pod in pods))
    assert uids_of(resized) == uids
    scene.kill(resized[0])
    after = scene.wait_until_running(2)
    assert all(millicores(pod) > 500 for pod in after)


def test_a_container_that_no_pod_has_leaves_the_status_within_a_tick(hasty_scene: Scene) -> None:
    scene = hasty_scene
    autoscaler = scene.learn(mode="Off")
    scene.deploy("web", SMALL, SMALL, annotations=USAGE)
    scene.plane.read_usage()
    wait_for_targets(scene, autoscaler, "c0", "c1")
    slim = a_template(SMALL)["spec"]["containers"]
    template = {"spec": {"template": {"spec": {"containers": slim}}}}
    scene.patch(f"{scene.path('deployments')}/web", template)
    scene.wait_for_pods(
        lambda pods: len(pods) == 2 and all(len(pod["spec"]["containers"]) == 1 for pod in pods)
    )
    wait_for_targets(scene, autoscaler, "c0", patience_seconds=15)


def test_an_orphan_checkpoint_goes_within_one_interval(scene: Scene) -> None:
    manifest = {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscalerCheckpoint",
        "metadata": {"name": "gone-c0"},
        "spec": {"vpaObjectName": "gone", "containerName": "c0"},
    }
    scene.create_object("verticalpodautoscalercheckpoints", manifest)
    path = scene.path("verticalpodautoscalercheckpoints", "autoscaling.k8s.io/v1")
    scene.plane.wait_for(path, lambda found: not found["items"], patience_seconds=GC_SECONDS + 5)


def test_a_disruption_budget_is_respected_and_not_asked_without_end(scene: Scene) -> None:
    scene.deploy(replicas=3)
    scene.protect()
    scene.autoscale(mode="Recreate")
    scene.watch_uids(20)
    user = scene.components.users["updater-usual"]
    asked = [
        each
        for each in scene.plane.audited(user)
        if each.resource == "pods/eviction" and each.namespace == scene.namespace
    ]
    scene.wait_for_words(scene.condition_messages, "PodDisruptionBudget")
    # Once in a tick, of which there is one a second.
    assert 1 <= len(asked) <= 25
    scene.allow_unavailable(1)

    after = scene.wait_for_pods(lambda pods: requests(pods) == [[TARGET]] * 3)
    assert [spec_requests(pod) for pod in after] == [TARGET] * 3
