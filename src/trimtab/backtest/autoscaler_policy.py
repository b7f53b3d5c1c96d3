"""Autoscaled: the real decision code as a policy, under any autoscaler and any settings.

Usage goes through the recommender's intake and estimates. A filter on arrays finds the workloads
that may have to change; it never leaves out one that the plan would change. For each of these the
updater's plan decides, one pod at a time, and the sizes are those that admission would set.
"""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from trimtab.backtest.demand import CPU, MEMORY
from trimtab.backtest.fleet import Fleet
from trimtab.backtest.policies import NO_CHOICE, Choice, PolicyReadings, PolicySituation
from trimtab.core.changes.outcomes import Evict, Resize
from trimtab.core.guards.disruption_budgets import DisruptionSettings
from trimtab.core.histogram.buckets import Floats, Ints
from trimtab.core.histogram.memory_peaks import Booleans
from trimtab.core.model import selectors
from trimtab.core.model.autoscalers import (
    Autoscaler,
    ContainerRecommendation,
    TargetReference,
    UpdateMode,
)
from trimtab.core.model.estimation import Estimator
from trimtab.core.model.matching import ObservedAutoscaler
from trimtab.core.model.pods import (
    Allocation,
    Container,
    OwnerReference,
    Pod,
    PodPhase,
    TargetResources,
    Termination,
    WorkloadName,
)
from trimtab.core.model.recommendation import RecommendationSettings
from trimtab.core.model.resources import BOTH, Resources
from trimtab.core.model.selectors import Selector
from trimtab.core.recommendation import estimators
from trimtab.core.recommendation.recommender import NO_SAMPLES, Publications
from trimtab.core.sizing import container_resources
from trimtab.core.updates.plan import plan
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.snapshot import ObservedPod, PodMemory, Snapshot
from trimtab.core.usage import rewinding
from trimtab.core.usage.aggregates import UsageSettings
from trimtab.core.usage.cluster_usage import Usage
from trimtab.core.usage.containers import PodName
from trimtab.core.usage.samples import Samples

CONTAINER: Final = "main"
"""Name of the one container of each workload."""
_NAMESPACE: Final = "backtest"
_KIND: Final = "Deployment"
_LABEL: Final = "workload"
_MINUTE: Final = timedelta(minutes=1)
_IDLE_MODES: Final = (UpdateMode.OFF, UpdateMode.INITIAL)
_ALONE: Final = DisruptionSettings(min_replicas=1)
"""One pod stands for a workload: budgets only delay, and are left out."""


@dataclass(frozen=True, slots=True)
class AutoscalerSettings:
    """Settings of all components that influence sizes."""

    usage: UsageSettings = field(default_factory=UsageSettings)
    recommendations: RecommendationSettings = field(default_factory=RecommendationSettings)
    plan: PlanSettings = field(default_factory=lambda: PlanSettings(disruption=_ALONE))
    follows_original: bool = False
    """True to replace pods by the original's updater rule instead of by our plan.

    A resource that was never measured then gets its minimum, as in the original (D11).
    """


def original_settings() -> AutoscalerSettings:
    """The original's rules and defaults, as far as our code can follow them."""
    return AutoscalerSettings(
        usage=UsageSettings(keeps_oom_ledger=False, keeps_zero_peaks=True),
        follows_original=True,
    )


def estimator_settings(estimator: Estimator) -> AutoscalerSettings:
    """Return the settings of a recommender that is started with an `--estimator`."""
    return AutoscalerSettings(recommendations=RecommendationSettings(estimator=estimator))


