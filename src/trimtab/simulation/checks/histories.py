"""Checks that what was learned is not lost: checkpoints, as they are written one after another."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.api.wire.watch_events import ObjectName
from trimtab.core.histogram.bank import HistogramBank
from trimtab.core.histogram.buckets import CORE, CPU_BUCKETS, MEMORY_BUCKETS
from trimtab.core.histogram.checkpoint import (
    AggregateCheckpoint,
    CheckpointError,
    HistogramCheckpoint,
)
from trimtab.core.model import autoscalers, limits
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.usage import aggregates, checkpoints
from trimtab.core.usage.aggregates import MEMORY_WEIGHT
from trimtab.simulation.checks.base import Checker, Rules
from trimtab.simulation.checks.hindsight import Hindsight
from trimtab.simulation.checks.samples_sent import ContainerKind, Told
from trimtab.simulation.world.facts import (
    CheckpointDeleted,
    CheckpointSaved,
    Fact,
    LeaseWritten,
    ProcessStarted,
    StatusPublished,
)
from trimtab.simulation.world.virtual_time import START
from trimtab.simulation.world.world import World

_Subject: TypeAlias = tuple[object, ...]
"""Which pods a checkpoint is about, as its autoscaler says."""

_ROUNDING: Final = 1e-6
"""By which part sums of floats may differ that were added in another order."""


class Histories(Checker):
    """The weight of a saved histogram falls only by decay and by old age, and so do its counts.

    What nobody has added to for as long as histories are kept may be forgotten at once, all of it:
    so much as was told before that may go, and no more. A checkpoint is written without the peaks
    of windows that are still open. They come in when they close, so its weight only grows; where a
    pod's labels changed while its window was open, or the clock was set back, windows that were
    closed may be open again, and memory is not judged. When an autoscaler means other pods than
    before, or was made anew, its history is another one.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._subjects: dict[ObjectName, _Subject] = {}
        self._told = Told(past, rules.usage)

    def observe(self, fact: Fact) -> Iterator[str]:
        """What was lost."""
        self._told.note(fact)
        match fact:
            case CheckpointSaved(actor=actor, before=before, after=after):
                subject = self._subject(after)
                known = self._subjects.get(_name(after), subject)
                self._subjects[_name(after)] = subject
                if before is not None and known == subject:
                    for loss in self._find_losses(before, after):
                        yield f"{actor} saved {after.namespace}/{after.name} with {loss}"
            case _:
                return

    def _find_losses(self, before: Checkpoint, after: Checkpoint) -> Iterator[str]:
        old, new, usage = before.aggregate, after.aggregate, self.rules.usage
        last = old.last_sample_start
        if last and (new.last_sample_start is None or new.last_sample_start < last):
            yield f"its last sample at {new.last_sample_start}, before {last}"
        target = self.past.target_of(after.namespace, after.autoscaler_name)
        if target is None:
            return
        kind, forgotten = (target, after.container_name), self._forgotten_until()
        yield from _find_lost_counts(old, new, self._told.count(kind, until=forgotten))
        lost = _lost_weight(old.cpu_histogram, new.cpu_histogram, usage.cpu_half_life)
        if lost > self._told.cpu_before(kind, forgotten, seen_from=_reference(old.cpu_histogram)):
            yield f"{lost / old.cpu_histogram.total_weight:.4%} of its CPU weight lost"
        lost = _lost_weight(old.memory_histogram, new.memory_histogram, usage.memory_half_life)
        reference = _reference(old.memory_histogram)
        aged = self._told.memory_before(kind, forgotten, seen_from=reference)
        if lost > aged and self._is_memory_clear(after):
            yield f"{lost / old.memory_histogram.total_weight:.4%} of its memory weight lost"

    def _forgotten_until(self) -> datetime:
        """What is as old as this nobody has to know any more."""
        usage, now = self.rules.usage, self.world.now()
        lifetime = usage.memory_interval * usage.memory_interval_count
        return now - lifetime + self.clock_doubt(now)

    def _is_memory_clear(self, checkpoint: Checkpoint) -> bool:
        """Whether no window that was closed, or lay elsewhere, may be open again."""
        now = self.world.now()
        target = self.past.target_of(checkpoint.namespace, checkpoint.autoscaler_name)
        relabelled = None if target is None else self.past.relabelled_at(target)
        moved = relabelled is not None and now - relabelled <= self.rules.usage.memory_interval
        return not moved and not self.clock_doubt(now)

    def _subject(self, checkpoint: Checkpoint) -> _Subject:
        found = self.world.autoscalers.find(checkpoint.namespace, checkpoint.autoscaler_name)
        target = self.past.target_of(checkpoint.namespace, checkpoint.autoscaler_name)
        selector = None if target is None else self.past.selector_of(target)
        own = () if found is None else (found.uid, found.selector)
        return (*own, target, selector, checkpoint.fingerprint)


