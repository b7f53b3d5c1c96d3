"""State that the updater keeps from tick to tick, as input of pure functions.

It makes no decisions. It is lost with the process, and plans can start without it.
"""

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Final

from trimtab.core.guards import (
    convergence,
    degradation,
    disruption_budgets,
    eviction_brake,
    rate_limit,
    standing_changes,
)
from trimtab.core.guards.convergence import (
    SHOWS_WITHIN,
    Expectation,
    Fulfilled,
    Missed,
    NeverMade,
    Verdict,
    Void,
)
from trimtab.core.guards.degradation import ChangedWorkload, Degradation
from trimtab.core.guards.eviction_brake import NO_DOUBT, Brake, Lack
from trimtab.core.guards.standing_changes import STANDS_AFTER, StandingChange
from trimtab.core.guards.turns import LastTurns
from trimtab.core.model.autoscalers import AutoscalerName, ContainerRecommendation
from trimtab.core.model.limit_ranges import LimitRangeItem
from trimtab.core.model.pods import Pod, PodPhase, WorkloadName
from trimtab.core.updates import failed_changes, pod_history, resize_or_evict
from trimtab.core.updates.failed_changes import FailedChange
from trimtab.core.updates.pod_history import Recollection
from trimtab.core.updates.snapshot import MemoryKey, PodMemory

_ENDED: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED)
_TIMES_KEPT: Final = timedelta(hours=1)
"""Time for which creations and evictions are remembered, while no successor is missing."""
_SHARES_KEPT: Final = timedelta(days=1)
"""Time without pods after which a namespace's usual share is forgotten."""


@dataclass(frozen=True, slots=True)
class WorkloadReview:
    """A workload of which something is expected, as it is now."""

    pods: Sequence[Pod]
    limit_ranges: Sequence[LimitRangeItem]
    wanted_pods: int | None
    """Number of pods that it wants, zero if it does not say; None if it is gone."""
    generation: int | None
    """Generation of the autoscaler that is for it; None if there is none."""
    recommendation: Sequence[ContainerRecommendation] = ()
    """Recommendation of the same autoscaler."""


