"""Queries to Prometheus, as text: what is asked, by the labels that were found to be used."""

import re
from datetime import timedelta
from typing import Final

from trimtab.core.conventions import OwnerLabels, PodLabels, UsageConvention, UsageLabels
from trimtab.core.records import dataclass
from trimtab.core.resources import Resource

_PLAIN_METRIC: Final = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)\s*(?:\{(?P<matchers>.*)\})?")
_POD_OWNERS: Final = "kube_pod_owner"
_PAUSE: Final = "POD"
"""What old kubelets call the container that holds a pod together."""


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """A kind of workloads that others own, and where kube-state-metrics tells by whom."""

    kind: str
    metric: str
    label: str
    """The label that is the workload's name."""


OWNED: Final = (
    WorkloadKind("ReplicaSet", "kube_replicaset_owner", "replicaset"),
    WorkloadKind("Job", "kube_job_owner", "job_name"),
)


def count_by_job(metric: str, labels: UsageLabels) -> str:
    """How many series of a metric tell all these labels, by job."""
    return f"count by (job) ({metric}{{{', '.join(_matchers_of_usage(labels))}}})"


def count_samples(metric: str, convention: UsageConvention, span: timedelta) -> str:
    """How many samples the series of a metric that has most of them has in a span."""
    return f"max(count_over_time({metric}{_selector(convention)}[{format_span(span)}]))"


def count_usage(metric: str, convention: UsageConvention) -> str:
    """How many series of a metric there are."""
    return f"count({metric}{_selector(convention)})"


def count_pods(labels: PodLabels) -> str:
    """How many series tell the labels of pods in that way."""
    matchers = [f'{labels.namespace}!=""', f'{labels.pod}!=""']
    return f"count({_with_matchers(labels.metric, matchers)})"


def past_usage(
    resource: Resource,
    metric: str,
    convention: UsageConvention,
    *,
    namespace: str,
    window: timedelta,
) -> str:
    """The usage of all containers of a namespace, in cores or bytes."""
    selected = f"{metric}{_selector(convention, namespace)}"
    return selected if resource is Resource.MEMORY else f"rate({selected}[{format_span(window)}])"


def past_pods(labels: PodLabels, namespace: str, window: timedelta) -> str:
    """The labels of all pods of a namespace that there were in the time before each moment."""
    span = format_span(window)
    if _PLAIN_METRIC.fullmatch(labels.metric) is None:
        # What is no plain metric can only be evaluated again and again.
        return f"max_over_time(({labels.metric})[{span}:])"
    matchers = [f"{labels.namespace}={quote(namespace)}", f'{labels.pod}!=""']
    return f"max_over_time({_with_matchers(labels.metric, matchers)}[{span}])"


def count_owners(labels: OwnerLabels) -> str:
    """How many series tell the owners of pods in that way."""
    return f'count({_POD_OWNERS}{{{labels.namespace}!="", {labels.pod}!=""}})'


def past_pod_owners(labels: OwnerLabels, namespace: str, window: timedelta) -> str:
    """Who owned the pods of a namespace that there were in the time before each moment."""
    return _past_owners(_POD_OWNERS, labels, namespace, window)


def past_workload_owners(
    kind: WorkloadKind, labels: OwnerLabels, namespace: str, window: timedelta
) -> str:
    """Who owned the workloads of one kind in the same time."""
    return _past_owners(kind.metric, labels, namespace, window)


def _past_owners(metric: str, labels: OwnerLabels, namespace: str, window: timedelta) -> str:
    matcher = f"{labels.namespace}={quote(namespace)}"
    return f"max_over_time({metric}{{{matcher}}}[{format_span(window)}])"


def format_span(span: timedelta) -> str:
    """The span as Prometheus reads it, to the millisecond."""
    return f"{span // timedelta(milliseconds=1)}ms"


def quote(text: str) -> str:
    """The text as a literal of the query language."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _selector(convention: UsageConvention, namespace: str | None = None) -> str:
    matchers = _matchers_of_usage(convention.labels)
    if convention.job:
        matchers.append(f"job={quote(convention.job)}")
    if namespace is not None:
        matchers.append(f"{convention.labels.namespace}={quote(namespace)}")
    return f"{{{', '.join(matchers)}}}"


def _matchers_of_usage(labels: UsageLabels) -> list[str]:
    return [
        f'{labels.namespace}!=""',
        f'{labels.pod}!=""',
        f'{labels.container}!=""',
        f'{labels.container}!="{_PAUSE}"',
    ]


def _with_matchers(metric: str, matchers: list[str]) -> str:
    found = _PLAIN_METRIC.fullmatch(metric)
    if found is None:
        return f"({metric})"
    given = (found["matchers"] or "").strip().rstrip(",")
    return f"{found['name']}{{{', '.join([given, *matchers] if given else matchers)}}}"
