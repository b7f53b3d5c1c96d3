"""The updater's plan: an act for every live pod of every autoscaler, or the reason for none.

First each pod is assessed by itself (`candidates.py`). Then the candidates are served in order of
urgency while their workloads' budgets last. The updater's controller carries the plan out, within
its rate limits.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from trimtab.core.changes import change as requirements
from trimtab.core.changes import change as urgency
from trimtab.core.changes import kept_sizes
from trimtab.core.changes.outcomes import EndOfBoost, Evict, Hold, Outcome, Place, Resize, Unboost
from trimtab.core.guards import disruption_budgets, rate_limit
from trimtab.core.guards.rate_limit import Wishes
from trimtab.core.model import limits, matching, pods
from trimtab.core.model.autoscalers import (
    Autoscaler,
    ContainerRecommendation,
    UpdateMode,
    is_paused,
)
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.pods import (
    Allocation,
    Pod,
    PodPhase,
    ResizeState,
    TargetResources,
    WorkloadName,
)
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.sizing import (
    admission_patch,
    capping,
    container_resources,
    limit_range_check,
    node_use,
    pod_level_resources,
    pod_totals,
    resize_patch,
    startup_boost,
)
from trimtab.core.sizing.boost_room import BoostRoom
from trimtab.core.sizing.node_capacity import NodeRooms
from trimtab.core.sizing.node_use import Promised, Shortage
from trimtab.core.sizing.quota_check import Refusal
from trimtab.core.sizing.quotas import Claims, QuotaClaim
from trimtab.core.sizing.resize_patch import ResizeEffect
from trimtab.core.updates import (
    boost_end,
    quota_plan,
    resize_or_evict,
    rollouts,
    successors,
    wishes,
)
from trimtab.core.updates.boost_end import BoostEnd
from trimtab.core.updates.candidate_cache import CandidateCache, LastFindings, LivePods
from trimtab.core.updates.candidates import (
    EVICTING_MODES,
    Candidate,
    PlanContext,
    PlanSettings,
    TargetForPod,
    detail_of,
    list_killed_early,
    measure_part,
    recommended_part,
)
from trimtab.core.updates.failed_changes import has_more
from trimtab.core.updates.pending_growth import PENDING, fitting_part
from trimtab.core.updates.quota_shortage import find_boosts_in_the_way
from trimtab.core.updates.resize_or_evict import Action
from trimtab.core.updates.snapshot import Snapshot
from trimtab.core.updates.successors import ordinal_of

_MAY_STAY: Final = (UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.UPSCALE_ONLY)
"""Modes that evict only where a resize does not help: their pods move to free room alone."""

_JOB: Final = "Job"
"""The kind of owners that count a pod that is gone as failed."""

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
        HoldReason.RESIZE_DEFERRED,
        HoldReason.REVISION_STAGED,
        HoldReason.RUNS_TO_COMPLETION,
        HoldReason.SUCCESSORS_MISSING,
        HoldReason.SUCCESSOR_SMALLER,
    }
)
"""Reasons against an eviction that may last for as long as the pod is OOM-killed."""

_RESTART_FIRST: Final = (
    "another pod of the namespace restarts first, as one PodDisruptionBudget may cover both"
)


@dataclass(frozen=True, slots=True)
class Spent:
    """Budgets and room that a plan has spent so far."""

    disrupted: Counter[WorkloadName] = field(default_factory=Counter)
    """By direct owner the pods that are taken away."""
    unready: Counter[WorkloadName] = field(default_factory=Counter)
    """By direct owner the number of those that were not ready before."""
    evicted: Counter[WorkloadName] = field(default_factory=Counter)
    """By topmost workload the pods that need a successor."""
    evicting: set[str] = field(default_factory=set)
    """The namespaces of these pods."""
    ordinals: defaultdict[WorkloadName, set[int]] = field(default_factory=lambda: defaultdict(set))
    """By direct owner the ordinals of the pods that are evicted."""
    restarting: set[WorkloadName | None] = field(default_factory=set)
    """The direct owners of pods whose containers are restarted."""
    restarts: set[str] = field(default_factory=set)
    """The namespaces in which containers of a ready pod are restarted."""
    claimed: defaultdict[tuple[str, str], Counter[QuotaClaim]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    """By namespace and quota the amounts that successors and resizes will take of it."""
    refusals: dict[str, str] = field(default_factory=dict)
    """By the uid of a pod the reason why a quota refuses it, or its successor."""
    cut: set[WorkloadName | None] = field(default_factory=set)
    """The topmost workloads of pods from which a LimitRange takes something in place."""
    left_out: defaultdict[str, frozenset[Resource]] = field(
        default_factory=lambda: defaultdict(frozenset)
    )
    """By the uid of a pod the resources that its successor has from its template alone."""
    grown: defaultdict[str, Counter[Resource]] = field(default_factory=lambda: defaultdict(Counter))
    """By node the amounts that resizes and successors take beyond its present pods."""
    arrivals: Counter[str] = field(default_factory=Counter)
    """By node the number of successors that come from other nodes."""

    @property
    def promised(self) -> Promised:
        """Room on nodes that is set aside."""
        return Promised(self.grown, self.arrivals)


def plan(snapshot: Snapshot, settings: PlanSettings, now: datetime) -> list[Outcome]:
    """Return one outcome for every live pod that an autoscaler governs, the most urgent first.

    Boosts that are over come first, then what else may change in order of urgency, then the pods
    that were no candidates. The order of the snapshot plays no part.
    """
    return Planner(settings).plan(snapshot, now)


class Planner:
    """Makes one plan after another, and assesses only pods about which something changed."""

    def __init__(self, settings: PlanSettings) -> None:
        self._settings = settings
        self._known = CandidateCache()
        self._findings = LastFindings()
        self._groups: dict[WorkloadName, disruption_budgets.ReplicaGroup] = {}
        self._counted: tuple[object, ...] | None = None
        """The inputs that the groups were counted from."""
        self._boosted: frozenset[str] = frozenset()
        """The uids of the boosted pods of the last plan."""
        # By the identity of the candidate: each is held here, so that no other can have it.
        self._surge_holds: dict[int, tuple[Candidate, Hold]] = {}
        """Latest holds of the candidates that a surge holds back."""

    def plan(self, snapshot: Snapshot, now: datetime) -> list[Outcome]:
        """Return the same outcomes as the function `plan`, whatever was planned before."""
        settings = self._settings
        live = self._known.meet(snapshot)
        self._boosted = live.boosted
        groups = self._count_groups(live, snapshot)
        in_the_way: frozenset[str] = frozenset()
        if live.boosted and snapshot.short_handed:
            in_the_way = find_boosts_in_the_way(snapshot, groups)
        context = PlanContext(snapshot, settings, groups, now, in_the_way=in_the_way)
        assessments = self._assess_all(live, context)
        ends = [each for each in assessments if isinstance(each, BoostEnd)]
        candidates = [each for each in assessments if isinstance(each, Candidate)]
        holds = [each for each in assessments if isinstance(each, Hold)]
        moving, surging = self._split_surge(candidates, holds, context)
        spent = Spent()
        return [
            *(
                _pause(_choose_unboost(end, context, spent), end.autoscaler, context)
                for end in ends
            ),
            *(
                _pause(_choose(each, context, spent), each.autoscaler, context)
                for each in _in_turn(moving, groups)
            ),
            *self._hold_surging(surging),
            *holds,
        ]

    def _count_groups(
        self, live: LivePods, snapshot: Snapshot
    ) -> dict[WorkloadName, disruption_budgets.ReplicaGroup]:
        counted = live, snapshot.configured_replicas, snapshot.settling
        if counted != self._counted:
            self._counted = counted
            self._groups = disruption_budgets.count_owned(
                live.owned, snapshot.configured_replicas, snapshot.settling
            )
        return self._groups

    def count_wishes(self, outcomes: Iterable[Outcome]) -> Mapping[str, Wishes]:
        """Return the same as `wishes.count` for the last plan, at less cost."""
        return wishes.count_among(outcomes, self._boosted)

    def _split_surge(
        self, candidates: Sequence[Candidate], holds: Sequence[Hold], context: PlanContext
    ) -> tuple[Sequence[Candidate], Sequence[Candidate]]:
        """Return the candidates that may go on, and those that a surge of changes holds back."""
        surging = context.snapshot.surging
        if surging is None:
            surging = self._find_surging(candidates, holds, context)
        if not surging:
            return candidates, ()
        # Waiting helps neither a container that is OOM-killed, nor a pod that only gets back what
        # it has.
        held = [
            each
            for each in candidates
            if each.pod.namespace in surging and not each.quick_oom and not each.takes_back
        ]
        found = set(map(id, held))
        return [each for each in candidates if id(each) not in found], held

    def _find_surging(
        self, candidates: Sequence[Candidate], holds: Sequence[Hold], context: PlanContext
    ) -> frozenset[str]:
        usual, settings = context.snapshot.usual_shares, context.settings
        if not usual:
            return frozenset()
        found = wishes.count_among([*candidates, *holds], self._boosted)
        return rate_limit.find_surging(
            found, usual, margin=settings.surge_margin, min_pods=settings.surge_min_pods
        )

    def _hold_surging(self, surging: Iterable[Candidate]) -> list[Hold]:
        """Return the holds of candidates in a surge: the same objects while the candidates last."""
        before = self._surge_holds
        self._surge_holds = {
            id(each): before.get(id(each)) or (each, _hold_for_surge(each)) for each in surging
        }
        return [hold for _, hold in self._surge_holds.values()]

    def _assess_all(
        self, live: LivePods, context: PlanContext
    ) -> Sequence[Candidate | BoostEnd | Hold | None]:
        """Return the assessment of each live pod; None where no autoscaler governs it."""
        gates = context.settings.gates
        autoscalers = self._known.recognise(context.snapshot)
        index = matching.index_by_workload(autoscalers, selectors_enabled=gates.pod_selector)
        self._known.renew_bases(live, index, context)
        found = self._findings.renew(live, index, context)
        if not gates.cpu_startup_boost:
            return found
        assessments: list[Candidate | BoostEnd | Hold | None] = [*found]
        for position in live.boosts:
            observed = live.pods[position].observed
            autoscaler = matching.governor_of(index, observed.workload, observed.pod.labels)
            assessments[position] = boost_end.assess_boost(observed, autoscaler, context)
        return assessments


def _in_turn(
    candidates: Iterable[Candidate], groups: Mapping[WorkloadName, disruption_budgets.ReplicaGroup]
) -> list[Candidate]:
    """Return the candidates in the order in which budgets and other bounds serve them."""
    return _rescues_first(_unready_first(urgency.most_urgent_first(candidates), groups))


def _unready_first(
    candidates: Sequence[Candidate], groups: Mapping[WorkloadName, disruption_budgets.ReplicaGroup]
) -> Sequence[Candidate]:
    """Return the candidates, of each owner first the pods that are not ready, in its places."""
    mixed = {owner for owner, group in groups.items() if 0 < group.ready < group.live}
    if not mixed:
        return candidates
    owned: defaultdict[WorkloadName, list[Candidate]] = defaultdict(list)
    for each in candidates:
        if each.owner in mixed:
            owned[each.owner].append(each)
    turns = {
        owner: iter(sorted(found, key=lambda each: each.pod.ready_since is not None))
        for owner, found in owned.items()
    }
    return [next(turns[each.owner]) if each.owner in turns else each for each in candidates]


def _rescues_first(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Sort first the candidates that are OOM-killed early and grow; equals keep their order."""
    return sorted(candidates, key=lambda each: not (each.quick_oom and each.change.scale_up))


