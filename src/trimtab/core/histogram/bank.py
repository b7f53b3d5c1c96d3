"""Decaying histograms, a whole bank of them at once.

A row of a bank is one histogram: weights by bucket, their total, and the reference of its decay
(`decay.py`). All work is done on arrays of rows; an object per histogram never exists.
`window_storage.py` keeps the weights.

Rules, the original's where it has any:

1. A bucket is occupied if it weighs at least epsilon. Percentiles, checkpoints, merging and scaling
   see only the span from the lowest to the highest occupied bucket. Fainter weight outside that
   span stays where it is and counts once the span covers it.
2. A histogram without an occupied bucket is empty, and its percentiles are 0.
3. Subtraction never leaves a negative weight: a bucket or a total under epsilon becomes 0.
4. A batch has the same effect as its samples one by one, in their order.
5. A sample with a negative weight, with anything that is not finite, or from outside the years 1
   to 9990 is refused with a `SampleError` before its batch changes anything: no row holds NaN.
6. Merging changes only its target.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab.core.histogram import checkpoint
from trimtab.core.histogram.buckets import Buckets, BucketScheme, Floats, Ints
from trimtab.core.histogram.checkpoint import HistogramCheckpoint, HistogramContent
from trimtab.core.histogram.decay import LAST_TIME, ZERO_TIME, Decay
from trimtab.core.histogram.weights import Weights
from trimtab.core.histogram.window_storage import WindowCopies, grown, room_for

# Far above any use, and small enough that 2^100 times it is finite.
MAX_WEIGHT: Final = 1e200

_Number = TypeVar("_Number", np.float64, np.int64)


class SampleError(ValueError):
    """A sample that no histogram can hold; the message names the field, its value and its place."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples by column; a row may occur several times."""

    # Every column has one element per sample.
    rows: Ints
    buckets: Buckets
    weights: Floats
    times: Floats

    def __len__(self) -> int:
        return len(self.rows)

    def pick(self, which: Ints | slice) -> "Batch":
        """Return some samples of the batch."""
        return Batch(self.rows[which], self.buckets[which], self.weights[which], self.times[which])

    def split(self) -> tuple["Batch", "Batch"]:
        """Return the first sample of each row, and all others."""
        first = _is_first(self.rows)
        return self.pick(np.flatnonzero(first)), self.pick(np.flatnonzero(~first))


def _is_first(rows: Ints) -> NDArray[np.bool_]:
    """Return, per place, True if no earlier place holds the same row."""
    first = np.zeros(len(rows), np.bool_)
    # Example: rows [4, 7, 4] give [True, True, False].
    first[np.unique(rows, return_index=True)[1]] = True
    return first


def make_batch(
    scheme: BucketScheme,
    *,
    rows: ArrayLike,
    values: ArrayLike,
    weights: ArrayLike,
    times: ArrayLike,
) -> Batch:
    """Make a batch of numbers that a histogram can hold; scalars count for all samples."""
    given_rows = np.atleast_1d(np.asarray(rows, np.int64))
    fit_values = _checked("value", values, -sys.float_info.max, sys.float_info.max)
    fit_weights = _checked("weight", weights, 0.0, MAX_WEIGHT)
    fit_times = _checked("time", times, ZERO_TIME, LAST_TIME)
    shape = np.broadcast(given_rows, fit_values, fit_weights, fit_times).shape
    return Batch(
        _spread(given_rows, shape),
        scheme.find(np.ascontiguousarray(_spread(fit_values, shape))),
        _spread(fit_weights, shape),
        _spread(fit_times, shape),
    )


def _spread(numbers: NDArray[_Number], shape: tuple[int, ...]) -> NDArray[_Number]:
    return numbers if numbers.shape == shape else np.broadcast_to(numbers, shape)


def _checked(field: str, given: ArrayLike, least: float, most: float) -> Floats:
    numbers = np.asarray(given, np.float64)
    # Both comparisons fail on NaN: the minimum of an array with a NaN is NaN.
    if numbers.size and not (least <= numbers.min() and numbers.max() <= most):
        fit = (numbers >= least) & (numbers <= most)
        place = int(np.flatnonzero(~fit)[0])
        value = float(numbers.reshape(-1)[place])
        raise SampleError(f"{field} of sample {place}: {value} is not from {least:g} to {most:g}")
    return numbers


