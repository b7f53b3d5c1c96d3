"""Histograms without time: weights by row and bucket, their totals and their spans.

A bucket is occupied if it weighs at least epsilon. The span of a row reaches from its lowest to its
highest occupied bucket; a row without one is empty. Whatever looks at a row sees its span alone.
Fainter weight outside stays where it is and counts once the span covers it.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from trimtab.core import running_sums
from trimtab.core.arena import Arena, Placed, grown
from trimtab.core.buckets import Buckets, Floats, Ints


class Weights:
    """Rows of weights; whoever numbers the rows also says how many there are."""

    def __init__(self, bucket_count: int, epsilon: float) -> None:
        self.epsilon = epsilon
        self.bucket_count = bucket_count
        self.totals: Floats = np.zeros(0)
        self.lowest: Buckets = np.zeros(0, np.uint8)
        self.highest: Buckets = np.zeros(0, np.uint8)
        self._has_faint: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """Rows that may hold faint weight outside their span."""
        self._arena = Arena(bucket_count)

    def grow(self, capacity: int) -> None:
        """Make place for rows up to a number."""
        self._arena.grow(capacity)
        known = len(self.totals)
        self.totals = grown(self.totals, capacity)
        self.lowest = grown(self.lowest, capacity)
        self.highest = grown(self.highest, capacity)
        self._has_faint = grown(self._has_faint, capacity)
        self._forget(np.arange(known, capacity))

    def clear(self, rows: Ints) -> None:
        """Take everything from distinct rows."""
        self._arena.release(rows)
        self._forget(rows)

    def _forget(self, rows: Ints) -> None:
        self.totals[rows] = 0.0
        self.lowest[rows], self.highest[rows] = self.bucket_count - 1, 0
        self._has_faint[rows] = False

    @property
    def bytes_held(self) -> int:
        """The size of all arrays, room to grow included."""
        by_row = self.totals.nbytes + self.lowest.nbytes + self.highest.nbytes
        return by_row + self._has_faint.nbytes + self._arena.bytes_held

    def is_empty(self, rows: Ints) -> NDArray[np.bool_]:
        """Which rows have no occupied bucket."""
        return np.asarray(self.lowest[rows] > self.highest[rows])

    def add(self, rows: Ints, buckets: Buckets, weights: Floats) -> None:
        """Add to buckets and totals, one sample after the other."""
        np.add.at(self.totals, rows, weights)
        self.add_inside(rows, buckets, weights)

    def add_inside(self, rows: Ints, buckets: Buckets, weights: Floats) -> None:
        """Add to buckets alone."""
        some = weights > 0.0
        if not some.all():
            rows, buckets, weights = rows[some], buckets[some], weights[some]
        beyond = np.flatnonzero((buckets < self.lowest[rows]) | (buckets > self.highest[rows]))
        if len(beyond):
            self._reserve(rows[beyond], buckets[beyond])
        self._arena.add(rows, buckets, weights)
        if len(beyond):
            self._stretch(rows[beyond], buckets[beyond])

    def _reserve(self, rows: Ints, buckets: Buckets) -> None:
        """Make sure that windows hold buckets beyond the spans."""
        outside = self._arena.outside(rows, buckets)
        if not outside.any():
            return
        # A moved window keeps what it holds, not all it could hold: name every bucket of its row.
        moving = np.isin(rows, rows[outside])
        rows, buckets = rows[moving], buckets[moving]
        distinct, positions = np.unique(rows, return_inverse=True)
        lowest = np.full(len(distinct), self.bucket_count - 1, np.uint8)
        highest = np.zeros(len(distinct), np.uint8)
        np.minimum.at(lowest, positions, buckets)
        np.maximum.at(highest, positions, buckets)
        self._arena.reserve(distinct, lowest, highest)

    def _stretch(self, rows: Ints, buckets: Buckets) -> None:
        """Let spans cover those of the buckets that are occupied now."""
        weights = self._arena.look_up(rows, buckets)
        occupied = weights >= self.epsilon
        np.minimum.at(self.lowest, rows[occupied], buckets[occupied])
        np.maximum.at(self.highest, rows[occupied], buckets[occupied])
        self._has_faint[rows[~occupied]] = True

    def subtract(self, rows: Ints, buckets: Buckets, weights: Floats) -> None:
        """Subtract from buckets and totals of distinct rows; under epsilon becomes nothing."""
        self.totals[rows] = self._less(self.totals[rows], weights)
        inside = ~self._arena.outside(rows, buckets)
        rows, buckets, weights = rows[inside], buckets[inside], weights[inside]
        left = self._less(self._arena.look_up(rows, buckets), weights)
        self._arena.put(rows, buckets, left)
        at_edge = (buckets == self.lowest[rows]) | (buckets == self.highest[rows])
        self._tighten(rows[at_edge & (left == 0.0)])

    def _less(self, weights: Floats, taken: Floats) -> Floats:
        left = weights - taken
        return np.where(left < self.epsilon, 0.0, left)

    def scale(self, rows: Ints, exponents: NDArray[np.int32]) -> None:
        """Multiply the spans and totals of distinct rows by powers of two."""
        self.totals[rows] = np.ldexp(self.totals[rows], exponents)
        for part in self._arena.placed(rows):
            inside = self._in_span(rows, part)
            weights = part.weights
            part.replace(np.where(inside, np.ldexp(weights, exponents[part.which]), weights))
        self._tighten(rows)

    def _tighten(self, rows: Ints) -> None:
        """Find the spans of distinct rows anew."""
        for part in self._arena.placed(rows):
            weights, buckets, here = part.weights, part.buckets, rows[part.which]
            occupied = weights >= self.epsilon
            low = np.where(occupied, buckets, self.bucket_count - 1).min(axis=0)
            high = np.where(occupied, buckets, 0).max(axis=0)
            self.lowest[here], self.highest[here] = low, high
            outside = (buckets < low) | (buckets > high)
            self._has_faint[here] = (outside & (weights > 0.0)).any(axis=0)

    def _in_span(self, rows: Ints, part: Placed) -> NDArray[np.bool_]:
        """Which slots of windows belong to the spans of their rows."""
        here, buckets = rows[part.which], part.buckets
        return np.asarray((buckets >= self.lowest[here]) & (buckets <= self.highest[here]))

    def reach(self, rows: Ints, fractions: Sequence[float]) -> Buckets:
        """The buckets (columns) where the sums of rows reach each fraction (lines) of their totals.

        A sum that never gets there stops at the end of its span. Empty rows are said to reach the
        bucket after the last.
        """
        found = np.zeros((len(fractions), len(rows)), np.uint8)
        self._walk(found, rows, fractions)
        faint = np.flatnonzero(self._has_faint[rows])
        if len(faint):
            found[:, faint] = self._walk_spans(rows[faint], fractions)
        lowest, highest = self.lowest[rows], self.highest[rows]
        np.maximum(found, lowest, out=found)
        np.minimum(found, highest, out=found)
        found[:, lowest > highest] = self.bucket_count
        return found

    def _walk(self, found: Buckets, rows: Ints, fractions: Sequence[float]) -> None:
        """Let the running sums of whole windows find their buckets."""
        totals = self.totals[rows]
        for part in self._arena.placed(rows):
            counts = part.count_short(totals[part.which], fractions)
            for line, count in zip(found, counts, strict=True):
                line[part.which] = count + part.bases

    def _walk_spans(self, rows: Ints, fractions: Sequence[float]) -> Buckets:
        """The same for rows with faint weight, which must not go into the sums."""
        found = np.zeros((len(fractions), len(rows)), np.uint8)
        for part in self._arena.placed(rows):
            weights = np.where(self._in_span(rows, part), part.weights, 0.0)
            totals = self.totals[rows[part.which]]
            short = running_sums.count_short(weights, totals, fractions)
            found[:, part.which] = short + part.bases
        return found

    def span(self, row: int) -> Floats:
        """The weights of one row by bucket, zeros outside its span."""
        by_bucket = np.zeros(self.bucket_count)
        for _, buckets, weights in self.spans(np.array([row])):
            by_bucket[buckets] = weights
        return by_bucket

    def spans(self, rows: Ints) -> Iterator[tuple[Ints, Buckets, Floats]]:
        """What the spans of rows hold: positions among the rows, buckets and weights."""
        for positions, buckets, weights in self._arena.contents(rows):
            here = rows[positions]
            inside = (buckets >= self.lowest[here]) & (buckets <= self.highest[here])
            yield positions[inside], buckets[inside], weights[inside]

    def taken(self, rows: Ints) -> "Weights":
        """Copies of rows, numbered from 0 in the order given."""
        taken = Weights(self.bucket_count, self.epsilon)
        taken.totals, taken.lowest = self.totals[rows], self.lowest[rows]
        taken.highest, taken._has_faint = self.highest[rows], self._has_faint[rows]
        taken._arena = self._arena.taken(rows)
        return taken
