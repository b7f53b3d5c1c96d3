"""Demand: what thousands of containers would use at one moment, evaluated in columns.

Each row is the load of one container. Chance comes from one generator, drawn for all rows at once
and in their order, so that it depends on nothing but the seed and on what was asked before.
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
        ("trace_begin", np.int64),
        ("trace_length", np.int64),
        ("trace_step", np.float64),
        ("since", np.float64),
    ]
)
"""What is known of one container; parts of waves are pairs, CPU and memory."""
_NO_TRACE: Final = -1


def _blank() -> NDArray[np.void]:
    blank = np.zeros((), _ROW)
    # Nothing may be divided by zero.
    blank["burst_every"] = blank["trace_step"] = blank["trace_length"] = 1
    blank["trace_begin"] = _NO_TRACE
    return blank


class _Traces:
    """The values of all traces that are in use, one behind the other."""

    def __init__(self) -> None:
        self.values: Floats = np.zeros((0, 2))
        # By identity: to compare long traces with each other would take longer than to store them.
        self._begins: dict[int, tuple[Trace, int]] = {}

    def begin_of(self, trace: Trace) -> int:
        """Where the values of a trace begin."""
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
        """If set, every load stands as at that moment, and chance plays no part any more."""

    @property
    def capacity(self) -> int:
        """How many rows there are, in use or not: the length of every column."""
        return len(self._rows.data)

    def add(self, load: Load, now: datetime) -> int:
        """The row of a container that runs from now on."""
        row = self._rows.allocate()
        self.replace(row, load)
        self.restart(row, now)
        return row

    def remove(self, row: int) -> None:
        """Forget a row; its number will be used again."""
        self._rows.release(row)
        self._columns.clear()

    def replace(self, row: int, load: Load) -> None:
        """Let a container do something else; what it has leaked so far stays."""
        data = self._rows.data
        pairs = zip(astuple(load.cpu), astuple(load.memory), strict=True)
        for part, pair in zip(_PARTS, pairs, strict=True):
            data[part][row] = pair
        data["day"][row] = load.day
        data["burst_every"][row] = load.bursts.every.total_seconds()
        data["burst_length"][row] = load.bursts.length.total_seconds()
        data["phase"][row] = load.phase.total_seconds()
        self._replace_trace(row, load.trace)
        self._columns.clear()

    def restart(self, row: int, now: datetime) -> None:
        """Let a container begin anew: whatever it has leaked is free again."""
        self._rows.data["since"][row] = _seconds(now)

    def evaluate(self, now: datetime) -> tuple[Floats, Floats]:
        """Millicores and bytes that each row would use now; 0 for rows that are not in use."""
        seconds = _seconds(self.held_at or now)
        level = self._steady(seconds)
        if self.held_at is None:
            level += self._chance()
            level += self._bursts(seconds)
        hours = np.maximum(seconds - self._rows.data["since"], 0.0) / _SECONDS_OF_AN_HOUR
        level += self._column("leak_per_hour") * hours
        np.maximum(level, 0.0, out=level)
        return level[0], level[1]

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
            steps = np.floor((seconds + phase) / step).astype(np.int64)
            level[:, rows] = self._traces.values[data["trace_begin"][rows] + steps % length].T

    def _chance(self) -> Floats:
        draws = self._random.random((2, 2, self.capacity))
        chance: Floats = self._column("noise") * draws[0]
        chance += self._column("spike") * (draws[1] < self._column("spike_chance"))
        return chance

    def _bursts(self, seconds: float) -> Floats:
        into = np.mod(seconds + self._column("phase"), self._column("burst_every"))
        bursts: Floats = self._column("burst") * (into < self._column("burst_length"))
        return bursts

    def _column(self, name: str) -> Floats:
        """One field of all rows, each of its parts in one piece: many times as fast to read."""
        if name not in self._columns:
            self._columns[name] = np.ascontiguousarray(self._rows.data[name].T)
        return self._columns[name]


def _seconds(moment: datetime) -> float:
    return (moment - START) / timedelta(seconds=1)
