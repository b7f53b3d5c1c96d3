"""Recorded usage of real workloads, read from files, as loads of simulated ones.

A file is CSV, gzipped if its name ends in `.gz`, with a line per workload and resource. A line has
the workload's name, `cpu_millicores` or `memory_mib`, the time of the first value, the seconds per
value and the values: integers separated by spaces, in one field. Other columns, such as the source,
are ignored.
"""

import csv
import gzip
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import TextIOWrapper
from pathlib import Path
from typing import Final, TextIO

import msgspec
import numpy as np

from trimtab.core.model.pods import Allocation
from trimtab.simulation.world.loads import Trace
from trimtab.simulation.world.virtual_time import START

_UNITS: Final = {"cpu_millicores": 1.0, "memory_mib": 1024.0 * 1024.0}
_COLUMNS: Final = frozenset({"workload", "resource", "start_unix", "step_seconds", "values"})
_LONGEST_FIELD: Final = 2**30
_WEEK: Final = timedelta(weeks=1)


class TraceError(ValueError):
    """A file of recorded usage that cannot be read; the message names the workload."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Recorded usage of one workload."""

    workload: str
    start: datetime
    trace: Trace
    size: Allocation | None = None
    """Its present requests and limits; None if unknown."""

    @property
    def phase(self) -> timedelta:
        """The phase with which simulated weekdays and hours match the recording."""
        return (START - self.start) % _WEEK


@dataclass(frozen=True, slots=True)
class _Series:
    """One line of the file."""

    start: datetime
    step: timedelta
    values: tuple[float, ...]


def read_recordings(path: Path) -> list[Recording]:
    """Return all recordings of a file, in its order."""
    with open_lines(path) as lines:
        return parse_recordings(lines)


def open_lines(path: Path) -> TextIO:
    """Open a CSV file for reading; it is gzipped if its name ends in `.gz`."""
    if path.suffix == ".gz":
        return TextIOWrapper(gzip.open(path), encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def parse_recordings(lines: Iterable[str]) -> list[Recording]:
    """Return all recordings in the lines of a file, which begin with the header."""
    workloads: dict[str, dict[str, _Series]] = {}
    before = csv.field_size_limit(_LONGEST_FIELD)
    try:
        rows = csv.DictReader(lines)
        for missing in sorted(_COLUMNS - set(rows.fieldnames or ())):
            raise TraceError(f"there is no column {missing!r}")
        for row in rows:
            series = workloads.setdefault(row["workload"], {})
            series[row["resource"]] = _parse_series(row)
    finally:
        csv.field_size_limit(before)
    return [_join(workload, series) for workload, series in workloads.items()]


def _parse_series(row: Mapping[str, str]) -> _Series:
    try:
        unit = _UNITS[row["resource"]]
        start = datetime.fromtimestamp(int(row["start_unix"]), UTC)
        step = timedelta(seconds=int(row["step_seconds"]))
        return _Series(start, step, _parse_values(row["values"], unit))
    except (KeyError, ValueError) as error:
        raise TraceError(f"{row['workload']}: {error}") from error


def _parse_values(text: str, unit: float) -> tuple[float, ...]:
    words = text.split()
    try:
        numbers = msgspec.json.decode(f"[{','.join(words)}]", type=list[int])
    except msgspec.MsgspecError:
        # The fast decoder does not name the invalid word; `int` does.
        numbers = [int(word) for word in words]
    return tuple((unit * np.array(numbers, np.float64)).tolist())


def _join(workload: str, series: Mapping[str, _Series]) -> Recording:
    if len(series) != len(_UNITS):
        raise TraceError(f"{workload}: only {', '.join(series)}")
    cpu, memory = (series[resource] for resource in _UNITS)
    if (cpu.start, cpu.step) != (memory.start, memory.step):
        raise TraceError(f"{workload}: CPU and memory are of different times")
    try:
        return Recording(workload, cpu.start, Trace(cpu.values, memory.values, cpu.step))
    except ValueError as error:
        raise TraceError(f"{workload}: {error}") from error
