"""Boosts in namespaces with limits: pods come up, and running workloads stay whole."""

import time

import pytest
from smoke.scene import Scene, describe_pods, is_ready, millicores, spec_requests
from support.stages.components import Json
from support.stages.updater import a_template

pytestmark = pytest.mark.smoke

HALF = {"cpu": "500m", "memory": "100Mi"}
BOOST: Json = {"cpu": {"type": "Factor", "factor": 3, "duration": "5s"}}
LASTING: Json = {"cpu": {**BOOST["cpu"], "duration": "1h"}}
CONTAINER: Json = {"type": "Container", "max": {"cpu": "1"}}
POD: Json = {"type": "Pod", "max": {"cpu": "1"}}


WIDE = ({"cpu": "400m", "memory": "50Mi"}, {"cpu": "700m", "memory": "700Mi"})
"""Bounds around half a core."""


@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate"])
@pytest.mark.parametrize("kind", ["Container", "Pod"])
def test_a_limit_range_that_comes_later_takes_nothing_from_running_pods(
    hasty_scene: Scene, kind: str, mode: str
) -> None:
    scene = hasty_scene
    scene.deploy("web", HALF, replicas=3, limits=HALF)
    scene.autoscale(HALF, mode="Off")
    scene.recommend(HALF, lower=WIDE[0], upper=WIDE[1])
    scene.edit({"updateMode": mode})
    scene.limit({"type": kind, "max": {"cpu": "300m"}})

    pods = scene.watch_uids(15)
    assert [millicores(pod) for pod in pods] == [500] * 3, describe_pods(pods)
    # Nor are they evicted for more memory, to come back with too little CPU.
    scene.recommend(
        {**HALF, "memory": "200Mi"}, lower={**WIDE[0], "memory": "150Mi"}, upper=WIDE[1]
    )
    reason = "LimitRangeRefuses" if mode == "Recreate" else "ResizeDenied"
    scene.wait_for_words(scene.condition_messages, reason)
    pods = scene.watch_uids(10)
    assert [millicores(pod) for pod in pods] == [500] * 3, describe_pods(pods)


@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate"])
def test_a_limit_range_takes_nothing_from_pods_that_got_over_an_oom_kill(
    hasty_scene: Scene, mode: str
) -> None:
    scene = hasty_scene
    scene.deploy("web", HALF, replicas=3, limits=HALF)
    scene.autoscale(HALF, mode="Off")
    scene.limit({"type": "Container", "max": {"cpu": "300m"}})
    for pod in scene.pods():
        scene.play_crash_loop(pod)
    for pod in scene.pods():
        scene.play_recovery(pod)
    scene.recommend({**HALF, "memory": "105Mi"}, lower=WIDE[0], upper=WIDE[1])
    scene.let_watches_catch_up()
    scene.edit({"updateMode": mode})

    reason = "LimitRangeRefuses" if mode == "Recreate" else "ResizeDenied"
    scene.wait_for_words(scene.condition_messages, reason)
    pods = scene.watch_uids(10)
    assert [millicores(pod) for pod in pods] == [500] * 3, describe_pods(pods)


def test_no_container_pays_for_the_growth_of_another(hasty_scene: Scene) -> None:
    scene = hasty_scene
    few, many = {"cpu": "100m", "memory": "100Mi"}, {"cpu": "100m", "memory": "1000Mi"}
    template = a_template(few, many)
    for each in template["spec"]["containers"]:
        each["resources"]["limits"] = each["resources"]["requests"]
    scene.start(template, replicas=3)
    scene.limit({"type": "Container", "max": {"memory": "600Mi"}})
    scene.let_watches_catch_up()
    scene.autoscale({**few, "memory": "600Mi"}, many)

    scene.wait_for_words(scene.condition_messages, "LimitRangeRefuses")
    scene.watch_uids(10)


def set_quota(scene: Scene, cpu: str) -> None:
    """Create a quota for CPU requests, that its controller has counted."""
    spec = {"hard": {"requests.cpu": cpu}}
    manifest = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}}
    scene.create_object("resourcequotas", {**manifest, "spec": spec})
    path = f"{scene.path('resourcequotas', 'v1')}/team"
    scene.plane.wait_for(path, lambda found: found.get("status", {}).get("used"))


@pytest.mark.parametrize("limit", [CONTAINER, POD], ids=["container", "pod"])
@pytest.mark.parametrize("mode", ["Off", "Auto"])
def test_a_boost_beyond_a_limit_range_keeps_no_pod_from_being_created(
    scene: Scene, limit: Json, mode: str
) -> None:
    scene.limit(limit)
    scene.autoscale(HALF, mode=mode, startupBoost=LASTING)
    scene.create(a_template(HALF, limits={"cpu": "500m"}), replicas=3)
    pods = scene.wait_until_observed(3)

    assert all(500 <= millicores(pod) <= 1000 for pod in pods), describe_pods(pods)


