"""Reports of the updater on its turns and acts, from which logs, metrics and pages follow."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from trimtab.cluster.errors import ClusterError
from trimtab.cluster.ports import Clock
from trimtab.core.changes.outcomes import Hold, Outcome
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.updater.actions import ActResult
from trimtab.updater.queue import Action


class TickStep(StrEnum):
    """The steps of a tick; the values are the original's, as its metrics have them."""

    LOOK_FOR_ADMISSION = "AdmissionInit"
    OBSERVE = "ListPods"
    PLAN = "FilterPods"
    FILL_AGENDA = "EvictPods"


class AdmissionAbsence(StrEnum):
    """Reasons why the admission controller counts as absent; the values are the original's."""

    UNREAD = "error"
    """There is no lease, or it could not be read."""
    STALE = "invalid"
    """The lease was not renewed."""


@dataclass(frozen=True, slots=True)
class ViewNotReady:
    """Nothing was planned: the view of the cluster is too old, or not complete yet."""

    at: datetime


@dataclass(frozen=True, slots=True)
class PlanMade:
    """A plan was made: of everything, or of a part."""

    at: datetime
    outcomes: Collection[Outcome]
    autoscalers: Mapping[AutoscalerName, Autoscaler]
    """All autoscalers that were observed."""
    is_all: bool
    spans: tuple[tuple[TickStep, timedelta], ...] = ()
    """Duration of each step."""
    absence: AdmissionAbsence | None = None
    """Why nothing may be changed, if there is no admission controller."""


@dataclass(frozen=True, slots=True)
class Acted:
    """An act was tried, or dropped."""

    at: datetime
    task: Action
    result: ActResult
    error: ClusterError | None = None


@dataclass(frozen=True, slots=True)
class HeldWhileActing:
    """Pods that have to be held, as it turned out while acting."""

    at: datetime
    holds: Collection[Hold]


@dataclass(frozen=True, slots=True)
class TickFailed:
    """A turn failed as a whole."""

    at: datetime
    error: Exception


News: TypeAlias = ViewNotReady | PlanMade | Acted | HeldWhileActing | TickFailed
ReportSink: TypeAlias = Callable[[News], None]


class Stopwatch:
    """Measures how long the steps of a turn take, one after the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.begun_at = self._last = clock.now()
        self.spans: tuple[tuple[TickStep, timedelta], ...] = ()

    def end(self, step: TickStep) -> None:
        """Note the time since the last step ended."""
        now = self._clock.now()
        self.spans = (*self.spans, (step, now - self._last))
        self._last = now


def tell_nobody(_: News) -> None:
    """Discard the report."""


class ActionOutcome(NamedTuple):
    """A kind of act and its result."""

    kind: str
    result: ActResult


@dataclass(frozen=True, slots=True)
class TickReport:
    """One tick in numbers."""

    at: datetime
    is_blind: bool = False
    """True if the stores were too old, or not complete yet, so that nothing was planned."""
    is_admission_alive: bool = False
    planned: Mapping[str, int] = field(default_factory=dict)
    """By kind of outcome: `Evict`, `Resize`, `Unboost`, `Hold`."""
    held: Mapping[HoldReason, int] = field(default_factory=dict)
    acted: Mapping[ActionOutcome, int] = field(default_factory=dict)
    """By kind of act and result, since the tick began."""
    waiting: int = 0
    """Acts that are planned and not begun: the pace does not allow it yet."""
    surging: frozenset[str] = frozenset()
    """The namespaces in which far more pods than usual want a change."""

    def done(self, kind: str) -> int:
        """Return the number of acts of a kind that were done."""
        return self.acted.get(ActionOutcome(kind, ActResult.DONE), 0)


def count_kinds(outcomes: Iterable[Outcome]) -> Counter[str]:
    """Return the number of outcomes of each kind."""
    return Counter([type(each).__name__ for each in outcomes])


def count_holds(outcomes: Iterable[Outcome]) -> Counter[HoldReason]:
    """Return the number of pods that are held for each reason."""
    return Counter([each.reason for each in outcomes if isinstance(each, Hold)])
