"""Where the weights of a bank lie: for each row only the window of buckets that it has touched.

Windows are 16, 32, 64 or all buckets wide. Those of one width lie on one shelf, side by side as the
columns of a matrix: its first line holds the first slot of every window, its second line the
second slots. So a running sum over the slots of all windows is a few additions of whole lines,
which no order of rows makes slower, while one sample still touches one number.

A row that gets a sample outside its window moves to a new column, wide enough, with room to spare
on both sides. Columns left behind are reused; a shelf that is mostly left behind is closed up.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from trimtab.core import running_sums
from trimtab.core.buckets import Buckets, Floats, Ints

NARROW_WIDTHS: Final = (16, 32, 64)
_FEW_COLUMNS: Final = 64

_Item = TypeVar("_Item", bound=np.generic)


class Shelf:
    """The windows of one width, each one column."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.weights: Floats = np.zeros((width, 0))
        self.used = 0
        """The columns from here on were never given out."""
        self._returned: Ints = np.zeros(0, np.int64)

    def take(self, count: int) -> Ints:
        """So many columns of zeros, returned ones first."""
        again = self._returned[:count]
        self._returned = self._returned[count:]
        fresh = np.arange(self.used, self.used + count - len(again))
        self._grow(self.used + len(fresh))
        self.used += len(fresh)
        return np.concatenate((again, fresh))

    def give_back(self, columns: Ints) -> None:
        """Clear columns for reuse."""
        self.weights[:, columns] = 0.0
        self._returned = np.concatenate((self._returned, columns))

    @property
    def is_mostly_empty(self) -> bool:
        """Whether closing up would free more than half of a shelf that is worth it."""
        return self.used > _FEW_COLUMNS and 2 * len(self._returned) > self.used

    def close_up(self, columns: Ints) -> Ints:
        """Keep only these columns and say where each of them lies now."""
        kept = self.weights[:, columns]
        self.weights = np.zeros((self.width, max(len(columns), _FEW_COLUMNS)))
        self.weights[:, : len(columns)] = kept
        self.used = len(columns)
        self._returned = np.zeros(0, np.int64)
        return np.arange(len(columns))

    def _grow(self, used: int) -> None:
        capacity = self.weights.shape[1]
        if used > capacity:
            grown = np.zeros((self.width, max(used, 2 * capacity, _FEW_COLUMNS)))
            grown[:, :capacity] = self.weights
            self.weights = grown


@dataclass(frozen=True, slots=True)
class Placed:
    """Those of the rows asked for whose windows lie on one shelf."""

    shelf: Shelf
    which: Ints
    """Their positions among the rows asked for."""
    columns: Ints
    bases: Buckets
    """The bucket of the first slot of each."""

    @property
    def buckets(self) -> Buckets:
        """The bucket of each slot (line) of each window (column)."""
        return np.arange(self.shelf.width, dtype=np.uint8)[:, np.newaxis] + self.bases

    @property
    def weights(self) -> Floats:
        """A copy of the windows, one column each."""
        return self.shelf.weights[:, self.columns]

    def replace(self, weights: Floats) -> None:
        """Put other weights into the windows."""
        self.shelf.weights[:, self.columns] = weights

    def count_short(self, thresholds: Floats) -> NDArray[np.uint8]:
        """How many of the running sums of each window stay below each of its thresholds."""
        if 2 * len(self.columns) < self.shelf.used:
            return running_sums.count_short(self.weights, thresholds)
        spread = np.zeros((len(thresholds), self.shelf.used))
        spread[:, self.columns] = thresholds
        counts = running_sums.count_short(self.shelf.weights[:, : self.shelf.used], spread)
        return counts[:, self.columns]


