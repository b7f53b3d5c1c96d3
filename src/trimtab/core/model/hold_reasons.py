"""Why a pod is left as it is."""

from enum import StrEnum
from typing import Final


class HoldReason(StrEnum):
    """The one reason that keeps a pod from being changed now; the value names it to users."""

    # What the autoscaler says.
    MODE_OFF = "ModeOff"
    MODE_INITIAL = "ModeInitial"
    FEATURE_GATE_OFF = "FeatureGateOff"
    """The autoscaler's mode needs a feature that is switched off."""
    NO_RECOMMENDATION = "NoRecommendation"
    """There is none yet, or none for any container of this pod."""
    RECOMMENDATION_STALE = "RecommendationStale"
    """The recommender says that it rests on usage that is too old."""
    RECOMMENDATION_SUSPICIOUS = "RecommendationSuspicious"
    """Some target is nothing at all, or the recommender distrusts it."""

    # What the change is worth.
    INSIDE_BOUNDS = "InsideBounds"
    """The pod has what is recommended, within the bounds."""
    SCALED_HORIZONTALLY = "ScaledHorizontally"
    """All that would change is left to a HorizontalPodAutoscaler that scales on it."""
    CHANGE_TOO_SMALL = "ChangeTooSmall"
    TOO_YOUNG = "TooYoung"
    """Inside its bounds, and it started or was changed too short a time ago."""
    ONLY_SHRINKS = "OnlyShrinks"
    """Nothing grows, and the mode is UpscaleOnly."""
    REQUIREMENT_NOT_MET = "RequirementNotMet"
    COOL_DOWN = "CoolDown"
    """It was changed a moment ago; a target that swings is not followed at each swing."""
    ROLE_DWELL = "RoleDwell"
    """Another autoscaler governed it a moment ago; shrinking waits until the role is settled."""

    # What the pod and its workload allow.
    NO_OWNER = "NoOwner"
    """Nobody would bring it back."""
    REPLICAS_UNKNOWN = "ReplicasUnknown"
    """How many pods its owner should have is not known, or is none."""
    BELOW_MIN_REPLICAS = "BelowMinReplicas"
    BUDGET_SPENT = "BudgetSpent"
    """As many pods of its owner as may be disrupted are disrupted, down or pending."""
    POD_PENDING = "PodPending"
    """It does not run yet: there is nothing to resize, and an eviction would undo its start."""
    EVICTION_UNWANTED = "EvictionUnwanted"
    """An annotation asks everybody to let it run on, and only an eviction or restart would help."""
    RUNS_TO_COMPLETION = "RunsToCompletion"
    """It belongs to a Job, which counts evictions and restarts as failures, and begins again."""
    REVISION_STAGED = "RevisionStaged"
    """Its owner would bring it back with another template, which it has not rolled out that far."""
    LOWER_ORDINAL_NOT_READY = "LowerOrdinalNotReady"
    """Its StatefulSet makes pods in order, and would not bring it back before a lower one."""
    NO_NODE_FOR_SUCCESSOR = "NoNodeForSuccessor"
    """No node that its spec names would take its successor now, and no new node would help."""
    POD_DISRUPTION_BUDGET = "PodDisruptionBudget"
    """The API server refused its eviction a moment ago for the sake of a PodDisruptionBudget."""
    QUOTA_EXCEEDED = "QuotaExceeded"
    """A ResourceQuota of the namespace refuses a resize, or the successor in a better size."""
    LIMIT_RANGE_REFUSES = "LimitRangeRefuses"
    """A LimitRange would refuse its successor in the recommended size, or one that it needs."""
    SUCCESSOR_SMALLER = "SuccessorSmaller"
    """Its template takes more from its successor than the autoscaler gives, or bounds that."""
    NODES_TOO_SMALL = "NodesTooSmall"
    """No node that its successor may go to is as large as what the pod has and needs."""
    RESIZE_DEFERRED = "ResizeDeferred"
    """The node has no room for a resize that was asked for."""
    RESIZE_IN_PROGRESS = "ResizeInProgress"
    RESIZE_FAILING = "ResizeFailing"
    """The kubelet cannot do what was asked for, as with a memory limit below usage; it goes on."""
    RESIZE_INFEASIBLE = "ResizeInfeasible"
    """The node has too little left for what is wanted, or refused it; less may be asked for."""
    RESIZE_DENIED = "ResizeDenied"
    """A policy, quota or webhook of the API server refused this size; a successor's, too."""
    RESIZE_UNSUPPORTED = "ResizeUnsupported"
    """The mode only resizes, and the cluster cannot."""
    QOS_WOULD_CHANGE = "QosWouldChange"
    """The mode only resizes, and the API server refuses a resize into another QoS class."""

    # Startup boosts.
    BOOST_ACTIVE = "BoostActive"
    UNBOOST_DELAYED = "UnboostDelayed"
    """Taking the boost back failed; it is tried again after a growing delay."""

    # Safety.
    ADMISSION_ABSENT = "AdmissionAbsent"
    """No admission controller would give the successor its new size."""
    NOT_CONVERGING = "NotConverging"
    """Earlier changes to this workload did not show on its pods."""
    WORKLOAD_DEGRADED = "WorkloadDegraded"
    """Fewer pods of the workload are ready than before it was changed, for minutes (D22)."""
    EFFECT_AWAITED = "EffectAwaited"
    """Earlier evictions of this workload have yet to show that successors get their size."""
    SUCCESSORS_MISSING = "SuccessorsMissing"
    """Pods that were evicted in its namespace, or in several others, have no successors."""
    PAUSED = "Paused"
    """An operator, the autoscaler or its namespace says that nothing may be done for now."""
    SURGE = "Surge"
    """Far more pods than usual want to change; that is rarely what anybody meant."""


WANTS_CHANGE: Final = frozenset(
    {
        HoldReason.ADMISSION_ABSENT,
        HoldReason.BELOW_MIN_REPLICAS,
        HoldReason.BUDGET_SPENT,
        HoldReason.COOL_DOWN,
        HoldReason.EFFECT_AWAITED,
        HoldReason.EVICTION_UNWANTED,
        HoldReason.LIMIT_RANGE_REFUSES,
        HoldReason.LOWER_ORDINAL_NOT_READY,
        HoldReason.NODES_TOO_SMALL,
        HoldReason.NOT_CONVERGING,
        HoldReason.NO_NODE_FOR_SUCCESSOR,
        HoldReason.NO_OWNER,
        HoldReason.PAUSED,
        HoldReason.POD_DISRUPTION_BUDGET,
        HoldReason.POD_PENDING,
        HoldReason.QOS_WOULD_CHANGE,
        HoldReason.QUOTA_EXCEEDED,
        HoldReason.REPLICAS_UNKNOWN,
        HoldReason.RESIZE_DEFERRED,
        HoldReason.RESIZE_DENIED,
        HoldReason.RESIZE_FAILING,
        HoldReason.RESIZE_INFEASIBLE,
        HoldReason.RESIZE_IN_PROGRESS,
        HoldReason.RESIZE_UNSUPPORTED,
        HoldReason.REVISION_STAGED,
        HoldReason.ROLE_DWELL,
        HoldReason.RUNS_TO_COMPLETION,
        HoldReason.SUCCESSORS_MISSING,
        HoldReason.SUCCESSOR_SMALLER,
        HoldReason.SURGE,
        HoldReason.WORKLOAD_DEGRADED,
    }
)
"""The reasons that hold back a pod whose change is large enough to act on."""
