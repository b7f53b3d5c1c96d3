"""Histograms without time: weights by row and bucket, their totals and their spans.

A bucket is occupied if it weighs at least epsilon. The span of a row reaches from its lowest to its
highest occupied bucket; a row without one is empty. Every reader of a row sees its span alone.
Fainter weight outside stays where it is and counts once the span covers it.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trimtab.core.histogram import window_storage
from trimtab.core.histogram.buckets import Buckets, Floats, Ints
from trimtab.core.histogram.row_table import list_distinct
from trimtab.core.histogram.window_storage import Arena, Spans, WindowCopies, grown

# Below every total.
_UNKNOWN: Final = -1.0


class Weights:
    """Rows of weights; the bank that owns them assigns row numbers and sets the capacity."""

    def __init__(self, bucket_count: int, epsilon: float, fractions: Sequence[float]) -> None:
        self.epsilon = epsilon
        self.fractions = fractions
        self.bucket_count = bucket_count
        # By row, except `_reached`: uint8[fractions, rows].
        self.totals: Floats = np.zeros(0)
        self.lowest: Buckets = np.zeros(0, np.uint8)
        self.highest: Buckets = np.zeros(0, np.uint8)
        self._reached: Buckets = np.zeros((len(fractions), 0), np.uint8)
        self._limits: Floats = np.zeros(0)
        """The total up to which the entries of a row in `_reached` stay valid."""
        self._arena = Arena(bucket_count)

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self._arena.grow(capacity)
        known = len(self.totals)
        self.totals = grown(self.totals, capacity)
        self.lowest = grown(self.lowest, capacity)
        self.highest = grown(self.highest, capacity)
        self._limits = grown(self._limits, capacity)
        # Line by line, since `grown` adds room at the end and rows are the last axis here.
        reached = [grown(line, capacity) for line in self._reached]
        self._reached = np.array(reached, np.uint8).reshape(-1, capacity)
        self._forget(np.arange(known, capacity))

    def clear(self, rows: Ints) -> None:
        """Remove all weight from distinct rows."""
        self._arena.release(rows)
        self._forget(rows)

    def _forget(self, rows: Ints) -> None:
        self.totals[rows] = 0.0
        # Crossed over, so that the first `minimum` and `maximum` set both ends.
        self.lowest[rows], self.highest[rows] = self.bucket_count - 1, 0
        self._limits[rows] = _UNKNOWN

    @property
    def bytes_held(self) -> int:
        """The size of all arrays, room to grow included."""
        by_row = self.totals.nbytes + self.lowest.nbytes + self.highest.nbytes
        return by_row + self._reached.nbytes + self._limits.nbytes + self._arena.bytes_held

    def is_empty(self, rows: Ints) -> NDArray[np.bool_]:
        """Return, per row, True if it has no occupied bucket."""
        return np.asarray(self.lowest[rows] > self.highest[rows])

    def add(self, rows: Ints, buckets: Buckets, weights: Floats) -> None:
        """Add to buckets and totals, one sample after the other."""
        # No limit is reset here: `_limits` allow for any sample that is added (decision 0006).
        np.add.at(self.totals, rows, weights)
        self._add_inside(rows, buckets, weights)

    def load(self, rows: Ints, by_bucket: Floats, totals: Floats) -> None:
        """Add weights, float64[rows, buckets], and totals to distinct rows."""
        self.totals[rows] += totals
        lines, buckets = np.nonzero(by_bucket)
        self._add_inside(rows[lines], buckets.astype(np.uint8), by_bucket[lines, buckets])
        # Weight from elsewhere is not a sample at the present total, so nothing remembered holds.
        self._limits[rows] = _UNKNOWN

    def absorb(self, targets: Ints, sources: "Weights", rows: Ints) -> None:
        """Add the spans of rows of the same or another table, each to one row of this."""
        np.add.at(self.totals, targets, sources.totals[rows])
        occupied = np.flatnonzero(~sources.is_empty(rows))
        spans = rows[occupied]
        self._reserve(targets[occupied], sources.lowest[spans], sources.highest[spans])
        for positions, buckets, weights in sources.spans(rows):
            self._add_inside(targets[positions], buckets, weights)
        self._limits[targets] = _UNKNOWN

    def _add_inside(self, rows: Ints, buckets: Buckets, weights: Floats) -> None:
        some = weights > 0.0
        if not some.all():
            rows, buckets, weights = rows[some], buckets[some], weights[some]
        # Most samples fall into the span and stop here: only others may need a wider window.
        beyond = np.flatnonzero((buckets < self.lowest[rows]) | (buckets > self.highest[rows]))
        if len(beyond):
            self._reserve(rows[beyond], buckets[beyond], buckets[beyond])
        self._arena.add(rows, buckets, weights)
        if len(beyond):
            self._stretch(rows[beyond], buckets[beyond])

    def _reserve(self, rows: Ints, lowest: Buckets, highest: Buckets) -> None:
        """Make windows hold everything from the lowest to the highest bucket."""
        outside = self._arena.outside(rows, lowest) | self._arena.outside(rows, highest)
        if not outside.any():
            return
        # A moved window keeps its contents, not its former width: name every bucket of its row.
        moving = np.isin(rows, rows[outside])
        distinct, positions = np.unique(rows[moving], return_inverse=True)
        low = np.full(len(distinct), self.bucket_count - 1, np.uint8)
        high = np.zeros(len(distinct), np.uint8)
        np.minimum.at(low, positions, lowest[moving])
        np.maximum.at(high, positions, highest[moving])
        self._arena.reserve(distinct, low, high)

    def _stretch(self, rows: Ints, buckets: Buckets) -> None:
        """Extend spans to those of the buckets that are occupied now."""
        weights = self._arena.look_up(rows, buckets)
        occupied = weights >= self.epsilon
        # `.at`, since a row may have several new buckets in one batch.
        np.minimum.at(self.lowest, rows[occupied], buckets[occupied])
        np.maximum.at(self.highest, rows[occupied], buckets[occupied])

    def subtract(self, rows: Ints, buckets: Buckets, weights: Floats) -> None:
        """Subtract samples from buckets and totals; a result under epsilon becomes zero.

        Only the end result needs the check, since nothing is added between.
        """
        np.subtract.at(self.totals, rows, weights)
        self.totals[rows] = self._without_faint(self.totals[rows])
        self._limits[rows] = _UNKNOWN
        # Outside its window a row has no weight, so there is nothing to subtract.
        inside = ~self._arena.outside(rows, buckets)
        rows, buckets = rows[inside], buckets[inside]
        self._arena.add(rows, buckets, -weights[inside])
        left = self._without_faint(self._arena.look_up(rows, buckets))
        self._arena.put(rows, buckets, left)
        # A bucket that becomes faint in the middle of the span leaves the span as it is.
        at_edge = (buckets == self.lowest[rows]) | (buckets == self.highest[rows])
        self._tighten(list_distinct(rows[at_edge & (left == 0.0)]))

    def _without_faint(self, weights: Floats) -> Floats:
        return np.where(weights < self.epsilon, 0.0, weights)

    def scale(self, rows: Ints, exponents: NDArray[np.int32]) -> None:
        """Multiply the spans and totals of distinct rows by powers of two."""
        self.totals[rows] = np.ldexp(self.totals[rows], exponents)
        self._limits[rows] = _UNKNOWN
        for windows in self._arena.windows(rows):
            scaled = np.ldexp(windows.weights, exponents[windows.which])
            # The original scales only what lies inside the span; faint weight outside stays (rule 1
            # of `bank.py`).
            kept = np.where(self._outside(windows), windows.weights, scaled)
            self._arena.replace(windows, kept)
        self._tighten(rows)

    def _tighten(self, rows: Ints) -> None:
        """Recompute the spans of distinct rows."""
        for windows in self._arena.windows(rows):
            occupied, buckets = windows.weights >= self.epsilon, windows.buckets
            # float64[slots, rows] to one number per row: the neutral element stands where nothing
            # is.
            lowest = np.where(occupied, buckets, np.uint8(self.bucket_count - 1))
            self.lowest[windows.rows] = lowest.min(axis=0)
            self.highest[windows.rows] = np.where(occupied, buckets, np.uint8(0)).max(axis=0)

    def _outside(self, windows: WindowCopies) -> NDArray[np.bool_]:
        """Return, per slot of windows, True if it is outside the span of its row."""
        lowest, highest = self.lowest[windows.rows], self.highest[windows.rows]
        return np.asarray((windows.buckets < lowest) | (windows.buckets > highest))

    def reached(self, rows: Ints | slice) -> Buckets:
        """Return the buckets, uint8[fractions, rows], where sums reach fractions of totals.

        A sum that never gets there stops at the end of its span. Empty rows have the bucket after
        the last.
        """
        # Usually one row in twenty per tick after a day of history; the others answer from memory.
        outgrown = self.totals[rows] > self._limits[rows]
        if outgrown.any():
            self._walk(np.arange(len(self.totals))[rows][outgrown])
        return self._reached[:, rows]

    def _walk(self, rows: Ints) -> None:
        """Recompute the reached buckets of rows."""
        empty = self.is_empty(rows)
        if empty.any():
            self._reached[:, rows[empty]] = self.bucket_count
            self._limits[rows[empty]] = self.totals[rows[empty]]
            rows = rows[~empty]
        for windows in self._arena.readable(rows):
            slots, limits = window_storage.walk(self._spans(windows), self.fractions)
            self._reached[:, windows.rows] = slots + windows.bases
            self._limits[windows.rows] = limits

    def windows(self, rows: Ints) -> Iterator[WindowCopies]:
        """Yield copies of the windows of rows, faint weight included."""
        return self._arena.windows(rows)

    def _spans(self, windows: WindowCopies) -> Spans:
        first = self.lowest[windows.rows] - windows.bases
        last = self.highest[windows.rows] - windows.bases
        return Spans(windows.weights, self.totals[windows.rows], first, last)

    def span(self, row: int) -> Floats:
        """Return the weights of one row by bucket, zeros outside its span."""
        by_bucket = np.zeros(self.bucket_count)
        for _, buckets, weights in self.spans(np.array([row])):
            by_bucket[buckets] = weights
        return by_bucket

    def spans(self, rows: Ints) -> Iterator[tuple[Ints, Buckets, Floats]]:
        """Yield the contents of rows' spans: positions among the rows, buckets and weights."""
        for positions, buckets, weights in self._arena.contents(rows):
            here = rows[positions]
            inside = (buckets >= self.lowest[here]) & (buckets <= self.highest[here])
            yield positions[inside], buckets[inside], weights[inside]

    def taken(self, rows: Ints) -> "Weights":
        """Return copies of rows, numbered from 0 in the order given."""
        taken = Weights(self.bucket_count, self.epsilon, self.fractions)
        taken.totals, taken.lowest = self.totals[rows], self.lowest[rows]
        taken.highest, taken._limits = self.highest[rows], self._limits[rows]
        taken._reached = self._reached[:, rows]
        taken._arena = self._arena.taken(rows)
        return taken

    def put_back(self, rows: Ints, taken: "Weights", which: Ints) -> None:
        """Replace distinct rows by some of those that were taken earlier."""
        self.totals[rows] = taken.totals[which]
        self.lowest[rows], self.highest[rows] = taken.lowest[which], taken.highest[which]
        self._arena.put_back(rows, taken.windows(which))
        self._limits[rows] = _UNKNOWN
