"""Conventions of those who scrape: what is said counts, all else is found out."""

from datetime import timedelta

import pytest

from trimtab.core.usage.prometheus_labels import (
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
    sample_interval,
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
    ("step", "interval", "seconds"),
    [
        pytest.param(3600, 30, 300, id="some minutes before the hour"),
        pytest.param(3600, 120, 480, id="as many minutes as seldom samples need"),
        pytest.param(15, 15, 60, id="four samples"),
        pytest.param(60, 1, 60, id="no more than lies between two moments"),
        pytest.param(15, None, 15, id="nothing is known of the samples"),
    ],
)
def test_a_rate_spans_some_minutes_and_some_samples(
    step: int, interval: int | None, seconds: int
) -> None:
    apart = None if interval is None else timedelta(seconds=interval)

    assert rate_window(timedelta(seconds=step), apart) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("counts", "seconds"),
    [
        pytest.param({60: 2, 300: 10}, 30, id="it was always scraped"),
        pytest.param({60: 60, 300: 90}, 1, id="it is scraped since a minute and a half"),
        pytest.param({60: 1, 300: 5}, 60, id="a minute has but one sample"),
        pytest.param({60: 0, 300: 1}, None, id="nothing is known"),
    ],
)
def test_samples_are_as_far_apart_as_the_span_with_most_of_them_says(
    counts: dict[int, float], seconds: int | None
) -> None:
    given = {timedelta(seconds=span): count for span, count in counts.items()}
    expected = None if seconds is None else timedelta(seconds=seconds)

    assert sample_interval(given) == expected
