"""Checks against an eviction that a budget allows."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import structs

from trimtab.core.changes import change, kept_sizes
from trimtab.core.model import limits
from trimtab.core.model.autoscalers import ContainerRecommendation
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.pods import Allocation, PodPhase
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.sizing import admission_patch, capping, container_resources, limit_range_check
from trimtab.core.sizing.boost_room import BoostRoom
from trimtab.core.sizing.quota_check import Refusal
from trimtab.core.updates import (
    action_choice,
    failed_changes,
    plan_context,
    quota_plan,
    rescues,
    spending,
)
from trimtab.core.updates.candidates import Candidate
from trimtab.core.updates.checks.check import Objection
from trimtab.core.updates.evictions import places, rollouts, successors
from trimtab.core.updates.plan_context import PlanContext
from trimtab.core.updates.quota_plan import Successor
from trimtab.core.updates.spending import Spent


def part_of(
    candidate: Candidate, context: PlanContext, left_out: Collection[Resource]
) -> Candidate:
    """Return the candidate without resources that its successor gets from its template."""
    if not left_out:
        return candidate
    wanted = successors.without_resources(candidate.wanted, left_out)
    measured = plan_context.measure_part(
        candidate.pod, action_choice.judge(candidate, context), wanted
    )
    quick_oom = candidate.quick_oom and Resource.MEMORY not in left_out
    return candidate._replace(wanted=wanted, change=measured, quick_oom=quick_oom)


def _is_part_worth_it(
    candidate: Candidate, context: PlanContext, left_out: Collection[Resource]
) -> bool:
    """Return True if growth of the other resources alone is a reason to evict the pod."""
    part, demands = part_of(candidate, context, left_out), candidate.autoscaler.requirements
    recommended = plan_context.recommended_part(
        action_choice.judge(candidate, context), part.wanted
    )
    return (
        part.change.scale_up
        and (not demands or change.are_fulfilled(demands, part.pod, recommended))
        and action_choice.reason_against_restart(part, context) is None
        and action_choice.reason_to_wait(part, context, quick_oom=part.quick_oom) is None
    )


def repeats_itself(candidate: Candidate, context: PlanContext, _: Spent) -> Objection | None:
    """Object if the successor would request what the pod's spec asks for and the pod has.

    A pod whose kubelet reports another size than its spec asks for gains from an eviction.
    """
    wanted = places.wanted_by_successor(candidate, context)
    is_same = all(
        _requests_all(each.spec, asked) and (each.status is None or _has_all(each.status, asked))
        for each in candidate.pod.containers
        if (asked := (wanted.get(each.name) or Allocation()).requests)
    )
    return Objection(HoldReason.INSIDE_BOUNDS) if is_same else None


def _requests_all(spec: Allocation, asked: Resources) -> bool:
    requests = spec.requests or NO_AMOUNTS
    return all(requests.get(kind) == amount for kind, amount in asked.items())


def _has_all(status: Allocation, asked: Resources) -> bool:
    # Of what a status does not name it says nothing.
    requests = status.requests or NO_AMOUNTS
    return all(requests.get(kind, amount) == amount for kind, amount in asked.items())


def is_unwanted(candidate: Candidate, context: PlanContext, _: Spent) -> Objection | None:
    """Object if an annotation of the pod forbids disruption."""
    is_spared = action_choice.is_spared(candidate.pod, context)
    return Objection(HoldReason.EVICTION_UNWANTED) if is_spared else None


def runs_to_completion(candidate: Candidate, _: PlanContext, __: Spent) -> Objection | None:
    """Object to the eviction of a Job's pod: the Job counts it as failed, and may fail for it."""
    is_of_job = action_choice.is_of_job(candidate.pod)
    return Objection(HoldReason.RUNS_TO_COMPLETION) if is_of_job else None


def waits_for_lower_ordinal(
    candidate: Candidate, context: PlanContext, spent: Spent
) -> Objection | None:
    """Object if the StatefulSet would not bring the pod back before a lower ordinal is ready."""
    disrupted = spent.ordinals_of(candidate.owner)
    lacking = context.lacks_lower_ordinal(candidate.pod, disrupted)
    return Objection(HoldReason.LOWER_ORDINAL_NOT_READY) if lacking else None


