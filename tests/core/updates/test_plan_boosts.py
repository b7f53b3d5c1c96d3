from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from msgspec import structs
from support.makers.plans import DOWN, SMALL, UP, boosted, boosting, planned, snapshot_of, told
from support.makers.records import (
    BOOST_TOLD,
    MIB,
    NOW,
    a_container,
    a_pod,
    a_recommendation,
    amounts,
    an_autoscaler,
    hours,
    minutes,
)

from trimtab.core.changes.outcomes import EndOfBoost, Hold, Outcome, Resize, Unboost
from trimtab.core.model.autoscalers import (
    Autoscaler,
    Condition,
    ContainerPolicy,
    ControlledValues,
    UpdateMode,
)
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import UPDATES, Allocation, Pod, PodPhase, ResizeState, TargetResources
from trimtab.core.model.resources import Resources
from trimtab.core.sizing.startup_boost import annotation_name, format_original
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.resize_or_evict import ResizeMemory
from trimtab.core.updates.snapshot import PodMemory, Retry

IN_PLACE, EITHER = UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE
UPSCALE_ONLY = UpdateMode.UPSCALE_ONLY


def with_side(pod: Pod) -> Pod:
    """The pod with one more container, which is not boosted."""
    return structs.replace(pod, containers=(*pod.containers, a_container("side", requests=SMALL)))


def unboosted_to(outcomes: Sequence[Outcome]) -> TargetResources:
    """What the one pod whose boost ends shall have."""
    [wanted] = [each.wanted for each in outcomes if isinstance(each, Unboost)]
    return wanted


@pytest.mark.parametrize(
    "ready", [pytest.param(None, id="not ready"), pytest.param(minutes(0.5), id="just ready")]
)
def test_a_boosted_pod_is_left_alone(ready: timedelta | None) -> None:
    snapshot = snapshot_of([boosted(ready=ready)], boosting(UP))

    assert told(planned(snapshot)) == ["BoostActive"]


@pytest.mark.parametrize(
    ("autoscaler", "wanted"),
    [
        pytest.param(
            boosting(UP), Allocation(amounts(500), {}), id="to the cpu of the recommendation"
        ),
        pytest.param(
            boosting(UP, mode=UpdateMode.INITIAL),
            Allocation(amounts(500), {}),
            id="in mode initial too",
        ),
        pytest.param(
            boosting(UP, mode=UPSCALE_ONLY),
            Allocation(amounts(500), {}),
            id="in mode upscale only too",
        ),
        pytest.param(
            boosting(UP, mode=UpdateMode.OFF),
            Allocation(amounts(100), {}),
            id="in mode off to the cpu of the spec",
        ),
        pytest.param(boosting(), Allocation(amounts(100), {}), id="without a recommendation too"),
    ],
)
def test_a_boost_that_is_over_goes_back(autoscaler: Autoscaler, wanted: Allocation) -> None:
    pod = boosted(ready=minutes(2))

    assert planned(snapshot_of([pod], autoscaler)) == [
        Unboost(pod, autoscaler.identity, ("app",), {"app": wanted})
    ]


def test_f25_a_boost_ends_when_its_autoscaler_is_gone() -> None:
    pod = boosted(ready=minutes(0))

    assert planned(snapshot_of([pod])) == [
        Unboost(pod, None, ("app",), {"app": Allocation(amounts(100), {})})
    ]


@pytest.mark.parametrize(
    ("updates", "expected"),
    [
        pytest.param({}, [], id="a template's"),
        pytest.param(
            {UPDATES: "Pod resources updated by web: container 0: memory request"}, [], id="other"
        ),
        pytest.param(BOOST_TOLD, ["Unboost"], id="admission's"),
    ],
)
def test_a_mark_counts_only_where_admission_set_the_cpu(
    updates: dict[str, str], expected: list[str]
) -> None:
    mark = {annotation_name("app"): format_original(Allocation(amounts(10)))}
    pod = structs.replace(boosted(ready=minutes(20)), annotations=mark | updates)

    assert told(planned(snapshot_of([pod]))) == expected


