"""The updater's metrics, under the original's names and a few of our own, from its reports."""

from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from trimtab.core.changes.outcomes import Evict, Hold, Outcome, Resize, Unboost
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName, UpdateMode
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.updater.actions import ActResult
from trimtab.updater.boost_metrics import BoostMeter, SizeMeter
from trimtab.updater.reports import (
    Acted,
    AdmissionAbsence,
    HeldWhileActing,
    News,
    PlanMade,
    TickFailed,
    TickStep,
    ViewNotReady,
)

_SIZE: Final = "vpa_size_log2"
_MODE: Final = "update_mode"
_OBJECT: Final = ("vpa_name", "vpa_namespace")
_LARGEST_SIZE: Final = 20
_SIZES: Final = tuple(str(size) for size in range(_LARGEST_SIZE))
"""The original shows this many sizes, even if no autoscaler has them."""
_TENTHS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90)
_TOTAL: Final = "total"

CONTROLLED_PODS: Final = Gauge(
    "vpa_updater_controlled_pods_total",
    "Live pods of autoscalers whose mode lets running pods be changed.",
    [_SIZE, _MODE],
)
EVICTABLE_PODS: Final = Gauge(
    "vpa_updater_evictable_pods_total",
    "Pods that the last plan wants to evict.",
    [_SIZE, _MODE],
)
EVICTED_PODS: Final = Counter(
    "vpa_updater_evicted_pods",
    "Pods that were evicted.",
    [_SIZE, _MODE, *_OBJECT],
)
AUTOSCALERS_WITH_EVICTABLE_PODS: Final = Gauge(
    "vpa_updater_vpas_with_evictable_pods_total",
    "Autoscalers of which the last plan wants to evict a pod.",
    [_SIZE, _MODE],
)
AUTOSCALERS_WITH_EVICTED_PODS: Final = Gauge(
    "vpa_updater_vpas_with_evicted_pods_total",
    "Autoscalers of which a pod was evicted since the last plan of everything.",
    [_SIZE, _MODE],
)
FAILED_EVICTIONS: Final = Counter(
    "vpa_updater_failed_eviction_attempts",
    "Evictions that the API server did not carry out.",
    [_SIZE, _MODE, "reason", *_OBJECT],
)
RESIZABLE_PODS: Final = Gauge(
    "vpa_updater_in_place_updatable_pods_total",
    "Pods that the last plan wants to resize in place.",
    [_SIZE],
)
RESIZED_PODS: Final = Counter(
    "vpa_updater_in_place_updated_pods",
    "Pods that were resized in place, at the end of a startup boost too.",
    [_SIZE, *_OBJECT],
)
AUTOSCALERS_WITH_RESIZABLE_PODS: Final = Gauge(
    "vpa_updater_vpas_with_in_place_updatable_pods_total",
    "Autoscalers of which the last plan wants to resize a pod in place.",
    [_SIZE],
)
AUTOSCALERS_WITH_RESIZED_PODS: Final = Gauge(
    "vpa_updater_vpas_with_in_place_updated_pods_total",
    "Autoscalers of which a pod was resized in place since the last plan of everything.",
    [_SIZE],
)
FAILED_RESIZES: Final = Counter(
    "vpa_updater_failed_in_place_update_attempts",
    "Resizes in place that the API server did not carry out.",
    [_SIZE, "reason", *_OBJECT],
)
SKIPPED_RESIZES: Final = Counter(
    "vpa_updater_in_place_infeasible_skip_pods",
    "Pods that are not resized again, as their node or the API server refused it, once per tick.",
    [_SIZE, *_OBJECT],
)
EXECUTION_LATENCY: Final = Histogram(
    "vpa_updater_execution_latency_seconds",
    "The time that a step of a tick takes.",
    ["step"],
    buckets=(*_TENTHS, 100, 120, 150, 240, 300),
)
HOLDS: Final = Counter(
    "vpa_updater_holds",
    "Decisions to leave a pod as it is, by reason; a pod that stays held counts once.",
    ["reason"],
)
HELD_PODS: Final = Gauge(
    "vpa_updater_held_pods",
    "Pods that are left as they are now, by reason.",
    ["reason"],
)
ACTS: Final = Counter(
    "vpa_updater_acts",
    "What was to be done about pods, and what came of it.",
    ["act", "result"],
)
WAITING_ACTS: Final = Gauge(
    "vpa_updater_waiting_acts",
    "What is planned and not begun yet, because of the rate limit.",
)
ADMISSION_ABSENT: Final = Counter(
    "vpa_updater_admission_controller_status_invalid",
    "Ticks that changed nothing because no admission controller was there, by reason.",
    ["reason"],
)
BLIND_TICKS: Final = Counter(
    "vpa_updater_blind_ticks",
    "Ticks that planned nothing because the view of the cluster was old or not complete.",
)
FAILED_TURNS: Final = Counter(
    "vpa_updater_failed_turns",
    "Turns that failed as a whole.",
)

