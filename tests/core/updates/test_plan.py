from dataclasses import replace

import pytest
from msgspec import structs
from support.makers.plans import (
    DOWN,
    SMALL,
    UP,
    boosted,
    boosting,
    by_pod,
    planned,
    several,
    share_wanting_change,
    snapshot_of,
    told,
)
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

from trimtab.core.changes.outcomes import Evict, Hold, Resize
from trimtab.core.model.autoscalers import (
    Autoscaler,
    ChangeDirection,
    ContainerRecommendation,
    EvictionRequirement,
    UpdateMode,
)
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.matching import ObservedAutoscaler
from trimtab.core.model.pods import (
    Allocation,
    Pod,
    PodPhase,
    ResizeState,
    Termination,
    WorkloadName,
)
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.model.selectors import Selector
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.resize_or_evict import DeniedAttempt, InfeasibleAttempt, ResizeMemory
from trimtab.core.updates.snapshot import ObservedPod, PodMemory, Snapshot

IN_PLACE, EITHER = UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE
UPSCALE_ONLY = UpdateMode.UPSCALE_ONLY


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param(UpdateMode.RECREATE, "Evict", id="recreate"),
        pytest.param(UpdateMode.AUTO, "Evict", id="auto"),
        pytest.param(EITHER, "Resize", id="in place or recreate"),
        pytest.param(IN_PLACE, "Resize", id="in place"),
        pytest.param(UPSCALE_ONLY, "Resize", id="upscale only"),
        pytest.param(UpdateMode.OFF, "ModeOff", id="off"),
        pytest.param(UpdateMode.INITIAL, "ModeInitial", id="initial"),
    ],
)
def test_the_mode_says_how_a_pod_is_changed(mode: UpdateMode, expected: str) -> None:
    snapshot = snapshot_of([a_pod()], an_autoscaler(UP, mode=mode, min_replicas=1))

    assert told(planned(snapshot)) == [expected]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param(EITHER, "Evict", id="in place or recreate"),
        pytest.param(UPSCALE_ONLY, "Evict", id="upscale only"),
        pytest.param(IN_PLACE, "ResizeUnsupported", id="in place"),
    ],
)
def test_where_the_cluster_cannot_resize_pods_are_evicted_if_they_may(
    mode: UpdateMode, expected: str
) -> None:
    autoscaler = an_autoscaler(UP, mode=mode, min_replicas=1)
    snapshot = snapshot_of([a_pod()], autoscaler, resizes_in_place=False)

    assert told(planned(snapshot)) == [expected]


@pytest.mark.parametrize(
    ("mode", "recommendation", "expected"),
    [
        pytest.param(UpdateMode.RECREATE, DOWN, "Evict", id="recreate"),
        pytest.param(UpdateMode.RECREATE, UP, "PodPending", id="recreate, to grow"),
        pytest.param(UPSCALE_ONLY, DOWN, "OnlyShrinks", id="upscale only"),
        pytest.param(UPSCALE_ONLY, UP, "PodPending", id="upscale only, to grow"),
        pytest.param(EITHER, DOWN, "PodPending", id="in place or recreate"),
        pytest.param(IN_PLACE, DOWN, "PodPending", id="in place"),
    ],
)
def test_a_pod_without_a_node_can_only_be_evicted_to_shrink(
    mode: UpdateMode, recommendation: ContainerRecommendation, expected: str
) -> None:
    autoscaler = an_autoscaler(recommendation, mode=mode, min_replicas=1)

    assert told(planned(snapshot_of(several(3, phase=PodPhase.PENDING), autoscaler))) == (
        [expected] * 3
    )


def test_a_resize_says_what_every_container_shall_have() -> None:
    pod = a_pod(a_container(requests=SMALL, limits=amounts(200)))
    autoscaler = an_autoscaler(UP, mode=EITHER, min_replicas=1)

    (outcome,) = planned(snapshot_of([pod], autoscaler))

    assert isinstance(outcome, Resize)
    assert outcome.wanted == {"app": Allocation(amounts(500, 500 * MIB), amounts(1000))}
    assert outcome.autoscaler == autoscaler.identity


