"""Memory windows: one peak per container and interval, as arithmetic on arrays.

A window is as long as the aggregation interval, and the windows of a container follow each other
without a gap from its first reading on. Only the largest reading of a window counts. It is booked
at the window's end, so that it weighs the same whenever in the window it was seen. A larger one
replaces the peak that was booked before.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from trimtab.core.histogram.buckets import Floats, Ints

Booleans: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Windows:
    """The current memory windows of some containers, one element each."""

    end: Floats
    """Seconds since the epoch; NaN before the first reading."""
    usage_peak: Floats
    oom_peak: Floats
    """The need that an OOM kill showed, kept apart so that one kill does not feed the next."""

    @property
    def peak(self) -> Floats:
        """The peak that is booked for each window."""
        return np.maximum(self.usage_peak, self.oom_peak)


@dataclass(frozen=True, slots=True)
class Readings:
    """Memory readings ordered by window, and by time within each window."""

    window: Ints
    """The index of each reading's window; every window has at least one reading."""
    value: Floats
    time: Floats


@dataclass(frozen=True, slots=True)
class Peaks:
    """Peaks to book, or to take back, at their windows' ends."""

    window: Ints
    value: Floats
    end: Floats

    def only(self, chosen: Booleans) -> "Peaks":
        """Return some of the peaks."""
        return Peaks(self.window[chosen], self.value[chosen], self.end[chosen])


@dataclass(frozen=True, slots=True)
class Folding:
    """The changes that readings make to windows."""

    windows: Windows
    """The windows that are current afterwards."""
    removed: Peaks
    added: Peaks


def fold(
    windows: Windows,
    readings: Readings,
    intervals: Floats,
    *,
    from_oom_kills: bool,
    keeps_zero_peaks: bool = False,
) -> Folding:
    """Return the windows after the readings, and the booked peaks that change with them.

    With `keeps_zero_peaks`, no reading raises a booked peak of zero, as in the original.
    """
    # A run is the readings of one container that fall into the same interval. Shapes: readings.*
    # and steps [readings]; owners, opens, ends, peaks.* and booked.* [runs]; all others [windows].
    # Example with an interval of 24 h, a window that ends at 48 h and readings at 40, 50 and 80 h:
    # steps are [0, 1, 2], so two windows open, which end at 72 and 96 h.
    first = readings.time[run_starts(readings.window)]
    anchors = np.where(np.isnan(windows.end), first, windows.end)
    steps = _steps_after(anchors, readings, intervals)
    runs = run_starts(readings.window, steps)
    owners, opens = readings.window[runs], steps[runs] > 0
    ends = anchors[owners] + steps[runs] * intervals[owners]
    peaks = Peaks(owners, np.maximum.reduceat(readings.value, runs), ends)

    # Only the first run of a container, with step 0, replaces a peak that is booked already.
    booked = Peaks(owners, windows.peak[owners], ends)
    if keeps_zero_peaks:
        # The original replaces only a peak other than 0, so a window that began with 0 keeps it.
        began_with = np.where(opens, readings.value[runs], booked.value)
        peaks = Peaks(owners, np.where(began_with == 0, 0.0, peaks.value), ends)
    # An equal reading changes nothing: subtracting and adding the same weight is not free of
    # rounding.
    rises = ~opens & (peaks.value > booked.value)
    # A container that filled several windows keeps the newest as its current one.
    last = np.append(run_starts(owners)[1:], len(owners)) - 1
    current = _shift(windows, ends[last], opens[last])
    # -inf stands for "no new peak": `_raise_peaks` tests for >= 0, and a peak may be 0.
    risen = np.where((opens | rises)[last], peaks.value[last], -np.inf)
    return Folding(
        _raise_peaks(current, risen, from_oom_kills=from_oom_kills),
        removed=booked.only(rises),
        added=peaks.only(opens | rises),
    )


def run_starts(*columns: Ints | Floats) -> Ints:
    """Return the indices in sorted columns at which runs of equal values start."""
    differs = np.zeros(len(columns[0]), dtype=np.bool_)
    differs[:1] = True
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(differs)


def _steps_after(anchors: Floats, readings: Readings, intervals: Floats) -> Floats:
    """Return, per reading, the number of windows after the current one; 0 is the current one."""
    past_end = readings.time - anchors[readings.window]
    # A reading at the very end of a window belongs to the next one: windows are half-open.
    whole = np.floor(past_end / intervals[readings.window])
    # A reading before the window, such as a late OOM kill, counts for the current window.
    return np.where(past_end < 0, 0.0, whole + 1)


def _shift(windows: Windows, ends: Floats, opens: Booleans) -> Windows:
    return Windows(
        ends,
        np.where(opens, 0.0, windows.usage_peak),
        np.where(opens, 0.0, windows.oom_peak),
    )


def _raise_peaks(windows: Windows, risen: Floats, *, from_oom_kills: bool) -> Windows:
    old = windows.oom_peak if from_oom_kills else windows.usage_peak
    new = np.where(risen >= 0, risen, old)
    if from_oom_kills:
        return Windows(windows.end, windows.usage_peak, new)
    return Windows(windows.end, new, windows.oom_peak)
