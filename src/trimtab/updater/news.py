"""What the updater has to tell of its turns and acts; logs, metrics and pages follow from it."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeAlias

from trimtab.cluster.errors import ClusterError
from trimtab.cluster.ports import Clock
from trimtab.core.autoscalers import Autoscaler, AutoscalerName
from trimtab.core.outcomes import Hold, Outcome
from trimtab.core.records import dataclass
from trimtab.updater.agenda import Task
from trimtab.updater.carrying import ActResult


class Step(StrEnum):
    """The steps of a tick; the values are the original's, as its metrics have them."""

    LOOK_FOR_ADMISSION = "AdmissionInit"
    OBSERVE = "ListPods"
    PLAN = "FilterPods"
    FILL_AGENDA = "EvictPods"


class Absence(StrEnum):
    """Why no admission controller is taken to be there; the values are the original's."""

    UNREAD = "error"
    """There is no lease, or it could not be read."""
    STALE = "invalid"
    """The lease was not renewed."""


@dataclass(frozen=True, slots=True)
class Blind:
    """Nothing was planned: the view of the cluster is too old, or not complete yet."""

    at: datetime


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan was made: of everything, or of a part."""

    at: datetime
    outcomes: Collection[Outcome]
    autoscalers: Mapping[AutoscalerName, Autoscaler]
    """All that were looked at."""
    is_all: bool
    spans: tuple[tuple[Step, timedelta], ...] = ()
    """How long each step took."""
    absence: Absence | None = None
    """Why nothing may be changed, if there is no admission controller."""


@dataclass(frozen=True, slots=True)
class Acted:
    """Something was tried, or not tried any more."""

    at: datetime
    task: Task
    result: ActResult
    error: ClusterError | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """While acting it turned out that pods have to be held."""

    at: datetime
    holds: Collection[Hold]


@dataclass(frozen=True, slots=True)
class Failed:
    """A turn failed as a whole."""

    at: datetime
    error: Exception


News: TypeAlias = Blind | Planned | Acted | Held | Failed
Tell: TypeAlias = Callable[[News], None]


class Stopwatch:
    """Tells how long the steps of a turn take, one after the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.begun_at = self._last = clock.now()
        self.spans: tuple[tuple[Step, timedelta], ...] = ()

    def end(self, step: Step) -> None:
        """Note the time since the last step ended."""
        now = self._clock.now()
        self.spans = (*self.spans, (step, now - self._last))
        self._last = now


def tell_nobody(_: News) -> None:
    """Nobody wants to know."""
