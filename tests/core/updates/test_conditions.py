from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import (
    MIB,
    NOW,
    a_container,
    a_pod,
    a_recommendation,
    amounts,
    an_autoscaler,
    hours,
)

from trimtab.core.changes.change import Change
from trimtab.core.changes.outcomes import Evict, Hold, Outcome, Resize, Unboost
from trimtab.core.guards import degradation
from trimtab.core.guards.convergence import Expectation, Suspect
from trimtab.core.guards.degradation import Degradation
from trimtab.core.model.autoscalers import AutoscalerName, Condition
from trimtab.core.model.hold_reasons import WANTS_CHANGE, HoldReason
from trimtab.core.model.pods import WorkloadName
from trimtab.core.model.recommendation import PublishedRecommendation
from trimtab.core.recommendation.conditions import ConditionInputs, ConditionType, renew_conditions
from trimtab.core.updates.conditions import UpdateConditionType, has_news, update_conditions
from trimtab.core.updates.failed_changes import FailedChange
from trimtab.core.updates.snapshot import Retry

NAME = AutoscalerName("default", "web")
PROVIDED = Condition("RecommendationProvided", "True", last_transition_time=NOW - hours(5))
EVICT = Evict(a_pod(), NAME, Change())
RESIZE = Resize(a_pod(), NAME, {}, Change())
UNBOOST = Unboost(a_pod(), NAME, ("app",), {})


def held(reason: HoldReason, withheld: Evict | Resize | Unboost | None = None) -> Hold:
    return Hold(a_pod(), NAME, reason, withheld=withheld)


def a_miss(suspect: Suspect, failures: int) -> FailedChange:
    workload = WorkloadName("default", "Deployment", "web")
    expectation = Expectation(workload, NAME, "uid", {}, {}, NOW, None)
    return FailedChange(Retry(failures), suspect, expectation, frozenset())


def conditions_of(
    outcomes: Sequence[Outcome] = (), miss: FailedChange | None = None, *before: Condition
) -> dict[str, Condition]:
    autoscaler = an_autoscaler(conditions=before)
    found = update_conditions(autoscaler, outcomes, miss, max_misses=3, now=NOW)
    return {condition.type: condition for condition in found}


@pytest.mark.parametrize(
    ("outcomes", "reason", "message"),
    [
        pytest.param(
            [held(HoldReason.COOL_DOWN)], "CoolDown", "1 pod is held back: CoolDown (1)", id="one"
        ),
        pytest.param(
            [held(HoldReason.COOL_DOWN), held(HoldReason.SURGE), held(HoldReason.SURGE), EVICT],
            "Surge",
            "3 pods are held back: Surge (2), CoolDown (1)",
            id="several, the commonest reason first",
        ),
        pytest.param(
            [
                held(HoldReason.PAUSED, EVICT),
                held(HoldReason.PAUSED, RESIZE),
                held(HoldReason.PAUSED, RESIZE),
                held(HoldReason.PAUSED, UNBOOST),
            ],
            "Paused",
            "4 pods are held back: Paused (4); 1 would be evicted, 2 would be resized in place, "
            "1 would be taken back from its startup boost",
            id="a pause shows what would be done",
        ),
    ],
)
def test_pods_that_want_a_change_and_do_not_get_it_are_summed_up(
    outcomes: Sequence[Outcome], reason: str, message: str
) -> None:
    condition = conditions_of(outcomes)["UpdatesHeld"]

    assert condition == Condition("UpdatesHeld", "True", reason, message, NOW)


@pytest.mark.parametrize(
    "reason", sorted(set(HoldReason) - WANTS_CHANGE - {HoldReason.UNBOOST_DELAYED})
)
def test_pods_that_want_no_change_are_not_held(reason: HoldReason) -> None:
    assert conditions_of([held(reason)]) == {}


def keeping(reason: HoldReason, cpu: int, memory: int) -> Hold:
    return Hold(a_pod(a_container(requests=amounts(cpu, memory * MIB))), NAME, reason)


