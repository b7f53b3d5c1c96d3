"""Demand: what workloads needed over time, as arrays with a column for each workload."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from trimtab.core.histogram.buckets import Floats, Ints
from trimtab.core.model.pods import Allocation
from trimtab.core.model.resources import BOTH
from trimtab.core.usage.samples import MOST_BYTES, MOST_MILLICORES
from trimtab.simulation.load.traces import Recording
from trimtab.simulation.world.loads import Trace

CPU, MEMORY = range(len(BOTH))
"""Index of each resource wherever both are columns."""
REQUEST, LIMIT = range(2)
"""Index of each one in a size."""


class DemandError(ValueError):
    """Recordings that cannot be replayed together; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Demand of some workloads, each from its own start on."""

    workloads: tuple[str, ...]
    starts: Floats
    """Time of each workload's first value, in seconds since the epoch."""
    lengths: Ints
    """Number of values of each workload."""
    step_seconds: int
    """Seconds for which a value holds: a whole number of minutes."""
    amounts: Floats
    """By step, resource (millicores, bytes) and workload; zero once a recording is over."""
    sizes: Floats
    """Current requests and limits, by resource and workload: NaN where unknown, zero where there is
    none."""

    def __len__(self) -> int:
        return len(self.workloads)

    @property
    def step_minutes(self) -> int:
        """The minutes for which a value holds."""
        return self.step_seconds // 60

    @property
    def steps_per_day(self) -> int:
        """Number of values in a day."""
        return 86400 // self.step_seconds

    @property
    def days(self) -> int:
        """Number of days of the longest recording; a day that has begun counts."""
        return -(-int(self.lengths.max(initial=0)) // self.steps_per_day)

    def values(self, workload: int) -> Floats:
        """All values of one workload, by step and resource."""
        return self.amounts[: self.lengths[workload], :, workload]

    def only(self, workloads: Sequence[int] | slice) -> "Demand":
        """Some of the workloads."""
        lengths = self.lengths[workloads]
        return Demand(
            tuple(np.array(self.workloads, dtype=object)[workloads]),
            self.starts[workloads],
            lengths,
            self.step_seconds,
            self.amounts[: lengths.max(initial=0), :, workloads],
            self.sizes[:, :, workloads],
        )


def gather(recordings: Sequence[Recording]) -> Demand:
    """The demand of recordings that all have the same step."""
    if not recordings:
        raise DemandError("there is no workload to replay")
    first = recordings[0]
    for each in recordings:
        if each.trace.step != first.trace.step:
            raise DemandError(
                "there must be one resolution:"
                f" {first.workload} has values for {first.trace.step.total_seconds():g} s,"
                f" {each.workload} for {each.trace.step.total_seconds():g} s"
            )
    seconds = int(first.trace.step.total_seconds())
    if seconds % 60:
        raise DemandError(f"a value must hold for whole minutes, not for {seconds} s")
    lengths = [len(recording.trace.cpu_millicores) for recording in recordings]
    amounts = np.zeros((max(lengths), len(BOTH), len(recordings)))
    for column, (recording, length) in enumerate(zip(recordings, lengths, strict=True)):
        amounts[:length, CPU, column] = recording.trace.cpu_millicores
        amounts[:length, MEMORY, column] = recording.trace.memory_bytes
    return Demand(
        tuple(recording.workload for recording in recordings),
        np.array([recording.start.timestamp() for recording in recordings]),
        np.array(lengths),
        seconds,
        amounts,
        np.stack([_size(recording.size) for recording in recordings], axis=2),
    )


def _size(allocation: Allocation | None) -> Floats:
    """Requests and limits of one container, by resource."""
    if allocation is None:
        return np.full((2, len(BOTH)), np.nan)
    amounts = (allocation.requests or {}), (allocation.limits or {})
    return np.array([[float(each.get(resource, 0)) for resource in BOTH] for each in amounts])


def percentile(values: Floats, fraction: float) -> Floats:
    """The nearest-rank percentile over the first axis."""
    rank = max(int(np.ceil(fraction * len(values))) - 1, 0)
    return np.asarray(np.partition(values, rank, axis=0)[rank])


LEAST_STEPS: Final = 12
"""Fewer steps than this say nothing about a workload."""
_MILLICORES: Final = 1000.0


@dataclass(frozen=True, slots=True)
class Reading:
    """Readings of one resource of a workload, in the order of time."""

    times: Floats
    """Seconds since the epoch."""
    values: Floats


@dataclass(frozen=True, slots=True)
class Flaws:
    """Flaws of readings."""

    absurd: int = 0
    """Readings that were left out: not a number, negative, or more than any machine has."""
    resets: int = 0
    """Number of counter resets."""
    filled: timedelta = timedelta()
    """Time without readings, for which the last value was taken to hold."""
    too_short: tuple[str, ...] = ()
    """Workloads with too few readings, which are left out."""

    def __add__(self, other: "Flaws") -> "Flaws":
        return Flaws(
            self.absurd + other.absurd,
            self.resets + other.resets,
            self.filled + other.filled,
            self.too_short + other.too_short,
        )

    def lines(self) -> Iterator[str]:
        """Return one sentence for each kind of flaw that was found."""
        if self.absurd:
            yield f"{self.absurd} absurd readings were left out"
        if self.resets:
            yield f"counters began anew {self.resets} times"
        if self.filled:
            hours = self.filled / timedelta(hours=1)
            yield f"gaps of {hours:.1f} h in all were filled with the last value before them"
        if self.too_short:
            yield f"too short, and left out: {', '.join(self.too_short)}"


def rates(counter: Reading) -> tuple[Reading, int]:
    """Return the millicores between readings of a CPU-seconds counter, and the number of resets."""
    seconds = np.diff(counter.times)
    counted = np.diff(counter.values)
    is_reset = counted < 0
    # After a reset, the counter shows the usage since the restart.
    used = np.where(is_reset, counter.values[1:], counted)
    passed = seconds > 0
    values = used[passed] / seconds[passed] * _MILLICORES
    return Reading(counter.times[1:][passed], values), int(is_reset[passed].sum())


def record(
    workload: str, cpu: Reading, memory: Reading, step: timedelta
) -> tuple[Recording | None, Flaws]:
    """Return one value for each step, mean CPU and peak memory; None if there are too few steps."""
    sane_cpu, odd_cpu = _sane(cpu, MOST_MILLICORES)
    sane_memory, odd_memory = _sane(memory, MOST_BYTES)
    flaws = Flaws(absurd=odd_cpu + odd_memory)
    seconds = step.total_seconds()
    steps = [np.floor(each.times / seconds).astype(np.int64) for each in (sane_cpu, sane_memory)]
    if not all(len(each) for each in steps):
        return None, flaws + Flaws(too_short=(workload,))
    first, last = max(each.min() for each in steps), max(each.max() for each in steps)
    count = int(last - first) + 1
    if count < LEAST_STEPS:
        return None, flaws + Flaws(too_short=(workload,))
    values_of_cpu = _spread(_average(steps[0], sane_cpu.values), first, count)
    values_of_memory = _spread(_most(steps[1], sane_memory.values), first, count)
    missing = np.isnan(values_of_cpu) | np.isnan(values_of_memory)
    trace = Trace(_hold(values_of_cpu), _hold(values_of_memory), step)
    start = datetime.fromtimestamp(float(first) * seconds, UTC)
    return Recording(workload, start, trace), flaws + Flaws(filled=int(missing.sum()) * step)


def _sane(reading: Reading, most: float) -> tuple[Reading, int]:
    possible = np.isfinite(reading.values) & (reading.values >= 0) & (reading.values <= most)
    kept = Reading(reading.times[possible], reading.values[possible])
    return kept, int((~possible).sum())


def _average(steps: Ints, values: Floats) -> tuple[Ints, Floats]:
    known, places, counts = np.unique(steps, return_inverse=True, return_counts=True)
    return known, np.bincount(places, values) / counts


def _most(steps: Ints, values: Floats) -> tuple[Ints, Floats]:
    known, places = np.unique(steps, return_inverse=True)
    most = np.zeros(len(known))
    np.maximum.at(most, places, values)
    return known, most


def _spread(known: tuple[Ints, Floats], first: int, count: int) -> Floats:
    """Return one value for each of `count` steps, NaN where nothing is known.

    The last value that is known before the first step holds in it.
    """
    steps, values = known
    spread = np.full(count, np.nan)
    before = np.flatnonzero(steps <= first)
    spread[0] = values[before[-1]]
    inside = steps >= first
    spread[steps[inside] - first] = values[inside]
    return spread


def _hold(values: Floats) -> tuple[float, ...]:
    """Fill gaps with the last known value; the first value is always known."""
    places = np.where(np.isnan(values), 0, np.arange(len(values)))
    return tuple(values[np.maximum.accumulate(places)].tolist())
