"""Growth: at once where it restarts nothing, and never at the price of what a pod has."""

import pytest
from smoke.scene import Scene, is_ready, spec_requests, uids_of
from support.stages.components import Json
from support.stages.roles import BIG, FOLLOWER, LABEL, LEADER, LITTLE
from support.stages.updater import SMALL, TARGET, a_template, requests

from rig import stages

pytestmark = pytest.mark.smoke

LARGER = {"cpu": "400m", "memory": "400Mi"}
INFEASIBLE = {stages.ANNOTATION: "infeasible"}
NOWHERE: Json = {"spec": {"template": {"spec": {"nodeSelector": {"trimtab.dev/none": "such"}}}}}
"""A template of which no pod is ever placed."""


def test_upscale_only_restarts_nothing_for_a_trifle_and_takes_no_cpu_away(
    hasty_scene: Scene,
) -> None:
    scene = hasty_scene
    before = {"cpu": "1", "memory": "100Mi"}
    scene.deploy("web", before, replicas=3, annotations=INFEASIBLE)
    target = {"cpu": "100m", "memory": "101Mi"}
    bounds = ({"cpu": "50m", "memory": "50Mi"}, {"cpu": "200m", "memory": "200Mi"})
    scene.autoscale(target, mode="Off")
    # The CPU lies outside its bounds, and would shrink; the memory lies inside.
    scene.recommend(target, lower=bounds[0], upper=bounds[1])
    scene.edit({"updateMode": "UpscaleOnly"})

    pods = scene.watch_uids(40)
    assert requests(pods) == [[before]] * 3


def test_upscale_only_evicts_for_growth_that_matters_where_no_resize_is_possible(
    hasty_scene: Scene,
) -> None:
    scene = hasty_scene
    uids = scene.deploy("web", SMALL, replicas=3, annotations=INFEASIBLE)
    scene.autoscale(LARGER, mode="UpscaleOnly")
    scene.wait_for_pods(
        lambda pods: requests(pods) == [[LARGER]] * 3 and uids_of(pods).isdisjoint(uids)
    )


def test_a_single_pod_under_upscale_only_grows_in_place_by_default(scene: Scene) -> None:
    uids = scene.deploy("web", SMALL, replicas=1)
    scene.autoscale(mode="UpscaleOnly")
    scene.wait_for_pods(lambda pods: requests(pods) == [[TARGET]], patience_seconds=30)

    assert scene.uids() == set(uids)


@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate", "UpscaleOnly"])
def test_a_resize_without_room_keeps_no_smaller_one_waiting(hasty_scene: Scene, mode: str) -> None:
    scene = hasty_scene
    uids = scene.deploy("web", SMALL, replicas=1, annotations={stages.ANNOTATION: "deferred"})
    much = {**LARGER, "cpu": "8"}
    scene.autoscale(much, mode=mode)
    scene.wait_for_pods(lambda pods: spec_requests(pods[0]) == much)
    scene.recommend(LARGER)

    scene.wait_for_pods(lambda pods: spec_requests(pods[0]) == LARGER)
    assert scene.uids() == set(uids)


@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate"])
def test_d22_a_workload_that_got_worse_grows_in_place(hasty_scene: Scene, mode: str) -> None:
    scene = hasty_scene
    scene.deploy("web", LARGER, replicas=2)
    scene.autoscale(LITTLE, mode=mode)
    scene.wait_for_pods(lambda pods: requests(pods) == [[LITTLE]] * 2)
    # With so little they do not get through their probes.
    for pod in scene.pods():
        scene.play_unreadiness(pod)
    scene.watch(15, lambda pods: requests(pods) == [[LITTLE]] * 2)
    scene.recommend({"cpu": "10m", "memory": "40Mi"})
    scene.wait_for_holds("WorkloadDegraded", 2)
    scene.recommend(LARGER)

    scene.wait_for_pods(lambda pods: requests(pods) == [[LARGER]] * 2)


@pytest.mark.parametrize("restarts", [False, True])
def test_d22_pods_that_starve_grow_in_place_where_they_are_evicted_otherwise(
    hasty_scene: Scene, *, restarts: bool
) -> None:
    scene = hasty_scene
    template = a_template(LARGER)
    if restarts:
        policy = [{"resourceName": each, "restartPolicy": "RestartContainer"} for each in LARGER]
        template["spec"]["containers"][0]["resizePolicy"] = policy
    scene.create(template)
    scene.wait_until_running(2)
    scene.autoscale(LITTLE, mode="Recreate")
    pods = scene.wait_for_pods(lambda pods: requests(pods) == [[LITTLE]] * 2)
    for pod in pods:
        scene.play_unreadiness(pod)
    # The change to the smaller size came first, so the mode evicts no pod to grow it.
    scene.recommend({"cpu": "10m", "memory": "40Mi"})
    scene.wait_for_holds("WorkloadDegraded", 2)
    scene.recommend(LARGER)

    if restarts:
        words = ("UpdatesStopped", "2 pods are not ready and would get more by an eviction alone")
        scene.wait_for_words(scene.condition_messages, *words)
    else:
        scene.wait_for_pods(lambda pods: requests(pods) == [[LARGER]] * 2)
    assert uids_of(scene.pods()) == uids_of(pods)


