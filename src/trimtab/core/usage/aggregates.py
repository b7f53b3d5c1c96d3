"""Aggregates: the histograms of one container name under one label set of one namespace.

Every aggregate is a row of a CPU bank, of a memory bank, and of the columns kept here: when it was
first and last fed, how often, and the overrides that its autoscaler's policy sets. The rows of
restored checkpoints are aggregates too, without a key. `containers.py` has the containers that feed
an aggregate, `selector_index.py` the autoscalers that learn from it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias, TypeVar

import numpy as np

from trimtab.core.histogram import row_table
from trimtab.core.histogram.bank import HistogramBank
from trimtab.core.histogram.buckets import CPU_BUCKETS, MEMORY_BUCKETS, Floats, Ints
from trimtab.core.histogram.checkpoint import AggregateContent
from trimtab.core.histogram.memory_peaks import Booleans, Peaks
from trimtab.core.histogram.oom_floors import OomLedger, OomLevel
from trimtab.core.histogram.row_table import Rows
from trimtab.core.model import validation
from trimtab.core.model.autoscalers import ContainerPolicy
from trimtab.core.model.recommendation import MIB, RecommendationSettings
from trimtab.core.model.resources import Resource
from trimtab.core.model.validation import LONGEST
from trimtab.core.usage.containers import ContainerMemory

LabelSet: TypeAlias = tuple[tuple[str, str], ...]
"""Labels in the order of their keys."""

CPU_WEIGHT: Final = 0.1
MEMORY_WEIGHT: Final = 1.0

_BLANK: Final = np.array(
    (0, 0, False, np.inf, -np.inf, 0, -np.inf, 0.0, 0, 0.0, 0.0, 0.0, 0.0, 0.0),
    dtype=[
        # Rows in the two banks, and whether anything was added since the last `drain_fed`.
        ("cpu_row", np.int64),
        ("memory_row", np.int64),
        ("fed", np.bool_),
        # Times of the first and last CPU sample and their number; confidence follows from these.
        ("first", np.float64),
        ("last", np.float64),
        ("count", np.int64),
        # Memory readings, creation, and the containers that feed the aggregate now, and since when.
        ("last_memory", np.float64),
        ("created", np.float64),
        ("feeders", np.int64),
        ("live_since", np.float64),
        # Settings, the operator's or a policy's: seconds, seconds, a factor, bytes.
        ("interval", np.float64),
        ("lifetime", np.float64),
        ("bump_ratio", np.float64),
        ("min_bump", np.float64),
    ],
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# The count is compared as a float64: above this a float64 no longer counts one by one.
_MOST_SAMPLES: Final = 2**53
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class UsageSettings:
    """Settings of histories that an operator may tune; the defaults are the original's flags."""

    cpu_half_life: timedelta = timedelta(days=1)
    memory_half_life: timedelta = timedelta(days=1)
    memory_interval: timedelta = timedelta(days=1)
    memory_interval_count: int = 8
    """Number of intervals without a sample after which an aggregate is forgotten."""
    oom_bump_up_ratio: float = 1.2
    oom_min_bump_up_bytes: int = 100 * MIB
    keeps_oom_ledger: bool = True
    """True to keep every memory target at or above the need that recent OOM kills showed."""
    keeps_zero_peaks: bool = False
    """True to see nothing more of a memory window that began with zero bytes, as the original."""
    allows_overrides: bool = True
    """True if an autoscaler's policy may override the four memory settings (PerVPAConfig)."""

    def __post_init__(self) -> None:
        validation.require_interval("cpu_half_life", self.cpu_half_life)
        validation.require_interval("memory_half_life", self.memory_half_life)
        validation.require_interval("memory_interval", self.memory_interval)
        validation.require_at_least("memory_interval_count", self.memory_interval_count, 1)
        validation.require_at_least("oom_bump_up_ratio", self.oom_bump_up_ratio, 1)
        validation.require_at_least("oom_min_bump_up_bytes", self.oom_min_bump_up_bytes, 0)


@dataclass(frozen=True, slots=True)
class _Tuning:
    """Settings of one aggregate: the operator's, or a policy's in their place, good or bad."""

    interval: timedelta
    interval_count: int
    bump_ratio: float
    min_bump: int


