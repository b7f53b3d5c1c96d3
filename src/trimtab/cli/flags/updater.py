"""The updater's own flags: names and, except for the pace (D14), defaults of the original.

Flags that the original does not have stand in groups of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from trimtab.cli.flags.common import ClusterFlags, IdleFlags
from trimtab.cli.flags.types import (
    Named,
    Number,
    Span,
    Switch,
    Text,
    Whole,
    flag_group,
    flag_groups,
    split_names,
)
from trimtab.core.changes.change import Thresholds
from trimtab.core.guards.disruption_budgets import DisruptionSettings
from trimtab.core.guards.rate_limit import PaceSettings
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.hpa import HpaConflict
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.updater.settings import UpdaterSettings

_OWN_NAMESPACE: Final = "NAMESPACE"
"""Environment variable in which manifests name the namespace of the pod."""


@flag_group("Updater", order=1)
@dataclass(frozen=True, slots=True)
class LoopFlags:
    """Flags for the updater's loop."""

    address: Named = ":8943"
    """Where /metrics, /health-check, /readyz and /plan are served."""
    updater_interval: Span = timedelta(minutes=1)
    """How often everything is planned; what changes in between is planned at once."""
    use_admission_controller_status: Switch = True
    """Change nothing while no admission controller is there to give new pods their size."""
    admission_controller_status_lease_name: Named = "vpa-admission-controller"
    """The lease that the admission controller renews."""
    admission_controller_status_lease_namespace: Text = ""
    """Its namespace; if not given, that in the variable NAMESPACE, or else kube-system."""
    admission_controller_status_lease_timeout: Span = timedelta(minutes=1)
    """After so long without a renewal the admission controller is taken for absent."""
    leader_elect_resource_name: Named = "vpa-updater"
    """The name of the lease."""


@flag_group("What is worth a change", order=2)
@dataclass(frozen=True, slots=True)
class ThresholdFlags:
    """Flags for the size, age and urgency that a change needs."""

    pod_update_threshold: Number = 0.1
    """Inside its bounds a pod must be off by this share to be changed."""
    in_recommendation_bounds_eviction_lifetime_threshold: Span = timedelta(hours=12)
    """Inside its bounds a pod must be this old to be changed."""
    evict_after_oom_threshold: Span = timedelta(minutes=10)
    """A container that is OOM-killed within this time of its start cannot wait."""


@flag_group("How many pods at once", order=3)
@dataclass(frozen=True, slots=True)
class DisruptionFlags:
    """Flags for the number of pods that may be disrupted at once."""

    min_replicas: Whole = 2
    """No pod of a smaller workload is restarted, unless an autoscaler's minReplicas says else."""
    eviction_tolerance: Number = 0.5
    """The share of a workload's pods that may be down."""
    eviction_rate_limit: Number = 1.0
    """Evictions a second in the whole cluster, and as many resizes; 0 or less for any number."""
    eviction_rate_burst: Whole = 10
    """How many of them may be made at once after a while of rest."""
    in_place_skip_disruption_budget: Switch = False
    """Without effect: resizes that restart no container never wait for the tolerance."""


@flag_group("Care", order=4)
@dataclass(frozen=True, slots=True)
class CareFlags:
    """Flags for guards against mistakes; the original has none of these."""

    pause: Switch = False
    """Plan and show everything, and do nothing."""
    eviction_slow_start: Span = timedelta(minutes=10)
    """How long after a start the rate limit takes to grow to its full value."""
    cool_down: Span = timedelta(minutes=5)
    """How long a changed pod neither shrinks nor restarts, unless it is OOM-killed early."""
    role_dwell: Span = timedelta(minutes=1)
    """How long a pod must have its autoscaler before that one may shrink it."""
    max_boost_duration: Span = timedelta(minutes=30)
    """How long a startup boost may last at most; 0 for any time."""
    boost_unschedulable_timeout: Span = timedelta(seconds=60)
    """How long a boosted pod may find no room on any node until its boost ends; 0 for any time."""
    max_boosted_pods_per_node: Whole = 0
    """Beyond so many pods of a node the boosts of the youngest end at once; 0 for any number."""
    stop_degraded_after: Span = timedelta(minutes=5)
    """Stop changing a workload with fewer ready pods than before for so long; 0 to go on."""
    max_misses: Whole = 3
    """After so many changes that did not show on a workload's pods, it is left alone."""
    surge_margin: Number = 0.3
    """Hold a namespace when the share of its pods that want a change exceeds its usual share by
    more than this."""
    surge_min_pods: Whole = 50
    """Namespaces with fewer pods than this are judged for a surge together."""
    infeasible_retry_after: Span = timedelta(hours=1)
    """How long a resize that the node refused is not tried again."""
    evict_after_deferred_threshold: Span = timedelta(minutes=5)
    """How long a resize may wait for room on its node until InPlaceOrRecreate evicts the pod."""
    grow_only_under_requirements: Switch = False
    """Under requirements that only ask for growth, let resizes shrink nothing."""
    ignore_eviction_annotations: Switch = False
    """Evict pods although their annotation safe-to-evict or do-not-disrupt forbids it."""
    hpa_conflict: HpaConflict = HpaConflict.HOLD
    """Where a HorizontalPodAutoscaler scales on a resource: leave that as it is, or change it."""
    cap_to_largest_node: Switch = True
    """Make no pod larger than the largest node; off where larger nodes come when needed."""
    update_worker_count: Whole = 16
    """How many requests may be under way at once."""


