"""The role keeper's own flags; the original has no such component."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from trimtab.cli.flags.common import ClusterFlags
from trimtab.cli.flags.types import Named, Span, Switch, Text, Whole, flag_group, split_names
from trimtab.core.model.pods import WorkloadName
from trimtab.core.model.validation import SettingsError
from trimtab.core.roles import Role
from trimtab.roles.settings import RolesSettings

_USUAL: Final = RolesSettings()


@flag_group("Roles", order=1)
@dataclass(frozen=True, slots=True)
class RolesFlags:
    """Flags of the role keeper: leases to watch, the label for pods, and the pace."""

    address: Named = ":8945"
    """Where /metrics, /health-check, /readyz and /roles are served."""
    role_leases: Text = ""
    """Leases of workloads that name none, as namespace/Kind/name=lease,..."""
    role_label: Named = _USUAL.role.label
    """The label of the pod that has the role."""
    role_name: Named = _USUAL.role.value
    """What that label says."""
    pause: Switch = False
    """Find out and show everything, and change nothing."""
    hand_over_interval: Span = timedelta(seconds=30)
    """How often, in the long run, the role of one workload may be given."""
    hand_over_burst: Whole = 3
    """How many times it may be given at once after a while of rest."""
    roles_interval: Span = timedelta(seconds=1)
    """How often all leases are looked at."""
    leader_elect_resource_name: Named = "trimtab-roles"
    """The name of the lease by which copies of this component take turns."""


def to_settings(cluster: ClusterFlags, flags: RolesFlags) -> RolesSettings:
    """Return the settings that the flags describe; a SettingsError if they are invalid."""
    return RolesSettings(
        role=Role(flags.role_label, flags.role_name),
        leases=_parse_leases(flags.role_leases),
        hand_over_interval=flags.hand_over_interval,
        hand_over_burst=flags.hand_over_burst,
        interval=flags.roles_interval,
        paused=flags.pause,
        namespace=cluster.vpa_object_namespace,
        ignored_namespaces=split_names(cluster.ignored_vpa_object_namespaces),
    )


def _parse_leases(text: str) -> dict[WorkloadName, str]:
    leases = {}
    for entry in sorted(split_names(text)):
        name, _, lease = entry.partition("=")
        parts = name.split("/")
        if len(parts) != len(WorkloadName._fields) or not all((*parts, lease)):
            raise SettingsError("role_leases", text, f"has {entry!r}: no namespace/Kind/name=lease")
        leases[WorkloadName(*parts)] = lease
    return leases