def rolls_out(candidate: Candidate, context: PlanContext, spent: Spent) -> Objection | None:
    """Object if the eviction rolls out a revision that its owner would not bring to the pod yet."""
    pod, owner, snapshot = candidate.pod, candidate.owner, context.snapshot
    if owner is None or not rollouts.would_change(pod, owner, snapshot):
        return None
    is_down = owner in snapshot.rolling_out and pod.ready_since is None
    # A DaemonSet replaces such pods first. A StatefulSet may wait for a pod that dies on.
    is_due = is_down and (
        owner.kind == rollouts.DAEMON_SET
        or (
            spending.is_cured(candidate)
            and not rollouts.is_in_doubt(owner, snapshot)
            and rescues.rescue(candidate, context, spent.grown_on(pod.node_name)) is None
        )
    )
    return None if is_due else Objection(HoldReason.REVISION_STAGED)


def finds_no_node(candidate: Candidate, context: PlanContext, spent: Spent) -> Objection | None:
    """Object if the successor would find no node, and a new one would not help it."""
    # The other modes hold such a pod before an eviction is chosen.
    is_evicting = candidate.autoscaler.mode not in places.MAY_STAY
    is_stuck = is_evicting and places.would_stay_pending(candidate, context, spent.promised)
    return Objection(HoldReason.NO_NODE_FOR_SUCCESSOR) if is_stuck else None


def follows_restart(candidate: Candidate, context: PlanContext, spent: Spent) -> Objection | None:
    """Object if another pod of the namespace restarts, which a budget over both does not show."""
    end = spending.end_of_gap(candidate.pod, context, spent)
    return None if end is None else Objection(HoldReason.BUDGET_SPENT)


def was_refused(candidate: Candidate, context: PlanContext, _: Spent) -> Objection | None:
    """Object if a PodDisruptionBudget has lately refused the eviction."""
    is_due = candidate.memory.eviction.is_due(context.now)
    return None if is_due else Objection(HoldReason.POD_DISRUPTION_BUDGET)


def awaits_effect(candidate: Candidate, context: PlanContext, spent: Spent) -> Objection | None:
    """Object if as many evictions as may fail have failed, or may yet turn out to have failed.

    The first eviction for a size is alone: a policy may refuse every pod of that size. Once it has,
    only pods that are as small as the successor are evicted to try again. Pods of which all are
    OOM-killed early have nothing to lose, unless a resize to the size was refused.
    """
    workload, most, snapshot = candidate.workload, context.settings.max_unproven, context.snapshot
    is_denied = action_choice.is_denied(candidate, context)
    if workload is None or (most is None and not is_denied):
        return None
    record = snapshot.convergence.get(workload)
    missed = 0 if record is None else record.failures
    unproven = snapshot.unproven.get(workload, 0) + spent.evicted[workload]
    may_lose = failed_changes.has_more(candidate.pod, snapshot.left_small.get(workload, {}))
    is_rescued = spending.is_rescued(candidate, context)
    waits = (
        (most is not None and missed + unproven >= most)
        or (may_lose and not is_rescued)
        or (
            unproven > 0
            and (is_denied or not is_rescued)
            and not action_choice.has_precedent(candidate, workload, context)
        )
    )
    return Objection(HoldReason.EFFECT_AWAITED) if waits else None


def lacks_successors(candidate: Candidate, context: PlanContext, spent: Spent) -> Objection | None:
    """Object while earlier evictions lack successors; a plan of all pods may try one more."""
    brake, workload, namespace = context.snapshot.brake, candidate.workload, candidate.pod.namespace
    stop = brake.find_stop(workload, namespace)
    if stop is None:
        return None
    if workload is not None and workload in brake.lacking:
        is_taken = spent.evicted[workload] > 0
    else:
        is_taken = namespace in spent.evicting
    is_due = stop.lets_probe(context.now, is_rescue=spending.is_rescued(candidate, context))
    is_probe = context.snapshot.is_all and is_due and not is_taken
    return None if is_probe else Objection(HoldReason.SUCCESSORS_MISSING, detail=stop.detail)


def gains_nothing(candidate: Candidate, context: PlanContext, _: Spent) -> Objection | None:
    """Object where a LimitRange would refuse the successor, or too little is left for it (D19)."""
    is_refused = _left_out_by_limit_ranges(candidate, context) is None
    return Objection(HoldReason.LIMIT_RANGE_REFUSES) if is_refused else None


