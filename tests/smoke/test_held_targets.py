"""Targets that are held by their cost, from usage to the running pod."""

import pytest
from smoke.scene import Scene, spec_requests
from support.stages.updater import SMALL

from trimtab.core.model.estimation import ESTIMATOR_ANNOTATION
from trimtab.core.model.quantities import parse_amount
from trimtab.core.model.resources import Resource

pytestmark = pytest.mark.smoke

MIB = 1024**2
USAGE = {"kwok.x-k8s.io/usage-cpu": "50m", "kwok.x-k8s.io/usage-memory": "400Mi"}


def memory_mib(pod: dict[str, object]) -> float:
    return parse_amount(Resource.MEMORY, spec_requests(pod)["memory"]) / MIB


def test_pods_follow_a_held_target_in_place_after_usage_and_after_an_oom_kill(
    hasty_scene: Scene,
) -> None:
    scene = hasty_scene
    uids = scene.deploy("web", SMALL, replicas=1, annotations=USAGE)
    path = scene.learn()
    scene.patch(path, {"metadata": {"annotations": {ESTIMATOR_ANNOTATION: "cost"}}})
    # 400 MiB and the margin: 15 % and 40 MiB.
    pods = scene.wait_for_pods(lambda found: round(memory_mib(found[0])) == 500)
    (said,) = scene.read(path)["status"]["recommendation"]["containerRecommendations"]
    lower = parse_amount(Resource.MEMORY, said["lowerBound"]["memory"])
    scene.play_crash_loop(pods[0])
    # Twice what the container had.
    scene.wait_for_pods(lambda found: round(memory_mib(found[0])) == 1000)

    assert scene.uids() == set(uids)
    assert lower > 450 * MIB
