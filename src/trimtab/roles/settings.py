"""Settings of the role keeper, for operators."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from trimtab.core.guards.rate_limit import PaceSettings
from trimtab.core.model import selector_validation, validation
from trimtab.core.model.pods import WorkloadName
from trimtab.core.model.validation import SettingsError
from trimtab.core.roles import Role


@dataclass(frozen=True, slots=True)
class RolesSettings:
    """The role keeper's settings."""

    role: Role = field(default_factory=Role)
    """`--role-label` and `--role-name`: the label on the pod that has the role."""
    leases: Mapping[WorkloadName, str] = field(default_factory=dict)
    """`--role-leases`: leases of workloads that need not name theirs themselves."""
    hand_over_interval: timedelta = timedelta(seconds=30)
    """`--hand-over-interval`: mean interval at which the role of one workload may be given."""
    hand_over_burst: int = 3
    """`--hand-over-burst`: number of times that it may be given at once after a while of rest."""
    interval: timedelta = timedelta(seconds=1)
    """`--roles-interval`: interval of ticks."""
    paused: bool = False
    """`--pause`: True to plan, and change nothing."""
    namespace: str = ""
    """`--vpa-object-namespace`: the only namespace that is watched; empty for all."""
    ignored_namespaces: frozenset[str] = frozenset()
    """`--ignored-vpa-object-namespaces`."""
    concurrency: int = 8
    """Number of workloads that are changed at a time."""
    max_view_age: timedelta = timedelta(minutes=5)
    """Nothing is changed on views that are older."""

    def __post_init__(self) -> None:
        """Refuse invalid settings."""
        if flaws := selector_validation.key_flaws(self.role.label):
            raise SettingsError("role_label", self.role.label, f"is no label: {flaws[0]}")
        if not self.role.value or selector_validation.value_flaws(self.role.value):
            raise SettingsError("role_name", self.role.value, "is no name that a label can have")
        validation.require_interval("interval", self.interval)
        validation.require_interval("hand_over_interval", self.hand_over_interval)
        validation.require_at_least("hand_over_burst", self.hand_over_burst, 1)
        validation.require_at_least("concurrency", self.concurrency, 1)
        validation.require_one_scope(self.namespace, self.ignored_namespaces)

    @property
    def pace(self) -> PaceSettings:
        """Rate limit for giving the role of one workload."""
        per_second = 1 / self.hand_over_interval.total_seconds()
        return PaceSettings(per_second, self.hand_over_burst, slow_start=timedelta())
