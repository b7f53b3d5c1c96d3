"""The recommender's metrics, under the original's names, updated after each tick."""

from collections import Counter as Tally
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import product
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from trimtab.core.model.autoscalers import AutoscalerName, UpdateMode
from trimtab.core.model.estimation import PressureKind
from trimtab.recommender.accuracy_metrics import QualityMeter
from trimtab.recommender.prometheus_types import PlainCounter
from trimtab.recommender.reports import Step, TickReport, TickResult
from trimtab.recommender.state import AutoscalerState, RecommenderState

_TENTHS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90)
_BOOLEANS: Final = ("false", "true")
_API_VERSIONS: Final = ("v1beta1", "v1beta2", "v1")

OBJECTS: Final = Gauge(
    "vpa_recommender_vpa_objects_count",
    "How many autoscalers there are of each kind.",
    ["update_mode", "has_recommendation", "api", "matches_pods", "unsupported_config"],
)
RECOMMENDATION_LATENCY: Final = Histogram(
    "vpa_recommender_recommendation_latency_seconds",
    "The time from the creation of an autoscaler to its first recommendation.",
    buckets=(
        *(1, 2, 5, 7.5, 10, 20, 30, 40, 50, 60, 90, 120, 150, 180),
        *(240, 300, 600, 900, 1800),
    ),
)
EXECUTION_LATENCY: Final = Histogram(
    "vpa_recommender_execution_latency_seconds",
    "The time that a step of a tick takes.",
    ["step"],
    buckets=(*_TENTHS, 100, 120, 150, 240, 300),
)
AGGREGATES: Final = Gauge(
    "vpa_recommender_aggregate_container_states_count",
    "How many aggregates there are: containers of the same name in pods of the same labels.",
)
USAGE_RESPONSES: Final = PlainCounter(
    "vpa_recommender_metric_server_responses",
    "How often usage was asked for, and whether that failed.",
    ["is_error", "client_name"],
)
HISTORY_QUERIES: Final = PlainCounter(
    "vpa_recommender_prometheus_client_api_requests_count",
    "Queries for history that Prometheus answered, by status.",
    ["code", "method"],
)
HISTORY_LATENCY: Final = Histogram(
    "vpa_recommender_prometheus_client_api_requests_duration_seconds",
    "The time until Prometheus answers a query for history.",
    ["code", "method"],
    buckets=(
        *(0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
        *(1, 2, 5, 10, 20, 30, 60, 120, 300),
    ),
)
RESOURCE_READS: Final = PlainCounter(
    "vpa_resources_get_resources_count",
    "Containers whose resources were read, by where.",
    ["source"],
)
SAMPLES: Final = Counter(
    "vpa_recommender_samples",
    "Readings of usage and OOM kills, and what became of them.",
    ["kind", "outcome"],
)
STATUSES: Final = Counter(
    "vpa_recommender_statuses_published",
    "Statuses of autoscalers that were written.",
)
CHECKPOINTS: Final = Counter(
    "vpa_recommender_checkpoints",
    "Checkpoints, by what was done to them.",
    ["outcome"],
)
PROBLEMS: Final = Counter(
    "vpa_recommender_problems",
    "What went wrong in ticks, by step.",
    ["step"],
)
PRESSURE_READS: Final = Counter(
    "vpa_recommender_pressure_reads",
    "How often signals of pressure were read, and whether that failed.",
    ["outcome"],
)
PRESSURE_UNREADABLE: Final = Counter(
    "vpa_recommender_pressure_unreadable",
    "Lines or series about pressure that made no sense, and were left out.",
)
PRESSURE_SIGNALS: Final = Counter(
    "vpa_recommender_pressure_signals",
    "Signals of pressure that raised a target, by kind.",
    ["kind"],
)
FAILED_TICKS: Final = Counter(
    "vpa_recommender_failed_ticks",
    "Ticks that failed as a whole.",
)

_USAGE_CLIENT: Final = "default-metrics-client"
_TOTAL: Final = "total"


@dataclass(slots=True)
class RecommenderMeter:
    """Updates the metrics after each tick."""

    _quality: QualityMeter = field(default_factory=QualityMeter, init=False)
    _timed: set[AutoscalerName] = field(default_factory=set, init=False)
    """Autoscalers whose first recommendation was counted."""

    def __post_init__(self) -> None:
        _show_objects(())
        for step in (*Step, _TOTAL):
            EXECUTION_LATENCY.labels(step)
        for kind in PressureKind:
            PRESSURE_SIGNALS.labels(kind)

    def note(self, result: TickResult, state: RecommenderState) -> None:
        """Count the results of a tick."""
        if result.report is None:
            FAILED_TICKS.inc()
            return
        if not result.report.spans:
            # Before the first lists, a tick does nothing.
            return
        _count_report(result.report)
        AGGREGATES.set(len(state.usage.aggregates.keyed_rows()))
        _show_objects(_kind(state, subject) for subject in state.served.values())
        self._time_first_recommendations(result, state)
        self._quality.note(result.report, state)

    def _time_first_recommendations(self, result: TickResult, state: RecommenderState) -> None:
        for name, subject in state.subjects.items():
            written = subject.written
            if written is None or written.at < result.at or name in self._timed:
                continue
            created = written.over.created_at
            if written.status.recommendation and not written.over.recommendation and created:
                latency = max(timedelta(), written.at - created)
                RECOMMENDATION_LATENCY.observe(latency.total_seconds())
                self._timed.add(name)
        self._timed &= state.served.keys()


def note_query(status: int, method: str, span: timedelta) -> None:
    """Count an answered history query."""
    labels = (str(status), method)
    HISTORY_QUERIES.add(*labels)
    HISTORY_LATENCY.labels(*labels).observe(span.total_seconds())


def _count_report(report: TickReport) -> None:
    for step, span in report.spans:
        EXECUTION_LATENCY.labels(step).observe(span.total_seconds())
    total = sum((span for _, span in report.spans), timedelta())
    EXECUTION_LATENCY.labels(_TOTAL).observe(total.total_seconds())
    failed = any(one.step is Step.LOAD_USAGE for one in report.problems)
    USAGE_RESPONSES.add(_BOOLEANS[failed], _USAGE_CLIENT)
    intakes = (
        ("cpu", report.cpu),
        ("memory", report.memory),
        ("oom_kill", report.oom_kills),
        ("past_cpu", report.past_cpu),
        ("past_memory", report.past_memory),
    )
    for kind, intake in intakes:
        SAMPLES.labels(kind, "accepted").inc(intake.accepted)
        SAMPLES.labels(kind, "outdated").inc(intake.outdated)
        SAMPLES.labels(kind, "absurd").inc(intake.absurd)
    for source, count in report.resource_reads.items():
        RESOURCE_READS.add(source, count=count)
    STATUSES.inc(report.published)
    CHECKPOINTS.labels("written").inc(report.checkpoints_written)
    CHECKPOINTS.labels("refused").inc(report.checkpoints_refused)
    CHECKPOINTS.labels("deleted").inc(report.checkpoints_deleted)
    PRESSURE_READS.labels("answered").inc(report.pressure.reads)
    PRESSURE_READS.labels("failed").inc(report.pressure.failures)
    PRESSURE_UNREADABLE.inc(report.pressure.unreadable)
    for each in report.signals:
        PRESSURE_SIGNALS.labels(each.signal.kind).inc()
    for problem in report.problems:
        PROBLEMS.labels(problem.step).inc()


def _show_objects(kinds: Iterable[tuple[str, ...]]) -> None:
    counts = Tally(kinds)
    modes = [mode.value for mode in UpdateMode]
    for labels in product(modes, _BOOLEANS, _API_VERSIONS, _BOOLEANS, _BOOLEANS):
        OBJECTS.labels(*labels).set(counts[labels])


def _kind(state: RecommenderState, subject: AutoscalerState) -> tuple[str, ...]:
    """Return the labels of an autoscaler; all are read as v1, whatever version wrote them."""
    published = subject.autoscaler.recommendation
    if subject.written is not None and subject.written.over is subject.autoscaler:
        published = tuple(subject.written.status.recommendation)
    return (
        subject.autoscaler.mode.value,
        _BOOLEANS[bool(published)],
        _API_VERSIONS[-1],
        _BOOLEANS[state.usage.has_pods(subject.name)],
        _BOOLEANS[subject.unsupported is not None],
    )
