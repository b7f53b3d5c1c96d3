"""Policies: they size containers while a replay plays their demand.

The baselines are here; the real decision code is in `autoscaler_policy.py`.
"""

from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from trimtab.backtest.demand import CPU, MEMORY, Demand, percentile
from trimtab.backtest.fleet import Fleet
from trimtab.core.histogram.buckets import Floats, Ints

_NOBODY: Final = np.zeros(0, np.int64)
_MINUTE: Final = 60.0


@dataclass(frozen=True, slots=True)
class PolicyReadings:
    """Usage readings of containers, those of one container together and in their order."""

    workloads: Ints
    amounts: Floats
    """By resource."""
    times: Floats


@dataclass(frozen=True, slots=True)
class PolicySituation:
    """Some workloads, each at its own moment."""

    workloads: Ints
    fleet: Fleet
    times: Floats
    """Seconds since the epoch."""
    minutes: Ints | int = 1
    """Minutes since the last choice for each of the workloads."""


@dataclass(frozen=True, slots=True)
class Choice:
    """New sizes for some workloads."""

    workloads: Ints
    requests: Floats
    """By resource."""
    limits: Floats
    in_place: bool = False
    """True if pods are resized in place, False if they are replaced."""
    retaken: Ints = field(default_factory=lambda: _NOBODY)
    """Workloads that should have changed within the step: it is taken again, by minutes."""


NO_CHOICE: Final = Choice(_NOBODY, np.zeros((2, 0)), np.zeros((2, 0)))


class Policy(Protocol):
    """Interface that a replay needs of a policy."""

    def observe(self, readings: PolicyReadings, /) -> None:
        """Take in what containers used."""
        ...

    def learn_kills(self, killed: PolicySituation, /) -> None:
        """Take in that containers were OOM-killed."""
        ...

    def choose(self, situation: PolicySituation, /) -> Choice:
        """Choose the workloads that get another size now."""
        ...

    def bounds(self, workloads: Ints, /) -> Floats:
        """Return lower and upper bounds of some workloads, by resource; NaN where none."""
        ...


class Static:
    """Changes nothing."""

    def observe(self, _: PolicyReadings, /) -> None:
        """Ignore the readings."""

    def learn_kills(self, _: PolicySituation, /) -> None:
        """Ignore the kills."""

    def choose(self, _: PolicySituation, /) -> Choice:
        """Choose no workload."""
        return NO_CHOICE

    def bounds(self, workloads: Ints, /) -> Floats:
        """Return NaN: this policy has no bounds."""
        return np.full((2, 2, len(workloads)), np.nan)


class Clairvoyant(Static):
    """Knows the future: requests what the next hours need, just before they begin."""

    def __init__(self, demand: Demand, hours: int) -> None:
        self._demand = demand
        self._span = hours * 3600 // demand.step_seconds
        self._cpu_fraction = 0.99

    def choose(self, situation: PolicySituation, /) -> Choice:
        """Choose all workloads whose next hours begin with the next minute."""
        workloads = situation.workloads
        elapsed = situation.times - self._demand.starts[workloads] + _MINUTE
        steps = np.floor(elapsed / self._demand.step_seconds).astype(np.int64)
        begins = elapsed % (self._span * self._demand.step_seconds) == 0
        due = begins & (steps < self._demand.lengths[workloads])
        requests = self.needs(workloads[due], steps[due])
        return Choice(workloads[due], requests, np.full_like(requests, np.inf))

    def needs(self, workloads: Ints, steps: Ints) -> Floats:
        """Return the needs of workloads over the span that begins at a step, by resource."""
        needed = np.zeros((2, len(workloads)))
        for place, (workload, step) in enumerate(zip(workloads, steps, strict=True)):
            coming = self._demand.values(int(workload))[step : step + self._span]
            needed[CPU, place] = percentile(coming[:, CPU], self._cpu_fraction)
            needed[MEMORY, place] = coming[:, MEMORY].max()
        return needed


def hindsight(demand: Demand, *, cpu_fraction: float, memory_fraction: float) -> Floats:
    """Return the constant requests that cover fractions of all demand, by resource and workload."""
    requests = np.zeros((2, len(demand)))
    for workload in range(len(demand)):
        values = demand.values(workload)
        requests[CPU, workload] = percentile(values[:, CPU], cpu_fraction)
        requests[MEMORY, workload] = percentile(values[:, MEMORY], memory_fraction)
    return requests
