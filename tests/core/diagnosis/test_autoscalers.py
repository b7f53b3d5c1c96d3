"""Checks of autoscalers: each finding seen, and not seen."""

from datetime import timedelta

import pytest
from support.makers.records import NOW, a_pod, a_recommendation, amounts, an_autoscaler

from trimtab.core.diagnosis.autoscalers import (
    AutoscalerFacts,
    FoundTarget,
    Governed,
    Hidden,
    check_conflicts,
    check_recommendations,
    check_targets,
    gather,
)
from trimtab.core.diagnosis.findings import Severity
from trimtab.core.model.autoscalers import (
    Autoscaler,
    AutoscalerName,
    Condition,
    TargetReference,
    UpdateMode,
)
from trimtab.core.model.matching import Conflict
from trimtab.core.model.pods import WorkloadName
from trimtab.core.model.selectors import Selector, equality
from trimtab.core.model.workloads import Workload
from trimtab.core.recommendation.conditions import Unsupported, UnsupportedReason

NOTE, WARNING, PROBLEM = Severity.NOTE, Severity.WARNING, Severity.PROBLEM

WEB = WorkloadName("default", "Deployment", "web")
WORKLOAD = Workload(WEB, selector=Selector((equality("app", "web"),)), replicas=1)
POD = a_pod()
ADVICE = a_recommendation(target=amounts(100, 100))


BROKEN = Hidden("vpa", "default", "broken", "spec: no object")


def facts(*governed: Governed) -> AutoscalerFacts:
    return AutoscalerFacts(NOW, governed)


def condition(kind: str, status: str = "True", message: str = "words") -> Condition:
    return Condition(kind, status, "Reason", message)


def test_autoscalers_are_put_together_with_the_pods_of_their_targets() -> None:
    lone = an_autoscaler(name="lone", target=TargetReference("Deployment", "gone"))
    found = gather(
        [FoundTarget(an_autoscaler(), WORKLOAD, WEB), FoundTarget(lone)],
        [(POD, WEB), (a_pod(name="other"), None)],
        NOW,
        [BROKEN],
    )

    assert [(one.place, len(one.pods), one.replicas) for one in found.governed] == [
        ("default/lone", 0, None),
        ("default/web", 1, 1),
    ]
    assert found.governed[0].unsupported == Unsupported(UnsupportedReason.TARGET_UNREADABLE)
    assert found.conflicts == []
    assert found.unreadable == (BROKEN,)


def test_two_autoscalers_of_one_pod_are_a_conflict_and_the_older_one_wins() -> None:
    younger = an_autoscaler(name="younger", created_at=NOW)
    found = gather(
        [FoundTarget(younger, WORKLOAD, WEB), FoundTarget(an_autoscaler(), WORKLOAD, WEB)],
        [(POD, WEB)],
        NOW,
    )
    (told,) = check_conflicts(found)

    assert found.conflicts == [
        Conflict(AutoscalerName("default", "web"), AutoscalerName("default", "younger"))
    ]
    assert (told.severity, told.subject) == (WARNING, "default/younger")
    assert "default/web" in told.text


def test_autoscalers_of_different_pods_are_no_conflict() -> None:
    assert list(check_conflicts(facts(Governed(an_autoscaler(), pods=(POD,))))) == []


@pytest.mark.parametrize(
    ("governed", "expected"),
    [
        pytest.param(Governed(an_autoscaler(), pods=(POD,)), [], id="it has pods"),
        pytest.param(Governed(an_autoscaler(), replicas=3), [WARNING], id="no pods"),
        pytest.param(Governed(an_autoscaler(), replicas=0), [NOTE], id="scaled to nothing"),
        pytest.param(
            Governed(an_autoscaler(target=TargetReference("CronJob", "nightly"))),
            [NOTE],
            id="a job that is not running now",
        ),
        *(
            pytest.param(Governed(an_autoscaler(), Unsupported(reason)), [PROBLEM], id=reason.value)
            for reason in UnsupportedReason
        ),
    ],
)
def test_an_autoscaler_without_pods_is_told_with_its_reason(
    governed: Governed, expected: list[Severity]
) -> None:
    found = list(check_targets(facts(governed)))

    assert [one.severity for one in found] == expected
    assert all(one.subject == "default/" + governed.autoscaler.name for one in found)


