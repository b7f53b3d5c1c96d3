"""Intake: add a batch of samples to its containers' aggregates, as array operations.

A batch may hold any number of samples of a container; its order is the order in which they were
read. A refused sample changes nothing and is counted. Refused are impossible values and times, and
samples of unknown containers or from the future. So are samples no newer than the container's last
one, or from before its birth.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import numpy as np

from trimtab.core.histogram import buckets, memory_peaks
from trimtab.core.histogram.buckets import CORE, Floats, Ints
from trimtab.core.histogram.memory_peaks import Booleans, Readings, Windows
from trimtab.core.model.resources import Resource
from trimtab.core.usage.aggregates import Aggregates
from trimtab.core.usage.containers import LIMITS, REQUESTS, Containers
from trimtab.core.usage.sample_log import LoggedSamples, SampleLog

# Metrics without a timestamp claim the year 1; spans of time end with 64 bits of nanoseconds.
_EARLIEST: Final = 0.0
_LATEST: Final = datetime(2262, 1, 1, tzinfo=UTC).timestamp()

MOST_MILLICORES: Final = 1e8
"""100 000 cores, a hundred times the last bucket of the histogram: no machine has as many."""
MOST_BYTES: Final = 2.0**50
"""1 PiB, a thousand times the last bucket of the histogram."""

MOST_AHEAD: Final = 300.0
"""Seconds by which a node's clock may be ahead of ours, as far as other protocols allow it too.

A sample from further ahead would make everything before it weigh nothing, and everything until
then outdated.
"""


@dataclass(frozen=True, slots=True)
class Samples:
    """Usage readings or OOM kills, in the order in which they were read."""

    containers: Ints
    """Rows of containers; negative where the container is not known."""
    values: Floats
    """Millicores of CPU or bytes of memory."""
    times: Floats
    """Seconds since the epoch."""
    limits: Floats | None = None
    """Of OOM kills: the containers' memory limits, NaN where there are none."""

    def __len__(self) -> int:
        return len(self.containers)

    def pick(self, chosen: Ints | Booleans) -> "Samples":
        """Return some of the samples, in the given order."""
        limits = None if self.limits is None else self.limits[chosen]
        return Samples(self.containers[chosen], self.values[chosen], self.times[chosen], limits)


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """The numbers of accepted and of refused samples of a batch."""

    accepted: int = 0
    outdated: int = 0
    """Refused as older than the container's last sample or birth, or as known already."""
    absurd: int = 0
    """Refused because no container can have used that then, or because it is not known."""

    @property
    def discarded(self) -> int:
        """The number of refused samples."""
        return self.outdated + self.absurd

    def __add__(self, other: "SampleCounts") -> "SampleCounts":
        return SampleCounts(
            self.accepted + other.accepted,
            self.outdated + other.outdated,
            self.absurd + other.absurd,
        )


@dataclass(frozen=True, slots=True)
class Intake:
    """Result of taking in a batch."""

    counts: SampleCounts
    accepted: Samples
    """The samples that counted, with the values that were given; in any order."""


def add_cpu(
    aggregates: Aggregates,
    containers: Containers,
    samples: Samples,
    now: float,
    *,
    log: SampleLog,
) -> Intake:
    """Add CPU samples: each must be strictly newer than the last one of its container."""
    sane = _sane(samples, now, MOST_MILLICORES)
    last = containers.floats("last_cpu")
    # Metrics-server repeats a reading until it has a newer one. Without this the same reading
    # would count in every tick.
    fresh = sane.pick(sane.times > _newest_before(sane, _known_until(containers, last)))
    last[fresh.containers] = fresh.times
    aggregates.add_cpu(containers.aggregate[fresh.containers], fresh.values / CORE, fresh.times)
    if log.is_kept:
        log.cpu.append(_logged(containers, fresh, Resource.CPU, log.pressure_lifetime))
    return Intake(_count(samples, sane, fresh), fresh)


def add_memory(
    aggregates: Aggregates,
    containers: Containers,
    samples: Samples,
    now: float,
    *,
    log: SampleLog,
) -> Intake:
    """Add memory samples: none may be older than the last one of its container."""
    sane = _sane(samples, now, MOST_BYTES)
    last = containers.floats("last_memory")
    # >= and not >, as in the original: a repeated memory reading changes no peak.
    fresh = sane.pick(sane.times >= _newest_before(sane, _known_until(containers, last)))
    last[fresh.containers] = fresh.times
    _fold(aggregates, containers, fresh, from_oom_kills=False)
    if log.is_kept:
        log.memory.append(_logged(containers, fresh, Resource.MEMORY, log.pressure_lifetime))
    return Intake(_count(samples, sane, fresh), fresh)


