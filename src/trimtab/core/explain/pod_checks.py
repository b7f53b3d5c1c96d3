"""Explanation of one pod's outcome: all checks, those that hold the pod, and until when.

A plan stops at the first reason to hold a pod. An explanation needs all reasons, so this module
runs the same list of checks to the end (`core/updates/checks/order.py`). The plan still decides:
the outcome comes from it, and its reason is among those found here.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, ParamSpec, assert_never

from trimtab.core.changes import change
from trimtab.core.changes.change import Change
from trimtab.core.changes.outcomes import Act, Evict, Hold, Outcome, Resize, Unboost
from trimtab.core.explain.update_checks import CheckVerdict, PodCheck
from trimtab.core.guards import disruption_budgets
from trimtab.core.guards.disruption_budgets import ReplicaGroup
from trimtab.core.model import matching
from trimtab.core.model.autoscalers import Autoscaler, ContainerRecommendation
from trimtab.core.model.cap_notes import Note
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.matching import AutoscalerIndex
from trimtab.core.model.pods import Pod, WorkloadName
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.sizing import startup_boost
from trimtab.core.sizing.node_use import Shortage
from trimtab.core.updates import (
    action_choice,
    candidates,
    plan,
    resize_or_evict,
    spending,
)
from trimtab.core.updates.candidate_cache import CandidateCache
from trimtab.core.updates.candidates import Candidate, CheckInputs
from trimtab.core.updates.checks import moments, order
from trimtab.core.updates.checks.check import KIND_OF, Check, CheckKind, Objection
from trimtab.core.updates.plan_context import PlanContext
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.resize_or_evict import Action
from trimtab.core.updates.snapshot import ObservedPod, Snapshot
from trimtab.core.updates.spending import Spent

_Inputs = ParamSpec("_Inputs")

_ALWAYS: Final = frozenset({CheckKind.BOOST, CheckKind.PAUSE})
"""Kinds that apply to every pod."""
_OF_CHOICES: Final = frozenset({CheckKind.SURGE, CheckKind.RESIZE})
"""Kinds that the choice of an action clears."""
_WITHOUT_ACTION: Final = frozenset({CheckKind.BUDGET})
"""Kinds that it clears, too, where it finds no action."""


@dataclass(frozen=True, slots=True)
class PodExplanation:
    """One pod, its planned outcome, and the results of all checks."""

    pod: Pod
    workload: WorkloadName | None
    autoscaler: Autoscaler | None
    """None for a boosted pod that no autoscaler governs any more."""
    outcome: Outcome
    checks: tuple[PodCheck, ...]
    way: Action | None = None
    """Action that would change it if all checks passed; None if there is none."""
    change: Change = field(default_factory=Change)
    quick_oom: bool = False
    is_killed_early: bool = False
    """True if a container was OOM-killed early, also if it would get no more memory."""
    is_cure_held: bool = False
    """True if more memory for it is left to a HorizontalPodAutoscaler."""
    age: timedelta | None = None
    """Time since it started, or was last resized."""
    group: ReplicaGroup | None = None
    recommendation: Sequence[ContainerRecommendation] = ()
    """Capped for this very pod."""
    notes: Mapping[str, Sequence[Note]] = field(default_factory=dict)
    """By container the notes on what capped its targets."""
    lacking: Mapping[Resource, Shortage] = field(default_factory=dict)
    """Resources that the pod's node has too little of for a resize."""
    siblings_changed: tuple[str, ...] = ()
    """The other pods of its owner that the plan changes, or would change but for a reason."""


@dataclass(frozen=True, slots=True)
class PlanView:
    """A plan, and all that it was made from."""

    context: PlanContext
    index: AutoscalerIndex
    outcomes: Mapping[str, Outcome]
    """By the uid of the pod."""
    acts: Mapping[WorkloadName | None, Sequence[Act]]
    """By the direct owner of the pod the planned acts, and those that a hold withholds."""
    unknown: frozenset[CheckKind] = frozenset()
    """Checks whose facts are not available to the caller: these never pass."""
    promised: Spent = field(default_factory=Spent)
    """Room on nodes that all acts together take, and where pods are evicted and restarted."""