def test_upscale_only_leaves_a_smaller_target_to_the_next_pod() -> None:
    pods = several(2)

    assert told(planned(snapshot_of(pods, an_autoscaler(DOWN, mode=UPSCALE_ONLY)))) == [
        "OnlyShrinks",
        "OnlyShrinks",
    ]
    assert told(planned(snapshot_of(pods, an_autoscaler(DOWN)))) == ["Evict", "BudgetSpent"]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param(EITHER, "Evict", id="evicted"),
        pytest.param(IN_PLACE, "QosWouldChange", id="held"),
    ],
)
def test_a_resize_into_another_qos_class_is_not_tried(mode: UpdateMode, expected: str) -> None:
    guaranteed = a_pod(a_container(requests=amounts(100, MIB), limits=amounts(100, MIB)))
    best_effort = structs.replace(guaranteed, containers=(a_container(),))
    autoscaler = an_autoscaler(UP, mode=mode, min_replicas=1)

    assert told(planned(snapshot_of([best_effort], autoscaler))) == [expected]
    assert told(planned(snapshot_of([guaranteed], autoscaler))) == ["Resize"]


def test_a_resize_that_the_spec_already_asks_for_is_not_asked_for_again() -> None:
    asked = a_container(requests=amounts(500, 500 * MIB), status=Allocation(SMALL))
    autoscaler = an_autoscaler(UP, mode=EITHER, min_replicas=1)

    assert told(planned(snapshot_of([a_pod(asked)], autoscaler))) == ["ResizeInProgress"]


@pytest.mark.parametrize(
    ("size", "state", "passed", "expected"),
    [
        pytest.param(UP.target, None, 59, "ResizeDenied", id="the same size"),
        pytest.param(amounts(400, 500 * MIB), None, 59, "Resize", id="a larger one"),
        pytest.param(amounts(600, 500 * MIB), None, 59, "Resize", id="a smaller one"),
        pytest.param(UP.target, None, 60, "Resize", id="after a while"),
        pytest.param(
            amounts(400, 400 * MIB), ResizeState.ERROR, 59, "ResizeDenied", id="no eviction"
        ),
        pytest.param(amounts(600, 600 * MIB), ResizeState.ERROR, 59, "Evict", id="for less"),
    ],
)
@pytest.mark.parametrize("mode", [EITHER, UpdateMode.UPSCALE_ONLY])
def test_a_size_that_the_api_server_refused_is_no_reason_to_evict(
    size: Resources, state: ResizeState | None, passed: int, expected: str, mode: UpdateMode
) -> None:
    autoscaler = an_autoscaler(UP, mode=mode)
    # What the kubelet fails at is what is wanted, so that only an eviction is left.
    spec = UP.target if state is ResizeState.ERROR else SMALL
    container = a_container(requests=spec, status=Allocation(SMALL))
    pods = [a_pod(container, name=f"web-{number}", resize=state) for number in range(4)]
    attempt = DeniedAttempt({"app": size}, NOW - minutes(passed), "at most 1 CPU")
    memory = PodMemory(ResizeMemory(denied=attempt, resize_since=NOW - minutes(90)))
    snapshot = snapshot_of(
        pods, autoscaler, pod_memory={(pod.uid, autoscaler.identity): memory for pod in pods}
    )
    outcomes = planned(snapshot)

    assert told(outcomes)[0] == expected
    assert expected != "ResizeDenied" or "Evict" not in told(outcomes)
    assert {each.detail for each in outcomes if isinstance(each, Hold)} <= {"at most 1 CPU", ""}


def test_a_resize_that_was_refused_is_remembered_per_autoscaler() -> None:
    autoscaler = an_autoscaler(UP, mode=IN_PLACE, min_replicas=1)
    attempt = InfeasibleAttempt({"app": UP.target}, NOW - minutes(1))
    memory = PodMemory(ResizeMemory(infeasible=attempt))
    mine, others = ("uid-web-0", autoscaler.identity), ("uid-web-0", None)

    held = planned(snapshot_of([a_pod()], autoscaler, pod_memory={mine: memory}))
    tried = planned(snapshot_of([a_pod()], autoscaler, pod_memory={others: memory}))

    assert told(held) == ["ResizeInfeasible"]
    assert told(tried) == ["Resize"]


def test_a_stuck_resize_is_timed_from_when_it_was_first_seen() -> None:
    autoscaler = an_autoscaler(UP, mode=EITHER, min_replicas=1)
    pod = a_pod(a_container(requests=UP.target, status=Allocation(SMALL)))
    stuck = structs.replace(pod, resize=ResizeState.DEFERRED)
    key = (pod.uid, autoscaler.identity)
    since = PodMemory(ResizeMemory(resize_since=NOW - minutes(6)))

    assert told(planned(snapshot_of([stuck], autoscaler))) == ["ResizeDeferred"]
    assert told(planned(snapshot_of([stuck], autoscaler, pod_memory={key: since}))) == ["Evict"]