class KeptCheckpoints(Checker):
    """No checkpoint of an autoscaler that is there is deleted, whether it can be read or not.

    One that describes other pods than the autoscaler's may go, and so may one that nothing was
    added to for as long as histories are kept.
    """

    def observe(self, fact: Fact) -> Iterator[str]:
        """A checkpoint that is still needed."""
        if not isinstance(fact, CheckpointDeleted):
            return
        checkpoint = fact.checkpoint
        place = ObjectName(checkpoint.namespace, checkpoint.autoscaler_name)
        is_unreadable = place in self.world.autoscalers.unreadable
        if is_unreadable or (self._is_needed(checkpoint) and not self._is_old(fact)):
            yield f"{fact.actor} deleted {checkpoint.namespace}/{checkpoint.name}"

    def _is_needed(self, checkpoint: Checkpoint) -> bool:
        found = self.world.autoscalers.find(checkpoint.namespace, checkpoint.autoscaler_name)
        if found is None or found.created_at is None:
            return False
        # Whoever is behind may not have seen yet that there is one again.
        is_new = self.world.now() - found.created_at <= self.rules.staleness
        return not is_new and checkpoints.is_about_pods_of(found.selector, checkpoint.fingerprint)

    def _is_old(self, fact: CheckpointDeleted) -> bool:
        usage = self.rules.usage
        last = fact.checkpoint.aggregate.last_sample_start
        kept = usage.memory_interval * usage.memory_interval_count
        return last is not None and fact.at - last > kept


def _find_lost_counts(
    old: AggregateCheckpoint, new: AggregateCheckpoint, forgotten: int
) -> Iterator[str]:
    if new.total_samples_count < old.total_samples_count - forgotten:
        yield f"{new.total_samples_count} samples instead of {old.total_samples_count}"
    first = old.first_sample_start
    if (
        not forgotten
        and first
        and (new.first_sample_start is None or new.first_sample_start > first)
    ):
        yield f"its first sample at {new.first_sample_start}, after {first}"


def _name(checkpoint: Checkpoint) -> ObjectName:
    return ObjectName(checkpoint.namespace, checkpoint.written_name)


def _lost_weight(
    before: HistogramCheckpoint, after: HistogramCheckpoint, half_life: timedelta
) -> float:
    """What is gone, decay and rounding apart; less than nothing if there is more.

    A sample weighs the less the later the reference is; as seen from one reference, what is there
    stays as heavy as it is.
    """
    if before.reference_time is None or before.total_weight <= 0:
        return 0.0
    least = before.total_weight * (1 - _ROUNDING)
    if after.reference_time is None:
        return least
    shift: float = (after.reference_time - before.reference_time) / half_life
    return least - after.total_weight * math.exp2(shift)


def _reference(histogram: HistogramCheckpoint) -> datetime:
    return histogram.reference_time or START


_RESTART_ROUNDING: Final = 0.005
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
                old = limits.amount_of(targets, resource)
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
        reference = aggregates.from_seconds(float(bank.references[row])) or at
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
        diluted = fraction - (1 - fraction) * new / total - _RESTART_ROUNDING
        return bank.percentile(row, diluted) if diluted > 0 else 0.0

    def _is_capped(
        self, autoscaler: Autoscaler, container_name: str, resource: Resource, amount: int
    ) -> bool:
        """Whether the autoscaler allows no more than this, or did so a moment ago."""
        versions = self.past.versions(autoscaler.identity)
        policies = [
            autoscalers.policy_for(version.policies, container_name) for version in versions
        ]
        most = [limits.amount_of(policy.max_allowed, resource) for policy in policies if policy]
        return amount > 0 and amount in most


def _targets(autoscaler: Autoscaler) -> Mapping[str, Resources]:
    """The published targets by container."""
    return {entry.container_name: entry.target for entry in autoscaler.recommendation or ()}
