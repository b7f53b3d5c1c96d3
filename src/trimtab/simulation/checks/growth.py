"""Checks that growth which disrupts no pod does not wait."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from trimtab.api.kinds.leases import Lease
from trimtab.cluster.errors import ApiError
from trimtab.core.model import autoscalers, limits, matching
from trimtab.core.model.autoscalers import Autoscaler, Held, UpdateMode
from trimtab.core.model.limit_ranges import LimitRangeItem
from trimtab.core.model.pods import Allocation, Container, Pod, PodPhase, WorkloadName
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.sizing import container_resources, startup_boost
from trimtab.core.sizing.container_resources import Allotment
from trimtab.simulation.api_server.disruption_budgets import DisruptionBudgets
from trimtab.simulation.checks import pod_changes
from trimtab.simulation.checks.base import Checker, Rules
from trimtab.simulation.checks.hindsight import Hindsight
from trimtab.simulation.world import objects
from trimtab.simulation.world.facts import Fact, PodEvicted
from trimtab.simulation.world.objects import WorkloadObject
from trimtab.simulation.world.tables import TableChange
from trimtab.simulation.world.world import World

_DOUBTS: Final = frozenset({"UsageStale", "RecommendationSuspicious", "UpdatesWithoutEffect"})
_LATELY: Final = timedelta(minutes=10)
_SOON: Final = timedelta(minutes=10)
"""The default of `--evict-after-oom-threshold`: a kill after a longer run is no crash loop."""
_MUCH: Final = 1.1
_THRESHOLD: Final = 0.1
"""The default of `--pod-update-threshold`."""
_EVICTING: Final = (UpdateMode.RECREATE, UpdateMode.AUTO)
_GROWING: Final = (UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.UPSCALE_ONLY)


class PromptGrowth(Checker):
    """A pod that is far too small grows in place within a few ticks if nothing restarts (D17).

    Budgets, too few replicas and earlier changes do not delay it. The rule holds only while
    everything works, the node has room, and the namespace has no quota or limit range. A pod that
    has all that the largest node keeps for it beside DaemonSets grows no more (D25).
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._small_since = dict[str, datetime]()
        self._reported: set[str] = set()

    def check(self) -> Iterator[str]:
        """Report pods that wait too long for growth."""
        now, since = self.world.now(), self.past.calm.since
        if since is None or now - since < self.rules.staleness:
            self._small_since.clear()
            return
        by_target = self._single_autoscalers()
        small = {pod.uid: pod for pod in self.world.pods if self._should_grow(pod, by_target)}
        known = self._small_since
        self._small_since = {uid: known.get(uid, now) for uid in small}
        for uid, begun in self._small_since.items():
            if now - begun > self.rules.grown_within and uid not in self._reported:
                self._reported.add(uid)
                pod = small[uid]
                yield f"{pod.namespace}/{pod.name} waits for growth since {begun:%H:%M}"

    def _single_autoscalers(self) -> dict[WorkloadName, Autoscaler]:
        """Return the only autoscaler of each workload, where it lets the pods grow in place."""
        found: dict[WorkloadName, list[Autoscaler]] = {}
        for each in self.world.autoscalers:
            if each.target is not None:
                target = WorkloadName(each.namespace, each.target.kind, each.target.name)
                found.setdefault(target, []).append(each)
        return {
            target: ones[0]
            for target, ones in found.items()
            if len(ones) == 1 and _is_free(ones[0])
        }

    def _should_grow(self, pod: Pod, by_target: Mapping[WorkloadName, Autoscaler]) -> bool:
        workload = self.past.topmost(pod)
        governor = None if workload is None else by_target.get(workload)
        if governor is None or pod.phase is not PodPhase.RUNNING or pod.is_deleting:
            return False
        # What a horizontal autoscaler scales on stays as it is.
        governor = replace(governor, held=_claimed(self.world, workload))
        if pod.resize is not None or startup_boost.boosted_containers(pod):
            return False
        if any(each.restarts_on_resize or each.status is None for each in pod.containers):
            return False
        is_small = self._is_below(pod, governor) and not self._is_bound(pod)
        return is_small and self._has_room(pod, governor)

    def _is_below(self, pod: Pod, governor: Autoscaler) -> bool:
        """Return True if a container is below its lower bound, with no HPA to hold it there."""
        entries = {entry.container_name: entry for entry in governor.recommendation or ()}
        wanted = container_resources.recommended_for_pod(pod, governor, ())
        may_grow = [kind for kind in BOTH if not self._fills_node(pod, kind)]
        return any(
            limits.amount_of(each.current.requests, kind)
            < limits.amount_of(entry.lower_bound, kind)
            and limits.amount_of(each.current.requests, kind)
            < limits.amount_of(wanted[each.name].requests, kind)
            for each in pod.containers
            if each.name in wanted and (entry := entries.get(each.name)) is not None
            for kind in may_grow
            if kind in entry.target
        )

    def _fills_node(self, pod: Pod, kind: Resource) -> bool:
        """Return True if the pod has all that the largest node keeps for it beside DaemonSets.

        What an autoscaler recommends for the pods of a DaemonSet may be kept for them (D25).
        """
        whole = max((node.capacity.get(kind, 0) for node in self.world.nodes), default=0)
        daemons = self.world.workloads_of("DaemonSet")
        room = whole - sum(self._largest_size(each, kind) for each in daemons)
        # Each container's share of the room is truncated.
        has = objects.resource_total(pod, kind) + len(pod.containers)
        # DaemonSets that would take everything cannot all run.
        return has >= (room if room > 0 else whole)

    def _largest_size(self, daemon_set: WorkloadObject, kind: Resource) -> int:
        """Return what a pod of the DaemonSet requests by its template, or by its autoscalers."""
        entries = [
            entry
            for autoscaler in self.world.autoscalers
            if autoscaler.target is not None
            and (autoscaler.namespace, autoscaler.target.kind, autoscaler.target.name)
            == daemon_set.identity
            for entry in autoscaler.recommendation or ()
        ]
        return sum(
            max(
                limits.amount_of(each.allocation.requests, kind),
                *(
                    limits.amount_of(entry.target, kind)
                    for entry in entries
                    if entry.container_name == each.name
                ),
                0,
            )
            for each in daemon_set.template.containers
        )

    def _is_bound(self, pod: Pod) -> bool:
        world = self.world
        return any(each.namespace == pod.namespace for each in world.quotas) or any(
            each.namespace == pod.namespace for each in world.limit_ranges
        )

    def _has_room(self, pod: Pod, governor: Autoscaler) -> bool:
        """Return True if the node has room for what the pod would have, in the same QoS class."""
        node = self.world.nodes.find("", pod.node_name)
        if node is None or not node.is_ready:
            return False
        wanted = container_resources.recommended_for_pod(pod, governor, ())
        after = [_merged(each, wanted.get(each.name, Allotment())) for each in pod.containers]
        if limits.qos_class(after) is not limits.qos_class(each.spec for each in pod.containers):
            return False
        others = self.world.neighbours_of(pod)
        return all(
            sum(objects.reserved_total(each, kind) for each in others)
            + sum(limits.amount_of(each.requests, kind) for each in after)
            <= node.capacity.get(kind, 0)
            for kind in BOTH
        )