@dataclass(frozen=True, slots=True)
class AggregateKey:
    """Properties that all containers feeding one aggregate share."""

    namespace: str
    container_name: str
    labels: LabelSet


class Aggregates:
    """All aggregates, as rows."""

    def __init__(self, settings: UsageSettings, estimates: RecommendationSettings) -> None:
        self._settings = settings
        self.cpu = HistogramBank(CPU_BUCKETS, settings.cpu_half_life, estimates.cpu.percentiles)
        self.memory = HistogramBank(
            MEMORY_BUCKETS, settings.memory_half_life, estimates.memory.percentiles
        )
        self.oom_ledger = OomLedger()
        self._rows = Rows(_BLANK)
        self._by_key: dict[AggregateKey, int] = {}
        self._keys: dict[int, AggregateKey] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def keeps_zero_peaks(self) -> bool:
        """True if no reading raises a booked memory peak of zero."""
        return self._settings.keeps_zero_peaks

    def floats(self, column: str) -> Floats:
        """Return a column of numbers or times; it is stale once another aggregate was created."""
        return self._rows.data[column]

    def ints(self, column: str) -> Ints:
        """Return a column of counts or rows; it is stale once another aggregate was created."""
        return self._rows.data[column]

    def bank(self, resource: Resource) -> HistogramBank:
        """Return the histograms of one resource."""
        return self.cpu if resource is Resource.CPU else self.memory

    def bank_rows(self, resource: Resource, rows: Ints) -> Ints:
        """Return the rows in that bank that hold the histograms of some aggregates."""
        return self.ints("cpu_row" if resource is Resource.CPU else "memory_row")[rows]

    def copy_rows(self, rows: Ints) -> np.ndarray:
        """Return copies of the columns of some rows; banks are copied by themselves."""
        copies: np.ndarray = self._rows.data[rows]
        return copies

    def put_rows(self, rows: Ints, copies: np.ndarray) -> None:
        """Replace the columns of some rows by copies of earlier."""
        self._rows.data[rows] = copies

    def keyed_rows(self) -> Ints:
        """Return the rows of all aggregates that have a key."""
        return np.fromiter(self._keys, dtype=np.int64, count=len(self._keys))

    def key(self, row: int) -> AggregateKey:
        """Return the key of an aggregate: the properties its containers share."""
        return self._keys[row]

    def find(self, key: AggregateKey) -> int | None:
        """Return the aggregate of a key, if there is one."""
        return self._by_key.get(key)

    def create(self, key: AggregateKey, now: datetime) -> int:
        """Create an empty aggregate under a key that has none."""
        assert key not in self._by_key
        row = self._allocate(now)
        self._by_key[key] = row
        self._keys[row] = key
        return row

    def start(self, now: datetime) -> int:
        """Create an empty aggregate without a key."""
        return self._allocate(now)

    def restore(self, contents: Sequence[AggregateContent]) -> list[int]:
        """Create aggregates without a key from the contents of checkpoints."""
        rows = [self._allocate(each.checkpoint.last_update_time) for each in contents]
        for row, each in zip(rows, contents, strict=True):
            # The neutral elements of min and max stand for missing times, so that `include` needs
            # no cases.
            record, checkpoint = self._rows.data[row], each.checkpoint
            record["first"] = to_seconds(checkpoint.first_sample_start, missing=np.inf)
            record["last"] = to_seconds(checkpoint.last_sample_start, missing=-np.inf)
            record["count"] = min(max(checkpoint.total_samples_count, 0), _MOST_SAMPLES)
        data = self._rows.data
        self.cpu.load_each(data["cpu_row"][rows], [each.cpu for each in contents])
        self.memory.load_each(data["memory_row"][rows], [each.memory for each in contents])
        return rows

    def release(self, row: int) -> None:
        """Forget an aggregate."""
        record = self._rows.data[row]
        self.cpu.release(record["cpu_row"][np.newaxis])
        self.memory.release(record["memory_row"][np.newaxis])
        self._rows.release(row)
        self.oom_ledger.drop(row)
        key = self._keys.pop(row, None)
        if key is not None:
            del self._by_key[key]

    def holds_anything(self, row: int) -> bool:
        """Return True if a histogram of the aggregate holds anything."""
        record = self._rows.data[row]
        banks = ((self.cpu, record["cpu_row"]), (self.memory, record["memory_row"]))
        return not all(bool(bank.is_empty(one)) for bank, one in banks)

    def absorb(self, row: int, other: int) -> None:
        """Add the contents of another aggregate, and forget that one."""
        self.include(row, other)
        self.release(other)

    def include(self, row: int, other: int) -> None:
        """Add the contents of another aggregate."""
        ours, theirs = self._rows.data[row], self._rows.data[other]
        self.cpu.merge(int(ours["cpu_row"]), theirs["cpu_row"])
        self.memory.merge(int(ours["memory_row"]), theirs["memory_row"])
        ours["first"] = min(ours["first"], theirs["first"])
        ours["last"] = max(ours["last"], theirs["last"])
        ours["last_memory"] = max(ours["last_memory"], theirs["last_memory"])
        ours["count"] += theirs["count"]
        # Otherwise the recommendation would be that of before until the next sample.
        ours["fed"] = True
        self.oom_ledger.put(row, self.oom_ledger.levels([other]))

    def override(self, row: int, policies: Iterable[ContainerPolicy]) -> None:
        """Override each setting of an aggregate by the first policy that sets it."""
        chosen = tuple(policies) if self._settings.allows_overrides else ()
        self._tune(row, _overridden(self._settings, chosen))

    def add_cpu(self, rows: Ints, cores: Floats, times: Floats) -> None:
        """Add accepted CPU samples."""
        data = self._rows.data
        self.cpu.add(data["cpu_row"][rows], cores, CPU_WEIGHT, times)
        row_table.fold_in(np.minimum, data["first"], rows, times)
        row_table.fold_in(np.maximum, data["last"], rows, times)
        row_table.fold_in(np.add, data["count"], rows, 1)
        # No `fold_in` here: setting True twice does no harm.
        data["fed"][rows] = True

    def book_peaks(self, owners: Ints, peaks: Peaks) -> None:
        """Add memory peaks to the aggregates that own their windows."""
        rows = self._rows.data["memory_row"][owners[peaks.window]]
        self.memory.add(rows, peaks.value, MEMORY_WEIGHT, peaks.end)
        self._rows.data["fed"][owners[peaks.window]] = True

    def book_windows(self, windows: Sequence[tuple[int, ContainerMemory]]) -> None:
        """Add the peaks of remembered windows to the aggregates they are paired with."""
        # After a start thousands of containers resume: one call for all of them.
        rows = np.array([row for row, _ in windows], np.int64)
        held = [
            (place, memory.peak, memory.window_end)
            for place, (_, memory) in enumerate(windows)
            # A peak of zero is booked like any other.
            if memory.window_end is not None
        ]
        if held:
            places, peaks, ends = zip(*held, strict=True)
            self.book_peaks(rows, Peaks(np.array(places), np.array(peaks), np.array(ends)))
        self.note_memory(rows, np.array([memory.last_memory for _, memory in windows], np.float64))

    def take_back_window(self, row: int, memory: ContainerMemory) -> None:
        """Subtract the peak of a remembered window, because it will be booked elsewhere."""
        if memory.window_end is not None:
            self.take_back_peaks(np.array([row]), _only_peak(memory.peak, memory.window_end))

    def take_back_peaks(self, owners: Ints, peaks: Peaks) -> None:
        """Subtract memory peaks that larger ones replace."""
        rows = self._rows.data["memory_row"][owners[peaks.window]]
        self.memory.subtract(rows, peaks.value, MEMORY_WEIGHT, peaks.end)

    def remember_kills(self, owners: Ints, needed: Floats, times: Floats) -> None:
        """Remember the needs that OOM kills showed."""
        if self._settings.keeps_oom_ledger:
            self.oom_ledger.remember(owners, needed, times)
            self._rows.data["fed"][owners] = True

    def restore_kills(self, row: int, levels: Iterable[OomLevel]) -> None:
        """Restore the OOM levels that were known before a restart."""
        if self._settings.keeps_oom_ledger:
            # Marked as fed, like any change of a floor: only fed rows are estimated again.
            self.oom_ledger.put(row, levels)
            self._rows.data["fed"][row] = True

    def forget_kills(self, now: float | Floats) -> None:
        """Forget OOM kills older than their aggregate's lifetime.

        `now` is one moment, or one for each row.
        """
        changed = self.oom_ledger.expire(self.floats("lifetime"), now)
        self._rows.data["fed"][changed] = True

    def oom_floors(self) -> Floats:
        """Return the floor of memory targets that OOM kills set, by row."""
        return self.oom_ledger.floors(len(self._rows.data))

    def note_memory(self, rows: Ints, times: Floats) -> None:
        """Remember that memory was read, whether or not that changed a peak."""
        row_table.fold_in(np.maximum, self._rows.data["last_memory"], rows, times)

    def drain_fed(self) -> Booleans:
        """Return, per row, True if it got anything new since the last call."""
        fed: Booleans = self._rows.data["fed"].copy()
        self._rows.data["fed"] = False
        return fed

    def _allocate(self, now: datetime | None) -> int:
        row = self._rows.allocate()
        record = self._rows.data[row]
        record["cpu_row"] = self.cpu.allocate(1)[0]
        record["memory_row"] = self.memory.allocate(1)[0]
        record["created"] = to_seconds(now, missing=0.0)
        self._tune(row, _overridden(self._settings, ()))
        return row

    def _tune(self, row: int, tuning: _Tuning) -> None:
        record = self._rows.data[row]
        interval = tuning.interval.total_seconds()
        record["interval"] = interval
        record["lifetime"] = interval * tuning.interval_count
        record["bump_ratio"] = tuning.bump_ratio
        record["min_bump"] = tuning.min_bump


