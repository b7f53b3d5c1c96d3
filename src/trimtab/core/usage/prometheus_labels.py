"""Conventions: the labels by which metrics identify containers and pods.

They differ by the version of the kubelet, by the scraper and by its configuration. An operator's
setting wins; all else is found out by counting the series that exist.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class UsageLabels:
    """The labels by which series of usage name a container."""

    namespace: str
    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class PodLabels:
    """The place of pods' labels: a metric, and the meaning of its own labels."""

    metric: str
    """With its braces, if it has any, and without a range."""
    prefix: str
    """Prefix of those labels that are labels of the pod."""
    namespace: str
    pod: str


@dataclass(frozen=True, slots=True)
class OwnerLabels:
    """The labels by which kube-state-metrics names pods in its metrics about owners."""

    namespace: str
    pod: str


@dataclass(frozen=True, slots=True)
class Census:
    """The number of series that follow some labels, by the job that scrapes them."""

    labels: UsageLabels
    by_job: Mapping[str, int]

    @property
    def total(self) -> int:
        """The number of series in all."""
        return sum(self.by_job.values())


@dataclass(frozen=True, slots=True)
class UsageConvention:
    """The labels and the job with which to query series of usage."""

    labels: UsageLabels
    job: str = ""
    """The only job whose series count; empty for all of them."""


ORIGINAL: Final = UsageLabels("namespace", "pod_name", "name")
"""The labels that the original assumes."""

KNOWN: Final = (
    # A scraper without `honor_labels` renames the original labels to `exported_…`.
    UsageLabels("exported_namespace", "exported_pod", "exported_container"),
    UsageLabels("exported_namespace", "pod", "container"),
    # The kubelet since Kubernetes 1.16, and before.
    UsageLabels("namespace", "pod", "container"),
    UsageLabels("namespace", "pod_name", "container_name"),
    ORIGINAL,
    # cadvisor on its own.
    UsageLabels(
        "container_label_io_kubernetes_pod_namespace",
        "container_label_io_kubernetes_pod_name",
        "container_label_io_kubernetes_container_name",
    ),
)

ORIGINAL_POD_LABELS: Final = PodLabels(
    'up{job="kubernetes-pods"}', "pod_label_", "kubernetes_namespace", "kubernetes_pod_name"
)
KNOWN_POD_LABELS: Final = (
    # kube-state-metrics, scraped without and with honoured labels.
    PodLabels("kube_pod_labels", "label_", "exported_namespace", "exported_pod"),
    PodLabels("kube_pod_labels", "label_", "namespace", "pod"),
    ORIGINAL_POD_LABELS,
)

KNOWN_OWNER_LABELS: Final = (
    OwnerLabels("exported_namespace", "exported_pod"),
    OwnerLabels("namespace", "pod"),
)

_USUAL_WINDOW: Final = timedelta(minutes=5)
"""A rate over this time shows the usage at a moment, whatever the container did before."""
_SAMPLES_PER_RATE: Final = 4
"""A rate over this many samples survives that one of them is missing."""


def list_usage_labels(wanted: UsageLabels) -> Sequence[UsageLabels]:
    """List the labels to look for; a setting that differs from the original's default is in all."""
    return _distinct(
        UsageLabels(
            _chosen(wanted.namespace, ORIGINAL.namespace, known.namespace),
            _chosen(wanted.pod, ORIGINAL.pod, known.pod),
            _chosen(wanted.container, ORIGINAL.container, known.container),
        )
        for known in KNOWN
    )


def list_pod_labels(wanted: PodLabels) -> Sequence[PodLabels]:
    """List the places of pods' labels; a setting that differs from the default is in all."""
    usual = ORIGINAL_POD_LABELS
    return _distinct(
        PodLabels(
            _chosen(strip_range(wanted.metric), usual.metric, known.metric),
            _chosen(wanted.prefix, usual.prefix, known.prefix),
            _chosen(wanted.namespace, usual.namespace, known.namespace),
            _chosen(wanted.pod, usual.pod, known.pod),
        )
        for known in KNOWN_POD_LABELS
    )


def choose_usage(
    found: Sequence[Census], job: str, *, is_job_demanded: bool
) -> UsageConvention | None:
    """Choose the labels that most series follow, the first of equals; None if there are no series.

    A job that the operator did not demand is used if it exists; otherwise all jobs count.
    """
    counted = [
        Census(one.labels, {job: one.by_job.get(job, 0)} if is_job_demanded else one.by_job)
        for one in found
    ]
    best = max(counted, key=lambda one: one.total, default=None)
    if best is None or best.total == 0:
        return None
    return UsageConvention(best.labels, job if best.by_job.get(job) else "")


def sample_interval(counts: Mapping[timedelta, float]) -> timedelta | None:
    """Return the interval between samples, given their number in several spans; None if unknown.

    A scraper that started a minute ago has few samples in five minutes, but the usual number in
    one.
    """
    apart = [span / count for span, count in counts.items() if count > 1]
    return min(apart, default=None)


def rate_window(step: timedelta, interval: timedelta | None) -> timedelta:
    """Return the time over which to take a rate, given the steps of moments and of samples.

    The window does not cover all of a long step, as the original's does. A live sample shows the
    usage in the minutes before a moment. An hour in which a container ran for ten minutes is not an
    hour of little usage.
    """
    usual = min(step, _USUAL_WINDOW)
    if interval is None:
        return usual
    seconds = -(-_SAMPLES_PER_RATE * interval // timedelta(seconds=1))
    return max(usual, timedelta(seconds=seconds))


def strip_range(metric: str) -> str:
    """Return the metric without the range that the original requires with it."""
    return metric[: metric.rindex("[")] if metric.endswith("]") else metric


def _chosen(wanted: str, usual: str, known: str) -> str:
    return known if wanted == usual else wanted


def _distinct(items: Iterable[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(items))