class Arena:
    """Windows of buckets by row."""

    def __init__(self, bucket_count: int) -> None:
        narrow = [width for width in NARROW_WIDTHS if width < bucket_count]
        self.shelves = [Shelf(width) for width in (*narrow, bucket_count)]
        self._widths = np.array([shelf.width for shelf in self.shelves])
        self._bucket_count = bucket_count
        self._shelf_of: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self._width: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self._base: Buckets = np.zeros(0, np.uint8)
        self._column: NDArray[np.int32] = np.zeros(0, np.int32)

    def grow(self, capacity: int) -> None:
        """Make place for rows up to a number; new ones have no window yet."""
        for name in ("_shelf_of", "_width", "_base", "_column"):
            setattr(self, name, grown(getattr(self, name), capacity))

    @property
    def bytes_held(self) -> int:
        """The size of all arrays, room to grow included."""
        by_row = (self._shelf_of, self._width, self._base, self._column)
        on_shelves = sum(shelf.weights.nbytes for shelf in self.shelves)
        return on_shelves + sum(array.nbytes for array in by_row)

    def placed(self, rows: Ints) -> Iterator[Placed]:
        """The windows of rows, shelf by shelf; rows without a window are left out."""
        shelf_of, width = self._shelf_of[rows], self._width[rows]
        for number, shelf in enumerate(self.shelves):
            if shelf.used:
                which = np.flatnonzero((shelf_of == number) & (width > 0))
                if len(which):
                    yield self._place(shelf, rows[which], which)

    def _place(self, shelf: Shelf, rows: Ints, which: Ints) -> Placed:
        columns = self._column[rows].astype(np.int64)
        return Placed(shelf, which, columns, self._base[rows])

    def outside(self, rows: Ints, buckets: Buckets) -> NDArray[np.bool_]:
        """Which samples fall outside the window of their row."""
        # Below the window the difference wraps around to more than any width.
        slots: Buckets = buckets - self._base[rows]
        return slots >= self._width[rows]

    def reserve(self, rows: Ints, lowest: Buckets, highest: Buckets) -> None:
        """Give distinct rows windows that hold what they hold already and these buckets."""
        low, high = lowest.astype(np.int64), highest.astype(np.int64)
        held = list(self.placed(rows))
        for part in held:
            used = part.weights != 0.0
            first = part.bases + used.argmax(axis=0)
            last = part.bases + (part.shelf.width - 1 - used[::-1].argmax(axis=0))
            any_used = used.any(axis=0)
            chosen = part.which[any_used]
            low[chosen] = np.minimum(low[chosen], first[any_used])
            high[chosen] = np.maximum(high[chosen], last[any_used])
        contents = [(part.which, part.bases, part.weights) for part in held]
        self._free(held)
        self._assign(rows, low, high)
        for which, bases, weights in contents:
            self._write(rows[which], bases, weights)
        self._tidy()

    def taken(self, rows: Ints) -> "Arena":
        """Copies of the windows of rows, numbered from 0 in the order given."""
        taken = Arena(self._bucket_count)
        taken._shelf_of, taken._width = self._shelf_of[rows], self._width[rows]
        taken._base, taken._column = self._base[rows], self._column[rows]
        for part in self.placed(rows):
            shelf = taken.shelves[self.shelves.index(part.shelf)]
            columns = shelf.take(len(part.which))
            shelf.weights[:, columns] = part.weights
            taken._column[part.which] = columns
        return taken

    def release(self, rows: Ints) -> None:
        """Take the windows of distinct rows away."""
        self._free(list(self.placed(rows)))
        self._width[rows] = 0
        self._tidy()

    def _free(self, parts: list[Placed]) -> None:
        for part in parts:
            part.shelf.give_back(part.columns)

    def _assign(self, rows: Ints, low: Ints, high: Ints) -> None:
        spans = high - low + 1
        numbers = np.searchsorted(self._widths, spans)
        widths = self._widths[numbers]
        bases = np.clip(low - (widths - spans) // 2, 0, self._bucket_count - widths)
        self._shelf_of[rows], self._width[rows], self._base[rows] = numbers, widths, bases
        for number, shelf in enumerate(self.shelves):
            here = rows[numbers == number]
            self._column[here] = shelf.take(len(here))

    def _write(self, rows: Ints, bases: Buckets, weights: Floats) -> None:
        for slot, line in enumerate(weights):
            some = np.flatnonzero(line)
            if len(some):
                self.put(rows[some], bases[some] + np.uint8(slot), line[some])

    def _tidy(self) -> None:
        for number, shelf in enumerate(self.shelves):
            if shelf.is_mostly_empty:
                rows = np.flatnonzero((self._shelf_of == number) & (self._width > 0))
                self._column[rows] = shelf.close_up(self._column[rows].astype(np.int64))

    def _flat(self, part: Placed, buckets: Buckets) -> tuple[Floats, Ints]:
        slots = (buckets[part.which] - part.bases).astype(np.int64)
        return part.shelf.weights.reshape(-1), slots * part.shelf.weights.shape[1] + part.columns

    def add(self, rows: Ints, buckets: Buckets, weights: Floats) -> None:
        """Add to buckets inside the windows, one sample after the other."""
        for part in self.placed(rows):
            flat, indices = self._flat(part, buckets)
            np.add.at(flat, indices, weights[part.which])

    def put(self, rows: Ints, buckets: Buckets, weights: Floats) -> None:
        """Replace the weights of buckets inside the windows."""
        for part in self.placed(rows):
            flat, indices = self._flat(part, buckets)
            flat[indices] = weights[part.which]

    def look_up(self, rows: Ints, buckets: Buckets) -> Floats:
        """The weights of buckets inside the windows."""
        found = np.zeros(len(rows))
        for part in self.placed(rows):
            flat, indices = self._flat(part, buckets)
            found[part.which] = flat[indices]
        return found


def grown(array: NDArray[_Item], capacity: int) -> NDArray[_Item]:
    """A longer copy of an array, zeros at its end."""
    longer = np.zeros(capacity, array.dtype)
    longer[: len(array)] = array
    return longer
