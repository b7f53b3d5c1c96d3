"""Contenders: the policies that can be compared."""

from dataclasses import dataclass, field
from typing import Final, TypeAlias, assert_never

import numpy as np

from trimtab.backtest.autoscaler_policy import (
    AutoscalerPolicy,
    AutoscalerSettings,
    estimator_settings,
    original_settings,
)
from trimtab.backtest.demand import Demand
from trimtab.backtest.fleet import Fleet
from trimtab.backtest.policies import Clairvoyant, Policy, Static, hindsight
from trimtab.backtest.scenarios import Scenario, first_requests
from trimtab.core.histogram.buckets import Floats
from trimtab.core.model.autoscalers import Autoscaler, UpdateMode
from trimtab.core.model.estimation import Estimator

TEMPLATE: Final = Autoscaler("", "", mode=UpdateMode.RECREATE)
"""An autoscaler with no settings except that pods may be replaced."""


@dataclass(frozen=True, slots=True)
class Today:
    """Keeps the requests that were there at the start."""

    name: str = "today"


@dataclass(frozen=True, slots=True)
class AutoscalerContender:
    """An autoscaler, under some settings of the components."""

    name: str
    autoscaler: Autoscaler = TEMPLATE
    settings: AutoscalerSettings = field(default_factory=AutoscalerSettings)


@dataclass(frozen=True, slots=True)
class HindsightContender:
    """A constant that covers a fraction of all demand, chosen with knowledge of the future."""

    name: str
    cpu_fraction: float
    memory_fraction: float


@dataclass(frozen=True, slots=True)
class Knowing:
    """Knows the next hours: the lowest requests at this pace that cover the demand."""

    name: str
    hours: int


Contender: TypeAlias = Today | AutoscalerContender | HindsightContender | Knowing

_BUILT_IN: Final[tuple[Contender, ...]] = (
    Today(),
    AutoscalerContender("original", settings=original_settings()),
    AutoscalerContender("trimtab"),
    # One for each estimator of the recommender, under its own name.
    *(AutoscalerContender(each.value, settings=estimator_settings(each)) for each in Estimator),
    HindsightContender("static-p99", 0.99, 0.99),
    HindsightContender("static-p99-max", 0.99, 1.0),
    Knowing("clairvoyant-daily", 24),
    Knowing("clairvoyant-hourly", 1),
)
BUILT_IN: Final = {contender.name: contender for contender in _BUILT_IN}


def starting_requests(contender: Contender, demand: Demand, scenario: Scenario) -> Floats:
    """Return the requests at the start, before any usage was seen."""
    match contender:
        case Today() | AutoscalerContender():
            return first_requests(demand, scenario)
        case HindsightContender(_, cpu_fraction, memory_fraction):
            return hindsight(demand, cpu_fraction=cpu_fraction, memory_fraction=memory_fraction)
        case Knowing(_, hours):
            count = len(demand)
            return Clairvoyant(demand, hours).needs(np.arange(count), np.zeros(count, np.int64))
        case _:
            assert_never(contender)


def make_policy(contender: Contender, demand: Demand, fleet: Fleet) -> Policy:
    """Make the policy that sizes the containers of a fleet after the start."""
    match contender:
        case Today() | HindsightContender():
            return Static()
        case AutoscalerContender(_, autoscaler, settings):
            return AutoscalerPolicy(autoscaler, settings, demand.starts, fleet)
        case Knowing(_, hours):
            return Clairvoyant(demand, hours)
        case _:
            assert_never(contender)
