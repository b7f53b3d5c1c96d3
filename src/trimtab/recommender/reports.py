"""Reports of ticks: counts and problems, for logs, metrics and tests."""

from collections import Counter
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from operator import add, attrgetter
from typing import Final

from trimtab.core.histogram.buckets import Floats, Ints
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.resources import Resource
from trimtab.core.recommendation.cost.signals import AppliedSignal
from trimtab.core.usage.samples import SampleCounts


class Step(StrEnum):
    """Steps of a tick; the values are the step labels of the original's metrics."""

    LOAD_AUTOSCALERS = "LoadVPAs"
    LOAD_PODS = "LoadPods"
    LOAD_HISTORY = "LoadHistory"
    """Not in the original, which reads history before its first tick."""
    LOAD_PRESSURE = "LoadPressure"
    """Not in the original, which knows no signals of pressure."""
    LOAD_USAGE = "LoadMetrics"
    DELETE_REMOVED_PODS = "DeleteRemovedPods"
    PUBLISH = "UpdateVPAs"
    MAINTAIN_CHECKPOINTS = "MaintainCheckpoints"
    COLLECT_GARBAGE = "GarbageCollect"


@dataclass(frozen=True, slots=True)
class Problem:
    """An error that did not stop the rest of the tick."""

    step: Step
    about: str
    """The object or the request that failed."""
    error: Exception


@dataclass(frozen=True, slots=True)
class Accepted:
    """Samples that counted, as columns."""

    resource: Resource
    aggregates: Ints
    """Rows of the aggregates that the samples were added to."""
    values: Floats
    """Millicores or bytes; for an OOM kill, the memory of the container."""
    is_oom_kill: bool = False


class ResourceSource(StrEnum):
    """Place where a container's resources were read; the values are the original's."""

    STATUS = "Pod.Status.ContainerStatuses"
    SIDECAR_STATUS = "Pod.Status.InitContainerStatuses"
    SPEC = "Pod.Spec.Containers"
    SIDECAR_SPEC = "Pod.Spec.InitContainers"


@dataclass(frozen=True, slots=True)
class PressureReport:
    """Counts of what a source of pressure said; reports can be added."""

    reads: int = 0
    failures: int = 0
    """Reads without an answer."""
    unreadable: int = 0
    """Lines or series that made no sense, and were left out."""
    containers: int = 0
    """Tracked containers that were under pressure."""

    def __add__(self, other: "PressureReport") -> "PressureReport":
        return PressureReport(
            self.reads + other.reads,
            self.failures + other.failures,
            self.unreadable + other.unreadable,
            self.containers + other.containers,
        )


@dataclass(frozen=True, slots=True)
class SignalReport:
    """A signal of pressure that raised the target of a container."""

    autoscaler: AutoscalerName
    container: str
    pod: str
    resource: Resource
    signal: AppliedSignal


@dataclass(frozen=True, slots=True)
class TickReport:
    """Results of one step, or of a whole tick: reports can be added."""

    autoscalers: int = 0
    """Number of served autoscalers."""
    pods: int = 0
    """Number of tracked pods."""
    resource_reads: Counter[ResourceSource] = field(default_factory=Counter)
    """Containers of new or changed pods, by the place where their resources were read."""
    cpu: SampleCounts = field(default_factory=SampleCounts)
    memory: SampleCounts = field(default_factory=SampleCounts)
    oom_kills: SampleCounts = field(default_factory=SampleCounts)
    past_cpu: SampleCounts = field(default_factory=SampleCounts)
    past_memory: SampleCounts = field(default_factory=SampleCounts)
    histories: int = 0
    """Number of namespaces whose history was loaded."""
    unplaced_oom_kills: int = 0
    """Number of kills of containers that are neither tracked nor to be tracked."""
    published: int = 0
    held_back: int = 0
    """Number of statuses whose changes are deferred."""
    restored: int = 0
    """Number of checkpoints restored."""
    checkpoints_written: int = 0
    checkpoints_refused: int = 0
    """Checkpoints that were not written because the stored ones hold more."""
    checkpoints_left: int = 0
    """Checkpoints for which there was no time."""
    checkpoints_deleted: int = 0
    aggregates_forgotten: int = 0
    aggregates_folded: int = 0
    """Number of idle aggregates folded into restored ones."""
    pressure: PressureReport = field(default_factory=PressureReport)
    signals: tuple[SignalReport, ...] = ()
    """Signals of pressure that raised targets."""
    problems: tuple[Problem, ...] = ()
    accepted: tuple[Accepted, ...] = ()
    spans: tuple[tuple[Step, timedelta], ...] = ()
    """Duration of each step."""

    def __add__(self, other: "TickReport") -> "TickReport":
        return TickReport(*map(add, _NUMBERS(self), _NUMBERS(other)))


_NUMBERS: Final = attrgetter(*(one.name for one in fields(TickReport)))
"""Gets all fields of a report, in order."""


@dataclass(frozen=True, slots=True)
class TickResult:
    """Result of one tick of the loop."""

    at: datetime
    report: TickReport | None = None
    """None if the tick failed as a whole."""
    failure: Exception | None = None
