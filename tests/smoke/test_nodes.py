"""Nodes that are nearly full: what a pod asks for can be had there."""

import time

import pytest
from smoke.scene import Scene, is_marked, is_ready, millicores, uids_of
from smoke.test_limits import LASTING
from support.stages.components import Json
from support.stages.updater import a_template, requests

from rig import fake_node, stages

pytestmark = pytest.mark.smoke

SIZE = {"cpu": "4", "memory": "8Gi", "pods": "100"}
ONE = {"cpu": "1", "memory": "1Gi"}


def add_node(scene: Scene, suffix: str = "", cpu: str = "4", **extra: str) -> Json:
    """Create a node for this test alone, of four cores; return what leads pods there."""
    name, size = f"{scene.namespace}{suffix}", {**SIZE, "cpu": cpu, **extra}
    manifest = fake_node.manifest(name, size, only_for=scene.namespace)
    scene.plane.create("/api/v1/nodes", manifest)
    scene.plane.wait_for(
        f"/api/v1/nodes/{name}", lambda node: fake_node.is_schedulable(node, is_freed=True)
    )
    return fake_node.demands(scene.namespace)


def a_template_for(place: Json, size: Json) -> Json:
    """Return the template of pods of that size for a node."""
    template = a_template(size)
    template["spec"] |= place
    return template


def add_daemon(scene: Scene, place: Json, name: str = "daemon", count: int = 1) -> None:
    """Let a DaemonSet take half a core of each of so many nodes."""
    create_daemon_set(scene, place, {"cpu": "500m", "memory": "1Gi"}, name)
    scene.wait_until_running(count, name)


def create_daemon_set(scene: Scene, place: Json, size: Json, name: str = "daemon") -> None:
    """Create a DaemonSet of pods of that size."""
    template = a_template_for(place, size)
    labels = template["metadata"]["labels"] = {"app": name}
    scene.create_object(
        "daemonsets",
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        },
    )


def test_a_pod_capped_to_the_largest_node_fits_beside_its_daemon_pods(scene: Scene) -> None:
    place = add_node(scene)
    add_daemon(scene, place)
    scene.create(a_template_for(place, ONE), replicas=1)
    before = uids_of(scene.wait_until_running(1))
    scene.autoscale({"cpu": "99", "memory": "1Gi"}, mode="Recreate")
    scene.edit({"minReplicas": 1})
    (after,) = scene.wait_for_pods(
        lambda pods: len(pods) == 1 and uids_of(pods).isdisjoint(before) and requests(pods) != [[]]
    )

    assert 1000 < millicores(after) <= 3500
    assert after["spec"]["nodeName"] == scene.namespace


def test_a_growth_beyond_what_the_own_node_has_left_is_not_asked_for(scene: Scene) -> None:
    place = add_node(scene)
    add_daemon(scene, place)
    scene.create(a_template_for(place, {"cpu": "2", "memory": "1Gi"}), name="other", replicas=1)
    scene.create(a_template_for(place, ONE), replicas=1)
    scene.wait_until_running(1, "other")
    scene.wait_until_running(1)
    scene.autoscale({"cpu": "3", "memory": "1Gi"}, mode="InPlace")
    scene.edit({"minReplicas": 1})

    pods = scene.watch_uids(20)
    assert [millicores(pod) <= 1500 for pod in pods] == [True]


@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "UpscaleOnly"])
def test_a_pod_is_not_evicted_into_a_cluster_that_is_full(hasty_scene: Scene, mode: str) -> None:
    scene, place = hasty_scene, add_node(hasty_scene)
    scene.create(a_template_for(place, ONE), replicas=1)
    scene.create(a_template_for(place, {"cpu": "3", "memory": "1Gi"}), name="beside", replicas=1)
    scene.wait_until_running(1)
    scene.wait_until_running(1, "beside")
    # Another node is large enough, and as full.
    add_node(scene, "-large", cpu="8")
    scene.create(a_template_for(place, {"cpu": "7", "memory": "1Gi"}), name="far", replicas=1)
    scene.wait_until_running(1, "far")
    scene.autoscale({"cpu": "2", "memory": "1Gi"}, mode=mode)
    scene.edit({"minReplicas": 1})
    scene.watch_uids(20)

    # There is room elsewhere, and the pod goes there.
    scene.patch(f"{scene.path('deployments')}/far", {"spec": {"replicas": 0}})
    (after,) = scene.wait_for_pods(lambda pods: requests(pods) == [[{**ONE, "cpu": "2"}]])
    assert after["spec"]["nodeName"] == f"{scene.namespace}-large"


