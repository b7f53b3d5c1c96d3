"""Why nothing is done about a pod: all reasons, and when they end."""

from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from support.makers.plans import DOWN, REPLICA_SET, UP, WEB, boosted, boosting, several, snapshot_of
from support.makers.records import (
    MIB,
    NOW,
    a_container,
    a_recommendation,
    amounts,
    an_autoscaler,
    hours,
    minutes,
)
from support.strategies.plans import a_snapshot, seeds, some_settings

from trimtab.core.changes.outcomes import Evict, Hold, Resize, Unboost
from trimtab.core.explain.pod_checks import PodExplanation, act_of, explain_pod, view_plan
from trimtab.core.explain.update_checks import CheckVerdict, PodCheck
from trimtab.core.guards.eviction_brake import Lack, find_brake
from trimtab.core.model.autoscalers import (
    Autoscaler,
    ChangeDirection,
    Condition,
    ContainerPolicy,
    EvictionRequirement,
    Held,
    UpdateMode,
)
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import PAUSED, Allocation, ResizeState, Termination
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.sizing.quotas import Quota, QuotaClaim, Side
from trimtab.core.updates.checks.check import KIND_OF, REMEMBERED, CheckKind
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.resize_or_evict import Action, InfeasibleAttempt, ResizeMemory
from trimtab.core.updates.snapshot import PodMemory, Retry, Snapshot

SETTINGS = PlanSettings(max_unproven=3)
INSIDE = replace(UP, lower_bound=amounts(50, 50 * MIB), upper_bound=amounts(900, 900 * MIB))


def heard(
    snapshot: Snapshot, settings: PlanSettings = SETTINGS, *, place: int = 0, now: datetime = NOW
) -> PodExplanation:
    view = view_plan(snapshot, settings, now)
    found = explain_pod(snapshot.pods[place], view)
    assert found is not None
    return found


def blocked(explanation: PodExplanation) -> dict[CheckKind, HoldReason | None]:
    return {
        each.kind: each.reason
        for each in explanation.checks
        if each.verdict is CheckVerdict.BLOCKED
    }


def check(explanation: PodExplanation, kind: CheckKind) -> PodCheck:
    (found,) = [each for each in explanation.checks if each.kind is kind]
    return found


def remembering(autoscaler: Autoscaler, **fields: object) -> dict[str, object]:
    memory = PodMemory(**fields)  # type: ignore[arg-type]
    return {"pod_memory": {("uid-web-0", autoscaler.identity): memory}}


def test_each_reason_of_a_hold_answers_a_question() -> None:
    assert KIND_OF.keys() == set(HoldReason)
    assert set(KIND_OF.values()) == set(CheckKind)


def test_nothing_stands_in_the_way_of_a_pod_that_is_changed() -> None:
    found = heard(snapshot_of(several(3), an_autoscaler(UP)))

    assert isinstance(found.outcome, Evict)
    assert found.way is Action.EVICT
    assert blocked(found) == {}
    assert check(found, CheckKind.QUOTA).verdict is CheckVerdict.CLEAR
    assert check(found, CheckKind.BOOST).verdict is CheckVerdict.NOT_ASKED


def test_all_reasons_are_told_and_the_one_that_the_plan_gives_is_marked() -> None:
    paused = an_autoscaler(INSIDE, annotations={PAUSED: "true"})
    found = heard(snapshot_of(several(1), paused, admission_alive=False))

    assert blocked(found) == {
        CheckKind.LIFETIME: HoldReason.TOO_YOUNG,
        CheckKind.ADMISSION: HoldReason.ADMISSION_ABSENT,
        CheckKind.REPLICAS: HoldReason.BELOW_MIN_REPLICAS,
        CheckKind.PAUSE: HoldReason.PAUSED,
    }
    assert [each.kind for each in found.checks if each.is_decisive] == [CheckKind.LIFETIME]