class AutoscalerPolicy:
    """One autoscaler for each workload, all with the same spec."""

    def __init__(
        self, autoscaler: Autoscaler, settings: AutoscalerSettings, starts: Floats, fleet: Fleet
    ) -> None:
        self._settings = settings
        self._usage = Usage(settings.usage, settings.recommendations)
        self._publications = Publications(self._usage, settings.recommendations)
        self._autoscalers = [_for_workload(autoscaler, each) for each in range(len(starts))]
        self._mode = autoscaler.mode
        self._rows = np.zeros(len(starts), np.int64)
        """The container's row in the usage records, by workload."""
        self._generations = np.zeros(len(starts), np.int64)
        self._is_resized = np.zeros(len(starts), np.bool_)
        for workload, start in enumerate(starts.tolist()):
            self._usage.learn(self._autoscalers[workload], _selector(workload))
            self._track(workload, _moment(start), _allocation(workload, fleet))
        self._publications.renew()
        owners = {name: place for place, name in enumerate(self._publications.amounts().owners)}
        self._groups = np.array([owners[each.identity] for each in self._autoscalers], np.int64)
        """Position of each workload in the published amounts; containers stay while pods change."""
        self._before: rewinding.SavedHistories | None = None
        """Histories before the last readings of whole steps, in the order of `_stepped`."""
        self._stepped = np.zeros(0, np.int64)

    def observe(self, readings: PolicyReadings, /) -> None:
        """Take in what containers used."""
        if self._settings.follows_original:
            self._save_steps(readings.workloads)
        rows, times = self._rows[readings.workloads], readings.times
        now = float(times.max(initial=0.0))
        self._usage.add_cpu(Samples(rows, readings.amounts[CPU], times), now)
        self._usage.add_memory(Samples(rows, readings.amounts[MEMORY], times), now)

    def learn_kills(self, killed: PolicySituation, /) -> None:
        """Take in that containers were OOM-killed."""
        fleet, workloads = killed.fleet, killed.workloads
        kills = Samples(
            self._rows[workloads],
            fleet.requests[MEMORY, workloads],
            killed.times,
            fleet.limits[MEMORY, workloads],
        )
        self._usage.add_oom_kills(kills, float(killed.times.max()))

    def choose(self, situation: PolicySituation, /) -> Choice:
        """Choose the workloads to change, as the updater's plan decides."""
        if self._mode in _IDLE_MODES:
            return NO_CHOICE
        self._forget_kills(situation)
        self._publications.renew()
        workloads, times = situation.workloads.tolist(), situation.times.tolist()
        numbers = self.numbers(situation.workloads)
        rule = self._original_changes if self._settings.follows_original else self._may_change
        due = rule(situation, numbers)
        retaken = NO_CHOICE.retaken
        if self._settings.follows_original:
            is_late = due & (np.asarray(situation.minutes) > 1)
            retaken = situation.workloads[is_late]
            self._take_back(retaken)
            due &= ~is_late
        near = np.flatnonzero(due).tolist()
        decided = [
            self._decide(workloads[each], numbers[each], situation.fleet, _moment(times[each]))
            for each in near
        ]
        choice = self._carry_out([each for each in decided if each is not None])
        return replace(choice, retaken=retaken)

    def _save_steps(self, workloads: Ints) -> None:
        """Save the histories of workloads that take a whole step at once.

        In the original, a memory window that begins with zero bytes sees nothing. So the minute of
        a new pod decides about all of its kills.
        """
        is_first = np.ones(len(workloads), np.bool_)
        np.not_equal(workloads[1:], workloads[:-1], out=is_first[1:])
        starts = np.flatnonzero(is_first)
        self._stepped = workloads[starts[np.diff(starts, append=len(workloads)) > 1]]
        self._before = rewinding.save(self._usage, self._rows[self._stepped])

    def _take_back(self, workloads: Ints) -> None:
        """Take back the last readings of workloads."""
        if len(workloads):
            assert self._before is not None
            order = np.argsort(self._stepped)
            which = order[np.searchsorted(self._stepped, workloads, sorter=order)]
            rewinding.restore(self._usage, self._before, which)

    def bounds(self, workloads: Ints, /) -> Floats:
        """The bounds that would be published."""
        numbers = np.moveaxis(self.numbers(workloads), 0, 2)
        bounds = numbers[:, [estimators.LOWER, estimators.UPPER]].swapaxes(0, 1)
        return np.where(bounds < 0, np.nan, bounds)

    def _forget_kills(self, situation: PolicySituation) -> None:
        """Forget OOM kills of long ago; each workload has a clock of its own."""
        usage = self._usage
        now = np.full(len(usage.aggregates.floats("lifetime")), -np.inf)
        now[usage.containers.aggregate[self._rows[situation.workloads]]] = situation.times
        usage.aggregates.forget_kills(now)

    def numbers(self, workloads: Ints) -> Ints:
        """Return the amounts that would be published for some workloads."""
        numbers = self._publications.amounts().numbers[self._groups[workloads]]
        if not self._settings.follows_original:
            return numbers
        floors = [self._settings.recommendations.of(resource).pod_floor for resource in BOTH]
        return np.where(numbers == NO_SAMPLES, np.array(floors)[:, np.newaxis], numbers)

    def _may_change(self, situation: PolicySituation, numbers: Ints) -> Booleans:
        """True for workloads that the plan may change: a superset of those that it will change."""
        fleet, workloads = situation.fleet, situation.workloads
        thresholds = self._settings.plan.thresholds
        requests = fleet.requests[:, workloads].T
        target, lower, upper, _ = np.moveaxis(numbers, 2, 0)
        known = target >= 0
        outside = known & ((requests < lower) | (requests > upper))
        moves = np.where(known, np.abs(requests - target) / requests, 0.0).sum(axis=1)
        killed = (fleet.killed_after[workloads] >= 0) & (moves > 0)
        old = fleet.age[workloads] >= thresholds.lifetime / _MINUTE
        return np.asarray(
            outside.any(axis=1) | killed | (old & (moves >= 0.999 * thresholds.smallest_change))
        )

    def _original_changes(self, situation: PolicySituation, numbers: Ints) -> Booleans:
        """True for workloads whose pod the original's updater would replace.

        It replaces a pod outside its bounds or soon after a quick OOM kill, and an old one if the
        change is large enough; after a quick kill only if there is any change.
        """
        fleet, workloads = situation.fleet, situation.workloads
        thresholds = self._settings.plan.thresholds
        requests = fleet.requests[:, workloads].T
        target, lower, upper, _ = np.moveaxis(numbers, 2, 0)
        outside = ((requests < lower) | (requests > upper)).any(axis=1)
        moves = (np.abs(requests - target) / np.maximum(requests, 1.0)).sum(axis=1)
        ran = fleet.killed_after[workloads]
        quick = (ran >= 0) & (ran < thresholds.quick_oom / _MINUTE)
        old = fleet.age[workloads] >= thresholds.lifetime / _MINUTE
        due = outside | quick | (old & (moves >= thresholds.smallest_change))
        return np.asarray(due & ~(quick & (moves == 0)))

    def _decide(
        self, workload: int, numbers: Ints, fleet: Fleet, now: datetime
    ) -> "_Decision | None":
        pod = _pod(workload, int(self._generations[workload]), fleet, now)
        recommendation = _recommendation(numbers)
        autoscaler = replace(self._autoscalers[workload], recommendation=(recommendation,))
        if self._settings.follows_original:
            wanted = container_resources.wanted_by_autoscaler(pod, autoscaler, ())
            return _Decision(workload, now, _changed(pod, wanted))
        changed_at = pod.started_at if self._is_resized[workload] else None
        snapshot = Snapshot(
            pods=(ObservedPod(pod, WorkloadName(_NAMESPACE, _KIND, str(workload))),),
            autoscalers=(ObservedAutoscaler(autoscaler, Selector()),),
            pod_memory={(pod.uid, autoscaler.identity): PodMemory(last_updated_at=changed_at)},
        )
        outcome = plan(snapshot, self._settings.plan, now)[0]
        match outcome:
            case Evict():
                wanted = container_resources.wanted_by_autoscaler(pod, autoscaler, ())
                return _Decision(workload, now, _changed(pod, wanted))
            case Resize():
                return _Decision(workload, now, _changed(pod, outcome.wanted), in_place=True)
            case _:
                return None

    def _carry_out(self, decisions: list["_Decision"]) -> Choice:
        if not decisions:
            return NO_CHOICE
        in_place = decisions[0].in_place
        for decision in decisions:
            self._is_resized[decision.workload] = in_place
            if in_place:
                self._note_size(decision.workload, decision.allocation)
            else:
                self._renew_pod(decision)
        return Choice(
            np.array([decision.workload for decision in decisions]),
            np.array([_column(each.allocation.requests) for each in decisions]).T,
            np.array([_column(each.allocation.limits) for each in decisions]).T,
            in_place=in_place,
        )

    def _renew_pod(self, decision: "_Decision") -> None:
        """Track usage under a new pod, then forget the old one, so that one is always tracked."""
        workload = decision.workload
        former = _pod_name(workload, int(self._generations[workload]))
        self._generations[workload] += 1
        self._track(workload, decision.now, decision.allocation)
        self._usage.forget(former)

    def _track(self, workload: int, now: datetime, size: Allocation) -> None:
        name = _pod_name(workload, int(self._generations[workload]))
        self._usage.track(name, {_LABEL: str(workload)}, [CONTAINER], now)
        self._rows[workload] = self._usage.containers_of(name)[CONTAINER]
        self._note_size(workload, size)

    def _note_size(self, workload: int, size: Allocation) -> None:
        """Note the size of a workload's container, which some estimators start from."""
        name = _pod_name(workload, int(self._generations[workload]))
        requests, limits = ({CONTAINER: part or {}} for part in (size.requests, size.limits))
        self._usage.note_requests(name, requests, limits)


