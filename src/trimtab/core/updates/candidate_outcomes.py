"""Outcome of each candidate that a plan serves, and what it spends."""

from collections.abc import Mapping

from trimtab.core.changes.outcomes import Evict, Hold, Resize
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.sizing.quota_check import Refusal
from trimtab.core.sizing.quotas import Claims
from trimtab.core.updates import action_choice, candidates, rescues, spending
from trimtab.core.updates.candidates import Candidate
from trimtab.core.updates.checks import evictions, order, resizes
from trimtab.core.updates.checks.check import Objection
from trimtab.core.updates.evictions import places, successors
from trimtab.core.updates.plan_context import PlanContext
from trimtab.core.updates.resize_or_evict import Action
from trimtab.core.updates.spending import Spent


def choose(candidate: Candidate, context: PlanContext, spent: Spent) -> Evict | Resize | Hold:
    """Return what is done about the candidate, or the reason for nothing, and spend its cost."""
    if candidate.takes_back:
        objection = order.first_objection(order.OF_TAKEN_BACK, candidate, context, spent)
        # Quotas count what a pod has until a shrink is done, so this asks for nothing new.
        return (
            _hold(candidate, objection)
            if objection
            else _spend_resize(candidate, context, spent, {})
        )
    if candidate.boost_hold is not None:
        part = rescues.part_beside_boost(candidate, context, spent)
        resize = None if part is None else _resize(part, context, spent)
        return resize or candidate.boost_hold
    outcome = _choose_whole(candidate, context, spent)
    if not isinstance(outcome, Hold):
        return outcome
    claimed = spent.grown_on(candidate.pod.node_name)
    part = (
        rescues.free_part(candidate, context, claimed)
        or rescues.part_put_off(candidate, context, claimed)
        or rescues.part_to_rescue(candidate, outcome.reason, context, spent)
    )
    resize = None if part is None else _resize(part, context, spent)
    return resize or outcome


def _choose_whole(
    candidate: Candidate, context: PlanContext, spent: Spent
) -> Evict | Resize | Hold:
    disruptable = spending.may_disrupt(candidate, context, spent)
    candidate, chosen = action_choice.choose(candidate, context, spent, disruptable=disruptable)
    if isinstance(chosen, HoldReason):
        return _hold(candidate, _objection(chosen, candidate, context))
    is_eviction = chosen is Action.EVICT
    if is_eviction and (act := _rescue(candidate, context, spent)) is not None:
        return act
    checks = order.of_action(chosen, candidate, context)
    if (objection := order.first_objection(checks, candidate, context, spent)) is not None:
        return _hold(candidate, objection)
    if is_eviction:
        return _evict(candidate, context, spent)
    resize = _resize(candidate, context, spent)
    assert resize is not None
    return resize


def _rescue(candidate: Candidate, context: PlanContext, spent: Spent) -> Resize | None:
    """Return the resize of a pod that is OOM-killed early, if evictions of it fail or do harm."""
    is_of_job = action_choice.is_of_job(candidate.pod)
    if candidate.memory.eviction.failures == 0 and not is_of_job:
        return None
    wanted = rescues.rescue(candidate, context, spent.grown_on(candidate.pod.node_name))
    return None if wanted is None else _resize(candidate._replace(wanted=wanted), context, spent)


def _evict(candidate: Candidate, context: PlanContext, spent: Spent) -> Evict:
    successor = evictions.successor_of(candidate, context, spent)
    left_out = successor.left_out
    part = evictions.part_of(candidate, context, left_out)
    act = Evict(
        part.pod,
        part.autoscaler.identity,
        part.change,
        quick_oom=part.quick_oom,
        wanted=successors.without_resources(places.wanted_by_successor(part, context), left_out),
        place=places.find_place(candidate, context, spent.promised),
    )
    spending.spend_eviction(act, candidate.workload, successor.claims, spent)
    return act


def _resize(candidate: Candidate, context: PlanContext, spent: Spent) -> Resize | None:
    """Return the resize, as far as quotas accept it; None if nothing is left of it."""
    found = resizes.fit(candidate, context, spent)
    if isinstance(found, Refusal):
        return None
    return _spend_resize(candidate._replace(wanted=found.wanted), context, spent, found.claims)


def _spend_resize(
    candidate: Candidate,
    context: PlanContext,
    spent: Spent,
    claims: Mapping[str, Claims],
) -> Resize:
    act = Resize(
        candidate.pod,
        candidate.autoscaler.identity,
        candidate.wanted,
        candidate.change,
        quick_oom=candidate.quick_oom,
        disturbs=action_choice.restarts_work(candidate, context),
    )
    spending.spend_resize(
        act,
        claims,
        spent,
        cut_of=candidate.workload if candidate.is_cut else None,
    )
    return act


def _objection(reason: HoldReason, candidate: Candidate, context: PlanContext) -> Objection:
    """Return the reason against every action, with the detail that is known of it."""
    denied = candidate.memory.resize.denied
    if reason is HoldReason.RESIZE_DENIED and denied is not None:
        return Objection(reason, denied.at + context.settings.infeasible_retry_after, denied.words)
    return Objection(reason, detail=candidates.detail_of(reason, candidate.workload, context))


def _hold(candidate: Candidate, objection: Objection) -> Hold:
    return Hold(
        candidate.pod,
        candidate.autoscaler.identity,
        objection.reason,
        candidate.change,
        wanted=candidate.wanted,
        until=objection.until,
        detail=objection.detail,
    )