def _hold_for_surge(each: Candidate) -> Hold:
    name = each.autoscaler.identity
    return Hold(each.pod, name, HoldReason.SURGE, each.change, wanted=each.wanted)


def _pause(outcome: Outcome, autoscaler: Autoscaler | None, context: PlanContext) -> Outcome:
    """Return the outcome, or a hold with it as the withheld act where changes are paused."""
    if isinstance(outcome, Hold) or not is_held_back(outcome.pod, autoscaler, context):
        return outcome
    change = None if isinstance(outcome, Unboost) else outcome.change
    return Hold(outcome.pod, outcome.autoscaler, HoldReason.PAUSED, change, withheld=outcome)


def is_held_back(pod: Pod, autoscaler: Autoscaler | None, context: PlanContext) -> bool:
    """Return True if changes to the pod are paused: by flag, namespace or autoscaler."""
    return (
        context.settings.paused
        or pod.namespace in context.snapshot.paused_namespaces
        or (autoscaler is not None and is_paused(autoscaler))
    )


def _choose_unboost(end: BoostEnd, context: PlanContext, spent: Spent) -> Unboost | Hold:
    step = boost_end.plan_end(end, context)
    if isinstance(step, Hold) or not resize_or_evict.restarts_containers(step.pod, step.wanted):
        return step
    reason, gap = _reason_against_unboost(end, context, spent), None
    if reason is None and (gap := _end_of_gap(end.pod, context, spent)) is not None:
        reason = HoldReason.BUDGET_SPENT
    if reason is not None and not _is_forced(end, context, spent):
        hold = boost_end.hold_boost(end, reason)
        return hold if gap is None else replace(hold, until=gap)
    count_restart(end.pod, spent)
    count_down(end.pod, spent)
    return step


