"""Demand: what workloads needed over time, as arrays with a column for each workload."""

from collections.abc import Sequence

import numpy as np

from trimtab.core.buckets import Floats, Ints
from trimtab.core.pods import Allocation
from trimtab.core.records import dataclass
from trimtab.core.resources import BOTH
from trimtab.simulation.traces import Recording

CPU, MEMORY = range(len(BOTH))
"""Where each resource stands wherever both are columns."""
REQUEST, LIMIT = range(2)
"""Where each one stands in a size."""


class DemandError(ValueError):
    """Recordings that cannot be replayed together: says which and why."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What some workloads needed, each from its own start on."""

    workloads: tuple[str, ...]
    starts: Floats
    """When each one's first value was taken, in seconds since the epoch."""
    lengths: Ints
    """How many values each one has."""
    step_seconds: int
    """How long a value holds: a whole number of minutes."""
    amounts: Floats
    """By step, resource (millicores, bytes) and workload; zero once a recording is over."""
    sizes: Floats
    """Requests and limits of today, by resource and workload: NaN where nobody knows, zero where
    there is none."""

    def __len__(self) -> int:
        return len(self.workloads)

    @property
    def step_minutes(self) -> int:
        """The minutes for which a value holds."""
        return self.step_seconds // 60

    @property
    def steps_per_day(self) -> int:
        """How many values a day has."""
        return 86400 // self.step_seconds

    @property
    def days(self) -> int:
        """How many days the longest recording has, the last one begun included."""
        return -(-int(self.lengths.max(initial=0)) // self.steps_per_day)

    def values(self, workload: int) -> Floats:
        """All values of one workload, by step and resource."""
        return self.amounts[: self.lengths[workload], :, workload]

    def only(self, workloads: Sequence[int] | slice) -> "Demand":
        """Some of the workloads."""
        lengths = self.lengths[workloads]
        return Demand(
            tuple(np.array(self.workloads, dtype=object)[workloads]),
            self.starts[workloads],
            lengths,
            self.step_seconds,
            self.amounts[: lengths.max(initial=0), :, workloads],
            self.sizes[:, :, workloads],
        )


def gather(recordings: Sequence[Recording]) -> Demand:
    """The demand of recordings that all have the same step."""
    steps = {recording.trace.step for recording in recordings}
    if len(steps) != 1:
        raise DemandError("there must be recordings, and all of one resolution")
    seconds = int(steps.pop().total_seconds())
    if seconds % 60:
        raise DemandError(f"a value must hold for whole minutes, not for {seconds} s")
    lengths = [len(recording.trace.cpu_millicores) for recording in recordings]
    amounts = np.zeros((max(lengths), len(BOTH), len(recordings)))
    for column, (recording, length) in enumerate(zip(recordings, lengths, strict=True)):
        amounts[:length, CPU, column] = recording.trace.cpu_millicores
        amounts[:length, MEMORY, column] = recording.trace.memory_bytes
    return Demand(
        tuple(recording.workload for recording in recordings),
        np.array([recording.start.timestamp() for recording in recordings]),
        np.array(lengths),
        seconds,
        amounts,
        np.stack([_size(recording.size) for recording in recordings], axis=2),
    )


def _size(allocation: Allocation | None) -> Floats:
    """Requests and limits of one container, by resource."""
    if allocation is None:
        return np.full((2, len(BOTH)), np.nan)
    amounts = (allocation.requests or {}), (allocation.limits or {})
    return np.array([[float(each.get(resource, 0)) for resource in BOTH] for each in amounts])


def percentile(values: Floats, fraction: float) -> Floats:
    """The nearest-rank percentile over the first axis."""
    rank = max(int(np.ceil(fraction * len(values))) - 1, 0)
    return np.asarray(np.partition(values, rank, axis=0)[rank])
