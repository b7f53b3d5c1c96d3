"""Counters of cAdvisor that show pressure."""

from dataclasses import dataclass
from typing import Final

from trimtab.core.model.estimation import Measure


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter, and the one that its rate is divided by."""

    name: str
    per: str = ""


COUNTERS: Final = {
    Measure.THROTTLED: Counter(
        "container_cpu_cfs_throttled_periods_total", "container_cpu_cfs_periods_total"
    ),
    Measure.CPU_WAITING: Counter("container_pressure_cpu_waiting_seconds_total"),
    Measure.MEMORY_WAITING: Counter("container_pressure_memory_waiting_seconds_total"),
    Measure.MEMORY_STALLED: Counter("container_pressure_memory_stalled_seconds_total"),
    Measure.MEMORY_HIGH: Counter("container_memory_events_high_total"),
}
"""The counters of each measure: seconds, periods or events, so that a rate is a strength."""
