"""Conventions of those who scrape: what is said counts, all else is found out."""

from datetime import timedelta

import pytest

from trimtab.core.conventions import (
    KNOWN,
    KNOWN_POD_LABELS,
    ORIGINAL,
    ORIGINAL_POD_LABELS,
    Census,
    PodLabels,
    UsageConvention,
    UsageLabels,
    choose_usage,
    list_pod_labels,
    list_usage_labels,
    rate_window,
)

MODERN = UsageLabels("namespace", "pod", "container")
OLD = UsageLabels("namespace", "pod_name", "container_name")


def test_without_a_word_all_known_conventions_are_looked_for() -> None:
    assert list_usage_labels(ORIGINAL) == KNOWN
    assert list_pod_labels(ORIGINAL_POD_LABELS) == KNOWN_POD_LABELS


def test_labels_that_are_said_are_there_in_every_convention() -> None:
    wanted = UsageLabels("tenant", "workload_pod", "workload_container")
    some = UsageLabels("namespace", "pod_name", "unit")

    assert list_usage_labels(wanted) == (wanted,)
    assert {one.container for one in list_usage_labels(some)} == {"unit"}
    assert UsageLabels("namespace", "pod", "unit") in list_usage_labels(some)


def test_a_metric_of_pod_labels_that_is_said_is_the_only_one() -> None:
    wanted = PodLabels("my_labels[8d]", "l_", "kubernetes_namespace", "kubernetes_pod_name")

    assert {(one.metric, one.prefix) for one in list_pod_labels(wanted)} == {("my_labels", "l_")}


@pytest.mark.parametrize(
    ("found", "job", "is_demanded", "expected"),
    [
        pytest.param([], "", False, None, id="nothing is looked for"),
        pytest.param([Census(MODERN, {})], "", False, None, id="there are no series"),
        pytest.param(
            [Census(OLD, {"a": 3}), Census(MODERN, {"a": 5})],
            "",
            False,
            UsageConvention(MODERN),
            id="most series decide",
        ),
        pytest.param(
            [Census(OLD, {"a": 3}), Census(MODERN, {"b": 3})],
            "",
            False,
            UsageConvention(OLD),
            id="the first of equals is taken",
        ),
        pytest.param(
            [Census(MODERN, {"kubelet": 5, "kubernetes-cadvisor": 2})],
            "kubernetes-cadvisor",
            False,
            UsageConvention(MODERN, "kubernetes-cadvisor"),
            id="the usual job is taken if it is there",
        ),
        pytest.param(
            [Census(MODERN, {"kubelet": 5})],
            "kubernetes-cadvisor",
            False,
            UsageConvention(MODERN),
            id="all jobs count without the usual one",
        ),
        pytest.param(
            [Census(MODERN, {"kubelet": 5})],
            "mine",
            True,
            None,
            id="a demanded job is not replaced",
        ),
        pytest.param(
            [Census(MODERN, {"kubelet": 5}), Census(OLD, {"mine": 1})],
            "mine",
            True,
            UsageConvention(OLD, "mine"),
            id="the labels of a demanded job count",
        ),
    ],
)
def test_the_convention_is_that_of_the_series_that_there_are(
    found: list[Census], job: str, *, is_demanded: bool, expected: UsageConvention | None
) -> None:
    assert choose_usage(found, job, is_job_demanded=is_demanded) == expected


@pytest.mark.parametrize(
    ("step", "samples", "seconds"),
    [
        pytest.param(3600, 0, 3600, id="an hour has samples enough"),
        pytest.param(3600, 1, 3600, id="an hour is enough for seldom samples"),
        pytest.param(15, 20, 60, id="a rate spans four samples"),
        pytest.param(60, 300, 60, id="a rate spans the step"),
        pytest.param(15, 0, 15, id="nothing is known of the samples"),
    ],
)
def test_a_rate_spans_the_step_and_some_samples(step: int, samples: float, seconds: int) -> None:
    window = rate_window(timedelta(seconds=step), samples, timedelta(minutes=5))

    assert window == timedelta(seconds=seconds)
