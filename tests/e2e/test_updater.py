"""The updater as a cluster runs it: a real process, a real API server, a node that resizes.

Recommendations are written by hand. So is the lease by which an admission controller says that it
is there, and new pods get what their template says: what a successor becomes is not seen here.
"""

import json
from pathlib import Path

import pytest
from e2e.node_stage import wait_for_ticks
from support.stages.components import Json, Lacking, an_account, install, rights_of
from support.stages.updater import (
    LARGE,
    MERGE,
    SMALL,
    TARGET,
    Stage,
    requests,
    updater,
    wait_for_holds,
    wait_for_plan,
)

from rig import waiting
from rig.controlplane import ControlPlane
from trimtab.core.model.quantities import format_amount, parse_amount
from trimtab.core.model.resources import Resource

pytestmark = pytest.mark.e2e

RIGHTS = rights_of("updater")


@pytest.fixture(scope="module")
def installed(cluster: ControlPlane) -> ControlPlane:
    install(cluster)
    return cluster


@pytest.fixture
def stage(installed: ControlPlane, namespace: str) -> Stage:
    made = Stage(installed, namespace)
    made.promise_admission()
    return made


@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "InPlace", "UpscaleOnly"])
@pytest.mark.parametrize("before", [SMALL, LARGE], ids=["up", "down"])
def test_pods_far_from_their_recommendation_are_resized_in_place(
    stage: Stage, tmp_path: Path, mode: str, before: Json
) -> None:
    uids = stage.deploy("web", before)
    stage.autoscale(mode=mode)
    is_smaller = before is LARGE and mode == "UpscaleOnly"
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags()) as run:
        if is_smaller:
            wait_for_holds(run, "OnlyShrinks")
        else:
            stage.wait_for_pods(lambda pods: requests(pods) == [[TARGET], [TARGET]])
            wait_for_holds(run, "InsideBounds", "ChangeTooSmall", "TooYoung")
        resized = run.metric('vpa_updater_acts_total{act="Resize",result="Done"}')

    assert stage.uids() == set(uids)
    assert requests(stage.pods()) == [[LARGE], [LARGE]] if is_smaller else resized == 2


@pytest.mark.parametrize("before", [SMALL, LARGE], ids=["up", "down"])
def test_in_recreate_mode_a_pod_is_evicted_and_both_are_told(
    stage: Stage, tmp_path: Path, before: Json
) -> None:
    uids = stage.deploy("web", before)
    stage.autoscale(mode="Recreate")
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags()) as run:
        stage.wait_for_pods(lambda pods: {pod["metadata"]["uid"] for pod in pods} - set(uids))
        evicted = run.metric('vpa_updater_acts_total{act="Evict",result="Done"}')
        code = run.end()
    _, body = stage.plane.request("GET", f"/api/v1/namespaces/{stage.namespace}/events")
    items = json.loads(body)["items"]
    told = {(each["reason"], each["involvedObject"]["kind"]) for each in items}
    change = "cpu 100m→200m, memory 100Mi→200Mi"
    if before is LARGE:
        change = "cpu 500m→200m, memory 500Mi→200Mi"

    assert evicted >= 1
    assert code == 0
    assert {("EvictedByVPA", "Pod"), ("EvictedPod", "VerticalPodAutoscaler")} <= told
    assert all(change in each["message"] for each in items if each["reason"] == "EvictedByVPA")


def test_without_an_admission_controller_nothing_is_done(
    installed: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    stage = Stage(installed, namespace)
    uids = stage.deploy()
    stage.autoscale(mode="InPlaceOrRecreate")
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags()) as run:
        entries = wait_for_holds(run, "AdmissionAbsent")
        told = stage.condition("UpdatesHeld")

    assert all(each["wanted"]["c0"]["requests"] == TARGET for each in entries)
    assert stage.uids() == set(uids)
    assert requests(stage.pods()) == [[SMALL], [SMALL]]
    assert told["reason"] == "AdmissionAbsent"


def test_successors_without_their_size_end_evictions_after_three_with_a_reason(
    stage: Stage, tmp_path: Path
) -> None:
    stage.deploy(replicas=6)
    stage.autoscale()
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags()) as run:
        told = stage.condition("UpdatesWithoutEffect")
        wait_for_holds(run, "NotConverging", "EffectAwaited", "BudgetSpent", "CoolDown")
        evicted = run.metric('vpa_updater_acts_total{act="Evict",result="Done"}')

    assert 1 <= evicted <= 3
    assert "admission controller" in told["message"]


