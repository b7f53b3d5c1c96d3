"""Candidates for a change: pods, what is wanted of them, and what may be done in a cool-down."""

from collections.abc import Mapping
from typing import NamedTuple

from trimtab.core.changes import change, kept_sizes
from trimtab.core.changes.change import Change
from trimtab.core.changes.outcomes import Hold
from trimtab.core.guards import disruption_budgets
from trimtab.core.guards.convergence import RESIZE_STANDS_AFTER
from trimtab.core.model import autoscalers, cap_notes
from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.cap_notes import Note, NoteKind
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.pods import (
    PUT_OFF,
    Pod,
    PodPhase,
    ResizeState,
    TargetResources,
    WorkloadName,
)
from trimtab.core.model.resources import BOTH, Resource, Resources
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


class Candidate(NamedTuple):
    """A pod that may be changed as soon as its workload's budget allows it."""

    pod: Pod
    autoscaler: Autoscaler
    change: Change
    quick_oom: bool
    wanted: TargetResources
    standing: disruption_budgets.GroupPermission
    memory: PodMemory
    restraint: HoldReason | None = None
    """Why the pod may only grow in place, mostly as it was changed a moment ago (D17)."""
    takes_back: bool = False
    """True if all that is wanted is to take back a shrink that the kubelet has put off."""
    is_cut: bool = False
    """True if a LimitRange takes something, so that the API server gives the memory that helps."""
    is_in_place: bool = False
    """True if it grows in place although the mode evicts: its workload has got worse (D22)."""
    boost_hold: Hold | None = None
    """The hold for its startup boost: while that lasts, the pod only gets what ends OOM kills."""
    workload: WorkloadName | None = None
    """The topmost."""
    owner: WorkloadName | None = None
    """The direct one."""

    @property
    def requests(self) -> Mapping[str, Resources]:
        """Return by container the requests that are wanted."""
        return {name: wanted.requests or {} for name, wanted in self.wanted.items()}


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
        standing=disruption_budgets.GroupPermission.OPEN,
        memory=facts.memory,
        takes_back=True,
        workload=facts.workload,
        owner=disruption_budgets.owner_of(facts.pod),
    )


def standing_of(
    facts: CheckInputs, context: PlanContext
) -> disruption_budgets.GroupPermission | HoldReason:
    """Return what the replica group permits, or why none of its pods may be touched.

    Of a group that is small, or of unknown size, no pod is evicted. But one that is OOM-killed
    early may grow in all modes.
    """
    standing = disruption_budgets.standing(
        context.group_of(facts.pod),
        facts.autoscaler,
        context.settings.disruption,
        can_resize=context.resizes(facts.pod),
    )
    is_closed = standing in (HoldReason.BELOW_MIN_REPLICAS, HoldReason.REPLICAS_UNKNOWN)
    if is_closed and facts.quick_oom and context.resizes(facts.pod):
        return disruption_budgets.GroupPermission.RESIZE_ONLY
    return standing


def candidate_of(facts: CheckInputs, context: PlanContext) -> Candidate:
    """Return the pod as a candidate, whatever its replica group permits."""
    standing = standing_of(facts, context)
    pod, autoscaler, judgement = facts.pod, facts.autoscaler, facts.judgement
    restraint = _restraint(facts, context)
    growth = None if restraint is None else growth_in_cool_down(facts, context)
    measured, wanted = growth or (judgement.change, context.want(pod, autoscaler, judgement))
    cut = _wanted_with_cut(facts, context)
    is_restrained = growth or is_cooling(facts, context) or dies_on(facts, context)
    return Candidate(
        pod,
        autoscaler,
        change=measured,
        quick_oom=facts.quick_oom,
        wanted=cut or wanted,
        standing=disruption_budgets.GroupPermission.OPEN
        if isinstance(standing, HoldReason)
        else standing,
        memory=facts.memory,
        restraint=restraint if is_restrained else None,
        is_cut=bool(cut),
        is_in_place=growth is not None and autoscaler.mode in EVICTING_MODES,
        workload=facts.workload,
        owner=disruption_budgets.owner_of(pod),
    )


def _restraint(facts: CheckInputs, context: PlanContext) -> HoldReason | None:
    """Return why the pod may only grow in place, if it can."""
    if is_cooling(facts, context):
        return HoldReason.COOL_DOWN
    if was_left_small(facts, context):
        return HoldReason.NOT_CONVERGING
    if dies_on(facts, context) and _may_evict_no_more(facts, context):
        return HoldReason.NOT_CONVERGING
    return HoldReason.WORKLOAD_DEGRADED if is_degraded(facts, context) else None


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
        quick_oom=bool(killed) and change.gives_memory(judgement.recommendation, killed),
        memory=context.snapshot.pod_memory.get((pod.uid, autoscaler.identity), NO_MEMORY),
        is_killed_early=bool(killed),
        is_cure_held=bool(waiting)
        and change.gives_memory(autoscaler.recommendation or (), waiting),
    )


