"""Init containers at work: the updater lets a pod on a node start before it changes it."""

import pytest
from smoke.scene import Scene, is_ready, uids_of
from support.stages.components import Json
from support.stages.updater import LARGE, SMALL, TARGET, a_template, requests

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


@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "InPlace"])
def test_a_sidecar_that_dies_before_the_pod_runs_is_resized(scene: Scene, mode: str) -> None:
    template = a_template(SMALL)
    sidecar = {**template["spec"]["containers"][0], "name": "c1", "restartPolicy": "Always"}
    template["spec"]["initContainers"] = [sidecar]
    scene.create(template, replicas=2)
    pods = scene.wait_until_running(2)
    for pod in pods:
        scene.play_dying_sidecar(pod, "c1")
    scene.let_watches_catch_up()
    scene.autoscale(SMALL, LARGE, mode=mode)

    found = scene.wait_for_pods(
        lambda found: (
            [each["spec"]["initContainers"][0]["resources"]["requests"] for each in found]
            == [LARGE] * 2
        )
    )
    assert uids_of(found) == uids_of(pods)
    assert {each["status"]["phase"] for each in found} == {"Pending"}