def test_a_boost_beyond_a_quota_keeps_no_pod_from_being_created(scene: Scene) -> None:
    set_quota(scene, "2500m")
    scene.autoscale(HALF, mode="Auto", startupBoost=BOOST)
    scene.create(a_template(HALF), replicas=4)

    scene.wait_for_pods(lambda pods: len(pods) == 4 and all(map(is_ready, pods)))


@pytest.mark.parametrize("bound", ["limit range", "quota"])
def test_no_running_workload_loses_pods_whose_successors_would_be_refused(
    hasty_scene: Scene, bound: str
) -> None:
    scene = hasty_scene
    if bound == "quota":
        set_quota(scene, "2500m")
    else:
        scene.limit(CONTAINER)
    scene.create(a_template(HALF, limits={"cpu": "500m"}), replicas=4)
    scene.wait_for_pods(lambda pods: len(pods) == 4 and all(map(is_ready, pods)))
    scene.autoscale({"cpu": "500m", "memory": "200Mi"}, startupBoost=LASTING)

    # Half of the pods may be on their way from one size to the other at a moment.
    whole_at = time.monotonic()

    def is_whole(pods: list[Json]) -> bool:
        nonlocal whole_at
        count = sum(map(is_ready, pods))
        if count >= 4:
            whole_at = time.monotonic()
        return count >= 2 and time.monotonic() - whole_at < 15

    scene.watch(45, is_whole)
    scene.wait_for_pods(lambda pods: sum(map(is_ready, pods)) == 4, patience_seconds=15)


@pytest.mark.parametrize("bound", ["limit of the container", "limit range", "limit of the pod"])
def test_limits_of_no_whole_number_of_bytes_are_not_passed(scene: Scene, bound: str) -> None:
    template = a_template(HALF, limits={"memory": "1.2Gi"})
    if bound == "limit range":
        scene.limit({"type": "Container", "max": {"memory": "1.2Gi"}})
    if bound == "limit of the pod":
        template["spec"]["resources"] = {"limits": {"memory": "1.2Gi"}}
        template["spec"]["resources"] |= {"requests": {"memory": "1.2Gi"}}
        template["spec"]["containers"][0]["resources"]["limits"] = {"memory": "100Mi"}
    values = "RequestsOnly" if bound == "limit of the container" else "RequestsAndLimits"
    policy = {"containerName": "*", "controlledValues": values, "maxAllowed": {"memory": "2Gi"}}
    size = {"cpu": "500m", "memory": "1288490189" if bound == "limit of the pod" else "4Gi"}
    scene.autoscale(size, resourcePolicy={"containerPolicies": [policy]})
    scene.create(template)

    # A pod that is refused again and again comes with less after a while.
    pods = scene.wait_for_pods(lambda pods: len(pods) == 2, patience_seconds=20)
    if bound == "limit of the container":
        assert {spec_requests(pod)["memory"] for pod in pods} == {"1288490188"}, pods
    if bound == "limit range":
        limits = {pod["spec"]["containers"][0]["resources"]["limits"]["memory"] for pod in pods}
        assert all(1288490000 < int(each) <= 1288490188 for each in limits), limits


def test_a_pod_whose_annotations_leave_no_room_is_created(scene: Scene) -> None:
    template = a_template(HALF)
    template["metadata"]["annotations"] = {"note": "x" * (256 * 1024 - 4)}
    scene.autoscale({"cpu": "700m", "memory": "200Mi"})
    scene.create(template)

    pods = scene.wait_for_pods(lambda pods: len(pods) == 2, patience_seconds=20)
    assert [millicores(pod) for pod in pods] == [500] * 2


@pytest.mark.parametrize("kind", ["Container", "Pod"])
def test_a_limit_range_takes_nothing_from_requests_that_no_limit_follows(
    scene: Scene, kind: str
) -> None:
    few = {"cpu": "5m", "memory": "100Mi"}
    scene.limit({"type": kind, "max": {"cpu": "3"}})
    policy = {"containerName": "*", "controlledValues": "RequestsOnly"}
    scene.autoscale(
        {"cpu": "700m", "memory": "100Mi"}, resourcePolicy={"containerPolicies": [policy]}
    )
    scene.create(a_template(few, limits={"cpu": "2"}))

    pods = scene.wait_for_pods(lambda pods: len(pods) == 2)
    assert [millicores(pod) for pod in pods] == [700] * 2, describe_pods(pods)


RATIO: Json = {
    "type": "Container",
    "default": {"cpu": "333m"},
    "defaultRequest": {"cpu": "70m"},
    "maxLimitRequestRatio": {"cpu": "1"},
}


def test_no_pod_is_evicted_whose_successor_is_refused_for_its_defaults(hasty_scene: Scene) -> None:
    scene, memory = hasty_scene, {"memory": "100Mi"}
    policy = {"containerName": "*", "controlledResources": ["memory"]}
    scene.start(a_template(memory), replicas=3)
    scene.limit(RATIO)
    scene.let_watches_catch_up()
    resources = {"containerPolicies": [policy]}
    scene.autoscale({"memory": "200Mi"}, mode="Recreate", resourcePolicy=resources)
    scene.wait_for_words(scene.condition_messages, "LimitRangeRefuses")

    scene.watch_uids(10)