def test_a_pod_disruption_budget_holds_pods_until_it_allows_evictions(
    stage: Stage, tmp_path: Path
) -> None:
    uids = stage.deploy(replicas=3)
    stage.protect()
    stage.autoscale()
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags()) as run:
        held = wait_for_plan(
            run, lambda found: "PodDisruptionBudget" in {each.get("reason") for each in found}
        )
        told = stage.condition("UpdatesHeld")
        stands = stage.uids() == set(uids)
        stage.allow_unavailable(1)
        stage.wait_for_pods(lambda pods: {pod["metadata"]["uid"] for pod in pods} - set(uids))
        refused = run.metric('vpa_updater_acts_total{act="Evict",result="PodDisruptionBudget"}')

    assert stands
    assert {each.get("withheld") for each in held} <= {"Evict", None}
    assert "PodDisruptionBudget" in told["message"]
    assert refused >= 1


def test_a_pause_shows_what_would_be_done_and_does_nothing(stage: Stage, tmp_path: Path) -> None:
    resizable, evictable = stage.deploy("resizable"), stage.deploy("evictable")
    stage.autoscale(name="resizable", mode="InPlaceOrRecreate")
    stage.autoscale(name="evictable", mode="Recreate")
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags("--pause")) as run:
        resizes = wait_for_holds(run, "Paused", name="resizable")
        evictions = wait_for_holds(run, "Paused", "BudgetSpent", name="evictable")
        paused = json.loads(run.ask("/plan")[1])["isPaused"]

    assert paused
    assert {each.get("withheld") for each in resizes} == {"Resize"}
    assert {each.get("withheld") for each in evictions} == {"Evict", None}
    assert all(each["wanted"]["c0"]["requests"] == TARGET for each in [*resizes, *evictions])
    assert stage.uids("resizable") == set(resizable)
    assert stage.uids("evictable") == set(evictable)
    assert requests(stage.pods("resizable")) == [[SMALL], [SMALL]]


def test_modes_off_and_initial_leave_running_pods_alone(stage: Stage, tmp_path: Path) -> None:
    uids = {*stage.deploy("off"), *stage.deploy("initial")}
    stage.autoscale(name="off", mode="Off")
    stage.autoscale(name="initial", mode="Initial")
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags()) as run:
        wait_for_holds(run, "ModeOff", name="off")
        wait_for_holds(run, "ModeInitial", name="initial")

    assert stage.uids("off") | stage.uids("initial") == uids


def test_a_single_pod_is_left_alone_unless_its_autoscaler_allows_it(
    stage: Stage, tmp_path: Path
) -> None:
    stage.deploy("shy", replicas=1)
    uids = stage.deploy("bold", replicas=1)
    stage.autoscale(name="shy")
    stage.autoscale(name="bold")
    stage.edit({"minReplicas": 1}, "bold")
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags()) as run:
        wait_for_holds(run, "BelowMinReplicas", name="shy")
        stage.wait_for_pods(
            lambda pods: pods and {pod["metadata"]["uid"] for pod in pods}.isdisjoint(uids), "bold"
        )


@pytest.mark.parametrize(
    ("outcome", "mode", "reason"),
    [
        pytest.param("infeasible", "InPlace", "ResizeInfeasible", id="never possible"),
        pytest.param("deferred", "InPlace", "ResizeDeferred", id="not possible now"),
        pytest.param("deferred", "InPlaceOrRecreate", "ResizeDeferred", id="for a while"),
        pytest.param("in-progress", "InPlaceOrRecreate", "ResizeInProgress", id="under way"),
    ],
)
def test_a_resize_that_does_not_succeed_is_a_hold_and_no_eviction(
    stage: Stage, tmp_path: Path, outcome: str, mode: str, reason: str
) -> None:
    uids = stage.deploy("web", SMALL, replicas=1, annotations={"trimtab.dev/resize": outcome})
    stage.autoscale(mode=mode)
    stage.edit({"minReplicas": 1})
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags("--cool-down=0s")) as run:
        wait_for_holds(run, reason)

    assert stage.uids() == set(uids)