@pytest.mark.parametrize(
    ("autoscaler", "fields", "expected"),
    [
        pytest.param(
            an_autoscaler(UP, mode=UpdateMode.OFF), {}, HoldReason.MODE_OFF, id="mode Off"
        ),
        pytest.param(
            an_autoscaler(UP, mode=UpdateMode.INITIAL),
            {},
            HoldReason.MODE_INITIAL,
            id="mode Initial",
        ),
        pytest.param(an_autoscaler(), {}, HoldReason.NO_RECOMMENDATION, id="nothing recommended"),
        pytest.param(
            an_autoscaler(UP, conditions=(Condition("UsageStale", "True"),)),
            {},
            HoldReason.RECOMMENDATION_STALE,
            id="the recommender doubts itself",
        ),
        pytest.param(
            an_autoscaler(DOWN, mode=UpdateMode.UPSCALE_ONLY),
            {},
            HoldReason.ONLY_SHRINKS,
            id="UpscaleOnly",
        ),
        pytest.param(
            an_autoscaler(
                DOWN, requirements=(EvictionRequirement(BOTH, ChangeDirection.TARGET_HIGHER),)
            ),
            {},
            HoldReason.REQUIREMENT_NOT_MET,
            id="an eviction requirement",
        ),
        pytest.param(
            an_autoscaler(UP), {"configured_replicas": {}}, HoldReason.REPLICAS_UNKNOWN, id="owner"
        ),
        pytest.param(
            an_autoscaler(UP),
            {"configured_replicas": {REPLICA_SET: 6}},
            HoldReason.BUDGET_SPENT,
            id="pods are missing already",
        ),
        pytest.param(
            an_autoscaler(UP), {"unproven": {WEB: 3}}, HoldReason.EFFECT_AWAITED, id="unproven"
        ),
        pytest.param(
            an_autoscaler(UP),
            {"brake": find_brake({WEB: Lack(NOW)}, {}, {})},
            HoldReason.SUCCESSORS_MISSING,
            id="an evicted sibling has no successor",
        ),
        pytest.param(
            an_autoscaler(a_recommendation(target=amounts(500), lower=amounts(400))),
            {
                "quotas": {
                    "default": [
                        Quota("default", "small", {QuotaClaim(Side.REQUESTS, Resource.CPU): 100})
                    ]
                }
            },
            HoldReason.QUOTA_EXCEEDED,
            id="a quota",
        ),
        pytest.param(
            an_autoscaler(UP, policies=(ContainerPolicy("*", min_allowed=amounts(500)),)),
            {
                "limit_ranges": {
                    "default": [
                        LimitRangeItem(
                            LimitRangeType.CONTAINER, max=amounts(200), default=amounts(200)
                        )
                    ]
                }
            },
            HoldReason.LIMIT_RANGE_REFUSES,
            id="a limit range",
        ),
        pytest.param(
            an_autoscaler(UP, held=frozenset({Held(Resource.CPU)})),
            {"template_sizes": {REPLICA_SET: {"app": Allocation(amounts(1, 100 * MIB))}}},
            HoldReason.SUCCESSOR_SMALLER,
            id="a template with less of what is held",
        ),
        pytest.param(
            an_autoscaler(UP),
            {"staged_revisions": {REPLICA_SET: "web-2"}},
            HoldReason.REVISION_STAGED,
            id="a template that is staged",
        ),
        pytest.param(
            an_autoscaler(UP),
            {"paused_namespaces": frozenset({"default"})},
            HoldReason.PAUSED,
            id="a paused namespace",
        ),
        pytest.param(
            an_autoscaler(UP, mode=UpdateMode.IN_PLACE),
            {"resizes_in_place": False},
            HoldReason.RESIZE_UNSUPPORTED,
            id="a cluster without resizes",
        ),
    ],
)
def test_the_reason_of_a_hold_is_the_only_one_that_is_found(
    autoscaler: Autoscaler, fields: dict[str, object], expected: HoldReason
) -> None:
    found = heard(snapshot_of(several(3), autoscaler, **fields))

    assert blocked(found) == {KIND_OF[expected]: expected}
    assert check(found, KIND_OF[expected]).is_decisive
    assert check(found, KIND_OF[expected]).until is None


IN_PLACE = an_autoscaler(UP, mode=UpdateMode.IN_PLACE_OR_RECREATE)
FORMER = amounts(100, 100 * MIB)


@pytest.mark.parametrize(
    ("autoscaler", "fields", "expected", "until"),
    [
        pytest.param(
            an_autoscaler(INSIDE), {}, HoldReason.TOO_YOUNG, hours(11), id="half a day of life"
        ),
        pytest.param(
            an_autoscaler(UP),
            remembering(an_autoscaler(UP), last_updated_at=NOW - minutes(1)),
            HoldReason.COOL_DOWN,
            minutes(4),
            id="five minutes after a resize",
        ),
        pytest.param(
            an_autoscaler(DOWN),
            remembering(an_autoscaler(DOWN), governed_since=NOW - minutes(0.5)),
            HoldReason.ROLE_DWELL,
            minutes(0.5),
            id="a minute in a role",
        ),
        pytest.param(
            an_autoscaler(UP),
            remembering(an_autoscaler(UP), eviction=Retry(1, NOW + minutes(3))),
            HoldReason.POD_DISRUPTION_BUDGET,
            minutes(3),
            id="a refused eviction",
        ),
        pytest.param(
            an_autoscaler(UP),
            {"convergence": {WEB: Retry(1, NOW + minutes(7))}},
            HoldReason.NOT_CONVERGING,
            minutes(7),
            id="a change that did not show",
        ),
        pytest.param(
            an_autoscaler(UP),
            {"brake": find_brake({WEB._replace(name="other"): Lack(NOW)}, {}, {})},
            HoldReason.SUCCESSORS_MISSING,
            minutes(10),
            id="another workload of the namespace lacks a successor",
        ),
        pytest.param(
            an_autoscaler(UP),
            {"convergence": {WEB: Retry(3, NOW + minutes(7))}},
            HoldReason.NOT_CONVERGING,
            None,
            id="too many changes that did not show",
        ),
    ],
)
def test_it_is_told_when_time_alone_will_do(
    autoscaler: Autoscaler,
    fields: dict[str, object],
    expected: HoldReason,
    until: timedelta | None,
) -> None:
    snapshot = snapshot_of(several(3), autoscaler, **fields)
    found = check(heard(snapshot), KIND_OF[expected])
    end = None if until is None else NOW + until

    assert (found.verdict, found.reason, found.until) == (CheckVerdict.BLOCKED, expected, end)
    if end is not None:
        assert KIND_OF[expected] not in blocked(heard(snapshot, now=end))
        assert KIND_OF[expected] in blocked(heard(snapshot, now=end - timedelta.resolution))