class UpdaterMemory:
    """Recollections of pods, expectations of workloads, misses, and usual shares."""

    def __init__(self) -> None:
        self.recollections: dict[str, Recollection] = {}
        """By the uid of the pod."""
        self._of_all: Mapping[MemoryKey, PodMemory] | None = None
        """The same as plans read it; None if it changed since."""
        self.evicted: dict[str, datetime] = {}
        """Evictions that were asked for and do not show in the view yet, by uid."""
        self.under_way: set[str] = set()
        """The uids of pods about which a request was sent that is not answered."""
        self.disturbed: dict[WorkloadName, datetime] = {}
        """Time of the last eviction of a pod, by direct owner."""
        self.restarted: dict[WorkloadName, datetime] = {}
        """Time of the last resize with a restart that was asked for, by direct owner."""
        self.last_restarts: dict[str, resize_or_evict.Restart] = {}
        """By namespace the last restart of a ready pod that was asked for."""
        self.expectations: defaultdict[WorkloadName, list[Expectation]] = defaultdict(list)
        self.standing: dict[WorkloadName, list[StandingChange]] = {}
        """Changes that showed, and may still be undone."""
        self.lacking: dict[WorkloadName, Lack] = {}
        """Workloads that have no successor of an evicted pod."""
        self.created: dict[str, datetime] = {}
        """By namespace when the newest pod was created, by any owner."""
        self._doubt = NO_DOUBT
        """Recent evidence that no pod can be created in the whole cluster."""
        self.last_evicted: dict[str, datetime] = {}
        """By namespace when a pod was last evicted."""
        self.misses: dict[WorkloadName, FailedChange] = {}
        self.changed: dict[WorkloadName, ChangedWorkload] = {}
        """Workloads that were changed recently, with the number of pods that were ready before."""
        self.is_restored = False
        """True once the workloads that an earlier updater found degraded are known."""
        self.usual_shares: dict[str, float] = {}
        """Share of pods that wanted to change lately, by namespace."""
        self._shares_at: dict[str, datetime] = {}
        """Time at which each of them was last learned."""
        self.surging: frozenset[str] = frozenset()
        numbers = count(1)
        self.turns_to_evict = LastTurns(numbers)
        self.turns_to_resize = LastTurns(numbers)
        self._begun_at: datetime | None = None

    def begin_anew(self) -> None:
        """Prepare for a new start, since another updater may have acted until now."""
        self._begun_at = None
        self.is_restored = False
        self.standing.clear()

    def recall(self, governed: Iterable[tuple[Pod, AutoscalerName | None]], now: datetime) -> bool:
        """Bring the memory of the pods up to date; return True if any has a new governor."""
        fresh = pod_history.recall(self.recollections, governed, now)
        if fresh:
            self.recollections |= fresh
            self._of_all = None
        return any(each.memory.governed_since == now for each in fresh.values())

    def of_pods(self, uids: Iterable[str]) -> Mapping[MemoryKey, PodMemory]:
        """Return the memory of these pods, as plans read it."""
        return pod_history.pod_memory(self.recollections, uids)

    def of_all(self) -> Mapping[MemoryKey, PodMemory]:
        """Return the memory of all pods, as plans read it: the same map while nothing changes."""
        if self._of_all is None:
            self._of_all = self.of_pods(self.recollections)
        return self._of_all

    def forget_others(self, standing: Container[str]) -> None:
        """Forget all pods but these, by uid."""
        gone = [uid for uid in self.recollections if uid not in standing]
        for uid in gone:
            del self.recollections[uid]
            self._of_all = None

    def forget_lacks(self, standing: Container[str], now: datetime) -> None:
        """Forget what is missing in all namespaces but these: their pods are not looked at."""
        for workload in [each for each in self.lacking if each.namespace not in standing]:
            del self.lacking[workload]
        if not self.lacking:
            kept = now - _TIMES_KEPT
            for times in (self.created, self.last_evicted):
                for namespace in [name for name, time in times.items() if time < kept]:
                    del times[namespace]

    def amend(
        self,
        pod: Pod,
        governor: AutoscalerName | None,
        change: Callable[[Recollection], Recollection],
    ) -> None:
        """Change what is remembered of the pod under its governor."""
        found = self.recollections.get(pod.uid)
        if found is None or found.governor != governor:
            found = Recollection(governor)
        self.recollections[pod.uid] = change(found)
        self._of_all = None

    def forget_shown_evictions(self, pods: Iterable[Pod], now: datetime) -> None:
        """Forget evictions that the view shows, and those that it should show by now."""
        if self.evicted:
            standing = {pod.uid for pod in pods if not pod.is_deleting}
            self.evicted = {
                uid: at
                for uid, at in self.evicted.items()
                if uid in standing and now - at < SHOWS_WITHIN
            }

    def settling(self, pods: Iterable[Pod], now: datetime) -> frozenset[str]:
        """Return the pods that cannot be counted on for the moment."""
        if self._begun_at is None:
            self._begun_at = now
        lately = now - pod_history.SETTLING_FOR
        self.disturbed = {owner: at for owner, at in self.disturbed.items() if at > lately}
        self.restarted = {owner: at for owner, at in self.restarted.items() if at > lately}
        # Just after a start the memory lacks recent acts, by us or another.
        is_new = self._begun_at >= lately
        known, under_way = self.recollections, self.under_way
        return frozenset(
            [
                pod.uid
                for pod in pods
                # A request in flight may take effect before its answer comes.
                if pod.uid in under_way
                or (
                    pod.ready_since is None
                    # A new pod is not up before it is ready, even if no act of ours led to it:
                    # a successor may come when it is no longer expected.
                    and (
                        is_new
                        or _is_starting(pod, lately)
                        or disruption_budgets.owner_of(pod) in self.disturbed
                    )
                )
                # Most pods have no recent update, so the cheap tests come first.
                or (
                    (found := known.get(pod.uid)) is not None
                    and (updated := found.memory.last_updated_at) is not None
                    and (updated >= lately or found.is_successor)
                    and pod_history.is_settling(found, pod, now)
                )
            ]
        )

    def restart_gaps(
        self, find: Callable[[str, str], Pod | None], now: datetime
    ) -> Mapping[str, datetime]:
        """Return when another ready pod may be restarted, by namespace, if later than now."""
        ends = {
            namespace: resize_or_evict.end_of_gap(each, find(namespace, each.pod.name), now)
            for namespace, each in self.last_restarts.items()
        }
        found = {namespace: end for namespace, end in ends.items() if end is not None}
        self.last_restarts = {
            namespace: each for namespace, each in self.last_restarts.items() if namespace in found
        }
        return found

    def watched_workloads(self) -> set[WorkloadName]:
        """Return the workloads of which something is expected, or was."""
        return {*self.expectations, *self.misses, *self.changed, *self.lacking, *self.standing}

    def concerned_autoscaler(self, workload: WorkloadName) -> AutoscalerName | None:
        """Return the autoscaler of the last act on a watched workload, if known."""
        if expectations := self.expectations.get(workload):
            return expectations[-1].autoscaler
        if miss := self.misses.get(workload):
            return miss.expectation.autoscaler
        if changed := self.changed.get(workload):
            return changed.autoscaler
        standing = self.standing.get(workload)
        return standing[-1].expectation.autoscaler if standing else None

    def misses_by_autoscaler(self) -> Mapping[AutoscalerName, FailedChange]:
        """Return the misses by the autoscaler for which the last change was made."""
        return {miss.expectation.autoscaler: miss for miss in self.misses.values()}

    def unproven(self) -> Mapping[WorkloadName, int]:
        """Return the number of evictions of each workload whose effect is not known yet."""
        return {
            workload: sum(each.is_eviction for each in expectations)
            for workload, expectations in self.expectations.items()
        }

    def brake(self) -> Brake:
        """Return where evictions stop for lack of successors."""
        return eviction_brake.find_brake(self.lacking, self.created, self.last_evicted, self._doubt)

    def note_pod(self, pod: Pod, now: datetime) -> None:
        """Remember when a pod was created in the namespace: there it is possible."""
        if pod.created_at is not None and pod.created_at > now - _TIMES_KEPT:
            self._note_created(pod.namespace, min(pod.created_at, now))

    def weigh_lacks(self) -> None:
        """Update the evidence about the whole cluster from the present lacks."""
        self._doubt = eviction_brake.renew_doubt(self._doubt, self.lacking, self.created)

    def expect(self, expectation: Expectation) -> None:
        """Remember the expected effect of a change; it replaces earlier ones for the pod."""
        others = [
            each
            for each in self.expectations[expectation.workload]
            if each.pod_uid != expectation.pod_uid
        ]
        self.expectations[expectation.workload] = [*others, expectation]

    def forget_standing(self, workload: WorkloadName, pod: Pod) -> None:
        """Forget what the pod has shown: an act of ours changes it."""
        if changes := self.standing.get(workload):
            self.standing[workload] = [each for each in changes if each.pod_uid != pod.uid]

    def review(self, workload: WorkloadName, now: WorkloadReview, at: datetime) -> None:
        """Judge what is expected of the workload, and remember the verdicts."""
        if now.wanted_pods is None:
            self.expectations.pop(workload, None)
            self.misses.pop(workload, None)
            self.standing.pop(workload, None)
            self.changed.pop(workload, None)
            self.lacking.pop(workload, None)
            return
        self._review_health(workload, now, at)
        self._review_successors(workload, now, now.wanted_pods, at)
        self._review_standing(workload, now, at)
        verdicts = convergence.review(
            self.expectations.get(workload, ()),
            now.pods,
            now.limit_ranges,
            lacks_pods=sum(not pod.is_deleting for pod in now.pods) < now.wanted_pods,
            now=at,
        )
        for verdict in verdicts:
            self._take_in(workload, verdict, now, at)
        miss = self.misses.get(workload)
        if miss is not None and failed_changes.is_forgiven(
            miss, now.pods, now.generation, now.recommendation, now=at
        ):
            del self.misses[workload]
        elif miss is not None:
            self.misses[workload] = failed_changes.recall_small(miss, now.pods)

    def learn_shares(
        self, wishes: Mapping[str, rate_limit.Wishes], surging: frozenset[str], now: datetime
    ) -> None:
        """Remember which share of the pods of each namespace wants a change."""
        for namespace, found in wishes.items():
            passed = now - self._shares_at.get(namespace, now)
            usual = self.usual_shares.get(namespace)
            self.usual_shares[namespace] = rate_limit.remember_share(
                usual, found.share, passed=passed
            )
            self._shares_at[namespace] = now
        self.surging = surging
        for namespace, at in [*self._shares_at.items()]:
            if now - at > _SHARES_KEPT:
                del self.usual_shares[namespace], self._shares_at[namespace]

    def last_turns(self) -> Mapping[str, int]:
        """Return the number of the last turn of each namespace, be it to evict or to resize."""
        evict, resize = self.turns_to_evict.by_namespace(), self.turns_to_resize.by_namespace()
        return {name: max(evict.get(name, 0), resize.get(name, 0)) for name in {**evict, **resize}}

    def note_change(self, workload: WorkloadName, change: ChangedWorkload) -> None:
        """Remember a change of a workload, for comparisons later."""
        self.changed[workload] = change

    def degraded(
        self, patience: timedelta | None, now: datetime
    ) -> Mapping[WorkloadName, Degradation]:
        """Return the workloads with fewer ready pods than before, for longer than `patience`."""
        if patience is None:
            return {}
        return {
            workload: found
            for workload, record in self.changed.items()
            if (found := degradation.judge(record, patience, now)) is not None
        }

    def stops_by_autoscaler(
        self, patience: timedelta | None, now: datetime
    ) -> Mapping[AutoscalerName, Degradation]:
        """Return the same by the autoscaler for which the workload was last changed."""
        found = self.degraded(patience, now)
        return {self.changed[workload].autoscaler: each for workload, each in found.items()}

    def _review_health(self, workload: WorkloadName, now: WorkloadReview, at: datetime) -> None:
        record = self.changed.get(workload)
        if record is None:
            return
        live = [pod for pod in now.pods if not pod.is_deleting and pod.phase not in _ENDED]
        reviewed = degradation.review(
            record,
            ready=sum(map(degradation.is_ready, live)),
            wanted=now.wanted_pods or len(live),
            generation=now.generation,
            now=at,
        )
        if reviewed is None:
            del self.changed[workload]
        else:
            self.changed[workload] = reviewed

    def _review_successors(
        self, workload: WorkloadName, now: WorkloadReview, wanted: int, at: datetime
    ) -> None:
        evictions = [each for each in self.expectations.get(workload, ()) if each.is_eviction]
        newest = eviction_brake.newest_successor(evictions, now.pods, at)
        if newest is not None:
            self._note_created(workload.namespace, newest)
        before = self.lacking.pop(workload, None)
        lack = eviction_brake.find_lack(before, evictions, now.pods, wanted=wanted, now=at)
        if lack is not None:
            self.lacking[workload] = lack

    def _note_created(self, namespace: str, at: datetime) -> None:
        self.created[namespace] = max(self.created.get(namespace, at), at)

    def _take_in(
        self, workload: WorkloadName, verdict: Verdict, now: WorkloadReview, at: datetime
    ) -> None:
        self._fulfil(workload, verdict.expectation)
        match verdict:
            case Fulfilled(expectation, pod):
                self._note_shown(workload, verdict, at)
                self._succeed(expectation, pod)
            case Missed(expectation, _, pod):
                if pod is not None:
                    self._succeed(expectation, pod)
                known = (pod.uid for pod in now.pods)
                self.misses[workload] = failed_changes.count_miss(
                    self.misses.get(workload),
                    verdict,
                    known=known,
                    generation=now.generation or 0,
                    now=at,
                    recommendation=now.recommendation,
                )
            case NeverMade(expectation, pod):
                self._take_back(expectation, pod)
            case Void():
                pass

    def _note_shown(self, workload: WorkloadName, shown: Fulfilled, at: datetime) -> None:
        miss = self.misses.get(workload)
        # Where a size was taken back later, a pod that has just got it proves nothing.
        if miss is not None and miss.stood is None:
            del self.misses[workload]
        change = StandingChange(shown.expectation, shown.pod.uid, at)
        self.standing.setdefault(workload, []).append(change)

    def _review_standing(self, workload: WorkloadName, now: WorkloadReview, at: datetime) -> None:
        changes = self.standing.pop(workload, ())
        standing, undone = standing_changes.review(changes, now.pods, at)
        for each in undone:
            if failed_changes.is_news(each, self.misses.get(workload)):
                self._take_in(workload, each, now, at)
        if failed_changes.is_outlived(self.misses.get(workload), standing, at):
            del self.misses[workload]
        young = [each for each in standing if at - each.since < STANDS_AFTER]
        if young:
            self.standing[workload] = young

    def _fulfil(self, workload: WorkloadName, expectation: Expectation) -> None:
        remaining = [each for each in self.expectations[workload] if each is not expectation]
        if remaining:
            self.expectations[workload] = remaining
        else:
            del self.expectations[workload]

    def _take_back(self, expectation: Expectation, pod: Pod) -> None:
        """Forget a resize that counted as made, for the pod shows that it was not."""
        found = self.recollections.get(pod.uid)
        if found is not None:
            self.recollections[pod.uid] = pod_history.after_no_effect(found, expectation.since)
            self._of_all = None

    def _succeed(self, expectation: Expectation, pod: Pod) -> None:
        """Begin a successor's cool-down at the eviction of the pod that it replaces (F19)."""
        if expectation.is_eviction:
            before = self.recollections.get(pod.uid, Recollection(expectation.autoscaler))
            self.recollections[pod.uid] = pod_history.after_succession(before, expectation.since)
            self._of_all = None


def _is_starting(pod: Pod, lately: datetime) -> bool:
    """True for a pod that was just created and has not failed; a failing one may need help."""
    if pod.created_at is None or pod.created_at <= lately:
        return False
    return not any(each.termination or each.last_termination for each in pod.containers)
