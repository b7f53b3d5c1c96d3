"""Columns of held targets: everything that is kept of a container between two ticks."""

from typing import Final

import numpy as np

from trimtab.core.model.resources import BOTH, Resource

CPU, MEMORY = BOTH.index(Resource.CPU), BOTH.index(Resource.MEMORY)
"""Columns of the fields that have one for each resource."""

_ROW: Final = np.dtype(
    [
        # Two columns: CPU in millicores, memory in bytes; NaN before the first sample.
        ("held", np.float64, 2),
        ("changed", np.float64, 2),
        ("is_raised", np.bool_, 2),
        ("is_lowered", np.bool_, 2),
        ("first", np.float64),
        ("now", np.float64),
        ("price", np.float64),
        ("factor", np.float64),
        ("is_settled", np.bool_),
        ("is_tried", np.bool_),
        ("last_kill", np.float64),
        ("kill_limit", np.float64),
        ("kills", np.int64),
        ("ratio", np.float64),
        ("most_needed", np.float64),
        ("cpu_row", np.int64),
        ("cpu_target", np.float64),
        ("cpu_before", np.float64),
        ("cpu_checked", np.float64),
        ("short_since", np.float64),
        ("short_least", np.float64),
        ("censored_since", np.float64),
        ("censored_limit", np.float64),
        ("phase", np.float64),
        ("paused", np.float64),
    ]
)
_FILLED: Final = {
    "held": np.nan,
    "changed": -np.inf,
    "first": np.nan,
    "now": -np.inf,
    "factor": 1.0,
    "last_kill": -np.inf,
    "ratio": 1.0,
    "cpu_target": np.nan,
    "cpu_before": -np.inf,
    "cpu_checked": -np.inf,
    "short_since": np.nan,
    "censored_since": np.nan,
}


def blank_row() -> np.ndarray:
    """Return a row of a container that had no sample yet."""
    blank = np.zeros((), _ROW)
    for name, value in _FILLED.items():
        blank[name] = value
    return blank
