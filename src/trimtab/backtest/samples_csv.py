"""Recorded usage as most tools export it: CSV with a line for each moment of each workload.

The columns are `time` (seconds since the epoch, or ISO 8601), `workload`, one for CPU
(`cpu_millicores`, `cpu_cores`, or `cpu_seconds_total`, a counter) and one for memory
(`memory_mib` or `memory_bytes`). A cell that is empty was not read. What a workload requests today
may stand in `cpu_request_millicores`, `memory_request_mib`, `cpu_limit_millicores` and
`memory_limit_mib`: the last cell of each counts.
"""

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from trimtab.backtest.sampling import Flaws, Reading, rates, record
from trimtab.core.pods import Allocation
from trimtab.core.records import dataclass
from trimtab.core.resources import Resource
from trimtab.simulation.traces import Recording, TraceError

STEP: Final = timedelta(minutes=5)
"""Readings are put together by these."""
COUNTER: Final = "cpu_seconds_total"
_CPU: Final = {"cpu_millicores": 1.0, "cpu_cores": 1000.0, COUNTER: 1.0}
_MEMORY: Final = {"memory_mib": 1024.0**2, "memory_bytes": 1.0}
_REQUESTS: Final = {
    "cpu_request_millicores": (Resource.CPU, 1),
    "memory_request_mib": (Resource.MEMORY, 1024**2),
}
_LIMITS: Final = {
    "cpu_limit_millicores": (Resource.CPU, 1),
    "memory_limit_mib": (Resource.MEMORY, 1024**2),
}
_SIZES: Final = (*_REQUESTS, *_LIMITS)


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
    columns: dict[str, dict[str, _Column]] = {}
    for number, row in enumerate(rows, start=2):
        time = _parse_time(row["time"], number)
        of_workload = columns.setdefault(row["workload"], defaultdict(_Column))
        for name in (cpu, memory, *_SIZES):
            if cell := (row.get(name) or "").strip():
                of_workload[name].times.append(time)
                of_workload[name].values.append(_parse_number(cell, number))
    recordings, flaws = [], Flaws()
    for workload, cells in columns.items():
        used, resets = _usage(cells[cpu], cpu)
        recording, flaw = record(workload, used, cells[memory].reading(_MEMORY[memory]), STEP)
        flaws += flaw + Flaws(resets=resets)
        if recording is not None:
            recordings.append(replace(recording, size=_size(cells)))
    return recordings, flaws


def _size(cells: Mapping[str, _Column]) -> Allocation | None:
    """What a workload requests at the end of its recording, if that is told."""
    if not any(name in cells for name in _SIZES):
        return None
    requests, limits = (
        {
            resource: int(cells[name].reading(scale).values[-1])
            for name, (resource, scale) in columns.items()
            if name in cells
        }
        for columns in (_REQUESTS, _LIMITS)
    )
    return Allocation(limits | requests, limits)


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
