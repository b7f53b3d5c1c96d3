"""Columns of held targets: everything that is kept of a container between two ticks."""

from typing import Final

import numpy as np

from trimtab.core.model.resources import BOTH, Resource

CPU, MEMORY = BOTH.index(Resource.CPU), BOTH.index(Resource.MEMORY)
"""Columns of the fields that have one for each resource."""

_ROW: Final = np.dtype(
    [
        # Two columns: CPU in millicores, memory in bytes; NaN before the first sample.
        # The targets, and when they were last changed; the flags say if they ever rose or fell.
        ("held", np.float64, 2),
        ("changed", np.float64, 2),
        ("is_raised", np.bool_, 2),
        ("is_lowered", np.bool_, 2),
        # Times of the first and of the newest sample: the clock of this row.
        ("first", np.float64),
        ("now", np.float64),
        # The price of an OOM kill for a container of 1 GiB, in byte-seconds.
        ("price", np.float64),
        # Settled: something was lowered once, so the warm-up is over. Tried: an OOM kill set the
        # memory target, and no usage has confirmed it yet.
        ("is_settled", np.bool_),
        ("is_tried", np.bool_),
        # The series of OOM kills: its last time, its highest limit, and how often it was raised.
        ("last_kill", np.float64),
        ("kill_limit", np.float64),
        ("kills", np.int64),
        # Memory limit relative to the request; 1 without a limit.
        ("ratio", np.float64),
        # The largest need that was ever seen: the lower bound of a target that was never changed.
        ("most_needed", np.float64),
        # The largest reading of the last tick that is too sudden to be held before it is confirmed.
        ("doubted", np.float64),
        # The row of the CPU histogram, its cheapest level, and when that was last looked for.
        ("cpu_row", np.int64),
        ("cpu_target", np.float64),
        ("cpu_before", np.float64),
        ("cpu_checked", np.float64),
        # Since when most pods use more than the target, and the least that any of them used.
        ("short_since", np.float64),
        ("short_least", np.float64),
        # Since when most pods are at their CPU limit, and that limit.
        ("censored_since", np.float64),
        ("censored_limit", np.float64),
        # Since when a signal of memory is on, when one last counted as usage at the limit, and the
        # usage with which a series of such signals began.
        ("pressed_since", np.float64),
        ("pressed_counted", np.float64),
        ("pressed_usage", np.float64),
        # Offset of this row in the hour, and the time that was skipped without samples.
        ("phase", np.float64),
        ("paused", np.float64),
    ]
)
_FILLED: Final = {
    "held": np.nan,
    "changed": -np.inf,
    "first": np.nan,
    "now": -np.inf,
    "last_kill": -np.inf,
    "ratio": 1.0,
    "cpu_target": np.nan,
    "cpu_before": -np.inf,
    "cpu_checked": -np.inf,
    "short_since": np.nan,
    "censored_since": np.nan,
    "pressed_since": np.nan,
    "pressed_counted": -np.inf,
}


def blank_row() -> np.ndarray:
    """Return a row of a container that had no sample yet."""
    blank = np.zeros((), _ROW)
    for name, value in _FILLED.items():
        blank[name] = value
    return blank
