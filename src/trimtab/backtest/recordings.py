"""The past: recordings of workloads from what a metrics store remembers of their pods.

All pods of a workload are given the same size. The need of a workload in a step is therefore the
usage of its neediest pod. Pods without a known owner belong together if their names differ only
in the suffix that controllers append.
"""

import csv
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

import numpy as np

from trimtab.backtest.demand import Flaws, Reading, rates, record
from trimtab.cluster.errors import TooMuchHistoryError
from trimtab.cluster.ports import HistorySource
from trimtab.core.model.pods import Allocation, Pod
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.usage import history_samples
from trimtab.core.usage.history_samples import PastUsage, PodTrace, Shard
from trimtab.simulation.load.traces import Recording, TraceError

_MADE_UP: Final = "[bcdfghjklmnpqrstvwxz2456789]"
"""Characters from which API servers make names."""
_SUFFIX: Final = re.compile(rf"(?:-{_MADE_UP}{{6,10}})?-{_MADE_UP}{{5}}$|-\d+$")
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_Key: TypeAlias = tuple[str, str]
"""A workload and one of its containers."""


@dataclass(frozen=True, slots=True)
class Past:
    """Usage and pods that were read of one namespace."""

    namespace: str
    usage: Mapping[Resource, Sequence[PastUsage]]
    pods: Sequence[PodTrace]
    step: timedelta


async def read_past(source: HistorySource, shards: Iterable[Shard]) -> Past:
    """Read all parts of one namespace's history."""
    parts = list(shards)
    whole = Shard(parts[0].namespace, parts[0].begin, parts[-1].end, parts[0].step)
    usage: dict[Resource, list[PastUsage]] = {
        resource: [one for part in parts for one in await _fetch(source, resource, part)]
        for resource in BOTH
    }
    return Past(whole.namespace, usage, await source.fetch_pods(whole), whole.step)


async def _fetch(source: HistorySource, resource: Resource, shard: Shard) -> list[PastUsage]:
    """Fetch usage; split a part that is too large for one query into shorter ones."""
    try:
        return [await source.fetch_usage(resource, shard)]
    except TooMuchHistoryError:
        halves = history_samples.halve(shard)
        if not halves:
            raise
    return [one for half in halves for one in await _fetch(source, resource, half)]


def recordings_of(
    past: Past, live: Sequence[Pod] = (), *, only_live: bool = False
) -> tuple[list[Recording], Flaws]:
    """Make a recording of each container of each workload, or only of those of live pods.

    Return the flaws of the readings too. Live pods provide the current requests and limits.
    """
    owners = {trace.pod: trace.owners[-1][1] for trace in past.pods if trace.owners}
    sizes = _sizes_of(live, owners)
    chosen = {workload for workload, _ in sizes}
    cpu, memory = (_by_container(past.usage[resource], owners) for resource in BOTH)
    recordings, flaws = [], Flaws()
    for workload, container in sorted(cpu.keys() & memory.keys()):
        if only_live and workload not in chosen:
            continue
        name = f"{past.namespace}/{workload}/{container}"
        key = workload, container
        recording, flaw = record(name, _neediest(cpu[key]), _neediest(memory[key]), past.step)
        flaws += flaw
        if recording is not None:
            recordings.append(replace(recording, size=sizes.get(key)))
    return recordings, flaws


def _sizes_of(live: Iterable[Pod], owners: Mapping[str, str]) -> dict[_Key, Allocation]:
    """Return the sizes of containers today; of several pods of a workload the newest one counts."""
    return {
        (owners.get(pod.name, workload_of(pod.name)), container.name): container.spec
        for pod in sorted(live, key=lambda pod: pod.created_at or _LONG_AGO)
        for container in pod.containers
    }


def workload_of(pod: str) -> str:
    """Return the name of a pod without the suffix that controllers append."""
    return _SUFFIX.sub("", pod) or pod