def _reason_against_unboost(end: BoostEnd, context: PlanContext, spent: Spent) -> HoldReason | None:
    """Return why a boost cannot end by a restart, which is a disruption like an eviction (D17)."""
    group = context.group_of(end.pod)
    minimum = context.settings.disruption.min_replicas
    if end.autoscaler is not None and end.autoscaler.min_replicas is not None:
        minimum = end.autoscaler.min_replicas
    if group is not None and group.live < minimum:
        return HoldReason.BELOW_MIN_REPLICAS
    is_last = end.pod.ready_since is not None and group is not None and group.ready <= 1
    if is_last or not is_disruptable(disruption_budgets.owner_of(end.pod), context, spent):
        return HoldReason.BUDGET_SPENT
    return None


def _is_forced(end: BoostEnd, context: PlanContext, spent: Spent) -> bool:
    """Return True if the boost ends whatever budgets say: none lasts beyond its hard limit (D8).

    Of one owner one pod restarts after the other.
    """
    if end.cause is not EndOfBoost.HARD_LIMIT:
        return False
    owner, settling = disruption_budgets.owner_of(end.pod), context.snapshot.settling
    return owner is None or not (
        spent.disrupted[owner]
        or any(
            each.pod.uid in settling and disruption_budgets.owner_of(each.pod) == owner
            for each in (context.snapshot.pods if settling else ())
        )
    )