def test_a_pod_with_the_mark_of_a_template_keeps_its_cpu_under_upscale_only() -> None:
    mark = {annotation_name("app"): format_original(Allocation(amounts(10)))}
    pod = structs.replace(boosted(ready=minutes(20)), annotations=mark)
    autoscaler = an_autoscaler(DOWN, mode=UpdateMode.UPSCALE_ONLY)

    assert told(planned(snapshot_of([pod], autoscaler))) == ["OnlyShrinks"]


@pytest.mark.parametrize(
    "governors",
    [
        pytest.param((), id="its autoscaler is gone"),
        pytest.param((boosting(UP, mode=UpdateMode.OFF),), id="mode off"),
        pytest.param((boosting(),), id="no recommendation"),
    ],
)
def test_the_end_of_a_boost_never_takes_memory_back(governors: tuple[Autoscaler, ...]) -> None:
    grown = amounts(400, 4000 * MIB)
    pod = structs.replace(
        boosted(ready=minutes(2)),
        containers=(a_container(requests=grown, limits=grown),),
        annotations={
            **BOOST_TOLD,
            annotation_name("app"): format_original(Allocation(SMALL, SMALL)),
        },
    )

    outcomes = planned(snapshot_of([pod], *governors))

    assert unboosted_to(outcomes) == {"app": Allocation(amounts(100), amounts(100))}


@pytest.mark.parametrize(
    "autoscaler",
    [
        pytest.param(
            replace(boosting(DOWN), conditions=(Condition("UsageStale", "True"),)),
            id="the usage is stale",
        ),
        pytest.param(
            replace(boosting(DOWN), conditions=(Condition("RecommendationSuspicious", "True"),)),
            id="the recommendation is suspicious",
        ),
        pytest.param(
            boosting(a_recommendation(target=amounts(0, 0))), id="the target is nothing at all"
        ),
    ],
)
def test_the_end_of_a_boost_does_not_follow_a_recommendation_in_doubt(
    autoscaler: Autoscaler,
) -> None:
    pod = with_side(boosted(ready=minutes(2)))
    beside = replace(DOWN, container_name="side")
    recommended = (*(autoscaler.recommendation or ()), beside)

    outcomes = planned(snapshot_of([pod], replace(autoscaler, recommendation=recommended)))

    assert unboosted_to(outcomes) == {"app": Allocation(amounts(100), {})}


def test_a_limit_range_of_the_pod_does_not_make_a_boost_its_own_recommendation() -> None:
    pod = with_side(boosted(ready=minutes(2)))
    item = LimitRangeItem(LimitRangeType.POD, max=amounts(100_000, 100_000 * MIB))
    autoscaler = boosting(replace(UP, container_name="side"))

    outcomes = planned(snapshot_of([pod], autoscaler, limit_ranges={"default": [item]}))

    assert unboosted_to(outcomes) == {"app": Allocation(amounts(100), {})}


def test_an_empty_recommendation_changes_no_other_container() -> None:
    pod = with_side(boosted(ready=minutes(2)))
    item = LimitRangeItem(LimitRangeType.POD, max=amounts(100, 100 * MIB))
    autoscaler = replace(boosting(), recommendation=())

    outcomes = planned(snapshot_of([pod], autoscaler, limit_ranges={"default": [item]}))

    assert unboosted_to(outcomes) == {"app": Allocation(amounts(100), {})}


@pytest.mark.parametrize("mode", list(UpdateMode))
def test_the_end_of_a_boost_changes_no_container_that_was_never_boosted(mode: UpdateMode) -> None:
    pod = with_side(boosted(ready=minutes(2)))
    autoscaler = boosting(DOWN, replace(DOWN, container_name="side"), mode=mode)

    assert unboosted_to(planned(snapshot_of([pod], autoscaler))).keys() == {"app"}


