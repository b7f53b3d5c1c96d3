"""Storage of the weights of a bank: for each row only the window of buckets that it has touched.

All windows lie in one long array, each of one of a few widths from 16 buckets to all. A row
that gets a sample outside its window moves to another one, with room to spare on both sides.
Windows left behind are used again. When they make up more than half of the array, the array is
compacted.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from trimtab.core.histogram.buckets import Buckets, Floats, Ints

# Buckets grow by 5 %, so 16 of them span a factor of 2.2 and 64 a factor of 23. Most containers
# stay within one of the narrow widths, and 100 000 full rows of 176 would take 140 MB (decision
# 0006).
NARROW_WIDTHS: Final = (16, 24, 40, 64, 96, 128)

# Arrays that are copied or computed at a time should stay in the processor's second-level cache.
_SLOTS_AT_ONCE: Final = 1 << 16
_ROWS_AT_ONCE: Final = 1 << 10
_SLOTS_TOGETHER: Final = 1 << 15
_SAMPLES_AT_ONCE: Final = 1 << 13
_FEW_SLOTS: Final = 1 << 10

_Item = TypeVar("_Item", bound=np.generic)


@dataclass(frozen=True, slots=True)
class WindowCopies:
    """Copies of some windows of equal width; `weights` is float64[slots, rows]."""

    which: Ints
    """Their positions among the rows that the caller passed."""
    rows: Ints
    bases: Buckets
    """The bucket of the first slot of each."""
    weights: Floats

    @property
    def buckets(self) -> Buckets:
        """The bucket of each slot of each window, uint8[slots, rows]."""
        return np.arange(len(self.weights), dtype=np.uint8)[:, np.newaxis] + self.bases


class Arena:
    """Windows of buckets by row."""

    def __init__(self, bucket_count: int) -> None:
        # The last width is the full one, so that `searchsorted` always finds a window that fits.
        narrow = [width for width in NARROW_WIDTHS if width < bucket_count]
        self._widths = np.array([*narrow, bucket_count])
        self._bucket_count = bucket_count
        self._slots: Floats = np.zeros(0)
        self._used = 0
        """The slots from here on were never used."""
        self._left: dict[int, Ints] = {}
        """By width, the starts of windows that were left behind."""
        self._start: Ints = np.zeros(0, np.int64)
        self._base: Buckets = np.zeros(0, np.uint8)
        self._width: NDArray[np.uint8] = np.zeros(0, np.uint8)
        """0 for rows without a window."""

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows; new ones have no window yet."""
        self._start = grown(self._start, capacity)
        self._base = grown(self._base, capacity)
        self._width = grown(self._width, capacity)

    @property
    def bytes_held(self) -> int:
        """The size of all arrays, room to grow included."""
        by_row = self._start.nbytes + self._base.nbytes + self._width.nbytes
        return by_row + self._slots.nbytes

    def add(self, rows: Ints, buckets: Buckets, weights: Floats) -> None:
        """Add to buckets inside the windows, one sample after the other."""
        for first in range(0, len(rows), _SAMPLES_AT_ONCE):
            part = slice(first, first + _SAMPLES_AT_ONCE)
            # Not `slots[i] += w`, which would count a slot that occurs twice only once.
            np.add.at(self._slots, self._indices(rows[part], buckets[part]), weights[part])

    def put(self, rows: Ints, buckets: Buckets, weights: Floats) -> None:
        """Replace the weights of buckets inside the windows."""
        self._slots[self._indices(rows, buckets)] = weights

    def look_up(self, rows: Ints, buckets: Buckets) -> Floats:
        """Return the weights of buckets inside the windows."""
        return self._slots.take(self._indices(rows, buckets))

    def _indices(self, rows: Ints, buckets: Buckets) -> Ints:
        indices = self._start.take(rows)
        indices += buckets - self._base.take(rows)
        return indices

    def outside(self, rows: Ints, buckets: Buckets) -> NDArray[np.bool_]:
        """Return, per bucket, True if it is outside the window of its row."""
        # Below the window the uint8 difference wraps around to more than the window's width.
        return np.asarray(buckets - self._base.take(rows) >= self._width.take(rows))

    def windows(self, rows: Ints) -> Iterator[WindowCopies]:
        """Yield copies of the windows of rows, some at a time; rows without a window have none."""
        widths = self._width.take(rows)
        for width in _occurring(widths):
            all_of_width = np.flatnonzero(widths == width)
            # At least a thousand rows: each part has a fixed cost of some ten array calls.
            step = max(_ROWS_AT_ONCE, _SLOTS_AT_ONCE // width)
            for first in range(0, len(all_of_width), step):
                yield self._copy(rows, all_of_width[first : first + step], width)

    def readable(self, rows: Ints) -> Iterator[WindowCopies]:
        """Yield the same for reading only: a few windows come all at once, widened with zeros."""
        widths = self._width.take(rows)
        widest = int(widths.max(initial=0))
        if len(rows) * widest > _SLOTS_TOGETHER:
            yield from self.windows(rows)
        elif widest:
            # A narrower window reads into its neighbour, or past the end of the array, where `clip`
            # repeats the last slot. The next line sets all of that to zero.
            slots = _slots_of(self._start.take(rows), widest)
            weights = self._slots.take(slots, mode="clip")
            weights *= np.arange(widest)[:, np.newaxis] < widths
            yield WindowCopies(np.arange(len(rows)), rows, self._base.take(rows), weights)

    def _copy(self, rows: Ints, which: Ints, width: int) -> WindowCopies:
        here = rows[which]
        weights = self._slots.take(_slots_of(self._start[here], width))
        return WindowCopies(which, here, self._base[here], weights)

    def replace(self, windows: WindowCopies, weights: Floats) -> None:
        """Replace the weights of windows."""
        self._slots[_slots_of(self._start[windows.rows], len(weights))] = weights

    def contents(self, rows: Ints) -> Iterator[tuple[Ints, Buckets, Floats]]:
        """Yield everything that rows hold, in parts: positions among the rows, buckets, weights."""
        for windows in self.windows(rows):
            slots, columns = np.nonzero(windows.weights)
            buckets = windows.bases[columns] + slots.astype(np.uint8)
            yield windows.which[columns], buckets, windows.weights[slots, columns]

    def reserve(self, rows: Ints, lowest: Buckets, highest: Buckets) -> None:
        """Give distinct rows windows that hold their present contents and these buckets."""
        # A list, since the windows are zeroed before the contents are written to the new ones.
        held = list(self.contents(rows))
        low, high = lowest.copy(), highest.copy()
        for positions, buckets, _ in held:
            np.minimum.at(low, positions, buckets)
            np.maximum.at(high, positions, buckets)
        self._leave(rows)
        self._assign(rows, low.astype(np.int64), high.astype(np.int64))
        for positions, buckets, weights in held:
            self.put(rows[positions], buckets, weights)
        self._close_up()

    def release(self, rows: Ints) -> None:
        """Remove the windows of distinct rows."""
        self._leave(rows)
        self._close_up()

    def _leave(self, rows: Ints) -> None:
        widths = self._width[rows]
        for width in _occurring(widths):
            starts = self._start[rows[widths == width]]
            # Zeroed when left, not when taken: `_take` may then hand out fresh and used slots
            # alike.
            self._slots[_slots_of(starts, width)] = 0.0
            self._left[width] = np.concatenate((self._left_behind(width), starts))
        self._width[rows] = 0

    def _left_behind(self, width: int) -> Ints:
        return self._left.get(width, np.zeros(0, np.int64))

    def _assign(self, rows: Ints, low: Ints, high: Ints) -> None:
        spans = high - low + 1
        widths = self._widths[np.searchsorted(self._widths, spans)]
        spare = widths - spans
        # Half of the room to spare on either side, but for windows at the first or last bucket.
        self._base[rows] = np.clip(low - spare // 2, 0, self._bucket_count - widths)
        self._width[rows] = widths
        for width in _occurring(widths):
            here = rows[widths == width]
            self._start[here] = self._take(width, len(here))

    def _take(self, width: int, count: int) -> Ints:
        """Return the starts of `count` windows of zeros, those left behind first."""
        left = self._left_behind(width)
        self._left[width] = left[count:]
        missing = max(count - len(left), 0)
        fresh = self._used + width * np.arange(missing)
        self._used += width * missing
        if self._used > len(self._slots):
            self._slots = grown(self._slots, room_for(self._used))
        return np.concatenate((left[:count], fresh))

    def _close_up(self) -> None:
        left = sum(width * len(starts) for width, starts in self._left.items())
        # A compaction copies everything, so it waits until half of the array was left behind.
        if self._used > _FEW_SLOTS and 2 * left > self._used:
            rows = np.flatnonzero(self._width)
            self._start[rows], self._slots = self._packed(rows)
            self._used, self._left = len(self._slots), {}

    def taken(self, rows: Ints) -> "Arena":
        """Return copies of the windows of rows, numbered from 0 in the order given."""
        taken = Arena(self._bucket_count)
        taken._base, taken._width = self._base[rows], self._width[rows]
        taken._start, taken._slots = self._packed(rows)
        taken._used = len(taken._slots)
        return taken

    def put_back(self, rows: Ints, windows: Iterable[WindowCopies]) -> None:
        """Replace the windows of distinct rows by copies of earlier; rows without one have none."""
        self._leave(rows)
        for copies in windows:
            here, width = rows[copies.which], len(copies.weights)
            self._start[here] = self._take(width, len(here))
            self._base[here], self._width[here] = copies.bases, width
            self._slots[_slots_of(self._start[here], width)] = copies.weights
        self._close_up()

    def _packed(self, rows: Ints) -> tuple[Ints, Floats]:
        """Copy windows without any gap; return the start of each, and the slots."""
        widths = self._width[rows].astype(np.int64)
        starts = np.cumsum(widths) - widths
        slots = np.zeros(int(widths.sum()))
        for windows in self.windows(rows):
            slots[_slots_of(starts[windows.which], len(windows.weights))] = windows.weights
        return starts, slots


def _occurring(widths: NDArray[np.integer]) -> list[int]:
    """Return the widths that windows have, narrow ones first, without the 0 of missing windows."""
    # Mostly one or two widths occur, and a search for each possible one would cost the most.
    return [width for width in np.flatnonzero(np.bincount(widths)).tolist() if width]


def _slots_of(starts: Ints, width: int) -> Ints:
    """Return the indices of the slots of windows, int64[slots, windows]."""
    return np.arange(width)[:, np.newaxis] + starts


def room_for(count: int) -> int:
    """Return a capacity a quarter above `count`, so that growing is rare."""
    return count + count // 4


def grown(array: NDArray[_Item], capacity: int) -> NDArray[_Item]:
    """Return a longer copy of an array, zeros at its end."""
    longer = np.zeros(capacity, array.dtype)
    longer[: len(array)] = array
    return longer


# Rounding changes sums of millions of weights by far less than this part of them.
_ROUNDING: Final = 1e-9
_FEW_COLUMNS: Final = 64


@dataclass(frozen=True, slots=True)
class Spans:
    """Weights, float64[slots, rows]; by row the totals, and the first and last slot of the span."""

    weights: Floats
    totals: Floats
    first: Buckets
    last: Buckets


def walk(spans: Spans, fractions: Sequence[float]) -> tuple[Buckets, Floats]:
    """Return the slots where fractions are reached, uint8[fractions, rows], and the limits by row.

    Up to its limit the total of a row may grow before another slot may be reached.
    """
    # Example: weights [1, 2, 5], total 8 and fraction 0.5. Sums are [1, 3, 8] and the threshold is
    # 4, so two slots are short and slot 2 is reached.
    sums = _running_sums(spans.weights)
    faint = _outside(spans, sums)
    if faint.any():
        # Rare: weight under epsilon outside a span. It may not count, but may join the span later.
        sums = _running_sums(_inside(spans))
    thresholds = np.multiply.outer(np.array(fractions), spans.totals)
    short = sums < thresholds[:, np.newaxis]
    # The number of sums below the threshold is the slot, without a search per column.
    slots = np.add.reduce(short.view(np.uint8), axis=1, dtype=np.uint8)
    np.maximum(slots, spans.first, out=slots)
    np.minimum(slots, spans.last, out=slots)
    through = _at(sums, slots)
    before = through - _at(spans.weights, slots)
    # Close to a tie the limit falls below the total: such a row is walked at every read.
    doubt = _ROUNDING * (spans.totals + through)
    # If the span grows over faint weight, that comes before as well.
    room_before = thresholds - before - faint - doubt
    room_through = through - thresholds - doubt
    return slots, spans.totals + _least_room(room_before, room_through, np.array(fractions))


def _least_room(before: Floats, through: Floats, fractions: Floats) -> Floats:
    """Return the weight each row can take in before any fraction may be reached elsewhere."""
    # A new weight w at or above the slot moves the threshold by `fraction * w` and not the sum
    # before it; w below the slot raises the sum by `(1 - fraction) * w` more than the threshold.
    before /= np.maximum(1.0 - fractions, _ROUNDING)[:, np.newaxis]
    through /= np.maximum(fractions, _ROUNDING)[:, np.newaxis]
    least: Floats = np.minimum(before, through).min(axis=0, initial=np.inf)
    return least


def _running_sums(weights: Floats) -> Floats:
    """Return sums down the columns, added slot by slot: rounded like those of a plain walk."""
    if weights.shape[1] < _FEW_COLUMNS:
        return np.cumsum(weights, axis=0)
    # For many columns add whole lines at a time, which is several times faster.
    sums = np.empty_like(weights)
    sums[0] = weights[0]
    for slot in range(1, len(weights)):
        np.add(sums[slot - 1], weights[slot], out=sums[slot])
    return sums


def _at(table: Floats, lines: Buckets) -> Floats:
    """Return one number of each column, given its line; `lines` may have several lines of such."""
    # Flat indices into the C-ordered table: one `take` in place of two index arrays.
    indices = lines.astype(np.int64)
    indices *= table.shape[1]
    indices += np.arange(table.shape[1])
    return table.reshape(-1).take(indices)


def _outside(spans: Spans, sums: Floats) -> Floats:
    """Return the weight outside of each span, as far as sums show it."""
    before = _at(sums, spans.first) - _at(spans.weights, spans.first)
    after: Floats = sums[-1] - _at(sums, spans.last)
    return before + after


def _inside(spans: Spans) -> Floats:
    """Return the weights, with zeros outside the spans."""
    slots = np.arange(len(spans.weights), dtype=np.uint8)[:, np.newaxis]
    inside = (slots >= spans.first) & (slots <= spans.last)
    return np.where(inside, spans.weights, 0.0)
