"""Annotations that are an interface: their names and the shape of simple values.

Other programs read them, the original among them, so that either can go on where the other left
off; some are other programs' own. What a boost writes down is in `boost.py`, what an update tells
in `notes.py`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from trimtab.core.pods import Container

UPDATES: Final = "vpaUpdates"
"""What admission changed, in words for people."""

OBSERVED_CONTAINERS: Final = "vpaObservedContainers"
"""The containers that admission saw; later ones were injected by others."""

IN_PLACE_UPDATED: Final = "vpaInPlaceUpdated"
"""`true` once the pod was resized in place."""

BOOST_PREFIX: Final = "vpaCpuStartupBoost/"
"""Followed by the name of a container that is boosted."""

LIMITS_PREFIX: Final = "limits.trimtab.dev/"
"""Followed by the name of a container: the size whose proportions its limits keep in place."""

PAUSED: Final = "trimtab.dev/paused"
"""On an autoscaler or a namespace: `true` while nothing may be done for it."""
_YES: Final = frozenset({"true", "t", "yes", "y", "on", "1"})

ROLE_LEASE: Final = "trimtab.dev/role-lease"
"""On a workload: the name of the lease whose holder has the role among its pods."""

KEEPS_FROM_EVICTION: Final = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
"""With these its owner asks others, who would move it to another node, to let a pod run on."""

NAME_SEPARATOR: Final = ", "


def says_paused(annotations: Mapping[str, str]) -> bool:
    """Return True if an annotation calls for a pause, in any spelling of yes."""
    return annotations.get(PAUSED, "").strip().lower() in _YES


def keeps_from_eviction(annotations: Mapping[str, str]) -> bool:
    """Whether the pod's owner asks everybody not to evict it."""
    return any(annotations.get(name) == value for name, value in KEEPS_FROM_EVICTION.items())


def format_observed_containers(containers: Iterable[Container]) -> str:
    """The value of `vpaObservedContainers`."""
    return NAME_SEPARATOR.join([container.name for container in containers])
