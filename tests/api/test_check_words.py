"""What is said about checks: a sentence for each answer, with figures where these help."""

from datetime import timedelta

import pytest
from makers import NOW, a_pod, an_autoscaler, hours
from plan_makers import UP, several, snapshot_of

from trimtab.api.check_words import brief, tell_check
from trimtab.core.assessment import PlanSettings
from trimtab.core.checks import KIND_OF, Check, CheckKind, Verdict
from trimtab.core.hearing import PodExplanation, explain_pod, view_plan
from trimtab.core.holds import HoldReason
from trimtab.core.outcomes import Hold
from trimtab.core.snapshot import Snapshot

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
    check = Check(KIND_OF[reason], Verdict.BLOCKED, reason)
    sentence = tell_check(check, BARE, SETTINGS)

    assert len(sentence.split()) >= 5
    assert sentence != reason.value


@pytest.mark.parametrize("kind", CheckKind)
def test_there_is_a_sentence_for_each_check_that_passes(kind: CheckKind) -> None:
    explanation = told(snapshot_of(several(3), an_autoscaler(UP)))

    assert explanation[kind]
    assert tell_check(Check(kind, Verdict.UNKNOWN), BARE, SETTINGS) == (
        "only a running updater could tell"
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
    ("span", "expected"),
    [
        pytest.param(timedelta(), "0s", id="nothing"),
        pytest.param(timedelta(seconds=59.9), "59s", id="seconds"),
        pytest.param(hours(12), "12h", id="whole hours"),
        pytest.param(hours(8.8), "8h48m", id="hours and minutes"),
        pytest.param(hours(49), "2d1h", id="days and hours"),
        pytest.param(timedelta(days=3, minutes=5), "3d", id="the two largest units alone"),
        pytest.param(timedelta(seconds=-5), "0s", id="what is past is over"),
    ],
)
def test_spans_are_told_by_their_two_largest_units(span: timedelta, expected: str) -> None:
    assert brief(span) == expected
