"""Prometheus queries for usage, pods and owners, and their answers, decoded into arrays."""

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
"""A time in seconds, and a number as text: `NaN` and `+Inf` are no JSON numbers."""


class _Series(Wire, frozen=True, kw_only=True):
    metric: dict[str, str] | None = None
    value: _Sample | None = None
    values: list[_Sample] | None = None


class _Data(Wire, frozen=True, kw_only=True):
    result_type: str | None = None
    result: list[_Series] | None = None


class _Answer(Wire, frozen=True, kw_only=True):
    data: _Data | None = None


class _RawData(Wire, frozen=True, kw_only=True):
    result: list[msgspec.Raw] | None = None


class _RawAnswer(Wire, frozen=True, kw_only=True):
    data: _RawData | None = None


class _Refusal(Wire, frozen=True, kw_only=True):
    error_type: str | None = None
    error: str | None = None


_ANSWERS: Final = msgspec.json.Decoder(_Answer)
_RAW_ANSWERS: Final = msgspec.json.Decoder(_RawAnswer)
_SERIES: Final = msgspec.json.Decoder(_Series)
_REFUSALS: Final = msgspec.json.Decoder(_Refusal)


@dataclass(frozen=True, slots=True)
class LabelledSeries:
    """The samples of one series, in order."""

    labels: dict[str, str]
    times: Floats
    """Seconds since the epoch."""
    values: Floats


@dataclass(frozen=True, slots=True)
class QueryRefusal:
    """Error of a query that Prometheus refused."""

    kind: str = ""
    """Type of the error: `bad_data`, `timeout`, `execution` or another."""
    message: str = ""


def decode_series(data: bytes) -> list[LabelledSeries]:
    """Return the series of an answer, a vector or a matrix; raises DecodeError otherwise."""
    found = codec.decode(_ANSWERS, data).data
    if found is None or found.result is None:
        raise DecodeError("data", "an answer without a result")
    return [_decode_one(series, index) for index, series in enumerate(found.result)]


@dataclass(frozen=True, slots=True)
class NewestValues:
    """The newest value of each series of an answer, as far as it makes sense."""

    values: list[tuple[dict[str, str], float, float]]
    """Labels, time in seconds, and value."""
    unreadable: int = 0
    """Number of series that were left out."""


def decode_newest(data: bytes) -> NewestValues:
    """Return the newest values of an answer; a series that makes no sense stops no other one."""
    found = codec.decode(_RAW_ANSWERS, data).data
    if found is None or found.result is None:
        raise DecodeError("data", "an answer without a result")
    values: list[tuple[dict[str, str], float, float]] = []
    for raw in found.result:
        try:
            series = _decode_one(codec.decode(_SERIES, bytes(raw)), 0)
        except DecodeError:
            continue
        if len(series.times):
            values.append((series.labels, float(series.times[-1]), float(series.values[-1])))
    return NewestValues(values, len(found.result) - len(values))


def decode_query_refusal(data: bytes) -> QueryRefusal:
    """Return the error in an answer without a result; empty if it is not from Prometheus."""
    try:
        refusal = codec.decode(_REFUSALS, data)
    except DecodeError:
        return QueryRefusal()
    return QueryRefusal(refusal.error_type or "", refusal.error or "")


def _decode_one(series: _Series, index: int) -> LabelledSeries:
    samples = series.values or ([] if series.value is None else [series.value])
    times = np.array([time for time, _ in samples], np.float64)
    try:
        # Values are strings in this API, because JSON has neither NaN nor Inf.
        values = np.array([float(text) for _, text in samples], np.float64)
    except ValueError as error:
        raise DecodeError(f"data.result[{index}].values", str(error)) from error
    return LabelledSeries(series.metric or {}, times, values)


_PLAIN_METRIC: Final = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)\s*(?:\{(?P<matchers>.*)\})?")
_POD_OWNERS: Final = "kube_pod_owner"
_PAUSE: Final = "POD"
"""Name that old kubelets give to the pause container."""


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """A kind of workload with owners, and the kube-state-metrics series that names them."""

    kind: str
    metric: str
    label: str
    """Label with the workload's name."""


