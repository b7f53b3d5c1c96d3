"""Startup boosts from admission to their end, on real servers."""

import json
from functools import partial

import pytest
from smoke.scene import (
    MARK,
    Scene,
    describe_pods,
    is_marked,
    millicores,
    spec_requests,
    uids_of,
)
from support.stages.components import Json
from support.stages.updater import HIGHER, a_template, requests

from rig import stages

pytestmark = pytest.mark.smoke

USUAL = {"cpu": "100m", "memory": "100Mi"}
BOOST: Json = {"cpu": {"type": "Factor", "factor": 3, "duration": "8s"}}
LASTING: Json = {"cpu": {**BOOST["cpu"], "duration": "1h"}}
MODES = {"auto": "Auto", "recreate": "Recreate", "either": "InPlaceOrRecreate"}
WORDS = {each.annotation: (each.reason, each.message) for each in stages.OUTCOMES}


def resize_reasons(pod: Json) -> set[str]:
    """Return the reasons that the kubelet gives for a resize that has not succeeded."""
    told = pod["status"].get("conditions", [])
    return {each.get("reason", "") for each in told if each["type"].startswith("PodResize")}


def test_a_boost_ends_in_place_after_its_duration(scene: Scene) -> None:
    scene.autoscale(USUAL, mode="Auto", startupBoost=BOOST)
    scene.create(a_template(USUAL))
    boosted = scene.wait_until_observed(2)
    assert [(millicores(pod), is_marked(pod)) for pod in boosted] == [(300, True)] * 2
    after = scene.wait_for_pods(
        lambda pods: requests(pods) == [[USUAL]] * 2 and not any(map(is_marked, pods))
    )

    assert uids_of(after) == uids_of(boosted)


@pytest.mark.parametrize("outcome", ["infeasible", "deferred", "error"])
def test_a_refused_end_of_a_boost_evicts_no_pod(hasty_scene: Scene, outcome: str) -> None:
    scene, (reason, words) = hasty_scene, WORDS[outcome]
    for name, mode in MODES.items():
        scene.autoscale(USUAL, name=name, mode=mode, startupBoost=BOOST)
    for name in MODES:
        template = a_template(USUAL, annotations={stages.ANNOTATION: outcome})
        scene.create(template, name=name, replicas=3)
    for name in MODES:
        pods = scene.wait_until_observed(3, name)
        assert {(millicores(pod), is_marked(pod)) for pod in pods} == {(300, True)}

    # The boosts are over after eight seconds, and each end is refused.
    pods = scene.watch_uids(45, *MODES)
    assert all(reason in resize_reasons(pod) for pod in pods), describe_pods(pods)
    assert all(map(is_marked, pods)), "the mark went before the kubelet had given the CPU back"
    scene.wait_for_words(scene.event_messages, reason, words)
    for name in MODES:
        scene.wait_for_words(partial(scene.condition_messages, name), reason, words)

    before = uids_of(pods)
    for pod in pods:
        scene.annotate(pod["metadata"]["name"], {stages.ANNOTATION: None})
    for name in MODES:
        scene.wait_for_pods(
            lambda pods: requests(pods) == [[USUAL]] * 3 and not any(map(is_marked, pods)), name
        )
    assert {uid for name in MODES for uid in scene.uids(name)} == before


def test_with_the_gate_off_no_boost_ends_and_no_pod_is_evicted(gateless_scene: Scene) -> None:
    scene = gateless_scene
    for name, mode in MODES.items():
        scene.autoscale(USUAL, name=name, mode=mode, startupBoost=BOOST)
    for name in MODES:
        scene.create(a_template(USUAL), name=name, replicas=3)
    for name in MODES:
        scene.wait_until_observed(3, name)

    pods = scene.watch_uids(40, *MODES)
    assert {(millicores(pod), is_marked(pod)) for pod in pods} == {(300, True)}


def test_the_end_of_a_boost_leaves_memory_alone_in_mode_initial(hasty_scene: Scene) -> None:
    scene = hasty_scene
    large = {"cpu": "100m", "memory": "300Mi"}
    scene.autoscale(large, mode="Initial", startupBoost=BOOST)
    scene.create(a_template(USUAL))
    boosted = scene.wait_until_observed(2)
    scene.recommend({"cpu": "100m", "memory": "200Mi"})
    scene.wait_for_pods(lambda pods: not any(map(is_marked, pods)))
    after = scene.watch(5, lambda pods: requests(pods) == [[large]] * 2)

    assert uids_of(after) == uids_of(boosted)


def test_the_end_of_a_boost_shrinks_no_container_that_requirements_protect(
    hasty_scene: Scene,
) -> None:
    scene = hasty_scene
    sidecar = {"cpu": "200m", "memory": "200Mi"}
    policy = {"containerPolicies": [{"containerName": "c0", "startupBoost": BOOST}]}
    scene.autoscale(
        USUAL, sidecar, mode="InPlaceOrRecreate", requirements=[HIGHER], resourcePolicy=policy
    )
    scene.create(a_template(USUAL, sidecar))
    boosted = scene.wait_until_observed(2)
    assert [set(pod["metadata"]["annotations"]) & {MARK} for pod in boosted] == [{MARK}] * 2
    scene.recommend(USUAL, USUAL)
    scene.wait_for_pods(lambda pods: not any(map(is_marked, pods)))
    after = scene.watch(10, lambda pods: requests(pods) == [[USUAL, sidecar]] * 2)

    assert uids_of(after) == uids_of(boosted)


