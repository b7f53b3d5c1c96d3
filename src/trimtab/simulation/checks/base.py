"""What every checker has in common: one rule, the spans it allows for, and two moments to speak up.

A checker knows the truth, and judges components by what they could have known: whatever was true
within `staleness` they may have believed in good faith.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from trimtab.core.guards.disruption_budgets import DisruptionSettings
from trimtab.core.sizing.startup_boost import MAX_BOOST_DURATION
from trimtab.core.usage.aggregates import UsageSettings
from trimtab.simulation.checks.hindsight import Hindsight
from trimtab.simulation.world.facts import Fact
from trimtab.simulation.world.world import World


@dataclass(frozen=True, slots=True)
class Rules:
    """What the checkers allow for: settings of the components, and how far off these may be."""

    staleness: timedelta = timedelta(minutes=10)
    """How old may be what a component acts on: the age of its view, and a tick to act in."""
    disruption: DisruptionSettings = field(default_factory=DisruptionSettings)
    eviction_rate: float = 1.0
    """Evictions a second, in the whole cluster (D14)."""
    eviction_burst: int = 10
    cool_down: timedelta = timedelta(minutes=5)
    """How long a pod that was changed is left alone."""
    max_misses: int = 3
    """So many changes may have no effect on a workload, before it is left alone (F16)."""
    status_lease: tuple[str, str] | None = ("kube-system", "vpa-admission-controller")
    """Namespace and name of the lease with which admission says that it lives; None if nobody
    asks for it."""
    carried_out_within: timedelta = timedelta(minutes=2)
    """How long a plan takes to be carried out."""
    lease_timeout: timedelta = timedelta(minutes=1)
    """How long after it was renewed that lease is believed."""
    clock_skew: timedelta = timedelta(minutes=4)
    """By how much the clocks of two components may differ when clocks are set."""
    usage: UsageSettings = field(default_factory=UsageSettings)
    target_percentile: float = 0.9
    safety_margin: float = 0.15
    restart_span: timedelta = timedelta(minutes=10)
    """How long after a start a recommender is held to what it said before."""
    max_boost: timedelta = MAX_BOOST_DURATION
    boost_grace: timedelta = timedelta(minutes=10)
    """How long after its hard limit a boost may last while everything works."""
    worse_for: timedelta = timedelta(minutes=5)
    """Longest time that changes go on in a workload with fewer ready pods than before (D22)."""
    grown_within: timedelta = timedelta(minutes=3)
    """Longest wait of a pod for growth in place that restarts nothing (D17)."""
    rescued_within: timedelta = timedelta(minutes=3)
    """Longest wait for more memory of pods that are all OOM-killed."""
    quiet_from: datetime | None = None
    """From when on nothing may happen any more; None while that is not known."""


class Checker:
    """One rule, which the docstring of each checker states in one sentence."""

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        self.world = world
        self.past = past
        self.rules = rules

    def clock_doubt(self, now: datetime) -> timedelta:
        """By how much the clocks of components may differ now."""
        doubtful = self.past.calm.clocks_are_doubtful(now, self.rules.staleness)
        return self.rules.clock_skew if doubtful else timedelta()

    def observe(self, fact: Fact) -> Iterator[str]:
        """What is wrong with what has just happened."""
        del fact
        yield from ()

    def check(self) -> Iterator[str]:
        """What is wrong with how things are now."""
        yield from ()