def add_oom_kills(
    aggregates: Aggregates,
    containers: Containers,
    kills: Samples,
    now: float,
    ceiling_bytes: float = np.inf,
    *,
    log: SampleLog,
) -> Intake:
    """Add OOM kills, whose values are the containers' memory requests at that moment.

    A kill may be late, but not by more than an interval. No kill proves a need above the ceiling,
    which is what the largest node has to give.
    """
    sane = _sane(kills, now, MOST_BYTES)
    # One kill of each container at a time: each becomes the last sample that admits the next.
    accepted = [
        _add_one_kill_each(aggregates, containers, turn, ceiling_bytes, log)
        for turn in _turns(sane)
    ]
    joined = _join(accepted) if accepted else sane
    return Intake(_count(kills, sane, joined), joined)


def _add_one_kill_each(
    aggregates: Aggregates,
    containers: Containers,
    kills: Samples,
    ceiling_bytes: float,
    log: SampleLog,
) -> Samples:
    """Add the kills that come in time, and return them."""
    last = containers.floats("last_memory")
    intervals = aggregates.floats("interval")[containers.aggregate[kills.containers]]
    timely = kills.pick(kills.times >= last[kills.containers] - intervals)
    # As in the original the kill becomes the last sample, even if it is older than that.
    last[timely.containers] = timely.times
    if log.is_kept:
        log.kills.append(_logged_kills(containers, timely, ceiling_bytes))
        log.ceiling_bytes = ceiling_bytes
    # The kill proves that the container got too little, and not that a node could give more.
    needed = np.minimum(_needed(aggregates, containers, timely), ceiling_bytes)
    bumped = Samples(timely.containers, needed, timely.times)
    _fold(aggregates, containers, bumped, from_oom_kills=True)
    aggregates.remember_kills(containers.aggregate[bumped.containers], needed, bumped.times)
    return timely


def _logged(
    containers: Containers, samples: Samples, resource: Resource, lifetime: float
) -> LoggedSamples:
    rows = samples.containers
    return LoggedSamples(
        containers.aggregate[rows],
        samples.values,
        samples.times,
        containers.floats(REQUESTS[resource])[rows],
        containers.floats(LIMITS[resource])[rows],
        containers.pods[rows],
        containers.pressure.at(rows, samples.times, lifetime),
        samples.times <= containers.floats("start_until")[rows],
    )


def _logged_kills(containers: Containers, kills: Samples, ceiling_bytes: float) -> LoggedSamples:
    """Return kills by the limit that was not enough; without a limit, by the memory in use."""
    logged = _logged(containers, kills, Resource.MEMORY, 0.0)
    # The limit of the kill itself, if it is known: the pod may have been resized since.
    limits = logged.limits if kills.limits is None else kills.limits
    used = np.maximum(kills.values, containers.floats("usage_peak")[kills.containers])
    reached = np.minimum(np.where(limits > 0, limits, used), ceiling_bytes)
    return replace(logged, values=reached, requests=kills.values, limits=limits)


def _known_until(containers: Containers, last: Floats) -> Floats:
    """Return, by container, the later of its last sample and its birth."""
    return np.maximum(last, containers.floats("born"))


def _needed(aggregates: Aggregates, containers: Containers, kills: Samples) -> Floats:
    """Return the amounts of memory that the killed containers should have had."""
    owners = containers.aggregate[kills.containers]
    # As in the original: the container had its request, and survived its peak.
    used = np.maximum(kills.values, containers.floats("usage_peak")[kills.containers])
    by_ratio = buckets.truncate(used * aggregates.floats("bump_ratio")[owners])
    # The larger of the two: 20 % of a small container is too small a step.
    by_bytes = used + aggregates.floats("min_bump")[owners]
    return np.maximum(by_bytes, by_ratio)


