"""Batches of samples for the rows of a bank: checked when made, split where order matters."""

import sys
from typing import Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab.core.buckets import Buckets, BucketScheme, Floats, Ints
from trimtab.core.decay import LAST_TIME, ZERO_TIME
from trimtab.core.records import dataclass

# Far above any use, and far enough from the end of the numbers that 2^100 times it is finite.
MAX_WEIGHT: Final = 1e200

_Number = TypeVar("_Number", np.float64, np.int64)


class SampleError(ValueError):
    """A sample that no histogram can hold; the message names the field, its value and its place."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples by column; a row may occur several times."""

    rows: Ints
    buckets: Buckets
    weights: Floats
    times: Floats

    def __len__(self) -> int:
        return len(self.rows)

    def pick(self, which: Ints | slice) -> "Batch":
        """Those samples of the batch alone."""
        return Batch(self.rows[which], self.buckets[which], self.weights[which], self.times[which])

    def split(self) -> tuple["Batch", "Batch"]:
        """The first sample of each row, and all others."""
        first = _is_first(self.rows)
        return self.pick(np.flatnonzero(first)), self.pick(np.flatnonzero(~first))


def _is_first(rows: Ints) -> NDArray[np.bool_]:
    """Which places hold a row that no earlier place holds."""
    first = np.zeros(len(rows), np.bool_)
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
    """A batch in which every number is fit for a histogram; scalars count for all samples."""
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
    # Both comparisons fail on NaN, which the extremes of an array hand on.
    if numbers.size and not (least <= numbers.min() and numbers.max() <= most):
        fit = (numbers >= least) & (numbers <= most)
        place = int(np.flatnonzero(~fit)[0])
        value = float(numbers.reshape(-1)[place])
        raise SampleError(f"{field} of sample {place}: {value} is not from {least:g} to {most:g}")
    return numbers
