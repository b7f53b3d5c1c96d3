"""Checks how fast pods are evicted in the whole cluster."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from trimtab.simulation.calm import sets_clock
from trimtab.simulation.facts import Fact, FaultBegan, FaultEnded, PodEvicted
from trimtab.simulation.hindsight import Hindsight
from trimtab.simulation.rules import Checker, Rules
from trimtab.simulation.world import World

_NEARLY_ONE: Final = 1 - 1e-6
"""Virtual time is counted in microseconds."""


class EvictionRate(Checker):
    """Never are more pods evicted than the rate and its burst allow, whoever evicts them (D14)."""

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._tokens = float(rules.eviction_burst)
        self._counted_at: datetime | None = None

    def observe(self, fact: Fact) -> Iterator[str]:
        """An eviction that came too early."""
        match fact:
            case FaultBegan(fault=fault) | FaultEnded(fault=fault) if sets_clock(fault):
                # By a clock that jumps ahead enough time has passed.
                self._tokens = float(self.rules.eviction_burst)
            case PodEvicted(at=at, actor=actor, pod=pod):
                self._refill(at)
                if self._tokens < _NEARLY_ONE:
                    yield f"{actor} evicted {pod.namespace}/{pod.name} too soon after others"
                else:
                    self._tokens -= 1
            case _:
                return

    def _refill(self, now: datetime) -> None:
        passed = 0.0 if self._counted_at is None else (now - self._counted_at).total_seconds()
        self._counted_at = now
        refilled = self._tokens + passed * self.rules.eviction_rate
        self._tokens = min(float(self.rules.eviction_burst), refilled)