def view_plan(
    snapshot: Snapshot,
    settings: PlanSettings,
    now: datetime,
    *,
    outcomes: Iterable[Outcome] | None = None,
    unknown: frozenset[CheckKind] = frozenset(),
) -> PlanView:
    """Return a view of the given outcomes, or of a plan that is made now."""
    live = CandidateCache().meet(snapshot)
    groups = disruption_budgets.count_owned(
        live.owned, snapshot.configured_replicas, snapshot.settling
    )
    planned = plan.plan(snapshot, settings, now) if outcomes is None else list(outcomes)
    acts: defaultdict[WorkloadName | None, list[Act]] = defaultdict(list)
    for each in planned:
        if (act := act_of(each)) is not None:
            acts[disruption_budgets.owner_of(each.pod)].append(act)
    return PlanView(
        PlanContext(snapshot, settings, groups, now),
        matching.index_by_workload(
            snapshot.autoscalers, selectors_enabled=settings.gates.pod_selector
        ),
        {each.pod.uid: each for each in planned},
        acts,
        unknown,
        _spend(act for each in acts.values() for act in each),
    )


def _spend(acts: Iterable[Act], workload: WorkloadName | None = None) -> Spent:
    """Return what the plan spends on acts, as far as they show it."""
    spent = Spent()
    for act in acts:
        match act:
            case Evict():
                spending.spend_eviction(act, workload, {}, spent)
            case Resize():
                spending.spend_resize(act, {}, spent)
            case Unboost():
                if resize_or_evict.restarts_containers(act.pod, act.wanted):
                    spending.spend_restart(act.pod, spent)
            case _:
                assert_never(act)
    return spent


def explain_pod(observed: ObservedPod, view: PlanView) -> PodExplanation | None:
    """Return the results of all checks of a pod; None if it has no outcome in the plan."""
    outcome = view.outcomes.get(observed.pod.uid)
    if outcome is None:
        return None
    case = _Case(
        observed, matching.governor_of(view.index, observed.workload, observed.pod.labels), outcome
    )
    results = _run_checks(case, view.context, view)
    explanation = PodExplanation(
        observed.pod,
        observed.workload,
        case.autoscaler,
        outcome,
        tuple(_checks(case, results, view)),
        results.way,
        group=view.context.group_of(observed.pod),
        siblings_changed=_changed_beside(observed.pod, view),
    )
    return explanation if results.facts is None else _with_facts(explanation, results.facts, view)


def _changed_beside(pod: Pod, view: PlanView) -> tuple[str, ...]:
    owner = disruption_budgets.owner_of(pod)
    acts = () if owner is None else view.acts.get(owner, ())
    return tuple(sorted(act.pod.name for act in acts if act.pod.uid != pod.uid))


def act_of(outcome: Outcome) -> Act | None:
    """Return the planned act, or the act that a hold withholds; None if there is neither."""
    return outcome.withheld if isinstance(outcome, Hold) else outcome


@dataclass(frozen=True, slots=True)
class _Case:
    """One pod of a plan."""

    observed: ObservedPod
    autoscaler: Autoscaler | None
    outcome: Outcome

    @property
    def is_about_boost(self) -> bool:
        """True if the plan only checked the end of a startup boost."""
        told = (HoldReason.BOOST_ACTIVE, HoldReason.UNBOOST_DELAYED)
        if isinstance(self.outcome, Hold) and self.outcome.reason in told:
            return True
        return self.autoscaler is None or isinstance(act_of(self.outcome), Unboost)