class PromptRescues(Checker):
    """If all pods of an owner are OOM-killed, each killed container soon gets more memory (D17).

    Budgets of the updater and earlier changes do not delay it. A PodDisruptionBudget delays an
    eviction, but not growth in place that restarts nothing. A single kill after a long run is no
    crash loop. Without a fresh status lease the updater changes nothing; admission also lets the
    lease expire while something undoes its patches.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._budgets = DisruptionBudgets(world)
        self._dying_since = dict[str, datetime]()
        self._reported: set[str] = set()
        self._lease_since: datetime | None = None
        self._renewed_at: datetime | None = None
        world.leases.subscribe(self._note_lease)

    def check(self) -> Iterator[str]:
        """Report pods that are still OOM-killed although more memory is recommended."""
        now = self.world.now()
        works = all(map(self._works, ("admission", "recommender", "updater")))
        if not works or not self._has_lease(now):
            self._dying_since.clear()
            return
        dying = {
            pod.uid: pod
            for autoscaler in self.world.autoscalers
            if _is_helpful(autoscaler)
            for pod in self._crashing(autoscaler)
            if self._needs_memory(pod, autoscaler)
        }
        known = self._dying_since
        self._dying_since = {uid: known.get(uid, now) for uid in dying}
        for uid, begun in self._dying_since.items():
            if now - begun > self.rules.rescued_within and uid not in self._reported:
                self._reported.add(uid)
                pod = dying[uid]
                yield f"{pod.namespace}/{pod.name} dies for lack of memory since {begun:%H:%M}"

    def _works(self, component: str) -> bool:
        since = self.past.calm.works_since(component)
        long_enough = self.rules.carried_out_within
        return since is not None and self.world.now() - since > long_enough

    def _has_lease(self, now: datetime) -> bool:
        """Return True if the status lease is fresh, and the updater has had time to see it."""
        if self.rules.status_lease is None:
            return True
        since, renewed_at = self._lease_since, self._renewed_at
        if since is None or renewed_at is None or now - renewed_at > self.rules.lease_timeout:
            return False
        return now - since > self.rules.carried_out_within

    def _note_lease(self, change: TableChange[Lease]) -> None:
        if change.after is None or change.name != self.rules.status_lease:
            return
        now, before = self.world.now(), self._renewed_at
        if before is None or now - before > self.rules.lease_timeout:
            self._lease_since = now
        self._renewed_at = now

    def _crashing(self, autoscaler: Autoscaler) -> list[Pod]:
        """Return all pods of the autoscaler's workload if all of them were lately OOM-killed."""
        if autoscaler.target is None:
            return []
        target = autoscaler.target
        workload = WorkloadName(autoscaler.namespace, target.kind, target.name)
        found = [
            pod
            for pod in self.world.pods_by_namespace.under(autoscaler.namespace)
            if self.past.topmost(pod) == workload and not pod.is_deleting
        ]
        is_bound = any(each.namespace == autoscaler.namespace for each in self.world.quotas)
        is_bound |= any(each.namespace == autoscaler.namespace for each in self.world.limit_ranges)
        return [] if is_bound or not all(map(self._is_dying, found)) else found

    def _is_dying(self, pod: Pod) -> bool:
        return any(map(self._was_killed, pod.containers))

    def _was_killed(self, container: Container) -> bool:
        """Return True if the container was lately OOM-killed soon after its start."""
        now = self.world.now()
        return any(
            end is not None
            and end.is_oom_kill
            and end.started_at is not None
            and end.finished_at is not None
            and end.finished_at - end.started_at < _SOON
            and now - end.finished_at < _LATELY
            for end in (container.termination, container.last_termination)
        )

    def _needs_memory(self, pod: Pod, autoscaler: Autoscaler) -> bool:
        """Return True if a killed container should get more memory, and no change is under way."""
        if (
            pod.resize is not None
            or pod.phase is not PodPhase.RUNNING
            or startup_boost.boosted_containers(pod)
        ):
            return False
        held = _claimed(self.world, self.past.topmost(pod))
        wanted = container_resources.recommended_for_pod(pod, autoscaler, ())
        small = [
            each
            for each in pod.containers
            if each.name in wanted
            # Memory for another container ends no kills.
            and self._was_killed(each)
            # No component changes what a horizontal autoscaler scales on.
            and held.isdisjoint({Held(Resource.MEMORY), Held(Resource.MEMORY, each.name)})
            and limits.amount_of(wanted[each.name].requests, Resource.MEMORY)
            > _MUCH * limits.amount_of(each.current.requests, Resource.MEMORY)
        ]
        restarts = all(Resource.MEMORY in each.restarts_on_resize for each in small)
        return bool(small) and (not restarts or self._may_restart(pod, autoscaler))

    def _may_restart(self, pod: Pod, autoscaler: Autoscaler) -> bool:
        """Return True if the pod may be restarted: a resize that does so is an eviction (D17).

        It needs as many pods as an eviction does, and PodDisruptionBudgets that let the pod go.
        """
        own = autoscaler.min_replicas
        required = self.rules.disruption.min_replicas if own is None else own
        siblings = [] if pod.owner is None else self.world.pods_by_owner.under(pod.owner.uid)
        if sum(not each.is_deleting for each in siblings) < required:
            return False
        try:
            self._budgets.check(f"evict {pod.namespace}/{pod.name}", pod)
        except ApiError:
            return False
        return True