@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate", "UpscaleOnly"])
def test_a_pod_grows_to_a_millicore_below_its_limits(hasty_scene: Scene, mode: str) -> None:
    scene = hasty_scene
    scene.deploy("web", SMALL, limits=LARGER)
    policy = {"containerPolicies": [{"containerName": "*", "controlledValues": "RequestsOnly"}]}
    scene.autoscale({"cpu": "1", "memory": "1Gi"}, mode=mode, resourcePolicy=policy)

    # All of it would make them Guaranteed, which no resize can.
    grown = [[{**LARGER, "cpu": "399m"}]] * 2
    scene.wait_for_pods(lambda pods: requests(pods) == grown)
    scene.watch_uids(10)
    assert not any("UpdatesHeld" in each for each in scene.condition_messages())


def test_limits_keep_their_proportion_through_several_resizes(scene: Scene) -> None:
    few = {"cpu": "7m", "memory": "100Mi"}
    scene.create(a_template(few, limits={"cpu": "10m"}), replicas=1)
    scene.wait_until_running(1)
    scene.autoscale({**few, "cpu": "15m"}, mode="InPlace")
    scene.wait_for_pods(lambda pods: cpu_of(pods) == [("15m", "21m")])
    scene.recommend({**few, "cpu": "100m"})

    # From the limit of 21m alone it would be 140m.
    scene.wait_for_pods(lambda pods: cpu_of(pods) == [("100m", "142m")])


def cpu_of(pods: list[Json]) -> list[tuple[str, str]]:
    """Return the requests and limits of CPU that the specs of the pods ask for."""
    found = [pod["spec"]["containers"][0]["resources"] for pod in pods]
    return [(each["requests"]["cpu"], each["limits"]["cpu"]) for each in found]


def test_a_new_leader_grows_while_another_replica_is_missing(scene: Scene) -> None:
    scene.create(a_template(LITTLE), name="db", kind="StatefulSet", replicas=3)
    scene.wait_until_running(3, "db")
    path = scene.path("pods", "v1")
    for name, role in {"db-0": "leader", "db-1": "follower", "db-2": "follower"}.items():
        scene.patch(f"{path}/{name}", {"metadata": {"labels": {LABEL: role}}})
    target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}
    for name, size, selector in (("leader", BIG, LEADER), ("followers", LITTLE, FOLLOWER)):
        scene.autoscale(
            size, name=name, mode="InPlaceOrRecreate", targetRef=target, selector=selector
        )
    scene.wait_for_pods(lambda pods: requests(pods)[0] == [BIG], "db")

    # The leader dies, and its successor finds no place.
    on_delete = {
        "spec": {**NOWHERE["spec"], "updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}
    }
    scene.patch(f"{scene.path('statefulsets')}/db", on_delete)
    first, second, _ = scene.pods("db")
    scene.kill(first)
    scene.wait_for_pods(
        lambda pods: len(pods) == 3 and pods[0]["status"]["phase"] == "Pending", "db"
    )
    scene.patch(f"{path}/db-1", {"metadata": {"labels": {LABEL: "leader"}}})
    after = scene.wait_for_pods(lambda pods: requests(pods)[1] == [BIG], "db", patience_seconds=30)

    assert after[1]["metadata"]["uid"] == second["metadata"]["uid"]
    assert after[0]["status"]["phase"] == "Pending"


def test_growth_in_place_follows_growth_without_a_cool_down(scene: Scene) -> None:
    uids = scene.deploy()
    scene.autoscale(mode="InPlaceOrRecreate")
    scene.wait_for_pods(lambda pods: requests(pods) == [[TARGET]] * 2)
    scene.recommend(LARGER)
    scene.wait_for_pods(lambda pods: requests(pods) == [[LARGER]] * 2, patience_seconds=20)

    assert scene.uids() == set(uids)


def test_pods_that_are_all_killed_for_memory_are_evicted_at_once(scene: Scene) -> None:
    uids = scene.deploy("web", SMALL, kind="ReplicaSet", replicas=3)
    # No successor comes up for now: the budget stays spent.
    scene.patch(f"{scene.path('replicasets')}/web", NOWHERE)
    for pod in scene.pods():
        scene.play_crash_loop(pod)
    scene.autoscale(LARGER, kind="ReplicaSet")

    scene.wait_for_pods(lambda pods: uids_of(pods).isdisjoint(uids), patience_seconds=30)


def test_updates_stop_where_successors_never_become_ready(hasty_scene: Scene) -> None:
    scene = hasty_scene
    uids = set(scene.deploy("web", SMALL, kind="ReplicaSet", replicas=4))
    set_readiness_of_successors(scene, stages.NEVER)
    scene.autoscale(LARGER, kind="ReplicaSet")
    # Something is tried, and half of the pods may be down by the default tolerance.
    scene.wait_for_pods(lambda pods: uids - uids_of(pods))

    pods = scene.watch(45, lambda pods: len(uids & uids_of(pods)) >= 2)
    assert sum(map(is_ready, pods)) >= 2
    scene.wait_for_words(scene.condition_messages, "Stopped", "ready")

    # They recover, and the updater goes on.
    set_readiness_of_successors(scene, None)
    for pod in pods:
        scene.play_recovery(pod)
    scene.wait_for_pods(lambda pods: requests(pods) == [[LARGER]] * 4 and all(map(is_ready, pods)))


def set_readiness_of_successors(scene: Scene, readiness: str | None) -> None:
    """Let pods that the ReplicaSet creates from now on become ready, or not."""
    template = {"metadata": {"annotations": {stages.READINESS: readiness}}}
    scene.patch(f"{scene.path('replicasets')}/web", {"spec": {"template": template}})