def crowd(count: int, **fields: object) -> Snapshot:
    return snapshot_of(several(count), an_autoscaler(UP), **fields)


@pytest.mark.parametrize(
    ("snapshot_fields", "settings", "evicted"),
    [
        pytest.param(
            {"usual_shares": {"default": 0.1}}, PlanSettings(), 0, id="all at once want a change"
        ),
        pytest.param(
            {"usual_shares": {"default": 0.8}}, PlanSettings(), 30, id="nearly all usually do"
        ),
        pytest.param({"usual_shares": {}}, PlanSettings(), 30, id="just started"),
        pytest.param(
            {"usual_shares": {"default": 0.0}},
            PlanSettings(surge_min_pods=61),
            30,
            id="too few pods to tell",
        ),
        pytest.param(
            {"usual_shares": {"default": 0.0}},
            PlanSettings(surge_margin=1.0),
            30,
            id="switched off",
        ),
    ],
)
def test_a_sudden_wish_of_many_pods_is_not_followed(
    snapshot_fields: dict[str, object], settings: PlanSettings, evicted: int
) -> None:
    outcomes = planned(crowd(60, **snapshot_fields), settings)

    assert len([each for each in outcomes if isinstance(each, Evict)]) == evicted
    assert len(outcomes) == 60


def test_a_pod_that_dies_for_want_of_memory_is_helped_in_a_surge() -> None:
    last = Termination("OOMKilled", NOW - minutes(2), NOW - minutes(1))
    dying = a_pod(a_container(requests=SMALL, last_termination=last), name="web-59")
    pods = [*several(59), dying]

    outcomes = planned(snapshot_of(pods, an_autoscaler(UP), usual_shares={"default": 0.0}))

    assert by_pod(outcomes)["web-59"] == "Evict"
    assert told(outcomes).count("Surge") == 59


def test_the_share_of_a_plan_is_the_same_in_a_surge_and_without() -> None:
    without, surging = planned(crowd(60)), planned(crowd(60, usual_shares={"default": 0.0}))

    assert share_wanting_change(without) == share_wanting_change(surging) == 1.0


def test_the_ends_of_boosts_are_neither_a_surge_nor_part_of_the_share() -> None:
    # They wait for another resize, as one that wants a change would.
    ending = [
        boosted(ready=minutes(2), resize=ResizeState.DEFERRED, name=f"boosted-{index}")
        for index in range(60)
    ]
    content = [
        a_pod(a_container(requests=amounts(500, 500 * MIB)), name=f"content-{index}")
        for index in range(60)
    ]
    wanting = a_pod(name="wanting")

    outcomes = planned(
        snapshot_of([*ending, *content, wanting], boosting(UP), usual_shares={"default": 0.0})
    )

    assert share_wanting_change(outcomes) == 1 / 61
    assert "Surge" not in told(outcomes)


def test_boosts_that_last_do_not_hide_a_surge() -> None:
    starting = [boosted(name=f"boosted-{index}") for index in range(600)]

    outcomes = planned(
        snapshot_of([*starting, *several(60)], boosting(UP), usual_shares={"default": 0.0})
    )

    assert share_wanting_change(outcomes) == 1.0
    assert told(outcomes).count("Surge") == 60


@pytest.mark.parametrize(
    ("autoscaler", "expected"),
    [
        pytest.param(an_autoscaler(UP), 1.0, id="everybody"),
        pytest.param(an_autoscaler(a_recommendation(target=SMALL)), 0.0, id="nobody"),
        pytest.param(an_autoscaler(UP, mode=UpdateMode.OFF), 0.0, id="nobody is asked"),
    ],
)
def test_the_share_of_pods_that_want_a_change(autoscaler: Autoscaler, expected: float) -> None:
    assert share_wanting_change(planned(snapshot_of(several(4), autoscaler))) == expected


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod(is_deleting=True), id="being deleted"),
        pytest.param(a_pod(phase=PodPhase.SUCCEEDED), id="succeeded"),
        pytest.param(a_pod(phase=PodPhase.FAILED), id="failed"),
    ],
)
def test_a_pod_that_is_not_live_is_neither_planned_nor_counted(pod: Pod) -> None:
    snapshot = snapshot_of([pod, a_pod(name="web-1")], an_autoscaler(UP))

    assert by_pod(planned(snapshot)) == {"web-1": "BelowMinReplicas"}