def test_limits_follow_in_the_proportion_of_the_spec_and_not_of_the_boost() -> None:
    # A quantity of 2 CPUs was added to the request of 100m and to the limit of 200m.
    pod = structs.replace(
        boosted(ready=minutes(2)),
        containers=(a_container(requests=amounts(2100, MIB), limits=amounts(2200, MIB)),),
        annotations={
            **BOOST_TOLD,
            annotation_name("app"): format_original(Allocation(amounts(100), amounts(200))),
        },
    )

    outcomes = planned(snapshot_of([pod], boosting(a_recommendation(target=amounts(150, MIB)))))

    assert unboosted_to(outcomes) == {"app": Allocation(amounts(150), amounts(300))}


def test_f25_a_boost_ends_when_its_autoscaler_boosts_no_more() -> None:
    snapshot = snapshot_of([boosted(ready=minutes(0))], an_autoscaler(UP))

    assert told(planned(snapshot)) == ["Unboost"]


@pytest.mark.parametrize(
    ("age", "limit", "expected"),
    [
        pytest.param(minutes(29), minutes(30), "BoostActive", id="before the limit"),
        pytest.param(minutes(31), minutes(30), "Unboost", id="past the limit"),
        pytest.param(hours(9), None, "BoostActive", id="no limit"),
    ],
)
def test_f25_a_pod_that_never_gets_ready_is_unboosted_at_the_hard_limit(
    age: timedelta, limit: timedelta | None, expected: str
) -> None:
    snapshot = snapshot_of([boosted(age=age)], boosting(UP))

    assert told(planned(snapshot, PlanSettings(max_boost_duration=limit))) == [expected]


def test_d9_a_failed_unboost_waits_and_never_evicts() -> None:
    pod, autoscaler = boosted(ready=minutes(2)), boosting(UP)
    memory = {(pod.uid, autoscaler.identity): PodMemory(unboost=Retry(4, NOW + minutes(8)))}

    outcomes = planned(snapshot_of([pod], autoscaler, pod_memory=memory))

    assert told(outcomes) == ["UnboostDelayed"]


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        pytest.param(PodMemory(), amounts(500), id="at first the recommendation"),
        pytest.param(
            PodMemory(unboost_error="exceeded quota"), amounts(400), id="then no more than it has"
        ),
    ],
)
def test_an_end_that_the_api_server_refused_asks_for_no_growth(
    memory: PodMemory, expected: Resources
) -> None:
    pod, autoscaler = boosted(ready=minutes(2)), boosting(UP)
    grown = structs.replace(
        pod, containers=(a_container(requests=amounts(450), status=Allocation(amounts(400))),)
    )
    known = {(pod.uid, autoscaler.identity): memory}

    wanted = unboosted_to(planned(snapshot_of([grown], autoscaler, pod_memory=known)))["app"]

    assert wanted.requests == expected


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        pytest.param(minutes(0.1), "ResizeInProgress", id="the view may be older"),
        pytest.param(minutes(0.2), "Unboost", id="it was written again"),
    ],
)
def test_a_mark_that_was_removed_is_not_removed_again_while_the_view_still_shows_it(
    since: timedelta, expected: str
) -> None:
    pod, autoscaler = boosted(ready=minutes(2)), boosting(UP)
    found = PodMemory(unmarked=frozenset({"app"}), unmarked_at=NOW - since)
    memory = {(pod.uid, autoscaler.identity): found}

    outcomes = planned(snapshot_of([pod], autoscaler, pod_memory=memory))

    assert told(outcomes) == [expected]


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(boosted(ready=minutes(2), phase=PodPhase.PENDING), "PodPending", id="pending"),
        pytest.param(
            boosted(ready=minutes(2), resize=ResizeState.IN_PROGRESS),
            "ResizeInProgress",
            id="another resize is under way",
        ),
        pytest.param(
            boosted(ready=minutes(2), resize=ResizeState.DEFERRED),
            "Unboost",
            id="another resize is put off",
        ),
        pytest.param(boosted(ready=minutes(2), owner=None), "Unboost", id="a pod that nobody owns"),
    ],
)
def test_what_the_end_of_a_boost_waits_for(pod: Pod, expected: str) -> None:
    assert told(planned(snapshot_of([pod], boosting(UP)))) == [expected]


