"""Settings of admission."""

from dataclasses import dataclass, field
from datetime import timedelta

from trimtab.core.model import validation
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.hpa import HpaConflict
from trimtab.core.sizing.boost_room import MAX_PRIORITY


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """Settings of the admission controller; flags of the original keep its defaults."""

    gates: FeatureGates = field(default_factory=FeatureGates)
    """`--feature-gates`."""
    max_boost_millicores: int | None = None
    """`--max-allowed-cpu-boost`; None for no limit."""
    max_boosted_priority: int = MAX_PRIORITY
    """`--max-boosted-priority`: pods above it, which may preempt others, are not boosted."""
    caps_to_nodes: bool = True
    """`--cap-to-largest-node`: True to keep each pod within the largest node."""
    hpa_conflict: HpaConflict = HpaConflict.HOLD
    """`--hpa-conflict`: reaction to an HPA that scales on a recommended resource."""
    namespace: str = ""
    """`--vpa-object-namespace`; empty for all."""
    ignored_namespaces: frozenset[str] = frozenset()
    """`--ignored-vpa-object-namespaces`."""
    allows_overlapping: bool = False
    """`--allow-overlapping-autoscalers`: warn about overlaps instead of refusing them."""
    status_lease_name: str = "vpa-admission-controller"
    """`--status-lease-name`."""
    status_lease_namespace: str = "kube-system"
    """`--status-lease-namespace`."""
    status_lease_interval: timedelta = timedelta(seconds=10)
    """`--status-lease-update-interval`."""

    def __post_init__(self) -> None:
        """Validate the settings."""
        validation.require_interval("status_lease_interval", self.status_lease_interval)
        validation.require_at_least("max_boost_millicores", self.max_boost_millicores or 0, 0)
        validation.require_one_scope(self.namespace, self.ignored_namespaces)
