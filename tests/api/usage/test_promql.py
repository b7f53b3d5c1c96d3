"""Queries as text."""

from datetime import timedelta

import pytest

from trimtab.api.usage import prometheus
from trimtab.core.model.resources import Resource
from trimtab.core.usage.prometheus_labels import (
    OwnerLabels,
    PodLabels,
    UsageConvention,
    UsageLabels,
)

LABELS = UsageLabels("namespace", "pod", "container")
TELLING = 'namespace!="", pod!="", container!="", container!="POD"'
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("resource", "convention", "expected"),
    [
        pytest.param(
            Resource.MEMORY,
            UsageConvention(LABELS),
            f'm{{{TELLING}, namespace="a"}}',
            id="memory as it is",
        ),
        pytest.param(
            Resource.CPU,
            UsageConvention(LABELS, "kubelet"),
            f'rate(m{{{TELLING}, job="kubelet", namespace="a"}}[3600000ms])',
            id="cpu as a rate, of one job",
        ),
    ],
)
def test_usage_is_asked_for_by_namespace(
    resource: Resource, convention: UsageConvention, expected: str
) -> None:
    assert prometheus.past_usage(resource, "m", convention, namespace="a", window=HOUR) == expected


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        pytest.param(
            "kube_pod_labels",
            'max_over_time(kube_pod_labels{ns="a", pod!=""}[3600000ms])',
            id="a plain metric",
        ),
        pytest.param(
            'up{job="pods",}',
            'max_over_time(up{job="pods", ns="a", pod!=""}[3600000ms])',
            id="a metric with matchers",
        ),
        pytest.param(
            "up{}", 'max_over_time(up{ns="a", pod!=""}[3600000ms])', id="a metric with braces"
        ),
        pytest.param(
            "sum by (pod) (up)",
            "max_over_time((sum by (pod) (up))[3600000ms:])",
            id="something else",
        ),
    ],
)
def test_labels_of_pods_are_asked_for_by_namespace_where_that_is_possible(
    metric: str, expected: str
) -> None:
    assert prometheus.past_pods(PodLabels(metric, "label_", "ns", "pod"), "a", HOUR) == expected


def test_owners_are_asked_for_where_kube_state_metrics_tells_them() -> None:
    labels = OwnerLabels("ns", "pod")
    asked = [prometheus.past_workload_owners(kind, labels, "a", HOUR) for kind in prometheus.OWNED]

    assert prometheus.count_owners(labels) == 'count(kube_pod_owner{ns!="", pod!=""})'
    assert [prometheus.past_pod_owners(labels, "a", HOUR), *asked] == [
        'max_over_time(kube_pod_owner{ns="a"}[3600000ms])',
        'max_over_time(kube_replicaset_owner{ns="a"}[3600000ms])',
        'max_over_time(kube_job_owner{ns="a"}[3600000ms])',
    ]


def test_text_in_a_query_cannot_end_it() -> None:
    assert prometheus.quote('a"b\\c\nd') == '"a\\"b\\\\c\\nd"'


def test_how_many_series_there_are_is_asked_for_by_job() -> None:
    assert prometheus.count_by_job("m", LABELS) == f"count by (job) (m{{{TELLING}}})"
    assert prometheus.count_pods(PodLabels("k", "l_", "ns", "pod")) == 'count(k{ns!="", pod!=""})'
    assert prometheus.count_samples("m", UsageConvention(LABELS), HOUR) == (
        f"max(count_over_time(m{{{TELLING}}}[3600000ms]))"
    )