@dataclass(frozen=True, slots=True)
class _Decision:
    """New size of one workload."""

    workload: int
    now: datetime
    allocation: Allocation
    in_place: bool = False


def _for_workload(template: Autoscaler, workload: int) -> Autoscaler:
    name = str(workload)
    target = TargetReference(kind=_KIND, name=name, api_version="apps/v1")
    return replace(
        template, namespace=_NAMESPACE, name=name, uid=name, target=target, selector=None
    )


def _selector(workload: int) -> Selector:
    return Selector((selectors.equality(_LABEL, str(workload)),))


def _pod_name(workload: int, generation: int) -> PodName:
    return PodName(_NAMESPACE, f"{workload}-{generation}")


def _pod(workload: int, generation: int, fleet: Fleet, now: datetime) -> Pod:
    """The pod of a workload as the updater would see it."""
    name = _pod_name(workload, generation).name
    container = Container(
        CONTAINER,
        spec=_allocation(workload, fleet),
        is_running=True,
        last_termination=_last_kill(workload, fleet, now),
    )
    started_at = now - int(fleet.age[workload]) * _MINUTE
    return Pod(
        _NAMESPACE,
        name,
        uid=name,
        labels={_LABEL: str(workload)},
        owner=OwnerReference(_KIND, str(workload)),
        phase=PodPhase.RUNNING,
        containers=(container,),
        created_at=started_at,
        started_at=started_at,
        ready_since=started_at,
        node_name="node",
    )


