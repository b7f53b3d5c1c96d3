"""Choose the action for a candidate: an eviction, a resize, or the reason to hold it."""

from collections.abc import Mapping
from typing import Final

from trimtab.core.changes import change
from trimtab.core.guards import disruption_budgets
from trimtab.core.model import pods
from trimtab.core.model.autoscalers import UpdateMode
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.pods import Pod, PodPhase, ResizeState, TargetResources, WorkloadName
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.sizing import container_resources, node_use, resize_patch
from trimtab.core.sizing.node_use import Promised, Shortage
from trimtab.core.sizing.resize_patch import ResizeEffect
from trimtab.core.updates import plan_context, resize_or_evict, spending
from trimtab.core.updates.candidates import Candidate
from trimtab.core.updates.evictions import places
from trimtab.core.updates.plan_context import EVICTING_MODES, PlanContext, TargetForPod
from trimtab.core.updates.resize_or_evict import Action
from trimtab.core.updates.spending import Spent

_JOB: Final = "Job"
"""The kind of owners that count a pod that is gone as failed."""


def judge(candidate: Candidate, context: PlanContext) -> TargetForPod:
    """Return what the autoscaler wants of the candidate's pod."""
    return context.judge(candidate.pod, candidate.autoscaler)


def choose(
    candidate: Candidate, context: PlanContext, spent: Spent, *, disruptable: bool
) -> tuple[Candidate, Action | HoldReason]:
    """Decide what may be done about a candidate beside all that the plan has spent."""
    claimed = spent.grown_on(candidate.pod.node_name)
    return decide(
        candidate, context, disruptable=disruptable, claimed=claimed, promised=spent.promised
    )


def decide(
    candidate: Candidate,
    context: PlanContext,
    *,
    disruptable: bool,
    claimed: Resources = NO_AMOUNTS,
    promised: Promised = node_use.NO_PROMISES,
) -> tuple[Candidate, Action | HoldReason]:
    """Decide what may be done about a candidate, given its budget, or why nothing may.

    Where the pod's node has too little left beside what others have claimed, and no eviction
    helps, the candidate comes back without what would grow. A successor gets none of the room that
    is promised to others.
    """
    lacking = shortages(candidate, context, claimed)
    chosen = decide_alone(candidate, context, disruptable=disruptable, lacking=lacking)
    if chosen is HoldReason.BELOW_MIN_REPLICAS and _is_uncounted(candidate, context):
        chosen = HoldReason.REPLICAS_UNKNOWN
    may_stay = candidate.autoscaler.mode in places.MAY_STAY
    if (
        chosen is Action.EVICT
        and may_stay
        and places.would_stay_pending(candidate, context, promised)
    ):
        is_deferred = candidate.pod.resize is ResizeState.DEFERRED
        chosen = HoldReason.RESIZE_DEFERRED if is_deferred else HoldReason.RESIZE_INFEASIBLE
    if not lacking or chosen is Action.EVICT or restarts_work(candidate, context):
        return candidate, chosen
    left = node_use.without_growth_of(candidate.pod, candidate.wanted, lacking)
    part = worthwhile_part(candidate, left, context)
    if part is None:
        return candidate, chosen
    reduced = candidate._replace(wanted=part)
    if decide_alone(reduced, context, disruptable=disruptable, lacking={}) is Action.RESIZE:
        return reduced, Action.RESIZE
    return candidate, chosen


def _is_uncounted(candidate: Candidate, context: PlanContext) -> bool:
    group = context.group_of(candidate.pod)
    return group is not None and group.configured is None


def shortages(
    candidate: Candidate, context: PlanContext, claimed: Resources = NO_AMOUNTS
) -> Mapping[Resource, Shortage]:
    """Return what the node has too little of for a resize, beside what others have claimed."""
    pod, snapshot = candidate.pod, context.snapshot
    is_evicting = candidate.autoscaler.mode in EVICTING_MODES and not candidate.is_in_place
    if is_evicting or not context.resizes(pod):
        return {}
    return snapshot.node_use.shortages(pod, candidate.wanted, claimed)