def _fold(
    aggregates: Aggregates, containers: Containers, fresh: Samples, *, from_oom_kills: bool
) -> None:
    if not len(fresh):
        return
    aggregates.note_memory(containers.aggregate[fresh.containers], fresh.times)
    fresh = fresh.pick(_changes_peaks(containers.windows(fresh.containers), fresh))
    if not len(fresh):
        return
    starts = memory_peaks.run_starts(fresh.containers)
    rows = fresh.containers[starts]
    # Example: containers [4, 4, 9] have starts [0, 2], rows [4, 9] and positions [0, 0, 1].
    positions = np.repeat(np.arange(len(rows)), np.diff(starts, append=len(fresh)))
    owners = containers.aggregate[rows]
    folding = memory_peaks.fold(
        containers.windows(rows),
        Readings(positions, fresh.values, fresh.times),
        aggregates.floats("interval")[owners],
        from_oom_kills=from_oom_kills,
        keeps_zero_peaks=aggregates.keeps_zero_peaks,
    )
    # First take back, then add: the other order would double a weight for a moment and round it.
    containers.put_windows(rows, folding.windows)
    aggregates.take_back_peaks(owners, folding.removed)
    aggregates.book_peaks(owners, folding.added)


def _changes_peaks(windows: Windows, fresh: Samples) -> Booleans:
    """Return False for each reading inside its window that is no larger than the booked peak."""
    # Nearly all readings are such. A reading after the window, or the first one, changes it in any
    # case; comparing with the NaN of a container without a window is False.
    return np.asarray(~(fresh.times < windows.end) | (fresh.values > windows.peak))


def _sane(samples: Samples, now: float, most: float) -> Samples:
    """Return the samples that can be true now, grouped by container, each one's in their order."""
    values, times = samples.values, samples.times
    # NaN fails all of these comparisons, and so is refused.
    possible = (samples.containers >= 0) & (values >= 0) & (values <= most)
    possible &= (times >= _EARLIEST) & (times < _LATEST) & (times <= now + MOST_AHEAD)
    sane = samples.pick(possible)
    if (sane.containers[1:] < sane.containers[:-1]).any():
        # A stable sort: the order of a container's own samples must stay.
        sane = sane.pick(np.argsort(sane.containers, kind="stable"))
    return sane


def _newest_before(samples: Samples, last: Floats) -> Floats:
    """Return the time of the newest sample before each one, in the batch or before it."""
    newest = last[samples.containers]
    same = samples.containers[1:] == samples.containers[:-1]
    # The usual case: one sample of each container per tick.
    if not same.any():
        return newest
    if not (same & (samples.times[1:] < samples.times[:-1])).any():
        # Samples are in order of time here, so the newest is the one just before.
        newest[1:] = np.where(same, np.maximum(newest[1:], samples.times[:-1]), newest[1:])
        return newest
    moments, ranks = np.unique(samples.times, return_inverse=True)
    # Containers in the high part of a whole number, ranks of times in the low one: the running
    # maximum of it is the running maximum of times that restarts at each container.
    bases = samples.containers * len(moments)
    running = np.maximum.accumulate(bases + ranks)
    # Example: containers [0, 0, 1], times [5, 7, 6], ranks [0, 2, 1], bases [0, 0, 3], running [0,
    # 2, 4]. Before the second sample is running 0 - base 0, rank 0, time 5.
    before = moments[np.where(same, running[:-1] - bases[1:], 0)]
    newest[1:] = np.where(same, np.maximum(newest[1:], before), newest[1:])
    return newest


def _turns(samples: Samples) -> Iterator[Samples]:
    """Yield the first sample of each container, then the second ones, and so on."""
    starts = memory_peaks.run_starts(samples.containers)
    lengths = np.diff(starts, append=len(samples))
    turn = np.arange(len(samples)) - np.repeat(starts, lengths)
    for number in range(int(lengths.max(initial=0))):
        yield samples.pick(turn == number)


def _join(parts: Sequence[Samples]) -> Samples:
    """Return the samples of all parts; all parts have limits, or none has."""
    if len(parts) == 1:
        return parts[0]
    limits = [each.limits for each in parts if each.limits is not None]
    return Samples(
        np.concatenate([each.containers for each in parts]),
        np.concatenate([each.values for each in parts]),
        np.concatenate([each.times for each in parts]),
        np.concatenate(limits) if limits else None,
    )


def _count(given: Samples, sane: Samples, accepted: Samples) -> SampleCounts:
    return SampleCounts(
        accepted=len(accepted),
        outdated=len(sane) - len(accepted),
        absurd=len(given) - len(sane),
    )