def test_boosts_end_without_budget_for_they_disturb_nobody() -> None:
    pods = [boosted(ready=minutes(2), name=f"web-{index}") for index in range(3)]
    waiting = boosted(name="web-3", phase=PodPhase.PENDING)

    outcomes = planned(snapshot_of([*pods, waiting], boosting(UP)))

    assert told(outcomes) == ["Unboost"] * 3 + ["BoostActive"]


def test_d8_past_the_hard_limit_the_boost_of_a_pod_that_does_not_even_run_ends() -> None:
    pod = boosted(age=hours(1), phase=PodPhase.PENDING, node_name="node-1")

    assert told(planned(snapshot_of([pod], boosting(UP)))) == ["Unboost"]


@pytest.mark.parametrize(
    ("resize", "since", "expected"),
    [
        pytest.param(ResizeState.INFEASIBLE, minutes(5), "Unboost", id="refused"),
        pytest.param(ResizeState.DEFERRED, minutes(1), "Unboost", id="put off"),
        pytest.param(ResizeState.ERROR, minutes(5), "Unboost", id="failed"),
        pytest.param(ResizeState.PENDING_UNKNOWN, minutes(5), "Unboost", id="pending"),
        pytest.param(ResizeState.IN_PROGRESS, minutes(59), "ResizeInProgress", id="under way"),
        pytest.param(ResizeState.IN_PROGRESS, None, "ResizeInProgress", id="under way since now"),
        pytest.param(ResizeState.IN_PROGRESS, minutes(61), "Unboost", id="under way for too long"),
    ],
)
@pytest.mark.parametrize(
    "ready", [pytest.param(None, id="never ready"), pytest.param(hours(29), id="long ready")]
)
def test_d8_no_stuck_resize_keeps_a_boost_past_the_hard_limit(
    resize: ResizeState, since: timedelta | None, expected: str, ready: timedelta | None
) -> None:
    pod, autoscaler = boosted(age=hours(30), ready=ready, resize=resize), boosting(UP)
    memory = PodMemory(ResizeMemory(resize_since=None if since is None else NOW - since))

    outcomes = planned(
        snapshot_of([pod], autoscaler, pod_memory={(pod.uid, autoscaler.identity): memory})
    )

    assert told(outcomes) == [expected]


def test_f24_a_restart_at_the_end_of_a_boost_needs_budget_at_any_time() -> None:
    container = a_container(requests=SMALL, restarts_on_resize=True)
    pods = [
        structs.replace(boosted(age=hours(1), name=f"web-{index}"), containers=(container,))
        for index in range(4)
    ]

    outcomes = planned(snapshot_of(pods, boosting(UP)))

    assert told(outcomes) == ["Unboost"] * 2 + ["BudgetSpent"] * 2


def test_a_boost_ends_without_an_admission_controller() -> None:
    snapshot = snapshot_of([boosted(ready=minutes(2))], boosting(UP), admission_alive=False)

    assert told(planned(snapshot)) == ["Unboost"]


@pytest.mark.parametrize("mode", [UPSCALE_ONLY, UpdateMode.INITIAL])
def test_d18_a_recommendation_that_fell_takes_no_cpu_from_a_pod_that_may_not_shrink(
    mode: UpdateMode,
) -> None:
    container = a_container(requests=amounts(2000, MIB), status=Allocation(amounts(2000, MIB)))
    pod = structs.replace(
        boosted(ready=minutes(2)),
        containers=(container,),
        annotations={
            **BOOST_TOLD,
            annotation_name("app"): format_original(Allocation(amounts(500, MIB))),
        },
    )

    outcomes = planned(snapshot_of([pod], boosting(DOWN, mode=mode)))

    assert unboosted_to(outcomes) == {"app": Allocation(amounts(500), {})}


