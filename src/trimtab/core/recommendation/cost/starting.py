"""Starts of held targets: from saved state, or from the histograms that are there already.

A level in a histogram has a weight and no time. Peaks are booked one per container and interval,
each with a weight that grows with time; so the weight of a bucket says when a peak was last booked
in it, or later than that if there were several. Later is the safe side: the level is held longer.

Many rows start at a time: after a restart all of them do.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from trimtab.core.histogram import checkpoint as checkpoint_codec
from trimtab.core.histogram.bank import HistogramBank
from trimtab.core.histogram.buckets import CPU_BUCKETS, MEMORY_BUCKETS, Floats, Ints
from trimtab.core.histogram.checkpoint import CheckpointError, HistogramCheckpoint, HistogramContent
from trimtab.core.model.resources import Resource
from trimtab.core.recommendation.cost.held import HeldTargets
from trimtab.core.recommendation.cost.held_columns import CPU, MEMORY
from trimtab.core.recommendation.cost.levels import Sightings, find_sightings
from trimtab.core.usage.aggregates import Aggregates
from trimtab.core.usage.sample_log import NameTable
from trimtab.core.usage.saved_targets import SavedLevel, SavedTarget, SavedTargets

_MAX_AHEAD: Final = 1.0
"""Half-lives by which a reference may be ahead of the last sample; rounding makes it half."""
_AT_ONCE: Final = 1000
_NOTHING: Final = HistogramContent(np.zeros(CPU_BUCKETS.count), 0.0, 0.0)


def restore_each(targets: HeldTargets, saved: Mapping[int, SavedTargets], names: NameTable) -> None:
    """Give new rows their saved states."""
    rows = sorted(saved)
    for begin in range(0, len(rows), _AT_ONCE):
        some = rows[begin : begin + _AT_ONCE]
        _restore_some(targets, np.array(some), [saved[row] for row in some], names)


def _restore_some(
    targets: HeldTargets, rows: Ints, saved: Sequence[SavedTargets], names: NameTable
) -> None:
    columns = {
        "first": [one.first for one in saved],
        "now": [one.now for one in saved],
        "most_needed": [one.most_needed for one in saved],
        "is_settled": [one.is_settled for one in saved],
        "is_tried": [one.is_tried for one in saved],
        "last_kill": [-math.inf if one.last_kill is None else one.last_kill for one in saved],
        "kill_limit": [one.kill_limit for one in saved],
        "kills": [one.kills for one in saved],
        "paused": [one.paused for one in saved],
    }
    for name, values in columns.items():
        targets.column(name)[rows] = values
    for column in (CPU, MEMORY):
        _restore_targets(
            targets, rows, column, [one.cpu if column == CPU else one.memory for one in saved]
        )
    targets.levels.note(_find_saved(rows, saved, names), math.inf)
    cpu_rows = targets.column("cpu_row")[rows]
    targets.cpu.load_each(cpu_rows, [_content(one.cpu_histogram) for one in saved])
    targets.find_cheapest(rows)


def _restore_targets(
    targets: HeldTargets, rows: Ints, column: int, saved: Sequence[SavedTarget | None]
) -> None:
    known = [place for place, one in enumerate(saved) if one is not None]
    here, ones = rows[known], [one for one in saved if one is not None]
    changed = [-math.inf if one.changed is None else one.changed for one in ones]
    targets.column("held")[here, column] = [one.held for one in ones]
    targets.column("changed")[here, column] = changed
    targets.column("is_raised")[here, column] = [one.is_raised for one in ones]
    targets.column("is_lowered")[here, column] = [one.is_lowered for one in ones]


def _find_saved(rows: Ints, saved: Sequence[SavedTargets], names: NameTable) -> Sightings:
    """Return the saved levels of rows, each bucket of a row once."""
    levels = [
        (
            row,
            level.bucket,
            level.peak_bytes,
            level.seconds,
            names.number(level.pod) if level.pod else 0,
        )
        for row, one in zip(rows.tolist(), saved, strict=True)
        for level in _distinct(one.levels)
    ]
    columns = list(zip(*levels, strict=True)) or [()] * 5
    return Sightings(
        np.array(columns[0], np.int64),
        np.array(columns[1], np.uint8),
        np.array(columns[2], np.float64),
        np.array(columns[3], np.float64),
        np.array(columns[4], np.int64),
    )


def _number(names: NameTable, pod: str) -> int:
    return names.number(pod) if pod else 0


def _distinct(levels: Sequence[SavedLevel]) -> list[SavedLevel]:
    """Return one level for each bucket, the lowest first."""
    by_bucket = {level.bucket: level for level in levels}
    return [by_bucket[bucket] for bucket in sorted(by_bucket)]


def _content(stored: HistogramCheckpoint | None) -> HistogramContent:
    if stored is None:
        return _NOTHING
    try:
        return checkpoint_codec.decode_histogram(stored, CPU_BUCKETS.count)
    except CheckpointError:
        # Only this container learns its CPU again.
        return _NOTHING


def seed_each(targets: HeldTargets, sources: Mapping[int, Ints], aggregates: Aggregates) -> None:
    """Give rows what the histograms of some aggregates hold, at least one for each row."""
    rows = sorted(sources)
    for begin in range(0, len(rows), _AT_ONCE):
        some = rows[begin : begin + _AT_ONCE]
        _seed_some(targets, np.array(some), [sources[row] for row in some], aggregates)


def _seed_some(
    targets: HeldTargets, rows: Ints, sources: Sequence[Ints], aggregates: Aggregates
) -> None:
    firsts, lasts = aggregates.floats("first"), aggregates.floats("last")
    first = np.array([firsts[each].min() for each in sources])
    last = np.array([lasts[each].max() for each in sources])
    # An aggregate without samples has its first one at +inf and its last one at -inf.
    known = np.flatnonzero(first <= last)
    rows, first, last = rows[known], first[known], last[known]
    given = [sources[place] for place in known.tolist()]
    if not len(rows):
        return
    is_new = ~np.isfinite(targets.column("now")[rows])
    targets.column("first")[rows] = np.fmin(first, targets.column("first")[rows])
    targets.column("now")[rows] = np.maximum(last, targets.column("now")[rows])
    new = np.flatnonzero(is_new)
    if len(new):
        targets.column("changed")[rows[new]] = last[new, np.newaxis]
        cpu_rows = targets.column("cpu_row")[rows[new]]
        _seed_cpu(targets, cpu_rows, aggregates, [given[each] for each in new], last[new])
    seen = _find_levels(rows, aggregates, given, last)
    targets.levels.note(seen, math.inf)
    targets.note_needs(seen)
    targets.find_cheapest(rows)


def _seed_cpu(
    targets: HeldTargets,
    cpu_rows: Ints,
    aggregates: Aggregates,
    sources: Sequence[Ints],
    last: Floats,
) -> None:
    bank, own = aggregates.cpu, targets.cpu
    merged = _merge(bank, Resource.CPU, aggregates, sources)
    # As weights at the last sample, then as those of the other half-life. A damaged checkpoint may
    # have a reference that is years ahead of its last sample.
    references = merged.references[: len(sources)]
    ahead = (references - last) / bank.half_life.total_seconds()
    aligned = own.align(last)
    behind = (last - aligned) / own.half_life.total_seconds()
    factors = 2.0 ** np.minimum(ahead, _MAX_AHEAD) * 2.0**behind
    contents = [
        HistogramContent(then, float(then.sum()), float(aligned[place]))
        for place, factor in enumerate(factors.tolist())
        for then in (merged.content(place).weights * factor,)
    ]
    own.load_each(cpu_rows, contents)


def _find_levels(
    rows: Ints, aggregates: Aggregates, sources: Sequence[Ints], last: Floats
) -> Sightings:
    bank = aggregates.memory
    merged = _merge(bank, Resource.MEMORY, aggregates, sources)
    half_life = bank.half_life.total_seconds()
    found: list[tuple[Ints, Floats, Floats]] = []
    for places, reached, weights in merged.weights.spans(np.arange(len(rows))):
        heavy = weights > 0
        where = places[heavy]
        booked = merged.references[where] + np.log2(weights[heavy]) * half_life
        # Just below the end: still in the bucket.
        values = np.nextafter(MEMORY_BUCKETS.ends[reached[heavy]], 0.0)
        found.append((rows[where], values, np.minimum(booked, last[where])))
    kills = [
        (row, float(level.needed_bytes), level.seconds)
        for row, each in zip(rows.tolist(), sources, strict=True)
        for level in aggregates.oom_ledger.levels(each.tolist())
    ]
    if kills:
        owners, values, times = (np.array(column) for column in zip(*kills, strict=True))
        found.append((owners, values, times))
    if not found:
        found.append((rows[:0], last[:0], last[:0]))
    owners, values, times = (np.concatenate(column) for column in zip(*found, strict=True))
    return find_sightings(owners, values, times, np.zeros(len(owners), np.int64))


def _merge(
    bank: HistogramBank, kind: Resource, aggregates: Aggregates, sources: Sequence[Ints]
) -> HistogramBank:
    members = aggregates.bank_rows(kind, np.concatenate(sources))
    groups = np.repeat(np.arange(len(sources)), [len(each) for each in sources])
    return bank.merged_by(members, groups, len(sources))
