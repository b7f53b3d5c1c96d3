"""What became of a tick: counts and problems, for logs, metrics and tests to be hung on."""

from collections import Counter
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from operator import add, attrgetter
from typing import Final

from trimtab.core.histogram.buckets import Floats, Ints
from trimtab.core.model.resources import Resource
from trimtab.core.usage.samples import SampleCounts


class Step(StrEnum):
    """The steps of a tick; the values are the original's, as its metrics have them."""

    LOAD_AUTOSCALERS = "LoadVPAs"
    LOAD_PODS = "LoadPods"
    LOAD_HISTORY = "LoadHistory"
    """The original reads history before its first tick, and has no name for that."""
    LOAD_USAGE = "LoadMetrics"
    DELETE_REMOVED_PODS = "DeleteRemovedPods"
    PUBLISH = "UpdateVPAs"
    MAINTAIN_CHECKPOINTS = "MaintainCheckpoints"
    COLLECT_GARBAGE = "GarbageCollect"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that did not work, and did not keep the rest from working."""

    step: Step
    about: str
    """The object, or what was asked for."""
    error: Exception


@dataclass(frozen=True, slots=True)
class Accepted:
    """Samples that counted, as columns."""

    resource: Resource
    aggregates: Ints
    """The rows of the aggregates that they were added to."""
    values: Floats
    """Millicores or bytes; of an OOM kill what the container had."""
    is_oom_kill: bool = False


class ResourceSource(StrEnum):
    """Where the resources of a container were read; the values are the original's."""

    STATUS = "Pod.Status.ContainerStatuses"
    SIDECAR_STATUS = "Pod.Status.InitContainerStatuses"
    SPEC = "Pod.Spec.Containers"
    SIDECAR_SPEC = "Pod.Spec.InitContainers"


@dataclass(frozen=True, slots=True)
class TickReport:
    """What was done, by one step or by all of them: reports can be added."""

    autoscalers: int = 0
    """Those that we recommend for."""
    pods: int = 0
    """Those that are tracked."""
    resource_reads: Counter[ResourceSource] = field(default_factory=Counter)
    """Containers of pods that are new or have changed, by where their resources were read."""
    cpu: SampleCounts = field(default_factory=SampleCounts)
    memory: SampleCounts = field(default_factory=SampleCounts)
    oom_kills: SampleCounts = field(default_factory=SampleCounts)
    past_cpu: SampleCounts = field(default_factory=SampleCounts)
    past_memory: SampleCounts = field(default_factory=SampleCounts)
    histories: int = 0
    """Namespaces whose history was taken in."""
    unplaced_oom_kills: int = 0
    """Kills of containers that nobody knows anything else of."""
    published: int = 0
    held_back: int = 0
    """Statuses that changed too little to be written."""
    restored: int = 0
    """Checkpoints from which something was learned."""
    checkpoints_written: int = 0
    checkpoints_refused: int = 0
    """Checkpoints that were not written because the stored ones hold more."""
    checkpoints_left: int = 0
    """Checkpoints for which there was no time."""
    checkpoints_deleted: int = 0
    aggregates_forgotten: int = 0
    aggregates_folded: int = 0
    """Aggregates that are kept with what was restored from now on."""
    problems: tuple[Problem, ...] = ()
    accepted: tuple[Accepted, ...] = ()
    spans: tuple[tuple[Step, timedelta], ...] = ()
    """How long each step took."""

    def __add__(self, other: "TickReport") -> "TickReport":
        return TickReport(*map(add, _NUMBERS(self), _NUMBERS(other)))


_NUMBERS: Final = attrgetter(*(one.name for one in fields(TickReport)))
"""All that a report holds, in the order of its fields."""


@dataclass(frozen=True, slots=True)
class TickResult:
    """How a tick of the loop went."""

    at: datetime
    report: TickReport | None = None
    """None if it failed as a whole."""
    failure: Exception | None = None