OWNED: Final = (
    WorkloadKind("ReplicaSet", "kube_replicaset_owner", "replicaset"),
    WorkloadKind("Job", "kube_job_owner", "job_name"),
)


def count_by_job(metric: str, labels: UsageLabels) -> str:
    """Return the query for the number of series with all these labels, by job."""
    return f"count by (job) ({metric}{{{', '.join(_matchers_of_usage(labels))}}})"


def count_samples(metric: str, convention: UsageConvention, span: timedelta) -> str:
    """Return the query for the largest number of samples of any series in a span."""
    # The largest: a series that began or ended in the span has fewer samples than the rest.
    return f"max(count_over_time({metric}{_selector(convention)}[{format_span(span)}]))"


def count_usage(metric: str, convention: UsageConvention) -> str:
    """Return the query for the number of series of a metric."""
    return f"count({metric}{_selector(convention)})"


def pressed_containers(
    counter: str,
    convention: UsageConvention,
    *,
    per: str,
    threshold: float,
    window: timedelta,
    namespace: str,
) -> str:
    """Return the query for containers in which a counter grows fast, with its rate.

    With `per` the rate is divided by that of another counter of the same container. The server
    leaves out all containers below the threshold, so that the answer is small. An empty `namespace`
    stands for all.
    """
    selected = f"{_selector(convention, namespace or None)}[{format_span(window)}]"
    rate = f"rate({counter}{selected})"
    if per:
        rate = f"({rate} / rate({per}{selected}))"
    labels = convention.labels
    names = f"{labels.namespace}, {labels.pod}, {labels.container}"
    # A container that was restarted has several series for a while.
    return f"max by ({names}) ({rate}) >= {threshold:g}"


def count_pods(labels: PodLabels) -> str:
    """Return the query for the number of series with labels of pods."""
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
    """Return the query for the usage of all containers of a namespace, in cores or bytes."""
    selected = f"{metric}{_selector(convention, namespace)}"
    # CPU is a counter of seconds; its rate is cores. Memory is a gauge and is read as it is.
    return selected if resource is Resource.MEMORY else f"rate({selected}[{format_span(window)}])"


def past_pods(labels: PodLabels, namespace: str, window: timedelta) -> str:
    """Return the query for labels of pods that existed in the window before each moment."""
    span = format_span(window)
    if _PLAIN_METRIC.fullmatch(labels.metric) is None:
        # An expression needs a subquery: only plain metrics have ranges.
        return f"max_over_time(({labels.metric})[{span}:])"
    matchers = [f"{labels.namespace}={quote(namespace)}", f'{labels.pod}!=""']
    return f"max_over_time({_with_matchers(labels.metric, matchers)}[{span}])"


def count_owners(labels: OwnerLabels) -> str:
    """Return the query for the number of series with owners of pods."""
    return f'count({_POD_OWNERS}{{{labels.namespace}!="", {labels.pod}!=""}})'


def past_pod_owners(labels: OwnerLabels, namespace: str, window: timedelta) -> str:
    """Return the query for owners of pods that existed in the window before each moment."""
    return _past_owners(_POD_OWNERS, labels, namespace, window)


def past_workload_owners(
    kind: WorkloadKind, labels: OwnerLabels, namespace: str, window: timedelta
) -> str:
    """Return the query for owners of one kind of workload in the same window."""
    return _past_owners(kind.metric, labels, namespace, window)


def _past_owners(metric: str, labels: OwnerLabels, namespace: str, window: timedelta) -> str:
    matcher = f"{labels.namespace}={quote(namespace)}"
    return f"max_over_time({metric}{{{matcher}}}[{format_span(window)}])"


def format_span(span: timedelta) -> str:
    """Return the span in Prometheus syntax, to the millisecond."""
    # Milliseconds: a duration literal takes whole numbers only.
    return f"{span // timedelta(milliseconds=1)}ms"


def quote(text: str) -> str:
    """Return the text as a literal of the query language."""
    # The backslash first, or it would escape what the next replacements insert.
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
    # A trailing comma is legal in the query language, but not two of them.
    given = (found["matchers"] or "").strip().rstrip(",")
    return f"{found['name']}{{{', '.join([given, *matchers] if given else matchers)}}}"
