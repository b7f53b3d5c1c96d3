"""What is said about checks: a sentence for each answer, with figures where these help."""

import pytest
from support.makers.plans import UP, by_pod, planned, several, snapshot_of
from support.makers.records import (
    MIB,
    NOW,
    a_container,
    a_pod,
    a_recommendation,
    amounts,
    an_autoscaler,
    minutes,
)

from trimtab.api.explain.pods import tell_check
from trimtab.core.changes.outcomes import Hold
from trimtab.core.explain.pod_checks import PodExplanation, explain_pod, view_plan
from trimtab.core.explain.update_checks import CheckVerdict, PodCheck
from trimtab.core.model.autoscalers import Held, UpdateMode
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.pods import Termination
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.sizing.node_use import NodeUse
from trimtab.core.updates.checks.check import KIND_OF, CheckKind
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.snapshot import Snapshot

SETTINGS = PlanSettings()
BARE = PodExplanation(
    a_pod(), None, an_autoscaler(), Hold(a_pod(), None, HoldReason.MODE_OFF), checks=()
)


def told(snapshot: Snapshot) -> dict[CheckKind, str]:
    found = explain_pod(snapshot.pods[0], view_plan(snapshot, SETTINGS, NOW))
    assert found is not None
    return {each.kind: tell_check(each, found, SETTINGS) for each in found.checks}


@pytest.mark.parametrize("reason", HoldReason)
def test_there_is_a_sentence_for_each_reason(reason: HoldReason) -> None:
    check = PodCheck(KIND_OF[reason], CheckVerdict.BLOCKED, reason)
    sentence = tell_check(check, BARE, SETTINGS)

    assert len(sentence.split()) >= 5
    assert sentence != reason.value


@pytest.mark.parametrize("kind", CheckKind)
def test_there_is_a_sentence_for_each_check_that_passes(kind: CheckKind) -> None:
    explanation = told(snapshot_of(several(3), an_autoscaler(UP)))

    assert explanation[kind]
    assert tell_check(PodCheck(kind, CheckVerdict.UNKNOWN), BARE, SETTINGS) == (
        "only a running updater knows"
    )


def test_an_unknown_mode_is_named_where_it_is_treated_as_off() -> None:
    autoscaler = an_autoscaler(UP, mode=UpdateMode.OFF, unknown_mode="Yolo")
    sentences = told(snapshot_of(several(3), autoscaler))

    assert sentences[CheckKind.MODE] == "unknown mode 'Yolo', treated as Off"


def test_of_a_resize_in_a_small_workload_it_is_said_why_that_is_no_obstacle() -> None:
    sentences = told(snapshot_of(several(1), an_autoscaler(UP, mode=UpdateMode.IN_PLACE)))

    assert sentences[CheckKind.REPLICAS] == (
        "its owner has 1 live pods, fewer than 2, but a resize without a restart needs no others"
    )
    assert sentences[CheckKind.BUDGET] == "does not apply to resizes in place"


def test_of_a_kill_that_a_little_more_memory_does_not_cure_the_figures_are_told() -> None:
    killed = Termination("OOMKilled", NOW - minutes(2), NOW - minutes(1))
    container = a_container(requests=amounts(100, 100 * MIB), last_termination=killed)
    little = a_recommendation(target=amounts(50, 101 * MIB))
    autoscaler = an_autoscaler(little, mode=UpdateMode.UPSCALE_ONLY)
    pods = [a_pod(container, name=f"web-{index}") for index in range(2)]
    sentences = told(snapshot_of(pods, autoscaler, resizes_in_place=False))

    assert sentences[CheckKind.CHANGE] == (
        "OOM-killed, but requests are off by 1 %, less than 10 %"
    )


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        pytest.param(
            amounts(101, 100 * MIB),
            "OOM-killed, but its target has no more of it, and requests are off "
            "by 1 %, less than 10 %",
            id="a little more cpu",
        ),
        pytest.param(
            amounts(100, 100 * MIB),
            "OOM-killed, but its target is what it has",
            id="nothing more",
        ),
    ],
)
def test_of_a_kill_for_which_no_memory_is_recommended_that_is_told(
    target: Resources, sentence: str
) -> None:
    killed = Termination("OOMKilled", NOW - minutes(2), NOW - minutes(1))
    container = a_container(requests=amounts(100, 100 * MIB), last_termination=killed)
    pods = [a_pod(container, name=f"web-{index}") for index in range(2)]
    sentences = told(snapshot_of(pods, an_autoscaler(a_recommendation(target=target))))

    assert sentences[CheckKind.CHANGE] == sentence


@pytest.mark.parametrize("cpu", [100, 101], ids=["the CPU it has", "a little more CPU"])
def test_of_a_kill_whose_cure_an_hpa_holds_that_is_told(cpu: int) -> None:
    killed = Termination("OOMKilled", NOW - minutes(2), NOW - minutes(1))
    container = a_container(requests=amounts(100, 100 * MIB), last_termination=killed)
    pods = [a_pod(container, name=f"web-{index}") for index in range(2)]
    more = a_recommendation(target=amounts(cpu, 500 * MIB))
    autoscaler = an_autoscaler(more, held=frozenset({Held(Resource.MEMORY)}))
    snapshot = snapshot_of(pods, autoscaler)

    assert set(by_pod(planned(snapshot)).values()) == {"ScaledHorizontally"}
    assert told(snapshot)[CheckKind.CHANGE] == (
        "OOM-killed, but its memory is left to a HorizontalPodAutoscaler"
    )


def test_figures_are_told_where_they_help() -> None:
    sentences = told(snapshot_of(several(3), an_autoscaler(UP, min_replicas=1)))

    assert sentences[CheckKind.MODE] == "Recreate: running pods are changed"
    assert sentences[CheckKind.CHANGE] == (
        "requests are off by 800 %, and outside the recommended bounds"
    )
    assert sentences[CheckKind.REPLICAS] == "its owner has 3 live pods, at least 1"
    assert sentences[CheckKind.BUDGET] == "3 of 3 pods run, and 1 may be down"


@pytest.mark.parametrize(
    ("mode", "sentence"),
    [
        pytest.param(
            UpdateMode.IN_PLACE,
            "it needs 500m of CPU, and its node has 300m of CPU left for it",
            id="it stays as it is",
        ),
        pytest.param(
            UpdateMode.IN_PLACE_OR_RECREATE,
            "it needs 500m of CPU, and its node has 300m of CPU left for it: "
            "its successor goes elsewhere",
            id="it is evicted",
        ),
    ],
)
def test_d25_it_is_told_what_a_node_has_left(mode: UpdateMode, sentence: str) -> None:
    wanted = a_recommendation(target=amounts(500), lower=amounts(400))
    node = NodeUse({"one": amounts(600)}, {"one": amounts(400)})
    pods = several(3, node_name="one")

    sentences = told(snapshot_of(pods, an_autoscaler(wanted, mode=mode), node_use=node))

    assert sentences[CheckKind.RESIZE] == sentence


def test_d25_it_is_told_that_only_a_part_fits() -> None:
    wanted = a_recommendation(target=amounts(500, 50 * MIB), lower=amounts(400), upper=amounts(600))
    node = NodeUse({"one": amounts(600)}, {"one": amounts(400)})
    pods = several(3, node_name="one")
    autoscaler = an_autoscaler(wanted, mode=UpdateMode.IN_PLACE)

    assert told(snapshot_of(pods, autoscaler, node_use=node))[CheckKind.RESIZE].endswith(
        ": only the rest is resized"
    )
