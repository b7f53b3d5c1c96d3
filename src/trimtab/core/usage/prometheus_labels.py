"""Conventions: by which labels those who scrape a cluster tell containers and pods apart.

They differ by the version of the kubelet, by the scraper and by how that is set up. What an
operator says counts; all else is found out by counting which series there are.
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
    """Where the labels of pods are found: a metric, and how its own labels are to be read."""

    metric: str
    """With its braces, if it has any, and without a range."""
    prefix: str
    """With what the labels that are labels of the pod begin."""
    namespace: str
    pod: str


@dataclass(frozen=True, slots=True)
class OwnerLabels:
    """The labels by which kube-state-metrics names the pods whose owners it tells."""

    namespace: str
    pod: str


@dataclass(frozen=True, slots=True)
class Census:
    """How many series follow some labels, by the job that scrapes them."""

    labels: UsageLabels
    by_job: Mapping[str, int]

    @property
    def total(self) -> int:
        """How many there are in all."""
        return sum(self.by_job.values())


@dataclass(frozen=True, slots=True)
class UsageConvention:
    """How series of usage are to be asked for."""

    labels: UsageLabels
    job: str = ""
    """The only job whose series count; empty for all of them."""


ORIGINAL: Final = UsageLabels("namespace", "pod_name", "name")
"""What the original takes for granted."""

KNOWN: Final = (
    # A scraper that does not honour labels has moved them out of the way of its own.
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
"""A rate over so much time says what a container used at a moment, whatever its life was before."""
_SAMPLES_PER_RATE: Final = 4
"""A rate over so many samples survives that one of them is missing."""


def list_usage_labels(wanted: UsageLabels) -> Sequence[UsageLabels]:
    """The labels to look for; each that differs from the original's default is there in all."""
    return _distinct(
        UsageLabels(
            _chosen(wanted.namespace, ORIGINAL.namespace, known.namespace),
            _chosen(wanted.pod, ORIGINAL.pod, known.pod),
            _chosen(wanted.container, ORIGINAL.container, known.container),
        )
        for known in KNOWN
    )


def list_pod_labels(wanted: PodLabels) -> Sequence[PodLabels]:
    """The places to look for labels of pods; what differs from the default is there in all."""
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
    """The labels that most series follow, the first ones if equally many; None if there are none.

    A job that nobody has demanded is taken if it is there; without it all jobs count.
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
    """How far samples are apart, given how many spans of time have; None if nobody knows.

    Who scrapes since a minute has few samples in five, but as many as ever in one.
    """
    apart = [span / count for span, count in counts.items() if count > 1]
    return min(apart, default=None)


def rate_window(step: timedelta, interval: timedelta | None) -> timedelta:
    """Over how much time a rate is to be taken, given how far moments and samples are apart.

    Not over all of a long step, as the original does: what a container used in the minutes before a
    moment is what a live sample says of it, and an hour in which it ran for ten minutes is not an
    hour of little use.
    """
    usual = min(step, _USUAL_WINDOW)
    if interval is None:
        return usual
    seconds = -(-_SAMPLES_PER_RATE * interval // timedelta(seconds=1))
    return max(usual, timedelta(seconds=seconds))


def strip_range(metric: str) -> str:
    """The metric without the range that the original wants to be given with it."""
    return metric[: metric.rindex("[")] if metric.endswith("]") else metric


def _chosen(wanted: str, usual: str, known: str) -> str:
    return known if wanted == usual else wanted


def _distinct(items: Iterable[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(items))
