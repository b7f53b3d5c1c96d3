"""Find the pods that need a change, and all reasons against it but their workloads' budgets."""

from collections.abc import Callable
from typing import Final, NamedTuple

from trimtab.core.changes import change as urgency
from trimtab.core.changes import kept_sizes
from trimtab.core.changes.change import Change
from trimtab.core.changes.outcomes import Hold
from trimtab.core.guards import disruption_budgets as disruption
from trimtab.core.model import autoscalers, cap_notes
from trimtab.core.model.autoscalers import Autoscaler, UpdateMode
from trimtab.core.model.cap_notes import Note, NoteKind
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.hold_reasons import WANTS_CHANGE, HoldReason
from trimtab.core.model.pods import (
    PUT_OFF,
    Pod,
    PodPhase,
    ResizeState,
    TargetResources,
    WorkloadName,
)
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.sizing import container_resources, pod_level_resources, resize_patch
from trimtab.core.sizing.resize_patch import ResizeEffect
from trimtab.core.updates import plan_context
from trimtab.core.updates.pending_shrinks import forbidden_shrinks, outdated_shrinks
from trimtab.core.updates.plan_context import EVICTING_MODES, PlanContext, TargetForPod
from trimtab.core.updates.resize_or_evict import (
    ANSWERED_WITHIN,
    lacks_what_was_asked,
    restarts_containers,
    without_restarts,
)
from trimtab.core.updates.snapshot import NO_MEMORY, PodMemory

_OF_TRIFLES: Final = (HoldReason.INSIDE_BOUNDS, HoldReason.CHANGE_TOO_SMALL)


class Candidate(NamedTuple):
    """A pod that may be changed as soon as its workload's budget allows it."""

    pod: Pod
    autoscaler: Autoscaler
    change: Change
    quick_oom: bool
    wanted: TargetResources
    standing: disruption.GroupPermission
    memory: PodMemory
    restraint: HoldReason | None = None
    """Why the pod may only grow in place, mostly as it was changed a moment ago (D17)."""
    takes_back: bool = False
    """True if all that is wanted is to take back a shrink that the kubelet has put off."""
    is_cut: bool = False
    """True if a LimitRange takes something, so that the API server gives the memory that helps."""
    workload: WorkloadName | None = None
    """The topmost."""
    owner: WorkloadName | None = None
    """The direct one."""


class CheckInputs(NamedTuple):
    """One pod, its autoscaler and what follows from the two; a tuple is made fastest."""

    pod: Pod
    autoscaler: Autoscaler
    workload: WorkloadName | None
    judgement: TargetForPod
    quick_oom: bool
    """True if an OOM-killed container would get more memory: that cannot wait."""
    memory: PodMemory
    is_killed_early: bool = False
    """True if a container was OOM-killed early, whatever it would get."""
    is_cure_held: bool = False
    """True if it would get more memory, were that not left to a HorizontalPodAutoscaler."""


def assess(
    pod: Pod,
    autoscaler: Autoscaler,
    workload: WorkloadName | None,
    context: PlanContext,
    *,
    judgement: TargetForPod | None = None,
) -> Candidate | Hold:
    """The pod as a candidate, or the first reason why it is none.

    Who knows already what an autoscaler that acts wants of the pod may bring the judgement along.
    """
    name = autoscaler.identity
    if judgement is None:
        if (idle := reason_to_idle(autoscaler, context.settings.gates)) is not None:
            return Hold(pod, name, idle)
        judgement = context.judge(pod, autoscaler)
    facts = facts_about(pod, autoscaler, workload, judgement, context)
    if back := shrinks_to_take_back(facts, context):
        return candidate_to_take_back(facts, back)
    if judgement.distrust is not None:
        return Hold(pod, name, judgement.distrust)
    for check in CHECKS:
        if (reason := check(facts, context)) is not None:
            wanted = context.want(pod, autoscaler, judgement) if reason in WANTS_CHANGE else None
            detail = detail_of(reason, workload, context)
            return Hold(pod, name, reason, judgement.change, wanted=wanted, detail=detail)
    return _candidate_by_standing(facts, context)


def _candidate_by_standing(facts: CheckInputs, context: PlanContext) -> Candidate | Hold:
    pod, name = facts.pod, facts.autoscaler.identity
    standing = standing_of(facts, context)
    candidate = candidate_of(facts, context, standing)
    if isinstance(standing, HoldReason):
        return Hold(pod, name, standing, candidate.change, wanted=candidate.wanted)
    if not candidate.wanted and facts.autoscaler.mode not in EVICTING_MODES:
        return Hold(pod, name, HoldReason.ONLY_SHRINKS, candidate.change)
    return candidate


