"""Settings of plans."""

from dataclasses import dataclass, field
from datetime import timedelta

from trimtab.core.changes.change import Thresholds
from trimtab.core.guards.disruption_budgets import DisruptionSettings
from trimtab.core.model import validation
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.sizing.startup_boost import MAX_BOOST_DURATION, UNSCHEDULABLE_FOR
from trimtab.core.updates.resize_or_evict import DEFERRED_FOR


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Settings of plans; flags that the original has keep its defaults."""

    thresholds: Thresholds = field(default_factory=Thresholds)
    disruption: DisruptionSettings = field(default_factory=DisruptionSettings)
    gates: FeatureGates = field(default_factory=FeatureGates)
    max_boost_duration: timedelta | None = MAX_BOOST_DURATION
    """`--max-boost-duration`; None for no limit."""
    boost_unschedulable_timeout: timedelta | None = UNSCHEDULABLE_FOR
    """`--boost-unschedulable-timeout`; None if no boost is given up for lack of room."""
    role_dwell: timedelta = timedelta(minutes=1)
    """`--role-dwell`: how long a pod must have its autoscaler before that one may shrink it."""
    cool_down: timedelta = timedelta(minutes=5)
    """Time in which a changed pod neither shrinks nor restarts, but to end OOM kills."""
    grow_only_under_requirements: bool = False
    """True if requirements that only ask for growth keep a resize from shrinking anything."""
    infeasible_retry_after: timedelta = timedelta(hours=1)
    """Time for which a resize that the node refused counts as impossible."""
    evict_after_deferred: timedelta = DEFERRED_FOR
    """Maximum time that a resize waits for room before an eviction replaces it."""
    degraded_after: timedelta | None = timedelta(minutes=5)
    """`--stop-degraded-after`: so long a changed workload may have fewer ready pods than before it
    is left alone; None for ever."""
    max_misses: int = 3
    """Number of changes without effect after which a workload is left alone."""
    max_unproven: int | None = None
    """Maximum number of evictions of one workload without a proven effect; None for any.

    It is one until a pod of the workload has the wanted size."""
    paused: bool = False
    """`--pause`: the updater plans changes and makes none."""
    evicts_unwillingly: bool = False
    """True if the updater evicts pods whose annotations ask not to be evicted."""
    surge_margin: float = 0.3
    """Maximum excess of the share of a namespace's pods that want a change over the usual one."""
    surge_min_pods: int = 50
    """Number of pods below which the share of one namespace alone is not judged."""

    def __post_init__(self) -> None:
        """Refuse values below their minimum."""
        spans = {
            "max_boost_duration": self.max_boost_duration or timedelta(),
            "boost_unschedulable_timeout": self.boost_unschedulable_timeout or timedelta(),
            "role_dwell": self.role_dwell,
            "cool_down": self.cool_down,
            "infeasible_retry_after": self.infeasible_retry_after,
            "evict_after_deferred": self.evict_after_deferred,
            "degraded_after": self.degraded_after or timedelta(),
        }
        for name, span in spans.items():
            validation.require_at_least(name, span.total_seconds(), 0)
        validation.require_at_least("max_misses", self.max_misses, 1)
        validation.require_at_least(
            "max_unproven", 1 if self.max_unproven is None else self.max_unproven, 1
        )
        validation.require_at_least("surge_margin", self.surge_margin, 0)
        validation.require_at_least("surge_min_pods", self.surge_min_pods, 0)