def decide_alone(
    candidate: Candidate,
    context: PlanContext,
    *,
    disruptable: bool,
    lacking: Mapping[Resource, Shortage],
) -> Action | HoldReason:
    """Decide for exactly what the candidate wants, given what its node lacks."""
    settings, mode = context.settings, candidate.autoscaler.mode
    restarts = resize_or_evict.restarts_containers(candidate.pod, candidate.wanted)
    situation = resize_or_evict.PodSituation(
        pod=candidate.pod,
        targets=candidate.requests,
        standing=candidate.standing,
        disruptable=disruptable,
        memory=candidate.memory.resize,
        now=context.now,
        restarts=restarts and restarts_work(candidate, context),
        infeasible_retry_after=settings.infeasible_retry_after,
        evict_after_deferred=settings.evict_after_deferred,
        lacks_room=bool(lacking),
        can_move=not lacking or places.can_move(candidate, context),
        quick_oom=candidate.quick_oom,
    )
    # Growth in place is all that such a pod may get.
    as_mode = UpdateMode.IN_PLACE if candidate.is_in_place else mode
    chosen = _decide_by_mode(situation, as_mode, can_resize=context.resizes(candidate.pod))
    if chosen is Action.RESIZE:
        chosen = _confirm_resize(candidate, situation, as_mode, context)
    if isinstance(chosen, Action) and resize_or_evict.is_denied(situation, chosen):
        if not _may_replace_denied(candidate, context):
            return HoldReason.RESIZE_DENIED
        chosen = resize_or_evict.decide_eviction(situation)
    if chosen is Action.EVICT or (chosen is Action.RESIZE and restarts):
        if _takes_last_ready(candidate, context, chosen):
            return HoldReason.BUDGET_SPENT
        if chosen is Action.RESIZE and (spared := _spares_work(candidate, context)) is not None:
            return spared
        return reason_against_restart(candidate, context) or chosen
    return chosen


def restarts_work(candidate: Candidate, context: PlanContext) -> bool:
    """Return True if a resize restarts a container that may be at work.

    A pod that is not ready loses nothing by a restart of containers that are OOM-killed early, if
    that gives it more memory (D17). So neither replicas nor budgets hold such a restart back.
    """
    pod, wanted = candidate.pod, candidate.wanted
    if not resize_or_evict.restarts_containers(pod, wanted):
        return False
    if pod.ready_since is not None or not spending.is_cured(candidate):
        return True
    killed = plan_context.list_killed_early(pod, candidate.autoscaler, context)
    return resize_or_evict.restarts_others(pod, wanted, killed)


def _spares_work(candidate: Candidate, context: PlanContext) -> HoldReason | None:
    """Return why no healthy container of the pod may restart: its work would begin again.

    A Job counts that as a failure, too. A container that is OOM-killed early loses nothing.
    """
    pod = candidate.pod
    if candidate.quick_oom:
        # One that was killed long ago has worked since.
        killed = plan_context.list_killed_early(pod, candidate.autoscaler, context)
        if not resize_or_evict.restarts_others(pod, candidate.wanted, killed):
            return None
    if is_of_job(pod):
        return HoldReason.RUNS_TO_COMPLETION
    return HoldReason.EVICTION_UNWANTED if is_spared(pod, context) else None


def _may_replace_denied(candidate: Candidate, context: PlanContext) -> bool:
    """Return True if a pod is evicted for a size to which the API server does not resize it.

    It may refuse the resize alone, and accept a new pod of that size. So a pod that is OOM-killed
    early is evicted if its owner has no ready pod, or if a pod of the workload has the size.
    """
    pod, workload = candidate.pod, candidate.workload
    if candidate.autoscaler.mode is UpdateMode.IN_PLACE or is_of_job(pod):
        return False
    if (
        candidate.standing is disruption_budgets.GroupPermission.RESIZE_ONLY
        or pod.ready_since is not None
    ):
        return False
    if spending.is_rescued(candidate, context):
        return True
    return (
        spending.is_cured(candidate)
        and workload is not None
        and has_precedent(candidate, workload, context)
    )


def is_denied(candidate: Candidate, context: PlanContext) -> bool:
    """Return True if the API server has lately refused to resize the pod."""
    span = context.settings.infeasible_retry_after
    return resize_or_evict.lately_denied(candidate.memory.resize, context.now, span) is not None


def _decide_by_mode(
    situation: resize_or_evict.PodSituation, mode: UpdateMode, *, can_resize: bool
) -> Action | HoldReason:
    match mode:
        case UpdateMode.IN_PLACE:
            if not can_resize:
                return HoldReason.RESIZE_UNSUPPORTED
            return resize_or_evict.decide_resize_only(situation)
        case UpdateMode.IN_PLACE_OR_RECREATE if can_resize:
            return resize_or_evict.decide_resize_or_eviction(situation)
        case UpdateMode.UPSCALE_ONLY if can_resize and situation.pod.phase is not PodPhase.PENDING:
            return resize_or_evict.decide_resize_or_eviction(situation)
        case _:
            return resize_or_evict.decide_eviction(situation)