def is_cooling(facts: CheckInputs, context: PlanContext) -> bool:
    """Return True if the pod was changed a moment ago and no OOM kill makes it urgent.

    A resize that was undone is not repeated before it is known whether it stands (F16).
    """
    updated = facts.memory.last_updated_at
    if updated is None:
        return False
    passed = context.now - updated
    if facts.quick_oom:
        return passed < RESIZE_STANDS_AFTER and _lacks_memory_asked_for(facts)
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
    need no room that shrinking would make. Modes that evict allow it to a pod that is not ready, in
    a workload that has got worse: there nothing else may help it.
    """
    pod, autoscaler, judgement = facts.pod, facts.autoscaler, facts.judgement
    is_evicting = autoscaler.mode in EVICTING_MODES
    is_helpless = pod.ready_since is None and is_degraded(facts, context)
    resizes = context.resizes(pod) and (not is_evicting or is_helpless)
    if not resizes or not judgement.change.scale_up or pod.phase is PodPhase.PENDING:
        return None
    if lacks_what_was_asked(pod, facts.memory.resize):
        return None
    whole = (
        plan_context.resized(pod, autoscaler, judgement.capped, context)
        if is_evicting
        else context.want(pod, autoscaler, judgement)
    )
    growing = pod_level_resources.without_misfits(pod, container_resources.only_growing(pod, whole))
    wanted = without_restarts(pod, growing)
    measured = plan_context.measure_part(pod, judgement, wanted)
    is_possible = (
        reason_to_wait(measured, facts, context) is None
        and resize_patch.resize_effect(pod, wanted) is ResizeEffect.SAME_QOS
        and not restarts_containers(pod, wanted)
        and container_resources.is_within(pod, wanted, context.limit_ranges_of(pod))
    )
    return (measured, wanted) if is_possible else None


def reason_to_wait(measured: Change, facts: CheckInputs, context: PlanContext) -> HoldReason | None:
    """Return why the change should wait; None if it is due."""
    return change.reason_to_wait(
        measured,
        quick_oom=facts.quick_oom,
        age=change.age_of(facts.pod, facts.memory.last_updated_at, context.now),
        thresholds=context.settings.thresholds,
        has_new_role=facts.memory.has_new_role,
    )


def acts_in_vain(facts: CheckInputs, context: PlanContext) -> bool:
    """Return True if earlier changes to the workload did not show, and it is left alone for now."""
    record = None if facts.workload is None else context.snapshot.convergence.get(facts.workload)
    if record is None:
        return False
    return record.failures >= context.settings.max_misses or not record.is_due(context.now)


def dies_on(facts: CheckInputs, context: PlanContext) -> bool:
    """Return True if the pod is OOM-killed early, and changes of the workload had no effect.

    It may grow in place all the same, once: that repeats no change of its own.
    """
    return (
        facts.quick_oom
        and context.resizes(facts.pod)
        and acts_in_vain(facts, context)
        and not _lacks_memory_asked_for(facts)
    )


def _lacks_memory_asked_for(facts: CheckInputs) -> bool:
    # Of CPU a pod may have less since, as after the end of a boost.
    return lacks_what_was_asked(facts.pod, facts.memory.resize, (Resource.MEMORY,))


def _may_evict_no_more(facts: CheckInputs, context: PlanContext) -> bool:
    """Return True if the last change without effect was an eviction, or too many had none.

    A few resizes without effect say nothing about evictions.
    """
    workload, snapshot = facts.workload, context.snapshot
    record = None if workload is None else snapshot.convergence.get(workload)
    failures = 0 if record is None else record.failures
    return workload in snapshot.evicted_in_vain or failures >= context.settings.max_misses


def was_left_small(facts: CheckInputs, context: PlanContext) -> bool:
    """Return True if the change without effect is an eviction into a quota without room.

    The note of admission explains it, and growth in place repeats nothing.
    """
    annotations = facts.pod.annotations
    return acts_in_vain(facts, context) and any(
        cap_notes.has_note(annotations, Note(kind, NoteKind.QUOTA_REFUSES)) for kind in BOTH
    )


def is_degraded(facts: CheckInputs, context: PlanContext) -> bool:
    """Return True if the workload has got worse, and more memory alone is no cure."""
    # A pod that is OOM-killed in a loop gets ready only with more memory.
    return facts.workload in context.snapshot.degraded and not facts.quick_oom


def detail_of(reason: HoldReason, workload: WorkloadName | None, context: PlanContext) -> str:
    """Return the details of the reason, as a message for users."""
    if reason is not HoldReason.WORKLOAD_DEGRADED or workload is None:
        return ""
    return context.snapshot.degraded[workload].detail