def test_an_infeasible_resize_ends_in_an_eviction_where_the_mode_allows_it(
    stage: Stage, tmp_path: Path
) -> None:
    uids = stage.deploy("web", SMALL, annotations={"trimtab.dev/resize": "infeasible"})
    stage.autoscale(mode="InPlaceOrRecreate")
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags("--cool-down=0s")) as run:
        stage.wait_for_pods(lambda pods: {pod["metadata"]["uid"] for pod in pods} - set(uids))
        evicted = run.metric('vpa_updater_acts_total{act="Evict",result="Done"}')

    assert evicted >= 1


def test_of_two_processes_one_acts_and_the_other_takes_over_when_it_ends(
    stage: Stage, tmp_path: Path
) -> None:
    stage.deploy()
    stage.autoscale(mode="InPlace")
    kubeconfig, flags = stage.plane.kubeconfig, stage.flags("--leader-elect")
    with (
        updater(kubeconfig, tmp_path, *flags, name="first") as first,
        updater(kubeconfig, tmp_path, *flags, name="second") as second,
    ):
        waiting.wait_for(first.leads, bool)
        stage.wait_for_pods(lambda pods: requests(pods) == [[TARGET], [TARGET]])
        idle = json.loads(second.ask("/plan")[1])
        code = first.end()
        waiting.wait_for(second.leads, bool)
        wait_for_holds(second, "InsideBounds", "ChangeTooSmall", "TooYoung")

    assert (idle["plannedAt"], idle["pods"]) == (None, [])
    assert code == 0


@pytest.fixture(
    params=[
        pytest.param(
            Lacking("", "pods/eviction", "create", "missing right: create pods/eviction in {0}"),
            id="to evict",
        ),
        pytest.param(
            Lacking("", "pods/resize", "patch", "missing right: patch pods/resize in {0}"),
            id="to resize",
        ),
        pytest.param(
            Lacking("", "namespaces", "get", "missing right: get namespaces in {0}"),
            id="to see whether its namespace is paused",
        ),
        pytest.param(
            Lacking("", "resourcequotas", "list", "missing right: list resourcequotas in {0}"),
            id="to see quotas",
        ),
        pytest.param(
            Lacking(
                "autoscaling.k8s.io",
                "verticalpodautoscalers/status",
                "patch",
                "missing right: patch verticalpodautoscalers/status.autoscaling.k8s.io in {0}",
            ),
            id="to tell on autoscalers",
        ),
    ]
)
def lacking(request: pytest.FixtureRequest) -> Lacking:
    found = request.param
    assert isinstance(found, Lacking)
    return found


def test_a_right_that_is_missing_is_named_by_readiness(
    stage: Stage, tmp_path: Path, lacking: Lacking
) -> None:
    uids = stage.deploy("web", SMALL)
    is_resize = lacking.resource == "pods/resize"
    stage.autoscale(mode="InPlaceOrRecreate" if is_resize else "Recreate")
    rights = lacking.taken_from(RIGHTS)
    kubeconfig = an_account(stage.plane, stage.namespace, rights, tmp_path, everywhere=True)
    with updater(kubeconfig, tmp_path, *stage.flags()) as run:
        status, told = run.wait_until("/readyz", lambda answer: "missing right" in answer[1])

    assert status == 500
    assert lacking.told.format(stage.namespace) in told.splitlines()
    # Who may not resize does not evict instead.
    assert not is_resize or stage.uids() == set(uids)


def test_f20_a_full_quota_holds_evictions_until_it_is_larger(stage: Stage, tmp_path: Path) -> None:
    uids = stage.deploy()
    path = f"/api/v1/namespaces/{stage.namespace}/resourcequotas"
    quota: Json = {"metadata": {"name": "team"}, "spec": {"hard": {"requests.cpu": "250m"}}}
    stage.plane.create(path, {"apiVersion": "v1", "kind": "ResourceQuota", **quota})
    stage.plane.wait_for(f"{path}/team", lambda found: found.get("status", {}).get("used"))
    stage.autoscale()
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags()) as run:
        wait_for_holds(run, "QuotaExceeded")
        stands = stage.uids() == set(uids)
        patch = json.dumps({"spec": {"hard": {"requests.cpu": "1"}}}).encode()
        stage.plane.request("PATCH", f"{path}/team", patch, MERGE)
        stage.wait_for_pods(lambda pods: {pod["metadata"]["uid"] for pod in pods} - set(uids))

    assert stands


