"""Checks that components leave enough pods of every owner running.

The budget is the updater's own, by its arithmetic (`core/guards/disruption_budgets.py`): a share
of the pods that an owner wants, at least one. PodDisruptionBudgets are checked elsewhere.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from trimtab.core.guards import disruption_budgets
from trimtab.core.guards.disruption_budgets import ReplicaGroup
from trimtab.core.model import limits, matching
from trimtab.core.model.pods import (
    Container,
    Pod,
    PodPhase,
    ResizeState,
    WorkloadName,
)
from trimtab.core.model.resources import Resource
from trimtab.core.sizing import startup_boost
from trimtab.core.updates.pod_history import SETTLING_FOR
from trimtab.simulation.checks import pod_changes
from trimtab.simulation.checks.base import Checker, Rules
from trimtab.simulation.checks.hindsight import Hindsight, RecentValues
from trimtab.simulation.faults import calm
from trimtab.simulation.world.facts import Fact, FaultBegan, FaultEnded, PodEvicted, PodResized
from trimtab.simulation.world.objects import DisruptionBudget, WorkloadObject
from trimtab.simulation.world.tables import TableChange
from trimtab.simulation.world.world import World

_ENDED: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED)
_PUT_OFF: Final = (ResizeState.DEFERRED, ResizeState.INFEASIBLE, ResizeState.ERROR)


@dataclass(frozen=True, slots=True)
class _Disruption:
    """A pod that a component evicted, or whose containers it restarted."""

    at: datetime
    uid: str
    is_eviction: bool


class Disruption(Checker):
    """Components never disrupt more pods of one owner at once than its budget allows.

    An evicted pod is down until a pod created later is ready in its place. A restarted pod is down
    until it is ready again, however long that takes. A successor that has run for a while without
    getting ready counts as there: otherwise the updater could never give it another size. Where all
    pods are OOM-killed, each of them counts as down already. The only ready pod of several is never
    disrupted. Groups below their minimum of replicas and pods without an owner are left alone. A
    restart that gives more memory to OOM-killed containers of a pod that is down disrupts nothing.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._open: dict[WorkloadName, list[_Disruption]] = {}
        self._groups: dict[WorkloadName, RecentValues[ReplicaGroup]] = {}
        world.pods.subscribe(self._follow)

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report a disruption that exceeds the budget."""
        match fact:
            case PodEvicted(actor=actor, pod=pod):
                yield from self._check(pod, f"{actor} evicted", is_eviction=True)
            case PodResized(actor=actor, before=before, after=after):
                is_boosted = bool(startup_boost.boosted_containers(before))
                if (
                    not is_boosted
                    and pod_changes.restarts(before, after)
                    and not _rescues(before, after)
                ):
                    yield from self._check(before, f"{actor} restarted", is_eviction=False)
            case _:
                return

    def _check(self, pod: Pod, what: str, *, is_eviction: bool) -> Iterator[str]:
        owner = disruption_budgets.owner_of(pod)
        if owner is None:
            yield f"{what} {pod.namespace}/{pod.name}, which nobody owns"
            return
        groups = self._timeline(owner).seen(self.world.now())
        if not self._has_enough_replicas(pod, groups):
            yield f"{what} {pod.namespace}/{pod.name} of too few replicas"
        if pod.ready_since is None or pod.is_deleting or self._all_crash(owner):
            # The pod counts as down already.
            return
        if groups and all(map(_has_one_ready_of_several, groups)):
            yield f"{what} {pod.namespace}/{pod.name}, the only ready pod of its owner"
        most = max((_most(group, self.rules) for group in groups), default=0)
        down = self._count_open(owner)
        if down >= most:
            yield f"{what} {pod.namespace}/{pod.name} with {down} others down, {most} may be"
        disruption = _Disruption(self.world.now(), pod.uid, is_eviction)
        self._open.setdefault(owner, []).append(disruption)

    def _all_crash(self, owner: WorkloadName) -> bool:
        """Return True if every pod of the owner is down or was lately OOM-killed."""
        return all(pod.ready_since is None or _was_oom_killed(pod) for pod in self._live(owner))

    def _has_enough_replicas(self, pod: Pod, groups: list[ReplicaGroup]) -> bool:
        governors = self.past.governors(pod, matching.acts_on_running_pods)
        own = [each.min_replicas for each in governors] or [None]
        usual = self.rules.disruption.min_replicas
        required = min(usual if each is None else each for each in own)
        return max((group.live for group in groups), default=0) >= required

    def _count_open(self, owner: WorkloadName) -> int:
        """Count the pods still down; evicted ones count at most as often as pods are missing."""
        still = [each for each in self._open.get(owner, ()) if self._is_down(each)]
        self._open[owner] = still
        evicted = sum(each.is_eviction for each in still)
        return len(still) - evicted + min(evicted, self._count_missing(owner))

    def _count_missing(self, owner: WorkloadName) -> int:
        there = sum(self._is_there(each) for each in self._live(owner))
        return max(0, (self._count(owner).configured or 0) - there)

    def _is_there(self, pod: Pod) -> bool:
        now, made_at = self.world.now(), pod.created_at
        if pod.ready_since is not None or pod.phase is PodPhase.PENDING or made_at is None:
            return pod.ready_since is not None
        return now - made_at > SETTLING_FOR - self.clock_doubt(now)

    def _is_down(self, disruption: _Disruption) -> bool:
        if disruption.is_eviction:
            return True
        found = [pod for pod in self.world.pods if pod.uid == disruption.uid]
        return bool(found) and found[0].resize not in _PUT_OFF and not _is_as_asked(found[0])

    def _follow(self, change: TableChange[Pod]) -> None:
        pod = change.after or change.before
        owner = None if pod is None else disruption_budgets.owner_of(pod)
        if owner is None or _shape(change.before) == _shape(change.after):
            return
        self._timeline(owner).put(self.world.now(), self._count(owner))
        became_ready = change.after is not None and change.after.ready_since is not None
        was_ready = change.before is not None and change.before.ready_since is not None
        if became_ready and not was_ready and change.after is not None:
            self._replace(owner, change.after)

    def _replace(self, owner: WorkloadName, successor: Pod) -> None:
        """Close the disruption of a pod that became ready, or of the first pod that it replaces."""
        waiting = self._open.get(owner, [])
        waiting[:] = [each for each in waiting if each.uid != successor.uid]
        if waiting and not self._count_missing(owner):
            # No pod is missing, so every evicted pod has been replaced.
            waiting[:] = [each for each in waiting if not each.is_eviction]
            return
        made_at = successor.created_at
        for disruption in waiting:
            if disruption.is_eviction and made_at is not None and made_at >= disruption.at:
                waiting.remove(disruption)
                return

    def _timeline(self, owner: WorkloadName) -> RecentValues[ReplicaGroup]:
        if owner not in self._groups:
            self._groups[owner] = RecentValues(self.rules.staleness)
            self._groups[owner].put(self.world.now(), self._count(owner))
        return self._groups[owner]

    def _live(self, owner: WorkloadName) -> list[Pod]:
        found = self.world.find_workload(owner)
        pods = [] if found is None else self.world.pods_by_owner.under(found.uid)
        return [pod for pod in pods if not pod.is_deleting and pod.phase not in _ENDED]

    def _count(self, owner: WorkloadName) -> ReplicaGroup:
        found = self.world.find_workload(owner)
        wanted = None if found is None else found.replicas
        known = {} if wanted is None else {owner: wanted}
        counted = disruption_budgets.count_groups(self._live(owner), known)
        return counted.get(owner, ReplicaGroup(0, 0, wanted))


def _most(group: ReplicaGroup, rules: Rules) -> int:
    """Return how many pods of a complete group may be down at once."""
    return max(1, int((group.configured or 0) * rules.disruption.tolerance))


def _has_one_ready_of_several(group: ReplicaGroup) -> bool:
    return group.ready == 1 and (group.configured or 0) > 1


def _rescues(before: Pod, after: Pod) -> bool:
    """Return True if a pod that is down restarts only OOM-killed containers, with more memory."""
    memory = Resource.MEMORY
    return before.ready_since is None and all(
        (pod_changes.ran_out_of_memory(old) and _amount(new, memory) > _amount(old, memory))
        or all(pod_changes.is_same(old.spec, new.spec, kind) for kind in old.restarts_on_resize)
        for old, new in zip(before.containers, after.containers, strict=True)
    )


def _amount(container: Container, kind: Resource) -> int:
    return limits.amount_of(container.spec.requests, kind)


def _was_oom_killed(pod: Pod) -> bool:
    return any(map(pod_changes.ran_out_of_memory, pod.containers))


def _is_as_asked(pod: Pod) -> bool:
    """Return True if the pod is ready and has the resources that its spec requests."""
    statuses = [(each.spec.requests, each.status) for each in pod.containers]
    has_all = all(status is not None and status.requests == asked for asked, status in statuses)
    return pod.ready_since is not None and pod.resize is None and has_all


def _shape(pod: Pod | None) -> tuple[object, ...] | None:
    """Return the fields of a pod that change the count of its group."""
    if pod is None:
        return None
    return pod.uid, pod.phase, pod.is_deleting, pod.ready_since is None


class PodBudgets(Checker):
    """No component evicts a pod that a PodDisruptionBudget protects at that moment."""

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report the PodDisruptionBudgets that an eviction exceeds."""
        if not isinstance(fact, PodEvicted):
            return
        pod = fact.pod
        if pod.is_deleting or pod.phase is not PodPhase.RUNNING:
            return
        for budget in self.world.budgets:
            if _covers(budget, pod) and self._allowed(budget) < _needs(pod):
                yield f"{fact.actor} evicted {pod.namespace}/{pod.name} past {budget.name}"

    def _allowed(self, budget: DisruptionBudget) -> int:
        """Return how many healthy pods may go now; negative if too few are healthy already."""
        covered = [pod for pod in self.world.pods if _covers(budget, pod)]
        healthy = sum(pod.ready_since is not None and not pod.is_deleting for pod in covered)
        if budget.min_available is not None:
            return healthy - budget.min_available
        return healthy - (self._expected(covered) - (budget.max_unavailable or 0))

    def _expected(self, covered: list[Pod]) -> int:
        """Return how many pods the owners that scale them want."""
        scaled = {
            owner.uid: owner.replicas or 0
            for owner in map(self._find_scaled, covered)
            if owner is not None
        }
        return sum(scaled.values())

    def _find_scaled(self, pod: Pod) -> WorkloadObject | None:
        owner = self.world.find_owner(pod.namespace, pod.owner)
        above = None if owner is None else self.world.find_owner(owner.namespace, owner.owner)
        return above if above is not None and above.kind == "Deployment" else owner