@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "Recreate"])
def test_a_taint_on_their_own_node_takes_nothing_from_pods(hasty_scene: Scene, mode: str) -> None:
    scene, place = hasty_scene, add_node(hasty_scene)
    add_node(scene, "-large", cpu="16")
    seven = {"cpu": "7", "memory": "100Mi"}
    scene.create(a_template_for(place, seven), replicas=2)
    scene.wait_until_running(2)
    scene.autoscale(seven, mode=mode)
    lower, upper = {"cpu": "6", "memory": "90Mi"}, {"cpu": "9", "memory": "200Mi"}
    scene.recommend(seven, lower=lower, upper=upper)
    path = f"/api/v1/nodes/{scene.namespace}-large"
    taint = {"key": "maintenance", "value": "true", "effect": "NoSchedule"}
    taints = scene.read(path)["spec"].get("taints", [])
    scene.patch(path, {"spec": {"taints": [*taints, taint]}})

    assert {millicores(pod) for pod in scene.watch_uids(20)} == {7000}


def test_a_daemon_set_that_runs_nowhere_takes_nothing_from_pods(hasty_scene: Scene) -> None:
    scene, place = hasty_scene, add_node(hasty_scene, cpu="8")
    add_node(scene, "-other", cpu="8")
    three = {"cpu": "3", "memory": "100Mi"}
    scene.create(a_template_for(place, three), replicas=4)
    scene.wait_until_running(4)
    scene.autoscale(three, mode="InPlaceOrRecreate")
    lower, upper = {"cpu": "2", "memory": "90Mi"}, {"cpu": "4", "memory": "200Mi"}
    scene.recommend(three, lower=lower, upper=upper)
    create_daemon_set(scene, place, {"cpu": "7500m", "memory": "100Mi"})
    assert {millicores(pod) for pod in scene.watch_uids(20)} == {3000}

    # New pods are as large as those that run.
    path = f"{scene.path('deployments')}/web"
    scene.patch(path, {"spec": {"replicas": 3}})
    scene.wait_for_pods(lambda pods: len(pods) == 3)
    scene.patch(path, {"spec": {"replicas": 4}})
    assert {millicores(pod) for pod in scene.wait_until_running(4)} == {3000}


FAR = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {"matchLabels": {"app": "web"}},
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
    }
}
HALF = {"cpu": "500m", "memory": "1Gi"}
GPU = {"example.com/gpu": "1"}


def fill(scene: Scene, place: Json, suffix: str, cpu: str, name: str = "filler") -> None:
    """Let another pod take so much CPU of the node with that suffix."""
    template = a_template_for(place, {"cpu": cpu, "memory": "1Gi"})
    host = {"kubernetes.io/hostname": f"{scene.namespace}{suffix}"}
    template["spec"]["nodeSelector"] = {**template["spec"]["nodeSelector"], **host}
    scene.create(template, name=name, replicas=1)
    scene.wait_until_running(1, name)


def stay_where_they_are(scene: Scene, template: Json, mode: str) -> None:
    """Assert that two pods are held that cannot grow on the first node, and not on the second."""
    scene.create(template, replicas=2)
    scene.wait_until_running(2)
    scene.autoscale({"cpu": "2", "memory": "1Gi"}, mode=mode)
    scene.wait_for_words(scene.condition_messages, "ResizeInfeasible")
    pods = scene.watch(15, lambda pods: len(pods) == 2 and all(map(is_ready, pods)))
    assert len(pods) == 2


@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "UpscaleOnly"])
def test_a_pod_is_not_evicted_to_the_node_of_a_sibling_it_avoids(
    hasty_scene: Scene, mode: str
) -> None:
    place = add_node(hasty_scene, "-a")
    add_node(hasty_scene, "-b")
    fill(hasty_scene, place, "-a", "2500m")
    template = a_template_for(place, ONE)
    template["spec"]["affinity"] = FAR
    stay_where_they_are(hasty_scene, template, mode)


def test_a_pod_is_not_evicted_to_a_node_without_a_slot(hasty_scene: Scene) -> None:
    place = add_node(hasty_scene, "-a")
    add_node(hasty_scene, "-b", pods="1")
    fill(hasty_scene, place, "-a", "2500m")
    fill(hasty_scene, place, "-b", "100m", name="slot")
    stay_where_they_are(hasty_scene, a_template_for(place, HALF), "InPlaceOrRecreate")