@pytest.mark.parametrize(
    ("mode", "state", "expected", "until"),
    [
        pytest.param(
            UpdateMode.IN_PLACE_OR_RECREATE,
            ResizeState.DEFERRED,
            HoldReason.RESIZE_DEFERRED,
            minutes(4),
            id="an eviction takes the place of a resize that waits",
        ),
        pytest.param(
            UpdateMode.IN_PLACE_OR_RECREATE,
            ResizeState.IN_PROGRESS,
            HoldReason.RESIZE_IN_PROGRESS,
            minutes(59),
            id="an hour is enough for any resize",
        ),
        pytest.param(
            UpdateMode.IN_PLACE,
            ResizeState.DEFERRED,
            HoldReason.RESIZE_DEFERRED,
            None,
            id="who never evicts waits for ever",
        ),
    ],
)
def test_a_resize_that_is_under_way_has_its_time(
    mode: UpdateMode, state: ResizeState, expected: HoldReason, until: timedelta | None
) -> None:
    autoscaler = an_autoscaler(UP, mode=mode)
    memory = remembering(autoscaler, resize=ResizeMemory(resize_since=NOW - minutes(1)))
    found = heard(snapshot_of(several(3, resize=state), autoscaler, **memory))
    # The last moment of the span is still part of it.
    end = None if until is None else NOW + until + timedelta.resolution

    assert blocked(found) == {CheckKind.RESIZE: expected}
    assert check(found, CheckKind.RESIZE).until == end


@pytest.mark.parametrize("mode", [UpdateMode.IN_PLACE, UpdateMode.UPSCALE_ONLY])
def test_of_a_resize_that_restarts_nothing_no_budget_is_asked(mode: UpdateMode) -> None:
    snapshot = snapshot_of(
        several(1), an_autoscaler(UP, mode=mode), configured_replicas={REPLICA_SET: 3}
    )
    found = heard(snapshot)

    assert isinstance(found.outcome, Resize)
    assert found.way is Action.RESIZE
    assert blocked(found) == {}
    assert check(found, CheckKind.BUDGET).verdict is CheckVerdict.NOT_ASKED
    assert check(found, CheckKind.REPLICAS).verdict is CheckVerdict.CLEAR


def test_a_restart_for_a_little_growth_is_told_as_too_small_a_change() -> None:
    killed = Termination("OOMKilled", NOW - minutes(2), NOW - minutes(1))
    container = a_container(requests=FORMER, last_termination=killed)
    little = a_recommendation(target=amounts(50, 101 * MIB))
    autoscaler = an_autoscaler(little, mode=UpdateMode.UPSCALE_ONLY)
    pods = several(2, containers=(container,))
    found = heard(snapshot_of(pods, autoscaler, resizes_in_place=False))

    assert blocked(found) == {CheckKind.CHANGE: HoldReason.CHANGE_TOO_SMALL}
    assert found.way is None


def test_an_eviction_for_a_successor_of_the_same_size_is_told_as_no_change() -> None:
    odd = a_recommendation(target=FORMER, upper=amounts(90, 90 * MIB))
    found = heard(snapshot_of(several(2), an_autoscaler(odd)))

    assert blocked(found) == {CheckKind.CHANGE: HoldReason.INSIDE_BOUNDS}


def test_an_eviction_in_place_of_growth_waits_for_the_cool_down() -> None:
    autoscaler = an_autoscaler(UP, mode=UpdateMode.IN_PLACE_OR_RECREATE)
    asked = ResizeMemory(infeasible=InfeasibleAttempt({"app": FORMER}, NOW - minutes(1)))
    memory = remembering(autoscaler, resize=asked, last_updated_at=NOW - minutes(1))
    found = check(heard(snapshot_of(several(3), autoscaler, **memory)), CheckKind.COOL_DOWN)

    assert (found.reason, found.until) == (HoldReason.COOL_DOWN, NOW + minutes(4))


