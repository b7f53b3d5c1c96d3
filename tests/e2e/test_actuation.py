"""The updater and the admission controller together: pods come back with their size.

Rows C1 to C31 are the scenarios of the original's own suite, as far as a fake node can play them:
it ends pods of jobs at once, and its resizes are tested with the updater alone.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.stages.admission import OBSERVED, Webhook, admission_controller, injecting
from support.stages.components import Json, install
from support.stages.updater import (
    LARGE,
    SMALL,
    TARGET,
    WORKLOADS,
    Stage,
    requests,
    updater,
    wait_for_holds,
)

from rig import waiting
from rig.controlplane import ControlPlane

pytestmark = pytest.mark.e2e

LEASE = ("--admission-controller-status-lease-namespace=kube-system",)
SETTLED = ("InsideBounds", "ChangeTooSmall", "TooYoung", "CoolDown")


@pytest.fixture(scope="module")
def webhook(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    install(cluster)
    folder = tmp_path_factory.mktemp("admission")
    with (
        admission_controller(cluster.kubeconfig, folder) as it,
        it.registered(cluster, "vpa-webhook-config"),
    ):
        yield it


@pytest.fixture
def stage(webhook: Webhook, cluster: ControlPlane, namespace: str) -> Stage:
    assert webhook.port
    return Stage(cluster, namespace)


def uids_of(pods: list[Json]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


def test_c1_pods_are_resized_and_one_that_is_killed_comes_back_with_its_size(
    stage: Stage, tmp_path: Path
) -> None:
    uids = stage.deploy(replicas=3)
    stage.autoscale(mode="InPlaceOrRecreate")
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags(*LEASE)):
        killed, *_ = stage.pods()
        stage.kill(killed)
        pods = stage.wait_for_pods(lambda pods: requests(pods) == [[TARGET]] * 3)

    assert uids_of(pods) >= set(uids) - uids_of([killed])


def test_c6_c7_only_in_mode_initial_a_killed_pod_comes_back_with_another_size(
    stage: Stage, tmp_path: Path
) -> None:
    for name, mode in (("off", "Off"), ("initial", "Initial")):
        stage.deploy(name, replicas=3)
        stage.autoscale(name=name, mode=mode)
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags(*LEASE)) as run:
        wait_for_holds(run, "ModeOff", name="off")
        wait_for_holds(run, "ModeInitial", name="initial")
        stage.kill(stage.pods("off")[0])
        stage.kill(stage.pods("initial")[0])
        off = stage.wait_for_pods(lambda pods: len(complete(pods)) == 3, "off")
        initial = stage.wait_for_pods(lambda pods: len(complete(pods)) == 3, "initial")

    assert requests(off) == [[SMALL]] * 3
    assert sorted(map(str, requests(initial))) == sorted(map(str, [[SMALL], [SMALL], [TARGET]]))


def complete(pods: list[Json]) -> list[Json]:
    return [
        pod
        for pod in pods
        if all("resources" in each for each in pod["status"].get("containerStatuses", [{}]))
    ]


@pytest.mark.parametrize("kind", WORKLOADS)
@pytest.mark.parametrize("before", [SMALL, LARGE], ids=["up", "down"])
def test_c8_to_c13_all_pods_of_a_workload_are_replaced_by_pods_of_their_size(
    stage: Stage, tmp_path: Path, kind: str, before: Json
) -> None:
    uids = stage.deploy("web", before, kind=kind, replicas=3)
    stage.autoscale(kind=kind)
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags(*LEASE)) as run:
        pods = stage.wait_for_pods(
            lambda pods: len(complete(pods)) == 3 and requests(pods) == [[TARGET]] * 3
        )
        wait_for_holds(run, *SETTLED)
        evicted = run.metric('vpa_updater_acts_total{act="Evict",result="Done"}')

    assert uids_of(pods).isdisjoint(uids)
    assert evicted == 3


@pytest.mark.parametrize("kind", WORKLOADS)
def test_c14_to_c25_a_single_pod_is_evicted_only_where_its_autoscaler_allows_that(
    stage: Stage, tmp_path: Path, kind: str
) -> None:
    shy = stage.deploy("shy", kind=kind, replicas=1)
    bold = stage.deploy("bold", kind=kind, replicas=1)
    stage.autoscale(name="shy", kind=kind)
    stage.autoscale(name="bold", kind=kind)
    stage.edit({"minReplicas": 1}, "bold")
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags(*LEASE)) as run:
        wait_for_holds(run, "BelowMinReplicas", name="shy")
        replaced = stage.wait_for_pods(
            lambda pods: len(complete(pods)) == 1 and requests(pods) == [[TARGET]], "bold"
        )

    assert stage.uids("shy") == set(shy)
    assert uids_of(replaced).isdisjoint(bold)


def test_c26_a_budget_is_kept_to_and_used_once_it_allows_something(
    stage: Stage, tmp_path: Path
) -> None:
    uids = stage.deploy(replicas=10)
    stage.protect()
    stage.autoscale()
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags(*LEASE)) as run:
        waiting.wait_for(
            lambda: run.metric('vpa_updater_held_pods{reason="PodDisruptionBudget"}'), bool
        )
        stands = stage.uids() == set(uids)
        stage.allow_unavailable(7)
        stage.wait_for_pods(lambda pods: len(uids_of(pods) - set(uids)) >= 7)

    assert stands


@pytest.mark.parametrize(
    ("item", "target", "containers"),
    [
        pytest.param(
            {"type": "Container", "max": {"cpu": "300m"}},
            {"cpu": "200m"},
            1,
            id="C27: the limit that follows would be too large",
        ),
        pytest.param(
            {"type": "Container", "min": {"cpu": "100m"}},
            {"cpu": "50m"},
            1,
            id="C28: less than any container may have",
        ),
        pytest.param(
            {"type": "Pod", "max": {"cpu": "600m"}},
            {"cpu": "200m"},
            2,
            id="C29: the limits of all containers would be too large",
        ),
        pytest.param(
            {"type": "Pod", "min": {"cpu": "200m"}},
            {"cpu": "50m"},
            2,
            id="C30: less than any pod may have",
        ),
    ],
)
def test_c27_to_c30_nothing_is_evicted_for_what_a_limit_range_forbids(
    stage: Stage,
    tmp_path: Path,
    item: Json,
    target: Json,
    containers: int,
) -> None:
    stage.limit(item)
    uids = stage.deploy("web", *[{"cpu": "100m"}] * containers, limits={"cpu": "300m"})
    stage.autoscale(*[target] * containers)
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags(*LEASE)) as run:
        wait_for_holds(run, "InsideBounds", "ChangeTooSmall", "TooYoung")

    assert stage.uids() == set(uids)


def test_c31_a_container_that_came_in_after_our_webhook_is_no_reason_to_evict(
    stage: Stage, tmp_path: Path
) -> None:
    sidecar = {"name": "c1", "image": "none", "resources": {"requests": SMALL}}
    stage.autoscale(SMALL, {"cpu": "5", "memory": "100Mi"})
    with (
        injecting(stage.plane, stage.namespace, sidecar),
        updater(stage.plane.kubeconfig, tmp_path, *stage.flags(*LEASE)) as run,
    ):
        stage.deploy(replicas=3)
        pods = stage.wait_until_observed(3)
        wait_for_holds(run, *SETTLED)

    assert [len(pod["spec"]["containers"]) for pod in pods] == [2, 2, 2]
    assert {pod["metadata"]["annotations"][OBSERVED] for pod in pods} == {"c0"}
    assert stage.uids() == uids_of(pods)


def test_a_pod_under_upscale_only_gets_a_smaller_size_when_somebody_recreates_it(
    stage: Stage, tmp_path: Path
) -> None:
    stage.deploy("web", LARGE)
    stage.autoscale(mode="UpscaleOnly")
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags(*LEASE)) as run:
        wait_for_holds(run, "OnlyShrinks")
        stage.kill(stage.pods()[0])
        pods = stage.wait_for_pods(lambda pods: len(complete(pods)) == 2)
        sizes = requests(pods)

    assert sorted(map(str, sizes)) == sorted(map(str, [[LARGE], [TARGET]]))
