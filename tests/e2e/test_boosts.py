"""Ends of startup boosts that only a real API server and a real scheduler can confirm.

Boosts are written by hand, as an admission controller would give them.
"""

import json
from pathlib import Path

import pytest
from support.makers.records import BOOST_TOLD
from support.stages.components import Json, install
from support.stages.updater import MERGE, Stage, updater, wait_for_plan

from rig.controlplane import ControlPlane

pytestmark = pytest.mark.e2e

MARK = "vpaCpuStartupBoost/c0"
USUAL = {"cpu": "100m", "memory": "50Mi"}
BOOST = {"cpu": {"type": "Factor", "factor": 3, "duration": "4s"}}
RARELY = "--updater-interval=10m"


@pytest.fixture(scope="module")
def installed(cluster: ControlPlane) -> ControlPlane:
    install(cluster)
    return cluster


@pytest.fixture
def stage(installed: ControlPlane, namespace: str) -> Stage:
    return Stage(installed, namespace)


def boosted(cpu: str, **spec: object) -> Json:
    """The template of pods that ask for so much CPU while they start."""
    requests = {**USUAL, "cpu": cpu}
    container = {"name": "c0", "image": "none", "resources": {"requests": requests}}
    mark = json.dumps({"requests": USUAL, "limits": {}})
    annotations = {MARK: mark, **BOOST_TOLD}
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [container], **spec}}


def is_marked(pod: Json) -> bool:
    return MARK in pod["metadata"].get("annotations", {})


def asked(pod: Json) -> str:
    """What the spec of the pod's container asks for."""
    found: str = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return found


def test_a_boost_ends_after_its_duration_although_no_tick_is_due(
    stage: Stage, tmp_path: Path
) -> None:
    stage.autoscale(mode="Off", startupBoost=BOOST)
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags(RARELY)) as run:
        wait_for_plan(run, lambda entries: entries == [])
        uids = {pod["metadata"]["uid"] for pod in stage.start(boosted("300m"))}
        stage.wait_for_pods(lambda pods: not any(map(is_marked, pods)))
        ended = run.metric('vpa_updater_boosts_ended_total{cause="BoostOver"}')

    assert list(map(asked, stage.pods())) == ["100m", "100m"]
    assert stage.uids() == uids
    assert ended == 2


def test_f26_a_boosted_pod_that_fits_on_no_node_is_placed_with_its_usual_size(
    stage: Stage, tmp_path: Path
) -> None:
    stage.autoscale(mode="Off", startupBoost=BOOST)
    stage.create(boosted("99k"), replicas=1)
    (waiting,) = stage.wait_for_pods(
        lambda pods: any(
            each.get("reason") == "Unschedulable"
            for pod in pods
            for each in pod["status"].get("conditions", [])
        )
    )
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags(RARELY)) as run:
        stage.wait_until_running(1)
        # The mark goes when the kubelet has reported the usual size.
        (placed,) = stage.wait_for_pods(lambda pods: not any(map(is_marked, pods)))
        ended = run.metric('vpa_updater_boosts_ended_total{cause="BoostUnschedulable"}')

    assert placed["metadata"]["uid"] == waiting["metadata"]["uid"]
    assert asked(placed) == "100m"
    assert ended == 1


def test_d8_the_boost_of_a_pod_that_never_runs_ends_at_the_hard_limit(
    stage: Stage, tmp_path: Path
) -> None:
    stage.autoscale(mode="Off", startupBoost=BOOST)
    # Nobody runs a pod there, and nobody takes it away for a while.
    stage.create(boosted("300m", nodeName="nowhere"), replicas=1)
    stage.wait_for_pods(lambda pods: len(pods) == 1)
    flags = stage.flags(RARELY, "--max-boost-duration=3s")
    with updater(stage.plane.kubeconfig, tmp_path, *flags):
        (pod,) = stage.wait_for_pods(lambda pods: pods and not any(map(is_marked, pods)))

    assert pod["status"]["phase"] == "Pending"
    assert asked(pod) == "100m"


def test_f25_boosts_end_that_no_autoscaler_asks_for_any_more(stage: Stage, tmp_path: Path) -> None:
    long = {"cpu": {**BOOST["cpu"], "duration": "1h"}}
    stage.autoscale(mode="Off", startupBoost=long)
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags()) as run:
        uids = {pod["metadata"]["uid"] for pod in stage.start(boosted("300m"))}
        wait_for_plan(
            run,
            lambda entries: [each.get("reason") for each in entries] == ["BoostActive"] * 2,
        )
        path = f"/apis/autoscaling.k8s.io/v1/namespaces/{stage.namespace}/verticalpodautoscalers"
        unset = json.dumps({"spec": {"startupBoost": None}}).encode()
        stage.plane.request("PATCH", f"{path}/web", unset, MERGE)
        stage.wait_for_pods(lambda pods: not any(map(is_marked, pods)))

    assert list(map(asked, stage.pods())) == ["100m", "100m"]
    assert stage.uids() == uids