def shrinks_to_take_back(facts: CheckInputs, context: PlanContext) -> TargetResources:
    """Return what to ask for instead of a shrink that the kubelet has put off; mostly nothing.

    No mode takes more than is recommended, and where pods only grow none takes anything.
    """
    pod, autoscaler, memory = facts.pod, facts.autoscaler, facts.memory.resize
    if not context.resizes(pod) or autoscaler.mode in EVICTING_MODES:
        return {}
    if plan_context.only_grows(autoscaler, context.settings):
        return forbidden_shrinks(pod, autoscaler, memory)
    # Most pods have no resize under way, and for those nothing has to be measured.
    if pod.resize not in PUT_OFF or facts.judgement.distrust is not None:
        return {}
    wanted = context.want(pod, autoscaler, facts.judgement)
    least = context.settings.thresholds.smallest_change
    return outdated_shrinks(pod, autoscaler, memory, wanted, least)


def candidate_to_take_back(facts: CheckInputs, back: TargetResources) -> Candidate:
    """Return the pod as a candidate that is given back what its spec would take from it."""
    return Candidate(
        facts.pod,
        facts.autoscaler,
        change=facts.judgement.change,
        quick_oom=facts.quick_oom,
        wanted=back,
        standing=disruption.GroupPermission.OPEN,
        memory=facts.memory,
        takes_back=True,
        workload=facts.workload,
        owner=disruption.owner_of(facts.pod),
    )


def standing_of(
    facts: CheckInputs, context: PlanContext
) -> disruption.GroupPermission | HoldReason:
    """Return what the replica group permits, or why none of its pods may be touched.

    Of a small group no pod is evicted, but one that is OOM-killed early may grow in all modes.
    """
    standing = disruption.standing(
        context.group_of(facts.pod),
        facts.autoscaler,
        context.settings.disruption,
        can_resize=context.resizes(facts.pod),
    )
    is_small = standing is HoldReason.BELOW_MIN_REPLICAS
    if is_small and facts.quick_oom and context.resizes(facts.pod):
        return disruption.GroupPermission.RESIZE_ONLY
    return standing


def candidate_of(
    facts: CheckInputs, context: PlanContext, standing: disruption.GroupPermission | HoldReason
) -> Candidate:
    """The pod as a candidate, whatever its replica group permits."""
    pod, autoscaler, judgement = facts.pod, facts.autoscaler, facts.judgement
    restraint = _restraint(facts, context)
    growth = None if restraint is None else growth_in_cool_down(facts, context)
    change, wanted = growth or (judgement.change, context.want(pod, autoscaler, judgement))
    cut = _wanted_with_cut(facts, context)
    is_restrained = growth or is_cooling(facts, context) or _dies_on(facts, context)
    return Candidate(
        pod,
        autoscaler,
        change=change,
        quick_oom=facts.quick_oom,
        wanted=cut or wanted,
        standing=disruption.GroupPermission.OPEN if isinstance(standing, HoldReason) else standing,
        memory=facts.memory,
        restraint=restraint if is_restrained else None,
        is_cut=bool(cut),
        workload=facts.workload,
        owner=disruption.owner_of(pod),
    )


def _restraint(facts: CheckInputs, context: PlanContext) -> HoldReason | None:
    """Return why the pod may only grow in place, if it can."""
    if is_cooling(facts, context):
        return HoldReason.COOL_DOWN
    if _was_left_small(facts, context) or _dies_on(facts, context):
        return HoldReason.NOT_CONVERGING
    return HoldReason.WORKLOAD_DEGRADED if _is_degraded(facts, context) else None


def _wanted_with_cut(facts: CheckInputs, context: PlanContext) -> TargetResources | None:
    """Return the size that a LimitRange allows a pod that is OOM-killed early; mostly None.

    The API server refuses more memory for a pod that keeps more CPU than a LimitRange allows.
    """
    pod, autoscaler, judgement = facts.pod, facts.autoscaler, facts.judgement
    settings = context.settings
    if not facts.quick_oom or judgement.cut is None:
        return None
    if autoscaler.mode in EVICTING_MODES or plan_context.only_grows(autoscaler, settings):
        return None
    wanted = plan_context.resized(pod, autoscaler, judgement.cut, context)
    least = settings.thresholds.smallest_change
    return wanted if kept_sizes.bears_cut(pod, wanted, judgement.recommendation, least) else None


