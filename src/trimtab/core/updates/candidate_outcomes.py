"""Outcome of each candidate that a plan serves, and what it spends."""

from dataclasses import replace
from datetime import datetime
from typing import Final

from trimtab.core.changes.outcomes import Evict, Hold, Resize
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.pods import Pod, TargetResources
from trimtab.core.sizing import node_use
from trimtab.core.sizing.quota_check import Refusal
from trimtab.core.updates import (
    action_choice,
    candidates,
    quota_plan,
    rescues,
    resize_or_evict,
    spending,
)
from trimtab.core.updates.candidates import Candidate
from trimtab.core.updates.evictions import checks, places, successors
from trimtab.core.updates.evictions.successors import ordinal_of
from trimtab.core.updates.plan_context import PlanContext
from trimtab.core.updates.resize_or_evict import Action
from trimtab.core.updates.spending import Spent

_RESTART_FIRST: Final = (
    "another pod of the namespace restarts first, as one PodDisruptionBudget may cover both"
)


def choose(candidate: Candidate, context: PlanContext, spent: Spent) -> Evict | Resize | Hold:
    """Return what is done about the candidate, or the reason for nothing, and spend its cost."""
    if candidate.takes_back:
        return _take_back(candidate, context, spent)
    outcome = _choose_whole(candidate, context, spent)
    if not isinstance(outcome, Hold):
        return outcome
    claimed = spent.grown[candidate.pod.node_name]
    part = (
        rescues.free_part(candidate, context, claimed)
        or rescues.part_put_off(candidate, context, claimed)
        or rescues.part_to_rescue(candidate, outcome.reason, context, spent)
    )
    resize = None if part is None else _resize(part, part.wanted, context, spent)
    return resize or outcome


def _take_back(candidate: Candidate, context: PlanContext, spent: Spent) -> Resize | Hold:
    """Take back a shrink, unless the API server has lately refused that."""
    memory = candidate.memory.resize
    asked = {name: each.requests or {} for name, each in candidate.wanted.items()}
    if (denied := memory.denied) is not None and denied.targets == asked:
        hold = _hold_denied(candidate, context)
        if hold.until is not None and context.now < hold.until:
            return hold
    if (refused := memory.infeasible) is not None and refused.targets == asked:
        until = refused.at + context.settings.infeasible_retry_after
        if context.now < until:
            return _hold(candidate, HoldReason.RESIZE_INFEASIBLE, until)
    # Quotas count what a pod has until a shrink is done, so this asks for nothing new.
    return _spend_resize(candidate, context, spent)


def _choose_whole(
    candidate: Candidate, context: PlanContext, spent: Spent
) -> Evict | Resize | Hold:
    disruptable = spending.may_disrupt(candidate, context, spent)
    claimed = spent.grown[candidate.pod.node_name]
    candidate, chosen = action_choice.decide(
        candidate, context, disruptable=disruptable, claimed=claimed, promised=spent.promised
    )
    if chosen is Action.EVICT:
        is_of_job = action_choice.is_of_job(candidate.pod)
        is_protected = candidate.memory.eviction.failures > 0 or is_of_job
        rescue = rescues.rescue(candidate, context, claimed) if is_protected else None
        if rescue is not None and (act := _resize(candidate, rescue, context, spent)) is not None:
            return act
        chosen = _confirm_eviction(candidate, context, spent)
    match chosen:
        case Action.EVICT:
            return _evict(candidate, context, spent)
        case Action.RESIZE:
            hold = _hold_cut(candidate, context, spent)
            if hold is None and action_choice.restarts_work(candidate, context):
                hold = hold_restart(candidate, context, spent)
            resize = None if hold else _resize(candidate, candidate.wanted, context, spent)
            return hold or resize or _hold_for_quota(candidate, spent)
        case _:
            return _hold_in_words(candidate, chosen, context, spent)


def _hold_cut(candidate: Candidate, context: PlanContext, spent: Spent) -> Hold | None:
    """Return a hold for a cut that no pod of the workload has yet, if another pod gets it first."""
    workload = candidate.workload
    if not candidate.is_cut or workload not in spent.cut or workload is None:
        return None
    pod, autoscaler = candidate.pod, candidate.autoscaler
    if context.has_precedent(pod, autoscaler, workload, candidate.wanted):
        return None
    return _hold(candidate, HoldReason.EFFECT_AWAITED)


def _hold_in_words(
    candidate: Candidate, reason: HoldReason, context: PlanContext, spent: Spent
) -> Hold:
    """Return a hold for the reason, with the detail that is known of it."""
    match reason:
        case HoldReason.QUOTA_EXCEEDED:
            return _hold_for_quota(candidate, spent)
        case HoldReason.RESIZE_DENIED:
            return _hold_denied(candidate, context)
        case HoldReason.SUCCESSORS_MISSING:
            return _hold_stopped(candidate, context)
        case HoldReason.WORKLOAD_DEGRADED:
            words = candidates.detail_of(reason, candidate.workload, context)
            return replace(_hold(candidate, reason), detail=words)
        case _:
            return _hold(candidate, reason)


