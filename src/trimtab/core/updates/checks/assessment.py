"""Assessment of one pod by itself: a candidate, or the first reason why it is none."""

from trimtab.core.changes.outcomes import Hold
from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.hold_reasons import WANTS_CHANGE
from trimtab.core.model.pods import Pod, WorkloadName
from trimtab.core.updates import candidates
from trimtab.core.updates.candidates import Candidate, CheckInputs
from trimtab.core.updates.checks import order
from trimtab.core.updates.checks.check import KIND_OF, CheckKind, Objection
from trimtab.core.updates.plan_context import PlanContext, TargetForPod


def assess(
    pod: Pod,
    autoscaler: Autoscaler,
    workload: WorkloadName | None,
    context: PlanContext,
    *,
    judgement: TargetForPod | None = None,
) -> Candidate | Hold:
    """Return the pod as a candidate, or the first reason why it is none.

    A judgement that is known already, of an autoscaler that acts, may be given.
    """
    if judgement is None:
        for each in order.OF_AUTOSCALERS:
            if (objection := each.find(autoscaler, context)) is not None:
                return Hold(pod, autoscaler.identity, objection.reason)
        judgement = context.judge(pod, autoscaler)
    facts = candidates.facts_about(pod, autoscaler, workload, judgement, context)
    if back := candidates.shrinks_to_take_back(facts, context):
        return candidates.candidate_to_take_back(facts, back)
    for check in order.OF_PODS:
        if (objection := check.find(facts, context)) is not None:
            return _hold(facts, objection, context)
    candidate = candidates.candidate_of(facts, context)
    for last in order.OF_CANDIDATES:
        if (objection := last.find(candidate, context)) is not None:
            return _hold_candidate(candidate, objection)
    return candidate


def _hold(facts: CheckInputs, objection: Objection, context: PlanContext) -> Hold:
    if facts.judgement.distrust is not None:
        return Hold(facts.pod, facts.autoscaler.identity, objection.reason)
    if KIND_OF[objection.reason] is CheckKind.REPLICAS:
        # By then it is known what the pod would get in a cool-down.
        return _hold_candidate(candidates.candidate_of(facts, context), objection)
    pod, autoscaler, judgement = facts.pod, facts.autoscaler, facts.judgement
    wants = objection.reason in WANTS_CHANGE
    return Hold(
        pod,
        autoscaler.identity,
        objection.reason,
        judgement.change,
        wanted=context.want(pod, autoscaler, judgement) if wants else None,
        detail=objection.detail,
    )


def _hold_candidate(candidate: Candidate, objection: Objection) -> Hold:
    name, reason = candidate.autoscaler.identity, objection.reason
    wanted = candidate.wanted if reason in WANTS_CHANGE else None
    return Hold(candidate.pod, name, reason, candidate.change, wanted=wanted)
