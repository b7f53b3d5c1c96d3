from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import NOW, a_recommendation, amounts, an_autoscaler

from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName, Condition, TargetReference
from trimtab.core.model.hpa import HpaClaim
from trimtab.core.model.matching import Conflict
from trimtab.core.model.recommendation import PublishedRecommendation
from trimtab.core.model.resources import Resource
from trimtab.core.recommendation.conditions import (
    ConditionInputs,
    ConditionReason,
    ConditionType,
    Unsupported,
    UnsupportedReason,
    renew_conditions,
)

SOMETHING = PublishedRecommendation((a_recommendation(target=amounts(100)),))
NOTHING = PublishedRecommendation()
NO_SAMPLES = PublishedRecommendation(without_samples=("app", "side"))
EARLIER = NOW - timedelta(hours=1)

PROVIDED = ("RecommendationProvided", "True", "", "")
NO_PODS = ("NoPodsMatched", "True", "NoPodsMatched", "No pods match this autoscaler")


def found(recommendation: PublishedRecommendation = SOMETHING, **others: Any) -> ConditionInputs:
    return ConditionInputs(recommendation, **{"matches_pods": True, **others})


def shown(findings: ConditionInputs, autoscaler: Autoscaler | None = None) -> list[tuple[str, ...]]:
    """The conditions without their times."""
    renewed = renew_conditions(autoscaler or an_autoscaler(), findings, NOW)
    return [(one.type, one.status, one.reason, one.message) for one in renewed]


def named(name: str) -> AutoscalerName:
    return AutoscalerName("default", name)


SCALES = "The HorizontalPodAutoscaler"
HELD = "what is recommended of that is not applied"
CONTESTED = "what is applied of that moves what the other one goes by"


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        pytest.param(found(), [PROVIDED], id="a recommendation and pods"),
        pytest.param(
            found(NOTHING),
            [("RecommendationProvided", "False", "", "")],
            id="nothing to recommend anything for",
        ),
        pytest.param(
            found(NO_SAMPLES),
            [("RecommendationProvided", "False", "NoSamples", "No samples yet of app, side")],
            id="D11 nothing known yet",
        ),
        pytest.param(
            found(replace(SOMETHING, without_samples=("side",))),
            [PROVIDED],
            id="one container known, another not",
        ),
        pytest.param(
            found(NOTHING, matches_pods=False),
            [NO_PODS, ("RecommendationProvided", "False", *NO_PODS[2:])],
            id="no pods and no recommendation",
        ),
        pytest.param(
            found(NO_SAMPLES, matches_pods=False),
            [NO_PODS, ("RecommendationProvided", "False", *NO_PODS[2:])],
            id="no pods is the better reason",
        ),
        pytest.param(
            found(matches_pods=False), [NO_PODS, PROVIDED], id="S28 what history says stays"
        ),
        pytest.param(
            found(fetches_history=True),
            [
                (
                    "FetchingHistory",
                    "True",
                    "HistoryIncomplete",
                    "The history of usage is being read",
                ),
                PROVIDED,
            ],
            id="history on its way",
        ),
        pytest.param(
            found(fetches_history=True, history_problem="nobody there"),
            [
                (
                    "FetchingHistory",
                    "True",
                    "HistoryUnavailable",
                    "The history of usage could not be read yet; it is tried again: nobody there",
                ),
                PROVIDED,
            ],
            id="F14 history that cannot be had",
        ),
        pytest.param(
            found(
                claims=(HpaClaim("a", Resource.CPU), HpaClaim("b", Resource.MEMORY, ("app", "log")))
            ),
            [
                (
                    "HorizontallyScaled",
                    "True",
                    "ResourceHeld",
                    f"{SCALES} a scales on cpu; {SCALES} b scales on memory of app, log: {HELD}",
                ),
                PROVIDED,
            ],
            id="resources that are scaled on, and held",
        ),
        pytest.param(
            found(claims=(HpaClaim("a", Resource.CPU),), holds_claimed=False),
            [
                (
                    "HorizontallyScaled",
                    "True",
                    "ResourceContested",
                    f"{SCALES} a scales on cpu: {CONTESTED}",
                ),
                PROVIDED,
            ],
            id="a resource that is scaled on, and applied",
        ),
    ],
)
def test_conditions_tell_what_was_found(
    findings: ConditionInputs, expected: list[tuple[str, ...]]
) -> None:
    assert shown(findings) == expected


@pytest.mark.parametrize(
    ("unsupported", "message"),
    [
        pytest.param(
            Unsupported(UnsupportedReason.TARGET_UNREADABLE), "Cannot read targetRef", id="no word"
        ),
        pytest.param(
            Unsupported(UnsupportedReason.TARGET_UNREADABLE, "not found"),
            "Cannot read targetRef: not found",
            id="unreadable target",
        ),
        pytest.param(
            Unsupported(UnsupportedReason.TARGET_UNCHECKED, "forbidden"),
            "Error checking whether target apps/v1.Deployment/web is a topmost well-known or "
            "scalable controller: forbidden",
            id="target that could not be checked",
        ),
        pytest.param(
            Unsupported(UnsupportedReason.TARGET_NOT_TOPMOST),
            "The target has a parent controller, but it must be the topmost one",
            id="target with a parent",
        ),
        pytest.param(
            Unsupported(UnsupportedReason.SELECTOR_INVALID, "bad key"),
            "The selector cannot be used, so no pod matches it: bad key",
            id="invalid selector",
        ),
        pytest.param(
            Unsupported(UnsupportedReason.SELECTOR_DISABLED),
            "A selector matches no pod while the feature gate PodSelector is off",
            id="S6 gate of selectors off",
        ),
    ],
)
def test_an_unsupported_configuration_says_why(unsupported: Unsupported, message: str) -> None:
    autoscaler = an_autoscaler(target=TargetReference("Deployment", "web", "apps/v1"))

    assert shown(found(unsupported=unsupported), autoscaler) == [
        ("ConfigUnsupported", "True", unsupported.reason.value, message),
        PROVIDED,
    ]


