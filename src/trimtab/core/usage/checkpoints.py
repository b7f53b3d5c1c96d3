"""Saving: encode the histories of each autoscaler as checkpoints that outlive a restart.

A checkpoint holds everything that an autoscaler knows of one container name, from live aggregates
and from the checkpoint before. Left out are the peaks of windows that are still open: after a
restart the first sample of the same container books them again.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import numpy as np

from trimtab.core.histogram import checkpoint as checkpoint_codec
from trimtab.core.histogram.bank import HistogramBank
from trimtab.core.histogram.buckets import CPU_BUCKETS, MEMORY_BUCKETS, Ints
from trimtab.core.histogram.checkpoint import (
    AggregateCheckpoint,
    CheckpointError,
    HistogramCheckpoint,
)
from trimtab.core.model import selectors
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.resources import Resource
from trimtab.core.model.selectors import Selector
from trimtab.core.usage.aggregates import MEMORY_WEIGHT, UsageSettings, from_seconds, to_seconds
from trimtab.core.usage.cluster_usage import Usage

_NOTICEABLE: Final = math.log2(1.01)
"""Sums differ in their last digits, and weight that is years old may be forgotten."""

CheckpointKey: TypeAlias = tuple[AutoscalerName, str]
"""An autoscaler and a container name."""


@dataclass(frozen=True, slots=True)
class _Members:
    """The aggregates that are merged into each checkpoint, checkpoint by checkpoint."""

    keys: list[CheckpointKey]
    rows: Ints
    group: Ints


def encode_checkpoints(
    usage: Usage, autoscalers: Iterable[AutoscalerName], now: datetime
) -> dict[CheckpointKey, AggregateCheckpoint]:
    """Return one checkpoint for each container name that these autoscalers know anything of.

    An autoscaler without a target is left out. It knows only what was restored after the last
    restart, and saving that would overwrite what it has learned since.
    """
    learners = usage.links.learners
    members = _list_members(
        # Without a selector the autoscaler has no live aggregates, so its checkpoints would be
        # those of before.
        usage,
        [name for name in autoscalers if learners[name].selector is not None],
    )
    memory = _merge(usage, Resource.MEMORY, members)
    _take_back_open_peaks(memory, usage, members, to_seconds(now, missing=0.0))
    return _encode(usage, members, memory, now)


def encode_histories(
    usage: Usage, autoscalers: Iterable[AutoscalerName]
) -> dict[CheckpointKey, AggregateCheckpoint]:
    """Return the same with open windows and without a date: the input of recommendations."""
    members = _list_members(usage, autoscalers)
    return _encode(usage, members, _merge(usage, Resource.MEMORY, members), None)


def count_samples(usage: Usage, autoscalers: Iterable[AutoscalerName]) -> dict[AutoscalerName, int]:
    """Count the CPU samples that each of these autoscalers knows."""
    members = _list_members(usage, autoscalers)
    counts = np.zeros(len(members.keys), dtype=np.int64)
    # `.at`: a checkpoint may have many aggregates.
    np.add.at(counts, members.group, usage.aggregates.ints("count")[members.rows])
    totals: Counter[AutoscalerName] = Counter()
    for (name, _), count in zip(members.keys, counts.tolist(), strict=True):
        totals[name] += count
    return totals


def is_about_pods_of(selector: Selector | None, stored_fingerprint: str | None) -> bool:
    """Return True if a stored checkpoint belongs to an autoscaler with this `spec.selector`.

    If not, it describes other pods and should be discarded. One without a fingerprint describes all
    pods of the target, as those of the original do.
    """
    return selectors.fingerprint(selector) == (stored_fingerprint or None)


def is_lighter(
    checkpoint: AggregateCheckpoint, stored: AggregateCheckpoint, settings: UsageSettings
) -> bool:
    """Return True if a checkpoint holds noticeably less than the stored one, decay aside.

    A stored checkpoint that cannot be decoded counts as empty.
    """
    half_lives = (settings.cpu_half_life, settings.memory_half_life)
    pairs = (
        (checkpoint.cpu_histogram, stored.cpu_histogram),
        (checkpoint.memory_histogram, stored.memory_histogram),
    )
    # Lighter in either resource is enough: writing would lose that part.
    return any(
        _log_weight(ours, half_life) < _log_weight(theirs, half_life) - _NOTICEABLE
        for (ours, theirs), half_life in zip(pairs, half_lives, strict=True)
    ) and _is_readable(stored)


def _is_readable(checkpoint: AggregateCheckpoint) -> bool:
    try:
        checkpoint_codec.check_version(checkpoint)
        checkpoint_codec.decode_histogram(checkpoint.cpu_histogram, CPU_BUCKETS.count)
        checkpoint_codec.decode_histogram(checkpoint.memory_histogram, MEMORY_BUCKETS.count)
    except CheckpointError:
        return False
    return True


def _log_weight(histogram: HistogramCheckpoint, half_life: timedelta) -> float:
    """Return the logarithm of all weight of a histogram, as of one moment common to all."""
    readable = histogram.total_weight > 0 and any(histogram.bucket_weights.values())
    if not readable or histogram.reference_time is None:
        return -math.inf
    # The weight as of the epoch would be total * 2^(reference / half-life), far beyond a float64:
    # compare its logarithm.
    half_lives = to_seconds(histogram.reference_time, missing=0.0) / half_life.total_seconds()
    return math.log2(histogram.total_weight) + half_lives


def _list_members(usage: Usage, autoscalers: Iterable[AutoscalerName]) -> _Members:
    learners = [usage.links.learners[name] for name in autoscalers]
    rows_by_key = {
        (learner.name, container_name): learner.rows(container_name)
        for learner in learners
        for container_name in sorted(learner.container_names)
    }
    sizes = [len(rows) for rows in rows_by_key.values()]
    return _Members(
        list(rows_by_key),
        np.array([row for rows in rows_by_key.values() for row in rows], dtype=np.int64),
        np.repeat(np.arange(len(sizes)), sizes),
    )


def _merge(usage: Usage, resource: Resource, members: _Members) -> HistogramBank:
    rows = usage.aggregates.bank_rows(resource, members.rows)
    return usage.aggregates.bank(resource).merged_by(rows, members.group, len(members.keys))


def _take_back_open_peaks(
    memory: HistogramBank, usage: Usage, members: _Members, now: float
) -> None:
    """Subtract each open window's peak from every checkpoint that its aggregate went into."""
    open_windows = np.flatnonzero(usage.containers.floats("window_end") > now)
    windows = usage.containers.windows(open_windows)
    # One aggregate may go into the checkpoints of several autoscalers. Sort the pairs by aggregate,
    # find the range of each owner, and repeat its window for every pair in that range.
    owners = usage.containers.aggregate[open_windows]
    order = np.argsort(members.rows, kind="stable")
    first = np.searchsorted(members.rows[order], owners, side="left")
    counts = np.searchsorted(members.rows[order], owners, side="right") - first
    starts = np.cumsum(counts) - counts
    # Counts [2, 0, 1] with first [4, 7, 9] give places [4, 5, 9].
    places = np.arange(counts.sum()) - np.repeat(starts - first, counts)
    memory.subtract(
        members.group[order][places],
        np.repeat(windows.peak, counts),
        MEMORY_WEIGHT,
        np.repeat(windows.end, counts),
    )


def _encode(
    usage: Usage, members: _Members, memory: HistogramBank, now: datetime | None
) -> dict[CheckpointKey, AggregateCheckpoint]:
    cpu = _merge(usage, Resource.CPU, members)
    first = np.full(len(members.keys), np.inf)
    # -inf: no sample yet.
    last, counts = -first, np.zeros(len(members.keys), dtype=np.int64)
    np.minimum.at(first, members.group, usage.aggregates.floats("first")[members.rows])
    np.maximum.at(last, members.group, usage.aggregates.floats("last")[members.rows])
    np.add.at(counts, members.group, usage.aggregates.ints("count")[members.rows])
    everything = np.arange(len(members.keys))
    histograms = zip(cpu.encode_each(everything), memory.encode_each(everything), strict=True)
    return {
        key: AggregateCheckpoint(
            cpu_histogram=cpu_histogram,
            memory_histogram=memory_histogram,
            first_sample_start=from_seconds(float(first[row])),
            last_sample_start=from_seconds(float(last[row])),
            total_samples_count=int(counts[row]),
            last_update_time=now,
        )
        for row, (key, (cpu_histogram, memory_histogram)) in enumerate(
            zip(members.keys, histograms, strict=True)
        )
    }
