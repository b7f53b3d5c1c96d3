"""What Prometheus answers to queries, decoded into arrays: no record per sample."""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import msgspec
import numpy as np

from trimtab.api.wire import codec
from trimtab.api.wire.codec import DecodeError, Wire
from trimtab.core.histogram.buckets import Floats
from trimtab.core.model.resources import Resource
from trimtab.core.usage.prometheus_labels import (
    OwnerLabels,
    PodLabels,
    UsageConvention,
    UsageLabels,
)

_Sample = tuple[float, str]
"""A time in seconds, and a number as text: it may be `NaN` or `+Inf`, which JSON does not know."""


class _Series(Wire, frozen=True, kw_only=True):
    metric: dict[str, str] | None = None
    value: _Sample | None = None
    values: list[_Sample] | None = None


class _Data(Wire, frozen=True, kw_only=True):
    result_type: str | None = None
    result: list[_Series] | None = None


class _Answer(Wire, frozen=True, kw_only=True):
    data: _Data | None = None


class _Refusal(Wire, frozen=True, kw_only=True):
    error_type: str | None = None
    error: str | None = None


_ANSWERS: Final = msgspec.json.Decoder(_Answer)
_REFUSALS: Final = msgspec.json.Decoder(_Refusal)


@dataclass(frozen=True, slots=True)
class LabelledSeries:
    """The samples of one series, in their order."""

    labels: dict[str, str]
    times: Floats
    """Seconds since the epoch."""
    values: Floats


@dataclass(frozen=True, slots=True)
class QueryRefusal:
    """Why Prometheus does not answer a query."""

    kind: str = ""
    """Its name for this kind of error: `bad_data`, `timeout`, `execution`, …"""
    message: str = ""


def decode_series(data: bytes) -> list[LabelledSeries]:
    """The series of an answer, be it a vector or a matrix; a DecodeError for anything else."""
    found = codec.decode(_ANSWERS, data).data
    if found is None or found.result is None:
        raise DecodeError("data", "an answer without a result")
    return [_decode_one(series, index) for index, series in enumerate(found.result)]


def decode_query_refusal(data: bytes) -> QueryRefusal:
    """What an answer other than a result says; nothing where it is not from Prometheus."""
    try:
        refusal = codec.decode(_REFUSALS, data)
    except DecodeError:
        return QueryRefusal()
    return QueryRefusal(refusal.error_type or "", refusal.error or "")


def _decode_one(series: _Series, index: int) -> LabelledSeries:
    samples = series.values or ([] if series.value is None else [series.value])
    times = np.array([time for time, _ in samples], np.float64)
    try:
        values = np.array([float(text) for _, text in samples], np.float64)
    except ValueError as error:
        raise DecodeError(f"data.result[{index}].values", str(error)) from error
    return LabelledSeries(series.metric or {}, times, values)


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
