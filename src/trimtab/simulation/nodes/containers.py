"""The containers that run, in columns: what they may use, what they use, and which must die.

One turn evaluates all of them at once; only containers to which something happens are looked at
one by one, by others.
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
    """How much a container may use; a limit of zero is none, for the kubelet as for the kernel."""
    limits: Resources = allocation.limits or {}
    return limits.get(resource) or None


@dataclass(frozen=True, slots=True)
class Start:
    """A start that is under way."""

    startup: Startup
    counted_from: datetime
    """When the work that is left begins, or began."""
    cpu_seconds_left: float
    millicores: int
    """What it may use."""

    @classmethod
    def begin(cls, startup: Startup, now: datetime, allocation: Allocation) -> Self:
        """The start of a container that begins to run now."""
        millicores = _usable(startup, allocation)
        return cls(startup, now + startup.delay, startup.work_cpu_seconds, millicores)

    @property
    def ready_at(self) -> datetime:
        """When the container will be ready, if nothing changes."""
        seconds = self.cpu_seconds_left * 1000 / self.millicores
        return self.counted_from + timedelta(seconds=seconds)

    @property
    def burnt_millicores(self) -> int:
        """What the start would use, as long as there is work to do."""
        return self.startup.max_millicores if self.startup.work_cpu_seconds else 0

    def resized(self, now: datetime, allocation: Allocation) -> Self:
        """The same start with other resources from now on."""
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


@dataclass(frozen=True, slots=True)
class ContainerName:
    """Which container a row is about."""

    namespace: str
    pod: str
    uid: str
    container: str


@dataclass(frozen=True, slots=True)
class MeasuredUsage:
    """What was used when it was last measured."""

    at: datetime
    rows: NDArray[np.int64]
    runs: NDArray[np.int64]
    """Which run of the container each reading belongs to."""
    cpu_millicores: NDArray[np.int64]
    memory_bytes: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Excess:
    """A container that wants more memory than it may have."""

    container: ContainerName
    memory_bytes: int


class Running:
    """All containers of all nodes that have been started."""

    def __init__(self, demand: ContainerDemand) -> None:
        self.demand = demand
        self.readings: MeasuredUsage | None = None
        self.throttled_millicore_seconds = 0
        """The CPU time that containers were kept from using by their limits."""
        self._data = np.zeros(demand.capacity, _ROW)
        self._names: dict[int, ContainerName] = {}
        self._runs = count(_NOT_RUNNING + 1)

    # One by one

    def add(self, name: ContainerName, load: Load, *, node: int, now: datetime) -> int:
        """The row of a container, which does not run yet."""
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
        """Let a container run, with all its memory free."""
        self.demand.restart(row, now)
        self._data["run"][row] = next(self._runs)
        self._data["memory"][row] = 0.0

    def stop(self, row: int) -> None:
        """Let a container run no more."""
        self._data["run"][row] = _NOT_RUNNING
        self._data["burnt_millicores"][row] = 0.0

    def allow(self, row: int, allocation: Allocation) -> None:
        """Let a container have these resources."""
        requests = allocation.requests or {}
        self._data["cpu_limit"][row] = limit_of(allocation, Resource.CPU) or np.inf
        self._data["memory_limit"][row] = limit_of(allocation, Resource.MEMORY) or np.inf
        self._data["memory_request"][row] = requests.get(Resource.MEMORY, 0)

    def burn(self, row: int, millicores: int) -> None:
        """Let a container use so much CPU whatever its load says; 0 lets it follow its load."""
        self._data["burnt_millicores"][row] = millicores

    def memory_of(self, row: int) -> int:
        """What a container used when it was last measured in this run; 0 if it was not."""
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
        """Take the readings of this moment; what is returned wants more than it may have.

        Nodes that cannot be reached tell nothing, and nothing happens there.
        """
        data = self._data
        cpu, memory = self.demand.evaluate(now)
        memory = np.floor(memory * memory_factor)
        is_on = (data["run"] != _NOT_RUNNING) & is_reachable[data["node"]]
        burnt = data["burnt_millicores"]
        wanted = np.where(burnt > 0, burnt, cpu)
        used = np.minimum(wanted, data["cpu_limit"])
        # Whole numbers have the same sum in whatever order a machine adds them up.
        lost = np.floor(is_on * (wanted - used) * span.total_seconds()).astype(np.int64)
        self.throttled_millicore_seconds += int(lost.sum())
        exceeds = is_on & (memory > data["memory_limit"])
        (rows,) = np.nonzero(is_on & ~exceeds)
        data["memory"][rows] = memory[rows]
        self.readings = MeasuredUsage(
            at=now,
            rows=rows,
            runs=data["run"][rows],
            cpu_millicores=used[rows].astype(np.int64),
            memory_bytes=memory[rows].astype(np.int64),
        )
        (dying,) = np.nonzero(exceeds)
        return [Excess(self._names[row], int(memory[row])) for row in dying.tolist()]

    def memory_by_node(self, nodes: int) -> Floats:
        """What the containers of each node used together when they were last measured."""
        data = self._data
        used = data["memory"] * (data["run"] != _NOT_RUNNING)
        return np.bincount(data["node"], weights=used, minlength=nodes).astype(np.float64)

    def places_of(self, readings: MeasuredUsage) -> NDArray[np.int64]:
        """Which readings are about a run that still goes on."""
        (places,) = np.nonzero(self._data["run"][readings.rows] == readings.runs)
        return places

    def names_of(self, rows: NDArray[np.int64]) -> list[ContainerName]:
        """Which containers these rows are about."""
        return [self._names[row] for row in rows.tolist()]
