"""What plans keep of pods from one to the next, so that only what changed is looked at again.

What is found about a pod depends on the pod, on what it shares with its siblings (`Basis`), on its
memory, and on the time only through spans that end at known moments. While all records are the same
and no such moment has passed, a look would find the same. So this is a matter of speed alone: a
plan that knows no pod yet comes out the same.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, TypeAlias

from trimtab.core import disruption, urgency
from trimtab.core.assessment import Candidate, Context, PlanSettings, assess
from trimtab.core.autoscalers import Autoscaler
from trimtab.core.boost import boosted_containers
from trimtab.core.limit_ranges import LimitRangeItem
from trimtab.core.matching import AutoscalerIndex, ObservedAutoscaler, governor_of
from trimtab.core.outcomes import Hold
from trimtab.core.pods import Pod, PodPhase, WorkloadName
from trimtab.core.snapshot import NO_MEMORY, MemoryKey, ObservedPod, PodMemory, Retry, Snapshot

_ENDED: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED)
_NO_TIME: Final = timedelta()
_END_OF_TIME: Final = datetime.max.replace(tzinfo=UTC)

Place: TypeAlias = tuple[str, WorkloadName | None, WorkloadName | None]
"""A namespace, a topmost workload and a direct owner in it."""


@dataclass(frozen=True, slots=True)
class Basis:
    """What is the same for all pods of one place in one plan."""

    rivals: Sequence[ObservedAutoscaler]
    """All autoscalers of the workload."""
    group: disruption.ReplicaGroup | None
    retry: Retry | None
    limit_ranges: Sequence[LimitRangeItem]
    admission_alive: bool


class Finding(NamedTuple):
    """What was found about a pod, and for how long it holds."""

    assessment: Candidate | Hold | None
    """None if no autoscaler governs the pod."""
    basis: Basis
    memory_key: MemoryKey
    memory: PodMemory
    since: datetime
    until: datetime

    def holds(self, basis: Basis, memory: Mapping[MemoryKey, PodMemory], now: datetime) -> bool:
        """Whether another look would find the same."""
        return (
            self.basis is basis
            and self.memory is memory.get(self.memory_key, NO_MEMORY)
            # A clock may be set back.
            and self.since <= now < self.until
        )


@dataclass(slots=True)
class KnownPod:
    """A pod, what follows from its record alone, and what was last found about it."""

    observed: ObservedPod
    identity: tuple[str, str, str]
    owner: WorkloadName | None
    """The direct one."""
    place: Place
    is_live: bool
    is_boosted: bool
    finding: Finding | None = None


class KnownPods:
    """The pods of the last plans; an operator's settings never change while it is kept."""

    def __init__(self) -> None:
        # By the identity of the observation: each is held here, so that no other can have it.
        self._pods: dict[int, KnownPod] = {}
        self._bases: dict[Place, Basis] = {}

    def meet(self, snapshot: Snapshot) -> list[KnownPod]:
        """The pods of a snapshot; where it holds all pods there are, all others are forgotten."""
        before = self._pods
        met = {id(each): before.get(id(each)) or _introduce(each) for each in snapshot.pods}
        self._pods = met if snapshot.is_all else before | met
        return [met[id(each)] for each in snapshot.pods]

    def find_bases(
        self, pods: Iterable[KnownPod], index: AutoscalerIndex, context: Context
    ) -> Mapping[Place, Basis]:
        """The bases of all places of the pods: those of the last plan where nothing changed."""
        before = self._bases
        bases = {place: _basis(place, index, context) for place in {pod.place for pod in pods}}
        for place, basis in bases.items():
            if (known := before.get(place)) == basis and known is not None:
                bases[place] = known
        self._bases = bases if context.snapshot.is_all else before | bases
        return bases


def find_anew(known: KnownPod, basis: Basis, index: AutoscalerIndex, context: Context) -> Finding:
    """What a look at the pod finds now."""
    pod, workload, now = known.observed.pod, known.observed.workload, context.now
    autoscaler = governor_of(index, workload, pod.labels)
    key = pod.uid, None if autoscaler is None else autoscaler.identity
    memory = context.snapshot.pod_memory.get(key, NO_MEMORY)
    if autoscaler is None:
        return Finding(None, basis, key, memory, now, _END_OF_TIME)
    assessment = assess(pod, autoscaler, workload, context)
    remaining = [
        left
        for begin, span in _spans(pod, autoscaler, memory, context.settings)
        if (left := span - (now - begin)) > _NO_TIME
    ]
    if basis.retry is not None and not basis.retry.is_due(now) and basis.retry.not_before:
        remaining.append(basis.retry.not_before - now)
    until = _END_OF_TIME
    if remaining and (first := min(remaining)) < _END_OF_TIME - now:
        until = now + first
    return Finding(assessment, basis, key, memory, now, until)


def _introduce(observed: ObservedPod) -> KnownPod:
    pod = observed.pod
    owner = disruption.owner_of(pod)
    return KnownPod(
        observed,
        (pod.namespace, pod.name, pod.uid),
        owner,
        (pod.namespace, observed.workload, owner),
        is_live=not pod.is_deleting and pod.phase not in _ENDED,
        is_boosted=bool(boosted_containers(pod)),
    )


def _basis(place: Place, index: AutoscalerIndex, context: Context) -> Basis:
    namespace, workload, owner = place
    snapshot = context.snapshot
    return Basis(
        () if workload is None else index.get(workload, ()),
        None if owner is None else context.groups.get(owner),
        None if workload is None else snapshot.convergence.get(workload),
        snapshot.limit_ranges.get(namespace, ()),
        snapshot.admission_alive,
    )


def _spans(
    pod: Pod, autoscaler: Autoscaler, memory: PodMemory, settings: PlanSettings
) -> Iterator[tuple[datetime, timedelta]]:
    """Beginnings and lengths of all spans of time of which an assessment asks if they are over."""
    thresholds = settings.thresholds
    for container in pod.containers:
        last = container.last_termination
        if last is not None and last.finished_at is not None:
            yield (
                last.finished_at,
                urgency.quick_oom_threshold(
                    autoscaler, thresholds.quick_oom, per_autoscaler=settings.gates.per_vpa_config
                ),
            )
    updated = memory.last_updated_at
    if pod.started_at is not None:
        yield max(pod.started_at, updated or pod.started_at), thresholds.lifetime
    if updated is not None:
        yield updated, settings.cool_down
    if memory.governed_since is not None:
        yield memory.governed_since, settings.role_dwell
