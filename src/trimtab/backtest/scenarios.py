"""Scenarios: with what requests and limits a replay begins."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.backtest.demand import CPU, MEMORY, REQUEST, Demand, percentile
from trimtab.core.histogram.buckets import Floats

NO_LIMIT: Final = np.inf
_LEAST: Final = np.array([10.0, 32.0 * 1024 * 1024])
_USUAL: Final = 0.95


@dataclass(frozen=True, slots=True)
class Scenario:
    """Size of the first requests, and rule for limits."""

    name: str
    start: float
    """The first requests as a multiple of the 95th percentile of the first day."""
    memory_limit: float
    """The memory limit as a multiple of the request."""
    has_cpu_limit: bool = False
    """True if the CPU limit equals the request; there is none otherwise."""
    is_real: bool = False
    """True if current requests and limits are taken instead, wherever they are known."""


SCENARIOS: Final = {
    scenario.name: scenario
    for scenario in (
        Scenario("over-strict", 2.0, 1.0),
        Scenario("over-loose", 2.0, 1.5),
        Scenario("under-strict", 0.5, 1.0),
        Scenario("under-loose", 0.5, 1.5),
        Scenario("under-strict-cpucap", 0.5, 1.0, has_cpu_limit=True),
        Scenario("as-is", 2.0, 1.0, is_real=True),
    )
}


def first_requests(demand: Demand, scenario: Scenario) -> Floats:
    """Return the first requests of each workload, by resource and workload."""
    usual = [
        percentile(demand.values(each)[: demand.steps_per_day], _USUAL)
        for each in range(len(demand))
    ]
    wanted = np.maximum(np.trunc(scenario.start * np.array(usual)), _LEAST).T
    if not scenario.is_real:
        return np.asarray(wanted)
    # A request of zero becomes the least one, which is close to nothing.
    real = np.where(demand.sizes[REQUEST] == 0, _LEAST[:, np.newaxis], demand.sizes[REQUEST])
    return np.asarray(np.where(np.isnan(real), wanted, real))


def limits_of(requests: Floats, demand: Demand, scenario: Scenario) -> Floats:
    """Return the limits that go with requests in a scenario."""
    made_up = _made_up_limits(requests, scenario)
    if not scenario.is_real:
        return made_up
    of_today, limits = demand.sizes
    # Limits stay in proportion to requests, as in admission; no limit today means none later.
    ratios = np.divide(limits, of_today, out=np.full_like(limits, NO_LIMIT), where=limits > 0)
    return np.where(np.isnan(limits), made_up, np.round(requests * ratios))


def _made_up_limits(requests: Floats, scenario: Scenario) -> Floats:
    limits = np.full_like(requests, NO_LIMIT)
    limits[MEMORY] = np.trunc(requests[MEMORY] * scenario.memory_limit)
    if scenario.has_cpu_limit:
        limits[CPU] = requests[CPU]
    return limits
