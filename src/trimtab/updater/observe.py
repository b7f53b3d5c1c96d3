"""Observation: stores and memory become the snapshot for a plan, of everything or of a part.

A part is all pods of some workloads: budgets and roles never reach beyond a workload.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter

from msgspec import structs

from trimtab.cluster.ports import Cluster
from trimtab.core.guards import degradation
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName
from trimtab.core.model.hpa import HpaConflict, Marking, Scaling
from trimtab.core.model.limit_ranges import LimitRangeItem
from trimtab.core.model.matching import ObservedAutoscaler
from trimtab.core.model.pods import Pod, PodPhase, WorkloadName
from trimtab.core.model.workloads import Workload
from trimtab.core.sizing import daemon_sets, pod_totals, startup_boost
from trimtab.core.sizing.node_capacity import NodeRooms
from trimtab.core.sizing.node_use import NOTHING_KNOWN, NodeUse
from trimtab.core.updates.snapshot import ObservedPod, Snapshot
from trimtab.updater.missing_pods import MissingPods
from trimtab.updater.owner_facts import facts_of_owners
from trimtab.updater.pod_owners import (
    OwnerKey,
    Ownership,
    owner_key,
    resolve_owners,
    resolve_targets,
)
from trimtab.updater.settings import UpdaterSettings
from trimtab.updater.state import UpdaterMemory, WorkloadReview


@dataclass(frozen=True, slots=True)
class Observation:
    """The snapshot, with indexes of its contents."""

    snapshot: Snapshot
    workloads: Mapping[str, WorkloadName | None]
    """The topmost workload of each pod, by uid."""
    autoscalers: Mapping[AutoscalerName, Autoscaler]
    owners: Collection[OwnerKey]
    """The direct owners whose pods are here."""

    def ready(self, workloads: Collection[WorkloadName | None]) -> Counter[WorkloadName | None]:
        """Return the number of ready pods of each workload."""
        if not workloads:
            return Counter()
        pods = [each for each in self.snapshot.pods if each.workload in workloads]
        return Counter(each.workload for each in pods if degradation.is_ready(each.pod))

    def members(self, workloads: Collection[WorkloadName]) -> Mapping[WorkloadName, frozenset[str]]:
        """Return the uids of all pods of the workloads."""
        found: defaultdict[WorkloadName, set[str]] = defaultdict(set)
        for uid, workload in self.workloads.items():
            if workload in workloads and workload is not None:
                found[workload].add(uid)
        return {workload: frozenset(uids) for workload, uids in found.items()}


@dataclass(slots=True, eq=False)
class _Seen:
    """A pod with the facts that follow from its record alone, and its last observation."""

    pod: Pod
    owner: OwnerKey | None
    is_boosted: bool
    observed: ObservedPod | None = None
    ownership: Ownership | None = None
    """Ownership at that observation; None also if the namespace had an unreadable autoscaler."""


@dataclass(frozen=True, slots=True)
class _Sight:
    """Some pods, and the facts that follow from their records alone."""

    seen: Sequence[_Seen]
    pods: Sequence[Pod]
    namespaces: frozenset[str]
    by_owner: Mapping[OwnerKey, Pod]
    """One pod of each direct owner."""


class Observer:
    """Reads the cluster, and remembers which owners belong together."""

    def __init__(self, cluster: Cluster, settings: UpdaterSettings, memory: UpdaterMemory) -> None:
        self._cluster = cluster
        self._settings = settings
        self._memory = memory
        self._can_resize = settings.resizes_in_place
        self._rooms: NodeRooms | None = None
        self._node_use = NOTHING_KNOWN
        self._reserved = cluster.pods.totals(_node_of, pod_totals.reserved_for)
        self._pods_of = cluster.pods.index(owner_key)
        self._autoscalers_of = cluster.autoscalers.index(_target_name)
        self._marking = _marking(cluster, settings)
        crowds = settings.max_boosted_per_node > 0
        self._boosted_on = cluster.pods.index(_node_of_boosted) if crowds else None
        self._owners: dict[OwnerKey, Ownership] = {}
        self._owners_under: defaultdict[WorkloadName | None, set[OwnerKey]] = defaultdict(set)
        """Direct owners, by their topmost workload."""
        self._seen: dict[str, _Seen] = {}
        """All pods of the last observations by uid, so that only changed ones are looked at."""
        self._given: list[Pod] = []
        """All pods of the last full observation; the next attribute has what was seen of them."""
        self._everywhere: list[_Seen] = []
        self._sight = _sight_of(())
        """Those of them that may concern an autoscaler."""
        self._missing = MissingPods()
        self._workloads: dict[str, WorkloadName | None] = {}
        self._observed: list[ObservedPod] = []
        """Last observations of pods; `_workloads` has the workload of each by uid."""

    async def observe(self, now: datetime, *, admission_alive: bool) -> Observation:
        """Observe everything in the stores that concerns any autoscaler."""
        autoscalers = self.autoscalers()
        everywhere = self._look_at_all()
        namespaces = self._namespaces(everywhere, autoscalers)
        self._memory.forget_lacks(namespaces, now)
        pods = [seen for seen in everywhere if seen.pod.namespace in namespaces]
        # If the records are the same, only addresses are compared.
        if pods != self._sight.seen:
            self._sight = _sight_of(pods)
        sight = self._sight
        owners = await self._resolve_owners(sight)
        self._forget_owners(owners)
        self._know_owners(owners)
        self._memory.forget_shown_evictions(sight.pods, now)
        observed = await self._resolve_targets(autoscalers)
        self._restore(autoscalers, now)
        watched = await self._watched(self._memory.watched_workloads())
        self._can_resize = self._settings.resizes_in_place and await self._cluster.can_resize()
        self._look_at_nodes()
        return self._compose(
            sight, observed, watched, now=now, admission_alive=admission_alive, is_all=True
        )

    async def observe_part(
        self, changed: Collection[OwnerKey], now: datetime, *, admission_alive: bool
    ) -> Observation:
        """Observe all pods of the workloads to which the owners belong."""
        owners = self._siblings(changed)
        sight = self._sight_under(owners)
        self._know_owners(await self._resolve_owners(sight))
        # The workload of a new owner, and so its other owners, are known only now.
        if (together := self._siblings(owners)) != owners:
            owners, sight = together, self._sight_under(together)
        found = {self._owners[key].topmost for key in owners if key in self._owners}
        concerned = {workload for workload in found if workload is not None}
        autoscalers = [each for name in sorted(concerned) for each in self._autoscalers_for(name)]
        observed = await self._resolve_targets(autoscalers)
        watched = await self._watched(concerned & self._memory.watched_workloads())
        return self._compose(
            sight, observed, watched, now=now, admission_alive=admission_alive, is_all=False
        )

    def _restore(self, autoscalers: Iterable[Autoscaler], now: datetime) -> None:
        """Learn once which workloads an earlier updater stopped changing."""
        memory = self._memory
        if memory.is_restored:
            return
        memory.is_restored = True
        for each in autoscalers:
            workload, found = _target_name(each), degradation.restored(each, now)
            if workload is not None and found is not None:
                memory.changed.setdefault(workload, found)

    def is_paused(self, namespace: str) -> bool:
        """True if the namespace is paused, so that no act is allowed in it."""
        found = self._cluster.namespaces.find("", namespace)
        return found is not None and found.is_paused

    def is_watched(self, pod: Pod) -> bool:
        """True if an expectation for the pod's workload is open."""
        return self.workload_of(pod) in self._memory.expectations

    def workload_of(self, pod: Pod) -> WorkloadName | None:
        """Return the pod's workload, as of the last observation."""
        return self._topmost(owner_key(pod))

    def _topmost(self, owner: OwnerKey | None) -> WorkloadName | None:
        known = None if owner is None else self._owners.get(owner)
        return None if known is None else known.topmost

    def autoscalers(self) -> list[Autoscaler]:
        """Return all autoscalers that are not to be ignored."""
        ignored = self._settings.ignored_namespaces
        found = [each for each in self._cluster.autoscalers if each.namespace not in ignored]
        return self._mark(found)

    def _autoscalers_for(self, workload: WorkloadName) -> Sequence[Autoscaler]:
        is_ignored = workload.namespace in self._settings.ignored_namespaces
        return () if is_ignored else self._mark(self._autoscalers_of.under(workload))

    def _mark(self, autoscalers: Sequence[Autoscaler]) -> list[Autoscaler]:
        """Return the autoscalers, each marked with what of it is left to horizontal ones."""
        marking = self._marking
        return [*autoscalers] if marking is None else [marking.mark(each) for each in autoscalers]

    def _look_at_all(self) -> list[_Seen]:
        """Look at all pods; forget those that are gone."""
        known, given = self._seen, list(self._cluster.pods)
        if given != self._given:
            self._given = given
            self._everywhere = [
                seen
                if (seen := known.get(pod.uid)) is not None and seen.pod is pod
                else self._look_at(pod)
                for pod in given
            ]
            self._seen = {seen.pod.uid: seen for seen in self._everywhere}
        return self._everywhere

    def _look_at(self, pod: Pod) -> _Seen:
        known = self._seen.get(pod.uid)
        if known is not None and known.pod is pod:
            return known
        seen = self._seen[pod.uid] = _Seen(
            pod, owner_key(pod), bool(startup_boost.boosted_containers(pod))
        )
        return seen

    def _namespaces(self, pods: Iterable[_Seen], autoscalers: Iterable[Autoscaler]) -> set[str]:
        """Return namespaces that may need acts: a boost may outlive its autoscaler (S40)."""
        governed = {autoscaler.namespace for autoscaler in autoscalers}
        boosted = {seen.pod.namespace for seen in pods if seen.is_boosted} - governed
        return governed | (boosted - self._settings.ignored_namespaces)

    def _siblings(self, changed: Collection[OwnerKey]) -> set[OwnerKey]:
        known = {self._owners[key].topmost for key in changed if key in self._owners}
        return {*changed, *(key for name in known - {None} for key in self._owners_under[name])}

    def _sight_under(self, owners: Collection[OwnerKey]) -> _Sight:
        ignored = self._settings.ignored_namespaces
        return _sight_of(
            [
                self._look_at(pod)
                for key in sorted(owners)
                for pod in self._pods_of.under(key)
                if pod.namespace not in ignored
            ]
        )

    def _know_owners(self, owners: Mapping[OwnerKey, Ownership]) -> None:
        for key, ownership in owners.items():
            before = self._owners.get(key)
            if before is not None and before.topmost != ownership.topmost:
                self._owners_under[before.topmost].discard(key)
            # The same record while nothing changed, so that its pods need no new look.
            self._owners[key] = before if before == ownership else ownership
            self._owners_under[ownership.topmost].add(key)

    def _forget_owners(self, standing: Container[OwnerKey]) -> None:
        for key in [key for key in self._owners if key not in standing]:
            self._owners_under[self._owners.pop(key).topmost].discard(key)
            self._missing.forget(key)

    async def _resolve_owners(self, sight: _Sight) -> dict[OwnerKey, Ownership]:
        return await resolve_owners(
            self._cluster.owners, sight.by_owner, concurrency=self._settings.concurrency
        )

    async def _resolve_targets(self, autoscalers: Iterable[Autoscaler]) -> list[ObservedAutoscaler]:
        return await resolve_targets(
            self._cluster.owners, autoscalers, concurrency=self._settings.concurrency
        )

    async def _watched(
        self, workloads: Iterable[WorkloadName]
    ) -> dict[WorkloadName, Workload | None]:
        """Fetch workloads of which something is expected; None for one that is gone."""
        owners = self._cluster.owners
        # In a fixed order: some take a request each, and the order of a set differs in each run.
        return {
            name: await owners.workload(name, self._api_version(name)) for name in sorted(workloads)
        }

    def _api_version(self, workload: WorkloadName) -> str:
        """Return a watched workload's API version, as its autoscaler has it; empty without one."""
        targets = (each.target for each in self._autoscalers_of.under(workload))
        return next((target.api_version for target in targets if target is not None), "")

    def _compose(
        self,
        sight: _Sight,
        autoscalers: Collection[ObservedAutoscaler],
        watched: Mapping[WorkloadName, Workload | None],
        *,
        now: datetime,
        admission_alive: bool,
        is_all: bool,
    ) -> Observation:
        memory, pods, namespaces = self._memory, sight.pods, sight.namespaces
        observed = self._observe_pods(sight.seen)
        by_name = {each.autoscaler.identity: each.autoscaler for each in autoscalers}
        for workload, review in self._reviews(watched, observed, by_name):
            memory.review(workload, review, now)
        memory.weigh_lacks()
        quotas = {name: found for name in namespaces if (found := self._cluster.quotas(name))}
        owners = facts_of_owners(
            {key: known for key in sight.by_owner if (known := self._owners.get(key)) is not None}
        )
        snapshot = Snapshot(
            pods=observed,
            autoscalers=list(autoscalers),
            limit_ranges=self._limit_ranges(namespaces),
            rooms=self._rooms,
            node_use=replace(
                self._node_use,
                reserved=self._reserved.by_key(),
                pod_counts=self._reserved.counts(),
            ),
            quotas=quotas,
            paused_namespaces=frozenset(filter(self.is_paused, namespaces)),
            configured_replicas=owners.configured,
            first_ordinals=owners.first_ordinals,
            template_sizes=owners.template_sizes,
            min_ready=owners.min_ready,
            staged_revisions=owners.staged_revisions,
            staged_from=owners.staged_from,
            rolling_out=owners.rolling_out,
            admission_alive=admission_alive,
            resizes_in_place=self._can_resize,
            pod_memory=memory.of_all() if is_all else memory.of_pods(pod.uid for pod in pods),
            convergence={workload: miss.retry for workload, miss in memory.misses.items()},
            evicted_in_vain=frozenset(
                workload for workload, miss in memory.misses.items() if miss.expectation.is_eviction
            ),
            left_small={
                workload: miss.left_small
                for workload, miss in memory.misses.items()
                if miss.left_small
            },
            unproven=memory.unproven(),
            brake=memory.brake(),
            degraded=memory.degraded(self._settings.plan.degraded_after, now),
            settling=memory.settling(pods, now),
            restarted=dict(memory.restarted),
            gaps=memory.restart_gaps(self._cluster.pods.find, now),
            short_handed=self._missing.review(
                ((seen.owner, seen.pod) for seen in sight.seen), owners, quotas, now
            ),
            crowded=self._crowded(sight.seen),
            last_turns=memory.last_turns() if is_all else {},
            usual_shares=dict(memory.usual_shares),
            surging=None if is_all else memory.surging,
        )
        if observed != self._observed:
            self._observed = observed
            self._workloads = {each.pod.uid: each.workload for each in observed}
        return Observation(snapshot, self._workloads, by_name, sight.by_owner.keys())

    def _observe_pods(self, pods: Iterable[_Seen]) -> list[ObservedPod]:
        unreadable = {each.namespace for each in self._cluster.autoscalers.unreadable}
        if unreadable or self._memory.evicted:
            return [self._observe_pod(seen, unreadable) for seen in pods]
        owners = self._owners
        return [
            before
            if (before := seen.observed) is not None
            and seen.ownership is not None
            and seen.owner is not None
            and owners.get(seen.owner) is seen.ownership
            else self._observe_pod(seen, unreadable)
            for seen in pods
        ]

    def _observe_pod(self, seen: _Seen, unreadable: Container[str]) -> ObservedPod:
        """Return the pod as plans see it: the same record as before where nothing changed."""
        pod, before = seen.pod, seen.observed
        ownership = None if seen.owner is None else self._owners.get(seen.owner)
        workload = None if ownership is None else ownership.topmost
        is_hidden = pod.namespace in unreadable
        in_doubt = (pod.owner is not None and workload is None) or is_hidden
        if pod.uid in self._memory.evicted:
            # A pod that we have evicted is as good as gone, whatever the view still shows.
            return ObservedPod(
                structs.replace(pod, is_deleting=True), workload, is_in_doubt=in_doubt
            )
        if before is None or (before.workload, before.is_in_doubt) != (workload, in_doubt):
            before = seen.observed = ObservedPod(pod, workload, is_in_doubt=in_doubt)
        seen.ownership = None if is_hidden else ownership
        return before

    def _reviews(
        self,
        watched: Mapping[WorkloadName, Workload | None],
        observed: Iterable[ObservedPod],
        autoscalers: Mapping[AutoscalerName, Autoscaler],
    ) -> Iterator[tuple[WorkloadName, WorkloadReview]]:
        if not watched:
            return
        members: dict[WorkloadName, list[Pod]] = {name: [] for name in watched}
        for each in observed:
            if each.workload is not None and each.workload in watched:
                members[each.workload].append(each.pod)
        for name, workload in watched.items():
            concerned = self._memory.concerned_autoscaler(name)
            autoscaler = None if concerned is None else autoscalers.get(concerned)
            yield (
                name,
                WorkloadReview(
                    members[name],
                    self._cluster.limit_ranges(name.namespace),
                    wanted_pods=_wanted_pods(workload, members[name]),
                    generation=None if autoscaler is None else autoscaler.generation,
                    recommendation=(autoscaler and autoscaler.recommendation) or (),
                ),
            )

    def _limit_ranges(self, namespaces: Iterable[str]) -> dict[str, Sequence[LimitRangeItem]]:
        found = {name: self._cluster.limit_ranges(name) for name in namespaces}
        return {name: items for name, items in found.items() if items}

    def _look_at_nodes(self) -> None:
        cluster, rooms = self._cluster, self._rooms or NodeRooms(())
        nodes = tuple(cluster.nodes)
        self._node_use = NodeUse({node.name: node.allocatable for node in nodes}, nodes=nodes)
        if self._settings.caps_to_nodes:
            daemons = daemon_sets.list_daemons(
                cluster.daemon_sets, self._autoscalers_for, cluster.limit_ranges
            )
            # The same while nothing changed, so that no pod needs a new look.
            rooms = rooms.renew(nodes, daemons)
        self._rooms = rooms

    def _crowded(self, pods: Iterable[_Seen]) -> frozenset[str]:
        """Return the boosted pods beyond the limit, on the nodes of these pods."""
        if self._boosted_on is None:
            return frozenset()
        most = self._settings.max_boosted_per_node
        nodes = {seen.pod.node_name for seen in pods if seen.is_boosted} - {""}
        crowds = (
            startup_boost.crowded_out(self._boosted_on.under(name), most) for name in sorted(nodes)
        )
        return frozenset().union(*crowds)


