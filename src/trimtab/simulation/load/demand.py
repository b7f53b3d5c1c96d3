"""Demand: the usage of thousands of containers at one moment, evaluated in columns.

Each row is the load of one container. One generator draws random parts for all rows at once, in row
order, so they depend only on the seed and on earlier calls.
"""

from dataclasses import astuple, fields
from datetime import datetime, timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trimtab.core.histogram.row_table import Rows
from trimtab.simulation.world.loads import HOURS_OF_A_DAY, Load, Trace, Wave
from trimtab.simulation.world.virtual_time import START

Floats = NDArray[np.float64]

_SECONDS_OF_AN_HOUR: Final = 3600.0
_SECONDS_OF_A_DAY: Final = 24 * _SECONDS_OF_AN_HOUR
_DAYS_OF_A_WEEK: Final = 7
_SATURDAY: Final = 5

_PARTS: Final = tuple(part.name for part in fields(Wave))
_ROW: Final = np.dtype(
    [
        *((part, np.float64, (2,)) for part in _PARTS),
        ("day", np.float64, (HOURS_OF_A_DAY,)),
        ("burst_every", np.float64),
        ("burst_length", np.float64),
        ("phase", np.float64),
        ("uneven", np.float64),
        ("trace_begin", np.int64),
        ("trace_length", np.int64),
        ("trace_step", np.float64),
        ("since", np.float64),
    ]
)
"""The load of one container; parts of waves are pairs, CPU and memory."""
_NO_TRACE: Final = -1


def _blank() -> NDArray[np.void]:
    blank = np.zeros((), _ROW)
    # Ones avoid divisions by zero in unused rows.
    blank["burst_every"] = blank["trace_step"] = blank["trace_length"] = 1
    blank["trace_begin"] = _NO_TRACE
    return blank


class _Traces:
    """The values of all traces in use, concatenated."""

    def __init__(self) -> None:
        # values: float64[steps of all traces, 2], CPU and memory
        self.values: Floats = np.zeros((0, 2))
        # By identity: comparing long traces would take longer than storing them twice.
        self._begins: dict[int, tuple[Trace, int]] = {}

    def begin_of(self, trace: Trace) -> int:
        """Return the position of a trace's first value, storing the trace if it is new."""
        if id(trace) not in self._begins:
            self._begins[id(trace)] = trace, len(self.values)
            added = np.column_stack([trace.cpu_millicores, trace.memory_bytes])
            self.values = np.concatenate([self.values, added.astype(np.float64)])
        return self._begins[id(trace)][1]


class ContainerDemand:
    """The loads of many containers."""

    def __init__(self, random: np.random.Generator) -> None:
        self._random = random
        self._rows = Rows(_blank())
        self._traces = _Traces()
        self._columns: dict[str, Floats] = {}
        self.held_at: datetime | None = None
        """Moment at which all loads are frozen, without random parts; None while they vary."""

    @property
    def capacity(self) -> int:
        """Number of rows, in use or not: the length of every column."""
        return len(self._rows.data)

    def add(self, load: Load, now: datetime) -> int:
        """Add a container that runs from now on, and return its row."""
        row = self._rows.allocate()
        self.replace(row, load)
        self.restart(row, now)
        return row

    def remove(self, row: int) -> None:
        """Remove a row; its number will be used again."""
        self._rows.release(row)
        self._columns.clear()

    def replace(self, row: int, load: Load) -> None:
        """Replace the load of a container; the age of its leak stays."""
        data = self._rows.data
        pairs = zip(astuple(load.cpu), astuple(load.memory), strict=True)
        for part, pair in zip(_PARTS, pairs, strict=True):
            data[part][row] = pair
        data["day"][row] = load.day
        data["burst_every"][row] = load.bursts.every.total_seconds()
        data["burst_length"][row] = load.bursts.length.total_seconds()
        data["phase"][row] = load.phase.total_seconds()
        data["uneven"][row] = load.uneven
        self._replace_trace(row, load.trace)
        self._columns.clear()

    def restart(self, row: int, now: datetime) -> None:
        """Restart a container: its leaked memory is free again."""
        self._rows.data["since"][row] = _seconds(now)

    def evaluate(self, now: datetime) -> tuple[Floats, Floats]:
        """Return millicores and bytes that each row would use now; 0 for unused rows."""
        seconds = _seconds(self.held_at or now)
        # level: float64[2, rows], CPU and memory
        level = self._steady(seconds)
        if self.held_at is None:
            level += self._chance()
            level += self._bursts(seconds)
        hours = np.maximum(seconds - self._rows.data["since"], 0.0) / _SECONDS_OF_AN_HOUR
        level += self._column("leak_per_hour") * hours
        np.maximum(level, 0.0, out=level)
        return level[0], level[1]

    def uneven(self) -> Floats:
        """Return by what part the CPU of each row is above and below its load within a moment."""
        return self._column("uneven")

    def _replace_trace(self, row: int, trace: Trace | None) -> None:
        data = self._rows.data
        data["trace_begin"][row] = _NO_TRACE if trace is None else self._traces.begin_of(trace)
        data["trace_length"][row] = 1 if trace is None else len(trace.cpu_millicores)
        data["trace_step"][row] = 1.0 if trace is None else trace.step.total_seconds()

    def _steady(self, seconds: float) -> Floats:
        hour, into = divmod(seconds % _SECONDS_OF_A_DAY / _SECONDS_OF_AN_HOUR, 1.0)
        is_weekend = int(seconds // _SECONDS_OF_A_DAY) % _DAYS_OF_A_WEEK >= _SATURDAY
        begin = self._column("day")[int(hour)]
        end = self._column("day")[(int(hour) + 1) % HOURS_OF_A_DAY]
        # Linear between full hours: sums and products only (`world/loads.py`).
        daily = self._column("daily") * (begin + (end - begin) * into)
        if is_weekend:
            daily *= self._column("weekend_factor")
        level: Floats = daily + self._column("base")
        self._put_traces(level, seconds)
        return level

    def _put_traces(self, level: Floats, seconds: float) -> None:
        data = self._rows.data
        (rows,) = np.nonzero(self._column("trace_begin") != _NO_TRACE)
        if len(rows):
            phase, step, length = (data[f][rows] for f in ("phase", "trace_step", "trace_length"))
            # A trace repeats from its start, and each row begins somewhere else in it.
            steps = np.floor((seconds + phase) / step).astype(np.int64)
            # int64[rows] positions into float64[steps, 2], turned into float64[2, rows].
            level[:, rows] = self._traces.values[data["trace_begin"][rows] + steps % length].T

    def _chance(self) -> Floats:
        # draws: float64[2, 2, rows], for noise and spikes, each for CPU and memory
        draws = self._random.random((2, 2, self.capacity))
        chance: Floats = self._column("noise") * draws[0]
        chance += self._column("spike") * (draws[1] < self._column("spike_chance"))
        return chance

    def _bursts(self, seconds: float) -> Floats:
        # The phase shifts each row, so that not all containers burst at once.
        into = np.mod(seconds + self._column("phase"), self._column("burst_every"))
        bursts: Floats = self._column("burst") * (into < self._column("burst_length"))
        return bursts

    def _column(self, name: str) -> Floats:
        """Return one field of all rows, contiguous for fast reads: float64[..., rows]."""
        if name not in self._columns:
            # Rows are records, so a field of them is strided: one copy per change of a load, not
            # per turn.
            self._columns[name] = np.ascontiguousarray(self._rows.data[name].T)
        return self._columns[name]


def _seconds(moment: datetime) -> float:
    return (moment - START) / timedelta(seconds=1)