def test_f21_a_target_above_every_node_becomes_the_size_of_the_largest(
    stage: Stage, tmp_path: Path
) -> None:
    _, body = stage.plane.request("GET", "/api/v1/nodes")
    (node,) = json.loads(body)["items"]
    allocatable = parse_amount(Resource.MEMORY, node["status"]["allocatable"]["memory"])
    wanted = {"cpu": "1", "memory": format_amount(Resource.MEMORY, allocatable)}
    uids = stage.deploy()
    stage.autoscale({"cpu": "1", "memory": "200Ti"}, mode="Recreate")
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags("--pause")) as run:
        entries = wait_for_holds(run, "Paused", "BudgetSpent")

    assert all(each["wanted"]["c0"]["requests"] == wanted for each in entries)
    assert stage.uids() == set(uids)


def test_d25_a_target_above_every_node_becomes_what_daemon_sets_leave_of_the_largest(
    stage: Stage, tmp_path: Path
) -> None:
    _, body = stage.plane.request("GET", "/api/v1/nodes")
    (node,) = json.loads(body)["items"]
    allocatable = parse_amount(Resource.CPU, node["status"]["allocatable"]["cpu"])
    left = format_amount(Resource.CPU, allocatable - 1500)
    container = {"name": "c0", "image": "none", "resources": {"requests": {"cpu": "1500m"}}}
    labels = {"app": "agent"}
    stage.plane.create(
        f"/apis/apps/v1/namespaces/{stage.namespace}/daemonsets",
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "agent"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        },
    )
    stage.deploy()
    stage.autoscale({"cpu": "10k"}, mode="Recreate")
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags("--pause")) as run:
        entries = wait_for_holds(run, "Paused", "BudgetSpent")

    assert {each["wanted"]["c0"]["requests"]["cpu"] for each in entries} == {left}


@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate"])
def test_d25_what_does_not_fit_beside_the_others_on_its_node_is_not_asked_for(
    stage: Stage, tmp_path: Path, mode: str
) -> None:
    uids = stage.deploy()
    stage.autoscale({"cpu": "10k"}, mode=mode)
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags()) as run:
        wait_for_holds(run, "ResizeInfeasible")
        wait_for_ticks(run)

    # Both pods are on the only node, so that neither an eviction nor a resize would help.
    assert requests(stage.pods()) == [[SMALL], [SMALL]]
    assert stage.uids() == set(uids)


def test_a_paused_namespace_shows_what_would_be_done_until_it_goes_on(
    stage: Stage, tmp_path: Path
) -> None:
    stage.deploy()
    stage.autoscale(mode="InPlace")
    path = f"/api/v1/namespaces/{stage.namespace}"
    paused, going_on = (
        json.dumps({"metadata": {"annotations": {"trimtab.dev/paused": value}}}).encode()
        for value in ("true", "false")
    )
    stage.plane.request("PATCH", path, paused, MERGE)
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags()) as run:
        held = wait_for_holds(run, "Paused")
        before = requests(stage.pods())
        stage.plane.request("PATCH", path, going_on, MERGE)
        stage.wait_for_pods(lambda pods: requests(pods) == [[TARGET], [TARGET]])

    assert {each.get("withheld") for each in held} == {"Resize"}
    assert before == [[SMALL], [SMALL]]


def test_f24_a_disruption_budget_keeps_containers_from_being_restarted_for_a_resize(
    stage: Stage, tmp_path: Path
) -> None:
    policy = [
        {"resourceName": kind, "restartPolicy": "RestartContainer"} for kind in ("cpu", "memory")
    ]
    container = {"name": "c0", "image": "none", "resources": {"requests": SMALL}}
    template = {"metadata": {}, "spec": {"containers": [{**container, "resizePolicy": policy}]}}
    uids = {pod["metadata"]["uid"] for pod in stage.start(template)}
    stage.protect()
    stage.autoscale(mode="InPlace")
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags()) as run:
        held = wait_for_holds(run, "PodDisruptionBudget", "BudgetSpent")
        before = requests(stage.pods())
        stage.allow_unavailable(1)
        stage.wait_for_pods(lambda pods: requests(pods) == [[TARGET], [TARGET]])

    assert "PodDisruptionBudget" in {each["reason"] for each in held}
    assert before == [[SMALL], [SMALL]]
    assert stage.uids() == uids
