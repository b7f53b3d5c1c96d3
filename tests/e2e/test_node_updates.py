"""The updater on a real node: what it decides is seen by the kernel, and pods are never hurt.

Recommendations are written by hand; the admission controller is a real one. Rows of the original's
own suites (U10, C2, …) that need a node which runs programs are here too.
"""

from pathlib import Path

import pytest
from e2e.node_stage import (
    EAGER,
    LEASE,
    SETTLED,
    NodeStage,
    containers,
    is_ready,
    ready_at,
    resize_reason,
    restarts,
    second_worker,
    started_at,
    uids_of,
    wait_for_ticks,
    worker,
)
from support.makers.records import MIB
from support.stages.components import Json
from support.stages.updater import requests, updater, wait_for_holds

from rig import workers

pytestmark = pytest.mark.e2e

SMALL, SMALL_LIMITS = {"cpu": "100m", "memory": "64Mi"}, {"cpu": "200m", "memory": "128Mi"}
LARGE = {"cpu": "300m", "memory": "96Mi"}
TINY = {"cpu": "50m", "memory": "32Mi"}
EVICTED = 'vpa_updater_acts_total{act="Evict",result="Done"}'


@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "InPlace"])
def test_c2_recommendations_reach_the_kernel_up_and_down_without_a_restart(
    node_stage: NodeStage, tmp_path: Path, mode: str
) -> None:
    if node_stage.minor_version() < 34:
        pytest.skip("no memory limit is lowered in place before 1.34 (test_versions.py)")
    first = worker(requests=SMALL, limits=SMALL_LIMITS)
    second = second_worker(requests=SMALL, limits=SMALL_LIMITS)
    pods = node_stage.run(first, second)
    node_stage.autoscale(LARGE, LARGE, mode=mode)
    flags = node_stage.flags(LEASE, EAGER)
    with updater(node_stage.plane.kubeconfig, tmp_path, *flags) as run:
        for container in ("c0", "c1"):
            node_stage.wait_for_limits(pods, (307, 60_000, 192 * MIB), container)
        wait_for_holds(run, *SETTLED)
        node_stage.recommend(TINY, TINY)
        for container in ("c0", "c1"):
            node_stage.wait_for_limits(pods, (51, 10_000, 64 * MIB), container)
        wait_for_holds(run, *SETTLED)
        evicted = run.metric(EVICTED)

    after = node_stage.pods()
    assert evicted == 0
    assert containers(after) == containers(pods)
    assert restarts(after) == 0
    assert requests(after) == [[TINY, TINY]] * 2


def test_c3_what_no_node_can_give_is_an_eviction_or_a_hold_as_the_mode_says(
    node_stage: NodeStage, tmp_path: Path
) -> None:
    impossible = {"cpu": "999"}
    stays = node_stage.run(worker(requests=SMALL), name="stays")
    goes = node_stage.run(worker(requests=SMALL), name="goes")
    node_stage.autoscale(impossible, name="stays", mode="InPlace")
    waits = node_stage.run(worker(requests=SMALL), name="waits")
    node_stage.autoscale(impossible, name="waits", mode="InPlaceOrRecreate")
    node_stage.autoscale(impossible, name="goes", mode="Recreate")
    flags = node_stage.flags(LEASE, EAGER, "--cap-to-largest-node=false")
    with updater(node_stage.plane.kubeconfig, tmp_path, *flags) as run:
        held = wait_for_holds(run, "ResizeInfeasible", name="stays")
        # No node has room for a successor, so an eviction would only take a pod away.
        wait_for_holds(run, "ResizeInfeasible", name="waits")
        node_stage.wait_for_pods(lambda pods: uids_of(pods) - uids_of(goes), "goes")
        wait_for_ticks(run)
        evicted = run.metric(EVICTED)
        stood = node_stage.pods("stays")
        node_stage.recommend({"cpu": "200m"}, name="stays")
        node_stage.wait_for_shares(stays, 204)

    after = node_stage.pods("stays")
    assert len(held) == 2
    assert evicted == 1
    assert containers(stood) == containers(after) == containers(stays)
    assert uids_of(node_stage.pods("waits")) == uids_of(waits)
    assert restarts(after) == 0