def _choose(candidate: Candidate, context: PlanContext, spent: Spent) -> Evict | Resize | Hold:
    if candidate.takes_back:
        return _take_back(candidate, context, spent)
    outcome = _choose_whole(candidate, context, spent)
    if not isinstance(outcome, Hold):
        return outcome
    claimed = spent.grown[candidate.pod.node_name]
    part = (
        _free_part(candidate, context, claimed)
        or _part_put_off(candidate, context, claimed)
        or _part_to_rescue(candidate, outcome.reason, context, spent)
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


def _free_part(candidate: Candidate, context: PlanContext, claimed: Resources) -> Candidate | None:
    """Return the candidate with what it can get without a restart; None if it is not worth it.

    A container that restarts for more memory need not wait for CPU (D17).
    """
    pod, autoscaler = candidate.pod, candidate.autoscaler
    restarts = resize_or_evict.restarts_containers(pod, candidate.wanted)
    if not restarts or autoscaler.mode in EVICTING_MODES:
        return None
    wanted = resize_or_evict.without_restarts(pod, candidate.wanted)
    change = measure_part(pod, context.judge(pod, autoscaler), wanted)
    part = candidate._replace(change=change, wanted=wanted)
    relief = urgency.memory_relief(pod, wanted)
    quick_oom = candidate.quick_oom and relief >= context.settings.thresholds.smallest_change
    part, chosen = decide(part, context, disruptable=False, claimed=claimed)
    is_possible = (
        chosen is Action.RESIZE
        and _reason_to_wait(part, context, quick_oom=quick_oom) is None
        and container_resources.is_within(pod, wanted, context.limit_ranges_of(pod))
    )
    return part if is_possible else None


def _part_put_off(
    candidate: Candidate, context: PlanContext, claimed: Resources
) -> Candidate | None:
    """Return the candidate with what may fit, where a larger resize is put off or refused.

    The kubelet does all of a resize or nothing, so one resource without room keeps all others.
    """
    pod, memory, autoscaler = candidate.pod, candidate.memory.resize, candidate.autoscaler
    lasts = context.now - (memory.resize_since or context.now)
    is_early = lasts <= context.settings.evict_after_deferred and not candidate.quick_oom
    if pod.resize not in PENDING or is_early or autoscaler.mode in EVICTING_MODES:
        return None
    scarce = context.snapshot.node_use.shortages(pod, candidate.wanted, claimed, of_pending=True)
    least = context.settings.thresholds.smallest_change
    wanted = fitting_part(
        pod, candidate.wanted, scarce, least=least, is_for_memory=candidate.quick_oom
    )
    if not wanted or not container_resources.is_within(pod, wanted, context.limit_ranges_of(pod)):
        return None
    # Asked as if nothing was under way, since it takes the place of that.
    part = candidate._replace(pod=replace(pod, resize=None), wanted=wanted)
    if _decide(part, context, disruptable=False, lacking={}) is not Action.RESIZE:
        return None
    return candidate._replace(wanted=wanted)


def _part_to_rescue(
    candidate: Candidate, reason: HoldReason, context: PlanContext, spent: Spent
) -> Candidate | None:
    """Return the candidate with what ends its OOM kills, if its eviction is not allowed."""
    if reason not in _LASTING:
        return None
    pod = candidate.pod
    wanted = _rescue(candidate, context, spent.grown[pod.node_name])
    if wanted is None or restarts_work(candidate._replace(wanted=wanted), context):
        return None
    left = quota_plan.quotas_for(pod, context, spent.claimed)
    fitting = quota_plan.fit_resize(pod, wanted, left) if left else (wanted, {})
    # CPU alone is no cure.
    is_cure = not isinstance(fitting, Refusal) and urgency.memory_relief(pod, fitting[0]) > 0
    return candidate._replace(wanted=wanted) if is_cure else None


def _choose_whole(
    candidate: Candidate, context: PlanContext, spent: Spent
) -> Evict | Resize | Hold:
    disruptable = may_disrupt(candidate, context, spent)
    claimed = spent.grown[candidate.pod.node_name]
    candidate, chosen = decide(
        candidate, context, disruptable=disruptable, claimed=claimed, promised=spent.promised
    )
    if chosen is Action.EVICT:
        is_protected = candidate.memory.eviction.failures > 0 or _is_of_job(candidate.pod)
        rescue = _rescue(candidate, context, claimed) if is_protected else None
        if rescue is not None and (act := _resize(candidate, rescue, context, spent)) is not None:
            return act
        chosen = _confirm_eviction(candidate, context, spent)
    match chosen:
        case Action.EVICT:
            return _evict(candidate, context, spent)
        case Action.RESIZE:
            hold = _hold_cut(candidate, context, spent)
            if hold is None and restarts_work(candidate, context):
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
            words = detail_of(reason, candidate.workload, context)
            return replace(_hold(candidate, reason), detail=words)
        case _:
            return _hold(candidate, reason)


def _evict(candidate: Candidate, context: PlanContext, spent: Spent) -> Evict:
    count_down(candidate.pod, spent)
    spent.evicting.add(candidate.pod.namespace)
    if candidate.owner is not None and (ordinal := ordinal_of(candidate.pod)) is not None:
        spent.ordinals[candidate.owner].add(ordinal)
    if candidate.workload is not None:
        spent.evicted[candidate.workload] += 1
    place = _place_of_successor(candidate, context, spent.promised)
    if place is not None:
        set_place_aside(candidate.pod, place, spent)
    left_out = spent.left_out[candidate.pod.uid]
    part = _part_of(candidate, context, left_out)
    return Evict(
        part.pod,
        part.autoscaler.identity,
        part.change,
        quick_oom=part.quick_oom,
        wanted=successors.without_resources(_wanted_by_successor(part, context), left_out),
        place=place,
    )


def _part_of(
    candidate: Candidate, context: PlanContext, left_out: Collection[Resource]
) -> Candidate:
    """Return the candidate without resources that its successor gets from its template."""
    if not left_out:
        return candidate
    wanted = successors.without_resources(candidate.wanted, left_out)
    change = measure_part(candidate.pod, _judge(candidate, context), wanted)
    quick_oom = candidate.quick_oom and Resource.MEMORY not in left_out
    return candidate._replace(wanted=wanted, change=change, quick_oom=quick_oom)


def _judge(candidate: Candidate, context: PlanContext) -> TargetForPod:
    return context.judge(candidate.pod, candidate.autoscaler)


def _is_part_worth_it(
    candidate: Candidate, context: PlanContext, left_out: Collection[Resource]
) -> bool:
    """Return True if growth of the other resources alone is a reason to evict the pod."""
    part, demands = _part_of(candidate, context, left_out), candidate.autoscaler.requirements
    recommended = recommended_part(_judge(candidate, context), part.wanted)
    return (
        part.change.scale_up
        and (not demands or requirements.are_fulfilled(demands, part.pod, recommended))
        and _reason_against_restart(part, context) is None
        and _reason_to_wait(part, context, quick_oom=part.quick_oom) is None
    )


def set_place_aside(pod: Pod, place: Place, spent: Spent) -> None:
    """Set aside the room that the successor of a pod takes of its node."""
    spent.grown[place.node_name].update(place.needed)
    if place.node_name != pod.node_name:
        spent.arrivals[place.node_name] += 1


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
    if restarts_work(candidate, context):
        spent.restarting.add(candidate.owner)
        count_restart(pod, spent)
        count_down(pod, spent)
    spent.grown[pod.node_name].update(node_use.growth(pod, wanted))
    name, change = candidate.autoscaler.identity, candidate.change
    return Resize(pod, name, wanted, change, quick_oom=candidate.quick_oom)


def _wanted_by_successor(candidate: Candidate, context: PlanContext) -> TargetResources:
    """Return what admission gives the successor: under UpscaleOnly less, too (D18).

    Where its template is not known, the pod that runs stands in for it.
    """
    pod, autoscaler = candidate.pod, candidate.autoscaler
    foreseen = context.foresee(pod, autoscaler)
    if foreseen is not None:
        # The CPU of a boosted container says nothing about its usual size.
        found = successors.without_cpu_of(foreseen, startup_boost.boosted_containers(pod))
        return successors.only_requests(found) if autoscaler.mode in EVICTING_MODES else found
    if autoscaler.mode is not UpdateMode.UPSCALE_ONLY:
        return candidate.wanted
    recommended = container_resources.wanted_by_autoscaler(
        pod, autoscaler, context.limit_ranges_of(pod)
    )
    return pod_level_resources.without_misfits(pod, recommended)


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
    chosen = _decide(candidate, context, disruptable=disruptable, lacking=lacking)
    may_stay = candidate.autoscaler.mode in _MAY_STAY
    if chosen is Action.EVICT and may_stay and _would_stay_pending(candidate, context, promised):
        is_deferred = candidate.pod.resize is ResizeState.DEFERRED
        chosen = HoldReason.RESIZE_DEFERRED if is_deferred else HoldReason.RESIZE_INFEASIBLE
    if not lacking or chosen is Action.EVICT or restarts_work(candidate, context):
        return candidate, chosen
    part = node_use.without_growth_of(candidate.pod, candidate.wanted, lacking)
    reduced = candidate._replace(wanted=part)
    if _decide(reduced, context, disruptable=disruptable, lacking={}) is Action.RESIZE:
        return reduced, Action.RESIZE
    return candidate, chosen


def shortages(
    candidate: Candidate, context: PlanContext, claimed: Resources = NO_AMOUNTS
) -> Mapping[Resource, Shortage]:
    """Return what the node has too little of for a resize, beside what others have claimed."""
    pod, snapshot = candidate.pod, context.snapshot
    if candidate.autoscaler.mode in EVICTING_MODES or not context.resizes(pod):
        return {}
    return snapshot.node_use.shortages(pod, candidate.wanted, claimed)


def _would_stay_pending(candidate: Candidate, context: PlanContext, promised: Promised) -> bool:
    """Return True if no node has room for the successor of a pod that runs well enough.

    A pod that is OOM-killed early and is not ready loses nothing, and one that is pending is down.
    """
    pod = candidate.pod
    is_down = pod.phase is PodPhase.PENDING or (candidate.quick_oom and pod.ready_since is None)
    if is_down or not _seeks_place(candidate, context):
        return False
    return _place_of_successor(candidate, context, promised) is None


def _seeks_place(candidate: Candidate, context: PlanContext) -> bool:
    """Return True if the successor needs a node that is there.

    The other modes evict into a full cluster, so that nodes are added. That helps no pod whose
    spec names its nodes.
    """
    seeks = candidate.autoscaler.mode in _MAY_STAY or node_use.is_bound(candidate.pod)
    return seeks and bool(context.free_nodes())


def _place_of_successor(
    candidate: Candidate, context: PlanContext, promised: Promised
) -> Place | None:
    """Return a node with room for the pod's successor, and what that takes beyond the pod."""
    pod, nodes = candidate.pod, context.free_nodes()
    if not _seeks_place(candidate, context):
        return None
    requests = _requested_by_successor(candidate, context)
    name = nodes.find_place(pod, requests, promised)
    if name is None:
        return None
    now = pod_totals.reserved_for(pod) if name == pod.node_name else NO_AMOUNTS
    needed = {kind: max(amount - now.get(kind, 0), 0) for kind, amount in requests.items()}
    return Place(name, needed)


def _requested_by_successor(candidate: Candidate, context: PlanContext) -> Resources:
    """Return what the successor takes of its node, with the boost that admission gives it.

    Quotas may cut that boost, which is not foreseen here.
    """
    pod, autoscaler, gates = candidate.pod, candidate.autoscaler, context.settings.gates
    new, foreseen = context.successor_of(pod) or pod, context.foresee(pod, autoscaler)
    wanted = _wanted_by_successor(candidate, context) if foreseen is None else foreseen
    requests = pod_totals.requested_after(new, wanted)
    if not autoscaler.boosts or not gates.cpu_startup_boost:
        return requests
    room = BoostRoom(context.limit_ranges_of(pod))
    boosted = pod_totals.requested_after(
        new, admission_patch.size_successor(new, autoscaler, gates=gates, room=room)
    )
    return {kind: max(amount, boosted.get(kind, 0)) for kind, amount in requests.items()}


def _can_move(candidate: Candidate, context: PlanContext) -> bool:
    """Return True if a node other than the pod's own is large enough for its successor."""
    pod, rooms = candidate.pod, context.snapshot.rooms
    wanted = container_resources.wanted_by_autoscaler(
        pod, candidate.autoscaler, context.limit_ranges_of(pod)
    )
    return (rooms or NodeRooms(())).takes_elsewhere(pod, pod_totals.requested_after(pod, wanted))


def _decide(
    candidate: Candidate,
    context: PlanContext,
    *,
    disruptable: bool,
    lacking: Mapping[Resource, Shortage],
) -> Action | HoldReason:
    settings, mode = context.settings, candidate.autoscaler.mode
    restarts = resize_or_evict.restarts_containers(candidate.pod, candidate.wanted)
    situation = resize_or_evict.PodSituation(
        pod=candidate.pod,
        targets={name: wanted.requests or {} for name, wanted in candidate.wanted.items()},
        standing=candidate.standing,
        disruptable=disruptable,
        memory=candidate.memory.resize,
        now=context.now,
        restarts=restarts and restarts_work(candidate, context),
        infeasible_retry_after=settings.infeasible_retry_after,
        evict_after_deferred=settings.evict_after_deferred,
        lacks_room=bool(lacking),
        can_move=not lacking or _can_move(candidate, context),
        quick_oom=candidate.quick_oom,
    )
    chosen = _decide_by_mode(situation, mode, can_resize=context.resizes(candidate.pod))
    if chosen is Action.RESIZE:
        chosen = _confirm_resize(candidate, situation, context)
    if isinstance(chosen, Action) and resize_or_evict.is_denied(situation, chosen):
        if not _may_replace_denied(candidate, context):
            return HoldReason.RESIZE_DENIED
        chosen = resize_or_evict.decide_eviction(situation)
    if chosen is Action.EVICT or (chosen is Action.RESIZE and restarts):
        if _takes_last_ready(candidate, context, chosen):
            return HoldReason.BUDGET_SPENT
        if chosen is Action.RESIZE and (spared := _spares_work(candidate, context)) is not None:
            return spared
        return _reason_against_restart(candidate, context) or chosen
    return chosen


def restarts_work(candidate: Candidate, context: PlanContext) -> bool:
    """Return True if a resize restarts a container that may be at work.

    A pod that is not ready loses nothing by a restart of containers that are OOM-killed early, if
    that gives it more memory (D17). So neither replicas nor budgets hold such a restart back.
    """
    pod, wanted = candidate.pod, candidate.wanted
    if not resize_or_evict.restarts_containers(pod, wanted):
        return False
    if pod.ready_since is not None or not _is_cured(candidate):
        return True
    killed = list_killed_early(pod, candidate.autoscaler, context)
    return resize_or_evict.restarts_others(pod, wanted, killed)


def _spares_work(candidate: Candidate, context: PlanContext) -> HoldReason | None:
    """Return why no healthy container of the pod may restart: its work would begin again.

    A Job counts that as a failure, too. A container that is OOM-killed early loses nothing.
    """
    pod = candidate.pod
    if candidate.quick_oom:
        # One that was killed long ago has worked since.
        killed = list_killed_early(pod, candidate.autoscaler, context)
        if not resize_or_evict.restarts_others(pod, candidate.wanted, killed):
            return None
    if _is_of_job(pod):
        return HoldReason.RUNS_TO_COMPLETION
    return HoldReason.EVICTION_UNWANTED if _is_spared(pod, context) else None


def _may_replace_denied(candidate: Candidate, context: PlanContext) -> bool:
    """Return True if a pod is evicted for a size to which the API server does not resize it.

    It may refuse the resize alone, and accept a new pod of that size. So a pod that is OOM-killed
    early is evicted if its owner has no ready pod, or if a pod of the workload has the size.
    """
    pod, workload = candidate.pod, candidate.workload
    if candidate.autoscaler.mode is UpdateMode.IN_PLACE or _is_of_job(pod):
        return False
    if (
        candidate.standing is disruption_budgets.GroupPermission.RESIZE_ONLY
        or pod.ready_since is not None
    ):
        return False
    if _is_rescued(candidate, context):
        return True
    return (
        _is_cured(candidate)
        and workload is not None
        and _has_precedent(candidate, workload, context)
    )


def _is_denied(candidate: Candidate, context: PlanContext) -> bool:
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
    candidate: Candidate, situation: resize_or_evict.PodSituation, context: PlanContext
) -> Action | HoldReason:
    """Confirm the resize if the API server accepts it; else decide on an eviction or a hold."""
    pod, mode = candidate.pod, candidate.autoscaler.mode
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


