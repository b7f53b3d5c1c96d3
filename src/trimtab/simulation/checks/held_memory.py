"""Explanations of held memory targets: what the estimator `cost` may hold for a container.

The arithmetic is that of decision 0063, one number at a time, and not the product's.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from trimtab.core.model.estimation import CostSettings

_DELAY = timedelta(minutes=1)
"""The kubelet reports the end of a container in whole seconds, and some time after it."""


@dataclass(slots=True)
class MemorySteps:
    """Facts about one container: its own request, and its OOM kills."""

    given: int = 0
    """The largest request that no component has set."""
    _stepped: float = 0.0
    """The largest amount that a step after an OOM kill explains."""
    _limits: set[int] = field(default_factory=set)
    """The limits in the present series of kills."""
    _last_kill: datetime | None = None

    def note_kill(self, limit: int, at: datetime, cost: CostSettings) -> None:
        """Note a kill at a limit: steps grow with each other limit of a series."""
        if self._last_kill is None or at - self._last_kill > cost.oom_repeat + _DELAY:
            self._limits.clear()
        self._last_kill = at
        self._limits.add(limit)
        repeated = min(len(self._limits) - 1, cost.most_oom_doublings)
        step = 1 + (cost.oom_step - 1) * 2**repeated
        self._stepped = max(self._stepped, limit * step, limit + cost.oom_step_bytes)

    def most(self, level: float, cost: CostSettings) -> float:
        """Return the largest target, given the highest level that usage or kills explain."""
        need = level * (1 + cost.memory_margin_fraction) + cost.memory_margin_bytes
        return max(need, cost.least_memory_bytes, self._stepped, self.given)
