"""Plausibility of memory readings: one broken reading must not be held for days.

Histograms take every reading up to 1 PiB, as the original does (decision 0014). A held target
would pay for it in full, so fewer readings are believed here. A need that is real shows again a
minute later, or as an OOM kill.
"""

from typing import Final

import numpy as np

from trimtab.core.histogram.buckets import Floats
from trimtab.core.histogram.memory_peaks import Booleans
from trimtab.core.usage.sample_log import LoggedSamples

_IMPOSSIBLE: Final = 4.0
"""No container uses so many times its limit, or what the largest node has to give.

Between one and four times, a limit may have changed since, and a node has more than it gives.
"""
_SUDDEN: Final = 8.0
_SUDDEN_BYTES: Final = 2.0**30
"""A reading of so many times what is known, and of so much more, has to be confirmed."""
_ALIKE: Final = 0.5
"""A reading is confirmed by one before it of at least this part of it."""


def is_possible(memory: LoggedSamples, ceiling_bytes: float) -> Booleans:
    """Return False for readings that no container on any node can have."""
    # A missing limit is NaN, and one of 0 limits nothing.
    limited = memory.limits > 0
    most = np.where(limited, np.fmin(memory.limits, ceiling_bytes), ceiling_bytes) * _IMPOSSIBLE
    return np.asarray(memory.values <= most)


def is_sudden(values: Floats, known: Floats) -> Booleans:
    """Return True for readings far above what is known of their container, if anything is."""
    far = (values > known * _SUDDEN) & (values > known + _SUDDEN_BYTES)
    return np.asarray(far & (known > 0))


def is_confirmed(values: Floats, doubted: Floats) -> Booleans:
    """Return True for readings after an earlier one of about the same size."""
    return np.asarray(doubted >= values * _ALIKE)
