"""Kinds of checks, and their verdicts: a check passes, or it holds the pod for a reason."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, Generic, NamedTuple, TypeVar

from trimtab.core.model.hold_reasons import HoldReason

Asked = TypeVar("Asked", bound=Callable[..., "Objection | None"])


class CheckKind(StrEnum):
    """Kind of a check, in the order of the explanation; the value names it to users."""

    BOOST = "startupBoost"
    MODE = "updateMode"
    RECOMMENDATION = "recommendation"
    CHANGE = "change"
    LIFETIME = "lifetime"
    DIRECTION = "direction"
    REQUIREMENTS = "evictionRequirements"
    ROLE = "role"
    COOL_DOWN = "coolDown"
    ADMISSION = "admissionController"
    CONVERGENCE = "convergence"
    HEALTH = "workloadHealth"
    REPLICAS = "replicas"
    SURGE = "surge"
    RESIZE = "resize"
    BUDGET = "disruptionBudget"
    EVICTION = "evictionAllowed"
    POD_DISRUPTION_BUDGET = "podDisruptionBudget"
    EARLIER_EVICTIONS = "earlierEvictions"
    QUOTA = "resourceQuota"
    PAUSE = "pause"


KIND_OF: Final = {
    HoldReason.BOOST_ACTIVE: CheckKind.BOOST,
    HoldReason.UNBOOST_DELAYED: CheckKind.BOOST,
    HoldReason.MODE_OFF: CheckKind.MODE,
    HoldReason.MODE_INITIAL: CheckKind.MODE,
    HoldReason.FEATURE_GATE_OFF: CheckKind.MODE,
    HoldReason.NO_RECOMMENDATION: CheckKind.RECOMMENDATION,
    HoldReason.RECOMMENDATION_STALE: CheckKind.RECOMMENDATION,
    HoldReason.RECOMMENDATION_SUSPICIOUS: CheckKind.RECOMMENDATION,
    HoldReason.INSIDE_BOUNDS: CheckKind.CHANGE,
    HoldReason.SCALED_HORIZONTALLY: CheckKind.CHANGE,
    HoldReason.CHANGE_TOO_SMALL: CheckKind.CHANGE,
    HoldReason.TOO_YOUNG: CheckKind.LIFETIME,
    HoldReason.ONLY_SHRINKS: CheckKind.DIRECTION,
    HoldReason.REQUIREMENT_NOT_MET: CheckKind.REQUIREMENTS,
    HoldReason.ROLE_DWELL: CheckKind.ROLE,
    HoldReason.COOL_DOWN: CheckKind.COOL_DOWN,
    HoldReason.ADMISSION_ABSENT: CheckKind.ADMISSION,
    HoldReason.NOT_CONVERGING: CheckKind.CONVERGENCE,
    HoldReason.WORKLOAD_DEGRADED: CheckKind.HEALTH,
    HoldReason.NO_OWNER: CheckKind.REPLICAS,
    HoldReason.REPLICAS_UNKNOWN: CheckKind.REPLICAS,
    HoldReason.BELOW_MIN_REPLICAS: CheckKind.REPLICAS,
    HoldReason.SURGE: CheckKind.SURGE,
    HoldReason.POD_PENDING: CheckKind.RESIZE,
    HoldReason.RESIZE_DEFERRED: CheckKind.RESIZE,
    HoldReason.RESIZE_IN_PROGRESS: CheckKind.RESIZE,
    HoldReason.RESIZE_FAILING: CheckKind.RESIZE,
    HoldReason.RESIZE_INFEASIBLE: CheckKind.RESIZE,
    HoldReason.RESIZE_DENIED: CheckKind.RESIZE,
    HoldReason.RESIZE_UNSUPPORTED: CheckKind.RESIZE,
    HoldReason.QOS_WOULD_CHANGE: CheckKind.RESIZE,
    HoldReason.BUDGET_SPENT: CheckKind.BUDGET,
    HoldReason.EVICTION_UNWANTED: CheckKind.EVICTION,
    HoldReason.RUNS_TO_COMPLETION: CheckKind.EVICTION,
    HoldReason.REVISION_STAGED: CheckKind.EVICTION,
    HoldReason.LOWER_ORDINAL_NOT_READY: CheckKind.EVICTION,
    HoldReason.SUCCESSOR_SMALLER: CheckKind.EVICTION,
    HoldReason.NO_NODE_FOR_SUCCESSOR: CheckKind.EVICTION,
    HoldReason.NODES_TOO_SMALL: CheckKind.EVICTION,
    HoldReason.POD_DISRUPTION_BUDGET: CheckKind.POD_DISRUPTION_BUDGET,
    HoldReason.EFFECT_AWAITED: CheckKind.EARLIER_EVICTIONS,
    HoldReason.SUCCESSORS_MISSING: CheckKind.EARLIER_EVICTIONS,
    HoldReason.QUOTA_EXCEEDED: CheckKind.QUOTA,
    HoldReason.LIMIT_RANGE_REFUSES: CheckKind.QUOTA,
    HoldReason.PAUSED: CheckKind.PAUSE,
}
"""The check that each reason belongs to."""

REMEMBERED: Final = frozenset(
    {
        CheckKind.ROLE,
        CheckKind.COOL_DOWN,
        CheckKind.CONVERGENCE,
        CheckKind.HEALTH,
        CheckKind.SURGE,
        CheckKind.POD_DISRUPTION_BUDGET,
        CheckKind.EARLIER_EVICTIONS,
    }
)
"""Checks that need the memory of a running updater."""


class Objection(NamedTuple):
    """Reason for which a check holds a pod; a check that passes returns None instead."""

    reason: HoldReason
    until: datetime | None = None
    """When the check passes if nothing changes but the time, where that is known."""
    detail: str = ""
    """The words of the API server, a quota or a guard, as far as known."""


@dataclass(frozen=True, slots=True)
class Check(Generic[Asked]):
    """One check of a plan, and what it is about."""

    find: Asked
    """Returns the objection; None if the check passes. It changes nothing."""
    clears: frozenset[CheckKind] = frozenset()
    """Kinds that are clear if neither this check nor any other objects."""
    needs_target: bool = False
    """True if it applies only where there is a recommendation to be trusted."""
