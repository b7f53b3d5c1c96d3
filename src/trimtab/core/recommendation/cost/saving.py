"""Saving held targets: many rows at a time, since a process saves all of them at its end."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from trimtab.core.histogram.buckets import Ints
from trimtab.core.recommendation.cost.held import HeldTargets
from trimtab.core.recommendation.cost.held_columns import CPU, MEMORY
from trimtab.core.usage.sample_log import NameTable
from trimtab.core.usage.saved_targets import SavedLevel, SavedTarget, SavedTargets

_COLUMNS: Final = (
    "first",
    "now",
    "most_needed",
    "is_settled",
    "is_tried",
    "last_kill",
    "kill_limit",
    "kills",
    "paused",
    "cpu_row",
)


def save_each(targets: HeldTargets, rows: Sequence[int], names: NameTable) -> list[SavedTargets]:
    """Return the state of rows that have had a sample each."""
    here = np.array(rows, np.int64)
    levels = _list_levels(targets, here, names)
    columns = [targets.column(name)[here] for name in _COLUMNS]
    cpu, memory = (list(_list_targets(targets, here, column)) for column in (CPU, MEMORY))
    histograms = targets.cpu.encode_each(columns[-1])
    return [
        SavedTargets(
            first=first,
            now=now,
            cpu=cpu[place],
            memory=memory[place],
            most_needed=most_needed,
            is_settled=is_settled,
            is_tried=is_tried,
            # Before any kill the time is infinite, which JSON cannot say.
            last_kill=last_kill if last_kill > -np.inf else None,
            kill_limit=kill_limit,
            kills=kills,
            paused=paused,
            levels=tuple(levels[place]),
            cpu_histogram=next(histograms),
        )
        for place, (
            first,
            now,
            most_needed,
            is_settled,
            is_tried,
            last_kill,
            kill_limit,
            kills,
            paused,
            _,
        ) in enumerate(zip(*(column.tolist() for column in columns), strict=True))
    ]


def _list_targets(targets: HeldTargets, rows: Ints, column: int) -> Iterator[SavedTarget | None]:
    held, changed, is_raised, is_lowered = (
        targets.column(name)[rows, column]
        for name in ("held", "changed", "is_raised", "is_lowered")
    )
    known = np.isfinite(held).tolist()
    fields = zip(
        known,
        held.tolist(),
        changed.tolist(),
        is_raised.tolist(),
        is_lowered.tolist(),
        strict=True,
    )
    for is_known, amount, since, rose, fell in fields:
        when = since if since > -np.inf else None
        yield SavedTarget(amount, when, rose, fell) if is_known else None


def _list_levels(targets: HeldTargets, rows: Ints, names: NameTable) -> list[list[SavedLevel]]:
    """Return the levels of each row, the lowest first."""
    found: list[list[SavedLevel]] = [[] for _ in range(len(rows))]
    for windows in targets.levels.windows(rows):
        # Transposed, so that the levels of a row follow each other.
        which, slots = np.nonzero(windows.is_known.T)
        each = (
            windows.which[which],
            windows.bases[which].astype(np.int64) + slots,
            windows.seen[slots, which],
            windows.peaks[slots, which],
            windows.pods[slots, which].astype(np.int64) - 1,
        )
        for place, bucket, seconds, peak, pod in zip(*(one.tolist() for one in each), strict=True):
            found[place].append(SavedLevel(bucket, seconds, peak, names.name(pod)))
    return found
