"""The real components, as copies that run in a simulation: nothing of them is changed for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from trimtab.cluster.election import ElectionSettings, Elector
from trimtab.recommender.loop import Recommender
from trimtab.recommender.settings import RecommenderSettings
from trimtab.simulation.assembly import Simulation
from trimtab.simulation.processes import Component, Surroundings
from trimtab.updater.loop import Updater
from trimtab.updater.settings import UpdaterSettings


@dataclass(frozen=True, slots=True)
class Stack:
    """Which components run, and how they are made for a simulation."""

    names: tuple[str, ...]
    build: Callable[[Simulation], Mapping[str, Component]]


def _build(simulation: Simulation) -> Mapping[str, Component]:
    del simulation
    return {"recommender": run_recommender, "updater": run_updater}


REAL: Final = Stack(("recommender", "updater"), _build)
"""Everything that a user would install."""


async def run_recommender(surroundings: Surroundings) -> None:
    """The recommender, while it leads."""
    recommender = Recommender(
        surroundings.cluster,
        surroundings.usage,
        settings=RecommenderSettings(),
        clock=surroundings.clock,
    )
    elector = _elector(surroundings, "vpa-recommender-lease")
    await elector.run(recommender.run)


async def run_updater(surroundings: Surroundings) -> None:
    """The updater, while it leads."""
    elector = _elector(surroundings, "vpa-updater")
    updater = Updater(
        surroundings.cluster,
        settings=UpdaterSettings(uses_admission_status=False),
        clock=surroundings.clock,
        may_act=elector.leads,
    )
    await elector.run(updater.run)


def _elector(surroundings: Surroundings, lease: str) -> Elector:
    settings = ElectionSettings(
        "kube-system",
        lease,
        surroundings.line.actor,
        # The original's spans, times five: renewals would be most of what happens otherwise.
        lease_duration=timedelta(seconds=75),
        renew_deadline=timedelta(seconds=50),
        retry_period=timedelta(seconds=10),
    )
    return Elector(
        surroundings.cluster,
        settings,
        clock=surroundings.clock,
        elapsed=surroundings.clock.elapsed,
    )
