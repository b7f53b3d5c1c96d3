"""Estimators: the arithmetic that turns a history into a target, and the choice between them.

`percentile` is the original's arithmetic. `cost` holds a target until holding it has cost as much
as an OOM kill is worth, and takes the CPU request that would have been cheapest (decision 0063). It
also knows signals of pressure: usage is what a container got, not what it wanted (decision 0072).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Final, assert_never

from trimtab.core.model.validation import (
    SettingsError,
    require_at_least,
    require_fraction,
    require_interval,
)

ESTIMATOR_ANNOTATION: Final = "trimtab.dev/estimator"
"""Annotation of an autoscaler that chooses its estimator."""
OOM_PRICE_ANNOTATION: Final = "trimtab.dev/oom-price-gib-hours"
"""Annotation of an autoscaler with the price of one OOM kill."""

_MIB: Final = 1024**2


class Estimator(StrEnum):
    """An estimator; users write the value."""

    PERCENTILE = "percentile"
    COST = "cost"


class PressureKind(StrEnum):
    """A kind of signal; users see the value."""

    CPU_AT_LIMIT = "cpu_at_limit"
    """Usage is at the CPU limit."""
    CPU_THROTTLED = "cpu_throttled"
    """The kernel throttled the container at its CPU limit for a part of the time."""
    CPU_PRESSURE = "cpu_pressure"
    """Processes waited for a CPU while the container used what it requests."""
    MEMORY_PRESSURE = "memory_pressure"
    """Processes waited for memory close to the memory limit."""
    MEMORY_HIGH = "memory_high"
    """The kernel throttled allocations close to the memory limit."""


class Measure(StrEnum):
    """A number that a source of pressure gives for a container; the value is for settings."""

    THROTTLED = "throttled"
    """Part of the CFS periods in which the container was throttled."""
    CPU_WAITING = "cpu_waiting"
    """Part of the time in which a process waited for a CPU (PSI, some)."""
    MEMORY_WAITING = "memory_waiting"
    """Part of the time in which a process waited for memory (PSI, some)."""
    MEMORY_STALLED = "memory_stalled"
    """Part of the time in which all processes waited for memory (PSI, full)."""
    MEMORY_HIGH = "memory_high"
    """Events `high` of the memory cgroup, per second."""


MEASURES: Final = tuple(Measure)
"""All measures, in the order of columns."""


@dataclass(frozen=True, slots=True)
class PressureSettings:
    """Constants of the rules for signals."""

    lifetime: timedelta = timedelta(minutes=5)
    """A signal expires this long after it was read."""
    throttled_fraction: float = 0.25
    """Part of the CFS periods from which on throttling counts."""
    cpu_waiting_fraction: float = 0.25
    """Part of the time from which on waiting for a CPU counts."""
    cpu_requested_fraction: float = 0.8
    """Waiting counts from this part of the CPU request on: below it the node has to give more."""
    most_waiting_fraction: float = 0.5
    """Waiting counts as this part of the time at most."""
    confirmed_run: timedelta = timedelta(minutes=10)
    """CPU above the target, or at the limit, for so long raises the target under a signal."""
    memory_waiting_fraction: float = 0.1
    memory_stalled_fraction: float = 0.05
    memory_high_per_second: float = 1.0
    memory_limit_fraction: float = 0.8
    """Signals of memory count from this part of the limit on."""
    memory_run: timedelta = timedelta(minutes=2)
    """Signals of memory for so long count as usage at the limit."""
    memory_series: timedelta = timedelta(days=1)
    """A series of signals of memory ends when none has counted for so long."""
    memory_series_factor: float = 2.0
    """Signals of one series count as this multiple of the usage that began it, at most."""
    hold_off: timedelta = timedelta(minutes=15)
    """Time after a step in which no signal counts: readings may be from before it."""

    def threshold(self, measure: Measure) -> float:
        """Return the strength from which on a measure counts."""
        match measure:
            case Measure.THROTTLED:
                return self.throttled_fraction
            case Measure.CPU_WAITING:
                return self.cpu_waiting_fraction
            case Measure.MEMORY_WAITING:
                return self.memory_waiting_fraction
            case Measure.MEMORY_STALLED:
                return self.memory_stalled_fraction
            case Measure.MEMORY_HIGH:
                return self.memory_high_per_second
        assert_never(measure)

    def __post_init__(self) -> None:
        for name in ("lifetime", "confirmed_run", "memory_run", "memory_series", "hold_off"):
            require_interval(name, getattr(self, name))
        for name in ("throttled_fraction", "cpu_waiting_fraction", "memory_limit_fraction"):
            require_fraction(name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class CostSettings:
    """Constants of the cost-based estimator; an operator sets the price of an OOM kill alone."""

    oom_price_gib_hours: float = 40.0
    """Memory that may be held unused for one OOM kill less, by a container of 1 GiB."""
    price_exponent: float = 0.8
    """The price grows with this power of the target: 0 for one price, 1 for one price per GiB."""
    memory_margin_fraction: float = 0.15
    memory_margin_bytes: int = 40 * _MIB
    least_memory_bytes: int = 64 * _MIB
    remembered: timedelta = timedelta(days=28)
    """Levels that were not needed for so long are forgotten."""
    least_age: timedelta = timedelta(hours=30)
    """Time without need before a level may be given up, whatever it costs."""
    peak_lifetime: timedelta = timedelta(hours=36)
    """Time after which a smaller peak replaces the peak of a level."""
    raise_fraction: float = 0.1
    """A target is raised once the need is larger by more than this part."""
    loose_raise_fraction: float = 0.15
    """More of it, for each time that the limit exceeds the request by the whole request."""
    lower_fraction: float = 0.15
    """A memory target is lowered by at least this part."""
    tried_lower_fraction: float = 0.05
    """The same after an OOM kill raised it further than was needed."""
    lower_gap: timedelta = timedelta(hours=36)
    """Time between a change and the next reduction."""
    tried_gap: timedelta = timedelta(hours=2)
    """The same after an OOM kill raised the target further than was needed."""
    warm_up: timedelta = timedelta(hours=6)
    """Time after the first sample during which nothing is lowered."""
    oom_step: float = 2.0
    """An OOM kill raises the limit to this multiple."""
    oom_step_bytes: int = 64 * _MIB
    """And at least by this amount."""
    oom_repeat: timedelta = timedelta(hours=1)
    """A kill this soon after another one, at a higher limit, makes the step grow."""
    most_oom_doublings: int = 2
    oom_loose_step: float = 1.25
    """Least step of a request whose limit is higher."""
    cpu_half_life: timedelta = timedelta(days=2)
    missing_price: float = 2.0
    """Price of missing CPU, where idle CPU costs 1."""
    short_millicores: float = 50.0
    """Price of being short at all, in idle CPU."""
    short_mean_factor: float = 2.5
    """The same as a multiple of the mean usage."""
    cpu_margin_fraction: float = 0.05
    least_cpu_millicores: float = 10.0
    cpu_lower_fraction: float = 0.25
    """A CPU target is lowered by at least this part."""
    joined_lower_fraction: float = 0.05
    """The same where another change replaces or resizes the pods anyway."""
    cpu_settling: timedelta = timedelta(minutes=10)
    """Time after the first sample during which CPU is not raised."""
    cpu_interval: timedelta = timedelta(minutes=30)
    """Time between two searches for the cheapest CPU level, after the first hour."""
    short_run: timedelta = timedelta(minutes=30)
    """CPU above the request, or at the limit, for so long raises the target."""
    short_run_margin_fraction: float = 0.1
    censored_fraction: float = 0.95
    """Usage from this part of the limit on is censored: the need is at least that."""
    censored_factor: float = 1.2
    """A censored sample counts as this multiple of the limit."""
    censored_step: float = 2.0
    longest_gap: timedelta = timedelta(hours=1)
    """A longer time without samples counts as this much: nothing is known about the rest."""
    bound_fraction: float = 0.05
    """Distance of the bounds from the target, as a part of the target."""
    start_settling: timedelta = timedelta(minutes=2)
    """Time after a pod became ready during which its CPU still counts as that of its start."""
    longest_start: timedelta = timedelta(minutes=30)
    """CPU counts from this age of a container on, ready or not."""
    pressure: PressureSettings = field(default_factory=PressureSettings)

    def __post_init__(self) -> None:
        require_at_least("oom_price_gib_hours", self.oom_price_gib_hours, 0)
        require_fraction("price_exponent", self.price_exponent)
        require_interval("cpu_half_life", self.cpu_half_life)
        require_fraction("bound_fraction", self.bound_fraction)


def chosen_estimator(annotations: Mapping[str, str], default: Estimator) -> Estimator:
    """Return the estimator of an autoscaler; the default where its annotation names none."""
    try:
        return Estimator(annotations.get(ESTIMATOR_ANNOTATION, default))
    except ValueError:
        return default


def oom_price(annotations: Mapping[str, str], default: float) -> float:
    """Return the price of an OOM kill for an autoscaler; the default if it sets no valid one."""
    given = annotations.get(OOM_PRICE_ANNOTATION)
    if given is None:
        return default
    try:
        return parse_oom_price(given)
    except SettingsError:
        return default


def parse_oom_price(text: str) -> float:
    """Return the price in an annotation; raises SettingsError."""
    try:
        price = float(text)
    except ValueError:
        price = math.nan
    require_at_least(OOM_PRICE_ANNOTATION, price, 0)
    return price