_IDLE_MODES: Final = (UpdateMode.OFF, UpdateMode.INITIAL)
_NO_ATTEMPT: Final = frozenset({ActResult.DONE, ActResult.WITHDRAWN, ActResult.OUTDATED})
_EVICTION_ERROR: Final = "EvictionError"
_RESIZE_ERROR: Final = "InPlaceUpdateError"
_REFUSED: Final = frozenset({HoldReason.RESIZE_INFEASIBLE, HoldReason.RESIZE_DENIED})
_RESIZE_INFEASIBLE: Final = "InPlaceUpdateInfeasible"
_UNBOOST_ERROR: Final = "UnboostError"


@dataclass(slots=True)
class _Series:
    """Counters with a series for each autoscaler, which goes when the autoscaler does."""

    _made: defaultdict[AutoscalerName, set[tuple[Counter, tuple[str, ...]]]] = field(
        default_factory=lambda: defaultdict(set), init=False
    )

    def count(
        self, counter: Counter, name: AutoscalerName, labels: Iterable[str], number: int = 1
    ) -> None:
        values = (*labels, name.name, name.namespace)
        self._made[name].add((counter, values))
        counter.labels(*values).inc(number)

    def keep(self, names: Collection[AutoscalerName]) -> None:
        for name in self._made.keys() - names:
            for counter, values in self._made.pop(name):
                counter.remove(*values)


