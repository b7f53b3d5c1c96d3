"""Where running sums reach a threshold, for many columns of weights at once."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from trimtab.core.buckets import Floats

# So many sums are kept at a time: one mebibyte, which stays in the processor's second cache.
_SUMS_AT_ONCE: Final = 1 << 17


def count_short(weights: Floats, thresholds: Floats) -> NDArray[np.uint8]:
    """How many of the running sums down each column stay below each threshold.

    Weights are lines of slots by columns, thresholds lines of questions by the same columns. The
    sums are made slot by slot, in the order of a plain walk, and so are rounded like one.
    """
    slots, columns = weights.shape
    counts = np.zeros(thresholds.shape, np.uint8)
    step = max(1, _SUMS_AT_ONCE // slots)
    for start in range(0, columns, step):
        part = slice(start, start + step)
        sums = _running_sums(weights[:, part])
        for line, threshold in zip(counts, thresholds, strict=True):
            short = np.less(sums, threshold[part]).view(np.uint8)
            np.add.reduce(short, axis=0, dtype=np.uint8, out=line[part])
    return counts


def _running_sums(weights: Floats) -> Floats:
    sums = np.empty(weights.shape)
    sums[0] = weights[0]
    for slot in range(1, len(weights)):
        np.add(sums[slot - 1], weights[slot], out=sums[slot])
    return sums
