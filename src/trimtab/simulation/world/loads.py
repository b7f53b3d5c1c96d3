"""Loads: CPU and memory that a container would use without limits.

A load is a record of a few numbers, so that thousands of containers are evaluated at once, in
columns (`load/demand.py`). The formulas use only sums and products of IEEE floats, no sine and no
logarithm: they give the same bits on every machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

ROLE_LABEL: Final = "trimtab.dev/role"
"""Pod label with the present role of the pod: a leader works harder than a follower."""
HOURS_OF_A_DAY: Final = 24

_FLAT: Final = (1.0,) * HOURS_OF_A_DAY
OFFICE_DAY: Final = tuple(
    [0.1] * 6 + [0.3, 0.6, 0.9, 1.0, 1.0, 0.9, 0.8, 0.9, 1.0, 1.0, 0.9, 0.7] + [0.4] * 3 + [0.2] * 3
)


@dataclass(frozen=True, slots=True)
class Wave:
    """Usage of one resource over time, in millicores or bytes."""

    base: float = 0.0
    """Constant usage."""
    daily: float = 0.0
    """Additional usage, multiplied by the shape of the day."""
    weekend_factor: float = 1.0
    """Factor of the daily part on Saturdays and Sundays."""
    noise: float = 0.0
    """Maximum of the additional random usage, drawn at each evaluation."""
    spike: float = 0.0
    """Additional usage during a spike."""
    spike_chance: float = 0.0
    """Probability of a spike at each evaluation."""
    burst: float = 0.0
    """Additional usage during bursts, which last for a while and repeat."""
    leak_per_hour: float = 0.0
    """Growth per hour while the container runs."""


@dataclass(frozen=True, slots=True)
class Bursts:
    """Interval and length of the bursts of both resources."""

    every: timedelta = timedelta(hours=1)
    length: timedelta = timedelta()


@dataclass(frozen=True, slots=True)
class Trace:
    """Recorded usage: one value per step, repeated from the start when it ends."""

    cpu_millicores: tuple[float, ...]
    memory_bytes: tuple[float, ...]
    step: timedelta = timedelta(minutes=5)

    def __post_init__(self) -> None:
        if not self.cpu_millicores or len(self.cpu_millicores) != len(self.memory_bytes):
            raise ValueError("a trace has as many values of CPU as of memory, and at least one")
        if self.step <= timedelta():
            raise ValueError("the step of a trace takes time")


@dataclass(frozen=True, slots=True)
class Load:
    """Usage that a container would have."""

    cpu: Wave = field(default_factory=lambda: Wave(base=100.0))
    memory: Wave = field(default_factory=lambda: Wave(base=100.0 * 1024 * 1024))
    day: tuple[float, ...] = _FLAT
    """The shape of the day, hour by hour from midnight UTC; straight lines in between."""
    bursts: Bursts = field(default_factory=Bursts)
    uneven: float = 0.0
    """Part by which CPU is above this load in one half of each moment, and below in the other."""
    trace: Trace | None = None
    """Recorded usage that replaces the waves' base and daily parts; None for none."""
    phase: timedelta = timedelta()
    """Position in its bursts and its trace when simulated time begins."""


def constant(*, cpu_millicores: float, memory_bytes: float) -> Load:
    """Return a load with constant usage."""
    return Load(Wave(base=cpu_millicores), Wave(base=memory_bytes))


def office_day(*, cpu_millicores: float, memory_bytes: float) -> Load:
    """Return a load that is low at night; most of the memory stays in use all day."""
    return Load(
        Wave(base=0.1 * cpu_millicores, daily=0.9 * cpu_millicores, noise=0.05 * cpu_millicores),
        Wave(base=0.7 * memory_bytes, daily=0.3 * memory_bytes, noise=0.01 * memory_bytes),
        day=OFFICE_DAY,
    )


def weekly(*, cpu_millicores: float, memory_bytes: float, weekend_factor: float = 0.2) -> Load:
    """Return a load of office days, with quiet or busy weekends."""
    load = office_day(cpu_millicores=cpu_millicores, memory_bytes=memory_bytes)
    return replace(
        load,
        cpu=replace(load.cpu, weekend_factor=weekend_factor),
        memory=replace(load.memory, weekend_factor=weekend_factor),
    )


def spiky(
    *, cpu_millicores: float, memory_bytes: float, factor: float = 4.0, chance: float = 0.01
) -> Load:
    """Return a steady load that spikes to a multiple by chance."""
    more = factor - 1.0
    return Load(
        Wave(base=cpu_millicores, spike=more * cpu_millicores, spike_chance=chance),
        Wave(base=memory_bytes, spike=more * memory_bytes, spike_chance=chance),
    )


def leaking(*, cpu_millicores: float, memory_bytes: float, leak_per_hour: float) -> Load:
    """Return a load whose memory grows until the container restarts."""
    return Load(Wave(base=cpu_millicores), Wave(base=memory_bytes, leak_per_hour=leak_per_hour))


def bursty(
    *, cpu_millicores: float, memory_bytes: float, factor: float = 5.0, bursts: Bursts
) -> Load:
    """Return a steady load with repeated CPU bursts, as of an hourly task."""
    return Load(
        Wave(base=cpu_millicores, burst=(factor - 1.0) * cpu_millicores),
        Wave(base=memory_bytes),
        bursts=bursts,
    )


def recorded(trace: Trace, *, phase: timedelta = timedelta()) -> Load:
    """Return a load that repeats recorded usage."""
    return Load(Wave(), Wave(), trace=trace, phase=phase)


def load_of_role(load: Load, role_loads: Mapping[str, Load], labels: Mapping[str, str]) -> Load:
    """Return the load of a container whose pod has these labels."""
    return role_loads.get(labels.get(ROLE_LABEL, ""), load)
