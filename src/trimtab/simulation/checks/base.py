"""The base of all checkers: one rule, the tolerances, and two moments to report violations.

A checker knows the true state of the world, and judges components by what they could have known.
A component may act on anything that was true within `staleness`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from trimtab.core.guards.disruption_budgets import DisruptionSettings
from trimtab.core.model.estimation import CostSettings, Estimator
from trimtab.core.sizing.startup_boost import MAX_BOOST_DURATION
from trimtab.core.usage.aggregates import UsageSettings
from trimtab.simulation.checks.hindsight import Hindsight
from trimtab.simulation.world.facts import Fact
from trimtab.simulation.world.world import World


@dataclass(frozen=True, slots=True)
class Rules:
    """Settings of the components that the checkers assume, and tolerances of the checkers."""

    staleness: timedelta = timedelta(minutes=10)
    """Maximum age of the state that a component acts on: the age of its view, and one tick."""
    disruption: DisruptionSettings = field(default_factory=DisruptionSettings)
    eviction_rate: float = 1.0
    """Evictions per second, in the whole cluster (D14)."""
    eviction_burst: int = 10
    cool_down: timedelta = timedelta(minutes=5)
    """Time for which a changed pod is left alone."""
    max_misses: int = 3
    """Number of changes without effect after which a workload is left alone (F16)."""
    status_lease: tuple[str, str] | None = ("kube-system", "vpa-admission-controller")
    """Namespace and name of the status lease that admission renews; None if the updater does not
    check it."""
    carried_out_within: timedelta = timedelta(minutes=2)
    """Longest time that a plan takes to be carried out."""
    lease_timeout: timedelta = timedelta(minutes=1)
    """Time after its renewal for which the status lease is valid."""
    clock_skew: timedelta = timedelta(minutes=4)
    """Largest difference between the clocks of two components when a fault sets clocks."""
    usage: UsageSettings = field(default_factory=UsageSettings)
    target_percentile: float = 0.9
    safety_margin: float = 0.15
    estimator: Estimator = Estimator.PERCENTILE
    """The estimator of autoscalers that choose none."""
    cost: CostSettings = field(default_factory=CostSettings)
    restart_span: timedelta = timedelta(minutes=10)
    """Time after a start in which targets must not fall below the published ones."""
    max_boost: timedelta = MAX_BOOST_DURATION
    boost_grace: timedelta = timedelta(minutes=10)
    """Time that a boost may last beyond its hard limit while everything works."""
    worse_for: timedelta = timedelta(minutes=5)
    """Longest time that a workload with fewer ready pods than before is still changed (D22)."""
    grown_within: timedelta = timedelta(minutes=3)
    """Longest wait of a pod for growth in place that restarts nothing (D17)."""
    rescued_within: timedelta = timedelta(minutes=3)
    """Longest wait for more memory of pods that are all OOM-killed."""
    quiet_from: datetime | None = None
    """Start of the quiet phase, in which nothing may happen; None while it is unknown."""


class Checker:
    """One rule, which the first line of each checker's docstring states."""

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        self.world = world
        self.past = past
        self.rules = rules

    def clock_doubt(self, now: datetime) -> timedelta:
        """Return how far apart the clocks of components may be now."""
        doubtful = self.past.calm.clocks_are_doubtful(now, self.rules.staleness)
        return self.rules.clock_skew if doubtful else timedelta()

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report violations by the fact that has just happened."""
        del fact
        yield from ()

    def check(self) -> Iterator[str]:
        """Report violations in the current state of the world."""
        yield from ()
