"""Memory levels: when usage was last in each bucket, how large it was there, and in which pod.

A row is one container of one autoscaler. Its levels are the buckets of the memory histogram; only
the window of buckets that a row has touched is stored (`window_storage.Arena`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.core.histogram.buckets import MEMORY_BUCKETS, Buckets, Floats, Ints
from trimtab.core.histogram.memory_peaks import Booleans
from trimtab.core.histogram.window_storage import Arena

_EARLIEST: Final = 1.0
"""The time of levels from before the epoch, in seconds."""


@dataclass(frozen=True, slots=True)
class LevelWindows:
    """Copies of the windows of some rows; `seen`, `peaks` and `pods` are float64[slots, rows]."""

    which: Ints
    """Their positions among the rows that the caller passed."""
    bases: Buckets
    """The bucket of the first slot of each."""
    seen: Floats
    """Time at which usage was last there, in seconds; 0 where it never was."""
    peaks: Floats
    """Bytes."""
    pods: Floats
    """Numbers of pods' names, plus one; 0 where `seen` is."""

    @property
    def is_known(self) -> Booleans:
        """True where usage ever was."""
        return np.asarray(self.seen > 0)

    @property
    def ends(self) -> Floats:
        """The end of the bucket of each slot, float64[slots, rows]."""
        slots = np.arange(len(self.seen))[:, np.newaxis] + self.bases
        return MEMORY_BUCKETS.ends.take(slots)


@dataclass(frozen=True, slots=True)
class Sightings:
    """Usage in buckets of rows; one element per row and bucket, in the order of both."""

    rows: Ints
    buckets: Buckets
    peaks: Floats
    times: Floats
    pods: Ints


def find_sightings(rows: Ints, values: Floats, times: Floats, pods: Ints) -> Sightings:
    """Merge samples into one sighting per row and bucket: the largest value, the last time."""
    buckets = MEMORY_BUCKETS.find(values)
    # One number for row and bucket, so that a single sort groups by both.
    places = rows * MEMORY_BUCKETS.count + buckets
    # The largest sample of each place comes first.
    # `lexsort` sorts by its last key first.
    order = np.lexsort((-values, places))
    places = places[order]
    is_first = np.ones(len(places), np.bool_)
    np.not_equal(places[1:], places[:-1], out=is_first[1:])
    starts = np.flatnonzero(is_first)
    first = order[starts]
    last = np.maximum.reduceat(times[order], starts) if len(starts) else times[:0]
    return Sightings(rows[first], buckets[first], values[first], last, pods[first])


class MemoryLevels:
    """The levels of all rows; whoever owns them assigns row numbers and sets the capacity."""

    def __init__(self) -> None:
        # Three arenas that always move the same windows, so that their slots correspond.
        # Three numbers for each slot: 384 bytes for a row of the narrowest width, 16 slots.
        self._seen, self._peaks, self._pods = (Arena(MEMORY_BUCKETS.count) for _ in range(3))
        self._capacity = 0

    @property
    def bytes_held(self) -> int:
        """The size of all arrays, room to grow included."""
        return sum(arena.bytes_held for arena in self._arenas)

    @property
    def _arenas(self) -> tuple[Arena, Arena, Arena]:
        return self._seen, self._peaks, self._pods

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows; new ones know no level."""
        if capacity > self._capacity:
            self._capacity = capacity
            for arena in self._arenas:
                arena.grow(capacity)

    def peaks(self, rows: Ints, buckets: Buckets) -> Floats:
        """Return the peaks of buckets in which usage was."""
        return self._peaks.look_up(rows, buckets)

    def note(self, seen: Sightings, peak_lifetime: float) -> None:
        """Note sightings; a peak that is older than its lifetime is replaced by a smaller one."""
        if not len(seen.rows):
            return
        self._reserve(seen.rows, seen.buckets)
        # Zero where usage never was: then any value is larger than the peak, and any time later.
        last = self._seen.look_up(seen.rows, seen.buckets)
        peaks = self._peaks.look_up(seen.rows, seen.buckets)
        # A slot without a peak would count as empty: one byte stands for none.
        values = np.where(seen.peaks > 1.0, seen.peaks, 1.0)
        # A smaller peak replaces a larger one only after `peak_lifetime`, which spans a whole day.
        is_new = (values > peaks) | (seen.times - last > peak_lifetime)
        # Zero means "never" in all three arenas, or else their windows would differ.
        latest = np.maximum(np.where(seen.times > last, seen.times, last), _EARLIEST)
        self._peaks.put(seen.rows, seen.buckets, np.where(is_new, values, peaks))
        self._seen.put(seen.rows, seen.buckets, latest)
        self._pods.put(seen.rows, seen.buckets, (seen.pods + 1).astype(np.float64))

    def windows(self, rows: Ints) -> Iterator[LevelWindows]:
        """Yield copies of the windows of rows, some at a time; rows without a level have none."""
        parts = zip(*(arena.windows(rows) for arena in self._arenas), strict=True)
        for seen, peaks, pods in parts:
            yield LevelWindows(seen.which, seen.bases, seen.weights, peaks.weights, pods.weights)

    def postpone(self, rows: Ints, seconds: Floats) -> None:
        """Add a time to all times of distinct rows."""
        for seen in self._seen.windows(rows):
            # Zero means "never" and must stay zero.
            moved = np.where(seen.weights > 0, seen.weights + seconds[seen.which], 0.0)
            self._seen.replace(seen, moved)

    def release(self, rows: Ints) -> None:
        """Forget all levels of distinct rows."""
        for arena in self._arenas:
            arena.release(rows)

    def used_pods(self, rows: Ints) -> set[int]:
        """Return the numbers of all pods that any level names."""
        found: set[int] = set()
        for windows in self._pods.windows(rows):
            # Numbers are stored plus one, so that 0 can mean an empty slot.
            found.update((np.unique(windows.weights).astype(np.int64) - 1).tolist())
        return found - {-1}

    def _reserve(self, rows: Ints, buckets: Buckets) -> None:
        outside = self._seen.outside(rows, buckets)
        if not outside.any():
            return
        # `rows` are sorted, so the buckets of a row lie beside each other.
        moving = np.isin(rows, rows[outside])
        distinct, starts = np.unique(rows[moving], return_index=True)
        lowest = np.minimum.reduceat(buckets[moving], starts)
        highest = np.maximum.reduceat(buckets[moving], starts)
        for arena in self._arenas:
            arena.reserve(distinct, lowest, highest)