@flag_group("Accepted, without effect", order=9)
@dataclass(frozen=True, slots=True)
class IdleUpdaterFlags(IdleFlags):
    """Flags of the original's updater that have no effect here."""

    concurrent_cpu_startup_boost_syncs: Whole = 1
    """The ends of boosts share the requests of --update-worker-count."""


@flag_groups
@dataclass(frozen=True, slots=True)
class UpdaterFlags:
    """All flags of the updater besides the common ones."""

    loop: LoopFlags = LoopFlags()
    thresholds: ThresholdFlags = ThresholdFlags()
    disruption: DisruptionFlags = DisruptionFlags()
    care: CareFlags = CareFlags()
    idle: IdleUpdaterFlags = IdleUpdaterFlags()


def to_settings(
    cluster: ClusterFlags,
    flags: UpdaterFlags,
    environment: Mapping[str, str],
    gates: FeatureGates,
) -> UpdaterSettings:
    """Return the settings that the flags describe; a SettingsError if they are invalid."""
    usual, loop = UpdaterSettings(), flags.loop
    place = loop.admission_controller_status_lease_namespace or environment.get(_OWN_NAMESPACE)
    return replace(
        usual,
        plan=_plan_settings(flags, gates),
        pace=PaceSettings(
            per_second=flags.disruption.eviction_rate_limit,
            burst=flags.disruption.eviction_rate_burst,
            slow_start=flags.care.eviction_slow_start,
        ),
        interval=loop.updater_interval,
        namespace=cluster.vpa_object_namespace,
        ignored_namespaces=split_names(cluster.ignored_vpa_object_namespaces),
        uses_admission_status=loop.use_admission_controller_status,
        admission_lease_name=loop.admission_controller_status_lease_name,
        admission_lease_namespace=place or usual.admission_lease_namespace,
        admission_lease_timeout=loop.admission_controller_status_lease_timeout,
        hpa_conflict=flags.care.hpa_conflict,
        caps_to_nodes=flags.care.cap_to_largest_node,
        max_boosted_per_node=flags.care.max_boosted_pods_per_node,
        concurrency=flags.care.update_worker_count,
    )


def _plan_settings(flags: UpdaterFlags, gates: FeatureGates) -> PlanSettings:
    care, disruption = flags.care, flags.disruption
    return PlanSettings(
        thresholds=Thresholds(
            smallest_change=flags.thresholds.pod_update_threshold,
            lifetime=flags.thresholds.in_recommendation_bounds_eviction_lifetime_threshold,
            quick_oom=flags.thresholds.evict_after_oom_threshold,
        ),
        disruption=DisruptionSettings(
            min_replicas=disruption.min_replicas,
            tolerance=disruption.eviction_tolerance,
        ),
        gates=gates,
        max_boost_duration=care.max_boost_duration or None,
        boost_unschedulable_timeout=care.boost_unschedulable_timeout or None,
        role_dwell=care.role_dwell,
        cool_down=care.cool_down,
        grow_only_under_requirements=care.grow_only_under_requirements,
        infeasible_retry_after=care.infeasible_retry_after,
        evict_after_deferred=care.evict_after_deferred_threshold,
        degraded_after=care.stop_degraded_after or None,
        max_misses=care.max_misses,
        max_unproven=care.max_misses,
        paused=care.pause,
        evicts_unwillingly=care.ignore_eviction_annotations,
        surge_margin=care.surge_margin,
        surge_min_pods=care.surge_min_pods,
    )
