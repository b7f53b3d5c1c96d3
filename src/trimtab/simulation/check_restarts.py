"""Checks that recommenders which start, or begin to lead, go on where others left off."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from trimtab.api.checkpoints import Checkpoint
from trimtab.api.watch_events import ObjectName
from trimtab.core.aggregates import MEMORY_WEIGHT, from_seconds
from trimtab.core.autoscalers import Autoscaler, AutoscalerName, policy_for
from trimtab.core.buckets import CORE, CPU_BUCKETS, MEMORY_BUCKETS
from trimtab.core.checkpoint import CheckpointError
from trimtab.core.histogram import HistogramBank
from trimtab.core.limits import amount_of
from trimtab.core.records import dataclass
from trimtab.core.resources import BOTH, Resource, Resources
from trimtab.simulation.facts import Fact, LeaseWritten, ProcessStarted, StatusPublished
from trimtab.simulation.hindsight import Hindsight
from trimtab.simulation.rules import Checker, Rules
from trimtab.simulation.told import ContainerKind, Told
from trimtab.simulation.world import World

_ROUNDING: Final = 0.005
"""Which part of the weight may be on the other side of a percentile: checkpoints are coarse."""


@dataclass(frozen=True, slots=True)
class _Beginning:
    """What was there when somebody began."""

    at: datetime
    said: Mapping[AutoscalerName, Mapping[str, Resources]]
    """The published targets, by autoscaler and container."""
    saved: Mapping[ObjectName, Checkpoint]


class SteadyRestarts(Checker):
    """After a start no target falls below what was published before and what was saved explains.

    What the checkpoint and its supplement hold at that moment is what can be known (F1, F2, F3):
    the histograms, the open windows, and the needs of OOM kills. All that was told since may have
    been less, so the percentile is taken as if it were nothing at all; then it falls by no bucket.
    Who begins to lead is held to the same (F41).
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._told = Told(past, rules.usage)
        self._beginnings = dict[str, _Beginning]()
        self._holders: dict[tuple[str, str], str] = {}

    def observe(self, fact: Fact) -> Iterator[str]:
        """A target that fell."""
        self._told.note(fact)
        match fact:
            case ProcessStarted(actor=actor):
                self._begin(actor)
            case LeaseWritten(actor=actor, lease=lease) if lease.holder:
                place = (lease.namespace, lease.name)
                if self._holders.get(place) != actor:
                    self._holders[place] = actor
                    self._begin(actor)
            case StatusPublished(at=at, actor=actor, before=before, after=after):
                beginning = self._beginnings.get(actor)
                is_new = before.recommendation != after.recommendation
                if is_new and beginning and at - beginning.at <= self.rules.restart_span:
                    yield from self._compare(actor, beginning, after)
            case _:
                return

    def _begin(self, actor: str) -> None:
        self._beginnings[actor] = _Beginning(
            self.world.now(),
            {each.identity: _targets(each) for each in self.world.autoscalers},
            {ObjectName(each.namespace, each.name): each for each in self.world.checkpoints},
        )

    def _compare(self, actor: str, beginning: _Beginning, after: Autoscaler) -> Iterator[str]:
        said = _targets(after)
        for container_name, targets in beginning.said.get(after.identity, {}).items():
            saved = beginning.saved.get(
                ObjectName(after.namespace, f"{after.name}-{container_name}")
            )
            for resource in BOTH:
                new = said.get(container_name, {}).get(resource, 0)
                old = amount_of(targets, resource)
                if saved is None or new >= old:
                    continue
                least = min(old, self._explained(saved, resource, beginning.at))
                if new < least and not self._is_capped(after, container_name, resource, new):
                    where = f"{after.namespace}/{after.name} {container_name}"
                    yield f"{actor} let {resource} of {where} fall below {least} to {new}"

    def _explained(self, saved: Checkpoint, resource: Resource, begun: datetime) -> int:
        """The least target that follows from what is saved; 0 if nothing does."""
        workload = self.past.target_of(saved.namespace, saved.autoscaler_name)
        if workload is None:
            return 0
        kind = (workload, saved.container_name)
        needed = 0 if resource is Resource.CPU else self._needed_bytes(saved)
        try:
            if resource is Resource.CPU:
                estimate = self._explained_cores(saved, kind) * CORE
            else:
                estimate = self._explained_bytes(saved, kind, begun)
        except CheckpointError:
            return needed
        # One less, for what is cut off where numbers become whole.
        return max(int(estimate * (1 + self.rules.safety_margin)) - 1, needed)

    def _explained_cores(self, saved: Checkpoint, kind: ContainerKind) -> float:
        stored, last = saved.aggregate.cpu_histogram, saved.aggregate.last_sample_start
        if stored.reference_time is None or last is None:
            return 0.0
        bank = HistogramBank(
            CPU_BUCKETS, self.rules.usage.cpu_half_life, (self.rules.target_percentile,)
        )
        row = int(bank.allocate(1)[0])
        bank.decode(row, stored)
        new = self._told.cpu_after(kind, last, seen_from=stored.reference_time)
        return self._diluted_percentile(bank, row, new)

    def _explained_bytes(self, saved: Checkpoint, kind: ContainerKind, begun: datetime) -> float:
        stored, at = saved.aggregate.memory_histogram, saved.aggregate.last_update_time
        if at is None:
            return 0.0
        remembered = saved.supplement.containers if saved.supplement else {}
        known = {pod: one.memory for pod, one in remembered.items()}
        bank = HistogramBank(
            MEMORY_BUCKETS, self.rules.usage.memory_half_life, (self.rules.target_percentile,)
        )
        row = int(bank.allocate(1)[0])
        bank.decode(row, stored)
        for memory in known.values():
            if memory.window_end is not None and memory.peak > 0 and not memory.is_saved:
                bank.add([row], [memory.peak], MEMORY_WEIGHT, memory.window_end)
        reference = from_seconds(float(bank.references[row])) or at
        new = self._told.memory_after(kind, at, known=known, seen_from=reference, begun=begun)
        return self._diluted_percentile(bank, row, new)

    def _needed_bytes(self, saved: Checkpoint) -> int:
        """What OOM kills that are not too old ask for."""
        usage, now = self.rules.usage, self.world.now()
        lifetime = usage.memory_interval * usage.memory_interval_count
        oldest = (now - lifetime + self.clock_doubt(now)).timestamp()
        levels = saved.supplement.oom_levels if saved.supplement else ()
        return max((one.needed_bytes for one in levels if one.seconds > oldest), default=0)

    def _diluted_percentile(self, bank: HistogramBank, row: int, new: float) -> float:
        """The percentile of what is saved and of something new that weighs so much, all of it 0."""
        total, fraction = float(bank.weights.totals[row]), self.rules.target_percentile
        if total <= 0:
            return 0.0
        diluted = fraction - (1 - fraction) * new / total - _ROUNDING
        return bank.percentile(row, diluted) if diluted > 0 else 0.0

    def _is_capped(
        self, autoscaler: Autoscaler, container_name: str, resource: Resource, amount: int
    ) -> bool:
        """Whether the autoscaler allows no more than this, or did so a moment ago."""
        versions = self.past.versions(autoscaler.identity)
        policies = [policy_for(version.policies, container_name) for version in versions]
        most = [amount_of(policy.max_allowed, resource) for policy in policies if policy]
        return amount > 0 and amount in most


def _targets(autoscaler: Autoscaler) -> Mapping[str, Resources]:
    """The published targets by container."""
    return {entry.container_name: entry.target for entry in autoscaler.recommendation or ()}