def _left_out_by_limit_ranges(
    candidate: Candidate, context: PlanContext
) -> frozenset[Resource] | None:
    """Return the resources that LimitRanges keep from the successor; None if they refuse it."""
    pod, autoscaler, gates = candidate.pod, candidate.autoscaler, context.settings.gates
    items = limit_range_check.checked_items(context.snapshot.limit_ranges.get(pod.namespace, ()))
    if not items:
        return frozenset()
    room = BoostRoom(context.limit_ranges_of(pod))
    new = context.successor_of(pod) or pod
    given = admission_patch.size_successor(new, autoscaler, gates=gates, room=room)
    # The pod may be older than the LimitRange, whose defaults its successor gets.
    after = [
        limit_range_check.with_defaults(
            items, container_resources.overlaid(each.spec, given.get(each.name))
        )
        for each in new.containers
    ]
    if not given or limit_range_check.would_refuse(items, new, after):
        return None
    left_out = successors.resources_left_out(places.wanted_by_successor(candidate, context), given)
    if left_out and not (
        successors.loses_nothing(pod, left_out, quota_plan.template_for(pod, context))
        and _is_part_worth_it(candidate, context, left_out)
    ):
        return None
    return left_out


def loses_more(candidate: Candidate, context: PlanContext, _: Spent) -> Objection | None:
    """Object if the template gives the successor less of what the autoscaler does not set.

    A pod that dies early for lack of memory, or does not run, has little to lose.
    """
    pod, least = candidate.pod, context.settings.thresholds.smallest_change
    if candidate.quick_oom or pod.phase is PodPhase.PENDING or candidate.owner is None:
        return None
    sizes = context.snapshot.template_sizes.get(candidate.owner)
    items = limit_range_check.checked_items(context.snapshot.limit_ranges.get(pod.namespace, ()))
    template = successors.template_of(pod, sizes, items)
    if template is None:
        return None
    wanted = places.wanted_by_successor(candidate, context)
    loses = successors.takes_more_than_it_gives(pod, wanted, template, least)
    return Objection(HoldReason.SUCCESSOR_SMALLER) if loses else None


def is_capped(candidate: Candidate, context: PlanContext, _: Spent) -> Objection | None:
    """Object if the template caps the successor below what the pod has and needs.

    The limits of a template cap requests where the autoscaler sets no limits. The running pod may
    have larger ones. More memory is all that a pod needs that dies early for lack of it.
    """
    pod, autoscaler = candidate.pod, candidate.autoscaler
    foreseen = context.foresee(pod, autoscaler)
    if foreseen is None or (pod.phase is PodPhase.PENDING and not candidate.quick_oom):
        return None
    kinds = (Resource.MEMORY,) if candidate.quick_oom else BOTH
    needed, least = (
        action_choice.judge(candidate, context).recommendation,
        context.settings.thresholds.smallest_change,
    )
    if not successors.falls_short(pod, foreseen, needed, kinds, least):
        return None
    # Other caps would cut a successor with the limits of the running pod as well.
    like_pod = successors.wanted_of_new(
        structs.replace(pod, node_name=""), autoscaler, context.limit_ranges_of(pod)
    )
    lost = successors.smaller_part(foreseen, like_pod)
    is_short = successors.falls_short(pod, lost, needed, kinds, least)
    return Objection(HoldReason.SUCCESSOR_SMALLER) if is_short else None


def is_cut(candidate: Candidate, context: PlanContext, _: Spent) -> Objection | None:
    """Object if a cap cuts the successor below what the pod has, and below its lower bounds (D25).

    The pod's own node may take no new pods, or not be seen; the pod may be older than a LimitRange.
    A pod that is pending is down, and one that dies early for lack of memory may be cut for it.
    """
    pod = candidate.pod
    if pod.phase is PodPhase.PENDING or not pod.node_name:
        return None
    judgement, least = (
        action_choice.judge(candidate, context),
        context.settings.thresholds.smallest_change,
    )
    items = judgement.limit_ranges
    if not _loses_to(items, candidate, context):
        return None
    after = {name: Allocation(target) for name, target in _capped_targets(items, candidate).items()}
    if candidate.quick_oom and kept_sizes.bears_cut(pod, after, judgement.recommendation, least):
        return None
    nodes = [item for item in items if item.type is LimitRangeType.NODE]
    is_by_nodes = _loses_to(nodes, candidate, context)
    return Objection(HoldReason.NODES_TOO_SMALL if is_by_nodes else HoldReason.LIMIT_RANGE_REFUSES)


