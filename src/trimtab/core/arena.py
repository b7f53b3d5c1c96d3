"""Where the weights of a bank lie: for each row only the window of buckets that it has touched.

Windows are 16, 32, 64 or all buckets wide. Those of one width lie on one shelf, side by side as the
columns of a matrix: its first line holds the first slot of every window, its second line the
second slots. So a running sum over the slots of all windows is a few additions of whole lines,
which no order of rows makes slower, while one sample still touches one number.

A row that gets a sample outside its window moves to a new column, wide enough, with room to spare
on both sides. Columns left behind are reused; a shelf that is mostly left behind is closed up.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from trimtab.core.buckets import Buckets, Floats, Ints
from trimtab.core.running_sums import count_short

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
    which: Ints | slice
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

    def count_short(self, totals: Floats, fractions: Sequence[float]) -> list[Buckets]:
        """For each fraction: how many running sums of each window stay short of it."""
        used = self.shelf.used
        if 2 * len(self.columns) < used:
            return list(count_short(self.weights, totals, fractions))
        # Most of the shelf is asked for: reading all of it in place beats copying.
        by_column = np.zeros(used)
        by_column[self.columns] = totals
        counts = count_short(self.shelf.weights[:, :used], by_column, fractions)
        return [line.take(self.columns) for line in counts]


class Arena:
    """Windows of buckets by row."""

    def __init__(self, bucket_count: int) -> None:
        narrow = [width for width in NARROW_WIDTHS if width < bucket_count]
        self.shelves = [Shelf(width) for width in (*narrow, bucket_count)]
        self._bucket_count = bucket_count
        self._no_shelf = len(self.shelves)
        self._widths = np.array([*narrow, bucket_count, 0], np.uint8)
        self._shelf_of: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self._base: Buckets = np.zeros(0, np.uint8)
        self._column: NDArray[np.int32] = np.zeros(0, np.int32)

    def grow(self, capacity: int) -> None:
        """Make place for rows up to a number; new ones have no window yet."""
        known = len(self._shelf_of)
        self._shelf_of = grown(self._shelf_of, capacity)
        self._shelf_of[known:] = self._no_shelf
        self._base = grown(self._base, capacity)
        self._column = grown(self._column, capacity)

    @property
    def bytes_held(self) -> int:
        """The size of all arrays, room to grow included."""
        by_row = self._shelf_of.nbytes + self._base.nbytes + self._column.nbytes
        return by_row + sum(shelf.weights.nbytes for shelf in self.shelves)

    def placed(self, rows: Ints) -> Iterator[Placed]:
        """The windows of rows, shelf by shelf; rows without a window are left out."""
        shelf_of = self._shelf_of[rows]
        for number, shelf in enumerate(self.shelves):
            if shelf.used:
                here = shelf_of == number
                if here.all():
                    yield self._place(shelf, rows, slice(None))
                elif here.any():
                    which = np.flatnonzero(here)
                    yield self._place(shelf, rows[which], which)

    def contents(self, rows: Ints) -> Iterator[tuple[Ints, Buckets, Floats]]:
        """All that rows hold: positions among them, buckets and weights, shelf by shelf."""
        positions = np.arange(len(rows))
        for part in self.placed(rows):
            weights = part.weights
            slots, places = np.nonzero(weights)
            buckets = part.bases[places] + slots.astype(np.uint8)
            yield positions[part.which][places], buckets, weights[slots, places]

    def _place(self, shelf: Shelf, rows: Ints, which: Ints | slice) -> Placed:
        return Placed(shelf, which, self._column[rows].astype(np.int64), self._base[rows])

    def outside(self, rows: Ints, buckets: Buckets) -> NDArray[np.bool_]:
        """Which buckets lie outside the window of their row."""
        # Below the window the difference wraps around to more than any width.
        return np.asarray(buckets - self._base[rows] >= self._widths[self._shelf_of[rows]])

    def reserve(self, rows: Ints, lowest: Buckets, highest: Buckets) -> None:
        """Give distinct rows windows that hold what they hold already and these buckets."""
        low, high = lowest.astype(np.int64), highest.astype(np.int64)
        moved = list(self.contents(rows))
        for part in self.placed(rows):
            first, last = _extent(part)
            low[part.which] = np.minimum(low[part.which], first)
            high[part.which] = np.maximum(high[part.which], last)
        self._free(rows)
        self._assign(rows, low, high)
        for positions, buckets, weights in moved:
            self.put(rows[positions], buckets, weights)
        self._tidy()

    def release(self, rows: Ints) -> None:
        """Take the windows of distinct rows away."""
        self._free(rows)
        self._tidy()

    def taken(self, rows: Ints) -> "Arena":
        """Copies of the windows of rows, numbered from 0 in the order given."""
        taken = Arena(self._bucket_count)
        taken._shelf_of, taken._base = self._shelf_of[rows], self._base[rows]
        taken._column = self._column[rows]
        for part in self.placed(rows):
            shelf = taken.shelves[self.shelves.index(part.shelf)]
            columns = shelf.take(len(part.columns))
            shelf.weights[:, columns] = part.weights
            taken._column[part.which] = columns
        return taken

    def _free(self, rows: Ints) -> None:
        for part in self.placed(rows):
            part.shelf.give_back(part.columns)
        self._shelf_of[rows] = self._no_shelf

    def _assign(self, rows: Ints, low: Ints, high: Ints) -> None:
        widths = self._widths[:-1].astype(np.int64)
        spans = high - low + 1
        numbers = np.searchsorted(widths, spans)
        spare = widths[numbers] - spans
        highest_base = self._bucket_count - widths[numbers]
        self._base[rows] = np.clip(low - spare // 2, 0, highest_base)
        self._shelf_of[rows] = numbers
        for number, shelf in enumerate(self.shelves):
            here = rows[numbers == number]
            self._column[here] = shelf.take(len(here))

    def _tidy(self) -> None:
        for number, shelf in enumerate(self.shelves):
            if shelf.is_mostly_empty:
                rows = np.flatnonzero(self._shelf_of == number)
                self._column[rows] = shelf.close_up(self._column[rows].astype(np.int64))

    def add(self, rows: Ints, buckets: Buckets, weights: Floats) -> None:
        """Add to buckets inside the windows, one sample after the other."""
        for part in self.placed(rows):
            np.add.at(*_address(part, buckets), weights[part.which])

    def put(self, rows: Ints, buckets: Buckets, weights: Floats) -> None:
        """Replace the weights of buckets inside the windows."""
        for part in self.placed(rows):
            flat, indices = _address(part, buckets)
            flat[indices] = weights[part.which]

    def look_up(self, rows: Ints, buckets: Buckets) -> Floats:
        """The weights of buckets inside the windows."""
        found = np.zeros(len(rows))
        for part in self.placed(rows):
            flat, indices = _address(part, buckets)
            found[part.which] = flat[indices]
        return found


def _address(part: Placed, buckets: Buckets) -> tuple[Floats, Ints]:
    """A shelf as one line of numbers, and where in it the given buckets lie."""
    indices = (buckets[part.which] - part.bases).astype(np.int64)
    indices *= part.shelf.weights.shape[1]
    indices += part.columns
    return part.shelf.weights.reshape(-1), indices


def _extent(part: Placed) -> tuple[Ints, Ints]:
    """The first and the last bucket of each window that holds anything."""
    used = part.weights != 0.0
    last = part.shelf.width - 1 - used[::-1].argmax(axis=0)
    return part.bases + used.argmax(axis=0), part.bases + last


def grown(array: NDArray[_Item], capacity: int) -> NDArray[_Item]:
    """A longer copy of an array, zeros at its end."""
    longer = np.zeros(capacity, array.dtype)
    longer[: len(array)] = array
    return longer