def test_a_mode_that_this_version_does_not_know_is_a_warning() -> None:
    autoscaler = an_autoscaler(mode=UpdateMode.OFF, unknown_mode="Yolo")
    (found,) = check_targets(facts(Governed(autoscaler, None, (a_pod(),), 1)))

    assert found.severity is Severity.WARNING
    assert found.text == "its update mode 'Yolo' is unknown to this version, and treated as Off"
    assert "UpscaleOnly" in found.remedy


def test_an_autoscaler_that_cannot_be_read_is_a_problem() -> None:
    (found,) = check_targets(AutoscalerFacts(NOW, (), (), (BROKEN,)))

    assert (found.severity, found.subject) == (PROBLEM, "default/broken")
    assert found.text.endswith(": spec: no object")
    assert found.remedy == "kubectl -n default get vpa broken -o yaml | trimtab validate -"


def test_where_there_are_no_autoscalers_nothing_is_said_to_be_well() -> None:
    nothing = AutoscalerFacts(NOW, ())
    (target,), (recommendation,) = check_targets(nothing), check_recommendations(nothing)

    assert target == recommendation
    assert (target.severity, target.text.split(",")[0]) == (NOTE, "there are no autoscalers here")


NEW = NOW - timedelta(minutes=1)


@pytest.mark.parametrize(
    ("autoscaler", "severity", "text"),
    [
        pytest.param(an_autoscaler(created_at=NEW), NOTE, "no recommendation yet", id="it is new"),
        pytest.param(
            an_autoscaler(), PROBLEM, "no recommender has said why", id="nobody looks at it"
        ),
        pytest.param(
            an_autoscaler(recommenders=("frugal",)),
            WARNING,
            "the recommender frugal",
            id="it waits for another recommender",
        ),
        pytest.param(
            an_autoscaler(conditions=(condition("RecommendationProvided", "False", "No samples"),)),
            WARNING,
            "No samples",
            id="the recommender says why",
        ),
        pytest.param(
            an_autoscaler(
                created_at=NEW,
                conditions=(condition("RecommendationProvided", "False", "No samples"),),
            ),
            NOTE,
            "No samples",
            id="the recommender says why, and it is new",
        ),
        pytest.param(
            an_autoscaler(
                conditions=(
                    condition("RecommendationProvided", "False", "No pods"),
                    condition("ConfigUnsupported", message="Cannot read targetRef"),
                )
            ),
            WARNING,
            "Cannot read targetRef",
            id="the deepest cause is told",
        ),
        pytest.param(
            an_autoscaler(ADVICE, conditions=(condition("UsageStale"),)),
            WARNING,
            "UsageStale: words",
            id="what is recommended is old",
        ),
        pytest.param(
            an_autoscaler(ADVICE, conditions=(condition("UpdatesWithoutEffect"),)),
            WARNING,
            "UpdatesWithoutEffect: words",
            id="changes do not show",
        ),
    ],
)
def test_why_nothing_is_recommended_is_told(
    autoscaler: Autoscaler, severity: Severity, text: str
) -> None:
    (found,) = check_recommendations(facts(Governed(autoscaler)))

    assert (found.severity, found.subject) == (severity, "default/web")
    assert text in found.text


@pytest.mark.parametrize(
    "autoscaler",
    [
        pytest.param(an_autoscaler(ADVICE), id="a recommendation"),
        pytest.param(
            an_autoscaler(ADVICE, conditions=(condition("UsageStale", "False"),)),
            id="a condition that does not hold",
        ),
    ],
)
def test_of_an_autoscaler_with_a_recommendation_nothing_is_told(autoscaler: Autoscaler) -> None:
    assert list(check_recommendations(facts(Governed(autoscaler)))) == []
