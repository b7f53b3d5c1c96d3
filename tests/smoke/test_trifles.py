"""Amounts that are no reason to restart a pod: trifles, and targets that no machine can hold."""

import pytest
from smoke.scene import Scene, spec_requests, uids_of
from smoke.test_explain import explain
from support.stages.components import Json
from support.stages.updater import SMALL, TARGET, a_template, requests

pytestmark = pytest.mark.smoke

TRIFLE = {"cpu": "104m", "memory": "104Mi"}
"""More than the pods have by less than half of the update threshold, which is 10 %."""
RELEVANT = {"cpu": "106m", "memory": "106Mi"}
ABSURD: Json = {"cpu": "1e30", "memory": "1e30"}


@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate"])
def test_no_pod_outside_its_bounds_restarts_for_a_trifle(hasty_scene: Scene, mode: str) -> None:
    scene = hasty_scene
    template = a_template(SMALL)
    template["spec"]["containers"][0]["resizePolicy"] = [
        {"resourceName": name, "restartPolicy": "RestartContainer"} for name in SMALL
    ]
    before = scene.start(template, replicas=3)
    # Both bounds are the target, so the pods lie below them.
    scene.autoscale(TRIFLE, mode=mode)
    scene.wait_for_holds("ChangeTooSmall", 3)

    pods = scene.watch_uids(3)
    assert requests(pods) == [[SMALL]] * 3
    is_replaced = mode == "Recreate"
    if is_replaced:
        said = explain(scene)
        assert "ChangeTooSmall" in said, said
    # A little more is a reason.
    scene.recommend(RELEVANT)
    pods = scene.wait_for_pods(lambda pods: [RELEVANT] in requests(pods))
    assert (uids_of(pods) != uids_of(before)) is is_replaced


@pytest.mark.parametrize(
    ("mode", "target"),
    [
        pytest.param("Recreate", ABSURD, id="both"),
        pytest.param("InPlaceOrRecreate", {**TARGET, "cpu": "10001"}, id="cores"),
        pytest.param("UpscaleOnly", {**TARGET, "memory": "2Pi"}, id="memory"),
    ],
)
def test_no_pod_is_touched_for_a_target_that_no_machine_can_hold(
    hasty_scene: Scene, mode: str, target: Json
) -> None:
    scene = hasty_scene
    scene.deploy("web", SMALL, replicas=3)
    scene.autoscale(target, mode=mode)
    scene.wait_for_holds("RecommendationSuspicious", 3)

    pods = scene.watch_uids(3)
    assert requests(pods) == [[SMALL]] * 3
    if target is ABSURD:
        said = explain(scene)
        assert "RecommendationSuspicious" in said, said
    # The recommender comes to its senses.
    scene.recommend(TARGET)
    scene.wait_for_pods(lambda pods: [TARGET] in requests(pods))


MISTAKES: dict[str, Json] = {
    "a forgotten unit": {**TARGET, "memory": "500"},
    "nothing": {"cpu": "0", "memory": "0"},
    "bytes for cores": {**TARGET, "cpu": "100M"},
}


@pytest.mark.parametrize("target", MISTAKES.values(), ids=MISTAKES)
def test_no_new_pod_gets_an_amount_that_no_container_can_have(scene: Scene, target: Json) -> None:
    scene.autoscale(target)
    scene.create(a_template(SMALL))

    pods = scene.wait_for_pods(lambda pods: len(pods) == 2)
    is_mistaken = {name: target[name] != TARGET[name] for name in TARGET}
    sane = {name: SMALL[name] if wrong else TARGET[name] for name, wrong in is_mistaken.items()}
    assert [spec_requests(pod) for pod in pods] == [sane] * 2
    said = [pod["metadata"]["annotations"]["vpaUpdates"] for pod in pods]
    words = [f"{name} NOT updated since" for name, wrong in is_mistaken.items() if wrong]
    assert all(each in text for each in words for text in said), said
