"""Where running sums reach a fraction of a total, and how long that stays true.

Say the sum before bucket `p` is below q·T, the sum through `p` at least q·T, T being the total. New
samples of weight X may all fall before `p` or all after it, yet `p` stays the answer as long as
before + X < q·(T + X) and through >= q·(T + X). Both hold up to a certain total, whatever the
samples are, so a percentile has to be looked for again only when its row has outgrown that total:
after a few hundred samples, mostly. Close calls are never decided that way, so that what is found
always equals a plain walk.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from trimtab.core.buckets import Buckets, Floats
from trimtab.core.records import dataclass

# Sums of millions of weights are rounded by far less than this part of them.
_ROUNDING: Final = 1e-9
_FEW_COLUMNS: Final = 64


@dataclass(frozen=True, slots=True)
class Spans:
    """Weights by slot (line) and row (column), totals by row, the first and last slot of spans."""

    weights: Floats
    totals: Floats
    first: Buckets
    last: Buckets


def walk(spans: Spans, fractions: Sequence[float]) -> tuple[Buckets, Floats]:
    """The slots where each fraction (lines) is reached, and up to which totals they stay so."""
    sums = _running_sums(spans.weights)
    faint = _outside(spans, sums)
    if faint.any():
        sums = _running_sums(_inside(spans))
    thresholds = np.multiply.outer(np.array(fractions), spans.totals)
    short = sums < thresholds[:, np.newaxis]
    slots = np.add.reduce(short.view(np.uint8), axis=1, dtype=np.uint8)
    np.maximum(slots, spans.first, out=slots)
    np.minimum(slots, spans.last, out=slots)
    through = _at(sums, slots)
    before = through - _at(spans.weights, slots)
    doubt = _ROUNDING * (spans.totals + through)
    # Should the span grow over faint weight, that comes before as well.
    room_before = thresholds - before - faint - doubt
    room_through = through - thresholds - doubt
    return slots, spans.totals + _least_room(room_before, room_through, np.array(fractions))


def _least_room(before: Floats, through: Floats, fractions: Floats) -> Floats:
    """How much weight each row takes in before any fraction of it may be reached elsewhere."""
    before /= np.maximum(1.0 - fractions, _ROUNDING)[:, np.newaxis]
    through /= np.maximum(fractions, _ROUNDING)[:, np.newaxis]
    least: Floats = np.minimum(before, through).min(axis=0, initial=np.inf)
    return least


def _running_sums(weights: Floats) -> Floats:
    """Sums down the columns, made slot by slot: rounded like those of a plain walk."""
    if weights.shape[1] < _FEW_COLUMNS:
        return np.cumsum(weights, axis=0)
    # For many columns whole lines at a time, which is several times faster.
    sums = np.empty_like(weights)
    sums[0] = weights[0]
    for slot in range(1, len(weights)):
        np.add(sums[slot - 1], weights[slot], out=sums[slot])
    return sums


def _at(table: Floats, lines: Buckets) -> Floats:
    """One number of each column, or several lines of such."""
    indices = lines.astype(np.int64)
    indices *= table.shape[1]
    indices += np.arange(table.shape[1])
    return table.reshape(-1).take(indices)


def _outside(spans: Spans, sums: Floats) -> Floats:
    """The weight outside of each span, as far as sums notice it."""
    before = _at(sums, spans.first) - _at(spans.weights, spans.first)
    after: Floats = sums[-1] - _at(sums, spans.last)
    return before + after


def _inside(spans: Spans) -> Floats:
    """The weights, zeros outside the spans."""
    slots = np.arange(len(spans.weights), dtype=np.uint8)[:, np.newaxis]
    inside = (slots >= spans.first) & (slots <= spans.last)
    return np.where(inside, spans.weights, 0.0)