_ENCODED_AT_ONCE: Final = 1024
"""Number of rows that are spread out over all buckets at once."""


class HistogramBank:
    """Rows of histograms that share their buckets, half-life and quantiles."""

    def __init__(
        self, scheme: BucketScheme, half_life: timedelta, quantiles: tuple[float, ...]
    ) -> None:
        self.scheme = scheme
        self.half_life = half_life
        self.quantiles = quantiles
        self.weights = Weights(scheme.count, scheme.epsilon, quantiles)
        """Private to this module, like `references`."""
        self.references: Floats = np.zeros(0)
        self._decay = Decay(half_life)
        # The percentiles of an empty row are 0.
        # One element more than buckets: `reached` gives the number after the last for empty rows.
        self._ends = np.append(scheme.ends, 0.0)
        self._used = 0
        self._released: list[int] = []

    def __len__(self) -> int:
        return self._used

    @property
    def bytes_held(self) -> int:
        """The size of all arrays, room to grow included."""
        return self.weights.bytes_held + self.references.nbytes

    def allocate(self, count: int) -> Ints:
        """Return `count` rows, each an empty histogram; released rows are used again."""
        again = [self._released.pop() for _ in range(min(count, len(self._released)))]
        fresh = np.arange(self._used, self._used + count - len(again))
        self._used += len(fresh)
        if self._used > len(self.references):
            self._grow(room_for(self._used))
        return np.concatenate((np.array(again, np.int64), fresh))

    def _grow(self, capacity: int) -> None:
        known = len(self.references)
        self.references = grown(self.references, capacity)
        # A reference in the year 1 makes every first sample overdue: it moves the reference to
        # itself.
        self.references[known:] = ZERO_TIME
        self.weights.grow(capacity)

    def release(self, rows: ArrayLike) -> None:
        """Forget distinct rows."""
        chosen = _array(rows)
        self.weights.clear(chosen)
        self.references[chosen] = ZERO_TIME
        self._released.extend(chosen.tolist())

    def copy(self) -> "HistogramBank":
        """Return a bank of the same rows that shares nothing with this one."""
        same = HistogramBank(self.scheme, self.half_life, self.quantiles)
        same.references = self.references.copy()
        same.weights = self.weights.taken(np.arange(len(self.references)))
        same._used, same._released = self._used, list(self._released)
        return same

    def take(self, rows: Ints) -> "HistogramBank":
        """Return copies of distinct rows, numbered from 0 as given, for `put_back`."""
        taken = HistogramBank(self.scheme, self.half_life, self.quantiles)
        taken.references, taken.weights = self.references[rows], self.weights.taken(rows)
        taken._used = len(rows)
        return taken

    def put_back(self, rows: Ints, taken: "HistogramBank", which: Ints) -> None:
        """Replace distinct rows by some of those that were taken earlier."""
        self.references[rows] = taken.references[which]
        self.weights.put_back(rows, taken.weights, which)

    def is_empty(self, rows: ArrayLike) -> NDArray[np.bool_]:
        """Return, per row, True if it has no occupied bucket."""
        return self.weights.is_empty(np.asarray(rows, np.int64))

    def total_weight(self, rows: ArrayLike) -> Floats:
        """Return the total weight of each row, at its own reference."""
        return np.asarray(self.weights.totals[np.asarray(rows, np.int64)])

    def add(self, rows: ArrayLike, values: ArrayLike, weights: ArrayLike, times: ArrayLike) -> None:
        """Add samples; a single weight or time counts for all of them."""
        batch = make_batch(self.scheme, rows=rows, values=values, weights=weights, times=times)
        for part, ages in self._until_none_is_overdue(batch):
            self.weights.add(part.rows, part.buckets, self._effective_weights(part, ages))

    def subtract(
        self, rows: ArrayLike, values: ArrayLike, weights: ArrayLike, times: ArrayLike
    ) -> None:
        """Subtract samples that were added before."""
        batch = make_batch(self.scheme, rows=rows, values=values, weights=weights, times=times)
        for part, ages in self._until_none_is_overdue(batch):
            self.weights.subtract(part.rows, part.buckets, self._effective_weights(part, ages))

    def _until_none_is_overdue(self, batch: Batch) -> Iterator[tuple[Batch, Floats]]:
        """Yield parts to add one after the other, after moving references as far as needed."""
        ages = self._ages(batch)
        # Samples may be taken together; only a moving reference separates earlier from later.
        # A row can be overdue twice in a batch only if its samples lie 100 half-lives apart.
        while self._decay.is_any_overdue(ages):
            first, batch = batch.split()
            yield first, self._shift_overdue(first)
            ages = self._ages(batch)
        yield batch, ages

    def _ages(self, batch: Batch) -> Floats:
        """Return the ages of samples: seconds from the reference of their row."""
        # `take`, which is faster than a fancy index: this runs for every sample of every tick.
        ages = self.references.take(batch.rows)
        return np.subtract(batch.times, ages, out=ages)

    def _shift_overdue(self, batch: Batch) -> Floats:
        """Move the references of distinct rows where needed; return the ages of the samples."""
        ages = self._ages(batch)
        overdue = np.flatnonzero(self._decay.overdue(ages))
        if len(overdue):
            self._shift(batch.rows[overdue], self._decay.align(batch.times[overdue]))
            ages = self._ages(batch)
        return ages

    def _shift(self, rows: Ints, references: Floats) -> None:
        """Move the references of distinct rows and scale their weights accordingly."""
        self.weights.scale(rows, self._decay.exponents(self.references[rows], references))
        self.references[rows] = references

    def _effective_weights(self, batch: Batch, ages: Floats) -> Floats:
        effective = self._decay.factors(ages)
        effective *= batch.weights
        return effective

    def percentiles(self, rows: ArrayLike | None = None) -> Floats:
        """Return the bank's quantiles, float64[rows, quantiles], of rows, or of every row.

        Released rows are empty, and so have 0.
        """
        return self.ends_of(self.reached(rows))

    def reached(self, rows: ArrayLike | None = None) -> Buckets:
        """Return the buckets of these quantiles, uint8[rows, quantiles].

        Empty rows have the bucket that would come after the last.
        """
        chosen = slice(0, self._used) if rows is None else _array(rows)
        return self.weights.reached(chosen).T

    def ends_of(self, buckets: Buckets) -> Floats:
        """Return the ends of buckets; 0 for those of empty rows."""
        return self._ends.take(buckets)

    def windows(self, rows: Ints) -> Iterator[WindowCopies]:
        """Yield copies of the weights of rows by bucket, some rows at a time, empty ones never.

        Weights of one row compare with each other; those of two rows may differ in their reference.
        """
        return self.weights.windows(rows)

    def percentile(self, row: int, fraction: float) -> float:
        """Return the end of the bucket where a row's sum reaches a fraction of its total."""
        if self.is_empty(row):
            return 0.0
        # The sum leaves out the last slot: what is never reached earlier is reached there.
        lowest, highest = int(self.weights.lowest[row]), int(self.weights.highest[row])
        sums = np.cumsum(self.weights.span(row)[lowest:highest])
        reached = np.searchsorted(sums, fraction * self.weights.totals[row])
        return float(self.scheme.ends[lowest + reached])

    def merge(self, into_row: int, from_rows: ArrayLike) -> None:
        """Merge rows into another one, one after the other."""
        # One source after the other: the order decides how rounding adds up, as in the original.
        target = np.array([into_row])
        for source in _array(from_rows):
            row = np.array([source])
            if self.references[into_row] < self.references[source]:
                self._shift(target, self._decay.align(self.references[row]))
            self._merge_into(self, target, row)

    def merged(self, groups: Sequence[Sequence[int]]) -> "HistogramBank":
        """Return a new bank whose row `i` holds everything that the rows of group `i` hold here."""
        sizes = np.fromiter(map(len, groups), np.int64, len(groups))
        rows = np.fromiter(chain.from_iterable(groups), np.int64, int(sizes.sum()))
        return self.merged_by(rows, np.repeat(np.arange(len(groups)), sizes), len(groups))

    def merged_by(self, rows: Ints, groups: Ints, count: int) -> "HistogramBank":
        """Return the same, given the group number beside each row, in ascending order of groups."""
        if len(rows) == count and (groups[1:] > groups[:-1]).all():
            # Usually all pods of a workload have the same labels, and nothing needs merging.
            return self._taken(rows)
        merged = HistogramBank(self.scheme, self.half_life, self.quantiles)
        merged.allocate(count)
        # As if the member with the latest reference came first: then only sources are scaled.
        np.maximum.at(merged.references, groups, self.references[rows])
        merged.references[:] = self._decay.align(merged.references)
        self._merge_into(merged, groups, rows)
        return merged

    def _taken(self, rows: Ints) -> "HistogramBank":
        """Return copies of distinct rows, numbered from 0 as given, at aligned references."""
        taken = HistogramBank(self.scheme, self.half_life, self.quantiles)
        taken.references, taken.weights = self.references[rows], self.weights.taken(rows)
        taken._used = len(rows)
        aligned = self._decay.align(taken.references)
        # A checkpoint from another half-life may have a reference that is no multiple of ours.
        older = np.flatnonzero(taken.references < aligned)
        if len(older):
            taken._shift(older, aligned[older])
        taken.references = aligned
        return taken

    def _merge_into(self, bank: "HistogramBank", targets: Ints, rows: Ints) -> None:
        """Merge rows into those of a bank, whose references must not be older."""
        references = bank.references[targets]
        # Weights at the same reference add up as they are. Others are scaled in a copy first.
        is_older = self.references[rows] < references
        same, older = np.flatnonzero(~is_older), np.flatnonzero(is_older)
        bank.weights.absorb(targets[same], self.weights, rows[same])
        if len(older):
            scaled = self.weights.taken(rows[older])
            new = self._decay.align(references[older])
            # A negative power of two: no rounding, unless a weight becomes subnormal.
            exponents = self._decay.exponents(self.references[rows[older]], new)
            scaled.scale(np.arange(len(older)), exponents)
            bank.weights.absorb(targets[older], scaled, np.arange(len(older)))

    def content(self, row: int) -> HistogramContent:
        """Return the weights of a row's span, and its reference."""
        weights = self.weights.span(row)
        return HistogramContent(weights, float(weights.sum()), float(self.references[row]))

    def align(self, times: Floats) -> Floats:
        """Return the references that rows may have at some times."""
        return self._decay.align(times)

    def encode(self, row: int) -> HistogramCheckpoint:
        """Return the record with which a row outlives a restart."""
        total, reference = float(self.weights.totals[row]), float(self.references[row])
        return checkpoint.encode_histogram(self.weights.span(row), total, reference)

    def encode_each(self, rows: Ints) -> Iterator[HistogramCheckpoint]:
        """Yield the records of many rows, which is cheaper than one after the other."""
        for begin in range(0, len(rows), _ENCODED_AT_ONCE):
            some = rows[begin : begin + _ENCODED_AT_ONCE]
            # Shape of `by_bucket`: float64[rows, buckets].
            by_bucket = np.zeros((len(some), self.scheme.count))
            for positions, buckets, weights in self.weights.spans(some):
                by_bucket[positions, buckets] = weights
            totals, references = self.weights.totals[some].tolist(), self.references[some].tolist()
            yield from map(checkpoint.encode_histogram, by_bucket, totals, references)

    def decode(self, row: int, stored: HistogramCheckpoint | None) -> None:
        """Add the contents of a checkpoint to a row, which takes over its reference."""
        content = checkpoint.decode_histogram(stored, self.scheme.count)
        self.load_each(np.array([row]), [content])

    def load_each(self, rows: Ints, contents: Sequence[HistogramContent]) -> None:
        """Add decoded histograms to distinct rows, which take over their references."""
        for begin in range(0, len(rows), _ENCODED_AT_ONCE):
            some, loaded = rows[begin:][:_ENCODED_AT_ONCE], contents[begin:][:_ENCODED_AT_ONCE]
            # Nothing is scaled to the new reference: callers pass rows that are still empty.
            self.references[some] = [content.reference for content in loaded]
            by_bucket = np.stack([content.weights for content in loaded])
            self.weights.load(
                some, by_bucket, np.array([content.total_weight for content in loaded])
            )


def _array(rows: ArrayLike) -> Ints:
    return np.atleast_1d(np.asarray(rows, np.int64))