def _capped_targets(
    items: Sequence[LimitRangeItem], candidate: Candidate
) -> Mapping[str, Resources]:
    """Return by container what these caps leave the successor."""
    autoscaler = candidate.autoscaler
    capped = capping.cap_for_pod(
        autoscaler.recommendation,
        structs.replace(candidate.pod, node_name=""),
        autoscaler.policies,
        items,
        autoscaler.held,
    )
    return {entry.container_name: entry.target for entry in capped.recommendations}


def _loses_to(items: Sequence[LimitRangeItem], candidate: Candidate, context: PlanContext) -> bool:
    """Return True if these caps leave the successor less than the pod has and needs.

    Nodes and items for pods bound a sum, which containers share by their recommendations. An item
    for containers bounds each, and the gain of another container does not count.
    """
    if _loses_in_sum(_capped_targets(items, candidate), candidate, context):
        return True
    per_container = [item for item in items if item.type is LimitRangeType.CONTAINER]
    if not per_container:
        return False
    given = _capped_targets(per_container, candidate)
    return any(
        given.get(entry.container_name, NO_AMOUNTS).get(kind, least) + 1 < least
        for entry, kind, least in _needed_of_own(candidate, context)
    )


def _needed_of_own(
    candidate: Candidate, context: PlanContext
) -> Iterator[tuple[ContainerRecommendation, Resource, int]]:
    """Yield what each container has and needs of each resource: its lower bound, or its target."""
    own = {each.name: each.current.requests for each in candidate.pod.containers}
    for entry in action_choice.judge(candidate, context).recommendation:
        for kind in BOTH:
            needed = min(
                limits.amount_of(entry.lower_bound, kind), limits.amount_of(entry.target, kind)
            )
            yield entry, kind, min(needed, limits.amount_of(own.get(entry.container_name), kind))


def _loses_in_sum(
    given: Mapping[str, Resources], candidate: Candidate, context: PlanContext
) -> bool:
    own = {each.name: each.current.requests for each in candidate.pod.containers}
    kept = action_choice.judge(candidate, context).recommendation
    names = [entry.container_name for entry in kept]
    for kind in BOTH:
        after = sum(limits.amount_of(given.get(name), kind) for name in names)
        needed = sum(limits.amount_of(entry.lower_bound, kind) for entry in kept)
        has = sum(limits.amount_of(own.get(name), kind) for name in names)
        # Shares are rounded down.
        if after + len(names) < min(needed, has):
            return True
    return False


def lacks_quota(candidate: Candidate, context: PlanContext, spent: Spent) -> Objection | None:
    """Object if quotas give the successor no more than the size that the pod has (F20, D19)."""
    found = _successor_by_quotas(candidate, context, spent)
    if isinstance(found, Refusal):
        return Objection(HoldReason.QUOTA_EXCEEDED, detail=found.words)
    return None


def _successor_by_quotas(
    candidate: Candidate, context: PlanContext, spent: Spent
) -> Successor | Refusal:
    """Return the successor that quotas accept, or why an eviction gains nothing."""
    left = quota_plan.quotas_for(candidate.pod, context, spent.claimed)
    if not left:
        return quota_plan.UNBOUND
    found = quota_plan.foresee_successor(candidate, context, left)
    if isinstance(found, Refusal) or not found.refusal:
        return found
    return found if _is_part_worth_it(candidate, context, found.left_out) else found.refusal


def successor_of(candidate: Candidate, context: PlanContext, spent: Spent) -> Successor:
    """Return the claims of the pod's successor, and all that LimitRanges and quotas keep from it.

    It is asked for only where all checks of an eviction pass.
    """
    found = _successor_by_quotas(candidate, context, spent)
    left_out = _left_out_by_limit_ranges(candidate, context)
    assert not isinstance(found, Refusal)
    assert left_out is not None
    return found._replace(left_out=left_out | found.left_out)
