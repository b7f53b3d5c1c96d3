"""StatefulSets and DaemonSets: no eviction without a way back, or into another template."""

import pytest
from smoke.scene import Scene, is_ready, uids_of
from smoke.test_nodes import add_node, create_daemon_set
from support.stages.components import Json
from support.stages.updater import LARGE, SMALL, a_template, requests

from rig import stages

pytestmark = pytest.mark.smoke

VERSION = "example.com/version"


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


def create_staged(scene: Scene, kind: str, strategy: Json) -> None:
    """Create a workload of three pods, and change its template."""
    template = a_template(SMALL)
    labels = template["metadata"]["labels"] = {"app": "web"}
    spec: Json = {"selector": {"matchLabels": labels}, "template": template}
    spec["updateStrategy"] = strategy
    if kind == "StatefulSet":
        spec["replicas"] = 3
    else:
        for suffix in ("-a", "-b", "-c"):
            template["spec"] |= add_node(scene, suffix)
    resource = f"{kind.lower()}s"
    manifest = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"}}
    scene.create_object(resource, {**manifest, "spec": spec})
    scene.wait_until_running(3)
    staged = {"template": {"metadata": {"annotations": {VERSION: "2"}}}}
    scene.patch(f"{scene.path(resource)}/web", {"spec": staged})
    scene.let_watches_catch_up()


def versions(pods: list[Json]) -> set[str | None]:
    """Return the versions of the template that pods are of."""
    return {pod["metadata"].get("annotations", {}).get(VERSION) for pod in pods}


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_no_eviction_rolls_out_a_template_that_waits_for_deletions(
    hasty_scene: Scene, kind: str
) -> None:
    scene = hasty_scene
    create_staged(scene, kind, {"type": "OnDelete"})
    scene.autoscale(LARGE, targetRef={"apiVersion": "apps/v1", "kind": kind, "name": "web"})
    scene.wait_for_words(scene.condition_messages, "RevisionStaged")

    for pod in scene.watch_uids(15):
        # A person rolls it out.
        scene.kill(pod)
        scene.wait_until_running(3)
    pods = scene.wait_for_pods(lambda pods: requests(pods) == [[LARGE]] * 3)
    assert versions(pods) == {"2"}
    scene.recommend(SMALL)
    pods = scene.wait_for_pods(lambda pods: requests(pods) == [[SMALL]] * 3)
    assert versions(pods) == {"2"}


def test_evicted_pods_below_a_partition_come_back_as_they_were(hasty_scene: Scene) -> None:
    scene = hasty_scene
    create_staged(
        scene, "StatefulSet", {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}
    )
    scene.autoscale(LARGE, kind="StatefulSet")

    pods = scene.wait_for_pods(lambda pods: requests(pods) == [[LARGE]] * 3)
    assert versions(pods) == {None}


def count_broken(pods: list[Json]) -> int:
    """Return the number of pods of a template with which none gets ready."""
    return sum(stages.READINESS in pod["metadata"].get("annotations", {}) for pod in pods)


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_no_eviction_goes_on_with_a_rollout_that_is_stuck(hasty_scene: Scene, kind: str) -> None:
    scene = hasty_scene
    create_six(scene, kind)
    broken = {"metadata": {"annotations": {stages.READINESS: stages.NEVER}}}
    scene.patch(f"{scene.path(kind.lower() + 's')}/web", {"spec": {"template": broken}})
    # The owner waits for its first pod, and leaves the others as they are.
    scene.wait_for_pods(
        lambda pods: count_broken(pods) == 1 and [len(pods), sum(map(is_ready, pods))] == [6, 5]
    )
    scene.autoscale(LARGE, targetRef={"apiVersion": "apps/v1", "kind": kind, "name": "web"})

    pods = scene.watch(20, lambda pods: count_broken(pods) <= 1)
    scene.wait_for_words(scene.condition_messages, "RevisionStaged")
    # What is down anyway gets its size.
    assert requests([pod for pod in pods if count_broken([pod])]) == [[LARGE]]


def create_six(scene: Scene, kind: str) -> None:
    """Create a workload of six pods."""
    if kind == "StatefulSet":
        scene.create(a_template(SMALL), kind=kind, replicas=6)
    else:
        places = [add_node(scene, f"-{letter}") for letter in "abcdef"]
        create_daemon_set(scene, places[0], SMALL, "web")
    scene.wait_until_running(6)
