"""Shrinks that the kubelet puts off: none comes late, when its autoscaler does not want it."""

import pytest
from smoke.scene import Scene, spec_requests, uids_of
from support.stages.components import Json
from support.stages.updater import LARGE, SMALL, requests

from rig import stages

pytestmark = pytest.mark.smoke

DEFERRED = {stages.ANNOTATION: "deferred"}
FAILING = {stages.ANNOTATION: "error"}


def asked(pods: list[Json]) -> list[Json]:
    """Return what the specs of the pods' first containers ask for."""
    return [spec_requests(pod) for pod in pods]


@pytest.mark.parametrize("cause", ["mode", "recommendation"])
def test_a_deferred_shrink_is_taken_back_when_it_is_not_wanted_any_more(
    scene: Scene, cause: str
) -> None:
    uids = scene.deploy("web", LARGE, annotations=DEFERRED)
    scene.autoscale(SMALL, mode="InPlaceOrRecreate")
    scene.wait_for_pods(lambda pods: asked(pods) == [SMALL] * 2)
    if cause == "mode":
        scene.edit({"updateMode": "UpscaleOnly"})
    else:
        scene.recommend(LARGE)
    pods = scene.wait_for_pods(lambda pods: asked(pods) == [LARGE] * 2)

    # The kubelet finds room, and does what the spec says.
    for pod in pods:
        scene.annotate(pod["metadata"]["name"], {stages.ANNOTATION: None})
    after = scene.watch(10, lambda pods: requests(pods) == [[LARGE]] * 2)
    assert uids_of(after) == set(uids)


def test_a_persons_shrink_of_a_pod_that_was_resized_before_is_left_alone(scene: Scene) -> None:
    scene.deploy("web", SMALL)
    scene.autoscale(LARGE, mode="UpscaleOnly")
    pods = scene.wait_for_pods(lambda pods: requests(pods) == [[LARGE]] * 2)
    between = {**LARGE, "cpu": "300m"}
    scene.recommend(SMALL)
    for pod in pods:
        name, container = pod["metadata"]["name"], pod["spec"]["containers"][0]
        scene.annotate(name, DEFERRED)
        resized = {**container, "resources": {"requests": between}}
        path = f"{scene.path('pods', 'v1')}/{name}/resize"
        scene.patch(path, {"spec": {"containers": [resized]}})

    scene.watch(20, lambda pods: asked(pods) == [between] * 2)


def test_the_only_ready_pod_is_not_evicted_to_shrink(hasty_scene: Scene) -> None:
    scene = hasty_scene
    scene.deploy("web", LARGE)
    only, other = scene.pods()
    scene.play_unreadiness(other)
    scene.annotate(
        other["metadata"]["name"], {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    )
    scene.let_watches_catch_up()
    scene.autoscale(SMALL, mode="Recreate")
    scene.wait_for_words(scene.condition_messages, "BudgetSpent")

    pods = scene.watch(15, lambda pods: uids_of(pods) == uids_of([only, other]))
    # The other one serves again, and the updater goes on.
    scene.play_recovery(next(pod for pod in pods if uids_of([pod]) == uids_of([other])))
    scene.wait_for_pods(lambda pods: not uids_of([only]) <= uids_of(pods))


@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate", "UpscaleOnly"])
def test_requests_stay_below_a_limit_that_the_kubelet_fails_to_lower(
    scene: Scene, mode: str
) -> None:
    scene.deploy("web", SMALL, limits={"memory": "900Mi"}, annotations=FAILING)
    for pod in scene.pods():
        name, container = pod["metadata"]["name"], pod["spec"]["containers"][0]
        resized = {**container, "resources": {"requests": SMALL, "limits": {"memory": "250Mi"}}}
        path = f"{scene.path('pods', 'v1')}/{name}/resize"
        scene.patch(path, {"spec": {"containers": [resized]}})
    before = scene.wait_for_pods(lambda pods: all(map(_fails_to_resize, pods)))
    only_requests = {"containerName": "*", "controlledValues": "RequestsOnly"}
    scene.autoscale(
        {**SMALL, "memory": "600Mi"},
        mode=mode,
        resourcePolicy={"containerPolicies": [only_requests]},
    )

    # The API server refuses requests above the limit that the spec asks for.
    grown = {**SMALL, "memory": "250Mi"}
    scene.wait_for_pods(lambda pods: asked(pods) == [grown] * 2)
    after = scene.watch(10, lambda pods: asked(pods) == [grown] * 2)
    assert uids_of(after) == uids_of(before)


def _fails_to_resize(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(each.get("reason") == "Error" for each in conditions)