def test_a_target_that_is_not_there_is_named_as_such() -> None:
    unsupported = Unsupported(UnsupportedReason.TARGET_UNCHECKED)

    _, _, _, message = shown(found(unsupported=unsupported), replace(an_autoscaler(), target=None))[
        0
    ]

    assert "target (none) is" in message


OVERLAP = [Conflict(named("first"), named("second")), Conflict(named("first"), named("third"))]


@pytest.mark.parametrize(
    ("name", "conflicts", "message"),
    [
        pytest.param(
            "first",
            OVERLAP,
            "this autoscaler acts on pods that second, third matches too",
            id="the stronger one",
        ),
        pytest.param(
            "third", OVERLAP, "pods of this autoscaler are left to first", id="a weaker one"
        ),
        pytest.param(
            "second",
            [*OVERLAP, Conflict(named("second"), named("third"))],
            "pods of this autoscaler are left to first; "
            "this autoscaler acts on pods that third matches too",
            id="one between two others",
        ),
    ],
)
def test_f45_both_sides_of_a_conflict_name_the_other(
    name: str, conflicts: list[Conflict], message: str
) -> None:
    autoscaler = replace(an_autoscaler(), name=name)

    assert shown(found(conflicts=conflicts), autoscaler) == [
        ("ConfigConflict", "True", "OverlappingSelector", message),
        PROVIDED,
    ]


@pytest.mark.parametrize(
    "bystander",
    [
        pytest.param(replace(an_autoscaler(), name="fourth"), id="another name"),
        pytest.param(replace(an_autoscaler(), name="first", namespace="x"), id="elsewhere"),
    ],
)
def test_conflicts_of_others_are_not_shown(bystander: Autoscaler) -> None:
    assert shown(found(conflicts=OVERLAP), bystander) == [PROVIDED]


def holding(*types: str, status: str = "True") -> Autoscaler:
    """An autoscaler whose status has these conditions for an hour."""
    conditions = tuple(Condition(one, status, "Old", "old", EARLIER) for one in types)
    return replace(an_autoscaler(), conditions=conditions)


@pytest.mark.parametrize(
    "kind", sorted(set(ConditionType) - {ConditionType.RECOMMENDATION_PROVIDED})
)
def test_a_condition_goes_with_its_cause(kind: ConditionType) -> None:
    assert shown(found(fetches_history=False), holding(kind)) == [PROVIDED]


@pytest.mark.parametrize("kind", ["LowConfidence", "FetchingHistory", "example.com/Odd"])
def test_conditions_of_others_are_carried_over(kind: str) -> None:
    autoscaler = holding(kind)

    assert autoscaler.conditions[0] in renew_conditions(autoscaler, found(), NOW)


@pytest.mark.parametrize(
    ("autoscaler", "expected"),
    [
        pytest.param(an_autoscaler(), NOW, id="a new condition"),
        pytest.param(holding("RecommendationProvided"), EARLIER, id="the same status"),
        pytest.param(holding("RecommendationProvided", status="False"), NOW, id="another status"),
        pytest.param(
            replace(an_autoscaler(), conditions=(Condition("RecommendationProvided", "True"),)),
            NOW,
            id="the same status without a time",
        ),
    ],
)
def test_the_time_changes_only_with_the_status(autoscaler: Autoscaler, expected: Any) -> None:
    (condition,) = renew_conditions(autoscaler, found(), NOW)

    assert condition.last_transition_time == expected


def test_a_new_reason_for_the_same_status_keeps_the_time() -> None:
    autoscaler = holding("RecommendationProvided", status="False")

    (condition,) = renew_conditions(autoscaler, found(NO_SAMPLES), NOW)

    assert condition.reason == ConditionReason.NO_SAMPLES
    assert condition.last_transition_time == EARLIER


def test_f13_usage_that_nobody_reads_is_told_as_long_as_it_lasts() -> None:
    told = found(stale_containers=("app", "side"))
    stale = renew_conditions(an_autoscaler(), told, NOW)
    autoscaler = an_autoscaler(conditions=stale)

    assert shown(told)[-1] == (
        "UsageStale",
        "True",
        "NoRecentSamples",
        "No usage of app, side is read at present; what is recommended stays as it was",
    )
    assert [kind for kind, *_ in shown(found(), autoscaler)] == ["RecommendationProvided"]


types = st.sampled_from([*ConditionType, "LowConfidence", "Alpha", ""])
conditions = st.lists(st.builds(Condition, types, st.sampled_from(["True", "False", ""])))


@given(
    before=conditions,
    findings=st.builds(
        ConditionInputs,
        st.sampled_from([SOMETHING, NOTHING, NO_SAMPLES]),
        st.booleans(),
        st.none() | st.builds(Unsupported, st.sampled_from(UnsupportedReason)),
        st.just(OVERLAP),
        st.none() | st.booleans(),
        st.sampled_from([(), ("app",)]),
    ),
)
def test_renewing_conditions_twice_changes_nothing(
    before: list[Condition], findings: ConditionInputs
) -> None:
    autoscaler = replace(an_autoscaler(), name="first", conditions=tuple(before))
    once = renew_conditions(autoscaler, findings, NOW)
    later = NOW + timedelta(minutes=1)

    assert [one.type for one in once] == sorted({one.type for one in once})
    assert renew_conditions(replace(autoscaler, conditions=once), findings, later) == once
