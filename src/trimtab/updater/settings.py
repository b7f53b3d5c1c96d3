"""Settings of the updater, for operators."""

from dataclasses import dataclass, field
from datetime import timedelta

from trimtab.core.guards.rate_limit import PaceSettings
from trimtab.core.model import validation
from trimtab.core.model.hpa import HpaConflict
from trimtab.core.updates.plan_settings import PlanSettings


def _careful_plans() -> PlanSettings:
    # As many evictions of a workload as may miss are also the maximum that may be open: with a
    # broken webhook no workload ever loses more pods than that (F16).
    return PlanSettings(max_unproven=PlanSettings().max_misses)


@dataclass(frozen=True, slots=True)
class UpdaterSettings:
    """The updater's settings; flags of the original have its defaults, but for the pace (D14)."""

    plan: PlanSettings = field(default_factory=_careful_plans)
    """Settings of plans; `paused` in it is the switch that stops all acts."""
    pace: PaceSettings = field(default_factory=PaceSettings)
    """Maximum rate of evictions, and also of resizes."""
    interval: timedelta = timedelta(minutes=1)
    """`--updater-interval`: interval of plans of everything."""
    gathering: timedelta = timedelta(milliseconds=500)
    """Time for which changes of pods are gathered before the part that they concern is planned."""
    telling_after: timedelta = timedelta(seconds=5)
    """Delay of conditions after a plan: by then the first acts are answered."""
    uses_admission_status: bool = True
    """`--use-admission-controller-status`: True to change nothing while admission is absent."""
    admission_lease_name: str = "vpa-admission-controller"
    """`--admission-controller-status-lease-name`."""
    admission_lease_namespace: str = "kube-system"
    """`--admission-controller-status-lease-namespace`."""
    admission_lease_timeout: timedelta = timedelta(minutes=1)
    """`--admission-controller-status-lease-timeout`."""
    resizes_in_place: bool = True
    """True to resize pods in place where the cluster can do that."""
    caps_to_nodes: bool = True
    """`--cap-to-largest-node`: True to keep every pod within the largest node."""
    hpa_conflict: HpaConflict = HpaConflict.HOLD
    """`--hpa-conflict`: treatment of resources on which a horizontal autoscaler scales."""
    max_boosted_per_node: int = 0
    """`--max-boosted-pods-per-node`: beyond it boosts end at once; 0 for any number."""
    namespace: str = ""
    """`--vpa-object-namespace`: the only namespace that is watched; empty for all."""
    ignored_namespaces: frozenset[str] = frozenset()
    """`--ignored-vpa-object-namespaces`."""
    concurrency: int = 16
    """Maximum number of requests in flight."""
    max_view_age: timedelta = timedelta(minutes=5)
    """Nothing is planned on views that are older."""

    def __post_init__(self) -> None:
        """Refuse invalid settings."""
        validation.require_interval("interval", self.interval)
        validation.require_interval("admission_lease_timeout", self.admission_lease_timeout)
        validation.require_interval("max_view_age", self.max_view_age)
        validation.require_at_least("gathering", self.gathering.total_seconds(), 0)
        validation.require_at_least("telling_after", self.telling_after.total_seconds(), 0)
        validation.require_at_least("max_boosted_per_node", self.max_boosted_per_node, 0)
        validation.require_at_least("concurrency", self.concurrency, 1)
        validation.require_one_scope(self.namespace, self.ignored_namespaces)
