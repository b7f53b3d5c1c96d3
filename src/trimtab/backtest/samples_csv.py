"""Recorded usage as most tools export it: CSV with a line for each moment of each workload.

The columns are `time` (seconds since the epoch, or ISO 8601), `workload`, one for CPU
(`cpu_millicores`, `cpu_cores`, or `cpu_seconds_total`, a counter) and one for memory
(`memory_mib` or `memory_bytes`). A cell that is empty was not read.
"""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from trimtab.backtest.sampling import Flaws, Reading, rates, record
from trimtab.simulation.traces import Recording, TraceError

STEP: Final = timedelta(minutes=5)
"""Readings are put together by these."""
COUNTER: Final = "cpu_seconds_total"
_CPU: Final = {"cpu_millicores": 1.0, "cpu_cores": 1000.0, COUNTER: 1.0}
_MEMORY: Final = {"memory_mib": 1024.0**2, "memory_bytes": 1.0}


@dataclass(slots=True)
class _Column:
    """The cells of one resource of one workload."""

    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def reading(self, scale: float) -> Reading:
        """What was read, in the order of time."""
        times, values = np.array(self.times), np.array(self.values) * scale
        order = np.argsort(times, kind="stable")
        return Reading(times[order], values[order])


def parse_samples(lines: Iterable[str]) -> tuple[list[Recording], Flaws]:
    """All recordings in the lines of a file, the header among them, and their flaws."""
    rows = csv.DictReader(lines)
    names = rows.fieldnames or ()
    for missing in [name for name in ("time", "workload") if name not in names]:
        raise TraceError(f"there is no column {missing!r}")
    cpu, memory = _only(names, _CPU), _only(names, _MEMORY)
    columns: dict[str, tuple[_Column, _Column]] = {}
    for number, row in enumerate(rows, start=2):
        time = _parse_time(row["time"], number)
        pair = columns.setdefault(row["workload"], (_Column(), _Column()))
        for column, name in zip(pair, (cpu, memory), strict=True):
            if cell := (row[name] or "").strip():
                column.times.append(time)
                column.values.append(_parse_number(cell, number))
    recordings, flaws = [], Flaws()
    for workload, (of_cpu, of_memory) in columns.items():
        used, resets = _usage(of_cpu, cpu)
        recording, flaw = record(workload, used, of_memory.reading(_MEMORY[memory]), STEP)
        flaws += flaw + Flaws(resets=resets)
        recordings += [] if recording is None else [recording]
    return recordings, flaws


def _usage(column: _Column, name: str) -> tuple[Reading, int]:
    reading = column.reading(_CPU[name])
    return rates(reading) if name == COUNTER else (reading, 0)


def _only(names: Iterable[str], known: Mapping[str, float]) -> str:
    found = [name for name in known if name in set(names)]
    if len(found) != 1:
        raise TraceError(f"there must be one of the columns {', '.join(known)}")
    return found[0]


def _parse_time(text: str, line: int) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise TraceError(f"line {line}: {text!r} is no moment") from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _parse_number(text: str, line: int) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise TraceError(f"line {line}: {text!r} is no number") from error