def _covers(budget: DisruptionBudget, pod: Pod) -> bool:
    return budget.namespace == pod.namespace and budget.selector.matches(pod.labels)


def _needs(pod: Pod) -> int:
    # Evicting a pod that is not ready costs nothing while enough others are ready.
    return 0 if pod.ready_since is None else 1


_NEARLY_ONE: Final = 1 - 1e-6
"""A whole token, less the rounding of virtual time to microseconds."""


class EvictionRate(Checker):
    """All components together evict pods no faster than the rate and its burst allow (D14)."""

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._tokens = float(rules.eviction_burst)
        self._counted_at: datetime | None = None

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report an eviction above the rate."""
        match fact:
            case FaultBegan(fault=fault) | FaultEnded(fault=fault) if calm.sets_clock(fault):
                # On a clock that jumps ahead enough time has passed.
                self._tokens = float(self.rules.eviction_burst)
            case PodEvicted(at=at, actor=actor, pod=pod):
                self._refill(at)
                if self._tokens < _NEARLY_ONE:
                    yield f"{actor} evicted {pod.namespace}/{pod.name} too soon after others"
                else:
                    self._tokens -= 1
            case _:
                return

    def _refill(self, now: datetime) -> None:
        passed = 0.0 if self._counted_at is None else (now - self._counted_at).total_seconds()
        self._counted_at = now
        refilled = self._tokens + passed * self.rules.eviction_rate
        self._tokens = min(float(self.rules.eviction_burst), refilled)
