"""Contenders: the policies that can be compared."""

from dataclasses import dataclass, field
from typing import Final, TypeAlias, assert_never

import numpy as np

from trimtab.backtest.autoscaler_policy import (
    AutoscalerPolicy,
    AutoscalerSettings,
    original_settings,
)
from trimtab.backtest.demand import Demand
from trimtab.backtest.policies import Clairvoyant, Policy, Static, hindsight
from trimtab.backtest.scenarios import Scenario, first_requests
from trimtab.core.histogram.buckets import Floats
from trimtab.core.model.autoscalers import Autoscaler, UpdateMode

TEMPLATE: Final = Autoscaler("", "", mode=UpdateMode.RECREATE)
"""An autoscaler that says nothing but that pods may be replaced."""


@dataclass(frozen=True, slots=True)
class Today:
    """Whatever was requested stays."""

    name: str = "today"


@dataclass(frozen=True, slots=True)
class AutoscalerContender:
    """An autoscaler, under some settings of the components."""

    name: str
    autoscaler: Autoscaler = TEMPLATE
    settings: AutoscalerSettings = field(default_factory=AutoscalerSettings)


@dataclass(frozen=True, slots=True)
class HindsightContender:
    """A constant that covers a part of all that came; nobody could have known it."""

    name: str
    cpu_fraction: float
    memory_fraction: float


@dataclass(frozen=True, slots=True)
class Knowing:
    """Knows the next hours: less cannot be requested at that pace without hurting anybody."""

    name: str
    hours: int


Contender: TypeAlias = Today | AutoscalerContender | HindsightContender | Knowing

BUILT_IN: Final = {
    contender.name: contender
    for contender in (
        Today(),
        AutoscalerContender("original", settings=original_settings()),
        AutoscalerContender("trimtab"),
        HindsightContender("static-p99", 0.99, 0.99),
        HindsightContender("static-p99-max", 0.99, 1.0),
        Knowing("clairvoyant-daily", 24),
        Knowing("clairvoyant-hourly", 1),
    )
}


def starting_requests(contender: Contender, demand: Demand, scenario: Scenario) -> Floats:
    """What is requested before anything was seen."""
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


def make_policy(contender: Contender, demand: Demand) -> Policy:
    """Who sizes the containers from then on."""
    match contender:
        case Today() | HindsightContender():
            return Static()
        case AutoscalerContender(_, autoscaler, settings):
            return AutoscalerPolicy(autoscaler, settings, demand.starts)
        case Knowing(_, hours):
            return Clairvoyant(demand, hours)
        case _:
            assert_never(contender)
