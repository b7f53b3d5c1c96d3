"""Namespaces with quotas: pods that fit as they are come up, and running workloads stay whole."""

import pytest
from smoke.scene import Scene, describe_pods, is_ready, millicores, spec_requests
from smoke.test_limits import LASTING
from support.stages.components import Json
from support.stages.updater import a_template

from rig import stages

pytestmark = pytest.mark.smoke

TENTH = {"cpu": "100m", "memory": "100Mi"}
HALF = {"cpu": "500m", "memory": "100Mi"}
LARGE = {"cpu": "800m", "memory": "100Mi"}
INFEASIBLE = {stages.ANNOTATION: "infeasible"}
DEMANDS = [
    pytest.param({"limits.memory": "10Gi"}, id="limits"),
    pytest.param({"requests.memory": "10Gi"}, id="a request that is not recommended"),
]


def set_quota(scene: Scene, hard: Json, *scopes: str) -> None:
    """Create a quota that its controller has counted."""
    manifest = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}}
    spec: Json = {"hard": hard, "scopes": [*scopes]}
    scene.create_object("resourcequotas", {**manifest, "spec": spec})
    path = f"{scene.path('resourcequotas', 'v1')}/team"
    scene.plane.wait_for(path, lambda found: found.get("status", {}).get("used"))


def wait_until_ready(scene: Scene, count: int) -> list[Json]:
    return scene.wait_for_pods(lambda pods: len(pods) == count and all(map(is_ready, pods)))


def scale(scene: Scene, replicas: int) -> None:
    scene.patch(f"{scene.path('deployments')}/web", {"spec": {"replicas": replicas}})


@pytest.mark.parametrize("hard", DEMANDS)
def test_a_quota_that_demands_amounts_keeps_no_best_effort_pod_out(
    scene: Scene, hard: Json
) -> None:
    set_quota(scene, hard, "NotBestEffort")
    scene.autoscale({"cpu": "100m"}, mode="Auto")
    scene.create(a_template({}), replicas=2)
    pods = wait_until_ready(scene, 2)

    assert all(
        "would refuse the pod" in pod["metadata"]["annotations"]["vpaUpdates"] for pod in pods
    ), describe_pods(pods)


@pytest.mark.parametrize("hard", DEMANDS)
def test_no_running_pod_is_evicted_into_a_quota_that_demands_amounts(
    hasty_scene: Scene, hard: Json
) -> None:
    scene = hasty_scene
    set_quota(scene, hard, "NotBestEffort")
    scene.create(a_template({}), replicas=4)
    wait_until_ready(scene, 4)
    scene.autoscale({"cpu": "100m"})

    scene.watch_uids(20)
    scene.wait_for_words(scene.condition_messages, "QuotaExceeded", "demands")


def test_a_recommendation_above_a_quota_keeps_no_pod_out(scene: Scene) -> None:
    set_quota(scene, {"requests.cpu": "1"})
    scene.autoscale(HALF, mode="Auto")
    scene.create(a_template(TENTH), replicas=4)
    pods = wait_until_ready(scene, 4)

    # There is room for one of them in the recommended size beside the others in their own.
    assert sum(map(millicores, pods)) <= 1000, describe_pods(pods)


def test_no_running_workload_shrinks_for_a_recommendation_above_its_quota(
    hasty_scene: Scene,
) -> None:
    scene = hasty_scene
    set_quota(scene, {"requests.cpu": "700m"})
    scene.create(a_template(TENTH), replicas=4)
    wait_until_ready(scene, 4)
    scene.autoscale(HALF)

    scene.watch_uids(20)
    scene.wait_for_words(scene.condition_messages, "QuotaExceeded", "500m")


def test_growth_in_place_into_a_full_quota_is_not_asked_for(hasty_scene: Scene) -> None:
    scene = hasty_scene
    set_quota(scene, {"requests.cpu": "250m"})
    scene.create(a_template(TENTH), replicas=2)
    wait_until_ready(scene, 2)
    scene.autoscale(HALF, mode="InPlaceOrRecreate")

    scene.watch_uids(15)
    log = scene.components.runs["updater-hasty"].process.log.read_text(encoding="utf-8")
    failed = [
        line for line in log.splitlines() if "act failed" in line and f"{scene.namespace}/" in line
    ]
    assert failed == []
    scene.wait_for_words(scene.condition_messages, "QuotaExceeded", "400m")


