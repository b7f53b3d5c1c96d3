"""Cache of assessments between plans, so that only pods that changed are assessed again.

An assessment depends on the pod, on what it shares with its siblings (`Basis`) and on its memory.
It depends on the time only through spans that end at known moments. While all records are the same
and no such moment has passed, a new assessment would be the same. So the cache affects speed alone:
a plan with an empty cache comes out the same.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Final, NamedTuple

from trimtab.core.changes import change
from trimtab.core.changes.outcomes import Hold
from trimtab.core.guards import disruption_budgets
from trimtab.core.guards.convergence import RESIZE_STANDS_AFTER
from trimtab.core.guards.degradation import Degradation
from trimtab.core.model import matching
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName
from trimtab.core.model.limit_ranges import LimitRangeItem
from trimtab.core.model.matching import ObservedAutoscaler
from trimtab.core.model.pods import Pod, PodPhase, WorkloadName
from trimtab.core.sizing import startup_boost
from trimtab.core.sizing.node_capacity import NodeRooms
from trimtab.core.updates.candidates import Candidate
from trimtab.core.updates.checks import assessment, pods
from trimtab.core.updates.plan_context import PlanContext, TargetForPod, published_doubt
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.resize_or_evict import ANSWERED_WITHIN
from trimtab.core.updates.snapshot import (
    NO_MEMORY,
    MemoryKey,
    ObservedPod,
    PodMemory,
    Retry,
    Snapshot,
)

_ENDED: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED)
_NO_TIME: Final = timedelta()
_END_OF_TIME: Final = datetime.max.replace(tzinfo=UTC)

_WRITTEN_OFTEN: Final = frozenset({"resource_version", "conditions", "observed_generation"})
_LASTING: Final = attrgetter(
    *(each.name for each in fields(Autoscaler) if each.name not in _WRITTEN_OFTEN)
)
"""All fields of an autoscaler that plans depend on, but for its conditions."""


@dataclass(frozen=True, slots=True)
class Basis:
    """Inputs that are the same for all pods of one place in one plan."""

    rivals: Sequence[ObservedAutoscaler]
    """All autoscalers of the workload."""
    size: tuple[int, int | None] | None
    """The live and the wanted number of pods of its replica group; None without a group.

    The number of pending pods is left out: it moves with each change of a plan.
    """
    retry: Retry | None
    is_evicted_in_vain: bool
    degradation: Degradation | None
    limit_ranges: Sequence[LimitRangeItem]
    rooms: NodeRooms | None
    admission_alive: bool
    resizes_in_place: bool


@dataclass(slots=True, eq=False)
class OwnerPlace:
    """A direct owner of pods and its topmost workload, with the basis of the last plan."""

    namespace: str
    workload: WorkloadName | None
    owner: WorkloadName | None
    rivals: Sequence[ObservedAutoscaler] = ()
    """All autoscalers of the workload: the same object while plans see no difference."""
    basis: Basis | None = None


class PodFinding(NamedTuple):
    """Assessment of a pod, and the span of time in which it holds."""

    assessment: Candidate | Hold | None
    """None if no autoscaler governs the pod."""
    basis: Basis
    memory_key: MemoryKey
    memory: PodMemory
    since: datetime
    until: datetime

    def holds(self, basis: Basis, memory: Mapping[MemoryKey, PodMemory], now: datetime) -> bool:
        """Return True if a new assessment would be the same."""
        return (
            self.basis is basis
            and self.memory is memory.get(self.memory_key, NO_MEMORY)
            # A clock may be set back.
            and self.since <= now < self.until
        )


@dataclass(slots=True, eq=False)
class KnownPod:
    """A pod, all that follows from its record alone, and its last assessment."""

    observed: ObservedPod
    identity: tuple[str, str, str]
    owner: WorkloadName | None
    """The direct one."""
    place: OwnerPlace
    is_live: bool
    is_boosted: bool
    finding: PodFinding | None = None
    judgement: TargetForPod | None = None
    """The target that its autoscaler last had for it."""
    governor: Autoscaler | None = None
    governed_by: AutoscalerName | None = None
    """The name of the governor."""
    rivals: Sequence[ObservedAutoscaler] | None = None
    """The autoscalers among which the governor was found; None if it was not looked for."""


@dataclass(frozen=True, slots=True, eq=False)
class LivePods:
    """The live pods of a plan in the order of their names, and what follows from them alone."""

    pods: Sequence[KnownPod]
    owned: Sequence[tuple[WorkloadName | None, Pod]]
    """Each with its direct owner."""
    places: frozenset[OwnerPlace]
    boosted: frozenset[str]
    """The uids of those with a boost."""
    boosts: Sequence[int]
    """The positions of those with a boost."""


class CandidateCache:
    """The pods of the last plans; an operator's settings never change while it is kept."""

    def __init__(self) -> None:
        # By the identity of the observation: each is held here, so that no other can have it.
        self._pods: dict[int, KnownPod] = {}
        self._places: dict[tuple[object, ...], OwnerPlace] = {}
        self._autoscalers: dict[AutoscalerName, ObservedAutoscaler] = {}
        self._met: Sequence[ObservedPod] = ()
        """All pods of the last plan of all."""
        self._live = _live_pods(())

    def meet(self, snapshot: Snapshot) -> LivePods:
        """Return the live pods of a snapshot: the same object as last time if no pod changed.

        A snapshot of all pods makes the cache forget all others.
        """
        # For identical records this compares only addresses.
        if snapshot.is_all and snapshot.pods == self._met:
            return self._live
        before = self._pods
        met = {id(each): before.get(id(each)) or self._introduce(each) for each in snapshot.pods}
        live = _live_pods([known for known in met.values() if known.is_live])
        if not snapshot.is_all:
            before.update(met)
            return live
        self._pods, self._met, self._live = met, snapshot.pods, live
        return live

    def match(self, live: LivePods, snapshot: Snapshot, *, selectors_enabled: bool) -> None:
        """Find the governor of each pod, again only where its rivals have changed."""
        index = matching.index_by_workload(
            self._recognise(snapshot), selectors_enabled=selectors_enabled
        )
        for place in live.places:
            rivals = () if place.workload is None else index.get(place.workload, ())
            if place.rivals != rivals:
                place.rivals = rivals
        for known in live.pods:
            if known.rivals is not known.place.rivals:
                known.rivals = known.place.rivals
                known.governor = matching.governor_among(known.rivals, known.observed.pod.labels)
                known.governed_by = None if known.governor is None else known.governor.identity

    def _recognise(self, snapshot: Snapshot) -> Sequence[ObservedAutoscaler]:
        """Return the autoscalers of a snapshot: earlier objects where plans see no difference."""
        found = [
            known if known is not None and _says_the_same(known, each) else each
            for each in snapshot.autoscalers
            for known in (self._autoscalers.get(each.autoscaler.identity),)
        ]
        if snapshot.is_all:
            self._autoscalers.clear()
        self._autoscalers.update((each.autoscaler.identity, each) for each in found)
        return found

    def renew_bases(self, live: LivePods, context: PlanContext) -> None:
        """Update the bases of all places of the pods; unchanged ones stay the same objects."""
        for place in live.places:
            basis = _basis(place, context)
            if place.basis != basis:
                place.basis = basis
        if context.snapshot.is_all:
            self._places = {_key(place): place for place in live.places}

    def _introduce(self, observed: ObservedPod) -> KnownPod:
        pod = observed.pod
        owner = disruption_budgets.owner_of(pod)
        place = OwnerPlace(pod.namespace, observed.workload, owner)
        return KnownPod(
            observed,
            (pod.namespace, pod.name, pod.uid),
            owner,
            self._places.setdefault(_key(place), place),
            is_live=not pod.is_deleting and pod.phase not in _ENDED,
            is_boosted=bool(startup_boost.boosted_containers(pod)),
        )


