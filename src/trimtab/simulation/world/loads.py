"""Loads: how much CPU and memory a container would use, if nothing held it back.

A load is a record of a few numbers, so that thousands of containers are evaluated at once, in
columns (`demand.py`). Only sums and products of IEEE floats are used, no sine and no logarithm:
they give the same bits on every machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

ROLE_LABEL: Final = "trimtab.dev/role"
"""The label of a pod that says which part it plays now: a leader works harder than a follower."""
HOURS_OF_A_DAY: Final = 24

_FLAT: Final = (1.0,) * HOURS_OF_A_DAY
OFFICE_DAY: Final = tuple(
    [0.1] * 6 + [0.3, 0.6, 0.9, 1.0, 1.0, 0.9, 0.8, 0.9, 1.0, 1.0, 0.9, 0.7] + [0.4] * 3 + [0.2] * 3
)


@dataclass(frozen=True, slots=True)
class Wave:
    """How one resource is used over time, in millicores or bytes."""

    base: float = 0.0
    """What it uses all the time."""
    daily: float = 0.0
    """What comes on top, times the shape of the day."""
    weekend_factor: float = 1.0
    """By how much the daily part differs on Saturdays and Sundays."""
    noise: float = 0.0
    """The most that comes on top by chance, drawn anew each time."""
    spike: float = 0.0
    """What comes on top now and then."""
    spike_chance: float = 0.0
    """How likely a spike is at each look."""
    burst: float = 0.0
    """What comes on top during bursts, which last for a while and come back."""
    leak_per_hour: float = 0.0
    """By how much it grows for as long as the container runs."""


@dataclass(frozen=True, slots=True)
class Bursts:
    """When both resources of a container burst."""

    every: timedelta = timedelta(hours=1)
    length: timedelta = timedelta()


@dataclass(frozen=True, slots=True)
class Trace:
    """What was recorded somewhere: one value per step, over and over."""

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
    """What a container would use."""

    cpu: Wave = field(default_factory=lambda: Wave(base=100.0))
    memory: Wave = field(default_factory=lambda: Wave(base=100.0 * 1024 * 1024))
    day: tuple[float, ...] = _FLAT
    """The shape of the day, hour by hour from midnight UTC; straight lines in between."""
    bursts: Bursts = field(default_factory=Bursts)
    trace: Trace | None = None
    """If given, this is used instead of the waves' base and daily parts."""
    phase: timedelta = timedelta()
    """How far its bursts and its trace have come when simulated time begins."""


def constant(*, cpu_millicores: float, memory_bytes: float) -> Load:
    """The same, always."""
    return Load(Wave(base=cpu_millicores), Wave(base=memory_bytes))


def office_day(*, cpu_millicores: float, memory_bytes: float) -> Load:
    """Little at night, the given amounts in office hours; most of the memory stays all day."""
    return Load(
        Wave(base=0.1 * cpu_millicores, daily=0.9 * cpu_millicores, noise=0.05 * cpu_millicores),
        Wave(base=0.7 * memory_bytes, daily=0.3 * memory_bytes, noise=0.01 * memory_bytes),
        day=OFFICE_DAY,
    )


def weekly(*, cpu_millicores: float, memory_bytes: float, weekend_factor: float = 0.2) -> Load:
    """Office days, with quiet or busy weekends."""
    load = office_day(cpu_millicores=cpu_millicores, memory_bytes=memory_bytes)
    return replace(
        load,
        cpu=replace(load.cpu, weekend_factor=weekend_factor),
        memory=replace(load.memory, weekend_factor=weekend_factor),
    )


def spiky(
    *, cpu_millicores: float, memory_bytes: float, factor: float = 4.0, chance: float = 0.01
) -> Load:
    """Steady, but at one look in so many a multiple of that."""
    more = factor - 1.0
    return Load(
        Wave(base=cpu_millicores, spike=more * cpu_millicores, spike_chance=chance),
        Wave(base=memory_bytes, spike=more * memory_bytes, spike_chance=chance),
    )


def leaking(*, cpu_millicores: float, memory_bytes: float, leak_per_hour: float) -> Load:
    """Memory that grows until the container is started anew."""
    return Load(Wave(base=cpu_millicores), Wave(base=memory_bytes, leak_per_hour=leak_per_hour))


def bursty(
    *, cpu_millicores: float, memory_bytes: float, factor: float = 5.0, bursts: Bursts
) -> Load:
    """Steady, with bursts of CPU that come back, as of something that runs once an hour."""
    return Load(
        Wave(base=cpu_millicores, burst=(factor - 1.0) * cpu_millicores),
        Wave(base=memory_bytes),
        bursts=bursts,
    )


def recorded(trace: Trace, *, phase: timedelta = timedelta()) -> Load:
    """What was recorded, and nothing else."""
    return Load(Wave(), Wave(), trace=trace, phase=phase)


def load_of_role(load: Load, role_loads: Mapping[str, Load], labels: Mapping[str, str]) -> Load:
    """What a container of a pod with these labels does."""
    return role_loads.get(labels.get(ROLE_LABEL, ""), load)
