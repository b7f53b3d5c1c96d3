"""What an operator may tune about admission."""

from dataclasses import dataclass, field
from datetime import timedelta

from trimtab.core.model import validation
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.hpa import HpaConflict
from trimtab.core.sizing.boost_room import MAX_PRIORITY


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """The admission controller's settings; flags of the original have its defaults."""

    gates: FeatureGates = field(default_factory=FeatureGates)
    """`--feature-gates`."""
    max_boost_millicores: int | None = None
    """`--max-allowed-cpu-boost`; None for no limit."""
    max_boosted_priority: int = MAX_PRIORITY
    """`--max-boosted-priority`: pods above, which may preempt others, are not boosted."""
    caps_to_nodes: bool = True
    """`--cap-to-largest-node`: whether no pod becomes larger than the largest node."""
    hpa_conflict: HpaConflict = HpaConflict.HOLD
    """`--hpa-conflict`: whether what a horizontal autoscaler scales on is left as it is."""
    namespace: str = ""
    """`--vpa-object-namespace`; empty for all."""
    ignored_namespaces: frozenset[str] = frozenset()
    """`--ignored-vpa-object-namespaces`."""
    allows_overlapping: bool = False
    """`--allow-overlapping-autoscalers`: warn of them instead of refusing them."""
    status_lease_name: str = "vpa-admission-controller"
    """`--status-lease-name`."""
    status_lease_namespace: str = "kube-system"
    """`--status-lease-namespace`."""
    status_lease_interval: timedelta = timedelta(seconds=10)
    """`--status-lease-update-interval`."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        validation.require_interval("status_lease_interval", self.status_lease_interval)
        validation.require_at_least("max_boost_millicores", self.max_boost_millicores or 0, 0)
        validation.require_one_scope(self.namespace, self.ignored_namespaces)
