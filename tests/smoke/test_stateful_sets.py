"""StatefulSets that make their pods in order: none is evicted that could not come back."""

import pytest
from e2e.components import Json
from e2e.updater_stage import LARGE, SMALL, a_template, requests
from smoke.scene import Scene, is_ready, uids_of

pytestmark = pytest.mark.smoke


def create_set(scene: Scene, policy: str) -> list[Json]:
    """Create a StatefulSet of four pods, of which the first is not ready any more."""
    template = a_template(SMALL)
    labels = template["metadata"]["labels"] = {"app": "web"}
    spec = {
        "replicas": 4,
        "podManagementPolicy": policy,
        "selector": {"matchLabels": labels},
        "template": template,
    }
    manifest = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"}}
    scene.create_object("statefulsets", {**manifest, "spec": spec})
    first, *others = scene.wait_until_running(4)
    return [first, *others]


def test_no_pod_above_an_unready_ordinal_is_evicted(hasty_scene: Scene) -> None:
    scene = hasty_scene
    # The first pod wants nothing, and blocks the others for as long as it is not ready.
    first, *others = create_set(scene, "OrderedReady")
    scene.play_unreadiness(first)
    scene.annotate(
        first["metadata"]["name"], {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    )
    scene.autoscale(LARGE, kind="StatefulSet")
    scene.wait_for_words(scene.condition_messages, "LowerOrdinalNotReady")

    pods = scene.watch(20, lambda pods: uids_of(pods) >= uids_of(others))
    # It recovers, and the others follow one by one.
    scene.play_recovery(pods[0])
    scene.wait_for_pods(
        lambda pods: requests(pods)[1:] == [[LARGE]] * 3 and all(map(is_ready, pods))
    )


def test_a_set_that_makes_pods_in_parallel_does_not_wait(hasty_scene: Scene) -> None:
    scene = hasty_scene
    first, *others = create_set(scene, "Parallel")
    scene.play_unreadiness(first)
    scene.autoscale(LARGE, kind="StatefulSet")

    scene.wait_for_pods(lambda pods: uids_of(others) - uids_of(pods))


def test_no_pod_is_evicted_before_a_lower_ordinal_is_available(hasty_scene: Scene) -> None:
    scene = hasty_scene
    _, *others = create_set(scene, "OrderedReady")
    scene.patch(f"{scene.path('statefulsets')}/web", {"spec": {"minReadySeconds": 25}})
    scene.let_watches_catch_up()
    # The first pod comes back at once; after another, the next would stay away for 25 seconds.
    scene.autoscale(LARGE, kind="StatefulSet")
    scene.wait_for_pods(lambda pods: requests(pods)[0] == [LARGE] and all(map(is_ready, pods)))
    scene.wait_for_words(scene.condition_messages, "LowerOrdinalNotReady")

    scene.watch(15, lambda pods: uids_of(pods) >= uids_of(others))
    scene.wait_for_pods(
        lambda pods: requests(pods)[:2] == [[LARGE]] * 2 and all(map(is_ready, pods))
    )