def _reason_against_restart(candidate: Candidate, context: PlanContext) -> HoldReason | None:
    """Return why the pod is not restarted although its budget allows it; None if it may be."""
    if candidate.restraint is not None:
        return candidate.restraint
    thresholds = context.settings.thresholds
    if candidate.autoscaler.mode is not UpdateMode.UPSCALE_ONLY:
        is_small = urgency.is_trifle(candidate.pod, candidate.wanted, thresholds)
        return HoldReason.CHANGE_TOO_SMALL if is_small and not candidate.quick_oom else None
    # Bounds may come as close as a mebibyte, for which nothing restarts (D18).
    if candidate.change.relative_difference < thresholds.least_restart:
        return HoldReason.CHANGE_TOO_SMALL
    # An OOM kill is a reason to restart only where the memory grows by enough (D18).
    relief = urgency.memory_relief(candidate.pod, candidate.wanted)
    is_cured = relief >= thresholds.smallest_change
    return _reason_to_wait(candidate, context, quick_oom=candidate.quick_oom and is_cured)


def _reason_to_wait(
    candidate: Candidate, context: PlanContext, *, quick_oom: bool
) -> HoldReason | None:
    return urgency.reason_to_wait(
        candidate.change,
        quick_oom=quick_oom,
        age=urgency.age_of(candidate.pod, candidate.memory.last_updated_at, context.now),
        thresholds=context.settings.thresholds,
        has_new_role=candidate.memory.has_new_role,
    )


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
    end = _end_of_gap(candidate.pod, context, spent)
    if end is None:
        return None
    return replace(_hold(candidate, HoldReason.BUDGET_SPENT, end), detail=_RESTART_FIRST)


