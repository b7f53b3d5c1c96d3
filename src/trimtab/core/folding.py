"""Folding: histories of labels that no pod has any more are put together.

Rollouts and jobs give pods labels of their own, and each label set has aggregates that nothing
feeds soon after (F33). Once such an aggregate had no sample for a memory interval, no window of it
is open, and it is kept as a restart would: in the one aggregate per container of an autoscaler that
holds what was restored from its checkpoint. What is recommended stays the same.
"""

from datetime import datetime

import numpy as np

from trimtab.core.aggregates import to_seconds
from trimtab.core.usage import Usage


def fold_idle(usage: Usage, now: datetime) -> int:
    """Fold what no pod feeds and nothing was heard of for an interval, and tell how much it was.

    What nobody learns from yet waits: an autoscaler may still come.
    """
    aggregates = usage.aggregates
    rows = aggregates.keyed_rows()
    last = np.maximum(aggregates.floats("last"), aggregates.floats("last_memory"))[rows]
    idle = to_seconds(now, missing=0.0) - last
    is_old = np.isfinite(last) & (idle >= aggregates.floats("interval")[rows])
    candidates = rows[is_old & (aggregates.ints("feeders")[rows] == 0)].tolist()
    chosen = [row for row in sorted(candidates) if usage.links.learners_of(row)]
    for row in chosen:
        usage.fold(row, now)
    return len(chosen)