@pytest.mark.parametrize(
    ("outcomes", "reason", "message"),
    [
        pytest.param(
            [keeping(HoldReason.ONLY_SHRINKS, 300, 200)],
            "OnlyShrinks",
            "1 pod keeps 200m of CPU and 100Mi of memory more than recommended: OnlyShrinks (1)",
            id="one",
        ),
        pytest.param(
            [
                keeping(HoldReason.ONLY_SHRINKS, 350, 100),
                keeping(HoldReason.ONLY_SHRINKS, 351, 100),
            ],
            "OnlyShrinks",
            "2 pods keep 500m of CPU more than recommended: OnlyShrinks (2)",
            id="the sum of several, rounded",
        ),
        pytest.param(
            [keeping(HoldReason.REQUIREMENT_NOT_MET, 200, 50)],
            "RequirementNotMet",
            "1 pod keeps 100m of CPU more than recommended, and 50Mi of memory less than"
            " recommended: RequirementNotMet (1)",
            id="more of one and less of the other",
        ),
    ],
)
def test_what_the_update_policy_rules_out_is_told_with_its_amount(
    outcomes: Sequence[Outcome], reason: str, message: str
) -> None:
    autoscaler = an_autoscaler(a_recommendation(target=amounts(100, 100 * MIB)))
    (condition,) = update_conditions(autoscaler, outcomes, None, max_misses=3, now=NOW)

    assert has_news(autoscaler, outcomes, None)
    assert condition == Condition("UpdatesRuledOut", "True", reason, message, NOW)


@pytest.mark.parametrize("suspect", Suspect)
@pytest.mark.parametrize(
    ("failures", "beginning", "ending"),
    [
        pytest.param(1, "1 change without effect", "tried again later", id="once"),
        pytest.param(3, "3 changes in a row", "nothing more is tried", id="too often"),
    ],
)
def test_changes_without_effect_name_the_suspect(
    suspect: Suspect, failures: int, beginning: str, ending: str
) -> None:
    condition = conditions_of((), a_miss(suspect, failures))["UpdatesWithoutEffect"]

    assert condition.reason == suspect
    assert condition.message.startswith(beginning)
    assert condition.message.endswith(ending)


@pytest.mark.parametrize(
    "outcomes",
    [
        pytest.param([], id="there are no pods"),
        pytest.param([held(HoldReason.INSIDE_BOUNDS)], id="no pod wants a change"),
        pytest.param([held(HoldReason.ADMISSION_ABSENT)], id="pods are held for another reason"),
        pytest.param([held(HoldReason.WORKLOAD_DEGRADED)], id="pods are held for the stop"),
        pytest.param([EVICT], id="an OOM-killed pod is evicted"),
    ],
)
def test_d22_a_stop_is_shown_as_long_as_it_lasts(outcomes: Sequence[Outcome]) -> None:
    autoscaler, stop = an_autoscaler(), Degradation(3, 5, NOW - hours(1))
    found = update_conditions(autoscaler, outcomes, None, stop, max_misses=3, now=NOW)
    (stopped,) = [each for each in found if each.type == "UpdatesStopped"]

    assert has_news(autoscaler, outcomes, None, stop)
    assert stopped.reason == "WorkloadDegraded"
    restored = degradation.restored(replace(autoscaler, conditions=found), NOW)
    assert restored is not None
    assert restored.ready_before == 5


def test_refused_pods_are_tried_again_however_often() -> None:
    miss = replace(a_miss(Suspect.PODS_REFUSED, 0), refusals=7)
    condition = conditions_of((), miss)["UpdatesWithoutEffect"]

    assert condition.message.startswith("7 changes in a row without effect")
    assert condition.message.endswith("tried again later")


def test_conditions_go_with_their_cause_and_keep_the_time_since_when_they_are_so() -> None:
    since = Condition("UpdatesHeld", "True", "Surge", "old words", NOW - hours(2))

    assert conditions_of((), None, since, PROVIDED) == {"RecommendationProvided": PROVIDED}
    assert conditions_of([held(HoldReason.SURGE)], None, since)[
        "UpdatesHeld"
    ].last_transition_time == NOW - hours(2)


@given(st.lists(st.sampled_from([EVICT, *(held(reason) for reason in HoldReason)])))
def test_renewing_conditions_again_changes_nothing(outcomes: list[Outcome]) -> None:
    once = tuple(conditions_of(outcomes, a_miss(Suspect.ADMISSION, 2), PROVIDED).values())
    again = tuple(conditions_of(outcomes, a_miss(Suspect.ADMISSION, 2), *once).values())

    assert again == once


def test_the_recommender_and_the_updater_leave_each_other_s_conditions_alone() -> None:
    assert not set(UpdateConditionType) & set(ConditionType)
    ours = tuple(conditions_of([held(HoldReason.SURGE)]).values())
    findings = ConditionInputs(PublishedRecommendation(), matches_pods=True)
    renewed = renew_conditions(an_autoscaler(conditions=ours), findings, NOW)

    assert set(ours) <= set(renewed)