def test_a_pod_is_not_evicted_to_a_node_without_its_device(hasty_scene: Scene) -> None:
    place = add_node(hasty_scene, "-a", **{"example.com/gpu": "2"})
    add_node(hasty_scene, "-b")
    fill(hasty_scene, place, "-a", "2500m")
    template = a_template({**HALF, **GPU}, limits=GPU)
    template["spec"] |= place
    stay_where_they_are(hasty_scene, template, "InPlaceOrRecreate")


def test_a_pod_is_not_evicted_if_its_boosted_successor_finds_no_room(
    hasty_scene: Scene,
) -> None:
    scene, place = hasty_scene, add_node(hasty_scene)
    scene.create(a_template_for(place, ONE), name="beside", replicas=1)
    scene.wait_until_running(1, "beside")
    template = a_template(ONE, annotations={stages.ANNOTATION: "infeasible"})
    template["spec"] |= place
    scene.create(template, replicas=2)
    scene.wait_until_running(2)
    boost = {"cpu": {"type": "Factor", "factor": 3, "duration": "1s"}}
    scene.autoscale({**ONE, "cpu": "1200m"}, mode="InPlaceOrRecreate", startupBoost=boost)
    scene.wait_for_words(scene.condition_messages, "ResizeInfeasible")

    scene.watch_uids(15)


def test_a_daemon_pod_is_not_evicted_from_a_node_that_would_not_take_it_back(
    hasty_scene: Scene,
) -> None:
    scene, place = hasty_scene, add_node(hasty_scene, "-a")
    add_node(scene, "-b")
    add_daemon(scene, place, name="web", count=2)
    node = f"/api/v1/nodes/{scene.namespace}-a"
    taints = scene.read(node)["spec"].get("taints", [])
    added = {"key": "foo", "value": "bar", "effect": "NoSchedule"}
    scene.patch(node, {"spec": {"taints": [*taints, added]}})
    scene.let_watches_catch_up()
    target = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "web"}
    scene.autoscale(ONE, mode="Recreate", targetRef=target)

    # The pod on the other node is replaced, and this one stays.
    scene.wait_for_pods(lambda pods: sorted(map(millicores, pods)) == [500, 1000])
    scene.wait_for_words(scene.condition_messages, "NoNodeForSuccessor")
    scene.watch_uids(10)

    # Without the taint it may go, and comes back.
    scene.patch(node, {"spec": {"taints": taints}})
    scene.wait_for_pods(lambda pods: [millicores(pod) for pod in pods] == [1000, 1000])


def test_a_boosted_pod_without_a_place_keeps_its_boost_for_a_minute(scene: Scene) -> None:
    place = add_node(scene)
    scene.create(a_template_for(place, {"cpu": "2", "memory": "1Gi"}), name="other", replicas=1)
    scene.wait_until_running(1, "other")
    boost = {"cpu": {"type": "Factor", "factor": 3, "duration": "1h"}}
    scene.autoscale(ONE, mode="Auto", startupBoost=boost)
    scene.create(a_template_for(place, ONE), replicas=1)
    scene.wait_for_pods(lambda pods: any(map(is_unschedulable, pods)))
    started = time.monotonic()

    scene.watch(40, lambda pods: all(map(is_marked, pods)) and all(map(is_unschedulable, pods)))
    scene.wait_for_pods(
        lambda pods: requests(pods) == [[ONE]] and not any(map(is_marked, pods)),
        patience_seconds=60,
    )
    assert time.monotonic() - started < 90


def is_unschedulable(pod: Json) -> bool:
    """Return true for a pod that the scheduler finds no node for."""
    told = pod["status"].get("conditions", [])
    return any(each.get("reason") == "Unschedulable" for each in told)


def test_a_boost_makes_the_scheduler_preempt_no_pod(scene: Scene) -> None:
    place, important = add_node(scene), f"high-{scene.namespace}"
    scene.plane.create(
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": important},
            "value": 1000,
        },
    )
    scene.create(a_template_for(place, ONE), name="low", replicas=3)
    scene.wait_for_pods(lambda pods: len(pods) == 3 and all(map(is_ready, pods)), "low")
    # Without its boost the pod fits beside the others, with it two of them would have to go.
    scene.autoscale(ONE, mode="Off", startupBoost=LASTING)
    template = a_template_for(place, ONE)
    template["spec"]["priorityClassName"] = important
    before = scene.uids("low")
    scene.create(template, replicas=1)
    (pod,) = scene.wait_for_pods(lambda pods: len(pods) == 1 and all(map(is_ready, pods)))

    assert millicores(pod) == 1000
    assert scene.uids("low") == before
    assert "could preempt others" in pod["metadata"]["annotations"]["vpaUpdates"]