@pytest.mark.parametrize("mode", ["Initial", "UpscaleOnly"])
def test_a_boost_that_was_cut_ends_at_what_the_pod_would_have_had(scene: Scene, mode: str) -> None:
    scene.limit({"type": "Container", "max": {"cpu": "1"}})
    scene.autoscale({"cpu": "600m", "memory": "100Mi"}, mode=mode, startupBoost=BOOST)
    scene.create(a_template({"cpu": "500m", "memory": "100Mi"}, limits={"cpu": "500m"}))
    boosted = scene.wait_until_observed(2)
    assert [(millicores(pod), is_marked(pod)) for pod in boosted] == [(1000, True)] * 2
    scene.recommend(USUAL)
    after = scene.wait_for_pods(lambda pods: not any(map(is_marked, pods)))

    assert [millicores(pod) for pod in after] == [600] * 2
    assert uids_of(after) == uids_of(boosted)


@pytest.mark.parametrize("mode", ["Off", "Auto"])
def test_a_limit_range_made_meanwhile_keeps_no_boost_for_ever(scene: Scene, mode: str) -> None:
    scene.autoscale(USUAL, mode=mode, startupBoost=BOOST)
    scene.create(a_template(USUAL))
    boosted = scene.wait_until_observed(2)
    assert [(millicores(pod), is_marked(pod)) for pod in boosted] == [(300, True)] * 2
    scene.limit({"type": "Container", "min": {"cpu": "200m"}})
    after = scene.wait_for_pods(lambda pods: not any(map(is_marked, pods)))

    assert [millicores(pod) for pod in after] == [200] * 2
    assert uids_of(after) == uids_of(boosted)


NO_BOOSTS: list[Json] = [
    {"cpu": {"type": "Factor", "factor": 1, "duration": "1h"}},
    {"cpu": {"type": "Quantity", "quantity": "0", "duration": "1h"}},
]


@pytest.mark.parametrize("boost", NO_BOOSTS, ids=["factor 1", "quantity 0"])
@pytest.mark.parametrize("recommended", ["50m", "100m", "150m"])
def test_a_container_whose_boost_adds_nothing_is_not_boosted(
    scene: Scene, boost: Json, recommended: str
) -> None:
    target = {"cpu": recommended, "memory": "100Mi"}
    policy = {"containerPolicies": [{"containerName": "c0", "startupBoost": boost}]}
    scene.autoscale(target, mode="Auto", startupBoost=LASTING, resourcePolicy=policy)
    scene.create(a_template(USUAL))
    pods = scene.wait_until_observed(2)

    assert [(spec_requests(pod), is_marked(pod)) for pod in pods] == [(target, False)] * 2


@pytest.mark.parametrize("governed", [False, True], ids=["no autoscaler", "upscale only"])
def test_the_mark_of_a_template_shrinks_no_pod(scene: Scene, *, governed: bool) -> None:
    if governed:
        policy = {"containerPolicies": [{"containerName": "*", "controlledResources": ["memory"]}]}
        scene.autoscale(USUAL, mode="UpscaleOnly", resourcePolicy=policy)
    marks = {MARK: json.dumps({"requests": {"cpu": "10m"}, "limits": {}})}
    told = {"vpaUpdates": "Pod resources updated by web: container 0: cpu request"}
    template = a_template({"cpu": "1", "memory": "100Mi"}, annotations=marks | told)
    scene.create(template)

    scene.wait_for_pods(lambda pods: len(pods) == 2 and not any(map(is_marked, pods)))
    scene.watch(15, lambda pods: all(millicores(pod) == 1000 for pod in pods))


def test_a_single_pod_whose_boost_would_end_with_a_restart_is_not_boosted(scene: Scene) -> None:
    scene.autoscale(USUAL, mode="InPlaceOrRecreate", startupBoost=BOOST)
    template = a_template(USUAL)
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    template["spec"]["containers"][0]["resizePolicy"] = policy
    scene.create(template, replicas=1)

    (pod,) = scene.wait_until_observed(1)
    assert (millicores(pod), is_marked(pod)) == (100, False)
    assert (
        "boost left out since its end would restart" in pod["metadata"]["annotations"]["vpaUpdates"]
    )


def test_a_pod_of_windows_is_not_boosted(scene: Scene) -> None:
    scene.autoscale(USUAL, mode="InPlaceOrRecreate", startupBoost=BOOST)
    template = a_template(USUAL)
    template["spec"]["os"] = {"name": "windows"}
    scene.create(template)

    pods = scene.wait_until_observed(2)
    assert [(millicores(pod), is_marked(pod)) for pod in pods] == [(100, False)] * 2
    assert "Windows pods cannot be resized" in pods[0]["metadata"]["annotations"]["vpaUpdates"]


def test_a_pod_whose_mark_comes_back_still_follows_its_recommendation(scene: Scene) -> None:
    scene.autoscale(USUAL, mode="InPlaceOrRecreate", startupBoost=BOOST)
    scene.create(a_template(USUAL), replicas=1)
    (boosted,) = scene.wait_until_observed(1)
    scene.wait_for_pods(lambda pods: pods and not any(map(is_marked, pods)))
    name, marks = boosted["metadata"]["name"], boosted["metadata"]["annotations"]
    scene.watch(3, lambda pods: not any(map(is_marked, pods)))
    scene.annotate(name, {MARK: marks[MARK]})
    scene.recommend({"cpu": "500m", "memory": "100Mi"})

    after = scene.wait_for_pods(
        lambda pods: [millicores(pod) for pod in pods] == [500] and not any(map(is_marked, pods))
    )
    assert uids_of(after) == uids_of([boosted])