def _sight_of(seen: Sequence[_Seen]) -> _Sight:
    pods = [each.pod for each in seen]
    return _Sight(
        seen,
        pods,
        frozenset([pod.namespace for pod in pods]),
        {each.owner: each.pod for each in seen if each.owner is not None},
    )


def _marking(cluster: Cluster, settings: UpdaterSettings) -> Marking | None:
    if settings.hpa_conflict is not HpaConflict.HOLD:
        return None
    by_target = cluster.horizontals.index(attrgetter("target"))
    by_namespace = cluster.horizontals.index(attrgetter("namespace"))
    return Marking(Scaling(by_target.under, by_namespace.under, cluster.owners.known).of)


def _wanted_pods(workload: Workload | None, members: Collection[Pod]) -> int | None:
    if workload is not None:
        return workload.replicas or 0
    # A workload that still has pods is not gone; it could only not be fetched.
    return 0 if members else None


def _node_of_boosted(pod: Pod) -> str | None:
    """Return the node of a pod that is boosted on it."""
    is_over = pod.is_deleting or pod.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)
    return None if is_over or not startup_boost.boosted_containers(pod) else pod.node_name


def _node_of(pod: Pod) -> str | None:
    """Return the node on which a pod takes room; None if it takes none."""
    is_over = pod.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)
    return None if is_over else pod.node_name or None


def _target_name(autoscaler: Autoscaler) -> WorkloadName | None:
    target = autoscaler.target
    if target is None:
        return None
    return WorkloadName(autoscaler.namespace, target.kind, target.name)