class UpscaleEvictions(Checker):
    """Under UpscaleOnly a pod is evicted only for growth that matters by itself (D18).

    That is growth from below the lower bound, growth above the update threshold, or growth of a pod
    that was OOM-killed. The checker computes this itself, independently of the updater.
    """

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report an eviction that no growth justifies."""
        if not isinstance(fact, PodEvicted):
            return
        pod = fact.pod
        governors = self.past.governors(pod, matching.acts_on_running_pods)
        is_upscaled = any(each.mode is UpdateMode.UPSCALE_ONLY for each in governors)
        ranges = self.past.limit_ranges(pod.namespace)
        if is_upscaled and not any(_justifies(pod, each, ranges) for each in governors):
            yield f"{fact.actor} evicted {pod.namespace}/{pod.name} for no growth that matters"


def _justifies(pod: Pod, governor: Autoscaler, ranges: list[LimitRangeItem]) -> bool:
    """Return True if the autoscaler may evict the pod, by any mode or by growth that matters."""
    if governor.mode is not UpdateMode.UPSCALE_ONLY:
        return True
    wanted = container_resources.recommended_for_pod(pod, governor, ranges)
    bounds = {each.container_name: each.lower_bound for each in governor.recommendation or ()}
    has_died = any(map(pod_changes.ran_out_of_memory, pod.containers))
    return any(
        amount > has
        and (
            has_died
            or has < limits.amount_of(bounds.get(each.name), kind)
            or amount - has >= _THRESHOLD * has
        )
        for each in pod.containers
        if each.name in wanted
        for kind, amount in wanted[each.name].requests.items()
        for has in (limits.amount_of(each.current.requests, kind),)
    )


def _is_helpful(autoscaler: Autoscaler) -> bool:
    """Return True if the autoscaler lets its pods be evicted or grown for more memory."""
    true = (each.type for each in autoscaler.conditions if each.status == "True")
    # Without a minimum of its own an autoscaler does not evict a single replica.
    is_evicting = autoscaler.mode in _EVICTING and (autoscaler.min_replicas or 2) <= 1
    return (
        (autoscaler.mode in _GROWING or is_evicting)
        and autoscaler.selector is None
        and not autoscaler.requirements
        and not autoscalers.is_paused(autoscaler)
        and not _DOUBTS.intersection(true)
    )


def _claimed(world: World, workload: WorkloadName | None) -> frozenset[Held]:
    """Return what horizontal autoscalers of the workload scale on."""
    found = [each.known for each in world.scalers if each.target == workload]
    return frozenset[Held]().union(*(each.claims for each in found))


def _is_free(autoscaler: Autoscaler) -> bool:
    """Return True if the autoscaler lets its pods grow in place."""
    true = (each.type for each in autoscaler.conditions if each.status == "True")
    return (
        autoscaler.mode in _GROWING
        and autoscaler.selector is None
        and not autoscaler.requirements
        and not autoscalers.is_paused(autoscaler)
        and not _DOUBTS.intersection(true)
    )


def _merged(container: Container, wanted: Allotment) -> Allocation:
    own = container.spec
    return Allocation(
        {**(own.requests or {}), **wanted.requests}, {**(own.limits or {}), **wanted.limits}
    )
