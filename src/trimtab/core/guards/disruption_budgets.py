"""Disruption budgets: the number of pods of one owner that may be disrupted now.

A replica group is all live pods of one direct owner (a ReplicaSet, a StatefulSet, …), whichever
autoscaler governs them. So autoscalers that share a workload share its budget (S34). A budget is
spent while a plan is made. The next plan counts it from the pods again, which by then show the
disruptions.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from trimtab.core.model import validation
from trimtab.core.model.autoscalers import Autoscaler, UpdateMode
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.pods import Pod, PodPhase, WorkloadName

# Owners that say how many pods they want. If that number is unknown or zero, no pod is disrupted.
# A Job does not say it, and other kinds may not: for those the live pods are the wanted number.
_COUNTED_KINDS: Final = frozenset(
    {"DaemonSet", "ReplicaSet", "ReplicationController", "StatefulSet"}
)
_JOB: Final = "Job"
_RESIZING_MODES: Final = (
    UpdateMode.IN_PLACE,
    UpdateMode.IN_PLACE_OR_RECREATE,
    UpdateMode.UPSCALE_ONLY,
)


@dataclass(frozen=True, slots=True)
class DisruptionSettings:
    """Part of a workload that may be disrupted at once; the defaults are the original's."""

    min_replicas: int = 2
    """`--min-replicas`; an autoscaler's own minReplicas wins."""
    tolerance: float = 0.5
    """`--eviction-tolerance`: the share of the wanted pods that may be down."""

    def __post_init__(self) -> None:
        """Refuse a negative number of replicas, or a tolerance that is no fraction."""
        validation.require_at_least("min_replicas", self.min_replicas, 0)
        validation.require_fraction("tolerance", self.tolerance)


@dataclass(frozen=True, slots=True)
class ReplicaGroup:
    """The live pods of one owner, counted."""

    live: int
    pending: int
    """The live pods that do not run yet, or that were disrupted a moment ago."""
    configured: int | None
    """Number of pods that the owner should have; None if unknown."""
    ready: int = 0
    """The live pods that are ready."""
    serving: int = 0
    """Those of the ready pods that are not pending."""

    @property
    def running(self) -> int:
        """The live pods that are not pending."""
        return self.live - self.pending

    def is_disruptable(self, tolerance: float, disrupted: int) -> bool:
        """Return True if one more pod may go down after the `disrupted` pods of this plan."""
        return self._can_spare(self.running, tolerance, disrupted)

    def can_spare_ready(self, tolerance: float, disrupted: int) -> bool:
        """Return True if one more ready pod may go down after the `disrupted` ready ones.

        To the users of a workload a pod that is not ready is down, whatever its phase.
        """
        return self._can_spare(self.serving, tolerance, disrupted)

    def _can_spare(self, count: int, tolerance: float, disrupted: int) -> bool:
        if self.configured is None:
            return False
        # Rounded down, as in the original: half of three replicas is one.
        spare = int(self.configured * tolerance)
        if count - disrupted > self.configured - spare:
            return True
        # A tolerance of less than one pod still lets a complete group move, one pod at a time.
        return spare == 0 and disrupted == 0 and count == self.configured


class GroupPermission(Enum):
    """Disruptions that a replica group permits under one autoscaler."""

    OPEN = auto()
    RESIZE_ONLY = auto()
    """Too few pods for an eviction, but resizes that restart nothing are allowed."""


def owner_of(pod: Pod) -> WorkloadName | None:
    """Return the pod's direct owner."""
    if pod.owner is None:
        return None
    return WorkloadName(pod.namespace, pod.owner.kind, pod.owner.name)


def count_groups(
    pods: Iterable[Pod],
    configured: Mapping[WorkloadName, int],
    settling: frozenset[str] = frozenset(),
) -> dict[WorkloadName, ReplicaGroup]:
    """Count the replica group of every owner, from all live pods."""
    return count_owned(((owner_of(pod), pod) for pod in pods), configured, settling)


def count_owned(
    pods: Iterable[tuple[WorkloadName | None, Pod]],
    configured: Mapping[WorkloadName, int],
    settling: frozenset[str] = frozenset(),
) -> dict[WorkloadName, ReplicaGroup]:
    """Count the replica group of every owner, from all live pods with their direct owners."""
    owned = [(owner, pod) for owner, pod in pods if owner is not None]
    live = Counter([owner for owner, _ in owned])
    absent = [
        (owner, pod.ready_since is not None)
        for owner, pod in owned
        # A pod that was disrupted a moment ago may still look as before: count it as down.
        if pod.phase is PodPhase.PENDING or pod.uid in settling
    ]
    pending = Counter([owner for owner, _ in absent])
    ready = Counter([owner for owner, pod in owned if pod.ready_since is not None])
    unsettled = Counter([owner for owner, is_ready in absent if is_ready])
    return {
        owner: ReplicaGroup(
            count,
            pending[owner],
            configured=_wanted(owner, configured.get(owner), count),
            ready=ready[owner],
            serving=ready[owner] - unsettled[owner],
        )
        for owner, count in live.items()
    }


def standing(
    group: ReplicaGroup | None,
    autoscaler: Autoscaler,
    settings: DisruptionSettings,
    *,
    can_resize: bool,
) -> GroupPermission | HoldReason:
    """Return what the group permits under the autoscaler, or why its pods stay untouched.

    A resize that restarts nothing needs no other replica. So a small group stays open for such
    resizes, where the mode and the cluster can resize (D17).
    """
    if group is None:
        return HoldReason.NO_OWNER
    if group.configured is None:
        return HoldReason.REPLICAS_UNKNOWN
    own_minimum = autoscaler.min_replicas
    required = settings.min_replicas if own_minimum is None else own_minimum
    if group.live >= required:
        return GroupPermission.OPEN
    resizes = can_resize and autoscaler.mode in _RESIZING_MODES
    return GroupPermission.RESIZE_ONLY if resizes else HoldReason.BELOW_MIN_REPLICAS


def _wanted(owner: WorkloadName, configured: int | None, live: int) -> int | None:
    if owner.kind == _JOB:
        return live
    if configured is None:
        return None if owner.kind in _COUNTED_KINDS else live
    # Zero replicas and live pods contradict each other; one of the two is about to change.
    return configured if configured > 0 else None
