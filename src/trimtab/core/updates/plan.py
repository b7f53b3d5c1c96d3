"""The updater's plan: an act for every live pod of every autoscaler, or the reason for none.

First each pod is assessed by itself (`candidates`). Then the candidates are served in order of
urgency, namespaces in turn, while their workloads' budgets last. The updater's controller carries
the plan out, within its rate limits.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from trimtab.core.changes import change
from trimtab.core.changes.outcomes import EndOfBoost, Hold, Outcome, Unboost
from trimtab.core.guards import disruption_budgets, rate_limit, turns
from trimtab.core.guards.rate_limit import Wishes
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName, is_paused
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.matching import ObservedAutoscaler
from trimtab.core.model.pods import Pod, WorkloadName
from trimtab.core.updates import boost_end, candidate_outcomes, resize_or_evict, spending, wishes
from trimtab.core.updates.boost_end import BoostEnd
from trimtab.core.updates.candidate_cache import CandidateCache, LastFindings, LivePods
from trimtab.core.updates.candidates import Candidate
from trimtab.core.updates.plan_context import PlanContext
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.quota_shortage import find_boosts_in_the_way
from trimtab.core.updates.snapshot import ObservedPod, Snapshot
from trimtab.core.updates.spending import Spent


def plan(snapshot: Snapshot, settings: PlanSettings, now: datetime) -> list[Outcome]:
    """Return one outcome for every live pod that an autoscaler governs, the most urgent first.

    Boosts that are over come first. Then come pods that are OOM-killed early, then what else may
    change, and last the pods that were no candidates. Of what else may change namespaces take turns
    (D26), each in its order of urgency. The order of the snapshot plays no part.
    """
    return Planner(settings).plan(snapshot, now)


class _Matched(NamedTuple):
    """The live ones of some pods, matched with some autoscalers."""

    pods: Sequence[ObservedPod]
    autoscalers: Sequence[ObservedAutoscaler]
    live: LivePods


class Planner:
    """Makes one plan after another, and assesses only pods about which something changed."""

    def __init__(self, settings: PlanSettings) -> None:
        self._settings = settings
        self._known = CandidateCache()
        self._matched: _Matched | None = None
        self._findings = LastFindings()
        self._groups: dict[WorkloadName, disruption_budgets.ReplicaGroup] = {}
        self._counted: tuple[object, ...] | None = None
        """The inputs that the groups were counted from."""
        self._boosted: frozenset[str] = frozenset()
        """The uids of the boosted pods of the last plan."""
        # By the identity of the candidate: each is held here, so that no other can have it.
        self._surge_holds: dict[int, tuple[Candidate, Hold]] = {}
        """Latest holds of the candidates that a surge holds back."""

    def match(self, snapshot: Snapshot) -> Iterator[tuple[Pod, AutoscalerName | None]]:
        """Yield the pods of the outcomes of a plan, each with the autoscaler that governs it."""
        ends_boosts = self._settings.gates.cpu_startup_boost
        for known in self._meet(snapshot).pods:
            if known.governor is not None or (ends_boosts and known.is_boosted):
                yield known.observed.pod, known.governed_by

    def plan(self, snapshot: Snapshot, now: datetime) -> list[Outcome]:
        """Return the same outcomes as the function `plan`, whatever was planned before."""
        settings = self._settings
        live = self._meet(snapshot)
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
                _pause(candidate_outcomes.choose(each, context, spent), each.autoscaler, context)
                for each in _in_turn(moving, groups, snapshot.last_turns)
            ),
            *self._hold_surging(surging),
            *holds,
        ]

    def _meet(self, snapshot: Snapshot) -> LivePods:
        """Return the live pods of a snapshot, matched with their governors."""
        pods, autoscalers, last = snapshot.pods, snapshot.autoscalers, self._matched
        if last is not None and last.pods is pods and last.autoscalers is autoscalers:
            return last.live
        live = self._known.meet(snapshot)
        selectors_enabled = self._settings.gates.pod_selector
        self._known.match(live, snapshot, selectors_enabled=selectors_enabled)
        self._matched = _Matched(pods, autoscalers, live)
        return live

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
        self._known.renew_bases(live, context)
        found = self._findings.renew(live, context)
        if not context.settings.gates.cpu_startup_boost:
            return found
        assessments: list[Candidate | BoostEnd | Hold | None] = [*found]
        for position in live.boosts:
            known = live.pods[position]
            assessment = boost_end.assess_boost(known.observed, known.governor, context)
            assessments[position] = _beside_boost(assessment, found[position])
        return assessments


def _beside_boost(
    boost: BoostEnd | Hold, usual: Candidate | Hold | None
) -> Candidate | BoostEnd | Hold:
    """Return the assessment of a boosted pod: a candidate if OOM kills keep it from being ready.

    Its boost would last for as long as it dies.
    """
    if isinstance(boost, BoostEnd) or not isinstance(usual, Candidate) or usual.takes_back:
        return boost
    return usual._replace(boost_hold=boost) if spending.is_cured(usual) else boost


def _in_turn(
    candidates: Iterable[Candidate],
    groups: Mapping[WorkloadName, disruption_budgets.ReplicaGroup],
    last_turns: Mapping[str, int],
) -> list[Candidate]:
    """Return the candidates in the order in which budgets and other bounds serve them.

    Those that are OOM-killed early and grow come first, in all namespaces.
    """
    urgent = _unready_first(change.most_urgent_first(candidates), groups)
    others = [each for each in urgent if not _is_rescue(each)]
    return [
        *filter(_is_rescue, urgent),
        *turns.take_turns(others, lambda each: each.pod.namespace, last_turns),
    ]


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
    queues = {
        owner: iter(sorted(found, key=lambda each: each.pod.ready_since is not None))
        for owner, found in owned.items()
    }
    return [next(queues[each.owner]) if each.owner in queues else each for each in candidates]


def _is_rescue(candidate: Candidate) -> bool:
    return candidate.quick_oom and candidate.change.scale_up


def _hold_for_surge(each: Candidate) -> Hold:
    name = each.autoscaler.identity
    return Hold(each.pod, name, HoldReason.SURGE, each.change, wanted=each.wanted)


def _pause(outcome: Outcome, autoscaler: Autoscaler | None, context: PlanContext) -> Outcome:
    """Return the outcome, or a hold with it as the withheld act where changes are paused."""
    if isinstance(outcome, Hold) or not is_held_back(outcome.pod, autoscaler, context):
        return outcome
    measured = None if isinstance(outcome, Unboost) else outcome.change
    return Hold(outcome.pod, outcome.autoscaler, HoldReason.PAUSED, measured, withheld=outcome)


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
    if reason is None and (gap := spending.end_of_gap(end.pod, context, spent)) is not None:
        reason = HoldReason.BUDGET_SPENT
    if reason is not None and not _is_forced(end, context, spent):
        hold = boost_end.hold_boost(end, reason)
        return hold if gap is None else replace(hold, until=gap)
    spending.spend_restart(step.pod, spent)
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
    if is_last or not spending.is_disruptable(disruption_budgets.owner_of(end.pod), context, spent):
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
