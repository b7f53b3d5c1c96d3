"""Where running sums reach a fraction of a total, for many columns of weights at once."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from trimtab.core.buckets import Buckets, Floats

# So many sums are kept at a time: half a mebibyte, which stays in the processor's second cache.
_SUMS_AT_ONCE: Final = 1 << 16


def count_short(weights: Floats, totals: Floats, fractions: Sequence[float]) -> Buckets:
    """How many running sums down each column (columns) stay short of each fraction (lines).

    The sums are made slot by slot, in the order of a plain walk, and so are rounded like one.
    """
    slots, columns = weights.shape
    counts = np.empty((len(fractions), columns), np.uint8)
    step = max(1, _SUMS_AT_ONCE // slots)
    # Made once: fresh memory for each step would cost more than the sums.
    sums, short = np.empty((slots, step)), np.empty((slots, step), np.bool_)
    for start in range(0, columns, step):
        here = slice(start, min(start + step, columns))
        there = slice(0, here.stop - start)
        _fill_sums(sums[:, there], weights[:, here])
        for count, fraction in zip(counts, fractions, strict=True):
            np.less(sums[:, there], fraction * totals[here], out=short[:, there])
            np.add.reduce(short[:, there].view(np.uint8), axis=0, dtype=np.uint8, out=count[here])
    return counts


def _fill_sums(sums: Floats, weights: Floats) -> None:
    sums[0] = weights[0]
    for slot in range(1, len(weights)):
        np.add(sums[slot - 1], weights[slot], out=sums[slot])