@pytest.mark.parametrize(
    ("replicas", "minimum", "expected"),
    [
        pytest.param(1, None, "BelowMinReplicas", id="fewer pods than the default minimum"),
        pytest.param(1, 1, "BudgetSpent", id="the last ready pod"),
        pytest.param(4, None, "Unboost", id="others are ready"),
    ],
)
def test_d17_the_end_of_a_boost_never_restarts_the_last_ready_pod(
    replicas: int, minimum: int | None, expected: str
) -> None:
    container = a_container(requests=amounts(400, MIB), restarts_on_resize=True)
    first = structs.replace(boosted(ready=minutes(2), name="web-0"), containers=(container,))
    others = [
        a_pod(name=f"web-{index}", ready_since=NOW - hours(1)) for index in range(1, replicas)
    ]
    autoscaler = replace(boosting(mode=UpdateMode.INITIAL), min_replicas=minimum)

    outcomes = planned(snapshot_of([first, *others], autoscaler))

    assert told([each for each in outcomes if each.pod.name == "web-0"]) == [expected]


@pytest.mark.parametrize(
    ("readiness", "settling", "expected"),
    [
        pytest.param([minutes(60)], [], ["Unboost"], id="a single pod"),
        pytest.param([minutes(60), None], [], ["Unboost", "BudgetSpent"], id="the last ready pod"),
        pytest.param(
            [minutes(60), minutes(60)], ["uid-web-1"], ["BudgetSpent"] * 2, id="one restarts still"
        ),
    ],
)
def test_d8_boosts_whose_end_restarts_end_at_the_hard_limit_one_by_one(
    readiness: list[timedelta | None], settling: list[str], expected: list[str]
) -> None:
    container = a_container(requests=amounts(400, MIB), restarts_on_resize=True)
    pods = [
        structs.replace(
            boosted(ready=ready, age=hours(2), name=f"web-{index}"),
            containers=(container,),
        )
        for index, ready in enumerate(readiness)
    ]

    outcomes = planned(snapshot_of(pods, boosting(), settling=frozenset(settling)))

    assert told(outcomes) == expected


def test_the_end_of_a_boost_is_not_asked_for_where_no_pod_can_be_resized() -> None:
    pod = boosted(ready=minutes(60), age=hours(2), is_windows=True)

    (hold,) = planned(snapshot_of([pod], boosting()))

    assert isinstance(hold, Hold)
    assert hold.reason is HoldReason.UNBOOST_DELAYED
    assert "Windows pods cannot be resized" in hold.detail


REQUESTS_ONLY = (ContainerPolicy("app", controlled_values=ControlledValues.REQUESTS_ONLY),)


@pytest.mark.parametrize(
    ("own", "live", "expected"),
    [
        pytest.param(
            Allocation(amounts(500, 100 * MIB), amounts(1000, 200 * MIB)),
            Allocation(amounts(900, 100 * MIB), amounts(1800, 200 * MIB)),
            Allocation(amounts(300), amounts(1000)),
            id="the limit of the spec comes back",
        ),
        pytest.param(
            Allocation(amounts(500, 100 * MIB), amounts(500, 100 * MIB)),
            Allocation(amounts(900, 100 * MIB), amounts(900, 100 * MIB)),
            Allocation(amounts(500), amounts(500)),
            id="a guaranteed pod goes back to its spec",
        ),
        pytest.param(
            Allocation(amounts(100, 100 * MIB), amounts(200, 200 * MIB)),
            Allocation(amounts(300, 100 * MIB), amounts(600, 200 * MIB)),
            Allocation(amounts(200), amounts(200)),
            id="no request exceeds its limit",
        ),
    ],
)
def test_a_boost_ends_under_a_policy_that_does_not_control_limits_any_more(
    own: Allocation, live: Allocation, expected: Allocation
) -> None:
    container = a_container(requests=live.requests, limits=live.limits, status=live)
    pod = structs.replace(
        boosted(ready=minutes(2)),
        containers=(container,),
        annotations={**BOOST_TOLD, annotation_name("app"): format_original(own)},
    )
    usual = boosting(a_recommendation(target=amounts(300, 100 * MIB)))

    outcomes = planned(snapshot_of([pod], replace(usual, policies=REQUESTS_ONLY)))

    assert unboosted_to(outcomes) == {"app": expected}