def _end_of_gap(pod: Pod, context: PlanContext, spent: Spent) -> datetime | None:
    """Return when the pod may be restarted after another one of its namespace; None for now.

    A budget over several owners bears both restarts only if it bears the second after the first.
    A pod that is not ready costs no budget anything.
    """
    if pod.ready_since is None:
        return None
    if pod.namespace in spent.restarts:
        return context.now + resize_or_evict.RESTART_GAP
    end = context.snapshot.gaps.get(pod.namespace)
    return None if end is None or context.now >= end else end


def count_restart(pod: Pod, spent: Spent) -> None:
    """Note that containers of the pod are restarted."""
    if pod.ready_since is not None:
        spent.restarts.add(pod.namespace)


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


def _rescue(
    candidate: Candidate, context: PlanContext, claimed: Resources
) -> TargetResources | None:
    """Return the resize of a pod that is OOM-killed early and must not be evicted (F22).

    A budget may keep it: where all pods die like that, none is ever healthy enough for the budget
    to let one go. Or it belongs to a Job, which counts an eviction as a failure. Or a StatefulSet
    would not bring it back before another pod is ready, which may wait for this one.
    """
    pod, autoscaler = candidate.pod, candidate.autoscaler
    if (
        not _is_cured(candidate)
        or not context.resizes(pod)
        or pod.resize not in (None, *PENDING)
        or _is_denied(candidate, context)
    ):
        return None
    recommended = container_resources.wanted_by_autoscaler(
        pod, autoscaler, context.limit_ranges_of(pod)
    )
    growing = pod_level_resources.without_misfits(
        pod, container_resources.only_growing(pod, recommended)
    )
    killed = list_killed_early(pod, autoscaler, context)
    wanted = resize_or_evict.without_restarts(pod, growing, but_of=killed)
    least, is_pending = context.settings.thresholds.smallest_change, pod.resize is not None
    lacking = context.snapshot.node_use.shortages(pod, wanted, claimed, of_pending=is_pending)
    # Memory that ends the kills waits for no CPU.
    if is_pending:
        wanted = fitting_part(pod, wanted, lacking, least=least, is_for_memory=True)
    elif lacking:
        wanted = node_use.without_growth_of(pod, wanted, lacking)
    is_possible = (
        urgency.memory_relief(pod, wanted) > 0
        and resize_patch.resize_effect(pod, wanted) is ResizeEffect.SAME_QOS
        and container_resources.is_within(pod, wanted, context.limit_ranges_of(pod))
    )
    return wanted if is_possible else None


def _confirm_eviction(
    candidate: Candidate, context: PlanContext, spent: Spent
) -> Action | HoldReason:
    """Confirm the eviction, or return the first objection to it."""
    for object_to_it in EVICTION_OBJECTIONS:
        if (reason := object_to_it(candidate, context, spent)) is not None:
            return reason
    return Action.EVICT


def _repeats_itself(candidate: Candidate, context: PlanContext, _: Spent) -> HoldReason | None:
    """Object if the successor would request what the pod's spec asks for and the pod has.

    A pod whose kubelet reports another size than its spec asks for gains from an eviction.
    """
    wanted = _wanted_by_successor(candidate, context)
    is_same = all(
        _requests_all(each.spec, asked) and (each.status is None or _has_all(each.status, asked))
        for each in candidate.pod.containers
        if (asked := (wanted.get(each.name) or Allocation()).requests)
    )
    return HoldReason.INSIDE_BOUNDS if is_same else None


def _requests_all(spec: Allocation, asked: Resources) -> bool:
    requests = spec.requests or NO_AMOUNTS
    return all(requests.get(kind) == amount for kind, amount in asked.items())


def _has_all(status: Allocation, asked: Resources) -> bool:
    # Of what a status does not name it says nothing.
    requests = status.requests or NO_AMOUNTS
    return all(requests.get(kind, amount) == amount for kind, amount in asked.items())


def _is_unwanted(candidate: Candidate, context: PlanContext, _: Spent) -> HoldReason | None:
    return HoldReason.EVICTION_UNWANTED if _is_spared(candidate.pod, context) else None


def _is_spared(pod: Pod, context: PlanContext) -> bool:
    """Return True if the pod's annotations ask not to be evicted, and the updater obeys them."""
    unwanted = pods.keeps_from_eviction(pod.annotations)
    return unwanted and not context.settings.evicts_unwillingly