def _evict(candidate: Candidate, context: PlanContext, spent: Spent) -> Evict:
    spending.count_down(candidate.pod, spent)
    spent.evicting.add(candidate.pod.namespace)
    if candidate.owner is not None and (ordinal := ordinal_of(candidate.pod)) is not None:
        spent.ordinals[candidate.owner].add(ordinal)
    if candidate.workload is not None:
        spent.evicted[candidate.workload] += 1
    place = places.find_place(candidate, context, spent.promised)
    if place is not None:
        spending.set_place_aside(candidate.pod, place, spent)
    left_out = spent.left_out[candidate.pod.uid]
    part = checks.part_of(candidate, context, left_out)
    return Evict(
        part.pod,
        part.autoscaler.identity,
        part.change,
        quick_oom=part.quick_oom,
        wanted=successors.without_resources(places.wanted_by_successor(part, context), left_out),
        place=place,
    )


def _resize(
    candidate: Candidate, wanted: TargetResources, context: PlanContext, spent: Spent
) -> Resize | None:
    """Return the resize, as far as quotas accept it; None if nothing is left of it.

    One that restarts nothing costs the workload nothing (D17).
    """
    fitting = fit_in_quotas(candidate.pod, wanted, context, spent)
    if fitting is None:
        return None
    return _spend_resize(candidate._replace(wanted=fitting), context, spent)


def _spend_resize(candidate: Candidate, context: PlanContext, spent: Spent) -> Resize:
    pod, wanted = candidate.pod, candidate.wanted
    if candidate.is_cut:
        spent.cut.add(candidate.workload)
    if action_choice.restarts_work(candidate, context):
        spent.restarting.add(candidate.owner)
        spending.count_restart(pod, spent)
        spending.count_down(pod, spent)
    spent.grown[pod.node_name].update(node_use.growth(pod, wanted))
    name, change = candidate.autoscaler.identity, candidate.change
    return Resize(pod, name, wanted, change, quick_oom=candidate.quick_oom)


def hold_restart(candidate: Candidate, context: PlanContext, spent: Spent) -> Hold | None:
    """Return a hold if a pod's containers may not be restarted yet; None if they may (F24).

    A restart is a disruption like an eviction. A PodDisruptionBudget shows the cost of the last
    restart only after a while, so there is a gap between one and the next.
    """
    now, retry = context.now, candidate.memory.eviction
    if not retry.is_due(now):
        return _hold(candidate, HoldReason.POD_DISRUPTION_BUDGET, retry.not_before)
    owner = candidate.owner
    last = None if owner is None else context.snapshot.restarted.get(owner)
    if owner in spent.restarting:
        last = now
    if last is not None and now - last < resize_or_evict.RESTART_GAP:
        return _hold(candidate, HoldReason.BUDGET_SPENT, last + resize_or_evict.RESTART_GAP)
    end = spending.end_of_gap(candidate.pod, context, spent)
    if end is None:
        return None
    return replace(_hold(candidate, HoldReason.BUDGET_SPENT, end), detail=_RESTART_FIRST)


def _hold(candidate: Candidate, reason: HoldReason, until: datetime | None = None) -> Hold:
    name, change = candidate.autoscaler.identity, candidate.change
    return Hold(candidate.pod, name, reason, change, wanted=candidate.wanted, until=until)


def _hold_for_quota(candidate: Candidate, spent: Spent) -> Hold:
    words = spent.refusals.get(candidate.pod.uid, "")
    return replace(_hold(candidate, HoldReason.QUOTA_EXCEEDED), detail=words)


def _hold_denied(candidate: Candidate, context: PlanContext) -> Hold:
    denied = candidate.memory.resize.denied
    if denied is None:
        return _hold(candidate, HoldReason.RESIZE_DENIED)
    until = denied.at + context.settings.infeasible_retry_after
    return replace(_hold(candidate, HoldReason.RESIZE_DENIED, until), detail=denied.words)


def _hold_stopped(candidate: Candidate, context: PlanContext) -> Hold:
    stop = context.snapshot.brake.find_stop(candidate.workload, candidate.pod.namespace)
    words = "" if stop is None else stop.detail
    return replace(_hold(candidate, HoldReason.SUCCESSORS_MISSING), detail=words)


def _confirm_eviction(
    candidate: Candidate, context: PlanContext, spent: Spent
) -> Action | HoldReason:
    """Confirm the eviction, or return the first objection to it."""
    for object_to_it in checks.EVICTION_CHECKS:
        if (reason := object_to_it(candidate, context, spent)) is not None:
            return reason
    return Action.EVICT


def fit_in_quotas(
    pod: Pod, wanted: TargetResources, context: PlanContext, spent: Spent
) -> TargetResources | None:
    """Return what of a resize quotas accept, and set it aside; None if that is nothing."""
    left = quota_plan.quotas_for(pod, context, spent.claimed)
    if not left:
        return wanted
    fitting = quota_plan.fit_resize(pod, wanted, left)
    if isinstance(fitting, Refusal):
        spent.refusals[pod.uid] = fitting.words
        return None
    part, taken = fitting
    spending.set_aside(pod, taken, spent)
    return part
