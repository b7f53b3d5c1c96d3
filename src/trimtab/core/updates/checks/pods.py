"""Checks of a pod and of the change that its autoscaler wants."""

from typing import Final

from trimtab.core.model.autoscalers import Autoscaler, UpdateMode
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.updates import candidates
from trimtab.core.updates.candidates import CheckInputs
from trimtab.core.updates.checks.check import Objection
from trimtab.core.updates.plan_context import PlanContext

_OF_TRIFLES: Final = (HoldReason.INSIDE_BOUNDS, HoldReason.CHANGE_TOO_SMALL)


def is_idle(autoscaler: Autoscaler, context: PlanContext) -> Objection | None:
    """Object if the autoscaler changes no running pod at all."""
    gates = context.settings.gates
    match autoscaler.mode:
        case UpdateMode.OFF:
            return Objection(HoldReason.MODE_OFF)
        case UpdateMode.INITIAL:
            return Objection(HoldReason.MODE_INITIAL)
        case UpdateMode.IN_PLACE if not gates.in_place:
            return Objection(HoldReason.FEATURE_GATE_OFF)
        case UpdateMode.UPSCALE_ONLY if not gates.upscale_only:
            return Objection(HoldReason.FEATURE_GATE_OFF)
        case _:
            return None


def is_distrusted(facts: CheckInputs, _: PlanContext) -> Objection | None:
    """Object if the recommendation is missing, or not to be trusted."""
    distrust = facts.judgement.distrust
    return None if distrust is None else Objection(distrust)


def is_impossible(facts: CheckInputs, _: PlanContext) -> Objection | None:
    """Object to amounts that the API server refuses: an evicted pod would never come back.

    A policy with a negative bound, which no webhook refused, leads to such requests.
    """
    is_possible = facts.judgement.is_possible
    return None if is_possible else Objection(HoldReason.RECOMMENDATION_SUSPICIOUS)


def is_small_or_young(facts: CheckInputs, context: PlanContext) -> Objection | None:
    """Object if the change is not worth it yet."""
    reason = candidates.reason_to_wait(facts.judgement.change, facts, context)
    if facts.is_cure_held and reason in _OF_TRIFLES:
        # What is left to change is not what the pod needs.
        return Objection(HoldReason.SCALED_HORIZONTALLY)
    if reason is None:
        return None
    if reason is HoldReason.INSIDE_BOUNDS and facts.judgement.is_boosted:
        reason = HoldReason.BOOST_ACTIVE
    elif reason is HoldReason.INSIDE_BOUNDS and facts.judgement.holds_change:
        reason = HoldReason.SCALED_HORIZONTALLY
    return Objection(reason)


def only_shrinks(facts: CheckInputs, _: PlanContext) -> Objection | None:
    """Object if nothing grows, where the mode asks for that."""
    must_grow = facts.autoscaler.mode is UpdateMode.UPSCALE_ONLY
    shrinks = must_grow and not facts.judgement.change.scale_up
    return Objection(HoldReason.ONLY_SHRINKS) if shrinks else None


def misses_requirements(facts: CheckInputs, _: PlanContext) -> Objection | None:
    """Object if the change does not meet the autoscaler's eviction requirements."""
    is_met = facts.judgement.meets_requirements
    return None if is_met else Objection(HoldReason.REQUIREMENT_NOT_MET)


def has_new_governor(facts: CheckInputs, context: PlanContext) -> Objection | None:
    """Object to shrinking a pod that another autoscaler governed until recently."""
    since = facts.memory.governed_since
    if since is None or facts.judgement.change.scale_up:
        return None
    settled = context.now - since >= context.settings.role_dwell
    return None if settled else Objection(HoldReason.ROLE_DWELL)


def is_cooling(facts: CheckInputs, context: PlanContext) -> Objection | None:
    """Object if the pod was changed a moment ago and nothing may grow in place."""
    if not candidates.is_cooling(facts, context):
        return None
    grows = candidates.growth_in_cool_down(facts, context) is not None
    return None if grows else Objection(HoldReason.COOL_DOWN)


def lacks_admission(_: CheckInputs, context: PlanContext) -> Objection | None:
    """Object if no admission controller would give a successor its size."""
    return None if context.snapshot.admission_alive else Objection(HoldReason.ADMISSION_ABSENT)


def acts_in_vain(facts: CheckInputs, context: PlanContext) -> Objection | None:
    """Object if earlier changes to the workload did not show."""
    if not candidates.acts_in_vain(facts, context) or candidates.dies_on(facts, context):
        return None
    grows = (
        candidates.was_left_small(facts, context)
        and candidates.growth_in_cool_down(facts, context) is not None
    )
    return None if grows else Objection(HoldReason.NOT_CONVERGING)


def is_degraded(facts: CheckInputs, context: PlanContext) -> Objection | None:
    """Object if the workload has got worse since it was changed, and nothing may grow in place."""
    if not candidates.is_degraded(facts, context):
        return None
    if candidates.growth_in_cool_down(facts, context) is not None:
        return None
    detail = candidates.detail_of(HoldReason.WORKLOAD_DEGRADED, facts.workload, context)
    return Objection(HoldReason.WORKLOAD_DEGRADED, detail=detail)


def lacks_replicas(facts: CheckInputs, context: PlanContext) -> Objection | None:
    """Object if the pod's replica group permits nothing."""
    standing = candidates.standing_of(facts, context)
    return Objection(standing) if isinstance(standing, HoldReason) else None
