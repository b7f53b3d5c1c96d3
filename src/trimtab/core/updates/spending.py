"""Budgets and room that a plan spends, and how much of them is left.

Only the `spend_…` functions spend anything. All others answer questions and change nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from trimtab.core.changes import change
from trimtab.core.changes.outcomes import Evict, Resize
from trimtab.core.guards import disruption_budgets
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.pods import Pod, PodPhase, WorkloadName
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.sizing import node_use
from trimtab.core.sizing.node_use import Promised
from trimtab.core.sizing.quotas import Claims, QuotaClaim
from trimtab.core.updates import resize_or_evict
from trimtab.core.updates.candidates import Candidate
from trimtab.core.updates.evictions import successors
from trimtab.core.updates.plan_context import PlanContext


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
    cut: set[WorkloadName] = field(default_factory=set)
    """The topmost workloads of pods from which a LimitRange takes something in place."""
    grown: defaultdict[str, Counter[Resource]] = field(default_factory=lambda: defaultdict(Counter))
    """By node the amounts that resizes and successors take beyond its present pods."""
    arrivals: Counter[str] = field(default_factory=Counter)
    """By node the number of successors that come from other nodes."""

    def grown_on(self, node_name: str) -> Resources:
        """Return the room on a node that is set aside."""
        return self.grown.get(node_name, NO_AMOUNTS)

    def ordinals_of(self, owner: WorkloadName | None) -> Collection[int]:
        """Return the ordinals of the owner's pods that are evicted."""
        return () if owner is None else self.ordinals.get(owner, ())

    @property
    def promised(self) -> Promised:
        """Room on nodes that is set aside."""
        return Promised(self.grown, self.arrivals)


def spend_eviction(
    act: Evict, workload: WorkloadName | None, claims: Mapping[str, Claims], spent: Spent
) -> None:
    """Spend all that an eviction costs; `workload` is the topmost, `claims` go by quota."""
    pod = act.pod
    _count_down(pod, spent)
    spent.evicting.add(pod.namespace)
    owner = disruption_budgets.owner_of(pod)
    if owner is not None and (ordinal := successors.ordinal_of(pod)) is not None:
        spent.ordinals[owner].add(ordinal)
    if workload is not None:
        spent.evicted[workload] += 1
    if act.place is not None:
        spent.grown[act.place.node_name].update(act.place.needed)
        if act.place.node_name != pod.node_name:
            spent.arrivals[act.place.node_name] += 1
    _claim(pod, claims, spent)


def spend_resize(
    act: Resize,
    claims: Mapping[str, Claims],
    spent: Spent,
    *,
    cut_of: WorkloadName | None = None,
) -> None:
    """Spend all that a resize costs; one that disturbs nothing costs the workload nothing (D17).

    `cut_of` is the topmost workload of a pod from which a LimitRange takes something.
    """
    pod = act.pod
    if act.disturbs:
        spent.restarting.add(disruption_budgets.owner_of(pod))
        spend_restart(pod, spent)
    if cut_of is not None:
        spent.cut.add(cut_of)
    spent.grown[pod.node_name].update(node_use.growth(pod, act.wanted))
    _claim(pod, claims, spent)


def spend_restart(pod: Pod, spent: Spent) -> None:
    """Spend all that a restart of containers costs."""
    if pod.ready_since is not None:
        spent.restarts.add(pod.namespace)
    _count_down(pod, spent)


def _count_down(pod: Pod, spent: Spent) -> None:
    """Count the pod against its group's budget; a pending pod is down already."""
    owner = disruption_budgets.owner_of(pod)
    if owner is not None and pod.phase is not PodPhase.PENDING:
        spent.disrupted[owner] += 1
        spent.unready[owner] += pod.ready_since is None


def _claim(pod: Pod, claims: Mapping[str, Claims], spent: Spent) -> None:
    # What others give back comes late, so it is not counted.
    for name, amounts in claims.items():
        spent.claimed[pod.namespace, name].update(amounts)


def end_of_gap(pod: Pod, context: PlanContext, spent: Spent) -> datetime | None:
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


def may_disrupt(candidate: Candidate, context: PlanContext, spent: Spent) -> bool:
    """Return True if the budget of the candidate's owner bears one more pod down.

    Where no pod of the owner is ready, there is nothing to protect: a pod that dies early for lack
    of memory is evicted at once if its successor gets more of it (D17). For a pod that is ready,
    the others count only as far as they are ready, too.
    """
    owner = candidate.owner
    group = None if owner is None else context.groups.get(owner)
    if is_rescued(candidate, context):
        return True
    if owner is None or group is None or candidate.pod.ready_since is None:
        return is_disruptable(owner, context, spent)
    taken = spent.disrupted[owner] - spent.unready[owner]
    return group.can_spare_ready(context.settings.disruption.tolerance, taken)


def is_rescued(candidate: Candidate, context: PlanContext) -> bool:
    """Return True if memory ends the OOM kills of a pod whose owner has no ready pod."""
    group = None if candidate.owner is None else context.groups.get(candidate.owner)
    return group is not None and group.ready == 0 and is_cured(candidate)


def is_cured(candidate: Candidate) -> bool:
    """Return True if the pod is OOM-killed early and would get more memory."""
    return candidate.quick_oom and change.memory_relief(candidate.pod, candidate.wanted) > 0


def is_disruptable(owner: WorkloadName | None, context: PlanContext, spent: Spent) -> bool:
    """Return True if one more pod of the owner may go down, given what the plan has spent."""
    group = None if owner is None else context.groups.get(owner)
    if owner is None or group is None:
        return False
    return group.is_disruptable(context.settings.disruption.tolerance, spent.disrupted[owner])
