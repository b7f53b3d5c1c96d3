"""Running containers, in columns: their limits, their usage, and those that exceed memory.

One turn evaluates all of them at once. Other modules handle single containers, and only those to
which something happens.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from trimtab.core.model.pods import Allocation
from trimtab.core.model.resources import Resource, Resources
from trimtab.simulation.load.demand import ContainerDemand, Floats
from trimtab.simulation.world.loads import Load
from trimtab.simulation.world.objects import Startup


def limit_of(allocation: Allocation, resource: Resource) -> int | None:
    """Return the limit of a container; zero means no limit, as for the kubelet and the kernel."""
    limits: Resources = allocation.limits or {}
    return limits.get(resource) or None


@dataclass(frozen=True, slots=True)
class Start:
    """A start of a container that is not ready yet."""

    startup: Startup
    counted_from: datetime
    """Time at which the remaining work begins or began."""
    cpu_seconds_left: float
    millicores: int
    """CPU that the start may use."""

    @classmethod
    def begin(cls, startup: Startup, now: datetime, allocation: Allocation) -> Self:
        """Return the start of a container that begins to run now."""
        millicores = _usable(startup, allocation)
        return cls(startup, now + startup.delay, startup.work_cpu_seconds, millicores)

    @property
    def ready_at(self) -> datetime:
        """Time at which the container will be ready, if nothing changes."""
        seconds = self.cpu_seconds_left * 1000 / self.millicores
        return self.counted_from + timedelta(seconds=seconds)

    @property
    def burnt_millicores(self) -> int:
        """CPU that the start would use without a limit; 0 if it has no work to do."""
        return self.startup.max_millicores if self.startup.work_cpu_seconds else 0

    def resized(self, now: datetime, allocation: Allocation) -> Self:
        """Return the same start with other resources from now on."""
        worked = max(now - self.counted_from, timedelta()) / timedelta(seconds=1)
        left = max(self.cpu_seconds_left - worked * self.millicores / 1000, 0.0)
        return replace(
            self,
            counted_from=max(now, self.counted_from),
            cpu_seconds_left=left,
            millicores=_usable(self.startup, allocation),
        )


def _usable(startup: Startup, allocation: Allocation) -> int:
    limit = limit_of(allocation, Resource.CPU)
    most = startup.max_millicores
    return max(1, most if limit is None else min(most, limit))


_ROW: Final = np.dtype(
    [
        # The number of the present run, 0 while stopped: a reading of an earlier run is not shown.
        ("run", np.int64),
        ("node", np.int64),
        ("cpu_limit", np.float64),
        ("memory_limit", np.float64),
        ("memory_request", np.float64),
        ("burnt_millicores", np.float64),
        ("memory", np.float64),
    ]
)
_NOT_RUNNING: Final = 0
_RECLAIMED_FROM: Final = 0.85
"""Part of the memory limit from which on the kernel takes memory back."""


@dataclass(frozen=True, slots=True)
class ContainerName:
    """Identity of the container in a row."""

    namespace: str
    pod: str
    uid: str
    container: str


@dataclass(frozen=True, slots=True)
class MeasuredUsage:
    """Usage of all containers at the last measurement."""

    at: datetime
    rows: NDArray[np.int64]
    runs: NDArray[np.int64]
    """The run of the container to which each reading belongs."""
    cpu_millicores: NDArray[np.int64]
    memory_bytes: NDArray[np.int64]
    throttled: Floats
    """Part of the time in which each container was at its CPU limit."""
    memory_waiting: Floats
    """Part of the time in which each container waited for memory close to its limit."""


@dataclass(frozen=True, slots=True)
class Excess:
    """A container that wants more memory than it may have."""

    container: ContainerName
    memory_bytes: int


def _waiting(memory: Floats, limits: Floats) -> Floats:
    """Return the part of the time that containers wait while the kernel takes memory back."""
    waiting: Floats = np.clip((memory / limits - _RECLAIMED_FROM) / (1 - _RECLAIMED_FROM), 0.0, 1.0)
    return waiting


class Running:
    """All containers of all nodes that have been started."""

    def __init__(self, demand: ContainerDemand) -> None:
        self.demand = demand
        self.readings: MeasuredUsage | None = None
        self.throttled_millicore_seconds = 0
        """CPU time that limits have kept containers from using."""
        self._data = np.zeros(demand.capacity, _ROW)
        self._names: dict[int, ContainerName] = {}
        self._runs = count(_NOT_RUNNING + 1)

    # One by one

    def add(self, name: ContainerName, load: Load, *, node: int, now: datetime) -> int:
        """Add a container that does not run yet, and return its row."""
        row = self.demand.add(load, now)
        missing = self.demand.capacity - len(self._data)
        if missing:
            self._data = np.concatenate([self._data, np.zeros(missing, _ROW)])
        self._data[row] = np.zeros((), _ROW)
        self._data["node"][row] = node
        self._names[row] = name
        return row

    def remove(self, row: int) -> None:
        """Forget a container."""
        self.stop(row)
        self.demand.remove(row)
        del self._names[row]

    def start(self, row: int, now: datetime) -> None:
        """Start a container, with no memory in use."""
        self.demand.restart(row, now)
        self._data["run"][row] = next(self._runs)
        self._data["memory"][row] = 0.0

    def stop(self, row: int) -> None:
        """Stop a container."""
        self._data["run"][row] = _NOT_RUNNING
        self._data["burnt_millicores"][row] = 0.0

    def allow(self, row: int, allocation: Allocation) -> None:
        """Set the resources of a container."""
        requests = allocation.requests or {}
        self._data["cpu_limit"][row] = limit_of(allocation, Resource.CPU) or np.inf
        self._data["memory_limit"][row] = limit_of(allocation, Resource.MEMORY) or np.inf
        self._data["memory_request"][row] = requests.get(Resource.MEMORY, 0)

    def burn(self, row: int, millicores: int) -> None:
        """Fix the CPU usage of a container; 0 makes it follow its load again."""
        self._data["burnt_millicores"][row] = millicores

    def memory_of(self, row: int) -> int:
        """Return the last measured memory of a container in this run; 0 if there is none."""
        return int(self._data["memory"][row])

    # All at once

    def measure(
        self,
        now: datetime,
        span: timedelta,
        *,
        is_reachable: NDArray[np.bool_],
        memory_factor: float = 1.0,
    ) -> list[Excess]:
        """Measure all containers, and return those that exceed their memory limit.

        Unreachable nodes report no readings, and none of their containers is killed.
        """
        data = self._data
        cpu, memory = self.demand.evaluate(now)
        memory = np.floor(memory * memory_factor)
        # float64[rows] and bool[rows] throughout: one pass for all containers of the cluster.
        is_on = (data["run"] != _NOT_RUNNING) & is_reachable[data["node"]]
        burnt = data["burnt_millicores"]
        # While a container starts, the work of its start stands in for its load.
        wanted = np.where(burnt > 0, burnt, cpu)
        # Within a turn the demand of a load may be above its mean half of the time, and below it
        # in the other half. Both are limited, so usage is below the limit while it throttles.
        uneven = np.where(burnt > 0, 0.0, self.demand.uneven())
        above, below = wanted * (1 + uneven), wanted * (1 - uneven)
        limit = data["cpu_limit"]
        used = (np.minimum(above, limit) + np.minimum(below, limit)) / 2
        throttled = (above > limit) / 2 + (below > limit) / 2
        # Integers have the same sum in any order, on every machine.
        lost = np.floor(is_on * (wanted - used) * span.total_seconds()).astype(np.int64)
        self.throttled_millicore_seconds += int(lost.sum())
        exceeds = is_on & (memory > data["memory_limit"])
        # A container that is killed now has no reading: it ended before it could be measured.
        (rows,) = np.nonzero(is_on & ~exceeds)
        data["memory"][rows] = memory[rows]
        self.readings = MeasuredUsage(
            at=now,
            rows=rows,
            runs=data["run"][rows],
            cpu_millicores=used[rows].astype(np.int64),
            memory_bytes=memory[rows].astype(np.int64),
            throttled=throttled[rows],
            memory_waiting=_waiting(memory[rows], data["memory_limit"][rows]),
        )
        (dying,) = np.nonzero(exceeds)
        return [Excess(self._names[row], int(memory[row])) for row in dying.tolist()]

    def memory_by_node(self, nodes: int) -> Floats:
        """Return the last measured memory of all containers on each node."""
        data = self._data
        used = data["memory"] * (data["run"] != _NOT_RUNNING)
        return np.bincount(data["node"], weights=used, minlength=nodes).astype(np.float64)

    def places_of(self, readings: MeasuredUsage) -> NDArray[np.int64]:
        """Return the positions of readings whose run has not ended."""
        (places,) = np.nonzero(self._data["run"][readings.rows] == readings.runs)
        return places

    def names_of(self, rows: NDArray[np.int64]) -> list[ContainerName]:
        """Return the names of the containers in these rows."""
        return [self._names[row] for row in rows.tolist()]
