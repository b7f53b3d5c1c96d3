"""The inspector: passes every fact to the checkers, and collects the violations they report."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from trimtab.simulation.checks.admission import AdmissionAlive, RequestBounds
from trimtab.simulation.checks.availability import Availability, EvictionLoops
from trimtab.simulation.checks.base import Checker, Rules
from trimtab.simulation.checks.boost_marks import BoostEnds, BoostGate, BoostMarks, RealBoosts
from trimtab.simulation.checks.boosts import Boosts
from trimtab.simulation.checks.convergence import Converged, CoolDown, Futility, Quiet
from trimtab.simulation.checks.counting import KillsCountedOnce, SamplesCountedOnce
from trimtab.simulation.checks.disruption import Disruption, EvictionRate, PodBudgets
from trimtab.simulation.checks.growth import PromptGrowth, PromptRescues, UpscaleEvictions
from trimtab.simulation.checks.hindsight import Hindsight
from trimtab.simulation.checks.histories import Histories, KeptCheckpoints, SteadyRestarts
from trimtab.simulation.checks.leaders import Leaders
from trimtab.simulation.checks.modes import HorizontalHolds, Modes
from trimtab.simulation.checks.new_pods import Acceptable, NodeRoom, Proportions, Sized
from trimtab.simulation.checks.recommendations import SoundRecommendations
from trimtab.simulation.checks.roles import Roles
from trimtab.simulation.world.facts import Fact
from trimtab.simulation.world.world import World

ALL: Final[tuple[type[Checker], ...]] = (
    Availability,
    EvictionLoops,
    Disruption,
    PodBudgets,
    EvictionRate,
    AdmissionAlive,
    Futility,
    CoolDown,
    Modes,
    RequestBounds,
    HorizontalHolds,
    Boosts,
    BoostMarks,
    BoostEnds,
    BoostGate,
    RealBoosts,
    Acceptable,
    Sized,
    Proportions,
    NodeRoom,
    PromptGrowth,
    PromptRescues,
    UpscaleEvictions,
    Leaders,
    Roles,
    Histories,
    KeptCheckpoints,
    SamplesCountedOnce,
    KillsCountedOnce,
    SoundRecommendations,
    SteadyRestarts,
    Converged,
    Quiet,
)
"""All checkers."""

MOST_KEPT: Final = 1000
"""Maximum number of violations kept; further ones add no information."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that was broken."""

    checker: str
    at: datetime
    detail: str

    def __str__(self) -> str:
        return f"{self.at:%a %H:%M:%S} {self.checker}: {self.detail}"


class Inspector:
    """Runs all checkers on a world from the inspector's creation."""

    def __init__(
        self,
        world: World,
        rules: Rules | None = None,
        checkers: tuple[type[Checker], ...] = ALL,
    ) -> None:
        self._world = world
        self._violations: list[Violation] = []
        chosen = rules or Rules()
        past = Hindsight(world, chosen.staleness)
        self._checkers = [make(world, past, chosen) for make in checkers]
        # Many checkers observe no facts, and there are tens of thousands of facts.
        self._observers = [
            each for each in self._checkers if type(each).observe is not Checker.observe
        ]
        world.subscribe(self._observe)

    def inspect(self) -> None:
        """Run the checkers on the current state of the world."""
        for checker in self._checkers:
            for detail in checker.check():
                self._complain(checker, detail)

    def expect_quiet(self) -> None:
        """Start the quiet phase now."""
        for checker in self._checkers:
            if isinstance(checker, Converged | Quiet):
                checker.begin()

    def violations(self) -> tuple[Violation, ...]:
        """Return the violations found so far."""
        return tuple(self._violations)

    def _observe(self, fact: Fact) -> None:
        for checker in self._observers:
            for detail in checker.observe(fact):
                self._complain(checker, detail)

    def _complain(self, checker: Checker, detail: str) -> None:
        if len(self._violations) < MOST_KEPT:
            name = type(checker).__name__
            self._violations.append(Violation(name, self._world.now(), detail))
