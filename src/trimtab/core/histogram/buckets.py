"""Exponential buckets: the bucket that a value falls into, and the start of each bucket.

Both directions agree with the original to the last bit. The original computes them with its
language's own logarithm and power. Their results differ from the C library's by a unit in the last
place. That can put a round number of bytes or millicores into another bucket. Hence the two small
functions `_power` and `_logarithm` here.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Buckets: TypeAlias = NDArray[np.uint8]

# A value's exponent and its seven leading mantissa bits: cells at most 0.8 % wide. Buckets grow by
# more than that from each to the next, so that a cell never holds more than one boundary.
_CELL_SHIFT: Final = 52 - 7
_CELL_WIDTH: Final = 2.0**-7
# The number of a bucket is kept in one byte, and so is the width of a window.
_MOST_BUCKETS: Final = 255


@dataclass(frozen=True)
class BucketScheme:
    """Buckets that grow by `ratio` up to `maximum`, the first one `first` wide."""

    first: float
    maximum: float
    ratio: float = 1.05
    epsilon: float = 0.0001
    """The least weight that makes a bucket count as occupied."""

    def __post_init__(self) -> None:
        if not 0.0 < self.first < self.maximum < math.inf:
            raise ValueError(f"first: {self.first} is not between 0 and maximum {self.maximum}")
        # Two cells per bucket at least: `find` looks at one boundary per cell and no more.
        if not 1.0 + 2 * _CELL_WIDTH <= self.ratio < math.inf:
            raise ValueError(f"ratio: {self.ratio} is not over 1.016")
        if not 0.0 < self.epsilon < math.inf:
            raise ValueError(f"epsilon: {self.epsilon} is not positive")
        if self.count > _MOST_BUCKETS:
            raise ValueError(f"maximum: {self.maximum} needs {self.count} buckets")

    @cached_property
    def count(self) -> int:
        """The number of buckets."""
        # With the default ratio, CPU and memory both need 176 buckets, as in the original.
        return math.ceil(self._position(self.maximum)) + 1

    @cached_property
    def starts(self) -> Floats:
        """The least value of each bucket, nominally: the values that percentiles report."""
        # The sum of a geometric series: bucket 0 is `first` wide, each next one 5 % wider.
        growth = self.ratio - 1.0
        powers = [_power(self.ratio, bucket) for bucket in range(self.count)]
        return np.array([self.first * (power - 1.0) / growth for power in powers])

    @cached_property
    def ends(self) -> Floats:
        """The start of the next bucket; the last bucket, which has none, ends at its own start."""
        return np.append(self.starts[1:], self.starts[-1])

    def find(self, values: Floats) -> Buckets:
        """Return the bucket of each value; everything below zero falls into the first."""
        # The bits of a positive float64 grow with its value, so a shift is enough to find the cell.
        cells = values.view(np.int64) >> _CELL_SHIFT
        # Example: 0.5 and 0.503 cores share a cell; 0.5 and 0.51 do not. The table then holds the
        # bucket of each cell, and the one boundary that may lie inside it.
        cells -= self._first_cell
        np.maximum(cells, 0, out=cells)
        np.minimum(cells, len(self._cell_buckets) - 1, out=cells)
        found = self._cell_buckets.take(cells)
        # uint8 plus bool stays uint8: the comparison moves a value to the next bucket or not.
        found += values >= self._cell_boundaries.take(cells)
        return found

    def _position(self, value: float) -> float:
        """Return the number of buckets below a value, with a fraction."""
        scaled = value * (self.ratio - 1.0) / self.first + 1.0
        return _logarithm(scaled) / self._ratio_logarithm

    @cached_property
    def _ratio_logarithm(self) -> float:
        return _logarithm(self.ratio)

    @cached_property
    def _boundaries(self) -> Floats:
        """The least value that the logarithm puts into each bucket, a few units off `starts`."""
        return np.array([0.0] + [self._boundary(bucket) for bucket in range(1, self.count)])

    def _boundary(self, bucket: int) -> float:
        value = max(float(self.starts[bucket]), self.first)
        # `starts` is a few units in the last place off what the logarithm says, in either
        # direction. Step to the exact float at which the original changes buckets.
        while int(self._position(value)) < bucket:
            value = math.nextafter(value, math.inf)
        while value > self.first and int(self._position(math.nextafter(value, 0.0))) >= bucket:
            value = math.nextafter(value, 0.0)
        return value

    @cached_property
    def _first_cell(self) -> int:
        return int(np.float64(self.first).view(np.int64) >> _CELL_SHIFT) - 1

    @cached_property
    def _cell_starts(self) -> Floats:
        last = int(self._boundaries[-1:].view(np.int64)[0] >> _CELL_SHIFT)
        cells = np.arange(self._first_cell, last + 2, dtype=np.int64)
        return (cells << _CELL_SHIFT).view(np.float64)

    @cached_property
    def _cell_buckets(self) -> Buckets:
        """The bucket of the least value of each cell."""
        found = np.searchsorted(self._boundaries, self._cell_starts, side="right") - 1
        return found.astype(np.uint8)

    @cached_property
    def _cell_boundaries(self) -> Floats:
        """The next boundary above the least value of each cell."""
        return np.append(self._boundaries, math.inf)[self._cell_buckets.astype(np.int64) + 1]


def _power(base: float, exponent: int) -> float:
    """Compute a whole power by repeated squaring, rounded at each step as in the original."""
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


# The series of FreeBSD's e_log.c, which the original's language uses too.
LN2_HIGH: Final = 6.93147180369123816490e-01
LN2_LOW: Final = 1.90821492927058770002e-10
_EVEN: Final = (3.999999999940941908e-01, 2.222219843214978396e-01, 1.531383769920937332e-01)
_ODD: Final = (
    6.666666666666735130e-01,
    2.857142874366239149e-01,
    1.818357216161805012e-01,
    1.479819860511658591e-01,
)


def _logarithm(x: float) -> float:
    """Compute the natural logarithm of a positive number, rounded as the original rounds it."""
    # `frexp` gives a mantissa from 0.5 on; the series wants one around 1, from 0.71 to 1.41.
    mantissa, exponent = math.frexp(x)
    if mantissa < math.sqrt(2) / 2:
        mantissa, exponent = mantissa * 2, exponent - 1
    f = mantissa - 1
    s = f / (2 + f)
    s2 = s * s
    s4 = s2 * s2
    odd = s2 * (_ODD[0] + s4 * (_ODD[1] + s4 * (_ODD[2] + s4 * _ODD[3])))
    even = s4 * (_EVEN[0] + s4 * (_EVEN[1] + s4 * _EVEN[2]))
    half = 0.5 * f * f
    tail = s * (half + (odd + even)) + exponent * LN2_LOW
    # This order of operations decides the last bit; a rearranged sum rounds differently.
    return exponent * LN2_HIGH - ((half - tail) - f)


CPU_BUCKETS: Final = BucketScheme(first=0.01, maximum=1000.0)
"""Buckets of CPU usage in cores."""

MEMORY_BUCKETS: Final = BucketScheme(first=1e7, maximum=1e12)
"""Buckets of memory peaks in bytes."""


CORE: Final = 1000
"""Millicores of one core."""

MOST: Final = 1e14
"""The largest estimate: an upper bound without any confidence is this instead of infinite."""


def truncate(values: Floats) -> Floats:
    """Cut numbers towards zero, at most `MOST`; a negative number or NaN becomes zero."""
    # Of a number and NaN, `fmax` takes the number.
    return np.trunc(np.minimum(np.fmax(values, 0.0), MOST))
