"""Pods that die for lack of memory and must not be evicted: they get it in place."""

import pytest
from smoke.scene import Scene, is_marked, is_ready, millicores, spec_requests, uids_of
from smoke.test_nodes import a_template_for, add_node
from support.stages.components import Json
from support.stages.updater import AUTOSCALING, LARGE, SMALL, a_template, requests

from rig import stages

pytestmark = pytest.mark.smoke

RUNNING_JOB = {stages.COMPLETION: stages.NEVER}
MEMORY = {"memory": "200Mi"}
MORE_MEMORY = {**SMALL, **MEMORY}
LASTING = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


def restart_on(*resources: str) -> list[Json]:
    """Return the policy of a container that restarts when these resources change."""
    return [{"resourceName": each, "restartPolicy": "RestartContainer"} for each in resources]


def start_job(scene: Scene, name: str, *restarts: str) -> list[Json]:
    """Create a Job whose pods do not end, and return its two pods."""
    # A Job counts the restarts of its containers, too.
    template = a_template(SMALL, annotations=RUNNING_JOB)
    template["metadata"]["labels"] = {"app": name}
    template["spec"]["containers"][0]["resizePolicy"] = restart_on(*restarts)
    template["spec"]["restartPolicy"] = "OnFailure"
    spec = {"parallelism": 2, "completions": 2, "backoffLimit": 50, "template": template}
    head = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}}
    scene.create_object("jobs", {**head, "spec": spec})
    return scene.wait_until_running(2, name)


@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate"])
def test_pods_of_a_job_that_die_get_memory_and_none_is_evicted(scene: Scene, mode: str) -> None:
    before = {name: start_job(scene, name) for name in ("dying", "healthy")}
    for pod in before["dying"]:
        scene.play_crash_loop(pod)
    scene.let_watches_catch_up()
    for name in before:
        scene.autoscale(MORE_MEMORY, name=name, kind="Job", mode=mode)

    rescued = scene.wait_for_pods(lambda pods: requests(pods) == [[MORE_MEMORY]] * 2, "dying")
    assert uids_of(rescued) == uids_of(before["dying"])
    if mode == "Recreate":
        scene.wait_for_words(lambda: scene.condition_messages("healthy"), "RunsToCompletion")
        assert requests(scene.pods("healthy")) == [[SMALL]] * 2
    scene.watch_uids(3, *before)
    jobs = scene.read(scene.path("jobs", "batch/v1"))["items"]
    assert [job["status"].get("failed", 0) for job in jobs] == [0, 0]


@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate", "UpscaleOnly"])
def test_no_resize_restarts_the_containers_of_a_job(scene: Scene, mode: str) -> None:
    restarts = {"cpu": ["cpu"], "both": ["cpu", "memory"]}
    before = {name: start_job(scene, name, *kinds) for name, kinds in restarts.items()}
    scene.let_watches_catch_up()
    for name in before:
        scene.autoscale(LARGE, name=name, kind="Job", mode=mode)

    # Memory restarts nothing, and does not wait for CPU.
    grown = {**SMALL, "memory": LARGE["memory"]}
    scene.wait_for_pods(lambda pods: requests(pods) == [[grown]] * 2, "cpu")
    scene.wait_for_words(lambda: scene.condition_messages("both"), "RunsToCompletion")
    scene.watch(3, lambda pods: requests(pods) == [[SMALL]] * 2, "both")
    assert uids_of(scene.pods("both")) == uids_of(before["both"])


def a_pod_with_sidecar() -> Json:
    """Return a template whose container c0 restarts when it is resized, with a sidecar c1."""
    template = a_template(SMALL)
    (app,) = template["spec"]["containers"]
    template["spec"]["initContainers"] = [{**app, "name": "c1", "restartPolicy": "Always"}]
    app["resizePolicy"] = restart_on(*SMALL)
    return template


def sidecar_requests(pods: list[Json]) -> list[Json]:
    """Return what the sidecars of the pods ask for."""
    return [pod["spec"]["initContainers"][0]["resources"]["requests"] for pod in pods]


def recommend_within_bounds(scene: Scene, target: Json) -> None:
    """Set wide bounds for the second container, so that its kill is the only reason to act."""
    path = scene.path("verticalpodautoscalers/web", AUTOSCALING)
    status = scene.read(path)["status"]
    entry = status["recommendation"]["containerRecommendations"][1]
    few, many = {"cpu": "50m", "memory": "50Mi"}, {"cpu": "900m", "memory": "900Mi"}
    entry |= {"target": target, "lowerBound": few, "upperBound": many}
    scene.patch(f"{path}/status", {"status": status})


@pytest.mark.parametrize("mode", ["UpscaleOnly", "InPlaceOrRecreate"])
def test_a_dying_sidecar_gets_memory_while_its_neighbour_may_not_restart(
    scene: Scene, mode: str
) -> None:
    # The only replica may not be restarted.
    (pod,) = scene.start(a_pod_with_sidecar(), replicas=1)
    scene.play_dying_sidecar(pod, "c1", phase="Running")
    scene.let_watches_catch_up()
    scene.autoscale(LARGE, MORE_MEMORY, mode="Off")
    recommend_within_bounds(scene, MORE_MEMORY)
    scene.edit({"updateMode": mode})

    pods = scene.wait_for_pods(lambda pods: sidecar_requests(pods) == [MORE_MEMORY])
    assert uids_of(pods) == uids_of([pod])
    assert spec_requests(pods[0]) == SMALL


