"""Parts of a change that help a pod which cannot get the whole."""

from collections.abc import Collection, Iterator
from typing import Final

from msgspec import structs

from trimtab.core.changes import change
from trimtab.core.model import limits
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.pods import Allocation, Container, Pod, TargetResources
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.sizing import (
    container_resources,
    node_use,
    pod_level_resources,
    resize_patch,
    startup_boost,
)
from trimtab.core.sizing.quota_check import Refusal
from trimtab.core.sizing.resize_patch import ResizeEffect
from trimtab.core.updates import action_choice, plan_context, quota_plan, resize_or_evict, spending
from trimtab.core.updates.candidates import Candidate
from trimtab.core.updates.evictions import successors
from trimtab.core.updates.pending_growth import PENDING, fitting_part
from trimtab.core.updates.plan_context import EVICTING_MODES, PlanContext
from trimtab.core.updates.resize_or_evict import Action
from trimtab.core.updates.spending import Spent

_LASTING: Final = frozenset(
    {
        HoldReason.BELOW_MIN_REPLICAS,
        HoldReason.EVICTION_UNWANTED,
        HoldReason.LOWER_ORDINAL_NOT_READY,
        HoldReason.NODES_TOO_SMALL,
        HoldReason.NOT_CONVERGING,
        HoldReason.NO_NODE_FOR_SUCCESSOR,
        HoldReason.POD_DISRUPTION_BUDGET,
        HoldReason.QUOTA_EXCEEDED,
        HoldReason.REPLICAS_UNKNOWN,
        HoldReason.RESIZE_DEFERRED,
        HoldReason.RESIZE_INFEASIBLE,
        HoldReason.REVISION_STAGED,
        HoldReason.RUNS_TO_COMPLETION,
        HoldReason.SUCCESSORS_MISSING,
        HoldReason.SUCCESSOR_SMALLER,
    }
)
"""Reasons against a change that may last for as long as the pod is OOM-killed."""


def free_part(candidate: Candidate, context: PlanContext, claimed: Resources) -> Candidate | None:
    """Return the candidate with what it can get without a restart; None if it is not worth it.

    A container that restarts for more memory need not wait for CPU (D17).
    """
    pod, autoscaler = candidate.pod, candidate.autoscaler
    restarts = resize_or_evict.restarts_containers(pod, candidate.wanted)
    if not restarts or autoscaler.mode in EVICTING_MODES:
        return None
    wanted = resize_or_evict.without_restarts(pod, candidate.wanted)
    measured = plan_context.measure_part(pod, context.judge(pod, autoscaler), wanted)
    part = candidate._replace(change=measured, wanted=wanted)
    relief = change.memory_relief(pod, wanted)
    quick_oom = candidate.quick_oom and relief >= context.settings.thresholds.smallest_change
    part, chosen = action_choice.decide(part, context, disruptable=False, claimed=claimed)
    is_possible = (
        chosen is Action.RESIZE
        and action_choice.reason_to_wait(part, context, quick_oom=quick_oom) is None
        and container_resources.is_within(pod, wanted, context.limit_ranges_of(pod))
    )
    return part if is_possible else None


def part_put_off(
    candidate: Candidate, context: PlanContext, claimed: Resources
) -> Candidate | None:
    """Return the candidate with what may fit, where a larger resize is put off or refused.

    The kubelet does all of a resize or nothing, so one resource without room keeps all others.
    """
    pod, memory, autoscaler = candidate.pod, candidate.memory.resize, candidate.autoscaler
    lasts = context.now - (memory.resize_since or context.now)
    is_early = lasts <= context.settings.evict_after_deferred and not candidate.quick_oom
    is_evicting = autoscaler.mode in EVICTING_MODES and not candidate.is_in_place
    if pod.resize not in PENDING or is_early or is_evicting:
        return None
    scarce = context.snapshot.node_use.shortages(pod, candidate.wanted, claimed, of_pending=True)
    least = context.settings.thresholds.smallest_change
    wanted = fitting_part(
        pod, candidate.wanted, scarce, least=least, is_for_memory=candidate.quick_oom
    )
    if not wanted or not container_resources.is_within(pod, wanted, context.limit_ranges_of(pod)):
        return None
    # Asked as if nothing was under way, since it takes the place of that.
    part = candidate._replace(pod=structs.replace(pod, resize=None), wanted=wanted)
    if (
        action_choice.decide_alone(part, context, disruptable=False, lacking={})
        is not Action.RESIZE
    ):
        return None
    return candidate._replace(wanted=wanted)


def part_to_rescue(
    candidate: Candidate, reason: HoldReason, context: PlanContext, spent: Spent
) -> Candidate | None:
    """Return the candidate with what ends its OOM kills, if its whole change is not allowed."""
    if reason is HoldReason.EFFECT_AWAITED:
        # Where a LimitRange refuses the resize, the refusal would keep the pod from its eviction.
        may_last = context.judge(candidate.pod, candidate.autoscaler).cut is None
    else:
        may_last = _may_last(reason, candidate, spent)
    if not may_last:
        return None
    return _part_in_place(candidate, context, spent)


