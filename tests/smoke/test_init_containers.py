"""Init containers at work: the updater lets a pod on a node start before it changes it."""

import pytest
from e2e.components import Json
from e2e.updater_stage import LARGE, SMALL, TARGET, requests
from smoke.scene import Scene, is_ready, uids_of

pytestmark = pytest.mark.smoke


def report_phase(scene: Scene, pod: Json, phase: str) -> None:
    """Report the phase of a pod as its kubelet does."""
    name = pod["metadata"]["name"]
    scene.patch(f"{scene.path('pods', 'v1')}/{name}/status", {"status": {"phase": phase}})


@pytest.mark.parametrize(
    ("mode", "target"),
    [
        pytest.param("Recreate", LARGE, id="growth"),
        pytest.param("Recreate", SMALL, id="a shrink"),
        pytest.param("UpscaleOnly", LARGE, id="growth in a mode that resizes"),
    ],
)
def test_no_pod_is_evicted_from_its_init_containers(
    hasty_scene: Scene, mode: str, target: Json
) -> None:
    scene = hasty_scene
    scene.deploy("web", TARGET, replicas=3)
    pods = scene.pods()
    for pod in pods:
        scene.play_unreadiness(pod)
        report_phase(scene, pod, "Pending")
    scene.let_watches_catch_up()
    scene.autoscale(target, mode=mode)
    scene.wait_for_words(scene.condition_messages, "PodPending")

    scene.watch(15, lambda found: uids_of(found) == uids_of(pods))
    # The init containers end, and the pods change as all others do.
    for pod in scene.pods():
        report_phase(scene, pod, "Running")
        scene.play_recovery(pod)
    scene.wait_for_pods(
        lambda found: requests(found) == [[target]] * 3 and all(map(is_ready, found))
    )
