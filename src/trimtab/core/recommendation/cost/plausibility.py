"""Plausibility of memory readings: one broken reading must not be held for days.

Histograms take every reading up to 1 PiB, as the original does (decision 0014). A held target
would pay for it in full, so fewer readings are believed here. A need that is real shows again a
minute later, or as an OOM kill.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.core.histogram.buckets import Floats, Ints
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


@dataclass(frozen=True, slots=True)
class JudgedReadings:
    """Positions of readings."""

    believed: Ints
    doubted: Ints
    """Readings that the next tick has to confirm."""


def judge(
    memory: LoggedSamples, known: Floats, doubted: Floats, ceiling_bytes: float
) -> JudgedReadings:
    """Judge readings, given what is known of their containers and what was doubted before."""
    # A missing limit is NaN, and one of 0 limits nothing.
    limited = memory.limits > 0
    most = np.where(limited, np.fmin(memory.limits, ceiling_bytes), ceiling_bytes)
    is_possible = memory.values <= most * _IMPOSSIBLE
    is_sudden = (memory.values > known * _SUDDEN) & (memory.values > known + _SUDDEN_BYTES)
    is_sudden &= (known > 0) & (doubted < memory.values * _ALIKE)
    return JudgedReadings(
        np.flatnonzero(is_possible & ~is_sudden), np.flatnonzero(is_possible & is_sudden)
    )