def part_beside_boost(candidate: Candidate, context: PlanContext, spent: Spent) -> Candidate | None:
    """Return the boosted candidate with what ends its OOM kills, if its node is known to fit that.

    A resize that the kubelet puts off would keep the boost from ending.
    """
    is_known = candidate.pod.node_name in context.snapshot.node_use.allocatable
    return _part_in_place(candidate, context, spent) if is_known else None


def _part_in_place(candidate: Candidate, context: PlanContext, spent: Spent) -> Candidate | None:
    """Return the candidate with the largest rescue that quotas accept."""
    pod = candidate.pod
    left = quota_plan.quotas_for(pod, context, spent.claimed)
    for wanted in _rescues(candidate, context, spent.grown_on(pod.node_name)):
        if action_choice.restarts_work(candidate._replace(wanted=wanted), context):
            continue
        fitting = quota_plan.fit_resize(pod, wanted, left)
        # CPU alone is no cure.
        if not isinstance(fitting, Refusal) and change.memory_relief(pod, fitting.wanted) > 0:
            return candidate._replace(wanted=wanted)
    return None


def _may_last(reason: HoldReason, candidate: Candidate, spent: Spent) -> bool:
    if reason is not HoldReason.BUDGET_SPENT or candidate.owner is None:
        return reason in _LASTING
    # What this plan spends comes back with the successors. Pods that were down before may stay so.
    return not spent.disrupted[candidate.owner]


def rescue(
    candidate: Candidate, context: PlanContext, claimed: Resources
) -> TargetResources | None:
    """Return the resize of a pod that is OOM-killed early and must not be evicted (F22).

    A budget may keep it: where all pods die like that, none is ever healthy enough for the budget
    to let one go. Or it belongs to a Job, which counts an eviction as a failure. Or a StatefulSet
    would not bring it back before another pod is ready, which may wait for this one.
    """
    return next(_rescues(candidate, context, claimed), None)


def _rescues(
    candidate: Candidate, context: PlanContext, claimed: Resources
) -> Iterator[TargetResources]:
    """Yield resizes that end the pod's OOM kills, the largest first.

    After the whole come those of the killed containers alone: they do not wait for what others
    want. Where all of them are too much, those that need the least go first.
    """
    pod, autoscaler = candidate.pod, candidate.autoscaler
    if (
        not spending.is_cured(candidate)
        or not context.resizes(pod)
        or pod.resize not in (None, *PENDING)
        or action_choice.is_denied(candidate, context)
    ):
        return
    recommended = container_resources.wanted_by_autoscaler(
        pod, autoscaler, context.limit_ranges_of(pod)
    )
    growing = successors.without_cpu_of(
        pod_level_resources.without_misfits(
            pod, container_resources.only_growing(pod, recommended)
        ),
        # The end of a boost decides on that.
        startup_boost.boosted_containers(pod),
    )
    killed = plan_context.list_killed_early(pod, autoscaler, context)
    dying = sorted(
        (each for each in killed if each.name in growing),
        key=lambda each: (_more_memory(each, growing[each.name]), each.name),
    )
    parts = (_only_of(pod, dying[:count], growing) for count in range(len(dying), 0, -1))
    for grown in (growing, *parts):
        wanted = _fit_rescue(candidate, grown, killed, context, claimed)
        if wanted is not None:
            yield wanted


def _more_memory(container: Container, asked: Allocation) -> int:
    more = limits.amount_of(asked.requests, Resource.MEMORY)
    return more - limits.amount_of(container.current.requests, Resource.MEMORY)


def _only_of(
    pod: Pod, containers: Collection[Container], growing: TargetResources
) -> TargetResources:
    """Return the growth of some containers.

    The others take back the growth that the kubelet has put off: it does all of a resize or none.
    """
    names = {each.name for each in containers}
    part = {name: asked for name, asked in growing.items() if name in names}
    if pod.resize not in PENDING:
        return part
    return part | {
        each.name: each.current
        for each in pod.containers
        if each.name in growing and each.name not in names
    }


def _fit_rescue(
    candidate: Candidate,
    growing: TargetResources,
    killed: Collection[Container],
    context: PlanContext,
    claimed: Resources,
) -> TargetResources | None:
    """Return the part of the growth that the node has room for; None if it ends no OOM kills."""
    pod = candidate.pod
    wanted = resize_or_evict.without_restarts(pod, growing, but_of=killed)
    least, is_pending = context.settings.thresholds.smallest_change, pod.resize is not None
    lacking = context.snapshot.node_use.shortages(pod, wanted, claimed, of_pending=is_pending)
    # Memory that ends the kills waits for no CPU.
    if is_pending:
        wanted = fitting_part(pod, wanted, lacking, least=least, is_for_memory=True)
    elif lacking:
        wanted = node_use.without_growth_of(pod, wanted, lacking)
    is_possible = (
        change.memory_relief(pod, wanted) > 0
        and resize_patch.resize_effect(pod, wanted) is ResizeEffect.SAME_QOS
        and container_resources.is_within(pod, wanted, context.limit_ranges_of(pod))
    )
    return wanted if is_possible else None