def find(known: KnownPod, context: PlanContext) -> PodFinding:
    """Return the finding about the pod: the last one if it still holds, else a new one."""
    finding, basis = known.finding, known.place.basis
    assert basis is not None
    if finding is None or not finding.holds(basis, context.snapshot.pod_memory, context.now):
        finding = known.finding = _find_anew(known, basis, context)
    return finding


def _find_anew(known: KnownPod, basis: Basis, context: PlanContext) -> PodFinding:
    pod, workload, now = known.observed.pod, known.observed.workload, context.now
    autoscaler, key = known.governor, (pod.uid, known.governed_by)
    memory = context.snapshot.pod_memory.get(key, NO_MEMORY)
    if autoscaler is None:
        return PodFinding(None, basis, key, memory, now, _END_OF_TIME)
    judgement = known.judgement = _judgement(known, autoscaler, context)
    assessed = assessment.assess(pod, autoscaler, workload, context, judgement=judgement)
    until = _end_of_finding(pod, autoscaler, memory, basis, context)
    return PodFinding(assessed, basis, key, memory, now, until)


def _judgement(
    known: KnownPod, autoscaler: Autoscaler, context: PlanContext
) -> TargetForPod | None:
    before, pod = known.judgement, known.observed.pod
    if before is not None and before.stands(autoscaler, context.limit_ranges_of(pod)):
        return before
    if pods.is_idle(autoscaler, context) is not None:
        return None
    return context.judge(pod, autoscaler)


def _end_of_finding(
    pod: Pod, autoscaler: Autoscaler, memory: PodMemory, basis: Basis, context: PlanContext
) -> datetime:
    """Return the time at which a new assessment may differ although no record has changed."""
    now = context.now
    remaining = [
        left
        for begin, span in spans_of(pod, autoscaler, memory, context.settings)
        if (left := span - (now - begin)) > _NO_TIME
    ]
    if basis.retry is not None and not basis.retry.is_due(now) and basis.retry.not_before:
        remaining.append(basis.retry.not_before - now)
    if remaining and (first := min(remaining)) < _END_OF_TIME - now:
        return now + first
    return _END_OF_TIME