def test_a_pod_that_waits_for_its_siblings_is_told_so() -> None:
    snapshot = snapshot_of(several(3), an_autoscaler(UP))
    outcomes = {
        each.pod.name: heard(snapshot, place=place) for place, each in enumerate(snapshot.pods)
    }
    acted = [name for name, found in outcomes.items() if isinstance(found.outcome, Evict)]
    held = [found for found in outcomes.values() if isinstance(found.outcome, Hold)]

    assert len(acted) == 1
    both = {
        CheckKind.BUDGET: HoldReason.BUDGET_SPENT,
        CheckKind.EARLIER_EVICTIONS: HoldReason.EFFECT_AWAITED,
    }
    assert [blocked(found) for found in held] == [both] * 2
    assert held[0].group is not None
    assert held[0].group.running == 3


def test_of_a_boosted_pod_only_its_boost_is_asked_about() -> None:
    autoscaler = boosting(UP)
    starting = heard(snapshot_of([boosted(ready=minutes(0.25))], autoscaler))
    over = heard(snapshot_of([boosted(ready=minutes(2))], autoscaler))
    orphan = heard(snapshot_of([boosted(ready=minutes(2))]))

    assert check(starting, CheckKind.BOOST).until == NOW + minutes(0.75)
    assert blocked(starting) == {CheckKind.BOOST: HoldReason.BOOST_ACTIVE}
    for ended in (over, orphan):
        assert isinstance(ended.outcome, Unboost)
        assert blocked(ended) == {}
    assert check(over, CheckKind.BUDGET).verdict is CheckVerdict.NOT_ASKED


def test_what_only_an_updater_remembers_is_unknown_without_one() -> None:
    snapshot = snapshot_of(several(3), an_autoscaler(UP))
    view = view_plan(snapshot, SETTINGS, NOW, unknown=REMEMBERED)
    found = explain_pod(snapshot.pods[0], view)
    assert found is not None
    unknown = {each.kind for each in found.checks if each.verdict is CheckVerdict.UNKNOWN}

    assert unknown == REMEMBERED


def test_a_pod_without_an_autoscaler_has_no_checks() -> None:
    snapshot = snapshot_of(several(1))

    assert explain_pod(snapshot.pods[0], view_plan(snapshot, SETTINGS, NOW)) is None


def test_what_was_planned_is_explained_and_not_a_plan_of_our_own() -> None:
    snapshot = snapshot_of(several(3), an_autoscaler(UP))
    name = an_autoscaler(UP).identity
    holds = [Hold(each.pod, name, HoldReason.SURGE) for each in snapshot.pods]
    view = view_plan(snapshot, SETTINGS, NOW, outcomes=holds)
    found = explain_pod(snapshot.pods[0], view)
    assert found is not None

    assert blocked(found) == {CheckKind.SURGE: HoldReason.SURGE}


@given(seeds)
def test_what_the_plan_says_is_what_is_found(dice: Random) -> None:
    snapshot, settings = a_snapshot(dice), some_settings(dice)
    view = view_plan(snapshot, settings, NOW)
    explanations = [found for each in snapshot.pods if (found := explain_pod(each, view))]

    assert {each.pod.uid for each in explanations} == view.outcomes.keys()
    for each in explanations:
        reasons = blocked(each)
        if isinstance(each.outcome, Hold):
            assert reasons[KIND_OF[each.outcome.reason]] is each.outcome.reason
            assert [one.kind for one in each.checks if one.is_decisive] == [
                KIND_OF[each.outcome.reason]
            ]
        else:
            assert reasons == {}


@given(seeds)
def test_until_it_passes_a_check_fails(dice: Random) -> None:
    snapshot, settings = a_snapshot(dice), some_settings(dice)
    view = view_plan(snapshot, settings, NOW)
    for observed in snapshot.pods:
        found = explain_pod(observed, view)
        said = found.outcome.until if found and isinstance(found.outcome, Hold) else None
        for each in () if found is None else found.checks:
            # What the plan itself says is its own affair.
            if each.until in (None, said):
                continue
            assert each.until is not None
            # The same outcomes: what siblings do meanwhile is another matter.
            outcomes = [one for one in view.outcomes.values() if act_of(one) is not None]
            held = [Hold(observed.pod, None, HoldReason.SURGE)]
            before, after = (
                explain_pod(
                    observed,
                    view_plan(snapshot, settings, moment, outcomes=[*outcomes, *held]),
                )
                for moment in (each.until - timedelta.resolution, each.until)
            )
            assert before is not None
            assert after is not None
            assert each.kind in blocked(before)
            assert each.kind not in blocked(after)