def _runs_to_completion(candidate: Candidate, _: PlanContext, __: Spent) -> HoldReason | None:
    """Object to the eviction of a Job's pod: the Job counts it as failed, and may fail for it."""
    return HoldReason.RUNS_TO_COMPLETION if _is_of_job(candidate.pod) else None


def _is_of_job(pod: Pod) -> bool:
    return pod.owner is not None and pod.owner.kind == _JOB


def _waits_for_lower_ordinal(
    candidate: Candidate, context: PlanContext, spent: Spent
) -> HoldReason | None:
    """Object if the StatefulSet would not bring the pod back before a lower ordinal is ready."""
    disrupted = () if candidate.owner is None else spent.ordinals[candidate.owner]
    lacking = context.lacks_lower_ordinal(candidate.pod, disrupted)
    return HoldReason.LOWER_ORDINAL_NOT_READY if lacking else None


def _rolls_out(candidate: Candidate, context: PlanContext, spent: Spent) -> HoldReason | None:
    """Object if the eviction rolls out a revision that its owner would not bring to the pod yet."""
    pod, owner, snapshot = candidate.pod, candidate.owner, context.snapshot
    if owner is None or not rollouts.would_change(pod, owner, snapshot):
        return None
    is_down = owner in snapshot.rolling_out and pod.ready_since is None
    # A DaemonSet replaces such pods first. A StatefulSet may wait for a pod that dies on.
    is_due = is_down and (
        owner.kind == rollouts.DAEMON_SET
        or (
            _is_cured(candidate)
            and not rollouts.is_in_doubt(owner, snapshot)
            and _rescue(candidate, context, spent.grown[pod.node_name]) is None
        )
    )
    return None if is_due else HoldReason.REVISION_STAGED


def _finds_no_node(candidate: Candidate, context: PlanContext, spent: Spent) -> HoldReason | None:
    """Object if the successor would find no node, and a new one would not help it."""
    # The other modes hold such a pod before an eviction is chosen.
    is_evicting = candidate.autoscaler.mode not in _MAY_STAY
    is_stuck = is_evicting and _would_stay_pending(candidate, context, spent.promised)
    return HoldReason.NO_NODE_FOR_SUCCESSOR if is_stuck else None


def _follows_restart(candidate: Candidate, context: PlanContext, spent: Spent) -> HoldReason | None:
    """Object if another pod of the namespace restarts, which a budget over both does not show."""
    end = _end_of_gap(candidate.pod, context, spent)
    return None if end is None else HoldReason.BUDGET_SPENT


def _was_refused(candidate: Candidate, context: PlanContext, _: Spent) -> HoldReason | None:
    is_due = candidate.memory.eviction.is_due(context.now)
    return None if is_due else HoldReason.POD_DISRUPTION_BUDGET


def _awaits_effect(candidate: Candidate, context: PlanContext, spent: Spent) -> HoldReason | None:
    """Object if as many evictions as may fail have failed, or may yet turn out to have failed.

    The first eviction for a size is alone: a policy may refuse every pod of that size. Once it has,
    only pods that are as small as the successor are evicted to try again. Pods of which all are
    OOM-killed early have nothing to lose, unless a resize to the size was refused.
    """
    workload, most, snapshot = candidate.workload, context.settings.max_unproven, context.snapshot
    is_denied = _is_denied(candidate, context)
    if workload is None or (most is None and not is_denied):
        return None
    record = snapshot.convergence.get(workload)
    missed = 0 if record is None else record.failures
    unproven = snapshot.unproven.get(workload, 0) + spent.evicted[workload]
    may_lose = has_more(candidate.pod, snapshot.left_small.get(workload, {}))
    is_rescued = _is_rescued(candidate, context)
    waits = (
        (most is not None and missed + unproven >= most)
        or (may_lose and not is_rescued)
        or (
            unproven > 0
            and (is_denied or not is_rescued)
            and not _has_precedent(candidate, workload, context)
        )
    )
    return HoldReason.EFFECT_AWAITED if waits else None


def _has_precedent(candidate: Candidate, workload: WorkloadName, context: PlanContext) -> bool:
    wanted = _wanted_by_successor(candidate, context)
    return context.has_precedent(candidate.pod, candidate.autoscaler, workload, wanted)


def _lacks_successors(
    candidate: Candidate, context: PlanContext, spent: Spent
) -> HoldReason | None:
    """Object while earlier evictions lack successors; a plan of all pods may try one more."""
    brake, workload, namespace = context.snapshot.brake, candidate.workload, candidate.pod.namespace
    stop = brake.find_stop(workload, namespace)
    if stop is None:
        return None
    if workload is not None and workload in brake.lacking:
        is_taken = spent.evicted[workload] > 0
    else:
        is_taken = namespace in spent.evicting
    is_due = stop.lets_probe(context.now, is_rescue=_is_rescued(candidate, context))
    is_probe = context.snapshot.is_all and is_due and not is_taken
    return None if is_probe else HoldReason.SUCCESSORS_MISSING


def _gains_nothing(candidate: Candidate, context: PlanContext, spent: Spent) -> HoldReason | None:
    """Object where a LimitRange would refuse the successor, or too little is left for it (D19)."""
    pod, autoscaler, gates = candidate.pod, candidate.autoscaler, context.settings.gates
    items = limit_range_check.checked_items(context.snapshot.limit_ranges.get(pod.namespace, ()))
    if not items:
        return None
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
        return HoldReason.LIMIT_RANGE_REFUSES
    left_out = successors.resources_left_out(_wanted_by_successor(candidate, context), given)
    if left_out and not (
        successors.loses_nothing(pod, left_out, quota_plan.template_for(pod, context))
        and _is_part_worth_it(candidate, context, left_out)
    ):
        return HoldReason.LIMIT_RANGE_REFUSES
    spent.left_out[pod.uid] = left_out
    return None


def _loses_more(candidate: Candidate, context: PlanContext, _: Spent) -> HoldReason | None:
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
    wanted = _wanted_by_successor(candidate, context)
    loses = successors.takes_more_than_it_gives(pod, wanted, template, least)
    return HoldReason.SUCCESSOR_SMALLER if loses else None