def test_a_pod_of_no_workload_has_no_entry() -> None:
    snapshot = snapshot_of(several(2), an_autoscaler(UP))
    orphans = replace(snapshot, pods=[replace(each, workload=None) for each in snapshot.pods])

    assert planned(orphans) == []


def test_what_changes_comes_before_what_is_held() -> None:
    content = a_pod(a_container(requests=amounts(500, 500 * MIB)), name="a-content")
    pods = [content, *several(2), boosted(ready=minutes(2), name="z-boosted")]

    outcomes = planned(snapshot_of(pods, boosting(UP, mode=UpdateMode.RECREATE)))

    assert told(outcomes) == ["Unboost", "Evict", "Evict", "InsideBounds"]


def test_f16_without_an_admission_controller_nobody_is_evicted() -> None:
    snapshot = snapshot_of(several(4), an_autoscaler(UP), admission_alive=False)

    assert told(planned(snapshot)) == [HoldReason.ADMISSION_ABSENT.value] * 4


def test_a_resize_that_may_shrink_nothing_and_grows_nothing_is_not_made() -> None:
    # The memory request that is missing counts as growing, but nobody recommends one.
    pod = a_pod(a_container(requests=amounts(100)))
    shrinking = a_recommendation(target=amounts(50), upper=amounts(90))
    requirement = EvictionRequirement((Resource.MEMORY,), ChangeDirection.TARGET_HIGHER)
    autoscaler = an_autoscaler(
        shrinking, mode=IN_PLACE, min_replicas=1, requirements=(requirement,)
    )
    settings = PlanSettings(grow_only_under_requirements=True)

    assert told(planned(snapshot_of([pod], autoscaler), settings)) == ["OnlyShrinks"]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param(UpdateMode.IN_PLACE, ["ResizeUnsupported"] * 2, id="only in place"),
        pytest.param(UpdateMode.IN_PLACE_OR_RECREATE, ["Evict", "BudgetSpent"], id="either"),
        pytest.param(UpdateMode.UPSCALE_ONLY, ["Evict", "BudgetSpent"], id="upscale only"),
    ],
)
def test_no_resize_is_asked_for_of_a_pod_of_windows(mode: UpdateMode, expected: list[str]) -> None:
    pods = several(2, is_windows=True)

    assert told(planned(snapshot_of(pods, an_autoscaler(UP, mode=mode)))) == expected


def in_namespace(name: str, *pods: Pod) -> tuple[list[ObservedPod], ObservedAutoscaler]:
    autoscaler = an_autoscaler(namespace=name, mode=IN_PLACE, recommendation=(UP,))
    workload = WorkloadName(name, "Deployment", "web")
    moved = [ObservedPod(structs.replace(pod, namespace=name), workload) for pod in pods]
    return moved, ObservedAutoscaler(autoscaler, Selector())


@pytest.mark.parametrize(
    ("last_turns", "expected"),
    [
        pytest.param({}, "a-dies b-dies a-0 b-0 a-1", id="who has the most urgent pod begins"),
        pytest.param(
            {"a": 1}, "a-dies b-dies b-0 a-0 a-1", id="after a turn the other one is next"
        ),
        pytest.param({"a": 1, "b": 2}, "a-dies b-dies a-0 b-0 a-1", id="the longest wait is over"),
    ],
)
def test_namespaces_take_turns_after_pods_that_are_oom_killed(
    last_turns: dict[str, int], expected: str
) -> None:
    small, larger = a_container(requests=SMALL), a_container(requests=amounts(200, 200 * MIB))
    termination = Termination("OOMKilled", NOW - minutes(2), NOW - minutes(1))
    killed = structs.replace(larger, last_termination=termination)
    a_pods, of_a = in_namespace(
        "a", *(a_pod(small, name=f"a-{n}") for n in range(2)), a_pod(killed, name="a-dies")
    )
    b_pods, of_b = in_namespace("b", a_pod(larger, name="b-0"), a_pod(killed, name="b-dies"))
    outcomes = planned(
        Snapshot(
            pods=[*b_pods, *a_pods],
            autoscalers=[of_a, of_b],
            configured_replicas={
                WorkloadName(name, "ReplicaSet", "web-1"): 3 for name in ("a", "b")
            },
            last_turns=last_turns,
        )
    )

    assert set(told(outcomes)) == {"Resize"}
    assert [each.pod.name for each in outcomes] == expected.split()