@dataclass(frozen=True, slots=True)
class _CheckResults:
    """Results of all checks at one moment."""

    reasons: Sequence[HoldReason] = ()
    asked: frozenset[CheckKind] = _ALWAYS
    facts: CheckInputs | None = None
    way: Action | None = None

    def reason_for(self, kind: CheckKind) -> HoldReason | None:
        """Return the first reason of a kind of check; None if there is none."""
        return next((reason for reason in self.reasons if KIND_OF[reason] is kind), None)

    def and_then(
        self,
        checks: Sequence[Check[Callable[_Inputs, Objection | None]]],
        *inputs: _Inputs.args,
        **named: _Inputs.kwargs,
    ) -> "_CheckResults":
        """Return the results with those of more checks, all of which run."""
        found = [check.find(*inputs, **named) for check in checks]
        reasons = [each.reason for each in found if each is not None]
        return self.because_of(reasons).asking(order.kinds_cleared_by(checks))

    def because_of(self, reasons: Sequence[HoldReason]) -> "_CheckResults":
        """Return the results with more reasons to hold the pod."""
        more = replace(self, reasons=(*self.reasons, *reasons))
        return more.asking({KIND_OF[reason] for reason in reasons})

    def asking(self, kinds: Collection[CheckKind]) -> "_CheckResults":
        """Return the results with more kinds of checks that apply."""
        return replace(self, asked=self.asked.union(kinds))


def _with_facts(explanation: PodExplanation, facts: CheckInputs, view: PlanView) -> PodExplanation:
    judgement = facts.judgement
    lacking: Mapping[Resource, Shortage] = {}
    if judgement.distrust is None:
        claimed = _claimed_by_others(explanation, view)
        candidate = candidates.candidate_of(facts, view.context)
        lacking = action_choice.shortages(candidate, view.context, claimed)
    return replace(
        explanation,
        lacking=lacking,
        change=judgement.change,
        quick_oom=facts.quick_oom,
        is_killed_early=facts.is_killed_early,
        is_cure_held=facts.is_cure_held,
        age=change.age_of(facts.pod, facts.memory.last_updated_at, view.context.now),
        recommendation=judgement.recommendation,
        notes={} if judgement.capped is None else judgement.capped.notes,
    )


def _run_checks(case: _Case, context: PlanContext, view: PlanView) -> _CheckResults:
    """Run all checks of a pod, whatever the plan decided."""
    autoscaler, pod = case.autoscaler, case.observed.pod
    results = _CheckResults()
    if autoscaler is not None and not case.is_about_boost:
        results = _run_checks_of_pod(case, _facts(case, autoscaler, context), context, view)
    is_paused = plan.is_held_back(pod, autoscaler, context)
    return results.because_of([HoldReason.PAUSED] if is_paused else [])


def _run_checks_of_pod(
    case: _Case, facts: CheckInputs, context: PlanContext, view: PlanView
) -> _CheckResults:
    results = _CheckResults(facts=facts).and_then(order.OF_AUTOSCALERS, facts.autoscaler, context)
    is_idle = bool(results.reasons)
    if not is_idle and (back := candidates.shrinks_to_take_back(facts, context)):
        candidate = candidates.candidate_to_take_back(facts, back)
        results = results.and_then(
            order.OF_TAKEN_BACK, candidate, context, _spent_on_others(case, view)
        )
        return replace(results, way=Action.RESIZE)
    has_target = facts.judgement.distrust is None
    checks = [each for each in order.OF_PODS if has_target or not each.needs_target]
    results = results.and_then(checks, facts, context)
    if is_idle or not has_target:
        return results
    candidate = candidates.candidate_of(facts, context)
    if HoldReason.COOL_DOWN in results.reasons:
        # All other checks run as they will after that.
        candidate = candidate._replace(restraint=None)
    return _run_checks_of_candidate(case, candidate, results, view, context)