def _allocation(workload: int, fleet: Fleet) -> Allocation:
    requests, limits = fleet.requests[:, workload], fleet.limits[:, workload]
    return Allocation(_resources(requests), _resources(limits))


def _last_kill(workload: int, fleet: Fleet, now: datetime) -> Termination | None:
    ran = int(fleet.killed_after[workload])
    if ran < 0:
        return None
    finished_at = now - int(fleet.since_kill[workload]) * _MINUTE
    return Termination("OOMKilled", finished_at - ran * _MINUTE, finished_at)


def _recommendation(numbers: Ints) -> ContainerRecommendation:
    """The numbers of one workload's container as they would be published."""
    known = [
        (resource, amounts)
        for resource, amounts in zip(BOTH, numbers.tolist(), strict=True)
        if amounts[estimators.TARGET] >= 0
    ]
    target, lower, upper, uncapped = (
        {resource: amounts[column] for resource, amounts in known} for column in range(4)
    )
    return ContainerRecommendation(CONTAINER, target, lower, upper, uncapped)


def _changed(pod: Pod, wanted: TargetResources) -> Allocation:
    """Return the container's size once the wanted resources are applied."""
    current, new = pod.containers[0].spec, wanted[CONTAINER]
    return Allocation(
        {**(current.requests or {}), **(new.requests or {})},
        {**(current.limits or {}), **(new.limits or {})},
    )


def _resources(amounts: Floats) -> Resources:
    pairs = zip(BOTH, amounts.tolist(), strict=True)
    return {resource: int(amount) for resource, amount in pairs if np.isfinite(amount)}


def _column(amounts: Resources | None) -> list[float]:
    return [float((amounts or {}).get(resource, np.inf)) for resource in BOTH]


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
