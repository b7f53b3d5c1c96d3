"""Growing only: the mode UpscaleOnly, and eviction requirements, on a real API server.

The numbers are those of the acceptance tests for it. What a recreated pod gets is a matter of the
admission controller.
"""

import json
from pathlib import Path

import pytest
from support.stages.components import Json, install
from support.stages.updater import (
    HIGHER,
    HIGHER_CPU,
    HIGHER_MEMORY,
    LARGE,
    SMALL,
    TARGET,
    Stage,
    requests,
    updater,
    wait_for_holds,
)

from rig.controlplane import ControlPlane

pytestmark = pytest.mark.e2e

MIXED = {"cpu": "200m", "memory": "50Mi"}
BOTH_HIGHER = [HIGHER_CPU, HIGHER_MEMORY]


def is_boosted(pod: Json) -> bool:
    return "vpaCpuStartupBoost/c0" in pod["metadata"].get("annotations", {})


@pytest.fixture(scope="module")
def installed(cluster: ControlPlane) -> ControlPlane:
    install(cluster)
    return cluster


@pytest.fixture
def stage(installed: ControlPlane, namespace: str) -> Stage:
    made = Stage(installed, namespace)
    made.promise_admission()
    return made


def test_1_a_requirement_of_more_cpu_keeps_smaller_pods_from_being_made(
    stage: Stage, tmp_path: Path
) -> None:
    uids = stage.deploy("web", LARGE)
    stage.autoscale(mode="Recreate", requirements=[HIGHER_CPU])
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags()) as run:
        wait_for_holds(run, "RequirementNotMet")
        told = stage.condition("UpdatesRuledOut")

    assert stage.uids() == set(uids)
    assert told["reason"] == "RequirementNotMet"
    assert told["message"] == (
        "2 pods keep 600m of CPU and 600Mi of memory more than recommended: RequirementNotMet (2)"
    )


def test_cpu_that_is_not_controlled_meets_no_requirement_of_less_cpu(
    stage: Stage, tmp_path: Path
) -> None:
    uids = stage.deploy("web", LARGE)
    lower = {"resources": ["cpu"], "changeRequirement": "TargetLowerThanRequests"}
    stage.autoscale({"memory": "200Mi"}, mode="Recreate", requirements=[lower])
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags()) as run:
        wait_for_holds(run, "RequirementNotMet")

    assert stage.uids() == set(uids)


def test_2_upscale_only_follows_larger_targets_and_no_smaller_ones(
    stage: Stage, tmp_path: Path
) -> None:
    uids = stage.deploy()
    stage.autoscale(mode="UpscaleOnly")
    flags = stage.flags("--cool-down=0s")
    with updater(stage.plane.kubeconfig, tmp_path, *flags) as run:
        stage.wait_for_pods(lambda pods: requests(pods) == [[TARGET], [TARGET]])
        stage.recommend(SMALL)
        wait_for_holds(run, "OnlyShrinks")

    assert stage.uids() == set(uids)
    assert requests(stage.pods()) == [[TARGET], [TARGET]]


def test_3_of_a_mixed_change_only_growth_applies_and_two_requirements_refuse_it(
    stage: Stage, tmp_path: Path
) -> None:
    stage.deploy("growing")
    stage.deploy("strict")
    stage.autoscale(MIXED, name="growing", mode="UpscaleOnly")
    stage.autoscale(MIXED, name="strict", mode="Recreate", requirements=BOTH_HIGHER)
    grown = {"cpu": "200m", "memory": "100Mi"}
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags()) as run:
        stage.wait_for_pods(lambda pods: requests(pods) == [[grown], [grown]], "growing")
        wait_for_holds(run, "RequirementNotMet", name="strict")


def test_4_different_containers_may_meet_different_requirements(
    stage: Stage, tmp_path: Path
) -> None:
    more_cpu, more_memory = {**SMALL, "cpu": "200m"}, {**SMALL, "memory": "200Mi"}
    stage.deploy("web", SMALL, SMALL)
    stage.autoscale(more_cpu, more_memory, mode="InPlaceOrRecreate", requirements=BOTH_HIGHER)
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags()):
        stage.wait_for_pods(lambda pods: requests(pods) == [[more_cpu, more_memory]] * 2)


def test_5_a_container_without_a_request_meets_every_requirement_for_more(
    stage: Stage, tmp_path: Path
) -> None:
    uids = stage.deploy("web", {"cpu": "500m"})
    stage.autoscale(mode="Recreate", requirements=[HIGHER])
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags()):
        stage.wait_for_pods(lambda pods: {pod["metadata"]["uid"] for pod in pods} - set(uids))


def test_6_requirements_hold_for_resizes_in_place_too(stage: Stage, tmp_path: Path) -> None:
    uids = {*stage.deploy("up"), *stage.deploy("down", LARGE)}
    for name in ("up", "down"):
        stage.autoscale(name=name, mode="InPlaceOrRecreate", requirements=[HIGHER])
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags()) as run:
        stage.wait_for_pods(lambda pods: requests(pods) == [[TARGET], [TARGET]], "up")
        wait_for_holds(run, "RequirementNotMet", name="down")

    assert stage.uids("up") | stage.uids("down") == uids
    assert requests(stage.pods("down")) == [[LARGE], [LARGE]]


def test_7_a_switch_to_recreate_lets_pods_shrink(stage: Stage, tmp_path: Path) -> None:
    uids = stage.deploy("web", LARGE)
    stage.autoscale(mode="UpscaleOnly")
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags()) as run:
        wait_for_holds(run, "OnlyShrinks")
        stage.edit({"updateMode": "Recreate"})
        stage.wait_for_pods(lambda pods: {pod["metadata"]["uid"] for pod in pods} - set(uids))


@pytest.mark.parametrize("mode", ["UpscaleOnly", "Auto"], ids=["8", "U12"])
def test_a_boost_ends_although_that_shrinks_the_pod(
    stage: Stage, tmp_path: Path, mode: str
) -> None:
    original = json.dumps({"requests": {"cpu": "100m", "memory": "100Mi"}, "limits": {}})
    boosted = {"cpu": "400m", "memory": "100Mi"}
    told = "Pod resources updated by web: container 0: cpu request"
    marks = {"vpaCpuStartupBoost/c0": original, "vpaUpdates": told}
    uids = stage.deploy("web", boosted, annotations=marks)
    boost: Json = {"cpu": {"type": "Factor", "factor": 4, "durationSeconds": 1}}
    stage.autoscale(SMALL, mode=mode, startupBoost=boost)
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags()) as run:
        stage.wait_for_pods(lambda pods: requests(pods) == [[SMALL], [SMALL]])
        # Its mark is taken away after its CPU.
        pods = stage.wait_for_pods(lambda pods: not any(map(is_boosted, pods)))
        ended = run.metric('vpa_updater_acts_total{act="Unboost",result="Done"}')

    assert {pod["metadata"]["uid"] for pod in pods} == set(uids)
    assert ended >= 1


def test_10_a_resize_under_requirements_for_more_may_be_told_to_shrink_nothing(
    stage: Stage, tmp_path: Path
) -> None:
    stage.deploy()
    stage.autoscale(MIXED, mode="InPlaceOrRecreate", requirements=[HIGHER])
    grown = {"cpu": "200m", "memory": "100Mi"}
    flags = stage.flags("--grow-only-under-requirements")
    with updater(stage.plane.kubeconfig, tmp_path, *flags):
        stage.wait_for_pods(lambda pods: requests(pods) == [[grown], [grown]])