def facts_about(
    pod: Pod,
    autoscaler: Autoscaler,
    workload: WorkloadName | None,
    judgement: TargetForPod,
    context: PlanContext,
) -> CheckInputs:
    """All that the checks of one pod ask for."""
    killed = plan_context.list_killed_early(pod, autoscaler, context)
    waiting = [each for each in killed if autoscalers.holds(autoscaler, each.name, Resource.MEMORY)]
    return CheckInputs(
        pod,
        autoscaler,
        workload,
        judgement,
        # Nothing but more memory ends the kills, so nothing else is urgent.
        quick_oom=bool(killed) and urgency.gives_memory(judgement.recommendation, killed),
        memory=context.snapshot.pod_memory.get((pod.uid, autoscaler.identity), NO_MEMORY),
        is_killed_early=bool(killed),
        is_cure_held=bool(waiting)
        and urgency.gives_memory(autoscaler.recommendation or (), waiting),
    )


def is_cooling(facts: CheckInputs, context: PlanContext) -> bool:
    """Return True if the pod was changed a moment ago and no OOM kill makes it urgent."""
    updated = facts.memory.last_updated_at
    if updated is None or facts.quick_oom:
        return False
    passed = context.now - updated
    if passed >= context.settings.cool_down:
        return False
    # A pod that its node can never resize is as small as it was.
    is_refused = facts.pod.resize is ResizeState.INFEASIBLE and passed >= ANSWERED_WITHIN
    return not (is_refused and facts.judgement.change.scale_up)


def growth_in_cool_down(
    facts: CheckInputs, context: PlanContext
) -> tuple[Change, TargetResources] | None:
    """Return what may grow in place although the pod must not restart; None if nothing (D17).

    The last resize must show on the pod. The growth must matter by itself, restart nothing, and
    need no room that shrinking would make.
    """
    pod, autoscaler, judgement = facts.pod, facts.autoscaler, facts.judgement
    resizes = context.resizes(pod) and autoscaler.mode not in EVICTING_MODES
    if not resizes or not judgement.change.scale_up or pod.phase is PodPhase.PENDING:
        return None
    if lacks_what_was_asked(pod, facts.memory.resize):
        return None
    growing = pod_level_resources.without_misfits(
        pod, container_resources.only_growing(pod, context.want(pod, autoscaler, judgement))
    )
    wanted = without_restarts(pod, growing)
    change = plan_context.measure_part(pod, judgement, wanted)
    is_possible = (
        _is_worth_it(change, facts, context) is None
        and resize_patch.resize_effect(pod, wanted) is ResizeEffect.SAME_QOS
        and not restarts_containers(pod, wanted)
        and container_resources.is_within(pod, wanted, context.limit_ranges_of(pod))
    )
    return (change, wanted) if is_possible else None


def reason_to_idle(autoscaler: Autoscaler, gates: FeatureGates) -> HoldReason | None:
    """Return why the autoscaler changes no running pod at all; None if it may change them."""
    match autoscaler.mode:
        case UpdateMode.OFF:
            return HoldReason.MODE_OFF
        case UpdateMode.INITIAL:
            return HoldReason.MODE_INITIAL
        case UpdateMode.IN_PLACE if not gates.in_place:
            return HoldReason.FEATURE_GATE_OFF
        case UpdateMode.UPSCALE_ONLY if not gates.upscale_only:
            return HoldReason.FEATURE_GATE_OFF
        case _:
            return None


def _amounts_are_possible(facts: CheckInputs, _: PlanContext) -> HoldReason | None:
    # A policy with a negative bound, which no webhook refused, leads to requests that the API
    # server will refuse: an evicted pod would never come back.
    return None if facts.judgement.is_possible else HoldReason.RECOMMENDATION_SUSPICIOUS


def _is_worth_it(change: Change, facts: CheckInputs, context: PlanContext) -> HoldReason | None:
    return urgency.reason_to_wait(
        change,
        quick_oom=facts.quick_oom,
        age=urgency.age_of(facts.pod, facts.memory.last_updated_at, context.now),
        thresholds=context.settings.thresholds,
        has_new_role=facts.memory.has_new_role,
    )


