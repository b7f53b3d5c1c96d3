"""Numbered rows of one structured array, for state that is kept in columns."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

_FIRST_CAPACITY = 64


# Copying a column costs about as much as `ufunc.at` on an eighth of its rows.
_WORTH_A_COPY = 8


def fold_in(
    fold: np.ufunc, column: NDArray[np.generic], rows: NDArray[np.int64], values: ArrayLike
) -> None:
    """Apply values to their rows of a column with a ufunc; a row may occur several times.

    On a column of records `ufunc.at` takes ten times as long as on a contiguous one. So where many
    rows change, the column is copied there and back.
    """
    if len(rows) * _WORTH_A_COPY < len(column):
        fold.at(column, rows, values)
        return
    whole = column.copy()
    fold.at(whole, rows, values)
    column[:] = whole


def list_distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return every value once, the least first.

    `np.unique` does the same, after it has imported numpy's masked arrays: 1.3 MiB and 10 ms for
    nothing else.
    """
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


class Rows:
    """Rows that start as copies of a blank one; released numbers are used again."""

    def __init__(self, blank: NDArray[np.void]) -> None:
        self._blank = blank
        self.data = np.full(_FIRST_CAPACITY, blank)
        """All rows, used or not. The array is replaced when it grows: never keep a column of it."""
        self._end = 0
        self._free: list[int] = []

    def __len__(self) -> int:
        return self._end - len(self._free)

    def allocate(self) -> int:
        """Return the number of a blank row that is now in use."""
        if self._free:
            row = self._free.pop()
            self.data[row] = self._blank
            return row
        if self._end == len(self.data):
            # Doubled each time, so that adding n rows copies at most 2n.
            self.data = np.concatenate([self.data, np.full(len(self.data), self._blank)])
        self._end += 1
        return self._end - 1

    def release(self, row: int) -> None:
        """Make a row blank, for use by others."""
        self.data[row] = self._blank
        self._free.append(row)