class UpdaterMeter:
    """Updates the metrics from the updater's reports."""

    def __init__(self, waiting: Callable[[], int]) -> None:
        self._series = _Series()
        self._boosts = BoostMeter()
        self._requests = SizeMeter()
        self._outcomes: Collection[Outcome] = ()
        self._autoscalers: Mapping[AutoscalerName, Autoscaler] = {}
        self._refused: Sequence[AutoscalerName | None] = ()
        """The autoscaler of each pod whose resize was refused."""
        self._sizes: Tally[AutoscalerName] = Tally()
        self._begun: dict[AutoscalerName, tuple[str, str]] = {}
        """The size and the mode with which series were begun."""
        self._evicted: set[AutoscalerName] = set()
        self._resized: set[AutoscalerName] = set()
        WAITING_ACTS.set_function(waiting)
        for reason in HoldReason:
            HOLDS.labels(reason.value)
            HELD_PODS.labels(reason.value).set(0)
        for absence in AdmissionAbsence:
            ADMISSION_ABSENT.labels(absence.value)
        for step in (*TickStep, _TOTAL):
            EXECUTION_LATENCY.labels(step)

    def note(self, news: News, changed: Iterable[Outcome], held: Mapping[HoldReason, int]) -> None:
        """Count what a report adds, and the decisions that it has changed."""
        self._boosts.note(news)
        for outcome in changed:
            if isinstance(outcome, Hold):
                HOLDS.labels(outcome.reason.value).inc()
        match news:
            case PlanMade():
                self._note_plan(news)
            case Acted():
                self._note_act(news)
            case ViewNotReady():
                BLIND_TICKS.inc()
            case TickFailed():
                FAILED_TURNS.inc()
            case HeldWhileActing():
                pass
        if isinstance(news, PlanMade | HeldWhileActing):
            for reason in HoldReason:
                HELD_PODS.labels(reason.value).set(held.get(reason, 0))

    def _note_plan(self, plan: PlanMade) -> None:
        if not plan.is_all:
            return
        for step, span in plan.spans:
            EXECUTION_LATENCY.labels(step).observe(span.total_seconds())
        if plan.absence is not None:
            ADMISSION_ABSENT.labels(plan.absence.value).inc()
        total = sum((span for _, span in plan.spans), timedelta())
        EXECUTION_LATENCY.labels(_TOTAL).observe(total.total_seconds())
        self._evicted.clear()
        self._resized.clear()
        self._show_by_mode(AUTOSCALERS_WITH_EVICTED_PODS, {})
        self._show_by_size(AUTOSCALERS_WITH_RESIZED_PODS, {})
        # Mostly these are the very same records, so only addresses are compared.
        if (plan.outcomes, plan.autoscalers) != (self._outcomes, self._autoscalers):
            self._note_outcomes(plan)
        for name in self._refused:
            self._count(SKIPPED_RESIZES, name, with_mode=False)

    def _note_outcomes(self, plan: PlanMade) -> None:
        self._outcomes, self._autoscalers = plan.outcomes, plan.autoscalers
        governed = [each for each in plan.outcomes if each.autoscaler in plan.autoscalers]
        self._sizes = Tally(each.autoscaler for each in governed if each.autoscaler is not None)
        self._refused = [
            each.autoscaler
            for each in governed
            if isinstance(each, Hold) and each.reason in _REFUSED
        ]
        self._series.keep(plan.autoscalers)
        self._begin_series()
        self._show_pods(governed)
        self._requests.show(governed)

    def _begin_series(self) -> None:
        """Begin series at 0, so that none is missing before its first event."""
        before, self._begun = self._begun, {}
        for name in self._sizes:
            if self._is_active(name):
                labels = self._begun[name] = self._size(name), self._mode(name)
                if before.get(name) != labels:
                    self._count(EVICTED_PODS, name, with_mode=True, number=0)
                    self._count(RESIZED_PODS, name, with_mode=False, number=0)

    def _show_pods(self, governed: Iterable[Outcome]) -> None:
        names = [(each, each.autoscaler) for each in governed if each.autoscaler is not None]
        evictable = Tally(name for each, name in names if isinstance(each, Evict))
        resizable = Tally(name for each, name in names if isinstance(each, Resize | Unboost))
        active = {name: size for name, size in self._sizes.items() if self._is_active(name)}
        self._show_by_mode(CONTROLLED_PODS, active)
        self._show_by_mode(EVICTABLE_PODS, evictable)
        self._show_by_mode(AUTOSCALERS_WITH_EVICTABLE_PODS, dict.fromkeys(evictable, 1))
        self._show_by_size(RESIZABLE_PODS, resizable)
        self._show_by_size(AUTOSCALERS_WITH_RESIZABLE_PODS, dict.fromkeys(resizable, 1))

    def _show_changed(self, name: AutoscalerName, *, is_eviction: bool) -> None:
        """Count an autoscaler of which a pod was changed, once from plan to plan."""
        if is_eviction and name not in self._evicted:
            self._evicted.add(name)
            AUTOSCALERS_WITH_EVICTED_PODS.labels(self._size(name), self._mode(name)).inc()
        elif not is_eviction and name not in self._resized:
            self._resized.add(name)
            AUTOSCALERS_WITH_RESIZED_PODS.labels(self._size(name)).inc()

    def _show_by_mode(self, gauge: Gauge, numbers: Mapping[AutoscalerName, int]) -> None:
        sums: Tally[tuple[str, str]] = Tally()
        for name, number in numbers.items():
            sums[self._size(name), self._mode(name)] += number
        gauge.clear()
        for labels, number in sums.items():
            gauge.labels(*labels).set(number)

    def _show_by_size(self, gauge: Gauge, numbers: Mapping[AutoscalerName, int]) -> None:
        sums = Tally(dict.fromkeys(_SIZES, 0))
        for name, number in numbers.items():
            sums[self._size(name)] += number
        for size, number in sums.items():
            gauge.labels(size).set(number)

    def _note_act(self, acted: Acted) -> None:
        act, name = acted.task.act, acted.task.act.autoscaler
        ACTS.labels(type(act).__name__, acted.result.value).inc()
        if name not in self._autoscalers or name is None:
            return
        is_eviction = isinstance(act, Evict)
        if acted.result is ActResult.DONE:
            if not isinstance(act, Unboost):
                self._requests.count(act)
            self._count(EVICTED_PODS if is_eviction else RESIZED_PODS, name, with_mode=is_eviction)
            self._show_changed(name, is_eviction=is_eviction)
        elif acted.result not in _NO_ATTEMPT:
            counter = FAILED_EVICTIONS if is_eviction else FAILED_RESIZES
            self._count(counter, name, _failure(acted), with_mode=is_eviction)

    def _count(
        self,
        counter: Counter,
        name: AutoscalerName | None,
        *more: str,
        with_mode: bool,
        number: int = 1,
    ) -> None:
        if name is not None:
            mode = (self._mode(name),) if with_mode else ()
            self._series.count(counter, name, (self._size(name), *mode, *more), number)

    def _is_active(self, name: AutoscalerName) -> bool:
        return self._autoscalers[name].mode not in _IDLE_MODES

    def _size(self, name: AutoscalerName) -> str:
        return str(size_log2(self._sizes[name]))

    def _mode(self, name: AutoscalerName) -> str:
        return self._autoscalers[name].mode.value


def size_log2(pods: int) -> int:
    """Return the label for the number of pods of an autoscaler."""
    return min(max(pods, 1).bit_length() - 1, _LARGEST_SIZE)


def _failure(acted: Acted) -> str:
    match acted.task.act:
        case Evict():
            return _EVICTION_ERROR
        case Unboost():
            return _UNBOOST_ERROR
        case Resize():
            refused = acted.result is ActResult.REFUSED
            return _RESIZE_INFEASIBLE if refused else _RESIZE_ERROR