@pytest.mark.parametrize("mode", ["Recreate", "UpscaleOnly"])
def test_a_pending_pod_whose_sidecar_dies_is_evicted_in_modes_that_evict(
    scene: Scene, mode: str
) -> None:
    template = a_template(SMALL)
    (app,) = template["spec"]["containers"]
    template["spec"]["initContainers"] = [{**app, "name": "c1", "restartPolicy": "Always"}]
    before = scene.start(template, replicas=2)
    for pod in before:
        scene.play_dying_sidecar(pod, "c1")
    scene.let_watches_catch_up()
    scene.autoscale(SMALL, MORE_MEMORY, mode=mode)

    pods = scene.wait_for_pods(lambda pods: sidecar_requests(pods) == [MORE_MEMORY] * 2)
    assert uids_of(pods).isdisjoint(uids_of(before))


def test_a_single_replica_that_dies_gets_memory_in_place_in_a_mode_that_evicts(
    scene: Scene,
) -> None:
    (pod,) = scene.start(a_template(SMALL), replicas=1)
    scene.play_crash_loop(pod)
    scene.let_watches_catch_up()
    scene.autoscale(MORE_MEMORY)

    pods = scene.wait_for_pods(lambda pods: requests(pods) == [[MORE_MEMORY]])
    assert uids_of(pods) == uids_of([pod])


@pytest.mark.parametrize("mode", ["Recreate", "InPlace", "InPlaceOrRecreate", "UpscaleOnly"])
def test_a_single_replica_that_dies_restarts_with_more_memory(scene: Scene, mode: str) -> None:
    template = a_template(SMALL)
    template["spec"]["containers"][0]["resizePolicy"] = restart_on("memory")
    (pod,) = scene.start(template, replicas=1)
    scene.play_crash_loop(pod)
    scene.let_watches_catch_up()
    scene.autoscale(MORE_MEMORY, mode=mode)

    pods = scene.wait_for_pods(lambda pods: requests(pods) == [[MORE_MEMORY]])
    assert uids_of(pods) == uids_of([pod])


def test_pods_that_die_do_not_wait_for_the_first_one_that_waits_for_them(scene: Scene) -> None:
    scene.create(a_template(SMALL), kind="StatefulSet", replicas=3)
    first, *others = sorted(
        scene.wait_until_running(3), key=lambda each: str(each["metadata"]["name"])
    )
    # Like a member of a quorum: it is not ready before the others run, and runs on by itself.
    scene.annotate(first["metadata"]["name"], LASTING)
    scene.play_unreadiness(first)
    for pod in others:
        scene.play_crash_loop(pod)
    scene.let_watches_catch_up()
    scene.autoscale(MORE_MEMORY, kind="StatefulSet")

    pods = scene.wait_for_pods(lambda pods: requests(pods).count([MORE_MEMORY]) == 2)
    assert uids_of(pods) == uids_of([first, *others])


@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate"])
@pytest.mark.parametrize("outcome", ["deferred", "infeasible"])
def test_memory_for_a_pod_that_dies_waits_for_no_cpu(scene: Scene, mode: str, outcome: str) -> None:
    much, annotations = {**SMALL, "cpu": "2"}, {stages.ANNOTATION: outcome}
    (pod,) = scene.start(a_template(SMALL, annotations=annotations), replicas=1)
    scene.autoscale(much, mode=mode)
    # The node has no room for so much CPU.
    (waiting,) = scene.wait_for_pods(
        lambda pods: spec_requests(pods[0]) == much and is_put_off(pods[0])
    )
    scene.play_crash_loop(waiting)
    scene.recommend({**much, **MEMORY})

    pods = scene.wait_for_pods(lambda pods: spec_requests(pods[0]) == MORE_MEMORY)
    assert uids_of(pods) == uids_of([pod])


@pytest.mark.parametrize("outcome", ["deferred", "infeasible"])
def test_a_rescue_that_is_put_off_asks_for_memory_alone(scene: Scene, outcome: str) -> None:
    much, annotations = {"cpu": "2", **MEMORY}, {stages.ANNOTATION: outcome}
    (pod,) = scene.start(a_template(SMALL, annotations=annotations), replicas=1)
    scene.play_crash_loop(pod)
    scene.let_watches_catch_up()
    # Both are asked for in place of the eviction, and the node has no room for so much CPU.
    scene.autoscale(much, mode="Recreate")

    pods = scene.wait_for_pods(lambda pods: spec_requests(pods[0]) == MORE_MEMORY)
    assert uids_of(pods) == uids_of([pod])


def is_put_off(pod: Json) -> bool:
    """Return True if the kubelet has put a resize of the pod off."""
    return any(each["type"] == "PodResizePending" for each in pod["status"]["conditions"])