def expendable(
    *,
    idle_seconds: Floats,
    lifetimes: Floats,
    sampled: Booleans,
    live: Booleans,
    contributive: Booleans,
) -> Booleans:
    """Find the aggregates that may be forgotten.

    An aggregate may be forgotten if it had no sample for its lifetime. So may one that never had
    any, if no pod could still bring one. A memory reading is a sample too, so the effect of an OOM
    kill survives in containers too short-lived for a CPU sample. An aggregate that a running
    container feeds stays.
    """
    # The rule of the original's garbage collection, on arrays.
    return ~live & ((idle_seconds >= lifetimes) | (~sampled & ~contributive))


def _only_peak(peak: float, end: float) -> Peaks:
    return Peaks(np.array([0]), np.array([peak]), np.array([end]))


def _overridden(settings: UsageSettings, policies: tuple[ContainerPolicy, ...]) -> _Tuning:
    intervals = [policy.memory_interval for policy in policies if _has_interval(policy)]
    counts = [policy.memory_interval_count for policy in policies]
    ratios = [policy.oom_bump_up_ratio for policy in policies]
    bumps = [policy.oom_min_bump_up_bytes for policy in policies]
    return _Tuning(
        _first_set(intervals, settings.memory_interval),
        _first_set(counts, settings.memory_interval_count),
        _first_set(ratios, settings.oom_bump_up_ratio),
        _first_set(bumps, settings.oom_min_bump_up_bytes),
    )


def _has_interval(policy: ContainerPolicy) -> bool:
    # Windows have a length, and an end inside the calendar; an old object may hold anything.
    interval = policy.memory_interval
    return interval is not None and timedelta(0) < interval <= LONGEST


def _first_set(values: Iterable[_Value | None], otherwise: _Value) -> _Value:
    return next((value for value in values if value is not None), otherwise)


def to_seconds(moment: datetime | None, *, missing: float) -> float:
    """Convert a moment to seconds since the epoch, as all columns of times hold them."""
    return missing if moment is None else (moment - _EPOCH) / timedelta(seconds=1)


def from_seconds(seconds: float) -> datetime | None:
    """Convert a number of a column of times to a moment; None where it holds none."""
    return _EPOCH + timedelta(seconds=seconds) if math.isfinite(seconds) else None
