"""Reasons to leave a pod as it is."""

from enum import StrEnum
from typing import Final


class HoldReason(StrEnum):
    """The one reason that keeps a pod from being changed now; the value names it to users."""

    # From the autoscaler.
    MODE_OFF = "ModeOff"
    MODE_INITIAL = "ModeInitial"
    FEATURE_GATE_OFF = "FeatureGateOff"
    """The autoscaler's mode needs a feature that is switched off."""
    NO_RECOMMENDATION = "NoRecommendation"
    """There is none yet, or none for any container of this pod."""
    RECOMMENDATION_STALE = "RecommendationStale"
    """The recommender says that it rests on usage that is too old."""
    RECOMMENDATION_SUSPICIOUS = "RecommendationSuspicious"
    """Some target is too small or large to be meant, or the recommender distrusts it."""

    # From the size and age of the change.
    INSIDE_BOUNDS = "InsideBounds"
    """The pod has what is recommended, within the bounds."""
    SCALED_HORIZONTALLY = "ScaledHorizontally"
    """A HorizontalPodAutoscaler scales on every resource that would change."""
    CHANGE_TOO_SMALL = "ChangeTooSmall"
    TOO_YOUNG = "TooYoung"
    """Inside its bounds, and it started or was changed too short a time ago."""
    ONLY_SHRINKS = "OnlyShrinks"
    """Nothing grows, and the mode is UpscaleOnly."""
    REQUIREMENT_NOT_MET = "RequirementNotMet"
    COOL_DOWN = "CoolDown"
    """It was changed recently; the updater does not follow each swing of a target."""
    ROLE_DWELL = "RoleDwell"
    """Another autoscaler governed it recently; shrinking waits until the role is stable."""

    # From the pod and its workload.
    NO_OWNER = "NoOwner"
    """It has no owner that would create a successor."""
    REPLICAS_UNKNOWN = "ReplicasUnknown"
    """The number of pods that its owner should have is unknown or zero."""
    BELOW_MIN_REPLICAS = "BelowMinReplicas"
    BUDGET_SPENT = "BudgetSpent"
    """As many pods of its owner as may be disrupted are disrupted, down or pending."""
    POD_PENDING = "PodPending"
    """It does not run yet: there is nothing to resize, and an eviction would undo its start."""
    EVICTION_UNWANTED = "EvictionUnwanted"
    """An annotation forbids disruption, and only an eviction or restart would help."""
    RUNS_TO_COMPLETION = "RunsToCompletion"
    """It belongs to a Job, which counts evictions and restarts as failures, and begins again."""
    REVISION_STAGED = "RevisionStaged"
    """Its owner would create the successor from a template that it has not rolled out so far."""
    LOWER_ORDINAL_NOT_READY = "LowerOrdinalNotReady"
    """Its StatefulSet creates pods in order, and a pod with a lower ordinal is not ready."""
    NO_NODE_FOR_SUCCESSOR = "NoNodeForSuccessor"
    """No node that its spec names would take its successor now, and no new node would help."""
    POD_DISRUPTION_BUDGET = "PodDisruptionBudget"
    """The API server recently refused its eviction because of a PodDisruptionBudget."""
    QUOTA_EXCEEDED = "QuotaExceeded"
    """A ResourceQuota of the namespace refuses a resize, or the successor in a better size."""
    LIMIT_RANGE_REFUSES = "LimitRangeRefuses"
    """A LimitRange would refuse its successor in the recommended size, or one that it needs."""
    SUCCESSOR_SMALLER = "SuccessorSmaller"
    """Its template takes more from its successor than the autoscaler gives, or bounds that."""
    NODES_TOO_SMALL = "NodesTooSmall"
    """No node that its successor may go to is as large as what the pod has and needs."""
    RESIZE_DEFERRED = "ResizeDeferred"
    """The node has no room for a requested resize at present."""
    RESIZE_IN_PROGRESS = "ResizeInProgress"
    RESIZE_FAILING = "ResizeFailing"
    """The kubelet fails at a resize, as with a memory limit below usage, and retries it."""
    RESIZE_INFEASIBLE = "ResizeInfeasible"
    """The node has too little room for a resize, or refused it; a smaller one may still succeed."""
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
    """An operator, the autoscaler or its namespace asks for a pause."""
    SURGE = "Surge"
    """Far more pods than usual want to change; that is rarely intended."""


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
