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
    """A file of recorded usage that cannot be read; the message names line, column and value."""


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

    line: int
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
            raise TraceError(f"line 1: there is no column {missing!r}")
        for row in rows:
            series = workloads.setdefault(row["workload"], {})
            found = _parse_series(row, rows.line_num)
            first = series.setdefault(row["resource"], found)
            if first is not found:
                raise TraceError(
                    f"line {found.line}: a second line with {row['resource']} of"
                    f" {row['workload']}; the first is line {first.line}"
                )
    finally:
        csv.field_size_limit(before)
    return [_join(workload, series) for workload, series in workloads.items()]


def _parse_series(row: Mapping[str, str | None], line: int) -> _Series:
    cells = {name: row[name] for name in sorted(_COLUMNS)}
    short = [name for name, cell in cells.items() if cell is None]
    if short:
        raise TraceError(f"line {line}: no cell for the columns {', '.join(short)}")
    known = {name: cell or "" for name, cell in cells.items()}
    resource = known["resource"]
    if resource not in _UNITS:
        raise TraceError(
            f"line {line}: the resource of {known['workload']} is {resource!r};"
            f" it must be one of {', '.join(_UNITS)}"
        )
    start, seconds = (_parse_whole(known, name, line) for name in ("start_unix", "step_seconds"))
    try:
        return _Series(
            line,
            datetime.fromtimestamp(start, UTC),
            timedelta(seconds=seconds),
            _parse_values(known["values"], _UNITS[resource]),
        )
    except (OverflowError, OSError) as error:
        raise TraceError(
            f"line {line}: start_unix {start} or step_seconds {seconds} of {known['workload']} is"
            " no time in seconds"
        ) from error
    except ValueError as error:
        raise TraceError(
            f"line {line}: {resource} of {known['workload']}: {error};"
            " values must be whole numbers separated by spaces"
        ) from error


def _parse_whole(cells: Mapping[str, str], name: str, line: int) -> int:
    try:
        return int(cells[name])
    except ValueError as error:
        raise TraceError(
            f"line {line}: {name} of {cells['workload']} is {cells[name]!r};"
            " it must be a whole number of seconds"
        ) from error


def _parse_values(text: str, unit: float) -> tuple[float, ...]:
    words = text.split()
    try:
        numbers = msgspec.json.decode(f"[{','.join(words)}]", type=list[int])
    except msgspec.MsgspecError:
        # The fast decoder does not name the invalid word.
        numbers = [_parse_word(place, word) for place, word in enumerate(words, start=1)]
    amounts = np.array(numbers, np.float64)
    if amounts.min(initial=0.0) < 0:
        place = int(np.argmax(amounts < 0))
        raise ValueError(f"value {place + 1} is {numbers[place]}, which is below zero")
    return tuple((unit * amounts).tolist())


def _parse_word(place: int, word: str) -> int:
    try:
        return int(word)
    except ValueError as error:
        raise ValueError(f"value {place} is {word!r}") from error


def _join(workload: str, series: Mapping[str, _Series]) -> Recording:
    for missing in [resource for resource in _UNITS if resource not in series]:
        known = ", ".join(f"{each} (line {found.line})" for each, found in series.items())
        raise TraceError(f"{workload} has no line with {missing}, only {known}")
    cpu, memory = (series[resource] for resource in _UNITS)
    lines = f"of {workload}, lines {cpu.line} and {memory.line}"
    for name, of_cpu, of_memory in (
        ("start_unix", cpu.start, memory.start),
        ("step_seconds", cpu.step, memory.step),
    ):
        if of_cpu != of_memory:
            raise TraceError(f"{name} differs between CPU and memory {lines}; it must be the same")
    if len(cpu.values) != len(memory.values):
        raise TraceError(
            f"there are {len(cpu.values)} values of CPU and {len(memory.values)} of memory"
            f" {lines}; there must be as many"
        )
    if not cpu.values:
        raise TraceError(f"there are no values {lines}")
    if cpu.step <= timedelta():
        raise TraceError(f"step_seconds {lines} must be more than zero")
    return Recording(workload, cpu.start, Trace(cpu.values, memory.values, cpu.step))