def test_the_end_of_a_boost_keeps_a_pod_burstable_whose_memory_is_at_its_limit() -> None:
    live = Allocation(amounts(29, 300 * MIB), amounts(30, 300 * MIB))
    pod = structs.replace(
        boosted(ready=minutes(2)),
        containers=(a_container(requests=live.requests, limits=live.limits, status=live),),
        annotations={
            **BOOST_TOLD,
            annotation_name("app"): format_original(
                Allocation(amounts(10, 100 * MIB), amounts(10, 300 * MIB))
            ),
        },
    )

    assert unboosted_to(planned(snapshot_of([pod]))) == {"app": Allocation(amounts(9), amounts(10))}


GATE_OFF = PlanSettings(gates=FeatureGates(cpu_startup_boost=False))


@pytest.mark.parametrize(
    "mode", [UpdateMode.AUTO, UpdateMode.RECREATE, EITHER, IN_PLACE, UPSCALE_ONLY]
)
def test_with_the_gate_off_no_pod_is_changed_for_its_boost(mode: UpdateMode) -> None:
    usual = a_recommendation(target=amounts(50, 100 * MIB), upper=amounts(60, 200 * MIB))
    pods = [boosted(ready=hours(2), age=hours(30), name=f"web-{index}") for index in range(3)]

    outcomes = planned(snapshot_of(pods, boosting(usual, mode=mode)), GATE_OFF)

    assert told(outcomes) == ["BoostActive"] * 3


def test_with_the_gate_off_a_boosted_pod_still_gets_more_memory_and_keeps_its_cpu() -> None:
    pods = [boosted(ready=minutes(2), name=f"web-{index}") for index in range(4)]

    outcomes = planned(snapshot_of(pods, boosting(UP)), GATE_OFF)

    resized = [each for each in outcomes if isinstance(each, Resize)]
    assert resized
    for each in resized:
        assert each.wanted == {"app": Allocation(amounts(memory=500 * MIB), {})}


