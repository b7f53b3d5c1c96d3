"""Exponential decay: the weight of a sample, given when it was taken.

A sample taken at `t` weighs 2^((t - reference) / half-life). So nothing needs to be scaled down
while time passes: newer samples weigh more. When they would weigh over 2^100, the reference moves
up to them and everything older is scaled down once.

Times are float64 seconds since the Unix epoch. References are multiples of the half-life counted
from the year 1, and differences of times saturate at 292 years, because checkpoints of the
original show both.
"""

import math
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trimtab.core.histogram.buckets import LN2_HIGH, LN2_LOW, Floats

ZERO_TIME: Final = datetime(1, 1, 1, tzinfo=UTC).timestamp()
"""The reference of a histogram that never saw a sample."""

LAST_TIME: Final = datetime(9990, 1, 1, tzinfo=UTC).timestamp()
"""The latest sample: rounded up to the longest half-life it is still a valid date."""

_ZERO_MICROSECONDS: Final = int(ZERO_TIME) * 10**6

# After 100 half-lives a fresh sample weighs 2^100; the original moves the reference there too.
_MAX_HALF_LIVES: Final = 100
# The longest `time.Duration` of the original: 2^63 - 1 nanoseconds, 292 years.
_LONGEST_SPAN: Final = (2**63 - 1) / 1e9
# Intermediate arrays of this many numbers stay in the processor's second-level cache.
_AT_ONCE: Final = 1 << 13
_EXPONENT_BIAS: Final = 1023
_MANTISSA_BITS: Final = 52
# Below 2^-1022 a float64 has no exponent of its own that `_scaled` could write.
_LEAST_NORMAL_EXPONENT: Final = -1000
_LONGEST_HALF_LIFE: Final = timedelta(seconds=math.floor(_LONGEST_SPAN / _MAX_HALF_LIVES))


class Decay:
    """The arithmetic of one half-life, over whole arrays of times."""

    __slots__ = ("_longest_age", "_microseconds", "_seconds")

    def __init__(self, half_life: timedelta) -> None:
        if not timedelta(0) < half_life <= _LONGEST_HALF_LIFE:
            raise ValueError(f"half_life: {half_life} is not between 0 and {_LONGEST_HALF_LIFE}")
        self._seconds = half_life.total_seconds()
        self._longest_age = _MAX_HALF_LIVES * self._seconds
        self._microseconds = half_life // timedelta(microseconds=1)

    def overdue(self, ages: Floats) -> NDArray[np.bool_]:
        """Return True for each age, in seconds, that requires the reference to move first."""
        return np.asarray(ages > self._longest_age)

    def is_any_overdue(self, ages: Floats) -> bool:
        """Return True if any age is overdue."""
        return bool(ages.max(initial=0.0) > self._longest_age)

    def align(self, times: Floats) -> Floats:
        """Return the multiple of the half-life nearest to each time, halves rounded up."""
        # In whole microseconds: the remainder of float64 seconds since the year 1 would be rounded.
        since_zero = np.rint(times * 1e6).astype(np.int64) - _ZERO_MICROSECONDS
        rest = since_zero % self._microseconds
        up = rest >= self._microseconds - rest
        since_zero -= rest
        since_zero += up * self._microseconds
        return (since_zero + _ZERO_MICROSECONDS) / 1e6

    def exponents(self, old: Floats, new: Floats) -> NDArray[np.int32]:
        """Return the power of two that scales weights kept at an old reference to a new one."""
        # Whole exponents: both references are multiples of the half-life, but for those of a
        # foreign checkpoint, and rounding those is what the original does too.
        spans = np.clip(old - new, -_LONGEST_SPAN, _LONGEST_SPAN)
        return np.floor(spans / self._seconds + 0.5).astype(np.int32)

    def factors(self, ages: Floats) -> Floats:
        """Return the factor that multiplies the weight of a sample of each age, in seconds."""
        factors = np.empty(len(ages))
        for first in range(0, len(ages), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            # Only the lower end saturates here: what is too new was caught by `overdue`.
            half_lives = np.maximum(ages[part], -_LONGEST_SPAN)
            half_lives /= self._seconds
            factors[part] = _power_of_two(half_lives)
        return factors


# The series of FreeBSD's e_exp.c, which the original's language uses too.
_SERIES: Final = (
    4.13813679705723846039e-08,
    -1.65339022054652515390e-06,
    6.61375632143793436117e-05,
    -2.77777777770155933842e-03,
    1.66666666666666657415e-01,
)


def _power_of_two(x: Floats) -> Floats:
    """Compute two to the power of each number, rounded as the original does; overwrites `x`.

    The C library's last bit differs for one number in ten. Where a percentile falls exactly between
    two buckets the last bit decides.
    """
    # x = whole + x with |x| <= 0.5. Halves go away from zero, as in the original, not to even.
    whole = np.copysign(0.5, x)
    whole += x
    np.trunc(whole, out=whole)
    x -= whole
    # ln 2 in two parts: the low one carries what the product with the high one loses.
    low = x * -LN2_LOW
    x *= LN2_HIGH
    r = x - low
    square = r * r
    series = square * _SERIES[0]
    for coefficient in _SERIES[1:]:
        series += coefficient
        series *= square
    np.subtract(r, series, out=series)
    r *= series
    np.subtract(2.0, series, out=series)
    r /= series
    low -= r
    low -= x
    return _scaled(np.subtract(1.0, low, out=low), whole)


def _scaled(numbers: Floats, exponents: Floats) -> Floats:
    """Multiply each number, between one half and two, by a power of two."""
    if exponents.min(initial=0.0) < _LEAST_NORMAL_EXPONENT:
        return np.ldexp(numbers, exponents.astype(np.int32))
    # Powers of two written bit by bit: several times faster than a call of the C library for each.
    # Example: 3 + 1023 in the exponent field, above 52 zero bits of mantissa, is 2^3.
    powers = exponents.astype(np.int64)
    powers += _EXPONENT_BIAS
    powers <<= _MANTISSA_BITS
    numbers *= powers.view(np.float64)
    return numbers
