"""Held targets: the state of the cost-based estimator, a row for each container of an autoscaler.

A target is raised as soon as the need is larger, and lowered rarely, by the rules of `rules.py`.
Time is that of a row's newest sample: without samples nothing is known, and nothing costs anything.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final
from zlib import crc32

import numpy as np

from trimtab.core.histogram.bank import HistogramBank
from trimtab.core.histogram.buckets import CORE, CPU_BUCKETS, MOST, Floats, Ints
from trimtab.core.histogram.memory_peaks import Booleans
from trimtab.core.histogram.row_table import Rows
from trimtab.core.model.estimation import CostSettings
from trimtab.core.recommendation.cost import (
    held_columns,
    kills,
    levels,
    plausibility,
    pressure,
    rules,
    runs,
)
from trimtab.core.recommendation.cost.held_columns import CPU, MEMORY
from trimtab.core.recommendation.cost.kills import Kill
from trimtab.core.recommendation.cost.levels import LevelWindows, MemoryLevels, Sightings
from trimtab.core.recommendation.cost.pressure import Signals
from trimtab.core.recommendation.cost.rules import GIB_HOUR, Holding
from trimtab.core.recommendation.cost.runs import CpuTurn
from trimtab.core.recommendation.cost.signals import AppliedSignals, Raises, SignalledSamples
from trimtab.core.usage.aggregates import CPU_WEIGHT
from trimtab.core.usage.checkpoints import CheckpointKey
from trimtab.core.usage.sample_log import Logged, LoggedSamples

_HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True)
class _Batch:
    """Samples of one kind, each with the row that it counts for."""

    rows: Ints
    samples: LoggedSamples

    def __len__(self) -> int:
        return len(self.rows)


class HeldTargets:
    """The held targets of all containers that use the cost-based estimator."""

    def __init__(self, settings: CostSettings) -> None:
        self.settings = settings
        self._rows = Rows(held_columns.blank_row())
        self.levels = MemoryLevels()
        self.cpu = HistogramBank(CPU_BUCKETS, settings.cpu_half_life, ())
        self.signals = AppliedSignals()
        self._by_key: dict[CheckpointKey, int] = {}
        self._links: tuple[Ints, Ints] = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        """Aggregates in ascending order, and the row that each feeds; rows may share one."""

    def __len__(self) -> int:
        return len(self._by_key)

    def column(self, name: str) -> np.ndarray:
        """Return a column of rows (`held_columns.py`); it is stale once another row was added."""
        column: np.ndarray = self._rows.data[name]
        return column

    def record(self, row: int) -> np.void:
        """Return a row, to read or to change; it is stale once another row was added."""
        record: np.void = self._rows.data[row]
        return record

    def find(self, key: CheckpointKey) -> int | None:
        """Return the row of a container, if it has one."""
        return self._by_key.get(key)

    def keys(self) -> Iterable[CheckpointKey]:
        """Return the containers that have a row."""
        return self._by_key.keys()

    def add(self, key: CheckpointKey) -> int:
        """Add a container that has no row yet."""
        row = self._rows.allocate()
        self._by_key[key] = row
        self._rows.data["cpu_row"][row] = self.cpu.allocate(1)[0]
        self.levels.grow(len(self._rows.data))
        # Spread over the hour, so that not all workloads change in the same minute.
        # A CRC, since `hash` of a text differs between processes: a restart must not move the hour.
        self._rows.data["phase"][row] = crc32("/".join((*key[0], key[1])).encode()) % _HOUR
        return row

    def remove(self, key: CheckpointKey) -> None:
        """Forget a container."""
        row = self._by_key.pop(key)
        self.cpu.release(self._rows.data["cpu_row"][[row]])
        self.levels.release(np.array([row]))
        self.signals.forget(np.array([row]), (CPU, MEMORY))
        self._rows.release(row)

    def used_pods(self) -> set[int]:
        """Return the numbers of all pods that any level names."""
        levels = self.levels.used_pods(np.fromiter(self._by_key.values(), np.int64))
        return levels | self.signals.used_pods()

    def set_price(self, row: int, gib_hours: float) -> None:
        """Set the price of an OOM kill for one row."""
        self._rows.data["price"][row] = gib_hours * GIB_HOUR

    def link(self, aggregates: Ints, rows: Ints) -> None:
        """Make rows learn from aggregates: one pair for each."""
        # Sorted, so that `_expand` finds the rows of each sample with two binary searches.
        order = np.argsort(aggregates, kind="stable")
        self._links = (aggregates[order], rows[order])

    # Samples

    def count_samples(self, samples: LoggedSamples) -> Ints:
        """Return the number of samples that count for each row."""
        return np.bincount(self._expand(samples).rows, minlength=len(self._rows.data))

    def take_in(self, logged: Logged, skipped_cpu: Ints) -> None:
        """Take in what was logged, and decide; CPU samples of some rows are known already."""
        memory, cpu = self._expand(logged.memory), self._expand(logged.cpu)
        memory = self._believe(memory, logged.ceiling_bytes)
        killed = self._expand(logged.kills)
        # Only rows with samples have a clock that moved, so nothing else can become due.
        touched = np.zeros(len(self._rows.data), np.bool_)
        for batch in (memory, cpu, killed):
            touched[batch.rows] = True
        rows = np.flatnonzero(touched)
        if not len(rows):
            return
        before = self.column("now")[rows]
        # Raises come before reductions, and memory before CPU: a pod that has to be replaced anyway
        # takes a smaller CPU reduction along (`joined_lower_fraction`).
        self._move_clocks(rows, (memory, cpu, killed))
        heeded = runs.heed(self._rows.data, cpu.rows, cpu.samples, self.settings.pressure)
        cpu = _Batch(cpu.rows, heeded)
        self._note_sizes(memory)
        self._count_kills(killed, logged.ceiling_bytes)
        changed = np.zeros(len(touched), np.bool_)
        self._raise_memory(memory, logged.ceiling_bytes, changed)
        self._note_cpu(cpu, skipped_cpu)
        self._raise_cpu(cpu, changed)
        now = self.column("now")[rows]
        phase = self.column("phase")[rows]
        # True where the clock of the row has passed the full hour since the last samples.
        is_hour = np.floor((now - phase) / _HOUR) > np.floor((before - phase) / _HOUR)
        due = rows[is_hour | changed[rows]]
        was_settled = self.column("is_settled")[due].copy()
        self._lower_memory(due, changed)
        self._lower_cpu(due, was_settled, changed)
        self.column("short_since")[changed] = np.nan

    def _expand(self, samples: LoggedSamples) -> _Batch:
        """Return the samples of aggregates that feed a row, once for each row."""
        aggregates, rows = self._links
        # Example: links ([3, 3, 5], [0, 1, 1]) and samples of aggregates [5, 3]. first is [2, 0]
        # and counts [1, 2], so places are [0, 1, 1], offsets [0, 0, 1], and the rows [1, 0, 1].
        first = np.searchsorted(aggregates, samples.aggregates, side="left")
        counts = np.searchsorted(aggregates, samples.aggregates, side="right") - first
        places = np.repeat(np.arange(len(samples)), counts)
        offsets = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        return _Batch(rows[first[places] + offsets], samples.pick(places))

    def _move_clocks(self, rows: Ints, batches: Sequence[_Batch]) -> None:
        newest = np.full(len(self._rows.data), -np.inf)
        oldest = np.full(len(self._rows.data), np.inf)
        for batch in batches:
            np.maximum.at(newest, batch.rows, batch.samples.times)
            np.minimum.at(oldest, batch.rows, batch.samples.times)
        data = self._rows.data
        before = data["now"][rows]
        is_new = ~np.isfinite(before)
        data["first"][rows[is_new]] = oldest[rows[is_new]]
        data["now"][rows] = np.maximum(before, newest[rows])
        gaps = np.where(is_new, 0.0, oldest[rows] - before)
        longest = self.settings.longest_gap.total_seconds()
        paused = gaps > longest
        if paused.any():
            self._pause(rows[paused], gaps[paused] - longest)

    def _pause(self, rows: Ints, seconds: Floats) -> None:
        """Move all times of rows, as if a time without samples had not passed."""
        data = self._rows.data
        self.levels.postpone(rows, seconds)
        # Only differences of these times matter; the clock itself jumped over the gap.
        data["first"][rows] += seconds
        data["changed"][rows] += seconds[:, np.newaxis]
        data["paused"][rows] += seconds
        for column in ("short_since", "censored_since", "pressed_since"):
            data[column][rows] = np.nan

    def _note_sizes(self, memory: _Batch) -> None:
        """Note by how much limits exceed requests."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = memory.samples.limits / memory.samples.requests
        # Without a limit nothing but the request protects a pod: no looseness.
        known = np.isfinite(ratios) & (ratios >= 1)
        self._rows.data["ratio"][memory.rows] = np.where(known, ratios, 1.0)

    # Memory

    def _believe(self, memory: _Batch, ceiling_bytes: float) -> _Batch:
        """Return the readings that may be held: no absurd one, and none beyond what nodes have."""
        if not len(memory):
            return memory
        data, given = self._rows.data, memory.samples
        known = np.fmax(data["most_needed"][memory.rows], given.requests)
        found = plausibility.judge(given, known, data["doubted"][memory.rows], ceiling_bytes)
        data["doubted"][memory.rows] = 0.0
        np.maximum.at(data["doubted"], memory.rows[found.doubted], given.values[found.doubted])
        kept = found.believed
        values = np.minimum(given.values[kept], ceiling_bytes)
        return _Batch(memory.rows[kept], replace(given.pick(kept), values=values))

    def _raise_memory(self, memory: _Batch, ceiling: float, changed: Booleans) -> None:
        settings, data = self.settings, self._rows.data
        if not len(memory):
            return
        given, signals = self._press(memory, ceiling)
        # One element for each pair of row and bucket, so that a thousand pods of one workload are
        # written once.
        seen = levels.find_sightings(memory.rows, given.values, given.times, given.pods)
        self.levels.note(seen, settings.peak_lifetime.total_seconds())
        # Sightings are sorted by row and bucket: the last one of each row is the highest.
        is_last = np.append(seen.rows[1:] != seen.rows[:-1], True)
        rows, buckets = seen.rows[is_last], seen.buckets[is_last]
        needs = rules.need(self.levels.peaks(rows, buckets), settings)
        self._start(MEMORY, memory, rows, needs)
        self.note_needs(seen)
        held = data["held"][rows, MEMORY]
        tolerance = rules.raise_fraction(data["ratio"][rows], settings)
        is_short = needs > held * (1 + tolerance)
        raises = Raises(rows[is_short], held[is_short], needs[is_short])
        self.signals.note(
            MEMORY, raises, memory.rows, SignalledSamples(given, signals, given.values)
        )
        self._put(raises.rows, MEMORY, raises.after, changed)

    def _press(self, memory: _Batch, ceiling: float) -> tuple[LoggedSamples, Signals]:
        """Return samples, those under a lasting signal as usage at the limit, and their signals."""
        given, settings, data = memory.samples, self.settings.pressure, self._rows.data
        signals = pressure.memory_signals(given, self.settings)
        is_due = runs.find_pressed(data, memory.rows, signals.is_on, given.values, settings)
        if not is_due.any():
            return given, Signals(np.full(len(given), -1), signals.strengths)
        # What the kernel enforced was not enough, whether or not a sample shows it. A program whose
        # usage follows its limit would reach each new limit too, so a series has a bound.
        most = data["pressed_usage"][memory.rows] * settings.memory_series_factor
        enforced = np.minimum(given.limits, np.minimum(most, ceiling))
        reached = np.maximum(given.values, enforced)
        values = np.where(is_due, reached, given.values)
        return replace(given, values=values), Signals(
            np.where(is_due, signals.kinds, -1), signals.strengths
        )

    def note_needs(self, seen: Sightings) -> None:
        """Note the largest need of each row of some sightings."""
        np.maximum.at(
            self._rows.data["most_needed"], seen.rows, rules.need(seen.peaks, self.settings)
        )

    def _start(self, column: int, batch: _Batch, rows: Ints, needs: Floats) -> None:
        """Start targets at what containers request, or at what they need."""
        data = self._rows.data
        is_new = np.isnan(data["held"][rows, column])
        if not is_new.any():
            return
        # The largest request of all pods: during a rollout two sizes occur, and the larger is safe.
        requested = np.full(len(data), np.nan)
        np.fmax.at(requested, batch.rows, batch.samples.requests)
        started = rows[is_new]
        known = requested[started]
        data["held"][started, column] = np.where(known > 0, known, needs[is_new])
        if column == MEMORY:
            data["changed"][started, column] = data["first"][started]

    def _count_kills(self, killed: _Batch, ceiling_bytes: float) -> None:
        samples = killed.samples
        # Few, and their order matters: one after the other.
        for place in np.argsort(samples.times, kind="stable").tolist():
            limit, request = float(samples.values[place]), float(samples.requests[place])
            time, pod = float(samples.times[place]), int(samples.pods[place])
            kill = Kill(limit, request, time, pod)
            self._count_kill(int(killed.rows[place]), kill, ceiling_bytes)

    def _count_kill(self, row: int, kill: Kill, ceiling: float) -> None:
        settings, record = self.settings, self._rows.data[row]
        wanted = kills.count_kill(record, kill, settings)
        # Usage was at the limit at that moment, whether or not a sample shows it.
        sighting = levels.find_sightings(
            np.array([row]), np.array([kill.limit]), np.array([kill.time]), np.array([kill.pod])
        )
        self.levels.note(sighting, np.inf)
        kills.raise_target(record, kill, min(wanted, ceiling), settings)

    # CPU

    def _note_cpu(self, cpu: _Batch, skipped: Ints) -> None:
        settings = self.settings
        chosen = np.arange(len(cpu))
        if len(skipped):
            chosen = np.flatnonzero(~np.isin(cpu.rows, skipped))
        rows, given = cpu.rows[chosen], cpu.samples.pick(chosen)
        # Where nothing else is known of a container, its start is better than nothing.
        is_known = np.isfinite(given.requests) | np.isfinite(self.column("held")[rows, CPU])
        counts = ~(given.is_start & is_known)
        if counts.any():
            cpu_rows = self._rows.data["cpu_row"][rows[counts]]
            values = pressure.cpu_needs(given, settings).counted[counts]
            self.cpu.add(cpu_rows, values / CORE, CPU_WEIGHT, given.times[counts])

    def _raise_cpu(self, cpu: _Batch, changed: Booleans) -> None:
        if not len(cpu):
            return
        settings, data = self.settings, self._rows.data
        rows = np.flatnonzero(np.bincount(cpu.rows, minlength=len(data)))
        self.find_cheapest(rows)
        target = data["cpu_target"][rows]
        self._start(CPU, cpu, rows, target)
        held = data["held"][rows, CPU]
        now = data["now"][rows]
        # A sample stands for the time since the one before it.
        reach = settings.cpu_settling.total_seconds()
        previous = np.where(np.isfinite(data["cpu_before"][rows]), data["cpu_before"][rows], now)
        # A pause counts as ten minutes at most: nothing is known about the rest of it.
        previous = np.maximum(previous, now - reach)
        data["cpu_before"][rows] = now
        running = np.flatnonzero(~cpu.samples.is_start)
        owners, given = cpu.rows[running], cpu.samples.pick(running)
        turn = CpuTurn(data, owners, rows, previous)
        needs = pressure.cpu_needs(given, settings)
        turn.follow_short(needs.shown > data["held"][owners, CPU], needs.shown)
        turn.follow_censored(needs.is_at_limit, given.limits)
        # A source that counts all periods needs fewer readings than one average per minute.
        runs = settings.pressure.confirmed_run.total_seconds()
        limit = np.where(turn.most(needs.is_signalled), runs, settings.short_run.total_seconds())
        is_censored = now - data["censored_since"][rows] >= limit
        is_run = now - data["short_since"][rows] >= limit
        # The first minutes of a history are mostly a start, and no reason for another size.
        is_young = now - data["first"][rows] < settings.cpu_settling.total_seconds()
        wanted = np.where(target > held * (1 + settings.raise_fraction), target, held)
        least = data["short_least"][rows] * (1 + settings.short_run_margin_fraction)
        # `fmax` ignores NaN: a target may still be unknown.
        wanted = np.where(is_run, np.fmax(np.fmax(wanted, target), least), wanted)
        wanted = np.where(is_young, held, wanted)
        # At the limit the need is unknown: it is looked for in steps, as the limit follows.
        # Twice the target, and at most twice the limit that the pods have now.
        doubled = np.minimum(
            held * settings.censored_step, data["censored_limit"][rows] * settings.censored_step
        )
        wanted = np.where(is_censored, np.fmax(np.fmax(target, doubled), held), wanted)
        # The next run starts at zero: the pods need time to come back with the new limit.
        data["censored_since"][rows[is_censored]] = np.nan
        is_more = wanted > held
        said = is_more & turn.most(needs.signals.is_on)
        self.signals.note(
            CPU,
            Raises(rows[said], held[said], wanted[said]),
            owners,
            SignalledSamples(given, needs.signals, needs.counted),
        )
        self._put(rows[is_more], CPU, wanted[is_more], changed)

    def find_cheapest(self, rows: Ints) -> None:
        """Look for the cheapest CPU level of each row that has not done so for a while."""
        settings, data = self.settings, self._rows.data
        now, phase = data["now"][rows], data["phase"][rows]
        interval = settings.cpu_interval.total_seconds()
        is_young = now - data["first"][rows] < _HOUR
        checked = data["cpu_checked"][rows]
        # A search walks the whole histogram, so each row does it twice an hour, in its own minute.
        is_due = np.floor((now - phase) / interval) > np.floor((checked - phase) / interval)
        due = rows[is_young | is_due]
        data["cpu_checked"][due] = data["now"][due]
        for windows in self.cpu.windows(data["cpu_row"][due]):
            data["cpu_target"][due[windows.which]] = rules.cheapest_cpu(windows, settings)

    # Changes

    def _put(self, rows: Ints, column: int, targets: Floats, changed: Booleans) -> None:
        """Raise targets."""
        data = self._rows.data
        data["held"][rows, column] = targets
        data["changed"][rows, column] = data["now"][rows]
        data["is_raised"][rows, column] = True
        if column == MEMORY:
            data["is_tried"][rows] = False
        changed[rows] = True

    def _lower_memory(self, due: Ints, changed: Booleans) -> None:
        settings, data = self.settings, self._rows.data
        rows = due[np.isfinite(data["held"][due, MEMORY])]
        since = data["now"][rows] - data["changed"][rows, MEMORY]
        # A cheap filter by the shortest gap; `_lower_in` applies the right one for each row.
        rows = rows[since >= min(settings.tried_gap, settings.warm_up).total_seconds()]
        for windows in self.levels.windows(rows):
            self._lower_in(windows, rows[windows.which], changed)

    def _lower_in(self, windows: LevelWindows, rows: Ints, changed: Booleans) -> None:
        settings, data = self.settings, self._rows.data
        found = rules.holding_costs(windows, self.holding(rows), settings)
        held, now = data["held"][rows, MEMORY], data["now"][rows]
        gap = self.lower_gaps(rows, found.top)
        may = (now - self.steady_since(rows) >= gap) & (found.lowered < held)
        self._put_lower(rows[may], MEMORY, found.lowered[may], changed)

    def steady_since(self, rows: Ints) -> Floats:
        """Return the times since which memory was not changed, and no container was OOM-killed."""
        # Between two kills of pods that cannot follow, a target would fall and rise again.
        changed: Floats = self._rows.data["changed"][rows, MEMORY]
        since: Floats = np.maximum(changed, self._rows.data["last_kill"][rows])
        return since

    def lower_gaps(self, rows: Ints, tops: Floats) -> Floats:
        """Return the times between a change of memory and the next reduction, in seconds.

        `tops` are the needs of the highest remembered levels.
        """
        settings, data = self.settings, self._rows.data
        gaps: Floats = np.where(
            data["is_settled"][rows],
            settings.lower_gap.total_seconds(),
            settings.warm_up.total_seconds(),
        )
        # After an OOM kill nothing was seen near the new size for hours: the step was too large.
        highest = data["held"][rows, MEMORY] * (1 - settings.tried_lower_fraction)
        too_high = data["is_tried"][rows] & (tops < highest)
        return np.where(too_high, np.minimum(gaps, settings.tried_gap.total_seconds()), gaps)

    def holding(self, rows: Ints) -> Holding:
        """Return the conditions under which rows hold their memory."""
        data = self._rows.data
        held, now = data["held"][rows, MEMORY], data["now"][rows]
        price = rules.price(data["price"][rows], held, self.settings)
        return Holding(held, now, price, data["is_tried"][rows])

    def _lower_cpu(self, due: Ints, was_settled: Booleans, changed: Booleans) -> None:
        settings, data = self.settings, self._rows.data
        now, held, target = data["now"][due], data["held"][due, CPU], data["cpu_target"][due]
        gap = np.where(
            was_settled, settings.lower_gap.total_seconds(), settings.warm_up.total_seconds()
        )
        least = np.where(changed[due], settings.joined_lower_fraction, settings.cpu_lower_fraction)
        may = (target < held * (1 - least)) & (now - data["changed"][due, CPU] >= gap)
        may &= now - data["first"][due] >= settings.warm_up.total_seconds()
        # At its limit the need of a container is unknown, so no reduction is safe.
        may &= data["censored_limit"][due] == 0
        self._put_lower(due[may], CPU, target[may], changed)

    def _put_lower(self, rows: Ints, column: int, targets: Floats, changed: Booleans) -> None:
        data = self._rows.data
        data["held"][rows, column] = targets
        data["changed"][rows, column] = data["now"][rows]
        data["is_lowered"][rows, column] = True
        data["is_settled"][rows] = True
        if column == MEMORY:
            data["is_tried"][rows] = False
        changed[rows] = True
        self.signals.forget(rows, (column,))

    # Results

    def targets_and_bounds(self, rows: Ints) -> Floats:
        """Return target, lower and upper bound: float64[rows, resources, 3], NaN for unknown ones.

        Bounds are close to a target that was changed, so that every pod follows it. A target that
        was found leaves all pods alone that have what they need.
        """
        settings, data = self.settings, self._rows.data
        held = data["held"][rows]
        # float64[rows, resources], in the order of `BOTH`, like `held`.
        needed = np.stack([data["cpu_target"][rows], data["most_needed"][rows]], axis=1)
        is_changed = data["is_raised"][rows] | data["is_lowered"][rows]
        base = np.where(is_changed, held, np.fmin(held, needed))
        lower = base * (1 - settings.bound_fraction)
        # Without a reduction no pod is too large: the bound is out of reach.
        upper = np.where(data["is_lowered"][rows], held * (1 + settings.bound_fraction), MOST)
        upper = np.where(np.isnan(held), np.nan, upper)
        return np.stack([held, lower, upper], axis=2)