def causes(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """By pod why its boost ends."""
    return {each.pod.name: each.cause.value for each in outcomes if isinstance(each, Unboost)}


@pytest.mark.parametrize(
    ("pod", "autoscaler", "expected"),
    [
        pytest.param(boosted(ready=minutes(2)), boosting(UP), "BoostOver", id="its time is over"),
        pytest.param(boosted(age=hours(1)), boosting(UP), "BoostTooLong", id="never ready"),
        pytest.param(
            boosted(ready=minutes(0)), an_autoscaler(UP), "BoostUnwanted", id="no boost any more"
        ),
        pytest.param(boosted(ready=minutes(0)), None, "BoostUnwanted", id="no autoscaler any more"),
        pytest.param(
            boosted(phase=PodPhase.PENDING, unschedulable_since=NOW - minutes(1)),
            boosting(UP),
            "BoostUnschedulable",
            id="no node has room for it",
        ),
    ],
)
def test_the_plan_says_why_a_boost_ends(
    pod: Pod, autoscaler: Autoscaler | None, expected: str
) -> None:
    governors = () if autoscaler is None else (autoscaler,)

    assert causes(planned(snapshot_of([pod], *governors))) == {"web-0": expected}


@pytest.mark.parametrize(
    ("governors", "expected"),
    [
        pytest.param((), "Unboost", id="its autoscaler is gone"),
        pytest.param((an_autoscaler(UP),), "Unboost", id="its autoscaler boosts no more"),
        pytest.param((boosting(UP),), "BoostActive", id="it is still wanted"),
    ],
)
def test_f25_without_a_hard_limit_a_boost_that_nobody_wants_ends_all_the_same(
    governors: tuple[Autoscaler, ...], expected: str
) -> None:
    snapshot = snapshot_of([boosted(age=hours(1))], *governors)

    assert told(planned(snapshot, PlanSettings(max_boost_duration=None))) == [expected]


@pytest.mark.parametrize(
    ("pod", "until"),
    [
        pytest.param(
            boosted(ready=minutes(0.5)), NOW + minutes(0.5), id="the duration after readiness"
        ),
        pytest.param(boosted(age=minutes(5)), NOW + minutes(25), id="the hard limit"),
        pytest.param(
            boosted(ready=minutes(0.5), age=minutes(29.75)),
            NOW + minutes(0.25),
            id="whichever comes first",
        ),
        pytest.param(
            boosted(phase=PodPhase.PENDING, unschedulable_since=NOW - timedelta(seconds=2)),
            NOW + timedelta(seconds=58),
            id="a little patience with the scheduler",
        ),
    ],
)
def test_a_boost_that_lasts_says_until_when(pod: Pod, until: datetime) -> None:
    (hold,) = planned(snapshot_of([pod], boosting(UP)))

    assert isinstance(hold, Hold)
    assert hold.reason.value == "BoostActive"
    assert hold.until == until


def test_d9_a_failed_end_says_when_it_is_tried_again() -> None:
    pod, autoscaler = boosted(ready=minutes(2)), boosting(UP)
    memory = {(pod.uid, autoscaler.identity): PodMemory(unboost=Retry(4, NOW + minutes(8)))}
    (hold,) = planned(snapshot_of([pod], autoscaler, pod_memory=memory))

    assert isinstance(hold, Hold)
    assert hold.until == NOW + minutes(8)


def test_f26_a_boost_for_which_there_is_no_room_ends_after_a_minute() -> None:
    pod = boosted(phase=PodPhase.PENDING, unschedulable_since=NOW - timedelta(seconds=60))
    outcomes = planned(snapshot_of([pod], boosting(UP, mode=UpdateMode.OFF)))

    assert unboosted_to(outcomes) == {"app": Allocation(amounts(100), {})}


@pytest.mark.parametrize(
    ("timeout", "since", "expected"),
    [
        pytest.param(timedelta(seconds=5), timedelta(seconds=5), "Unboost", id="a short one"),
        pytest.param(minutes(10), minutes(9), "BoostActive", id="a long one"),
        pytest.param(None, hours(1), "BoostActive", id="none"),
    ],
)
def test_f26_how_long_a_boosted_pod_may_find_no_room_is_a_setting(
    timeout: timedelta | None, since: timedelta, expected: str
) -> None:
    pod = boosted(phase=PodPhase.PENDING, unschedulable_since=NOW - since)
    settings = PlanSettings(boost_unschedulable_timeout=timeout)

    assert told(planned(snapshot_of([pod], boosting(UP)), settings)) == [expected]


def test_boosts_that_are_too_many_on_a_node_end_at_once() -> None:
    pods = [boosted(name=f"web-{index}", node_name="node-1") for index in range(3)]
    crowded = frozenset({"uid-web-2"})

    outcomes = planned(snapshot_of(pods, boosting(UP), crowded=crowded))

    assert causes(outcomes) == {"web-2": "BoostsCrowded"}
    assert told(outcomes) == ["Unboost", "BoostActive", "BoostActive"]


REFUSALS = [ResizeState.INFEASIBLE, ResizeState.DEFERRED, ResizeState.ERROR]


def refused(resize: ResizeState) -> Pod:
    """A pod whose kubelet keeps the CPU of a boost although the spec asks for less."""
    container = a_container(
        requests=amounts(50, 100 * MIB), status=Allocation(amounts(400, 100 * MIB))
    )
    return structs.replace(
        boosted(ready=hours(2), age=hours(30), resize=resize),
        containers=(container,),
        resize_message="the node says no",
    )


@pytest.mark.parametrize("resize", REFUSALS)
@pytest.mark.parametrize("mode", list(UpdateMode))
@pytest.mark.parametrize("since", [minutes(0), minutes(10), hours(9)])
def test_d20_a_pod_whose_kubelet_refuses_the_end_of_a_boost_is_only_asked_again(
    resize: ResizeState, mode: UpdateMode, since: timedelta
) -> None:
    pod, autoscaler = refused(resize), boosting(DOWN, mode=mode)
    asked = PodMemory(
        ResizeMemory(resize_since=NOW - since),
        last_updated_at=NOW - since,
        unboost=Retry(1, NOW - since + timedelta(seconds=10)),
        unboost_asked={"app": Allocation(amounts(50), {})},
    )
    for memory in ({}, {(pod.uid, autoscaler.identity): asked}):
        [outcome] = planned(snapshot_of([pod], autoscaler, pod_memory=memory))

        if isinstance(outcome, Hold):
            assert outcome.reason is HoldReason.UNBOOST_DELAYED
            assert outcome.detail == f"the kubelet answers {resize}: the node says no"
        else:
            assert isinstance(outcome, Unboost)
            assert not outcome.is_reported


def test_d20_the_mark_goes_when_the_kubelet_reports_the_size_that_was_asked_for() -> None:
    autoscaler = boosting(DOWN)
    shrunk = a_container(requests=amounts(60, 100 * MIB), status=Allocation(amounts(60, 100 * MIB)))
    pod = structs.replace(boosted(ready=minutes(2)), containers=(shrunk,))
    # The recommendation moved from 60m to 50m since the kubelet was asked.
    asked = PodMemory(
        unboost=Retry(1, NOW + minutes(1)), unboost_asked={"app": Allocation(amounts(60), {})}
    )

    outcomes = planned(
        snapshot_of([pod], autoscaler, pod_memory={(pod.uid, autoscaler.identity): asked})
    )

    assert outcomes == [Unboost(pod, autoscaler.identity, ("app",), {})]
    assert [each.is_reported for each in outcomes if isinstance(each, Unboost)] == [True]


def test_d20_after_a_restart_of_the_updater_a_reported_size_is_enough() -> None:
    autoscaler = boosting(DOWN)
    shrunk = a_container(requests=amounts(50, 100 * MIB), status=Allocation(amounts(50, 100 * MIB)))
    pod = structs.replace(boosted(ready=minutes(2)), containers=(shrunk,))

    assert planned(snapshot_of([pod], autoscaler)) == [
        Unboost(pod, autoscaler.identity, ("app",), {})
    ]


def test_d20_an_end_that_was_asked_for_stands_when_the_pod_is_not_ready_any_more() -> None:
    pod, autoscaler = (
        structs.replace(refused(ResizeState.DEFERRED), ready_since=None, started_at=NOW),
        boosting(DOWN),
    )
    asked = PodMemory(
        unboost=Retry(1, NOW + minutes(1)), unboost_asked={"app": Allocation(amounts(50), {})}
    )
    known = {(pod.uid, autoscaler.identity): asked}

    assert told(planned(snapshot_of([pod], autoscaler, pod_memory=known))) == ["UnboostDelayed"]


def test_an_end_keeps_its_cause_until_the_mark_goes() -> None:
    shrunk = a_container(requests=amounts(50, 100 * MIB))
    pod, autoscaler = structs.replace(boosted(), containers=(shrunk,)), boosting(DOWN)
    asked = PodMemory(
        unboost_asked={"app": Allocation(amounts(50), {})},
        unboost_cause=EndOfBoost.UNSCHEDULABLE,
    )

    outcomes = planned(
        snapshot_of([pod], autoscaler, pod_memory={(pod.uid, autoscaler.identity): asked})
    )

    assert causes(outcomes) == {"web-0": "BoostUnschedulable"}


def test_a_marked_pod_whose_resize_is_put_off_goes_back_without_growing() -> None:
    has = amounts(400, 100 * MIB)
    pod = structs.replace(
        boosted(ready=minutes(2), resize=ResizeState.DEFERRED),
        containers=(a_container(requests=amounts(900, 100 * MIB), status=Allocation(has)),),
    )
    grown = boosting(a_recommendation(target=amounts(900, 500 * MIB)))

    assert unboosted_to(planned(snapshot_of([pod], grown))) == {"app": Allocation(amounts(400), {})}
