"""Input of a plan: the cluster as seen at one moment, and the effects of earlier plans.

The updater's controller, which carries plans out, keeps the memory. A plan uses nothing that is not
here but its settings and the time, so the same snapshot gives the same plan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from trimtab.core.changes.outcomes import EndOfBoost
from trimtab.core.guards.degradation import Degradation
from trimtab.core.guards.eviction_brake import NO_BRAKE, Brake
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.limit_ranges import LimitRangeItem
from trimtab.core.model.matching import ObservedAutoscaler
from trimtab.core.model.pods import Allocation, Pod, WorkloadName
from trimtab.core.model.resources import Resources
from trimtab.core.sizing.node_capacity import NodeRooms
from trimtab.core.sizing.node_use import NOTHING_KNOWN, NodeUse
from trimtab.core.sizing.quotas import Quota
from trimtab.core.updates.resize_or_evict import ResizeMemory

MAX_DELAY: Final = timedelta(hours=6)
"""Maximum delay before the next try, however many failed."""


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """A pod and the topmost workload that owns it, as far as that is known."""

    pod: Pod
    workload: WorkloadName | None
    is_in_doubt: bool = False
    """True if an autoscaler that cannot be read now may govern it."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Number of failures in a row, and the time before which there is no new try."""

    failures: int = 0
    not_before: datetime | None = None

    def is_due(self, now: datetime) -> bool:
        """Return True if the delay is over."""
        return self.not_before is None or now >= self.not_before

    def after_failure(self, now: datetime, first_delay: timedelta) -> "Retry":
        """Return the retry after one more failure; each doubles the delay, up to a limit."""
        # 2 ** 20 first delays are beyond any limit; more would only make large numbers.
        delay = first_delay * 2 ** min(self.failures, 20)
        return Retry(self.failures + 1, now + min(delay, MAX_DELAY))


@dataclass(frozen=True, slots=True)
class PodMemory:
    """Memory of one pod under one autoscaler; under another one it starts afresh (S37)."""

    resize: ResizeMemory = field(default_factory=ResizeMemory)
    last_updated_at: datetime | None = None
    """When it was last resized."""
    governed_since: datetime | None = None
    """When this autoscaler took it over from another; None if it always had it."""
    unboost: Retry = field(default_factory=Retry)
    """Requests to end a boost whose effect the kubelet has not reported."""
    unboost_asked: Mapping[str, Allocation] = field(default_factory=dict)
    """By container the CPU that was last requested to end its boost."""
    unboost_cause: EndOfBoost | None = None
    """Why those boosts end."""
    unboost_error: str = ""
    """The API server's message when it last refused the end of a boost."""
    unmarked: frozenset[str] = frozenset()
    """The containers whose mark was removed, while the store may still show it."""
    unmarked_at: datetime | None = None
    """When the last of these marks was removed."""
    eviction: Retry = field(default_factory=Retry)
    """Evictions that a PodDisruptionBudget did not allow."""

    @property
    def has_new_role(self) -> bool:
        """True if the pod was taken over, and not changed since."""
        since, updated = self.governed_since, self.last_updated_at
        return since is not None and (updated is None or updated < since)


NO_MEMORY: Final = PodMemory()
"""Memory of most pods: there is nothing to remember."""

MemoryKey: TypeAlias = tuple[str, AutoscalerName | None]
"""The uid of a pod and the autoscaler that governs it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a plan depends on, but the time and the settings."""

    pods: Sequence[ObservedPod] = ()
    """All pods, of autoscalers or not: budgets are counted over whole workloads."""
    autoscalers: Sequence[ObservedAutoscaler] = ()
    limit_ranges: Mapping[str, Sequence[LimitRangeItem]] = field(default_factory=dict)
    """The items of all limit ranges by namespace."""
    rooms: NodeRooms | None = None
    """Room for pods on the nodes; None if nodes are no bound."""
    node_use: NodeUse = NOTHING_KNOWN
    """Allocatable and reserved amounts of the nodes."""
    quotas: Mapping[str, Sequence[Quota]] = field(default_factory=dict)
    """By namespace."""
    paused_namespaces: frozenset[str] = frozenset()
    configured_replicas: Mapping[WorkloadName, int] = field(default_factory=dict)
    """By direct owner the number of pods it should have (a DaemonSet: that it wants scheduled)."""
    first_ordinals: Mapping[WorkloadName, int] = field(default_factory=dict)
    """By direct owner that makes its pods one after the other the ordinal of the first."""
    template_sizes: Mapping[WorkloadName, Mapping[str, Allocation]] = field(default_factory=dict)
    """By direct owner the resources in its pod template, by container, as far as known."""
    min_ready: Mapping[WorkloadName, timedelta] = field(default_factory=dict)
    """By such an owner how long each pod must be ready before the next one is made, if at all."""
    staged_revisions: Mapping[WorkloadName, str] = field(default_factory=dict)
    """By direct owner the revision that its older pods do not have yet; "" if not known."""
    staged_from: Mapping[WorkloadName, int] = field(default_factory=dict)
    """By such an owner the first ordinal that may get it, if a partition keeps lower ones."""
    rolling_out: frozenset[WorkloadName] = frozenset()
    """StatefulSets and DaemonSets that replace their pods by themselves, and are not through."""
    admission_alive: bool = True
    """True if an admission controller would give a new pod its size."""
    resizes_in_place: bool = True
    """True if the cluster can resize pods in place."""
    pod_memory: Mapping[MemoryKey, PodMemory] = field(default_factory=dict)
    convergence: Mapping[WorkloadName, Retry] = field(default_factory=dict)
    """By topmost workload: changes in a row that did not show on its pods."""
    evicted_in_vain: frozenset[WorkloadName] = frozenset()
    """The topmost workloads of which the last of these changes was an eviction."""
    left_small: Mapping[WorkloadName, Mapping[str, Resources]] = field(default_factory=dict)
    """By topmost workload: requests by container of a pod whose wanted size others refused."""
    unproven: Mapping[WorkloadName, int] = field(default_factory=dict)
    """By topmost workload: evictions of which it is not known yet whether they had any effect."""
    brake: Brake = NO_BRAKE
    """Where evictions stop because earlier ones brought no successors."""
    degraded: Mapping[WorkloadName, Degradation] = field(default_factory=dict)
    """By topmost workload: fewer ready pods than before it was changed, for too long."""
    settling: frozenset[str] = frozenset()
    """The uids of pods that were disrupted a moment ago and cannot be counted on yet."""
    restarted: Mapping[WorkloadName, datetime] = field(default_factory=dict)
    """By direct owner when a resize was last asked for that restarts containers of a pod."""
    gaps: Mapping[str, datetime] = field(default_factory=dict)
    """By namespace when a ready pod may be restarted again, after one that is not ready yet."""
    short_handed: frozenset[WorkloadName] = frozenset()
    """The direct owners in namespaces with quotas that have missed pods for some seconds."""
    crowded: frozenset[str] = frozenset()
    """The uids of boosted pods of which there are too many on their node."""
    last_turns: Mapping[str, int] = field(default_factory=dict)
    """By namespace the number of its last turn at the rate limit; later turns have larger ones."""
    usual_shares: Mapping[str, float] = field(default_factory=dict)
    """By namespace the share of pods that wanted to change lately; empty just after a start."""
    surging: frozenset[str] | None = None
    """The namespaces in a surge, where only a part of the cluster is here; None for all of it."""

    @property
    def is_all(self) -> bool:
        """True if all pods are here, and not only those of some workloads."""
        return self.surging is None