def _confirm_resize(
    candidate: Candidate,
    situation: resize_or_evict.PodSituation,
    mode: UpdateMode,
    context: PlanContext,
) -> Action | HoldReason:
    """Confirm the resize if the API server accepts it; else decide on an eviction or a hold."""
    pod = candidate.pod
    effect = resize_patch.resize_effect(pod, candidate.wanted)
    if effect is ResizeEffect.NONE:
        # The spec already says so, and the kubelet has yet to act on it.
        return HoldReason.RESIZE_IN_PROGRESS
    # Where nothing may shrink, the pod as a whole may become too large.
    fits = mode is not UpdateMode.UPSCALE_ONLY or container_resources.is_within(
        pod, candidate.wanted, context.limit_ranges_of(pod)
    )
    if effect is ResizeEffect.SAME_QOS and fits:
        return Action.RESIZE
    if mode is UpdateMode.IN_PLACE:
        return HoldReason.QOS_WOULD_CHANGE
    return resize_or_evict.decide_eviction(situation)


def _takes_last_ready(candidate: Candidate, context: PlanContext, chosen: Action) -> bool:
    """Return True if the pod is the last ready one of its owner and does not grow (D17).

    Of an owner that wants one pod the minimum of replicas alone keeps that from eviction.
    """
    group = context.group_of(candidate.pod)
    if group is None or candidate.pod.ready_since is None or candidate.change.scale_up:
        return False
    return group.ready <= 1 and (chosen is Action.RESIZE or group.configured != 1)


def reason_against_restart(candidate: Candidate, context: PlanContext) -> HoldReason | None:
    """Return why the pod is not restarted although its budget allows it; None if it may be."""
    if candidate.restraint is not None:
        return candidate.restraint
    thresholds = context.settings.thresholds
    if candidate.autoscaler.mode is not UpdateMode.UPSCALE_ONLY:
        is_small = change.is_trifle(candidate.pod, candidate.wanted, thresholds)
        return HoldReason.CHANGE_TOO_SMALL if is_small and not candidate.quick_oom else None
    # Bounds may come as close as a mebibyte, for which nothing restarts (D18).
    if candidate.change.relative_difference < thresholds.least_restart:
        return HoldReason.CHANGE_TOO_SMALL
    # An OOM kill is a reason to restart only where the memory grows by enough (D18).
    relief = change.memory_relief(candidate.pod, candidate.wanted)
    is_cured = relief >= thresholds.smallest_change
    return reason_to_wait(candidate, context, quick_oom=candidate.quick_oom and is_cured)


def reason_to_wait(
    candidate: Candidate, context: PlanContext, *, quick_oom: bool
) -> HoldReason | None:
    """Return why the change should wait; None if it is due."""
    return change.reason_to_wait(
        candidate.change,
        quick_oom=quick_oom,
        age=change.age_of(candidate.pod, candidate.memory.last_updated_at, context.now),
        thresholds=context.settings.thresholds,
        has_new_role=candidate.memory.has_new_role,
    )


def worthwhile_part(
    candidate: Candidate, part: TargetResources, context: PlanContext
) -> TargetResources | None:
    """Return what to ask for of a part of the change; None if it is worth nothing by itself.

    The memory that ends OOM kills waits for no cool-down and no threshold. Where there is none of
    it, nothing is urgent but growth that restarts nothing (D17).
    """
    pod = candidate.pod
    if not spending.is_cured(candidate) or change.memory_relief(pod, part) > 0:
        return part
    growing = resize_or_evict.without_restarts(pod, container_resources.only_growing(pod, part))
    measured = plan_context.measure_part(pod, judge(candidate, context), growing)
    reduced = candidate._replace(change=measured)
    is_possible = (
        reason_to_wait(reduced, context, quick_oom=False) is None
        and resize_patch.resize_effect(pod, growing) is ResizeEffect.SAME_QOS
        and container_resources.is_within(pod, growing, context.limit_ranges_of(pod))
    )
    return growing if is_possible else None


def is_spared(pod: Pod, context: PlanContext) -> bool:
    """Return True if the pod's annotations ask not to be evicted, and the updater obeys them."""
    unwanted = pods.keeps_from_eviction(pod.annotations)
    return unwanted and not context.settings.evicts_unwillingly


def is_of_job(pod: Pod) -> bool:
    """Return True if the pod belongs to a Job, which counts a pod that is gone as failed."""
    return pod.owner is not None and pod.owner.kind == _JOB


def has_precedent(candidate: Candidate, workload: WorkloadName, context: PlanContext) -> bool:
    """Return True if a live pod of the workload has the size that the successor would get."""
    wanted = places.wanted_by_successor(candidate, context)
    return context.has_precedent(candidate.pod, candidate.autoscaler, workload, wanted)