def _by_container(
    usages: Iterable[PastUsage], owners: Mapping[str, str]
) -> dict[_Key, list[Reading]]:
    """Return the usage of all pods of each workload, by container."""
    found: dict[_Key, list[Reading]] = {}
    for usage in usages:
        ends = np.searchsorted(usage.owners, np.arange(len(usage.containers)), side="right")
        begin = 0
        for (pod, container), end in zip(usage.containers, ends.tolist(), strict=True):
            key = owners.get(pod, workload_of(pod)), container
            reading = Reading(usage.times[begin:end], usage.values[begin:end])
            found.setdefault(key, []).append(reading)
            begin = end
    return found


def _neediest(readings: Sequence[Reading]) -> Reading:
    """Return the largest usage of several pods at each moment; `record` drops absurd values."""
    times = np.concatenate([reading.times for reading in readings])
    values = np.concatenate([reading.values for reading in readings])
    # NaN comes last, so that a number hides it.
    order = np.lexsort((-values, times))
    times, values = times[order], values[order]
    is_first = np.ones(len(times), np.bool_)
    is_first[1:] = times[1:] != times[:-1]
    return Reading(times[is_first], values[is_first])


_FORMS: Final = (
    "a file has the columns time, workload, one of CPU and one of memory,"
    " or workload, resource, start_unix, step_seconds and values"
)
_EARLIEST: Final = 0.0
_LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
STEP: Final = timedelta(minutes=5)
"""Length of a step, in which readings are aggregated."""
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
        """Return the readings in the order of time."""
        times, values = np.array(self.times), np.array(self.values) * scale
        order = np.argsort(times, kind="stable")
        return Reading(times[order], values[order])


def parse_samples(lines: Iterable[str]) -> tuple[list[Recording], Flaws]:
    """Return all recordings in the lines of a file with its header, and their flaws."""
    rows = csv.DictReader(lines)
    names = rows.fieldnames or ()
    for missing in [name for name in ("time", "workload") if name not in names]:
        raise TraceError(f"line 1: there is no column {missing!r}; {_FORMS}")
    cpu, memory = _only(names, _CPU), _only(names, _MEMORY)
    columns: dict[str, dict[str, _Column]] = {}
    for row in rows:
        number = rows.line_num
        if row["time"] is None or row["workload"] is None:
            raise TraceError(f"line {number}: no cell for time or workload")
        time = _parse_time(row["time"], number)
        of_workload = columns.setdefault(row["workload"], defaultdict(_Column))
        for name in (cpu, memory, *_SIZES):
            if cell := (row.get(name) or "").strip():
                of_workload[name].times.append(time)
                of_workload[name].values.append(_parse_number(cell, name, number))
    recordings, flaws = [], Flaws()
    for workload, cells in columns.items():
        used, resets = _usage(cells[cpu], cpu)
        recording, flaw = record(workload, used, cells[memory].reading(_MEMORY[memory]), STEP)
        flaws += flaw + Flaws(resets=resets)
        if recording is not None:
            recordings.append(replace(recording, size=_size(cells)))
    return recordings, flaws


def _size(cells: Mapping[str, _Column]) -> Allocation | None:
    """Return the size of a workload at the end of its recording, if the file has sizes."""
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
        seen = f"there are {', '.join(found)}" if found else f"the columns are {', '.join(names)}"
        raise TraceError(f"line 1: there must be one of the columns {', '.join(known)}; {seen}")
    return found[0]


def _parse_time(text: str, line: int) -> float:
    try:
        time = float(text)
    except ValueError:
        time = _parse_moment(text, line)
    if not _EARLIEST <= time <= _LATEST:
        raise TraceError(f"line {line}: time is {text!r}; it must be seconds from 1970 to 9999")
    return time


def _parse_moment(text: str, line: int) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise TraceError(
            f"line {line}: time is {text!r}; it must be seconds since the epoch or ISO 8601"
        ) from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _parse_number(text: str, name: str, line: int) -> float:
    try:
        number = float(text)
    except ValueError as error:
        raise TraceError(f"line {line}: {name} is {text!r}; it must be a number") from error
    # What a metrics store could not measure is NaN there; sizes are what somebody wrote.
    if name in _SIZES and not 0 <= number < math.inf:
        raise TraceError(f"line {line}: {name} is {text!r}; it must not be below zero")
    return number