def _worth_it(facts: CheckInputs, context: PlanContext) -> HoldReason | None:
    reason = _is_worth_it(facts.judgement.change, facts, context)
    if facts.is_cure_held and reason in _OF_TRIFLES:
        # What is left to change is not what the pod needs.
        return HoldReason.SCALED_HORIZONTALLY
    if reason is not HoldReason.INSIDE_BOUNDS:
        return reason
    if facts.judgement.is_boosted:
        return HoldReason.BOOST_ACTIVE
    return HoldReason.SCALED_HORIZONTALLY if facts.judgement.holds_change else reason


def _grows_if_it_must(facts: CheckInputs, _: PlanContext) -> HoldReason | None:
    shrinks = (
        facts.autoscaler.mode is UpdateMode.UPSCALE_ONLY and not facts.judgement.change.scale_up
    )
    return HoldReason.ONLY_SHRINKS if shrinks else None


def _meets_requirements(facts: CheckInputs, _: PlanContext) -> HoldReason | None:
    return None if facts.judgement.meets_requirements else HoldReason.REQUIREMENT_NOT_MET


def _role_is_settled(facts: CheckInputs, context: PlanContext) -> HoldReason | None:
    since = facts.memory.governed_since
    if since is None or facts.judgement.change.scale_up:
        return None
    settled = context.now - since >= context.settings.role_dwell
    return None if settled else HoldReason.ROLE_DWELL


def _has_cooled_down(facts: CheckInputs, context: PlanContext) -> HoldReason | None:
    if not is_cooling(facts, context):
        return None
    return HoldReason.COOL_DOWN if growth_in_cool_down(facts, context) is None else None


def _admission_is_alive(_: CheckInputs, context: PlanContext) -> HoldReason | None:
    return None if context.snapshot.admission_alive else HoldReason.ADMISSION_ABSENT


def _converges(facts: CheckInputs, context: PlanContext) -> HoldReason | None:
    if not _acts_in_vain(facts, context) or _dies_on(facts, context):
        return None
    grows = _was_left_small(facts, context) and growth_in_cool_down(facts, context) is not None
    return None if grows else HoldReason.NOT_CONVERGING


def _acts_in_vain(facts: CheckInputs, context: PlanContext) -> bool:
    """Return True if earlier changes to the workload did not show, and it is left alone for now."""
    record = None if facts.workload is None else context.snapshot.convergence.get(facts.workload)
    if record is None:
        return False
    return record.failures >= context.settings.max_misses or not record.is_due(context.now)


def _dies_on(facts: CheckInputs, context: PlanContext) -> bool:
    """Return True if the pod is OOM-killed early, and evictions of the workload had no effect.

    Growth in place repeats none of them.
    """
    is_in_vain = _acts_in_vain(facts, context) and facts.quick_oom
    is_open = facts.workload in context.snapshot.evicted_in_vain and context.resizes(facts.pod)
    return is_in_vain and is_open


def _was_left_small(facts: CheckInputs, context: PlanContext) -> bool:
    """Return True if the change without effect is an eviction into a quota without room.

    The note of admission explains it, and growth in place repeats nothing.
    """
    annotations = facts.pod.annotations
    return _acts_in_vain(facts, context) and any(
        cap_notes.has_note(annotations, Note(kind, NoteKind.QUOTA_REFUSES)) for kind in BOTH
    )


def _is_well(facts: CheckInputs, context: PlanContext) -> HoldReason | None:
    if not _is_degraded(facts, context):
        return None
    grows = growth_in_cool_down(facts, context) is not None
    return None if grows else HoldReason.WORKLOAD_DEGRADED


def _is_degraded(facts: CheckInputs, context: PlanContext) -> bool:
    """Return True if the workload has got worse, and more memory alone is no cure."""
    # A pod that is OOM-killed in a loop gets ready only with more memory.
    return facts.workload in context.snapshot.degraded and not facts.quick_oom


def detail_of(reason: HoldReason, workload: WorkloadName | None, context: PlanContext) -> str:
    """Return the details of the reason, as a message for users."""
    if reason is not HoldReason.WORKLOAD_DEGRADED or workload is None:
        return ""
    return context.snapshot.degraded[workload].detail


# The value of a change comes before the obstacles to it: users ask for that first.
CHECKS: Final[tuple[Callable[[CheckInputs, PlanContext], HoldReason | None], ...]] = (
    _amounts_are_possible,
    _worth_it,
    _grows_if_it_must,
    _meets_requirements,
    _role_is_settled,
    _has_cooled_down,
    _admission_is_alive,
    _converges,
    _is_well,
)
