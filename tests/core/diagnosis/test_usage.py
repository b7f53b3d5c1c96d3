"""Checks of what is read: each finding seen, and not seen."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from support.makers.records import NOW

from trimtab.core.diagnosis.findings import Severity
from trimtab.core.diagnosis.usage import (
    HistoryFacts,
    PodName,
    UsageFacts,
    check_history,
    check_usage,
)

OK, NOTE, WARNING, PROBLEM = Severity.OK, Severity.NOTE, Severity.WARNING, Severity.PROBLEM
WEB: PodName = ("shop", "web-1")
DATABASE: PodName = ("shop", "database-0")
FRESH = NOW - timedelta(minutes=1)
STALE = NOW - timedelta(minutes=10)


@pytest.mark.parametrize(
    ("readings", "expected_pods", "severities"),
    [
        pytest.param({WEB: FRESH}, [WEB], [OK], id="all pods are read"),
        pytest.param({}, [], [OK], id="no pods, no readings"),
        pytest.param({WEB: FRESH, DATABASE: FRESH}, [WEB], [OK], id="a young pod is read too"),
        pytest.param({WEB: FRESH}, [WEB, DATABASE], [WARNING], id="one pod is not read"),
        pytest.param({}, [WEB, DATABASE], [PROBLEM], id="no pod is read"),
        pytest.param({WEB: STALE}, [WEB], [WARNING], id="the reading is old"),
        pytest.param({WEB: STALE}, [WEB, DATABASE], [WARNING, WARNING], id="old and missing"),
    ],
)
def test_usage_is_good_if_it_is_of_all_pods_and_of_now(
    readings: dict[PodName, datetime], expected_pods: list[PodName], severities: list[Severity]
) -> None:
    found = list(check_usage(UsageFacts(NOW, readings, expected_pods)))

    assert [one.severity for one in found] == severities
    assert all(one.remedy for one in found if one.severity is not OK)


def test_a_metrics_api_that_does_not_answer_is_a_problem_by_itself() -> None:
    (found,) = check_usage(UsageFacts(NOW, {}, [WEB], "the server could not find it"))

    assert found.severity is PROBLEM
    assert "the server could not find it" in found.text


def test_of_many_pods_that_are_not_read_only_some_are_named() -> None:
    pods = [("shop", f"web-{number}") for number in range(9)]
    (found,) = check_usage(UsageFacts(NOW, {}, pods))

    assert "(shop/web-0, shop/web-1, shop/web-2 …)" in found.text


TOLD = {"pod_labels": "kube_pod_labels label_", "pod_owners": "(none)", "job": "cadvisor"}
PAST = HistoryFacts("http://there", TOLD, {"cpu_total": 3, "memory_bytes": 3})


@pytest.mark.parametrize(
    ("facts", "severities"),
    [
        pytest.param(None, [NOTE], id="nobody named a Prometheus"),
        pytest.param(PAST, [OK], id="all series are there"),
        pytest.param(
            replace(PAST, series={"cpu_total": 0, "memory_bytes": 3}), [PROBLEM], id="no CPU"
        ),
        pytest.param(
            replace(PAST, conventions={"pod_labels": "(none)", "pod_owners": "(none)"}),
            [WARNING, OK],
            id="nobody tells whose pods they were",
        ),
        pytest.param(replace(PAST, problem="refused"), [PROBLEM], id="it does not answer"),
    ],
)
def test_the_past_is_good_if_usage_and_owners_are_told(
    facts: HistoryFacts | None, severities: list[Severity]
) -> None:
    assert [one.severity for one in check_history(facts)] == severities