def test_c4_a_full_node_is_not_asked_for_a_resize_until_it_has_room(
    node_stage: NodeStage, tmp_path: Path
) -> None:
    half = node_stage.capacity() // 2
    node_stage.fill(half)
    stays = node_stage.run(worker(requests=SMALL), name="stays", replicas=1)
    other = node_stage.run(worker(requests=SMALL), name="other", replicas=1)
    for name, mode in (("stays", "InPlace"), ("other", "InPlaceOrRecreate")):
        node_stage.autoscale({"cpu": f"{half + 100}m"}, name=name, mode=mode)
        node_stage.edit({"minReplicas": 1}, name)
    flags = node_stage.flags(LEASE, EAGER, "--evict-after-deferred-threshold=6s")
    with updater(node_stage.plane.kubeconfig, tmp_path, *flags) as run:
        (held,) = wait_for_holds(run, "ResizeInfeasible", name="stays")
        # There is no other node for a successor.
        wait_for_holds(run, "ResizeInfeasible", name="other")
        wait_for_ticks(run, 8)
        waited = [*node_stage.pods("stays"), *node_stage.pods("other")]
        node_stage.edit({"updateMode": "Off"}, "other")
        node_stage.make_room()
        node_stage.wait_for_shares(stays, (half + 100) * 1024 // 1000)
        evicted = run.metric(EVICTED)

    after = node_stage.pods("stays")
    assert uids_of(waited) == uids_of([*stays, *other])
    assert not any(map(resize_reason, waited))
    assert evicted == 0
    assert held["wanted"]["c0"]["requests"]["cpu"] == f"{half + 100}m"
    assert containers(after) == containers(stays)
    assert restarts(after) == 0


def test_c5_of_pods_that_would_fit_nowhere_one_is_pending_and_the_others_go_on(
    node_stage: NodeStage, tmp_path: Path
) -> None:
    before = node_stage.run(worker(requests=SMALL), replicas=3)
    node_stage.autoscale({"cpu": "9999"}, mode="Recreate")
    flags = node_stage.flags(LEASE, EAGER)
    with updater(node_stage.plane.kubeconfig, tmp_path, *flags) as run:
        node_stage.wait_for_pods(
            lambda pods: (
                len(pods) == 3 and [each["status"]["phase"] for each in pods].count("Pending")
            )
        )
        wait_for_ticks(run, 5)
        evicted = run.metric(EVICTED)

    after = node_stage.pods()
    assert evicted == 1
    assert sorted(each["status"]["phase"] for each in after) == ["Pending", "Running", "Running"]
    assert len(uids_of(after) & uids_of(before)) == 2


def test_a_memory_limit_below_usage_waits_for_the_program_and_disturbs_nobody(
    node_stage: NodeStage, tmp_path: Path
) -> None:
    if node_stage.minor_version() < 34:
        pytest.skip("no memory limit is lowered in place before 1.34 (test_versions.py)")
    greedy = worker("-memory=80", requests=SMALL, limits=SMALL_LIMITS)
    modes = {"stays": "InPlace", "stays-too": "InPlaceOrRecreate"}
    before: list[Json] = []
    for name, mode in modes.items():
        before += node_stage.run(greedy, name=name, replicas=1)
        node_stage.autoscale({"cpu": "100m", "memory": "24Mi"}, name=name, mode=mode)
        node_stage.edit({"minReplicas": 1}, name)
    flags = node_stage.flags(LEASE, EAGER)
    with updater(node_stage.plane.kubeconfig, tmp_path, *flags) as run:
        for name in modes:
            node_stage.wait_for_pods(lambda pods: resize_reason(pods[0]) == "Error", name)
            wait_for_holds(run, "ResizeFailing", name=name)
        wait_for_ticks(run)
        limits = [node_stage.limits(pod)[2] for pod in before]
        for pod in before:
            node_stage.tell(pod, "memory=8")
        node_stage.wait_for_limits(before, (102, 20_000, 48 * MIB))

    after = [*node_stage.pods("stays"), *node_stage.pods("stays-too")]
    assert limits == [128 * MIB] * 2
    assert containers(after) == containers(before)
    assert restarts(after) == 0


def test_f24_containers_that_restart_for_a_resize_do_so_within_the_budget_alone(
    node_stage: NodeStage, tmp_path: Path
) -> None:
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    slow = worker(
        "-ready-after=3s",
        requests=SMALL,
        resizePolicy=policy,
        readinessProbe=workers.HTTP_READY,
    )
    alone = node_stage.run(worker(requests=SMALL, resizePolicy=policy), name="alone", replicas=1)
    node_stage.run(slow, name="pair")
    node_stage.wait_for_pods(lambda pods: all(map(is_ready, pods)), "pair")
    for name in ("alone", "pair"):
        node_stage.autoscale({"cpu": "200m"}, name=name, mode="InPlaceOrRecreate")
    flags = node_stage.flags(LEASE, EAGER, "--in-place-skip-disruption-budget")
    with updater(node_stage.plane.kubeconfig, tmp_path, *flags) as run:
        wait_for_holds(run, "BelowMinReplicas", name="alone")
        pair = node_stage.wait_for_pods(
            lambda pods: restarts(pods) == 2 and all(map(is_ready, pods)), "pair"
        )
        wait_for_holds(run, *SETTLED, name="pair")
        patient = node_stage.pods("alone")
        node_stage.edit({"minReplicas": 1}, "alone")
        restarted = node_stage.wait_for_pods(
            lambda pods: restarts(pods) == 1 and all(map(is_ready, pods)), "alone"
        )
        evicted = run.metric(EVICTED)

    first, second = sorted(pair, key=started_at)
    assert evicted == 0
    assert restarts(patient) == 0
    assert [node_stage.shares(pod) for pod in (*pair, *restarted)] == [204] * 3
    assert uids_of(restarted) == uids_of(alone)
    assert ready_at(first) <= started_at(second)


def test_under_upscale_only_running_pods_grow_and_only_new_ones_are_smaller(
    node_stage: NodeStage, tmp_path: Path
) -> None:
    grows = node_stage.run(worker(requests=SMALL), name="grows")
    keeps = node_stage.run(worker(requests=LARGE), name="keeps")
    node_stage.autoscale(LARGE, name="grows", mode="UpscaleOnly")
    node_stage.autoscale(SMALL, name="keeps", mode="UpscaleOnly")
    flags = node_stage.flags(LEASE, EAGER)
    with updater(node_stage.plane.kubeconfig, tmp_path, *flags) as run:
        node_stage.wait_for_shares(grows, 307)
        node_stage.recommend(SMALL, name="grows")
        wait_for_holds(run, "OnlyShrinks", name="grows")
        wait_for_holds(run, "OnlyShrinks", name="keeps")
        wait_for_ticks(run)
        kept = [node_stage.shares(pod) for pod in (*grows, *keeps)]
        node_stage.kill(keeps[0])
        replaced = node_stage.wait_until_running(2, "keeps")
        disrupted = run.metric(EVICTED)

    assert disrupted == 0
    assert kept == [307] * 4
    assert restarts(node_stage.pods("grows")) == 0
    assert sorted(node_stage.shares(pod) for pod in replaced) == [102, 307]


def test_u10_u11_an_oom_kill_is_quick_only_within_the_span_of_the_autoscaler(
    node_stage: NodeStage, tmp_path: Path
) -> None:
    # It is killed after some three seconds, and then goes on as before.
    greedy = worker("-memory=8", "-grow=16", requests={"memory": "48Mi"}, limits={"memory": "48Mi"})
    before = node_stage.run(greedy)
    node_stage.autoscale({"memory": "96Mi"}, mode="Recreate")
    node_stage.edit({"evictAfterOOMSeconds": 1})
    node_stage.recommend({"memory": "96Mi"}, lower={"memory": "32Mi"}, upper={"memory": "128Mi"})
    node_stage.wait_for_pods(lambda pods: all(map(was_killed_for_memory, pods)))
    with updater(node_stage.plane.kubeconfig, tmp_path, *node_stage.flags(LEASE)) as run:
        wait_for_holds(run, "TooYoung")
        stood = node_stage.uids()
        node_stage.edit({"evictAfterOOMSeconds": 600})
        node_stage.wait_for_pods(lambda pods: uids_of(pods) - uids_of(before))

    assert stood == uids_of(before)


def was_killed_for_memory(pod: Json) -> bool:
    last = pod["status"]["containerStatuses"][0]["lastState"].get("terminated", {})
    return bool(last.get("reason") == "OOMKilled")
