"""Loads: how much CPU and memory a container would use, if nothing held it back.

A load is a record of a few numbers, so that thousands of containers are evaluated at once, in
columns. Only sums and products of IEEE floats are used, no sine and no logarithm: they give the
same bits on every machine.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

_FLAT: Final = (1.0,) * 24


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
    leak_per_hour: float = 0.0
    """By how much it grows for as long as the container runs."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What was recorded somewhere: one value per step, over and over."""

    cpu_millicores: tuple[float, ...]
    memory_bytes: tuple[float, ...]
    step: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Load:
    """What a container would use."""

    cpu: Wave = field(default_factory=lambda: Wave(base=100.0))
    memory: Wave = field(default_factory=lambda: Wave(base=100.0 * 1024 * 1024))
    day: tuple[float, ...] = _FLAT
    """The shape of the day, hour by hour from midnight UTC; straight lines in between."""
    trace: Trace | None = None
    """If given, this is used instead of the waves' base and daily parts."""