def test_a_pod_that_dies_does_not_wait_for_siblings_that_find_no_node(scene: Scene) -> None:
    place, size = add_node(scene), {"cpu": "1500m", "memory": "100Mi"}
    scene.create(a_template_for(place, size), replicas=4)
    # The node has room for two of the four.
    pods = scene.wait_for_pods(lambda pods: sum(map(is_ready, pods)) == 2)
    dying, ready = filter(is_ready, pods)
    scene.play_crash_loop(dying)
    scene.let_watches_catch_up()
    scene.autoscale({**size, **MEMORY}, mode="Recreate")

    pods = scene.wait_for_pods(lambda pods: [{**size, **MEMORY}] in map(own_requests, pods))
    rescued = [pod for pod in pods if own_requests(pod) == [{**size, **MEMORY}]]
    assert uids_of(rescued) == uids_of([dying])
    assert uids_of(pods) >= uids_of([ready])


@pytest.mark.parametrize("mode", ["Recreate", "InPlace", "InPlaceOrRecreate", "UpscaleOnly"])
def test_a_container_that_dies_does_not_wait_for_room_for_its_neighbour(
    scene: Scene, mode: str
) -> None:
    place, template = add_node(scene), a_template(SMALL, SMALL)
    template["spec"] |= place
    (pod,) = scene.start(template, replicas=1)
    scene.create(a_template_for(place, {"cpu": "1", "memory": "4Gi"}), name="beside", replicas=1)
    scene.wait_until_running(1, "beside")
    scene.play_crash_loop(pod, "c0")
    scene.let_watches_catch_up()
    # The node has 8Gi, and the neighbour could have as much on an empty one.
    scene.autoscale(MORE_MEMORY, {**SMALL, "memory": "6Gi"}, mode=mode)

    (rescued,) = scene.wait_for_pods(lambda pods: own_requests(pods[0])[0] == MORE_MEMORY)
    assert uids_of([rescued]) == uids_of([pod])
    assert own_requests(rescued) == [MORE_MEMORY, SMALL]


@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate", "UpscaleOnly"])
def test_a_boosted_pod_that_dies_gets_memory_and_keeps_its_boost(scene: Scene, mode: str) -> None:
    boost = {"cpu": {"type": "Factor", "factor": 3}}
    scene.autoscale(SMALL, mode=mode, startupBoost=boost)
    scene.create(a_template(SMALL, annotations={stages.READINESS: stages.NEVER}), replicas=2)
    before = scene.wait_until_observed(2)
    for pod in before:
        scene.play_crash_loop(pod)
    scene.recommend(MORE_MEMORY)

    pods = scene.wait_for_pods(
        lambda pods: [spec_requests(pod)["memory"] for pod in pods] == ["200Mi"] * 2
    )
    assert uids_of(pods) == uids_of(before)
    assert [(millicores(pod), is_marked(pod)) for pod in pods] == [(300, True)] * 2


@pytest.mark.parametrize("mode", ["Recreate", "InPlace", "InPlaceOrRecreate", "UpscaleOnly"])
def test_a_disruption_budget_keeps_no_memory_from_a_pod_that_dies(scene: Scene, mode: str) -> None:
    template = a_template(SMALL)
    template["spec"]["containers"][0]["resizePolicy"] = restart_on("memory")
    dying, *ready = scene.start(template, replicas=3)
    scene.protect(max_unavailable=0)
    scene.play_crash_loop(dying)
    scene.let_watches_catch_up()
    scene.autoscale(MORE_MEMORY, mode=mode)

    def is_rescued(pods: list[Json]) -> bool:
        sizes = {pod["metadata"]["uid"]: own_requests(pod) for pod in pods}
        return sizes == {
            **{uid: [SMALL] for uid in uids_of(ready)},
            **{uid: [MORE_MEMORY] for uid in uids_of([dying])},
        }

    scene.wait_for_pods(is_rescued)
    # Those that work do not restart.
    scene.watch(5, is_rescued)


def own_requests(pod: Json) -> list[Json]:
    """Return what the containers of the pod ask for."""
    return [spec_requests(pod, index) for index, _ in enumerate(pod["spec"]["containers"])]


def test_of_pods_that_die_one_is_evicted_and_the_other_grows_without_waiting(
    scene: Scene,
) -> None:
    # Enough that the budget bears both.
    scene.deploy("web", SMALL, replicas=8)
    pods = scene.pods()
    dying, healthy = pods[:2], pods[2:]
    for pod in healthy:
        scene.annotate(pod["metadata"]["name"], LASTING)
    for pod in dying:
        scene.play_crash_loop(pod)
    scene.let_watches_catch_up()
    scene.autoscale(MORE_MEMORY, mode="Recreate")

    # The first eviction for a size is alone, and a pod that dies does not wait for its effect.
    sizes = sorted([[SMALL]] * 6 + [[MORE_MEMORY]] * 2, key=str)
    scene.wait_for_pods(lambda found: sorted(requests(found), key=str) == sizes)
    after = uids_of(scene.watch(5, lambda found: sorted(requests(found), key=str) == sizes))
    assert len(after & uids_of(dying)) == 1
    assert uids_of(healthy) <= after
