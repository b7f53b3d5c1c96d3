"""Containers: the state of each running container between two samples.

A container is a row: the aggregate it feeds, the times of its last samples, and its current memory
window. A pod whose labels change feeds other aggregates from then on. The window that it leaves
behind is parked, and resumes if the pod comes back to those labels: a peak is replaced only where
it was booked.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.core.histogram.buckets import Floats, Ints
from trimtab.core.histogram.memory_peaks import Windows
from trimtab.core.histogram.row_table import Rows
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.usage.pressure import LatestPressure

_BLANK: Final = np.array(
    (-1, -np.inf, -np.inf, np.nan, 0.0, 0.0, -np.inf, np.nan, np.nan, np.nan, np.nan, 0, -np.inf),
    dtype=[
        # Where its samples go, and the times of the last ones; -inf before the first.
        ("aggregate", np.int64),
        ("last_cpu", np.float64),
        ("last_memory", np.float64),
        # The current memory window (`memory_peaks.Windows`).
        ("window_end", np.float64),
        ("usage_peak", np.float64),
        ("oom_peak", np.float64),
        # Samples up to this time belong to an earlier pod of the same name.
        ("born", np.float64),
        # Requests and limits in millicores and bytes.
        ("cpu", np.float64),
        ("memory", np.float64),
        ("cpu_limit", np.float64),
        ("memory_limit", np.float64),
        # The number of the pod's name; only while samples are logged.
        ("pod", np.int64),
        # CPU up to this time is that of a start, or boosted.
        ("start_until", np.float64),
    ],
)
REQUESTS: Final = {Resource.CPU: "cpu", Resource.MEMORY: "memory"}
"""The columns of containers' requests, in millicores and bytes; NaN for no request."""
LIMITS: Final = {Resource.CPU: "cpu_limit", Resource.MEMORY: "memory_limit"}
"""The columns of their limits."""


@dataclass(frozen=True, slots=True)
class PodName:
    """Identity of a pod."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ContainerMemory:
    """The state of one container that outlives a restart; times are seconds."""

    last_cpu: float = -math.inf
    """Times of its last samples (this and `last_memory`); -inf where there was none."""
    last_memory: float = -math.inf
    window_end: float | None = None
    """The end of its current window; None before the first reading."""
    usage_peak: float = 0.0
    oom_peak: float = 0.0
    is_saved: bool = False
    """True if a checkpoint of that moment holds the window's peak: it does once that is closed."""

    @property
    def peak(self) -> float:
        """The peak that is booked for the window."""
        return max(self.usage_peak, self.oom_peak)


class Containers:
    """All tracked containers, as rows."""

    def __init__(self) -> None:
        self._rows = Rows(_BLANK)
        self._parked: dict[int, dict[int, Windows]] = {}
        self.pressure = LatestPressure()
        """The newest reading of pressure of each row."""

    def __len__(self) -> int:
        return len(self._rows)

    def floats(self, column: str) -> Floats:
        """Return a column of numbers; it is stale once another container was added."""
        return self._rows.data[column]

    def copy_rows(self, rows: Ints) -> np.ndarray:
        """Return copies of some rows."""
        copies: np.ndarray = self._rows.data[rows]
        return copies

    def put_rows(self, rows: Ints, copies: np.ndarray) -> None:
        """Replace some rows by copies of earlier."""
        self._rows.data[rows] = copies

    @property
    def aggregate(self) -> Ints:
        """The aggregate that each row feeds; -1 for unused rows."""
        return self._rows.data["aggregate"]

    def add(self, aggregate: int, born: float = -math.inf) -> int:
        """Add a container that feeds an aggregate; samples from before its birth are not its own.

        Its pod may have the name of an earlier one, and a late answer may still report that one.
        """
        row = self._rows.allocate()
        self.aggregate[row] = aggregate
        # A sample of that very moment counts.
        self.floats("born")[row] = math.nextafter(born, -math.inf)
        return row

    def move(self, row: int, aggregate: int) -> None:
        """Make a container feed another aggregate, in the window that it last had there."""
        here = np.array([row])
        # A peak can be replaced only where it was booked, so the window stays with its aggregate.
        left = self.windows(here)
        parked = self._parked.setdefault(row, {})
        if not np.isnan(left.end[0]):
            parked[int(self.aggregate[row])] = left
        self.aggregate[row] = aggregate
        self.put_windows(here, parked.pop(aggregate, _NO_WINDOW))

    def outdate(self, row: int, seconds: float) -> None:
        """Make readings of a container count only if they are newer than `seconds`."""
        for column in ("last_cpu", "last_memory"):
            self.floats(column)[row] = max(self.floats(column)[row], seconds)

    def recall(self, row: int, now: float) -> ContainerMemory:
        """Return the state of a container, to be remembered at that moment."""
        # All fields at once: reading them one by one takes five times as long.
        # In the order of `_BLANK`.
        _, last_cpu, last_memory, end, usage_peak, oom_peak, *_ = self._rows.data[row].item()
        return ContainerMemory(
            last_cpu,
            last_memory,
            None if math.isnan(end) else end,
            usage_peak,
            oom_peak,
            end <= now,
        )

    def resume(self, row: int, memory: ContainerMemory) -> None:
        """Give a new container the state that was remembered of it."""
        record = self._rows.data[row]
        record["last_cpu"] = memory.last_cpu
        record["last_memory"] = memory.last_memory
        record["window_end"] = np.nan if memory.window_end is None else memory.window_end
        record["usage_peak"] = memory.usage_peak
        record["oom_peak"] = memory.oom_peak

    def put_requests(self, row: int, requests: Resources, limits: Resources) -> None:
        """Note the requests and limits of a container."""
        for columns, amounts in ((REQUESTS, requests), (LIMITS, limits)):
            for resource, column in columns.items():
                self.floats(column)[row] = amounts.get(resource, np.nan)

    @property
    def pods(self) -> Ints:
        """The numbers of the pods' names, 0 where none was noted."""
        return self._rows.data["pod"]

    def remove(self, row: int) -> None:
        """Forget a container."""
        self._rows.release(row)
        self.pressure.forget(row)
        self._parked.pop(row, None)

    def drop_parked(self, aggregate: int) -> None:
        """Forget the windows parked under an aggregate that no longer exists."""
        for parked in self._parked.values():
            parked.pop(aggregate, None)

    def windows(self, rows: Ints) -> Windows:
        """Return the current windows of some containers."""
        data = self._rows.data
        return Windows(data["window_end"][rows], data["usage_peak"][rows], data["oom_peak"][rows])

    def put_windows(self, rows: Ints, windows: Windows) -> None:
        """Make these the current windows of distinct containers."""
        data = self._rows.data
        data["window_end"][rows] = windows.end
        data["usage_peak"][rows] = windows.usage_peak
        data["oom_peak"][rows] = windows.oom_peak


_NO_WINDOW: Final = Windows(np.array([np.nan]), np.zeros(1), np.zeros(1))