def _is_capped(candidate: Candidate, context: PlanContext, _: Spent) -> HoldReason | None:
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
        _judge(candidate, context).recommendation,
        context.settings.thresholds.smallest_change,
    )
    if not successors.falls_short(pod, foreseen, needed, kinds, least):
        return None
    # Other caps would cut a successor with the limits of the running pod as well.
    like_pod = successors.wanted_of_new(
        replace(pod, node_name=""), autoscaler, context.limit_ranges_of(pod)
    )
    lost = successors.smaller_part(foreseen, like_pod)
    is_short = successors.falls_short(pod, lost, needed, kinds, least)
    return HoldReason.SUCCESSOR_SMALLER if is_short else None


def _is_cut(candidate: Candidate, context: PlanContext, _: Spent) -> HoldReason | None:
    """Object if a cap cuts the successor below what the pod has, and below its lower bounds (D25).

    The pod's own node may take no new pods, or not be seen; the pod may be older than a LimitRange.
    A pod that is pending is down, and one that dies early for lack of memory may be cut for it.
    """
    pod = candidate.pod
    if pod.phase is PodPhase.PENDING or not pod.node_name:
        return None
    judgement, least = _judge(candidate, context), context.settings.thresholds.smallest_change
    items = judgement.limit_ranges
    if not _loses_to(items, candidate, context):
        return None
    after = {name: Allocation(target) for name, target in _capped_targets(items, candidate).items()}
    if candidate.quick_oom and kept_sizes.bears_cut(pod, after, judgement.recommendation, least):
        return None
    nodes = [item for item in items if item.type is LimitRangeType.NODE]
    is_by_nodes = _loses_to(nodes, candidate, context)
    return HoldReason.NODES_TOO_SMALL if is_by_nodes else HoldReason.LIMIT_RANGE_REFUSES


def _capped_targets(
    items: Sequence[LimitRangeItem], candidate: Candidate
) -> Mapping[str, Resources]:
    """Return by container what these caps leave the successor."""
    autoscaler = candidate.autoscaler
    capped = capping.cap_for_pod(
        autoscaler.recommendation,
        replace(candidate.pod, node_name=""),
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
    for entry in _judge(candidate, context).recommendation:
        for kind in BOTH:
            needed = min(
                limits.amount_of(entry.lower_bound, kind), limits.amount_of(entry.target, kind)
            )
            yield entry, kind, min(needed, limits.amount_of(own.get(entry.container_name), kind))


def _loses_in_sum(
    given: Mapping[str, Resources], candidate: Candidate, context: PlanContext
) -> bool:
    own = {each.name: each.current.requests for each in candidate.pod.containers}
    kept = _judge(candidate, context).recommendation
    names = [entry.container_name for entry in kept]
    for kind in BOTH:
        after = sum(limits.amount_of(given.get(name), kind) for name in names)
        needed = sum(limits.amount_of(entry.lower_bound, kind) for entry in kept)
        has = sum(limits.amount_of(own.get(name), kind) for name in names)
        # Shares are rounded down.
        if after + len(names) < min(needed, has):
            return True
    return False


def _claim(candidate: Candidate, context: PlanContext, spent: Spent) -> HoldReason | None:
    """Set aside what its successor needs, if quotas give it more than its own size (F20, D19)."""
    pod = candidate.pod
    left = quota_plan.quotas_for(pod, context, spent.claimed)
    if not left:
        return None
    found = quota_plan.foresee_successor(candidate, context, left)
    if isinstance(found, Refusal):
        refusal = found
    elif found.refusal and not _is_part_worth_it(candidate, context, found.left_out):
        refusal = found.refusal
    else:
        spent.left_out[pod.uid] |= found.left_out
        _set_aside(pod, found.claims, spent)
        return None
    spent.refusals[pod.uid] = refusal.words
    return HoldReason.QUOTA_EXCEEDED


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
    _set_aside(pod, taken, spent)
    return part


def _set_aside(pod: Pod, taken: Mapping[str, Claims], spent: Spent) -> None:
    # What others give back comes late, so it is not counted.
    for name, amounts in taken.items():
        spent.claimed[pod.namespace, name].update(amounts)


EVICTION_OBJECTIONS: Final[
    tuple[Callable[[Candidate, PlanContext, Spent], HoldReason | None], ...]
] = (
    _repeats_itself,
    _is_unwanted,
    _runs_to_completion,
    _rolls_out,
    _waits_for_lower_ordinal,
    _finds_no_node,
    _follows_restart,
    _was_refused,
    _lacks_successors,
    _awaits_effect,
    _gains_nothing,
    _loses_more,
    _is_cut,
    _is_capped,
    _claim,
)
"""Checks against an eviction that a budget allows; the last one sets something aside for it."""


def may_disrupt(candidate: Candidate, context: PlanContext, spent: Spent) -> bool:
    """Return True if the budget of the candidate's owner bears one more pod down.

    Where no pod of the owner is ready, there is nothing to protect: a pod that dies early for lack
    of memory is evicted at once if its successor gets more of it (D17). For a pod that is ready,
    the others count only as far as they are ready, too.
    """
    owner = candidate.owner
    group = None if owner is None else context.groups.get(owner)
    if _is_rescued(candidate, context):
        return True
    if owner is None or group is None or candidate.pod.ready_since is None:
        return is_disruptable(owner, context, spent)
    taken = spent.disrupted[owner] - spent.unready[owner]
    return group.can_spare_ready(context.settings.disruption.tolerance, taken)


def _is_rescued(candidate: Candidate, context: PlanContext) -> bool:
    """Return True if memory ends the OOM kills of a pod whose owner has no ready pod."""
    group = None if candidate.owner is None else context.groups.get(candidate.owner)
    return group is not None and group.ready == 0 and _is_cured(candidate)


def _is_cured(candidate: Candidate) -> bool:
    """Return True if the pod is OOM-killed early and would get more memory."""
    return candidate.quick_oom and urgency.memory_relief(candidate.pod, candidate.wanted) > 0


def is_disruptable(owner: WorkloadName | None, context: PlanContext, spent: Spent) -> bool:
    """Return True if one more pod of the owner may go down, given what the plan has spent."""
    group = None if owner is None else context.groups.get(owner)
    if owner is None or group is None:
        return False
    return group.is_disruptable(context.settings.disruption.tolerance, spent.disrupted[owner])


def count_down(pod: Pod, spent: Spent) -> None:
    """Count the pod against its group's budget; a pending pod is down already."""
    owner = disruption_budgets.owner_of(pod)
    if owner is not None and pod.phase is not PodPhase.PENDING:
        spent.disrupted[owner] += 1
        spent.unready[owner] += pod.ready_since is None
