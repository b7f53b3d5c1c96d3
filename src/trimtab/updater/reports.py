"""What the updater has to tell of its turns and acts; logs, metrics and pages follow from it."""

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
    """Why no admission controller is taken to be there; the values are the original's."""

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
    """All that were looked at."""
    is_all: bool
    spans: tuple[tuple[TickStep, timedelta], ...] = ()
    """How long each step took."""
    absence: AdmissionAbsence | None = None
    """Why nothing may be changed, if there is no admission controller."""


@dataclass(frozen=True, slots=True)
class Acted:
    """Something was tried, or not tried any more."""

    at: datetime
    task: Action
    result: ActResult
    error: ClusterError | None = None


@dataclass(frozen=True, slots=True)
class HeldWhileActing:
    """While acting it turned out that pods have to be held."""

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
    """Tells how long the steps of a turn take, one after the other."""

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
    """Nobody wants to know."""


class ActionOutcome(NamedTuple):
    """A kind of act, and what came of it."""

    kind: str
    result: ActResult


@dataclass(frozen=True, slots=True)
class TickReport:
    """One tick in numbers."""

    at: datetime
    is_blind: bool = False
    """Whether the stores were too old, or not there yet, so that nothing was planned."""
    is_admission_alive: bool = False
    planned: Mapping[str, int] = field(default_factory=dict)
    """By kind of outcome: `Evict`, `Resize`, `Unboost`, `Hold`."""
    held: Mapping[HoldReason, int] = field(default_factory=dict)
    acted: Mapping[ActionOutcome, int] = field(default_factory=dict)
    """By kind of act and what came of it, since the tick before."""
    waiting: int = 0
    """Acts that are planned and not begun: the pace does not allow it yet."""
    surging: frozenset[str] = frozenset()
    """The namespaces in which far more pods than usual want a change."""

    def done(self, kind: str) -> int:
        """How many acts of a kind were done."""
        return self.acted.get(ActionOutcome(kind, ActResult.DONE), 0)


def count_kinds(outcomes: Iterable[Outcome]) -> Counter[str]:
    """How many outcomes of each kind there are."""
    return Counter([type(each).__name__ for each in outcomes])


def count_holds(outcomes: Iterable[Outcome]) -> Counter[HoldReason]:
    """How many pods are held for each reason."""
    return Counter([each.reason for each in outcomes if isinstance(each, Hold)])