def _run_checks_of_candidate(
    case: _Case,
    candidate: Candidate,
    results: _CheckResults,
    view: PlanView,
    context: PlanContext,
) -> _CheckResults:
    before = len(results.reasons)
    results = results.and_then(order.OF_CANDIDATES, candidate, context).asking(_OF_CHOICES)
    if len(results.reasons) > before:
        return results.asking(_WITHOUT_ACTION)
    if (act := act_of(case.outcome)) is not None:
        # All that follows was spent on it.
        way = Action.RESIZE if isinstance(act, Resize) else Action.EVICT
        checks = order.of_action(way, candidate, context)
        return replace(results.asking(order.kinds_cleared_by(checks)), way=way)
    spent = _spent_on_others(case, view)
    candidate, chosen = action_choice.choose(candidate, context, spent, disruptable=True)
    if isinstance(chosen, HoldReason):
        return results.because_of([chosen]).asking(_WITHOUT_ACTION)
    checks = order.of_action(chosen, candidate, context)
    return replace(results.and_then(checks, candidate, context, spent), way=chosen)


def _claimed_by_others(explanation: PodExplanation, view: PlanView) -> Resources:
    """Return the room on the pod's node that the acts of other pods take."""
    node_name, act = explanation.pod.node_name, act_of(explanation.outcome)
    own = _spend(() if act is None else (act,)).grown_on(node_name)
    claimed = view.promised.grown_on(node_name)
    return {kind: amount - own.get(kind, 0) for kind, amount in claimed.items()}


def _spent_on_others(case: _Case, view: PlanView) -> Spent:
    """Return the budget and room that the plan spends on siblings of a pod that it holds.

    The room on nodes and the namespaces are those of the view, which is only read.
    """
    promised, owner = view.promised, disruption_budgets.owner_of(case.observed.pod)
    acts = () if owner is None else view.acts.get(owner, ())
    return replace(
        _spend(acts, case.observed.workload),
        grown=promised.grown,
        arrivals=promised.arrivals,
        evicting=promised.evicting,
        # Acts do not show in which order they restart pods.
        restarts=set(),
    )


def _checks(case: _Case, results: _CheckResults, view: PlanView) -> Iterator[PodCheck]:
    outcome = case.outcome
    told = outcome.reason if isinstance(outcome, Hold) else None
    decisive = None if told is None else KIND_OF[told]
    for kind in CheckKind:
        reason = results.reason_for(kind)
        if kind is decisive:
            until = _until(case, kind, view) if reason is not None else None
            until = until or (outcome.until if isinstance(outcome, Hold) else None)
            yield PodCheck(kind, CheckVerdict.BLOCKED, told, until, is_decisive=True)
        elif reason is not None:
            yield PodCheck(kind, CheckVerdict.BLOCKED, reason, _until(case, kind, view))
        elif kind not in results.asked or (kind is CheckKind.BOOST and not _has_boost(case)):
            yield PodCheck(kind, CheckVerdict.NOT_ASKED)
        else:
            yield PodCheck(
                kind, CheckVerdict.UNKNOWN if kind in view.unknown else CheckVerdict.CLEAR
            )


def _has_boost(case: _Case) -> bool:
    is_unboost = isinstance(act_of(case.outcome), Unboost)
    return is_unboost or bool(startup_boost.boosted_containers(case.observed.pod))


def _until(case: _Case, kind: CheckKind, view: PlanView) -> datetime | None:
    """Return the first moment at which a check passes, if time alone can make it pass."""
    if case.autoscaler is None:
        return None
    for moment in moments.list_moments(_facts(case, case.autoscaler, view.context), view.context):
        later = replace(view.context, now=moment)
        if _run_checks(case, later, view).reason_for(kind) is None:
            return moment
    return None


def _facts(case: _Case, autoscaler: Autoscaler, context: PlanContext) -> CheckInputs:
    pod, workload = case.observed.pod, case.observed.workload
    judgement = context.judge(pod, autoscaler)
    return candidates.facts_about(pod, autoscaler, workload, judgement, context)