def _says_the_same(known: ObservedAutoscaler, now: ObservedAutoscaler) -> bool:
    """Return True if every plan would be the same with either of the two."""
    one, other = known.autoscaler, now.autoscaler
    if known.target_selector != now.target_selector:
        return False
    return one is other or (
        _LASTING(one) == _LASTING(other) and published_doubt(one) is published_doubt(other)
    )


def _live_pods(live: Iterable[KnownPod]) -> LivePods:
    pods = sorted(live, key=lambda known: known.identity)
    return LivePods(
        pods,
        [(known.owner, known.observed.pod) for known in pods],
        frozenset([known.place for known in pods]),
        frozenset([known.observed.pod.uid for known in pods if known.is_boosted]),
        [position for position, known in enumerate(pods) if known.is_boosted],
    )


def _key(place: OwnerPlace) -> tuple[object, ...]:
    return place.namespace, place.workload, place.owner


def _basis(place: OwnerPlace, context: PlanContext) -> Basis:
    workload, owner = place.workload, place.owner
    snapshot = context.snapshot
    group = None if owner is None else context.groups.get(owner)
    return Basis(
        place.rivals,
        None if group is None else (group.live, group.configured),
        None if workload is None else snapshot.convergence.get(workload),
        workload in snapshot.evicted_in_vain,
        None if workload is None else snapshot.degraded.get(workload),
        snapshot.limit_ranges.get(place.namespace, ()),
        snapshot.rooms,
        snapshot.admission_alive,
        snapshot.resizes_in_place,
    )


def spans_of(
    pod: Pod, autoscaler: Autoscaler, memory: PodMemory, settings: PlanSettings
) -> Iterator[tuple[datetime, timedelta]]:
    """Yield the start and length of each span of time whose end may change an assessment."""
    thresholds = settings.thresholds
    for container in pod.containers:
        last = container.last_termination
        if last is not None and last.finished_at is not None:
            yield (
                last.finished_at,
                change.quick_oom_threshold(
                    autoscaler, thresholds.quick_oom, per_autoscaler=settings.gates.per_vpa_config
                ),
            )
    updated = memory.last_updated_at
    if pod.started_at is not None:
        yield max(pod.started_at, updated or pod.started_at), thresholds.lifetime
    if updated is not None:
        yield updated, settings.cool_down
        yield updated, ANSWERED_WITHIN
        yield updated, RESIZE_STANDS_AFTER
    if memory.governed_since is not None:
        yield memory.governed_since, settings.role_dwell


@dataclass(slots=True)
class _Part:
    """The pods of one place, and the span of time in which all their assessments hold."""

    positions: list[int] = field(default_factory=list)
    pods: list[KnownPod] = field(default_factory=list)
    basis: Basis | None = None
    since: datetime | None = None
    until: datetime | None = None

    def holds(self, basis: Basis | None, now: datetime) -> bool:
        """Return True if new assessments would be the same, given the same memory of the pods."""
        if self.basis is not basis or self.since is None or self.until is None:
            return False
        return self.since <= now < self.until


class LastFindings:
    """Latest assessments of all pods, from plans over the whole cluster."""

    def __init__(self) -> None:
        self._live: LivePods | None = None
        self._memory: object = None
        """The map of all memories, compared by identity: another object may differ."""
        self._parts: dict[OwnerPlace, _Part] = {}
        self._found: list[Candidate | Hold | None] = []

    def renew(self, live: LivePods, context: PlanContext) -> Sequence[Candidate | Hold | None]:
        """Return the present assessment of each pod; None where no autoscaler governs it."""
        if not context.snapshot.is_all:
            return [find(known, context).assessment for known in live.pods]
        memory = context.snapshot.pod_memory
        if live is not self._live or memory is not self._memory:
            self._begin_anew(live)
        self._live, self._memory = live, memory
        for place, part in self._parts.items():
            if not part.holds(place.basis, context.now):
                self._look(part, context)
        return self._found

    def _begin_anew(self, live: LivePods) -> None:
        self._found = [None] * len(live.pods)
        self._parts = {place: _Part() for place in live.places}
        for position, known in enumerate(live.pods):
            part = self._parts[known.place]
            part.positions.append(position)
            part.pods.append(known)

    def _look(self, part: _Part, context: PlanContext) -> None:
        found = [find(known, context) for known in part.pods]
        for position, finding in zip(part.positions, found, strict=True):
            self._found[position] = finding.assessment
        part.basis = part.pods[0].place.basis
        part.since = max(finding.since for finding in found)
        part.until = min(finding.until for finding in found)
