"""Starts of held targets: from saved state, or from the histograms that are there already.

A level in a histogram has a weight and no time. Peaks are booked one per container and interval,
each with a weight that grows with time; so the weight of a bucket says when a peak was last booked
in it, or later than that if there were several. Later is the safe side: the level is held longer.
"""

import math
from typing import Final

import numpy as np

from trimtab.core.histogram import checkpoint as checkpoint_codec
from trimtab.core.histogram.bank import HistogramBank
from trimtab.core.histogram.buckets import CPU_BUCKETS, MEMORY_BUCKETS, Floats, Ints
from trimtab.core.histogram.checkpoint import HistogramContent
from trimtab.core.model.resources import Resource
from trimtab.core.recommendation.cost.held import HeldTargets
from trimtab.core.recommendation.cost.held_columns import CPU, MEMORY
from trimtab.core.recommendation.cost.levels import Sightings, find_sightings
from trimtab.core.usage.aggregates import Aggregates
from trimtab.core.usage.sample_log import NameTable
from trimtab.core.usage.saved_targets import SavedLevel, SavedTarget, SavedTargets

_MAX_AHEAD: Final = 1.0
"""Half-lives by which a reference may be ahead of the last sample; rounding makes it half."""


def save(targets: HeldTargets, row: int, names: NameTable) -> SavedTargets | None:
    """Return the state of a row as a record; None before its first sample."""
    record = targets.record(row)
    if not math.isfinite(record["now"]):
        return None
    last_kill = float(record["last_kill"])
    return SavedTargets(
        first=float(record["first"]),
        now=float(record["now"]),
        cpu=_saved_target(record, CPU),
        memory=_saved_target(record, MEMORY),
        most_needed=float(record["most_needed"]),
        price_factor=float(record["factor"]),
        is_settled=bool(record["is_settled"]),
        is_tried=bool(record["is_tried"]),
        last_kill=last_kill if math.isfinite(last_kill) else None,
        kill_limit=float(record["kill_limit"]),
        kills=int(record["kills"]),
        paused=float(record["paused"]),
        levels=tuple(_list_levels(targets, row, names)),
        cpu_histogram=targets.cpu.encode(int(record["cpu_row"])),
    )


def restore(targets: HeldTargets, row: int, saved: SavedTargets, names: NameTable) -> None:
    """Give a new row its saved state."""
    record = targets.record(row)
    record["first"], record["now"] = saved.first, saved.now
    for column, each in ((CPU, saved.cpu), (MEMORY, saved.memory)):
        if each is not None:
            record["held"][column] = each.held
            record["changed"][column] = -math.inf if each.changed is None else each.changed
            record["is_raised"][column] = each.is_raised
            record["is_lowered"][column] = each.is_lowered
    record["most_needed"], record["factor"] = saved.most_needed, saved.price_factor
    record["is_settled"], record["is_tried"] = saved.is_settled, saved.is_tried
    record["last_kill"] = -math.inf if saved.last_kill is None else saved.last_kill
    record["kill_limit"], record["kills"] = saved.kill_limit, saved.kills
    record["paused"] = saved.paused
    levels = sorted(saved.levels, key=lambda level: level.bucket)
    targets.levels.note(
        Sightings(
            np.full(len(levels), row),
            np.array([level.bucket for level in levels], np.uint8),
            np.array([level.peak_bytes for level in levels], np.float64),
            np.array([level.seconds for level in levels], np.float64),
            np.array([names.number(level.pod) if level.pod else 0 for level in levels], np.int64),
        ),
        math.inf,
    )
    if saved.cpu_histogram is not None:
        content = checkpoint_codec.decode_histogram(saved.cpu_histogram, CPU_BUCKETS.count)
        targets.cpu.load_each(np.array([record["cpu_row"]]), [content])
    targets.find_cheapest(np.array([row]))


def seed(targets: HeldTargets, row: int, aggregates: Aggregates, sources: Ints) -> None:
    """Give a row what the histograms of some aggregates hold."""
    first = float(aggregates.floats("first")[sources].min())
    last = float(aggregates.floats("last")[sources].max())
    if not first <= last:
        return
    record = targets.record(row)
    is_new = not math.isfinite(record["now"])
    record["first"] = first if is_new else min(first, float(record["first"]))
    record["now"] = max(last, float(record["now"]))
    if is_new:
        record["changed"][:] = last
        _seed_cpu(targets, int(record["cpu_row"]), aggregates, sources, last)
    seen = _find_levels(row, aggregates, sources, last)
    targets.levels.note(seen, math.inf)
    targets.note_needs(seen)
    targets.find_cheapest(np.array([row]))


def _saved_target(record: np.void, column: int) -> SavedTarget | None:
    held, changed = float(record["held"][column]), float(record["changed"][column])
    if math.isnan(held):
        return None
    return SavedTarget(
        held,
        changed if math.isfinite(changed) else None,
        bool(record["is_raised"][column]),
        bool(record["is_lowered"][column]),
    )


def _list_levels(targets: HeldTargets, row: int, names: NameTable) -> list[SavedLevel]:
    return [
        SavedLevel(
            int(windows.bases[0]) + slot,
            float(windows.seen[slot, 0]),
            float(windows.peaks[slot, 0]),
            names.name(int(windows.pods[slot, 0]) - 1),
        )
        for windows in targets.levels.windows(np.array([row]))
        for slot in np.flatnonzero(windows.is_known[:, 0]).tolist()
    ]


def _seed_cpu(
    targets: HeldTargets, cpu_row: int, aggregates: Aggregates, sources: Ints, last: float
) -> None:
    bank = aggregates.cpu
    weights, reference = _merged(bank, aggregates.bank_rows(Resource.CPU, sources))
    # As weights at the last sample, then as those of the other half-life. A damaged checkpoint may
    # have a reference that is years ahead of its last sample.
    ahead = (reference - last) / bank.half_life.total_seconds()
    now = weights * 2.0 ** min(ahead, _MAX_AHEAD)
    aligned = float(targets.cpu.align(np.array([last]))[0])
    then = now * 2.0 ** ((last - aligned) / targets.cpu.half_life.total_seconds())
    content = HistogramContent(then, float(then.sum()), aligned)
    targets.cpu.load_each(np.array([cpu_row]), [content])


def _find_levels(row: int, aggregates: Aggregates, sources: Ints, last: float) -> Sightings:
    bank = aggregates.memory
    weights, reference = _merged(bank, aggregates.bank_rows(Resource.MEMORY, sources))
    buckets = np.flatnonzero(weights > 0)
    booked = reference + np.log2(weights[buckets]) * bank.half_life.total_seconds()
    kills = aggregates.oom_ledger.levels(sources.tolist())
    values = np.append(
        # Just below the end: still in the bucket.
        np.nextafter(MEMORY_BUCKETS.ends[buckets], 0.0),
        [float(each.needed_bytes) for each in kills],
    )
    times = np.append(np.minimum(booked, last), [each.seconds for each in kills])
    count = len(values)
    return find_sightings(np.full(count, row), values, times, np.zeros(count, np.int64))


def _merged(bank: HistogramBank, rows: Ints) -> tuple[Floats, float]:
    merged = bank.merged([rows.tolist()]).content(0)
    return merged.weights, merged.reference