def fill_quota(scene: Scene, kind: str, annotations: Json) -> None:
    """Let two pods have five times the CPU of their template, and too little for their target."""
    set_quota(scene, {"requests.cpu": "1350m"})
    scene.autoscale(HALF, mode="Initial", kind=kind)
    scene.create(a_template(TENTH, annotations=annotations), kind=kind)
    pods = wait_until_ready(scene, 2)
    assert all(millicores(pod) == 500 for pod in pods), describe_pods(pods)
    scene.recommend(LARGE)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_no_pod_is_evicted_that_would_come_back_in_the_size_of_its_template(
    hasty_scene: Scene, kind: str
) -> None:
    scene = hasty_scene
    fill_quota(scene, kind, {})
    scene.edit({"updateMode": "Recreate"})

    scene.watch_uids(30)
    scene.wait_for_words(scene.condition_messages, "QuotaExceeded", "800m")


def test_no_pod_shrinks_where_the_node_refuses_its_growth(hasty_scene: Scene) -> None:
    scene = hasty_scene
    fill_quota(scene, "Deployment", INFEASIBLE)
    scene.edit({"updateMode": "UpscaleOnly"})

    # A resize that the node refused still counts in the quota, which then leaves no room for the
    # template either: such a pod may be evicted, for its successor waits for room.
    scene.watch(30, lambda pods: all(millicores(pod) >= 500 for pod in pods))
    wait_until_ready(scene, 2)


def test_a_pod_that_came_back_in_the_size_of_its_template_grows_in_place(
    hasty_scene: Scene,
) -> None:
    scene = hasty_scene
    fill_quota(scene, "Deployment", {})
    gone = scene.pods()[0]["metadata"]["name"]
    status, body = scene.plane.request("DELETE", f"{scene.path('pods', 'v1')}/{gone}")
    assert status == 200, body
    # Beside the pod that is going there is room for the size of the template alone. Its sibling
    # would take the room first, if it could grow before the new pod is there.
    scene.wait_for_pods(
        lambda pods: len(pods) == 2 and all(pod["metadata"]["name"] != gone for pod in pods)
    )
    scene.edit({"updateMode": "InPlaceOrRecreate"})

    scene.wait_for_pods(
        lambda pods: sorted(map(millicores, pods)) == [500, 800] and all(map(is_ready, pods))
    )


def test_boosts_of_older_pods_make_room_for_new_ones(scene: Scene) -> None:
    set_quota(scene, {"requests.cpu": "1500m"})
    scene.autoscale(TENTH, mode="Auto", startupBoost=LASTING)
    scene.create(a_template(TENTH), replicas=3)
    wait_until_ready(scene, 3)
    for replicas in (6, 9):
        scale(scene, replicas)
        wait_until_ready(scene, replicas)


MORE_MEMORY = {"cpu": "500m", "memory": "500Mi"}


def memory_of(pod: Json) -> str:
    """Return the memory that the pod asks for."""
    return str(spec_requests(pod)["memory"])


def test_a_quota_short_of_cpu_takes_no_memory_from_new_pods(scene: Scene) -> None:
    set_quota(scene, {"requests.cpu": "350m"})
    scene.autoscale(MORE_MEMORY, mode="Initial")
    scene.create(a_template(TENTH), replicas=2)
    pods = wait_until_ready(scene, 2)

    assert {(millicores(pod), memory_of(pod)) for pod in pods} == {(100, "500Mi")}, describe_pods(
        pods
    )
    said = [pod["metadata"]["annotations"]["vpaUpdates"] for pod in pods]
    assert all("cpu NOT updated" in each and "memory request" in each for each in said)
    assert not any("memory NOT updated" in each for each in said)


def test_pods_are_evicted_once_for_memory_where_a_quota_is_short_of_cpu(
    hasty_scene: Scene,
) -> None:
    scene = hasty_scene
    set_quota(scene, {"requests.cpu": "550m"})
    scene.create(a_template(TENTH), replicas=2)
    wait_until_ready(scene, 2)
    scene.autoscale(MORE_MEMORY)

    scene.wait_for_pods(
        lambda pods: (
            len(pods) == 2
            and all(map(is_ready, pods))
            and {(millicores(pod), memory_of(pod)) for pod in pods} == {(100, "500Mi")}
        )
    )
    scene.watch_uids(15)
    scene.wait_for_words(scene.condition_messages, "QuotaExceeded", "500m")
