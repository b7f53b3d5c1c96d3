"""Pressure readings: what sources report about containers, and the newest of it by container.

A reading is a record of one container: a strength for each measure, and the time. A measure that a
source does not have is 0, which is no signal.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from trimtab.core.histogram.buckets import Floats, Ints
from trimtab.core.model.estimation import MEASURES, Measure

MOST_READINGS: Final = 100_000
"""Maximum number of containers in one answer of a source; further ones are left out."""


@dataclass(frozen=True, slots=True)
class PressureReading:
    """Measures of one container, as a source reports them."""

    seconds: float
    """Time of the reading, since the epoch."""
    strengths: Mapping[Measure, float]

    def row(self) -> list[float]:
        """Return the strengths in the order of `MEASURES`."""
        return [self.strengths.get(measure, 0.0) for measure in MEASURES]


@dataclass(frozen=True, slots=True)
class PressureReadings:
    """One answer of a source: containers that are under any pressure."""

    by_container: Mapping[tuple[str, str, str], PressureReading] = field(default_factory=dict)
    """By namespace, pod and name of a container."""
    unreadable: int = 0
    """Number of lines or series that made no sense, and were left out."""

    def __len__(self) -> int:
        return len(self.by_container)


@dataclass(slots=True)
class PressureGathering:
    """Collects the values of a source into readings, and leaves out what makes no sense."""

    unreadable: int = 0
    _times: dict[tuple[str, str, str], float] = field(default_factory=dict, init=False)
    _strengths: dict[tuple[str, str, str], dict[Measure, float]] = field(
        default_factory=dict, init=False
    )

    def add(
        self, place: tuple[str, str, str], measure: Measure, seconds: float, value: float
    ) -> None:
        """Add one value of a container."""
        if not all(place) or not math.isfinite(seconds) or not 0 <= value < math.inf:
            self.unreadable += 1
            return
        if place not in self._times and len(self._times) >= MOST_READINGS:
            return
        self._times[place] = max(seconds, self._times.get(place, -math.inf))
        self._strengths.setdefault(place, {})[measure] = value

    def readings(self) -> PressureReadings:
        """Return everything that was added."""
        return PressureReadings(
            {
                place: PressureReading(self._times[place], strengths)
                for place, strengths in self._strengths.items()
            },
            self.unreadable,
        )


class LatestPressure:
    """The newest reading of each container, by its row."""

    def __init__(self) -> None:
        self._times: Floats = np.zeros(0)
        self._strengths: Floats = np.zeros((0, len(MEASURES)))
        """float64[containers, measures]."""

    def note(self, rows: Ints, times: Floats, strengths: Floats) -> None:
        """Note readings of distinct rows: float64[rows, measures]."""
        if not len(rows):
            return
        self._reserve(int(rows.max()) + 1)
        # NaN and negative numbers are no signal; nothing is more than an infinite rate.
        sane = np.where(strengths > 0, strengths, 0.0)
        self._times[rows] = times
        self._strengths[rows] = sane

    def forget(self, row: int) -> None:
        """Forget the reading of a row, which another container may get."""
        if row < len(self._times):
            self._times[row] = -np.inf
            self._strengths[row] = 0.0

    def at(self, rows: Ints, times: Floats, lifetime: float) -> Floats:
        """Return the strengths that hold for rows at some times: float64[rows, measures]."""
        found = np.zeros((len(rows), len(MEASURES)))
        if len(self._times):
            (known,) = np.nonzero(rows < len(self._times))
            picked = rows[known]
            # In both directions: usage may have been read before or after.
            is_fresh = np.abs(times[known] - self._times[picked]) <= lifetime
            found[known[is_fresh]] = self._strengths[picked[is_fresh]]
        return found

    def _reserve(self, count: int) -> None:
        missing = count - len(self._times)
        if missing > 0:
            # Doubled, so that a growing cluster does not copy all rows for each new one.
            more = max(missing, len(self._times))
            self._times = np.append(self._times, np.full(more, -np.inf))
            self._strengths = np.concatenate([self._strengths, np.zeros((more, len(MEASURES)))])
