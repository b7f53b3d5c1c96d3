"""The OOM ledger: memory needs that OOM kills showed, beside the histogram.

In a histogram a kill is one sample among thousands, and one pod in forty never moves a percentile.
The ledger keeps the largest need of every recent kill by itself, for as long as the histogram's
window is. No memory target falls below it (decision 0010).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.core.histogram.buckets import MEMORY_BUCKETS, Floats, Ints

# A level is kept only if it is higher than all younger ones, so sixteen are rarely reached.
MOST_LEVELS: Final = 16
"""Maximum number of levels of one aggregate; beyond it the lowest is forgotten."""


@dataclass(frozen=True, slots=True)
class OomLevel:
    """The need that a kill showed, and its time."""

    needed_bytes: int
    seconds: float
    """Since the epoch."""


def highest_need(most_bytes: int, margin_fraction: float) -> int:
    """Return the largest need whose target is at most `most_bytes`.

    A target is the end of the bucket that the need falls into, and the margin above it.
    """
    # The margin comes on top of the bucket's end, so both limit what a node can still hold.
    targets = MEMORY_BUCKETS.ends * (1 + margin_fraction)
    fitting = int(np.searchsorted(targets, most_bytes, side="right"))
    if fitting in {0, MEMORY_BUCKETS.count}:
        # Below the first bucket or above the last, buckets do not limit the need.
        return most_bytes
    return int(MEMORY_BUCKETS.ends[fitting - 1]) - 1


def add_level(levels: tuple[OomLevel, ...], new: OomLevel) -> tuple[OomLevel, ...]:
    """Return the levels that may still matter: from old and high to new and low.

    A level that is neither higher nor younger than another one never matters again.
    """
    if any(old.needed_bytes >= new.needed_bytes and old.seconds >= new.seconds for old in levels):
        return levels
    others = [
        old for old in levels if old.needed_bytes > new.needed_bytes or old.seconds > new.seconds
    ]
    # Example: 3 GiB a week ago and 2 GiB today both stay: once the first has expired, the second is
    # the floor. 2 GiB a week ago and 3 GiB today leave only the latter.
    kept = sorted([*others, new], key=lambda level: level.needed_bytes, reverse=True)
    return tuple(kept[:MOST_LEVELS])


class OomLedger:
    """The levels of all aggregates, by their rows; most have none."""

    def __init__(self) -> None:
        self._levels: dict[int, tuple[OomLevel, ...]] = {}

    def __len__(self) -> int:
        return len(self._levels)

    def levels(self, rows: Iterable[int]) -> tuple[OomLevel, ...]:
        """Return the levels that matter of some aggregates together."""
        together: tuple[OomLevel, ...] = ()
        for row in rows:
            for level in self._levels.get(row, ()):
                together = add_level(together, level)
        return together

    def remember(self, rows: Ints, needed: Floats, times: Floats) -> None:
        """Add the needs that kills showed."""
        # A loop, since kills are few; arrays would cost more than they save.
        for row, amount, time in zip(rows.tolist(), needed.tolist(), times.tolist(), strict=True):
            self.put(row, [OomLevel(int(amount), time)])

    def put(self, row: int, levels: Iterable[OomLevel]) -> None:
        """Add levels to those of an aggregate."""
        for level in levels:
            self._levels[row] = add_level(self._levels.get(row, ()), level)

    def drop(self, row: int) -> None:
        """Forget an aggregate."""
        self._levels.pop(row, None)

    def expire(self, lifetimes: Floats, now: float | Floats) -> Ints:
        """Forget levels older than their aggregates' lifetimes; return the changed rows.

        `now` is one moment, or one for each aggregate.
        """
        changed, oldest = [], now - lifetimes
        # A copy: rows without any level left are removed while this runs.
        for row, levels in list(self._levels.items()):
            kept = tuple(one for one in levels if one.seconds > oldest[row])
            if kept != levels:
                changed.append(row)
                self._levels[row] = kept
            if not kept:
                del self._levels[row]
        return np.array(changed, np.int64)

    def floors(self, size: int) -> Floats:
        """Return the highest level of each of the first `size` rows; 0 where there is none."""
        floors = np.zeros(size)
        rows = np.fromiter(self._levels, np.int64, len(self._levels))
        # Levels are sorted from the highest on.
        floors[rows] = [levels[0].needed_bytes for levels in self._levels.values()]
        return floors
