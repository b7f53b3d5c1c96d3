"""Checks against a resize that its node and the kubelet allow."""

from typing import Final

from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.sizing.quota_check import Refusal
from trimtab.core.updates import action_choice, quota_plan, resize_or_evict, spending
from trimtab.core.updates.candidates import Candidate
from trimtab.core.updates.checks.check import Objection
from trimtab.core.updates.plan_context import PlanContext
from trimtab.core.updates.quota_plan import FittingResize
from trimtab.core.updates.spending import Spent

_RESTART_FIRST: Final = (
    "another pod of the namespace restarts first, as one PodDisruptionBudget may cover both"
)


def follows_cut(candidate: Candidate, context: PlanContext, spent: Spent) -> Objection | None:
    """Object to a cut that no pod of the workload has yet, if another pod gets it first."""
    workload = candidate.workload
    if not candidate.is_cut or workload not in spent.cut or workload is None:
        return None
    pod, autoscaler = candidate.pod, candidate.autoscaler
    is_proven = context.has_precedent(pod, autoscaler, workload, candidate.wanted)
    return None if is_proven else Objection(HoldReason.EFFECT_AWAITED)


def restarts_too_soon(candidate: Candidate, context: PlanContext, spent: Spent) -> Objection | None:
    """Object if the pod's containers may not be restarted yet (F24).

    A restart is a disruption like an eviction. A PodDisruptionBudget shows the cost of the last
    restart only after a while, so there is a gap between one and the next.
    """
    now, retry = context.now, candidate.memory.eviction
    if not retry.is_due(now):
        return Objection(HoldReason.POD_DISRUPTION_BUDGET, retry.not_before)
    owner = candidate.owner
    last = None if owner is None else context.snapshot.restarted.get(owner)
    if owner in spent.restarting:
        last = now
    if last is not None and now - last < resize_or_evict.RESTART_GAP:
        return Objection(HoldReason.BUDGET_SPENT, last + resize_or_evict.RESTART_GAP)
    end = spending.end_of_gap(candidate.pod, context, spent)
    return None if end is None else Objection(HoldReason.BUDGET_SPENT, end, _RESTART_FIRST)


def lacks_quota(candidate: Candidate, context: PlanContext, spent: Spent) -> Objection | None:
    """Object if quotas accept nothing of the resize."""
    found = fit(candidate, context, spent)
    if isinstance(found, Refusal):
        return Objection(HoldReason.QUOTA_EXCEEDED, detail=found.words)
    return None


def fit(candidate: Candidate, context: PlanContext, spent: Spent) -> FittingResize | Refusal:
    """Return what of the resize quotas accept, or why they accept nothing of worth."""
    pod, wanted = candidate.pod, candidate.wanted
    left = quota_plan.quotas_for(pod, context, spent.claimed)
    found = quota_plan.fit_resize(pod, wanted, left)
    if isinstance(found, Refusal) or found.refusal is None:
        return found
    part = action_choice.worthwhile_part(candidate, found.wanted, context)
    return found.refusal if part is None else quota_plan.fit_resize(pod, part, left)


def is_denied(candidate: Candidate, context: PlanContext, _: Spent) -> Objection | None:
    """Object if the API server has lately refused to take back this very shrink."""
    denied = candidate.memory.resize.denied
    if denied is None or denied.targets != candidate.requests:
        return None
    until = denied.at + context.settings.infeasible_retry_after
    if context.now >= until:
        return None
    return Objection(HoldReason.RESIZE_DENIED, until, denied.words)


def is_refused(candidate: Candidate, context: PlanContext, _: Spent) -> Objection | None:
    """Object if the node has lately refused to take back this very shrink."""
    refused = candidate.memory.resize.infeasible
    if refused is None or refused.targets != candidate.requests:
        return None
    until = refused.at + context.settings.infeasible_retry_after
    return Objection(HoldReason.RESIZE_INFEASIBLE, until) if context.now < until else None
