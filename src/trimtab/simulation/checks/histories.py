"""Checks that no history is lost: compares each checkpoint with the one before it."""

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
from trimtab.core.model import autoscalers, estimation, limits
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName
from trimtab.core.model.estimation import Estimator
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.usage import aggregates, checkpoints
from trimtab.core.usage.aggregates import MEMORY_WEIGHT
from trimtab.simulation.checks.base import Checker, Rules
from trimtab.simulation.checks.hindsight import Hindsight
from trimtab.simulation.checks.samples_sent import ContainerKind, SamplesSent
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
"""Identity of the pods that a checkpoint describes, by its autoscaler."""

_ROUNDING: Final = 1e-6
"""Relative difference allowed between float sums that were added in another order."""


class Histories(Checker):
    """The weight and the counts of a saved histogram fall only by decay and by old age.

    Samples older than the time for which histories are kept may be dropped at once, and nothing
    more. A checkpoint leaves out the peaks of windows that are still open. They are added when the
    windows close, so the weight only grows. Memory is not judged where closed windows may open
    again: after a pod's labels changed while its window was open, or after the clock was set back.
    An autoscaler that was recreated, or selects other pods, has a new history.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._subjects: dict[ObjectName, _Subject] = {}
        self._sent = SamplesSent(past, rules.usage)

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report samples and weight that were lost."""
        self._sent.note(fact)
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
        is_older = last and (new.last_sample_start is None or new.last_sample_start < last)
        # Of two leaders that learned apart, the one that has counted more samples may be saved.
        if is_older and new.total_samples_count <= old.total_samples_count:
            yield f"its last sample at {new.last_sample_start}, before {last}"
        target = self.past.target_of(after.namespace, after.autoscaler_name)
        if target is None:
            return
        kind, forgotten = (target, after.container_name), self._forgotten_until()
        yield from _find_lost_counts(old, new, self._sent.count(kind, until=forgotten))
        lost = _lost_weight(old.cpu_histogram, new.cpu_histogram, usage.cpu_half_life)
        if lost > self._sent.cpu_before(kind, forgotten, seen_from=_reference(old.cpu_histogram)):
            yield f"{lost / old.cpu_histogram.total_weight:.4%} of its CPU weight lost"
        lost = _lost_weight(old.memory_histogram, new.memory_histogram, usage.memory_half_life)
        reference = _reference(old.memory_histogram)
        aged = self._sent.memory_before(kind, forgotten, seen_from=reference)
        if lost > aged and self._is_memory_clear(after):
            yield f"{lost / old.memory_histogram.total_weight:.4%} of its memory weight lost"

    def _forgotten_until(self) -> datetime:
        """Return the time before which samples may be forgotten."""
        usage, now = self.rules.usage, self.world.now()
        lifetime = usage.memory_interval * usage.memory_interval_count
        return now - lifetime + self.clock_doubt(now)

    def _is_memory_clear(self, checkpoint: Checkpoint) -> bool:
        """Return True if no window may have moved or opened again after it was closed."""
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
    """No checkpoint of an existing autoscaler is deleted, even if that autoscaler is unreadable.

    A checkpoint that describes other pods than the autoscaler's may be deleted. So may one whose
    last sample is older than the time for which histories are kept.
    """

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report the deletion of a checkpoint that is still needed."""
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
        # A component that is behind may not have seen a recreated autoscaler yet.
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
    """Return the weight that was lost, decay and rounding apart; negative if weight was added.

    A sample weighs less against a later reference, so both weights are compared against the
    earlier one.
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
"""Share of the weight that coarse checkpoints may move across a percentile."""


@dataclass(frozen=True, slots=True)
class _Beginning:
    """Targets and checkpoints at the moment when a recommender started or began to lead."""

    at: datetime
    said: Mapping[AutoscalerName, Mapping[str, Resources]]
    """Published targets, by autoscaler and container."""
    saved: Mapping[ObjectName, Checkpoint]


class SteadyRestarts(Checker):
    """After a start no target falls below both the published target and what was saved explains.

    A recommender can know only what the checkpoint and its supplement held at that moment (F1, F2,
    F3): histograms, open windows, and the memory needed after OOM kills. Usage reported since may
    have been lower, so the checker computes the percentile as if all of it were 0. The same rule
    holds for a recommender that begins to lead (F41).
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._sent = SamplesSent(past, rules.usage)
        self._beginnings = dict[str, _Beginning]()
        self._holders: dict[tuple[str, str], str] = {}

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report a target that fell too far."""
        self._sent.note(fact)
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
                least = min(old, self._explain(after, saved, resource, beginning.at))
                if new < least and not self._is_capped(after, container_name, resource, new):
                    where = f"{after.namespace}/{after.name} {container_name}"
                    yield f"{actor} let {resource} of {where} fall below {least} to {new}"

    def _explain(
        self, autoscaler: Autoscaler, saved: Checkpoint, resource: Resource, begun: datetime
    ) -> int:
        chosen = estimation.chosen_estimator(autoscaler.annotations, self.rules.estimator)
        if chosen is Estimator.COST:
            return self._held(saved, resource, begun)
        return self._explained(saved, resource, begun)

    def _held(self, saved: Checkpoint, resource: Resource, begun: datetime) -> int:
        """Return the saved target while nothing may lower it; 0 if there is none, or later."""
        targets = None if saved.supplement is None else saved.supplement.targets
        if targets is None:
            return 0
        target = targets.cpu if resource is Resource.CPU else targets.memory
        if target is None or target.changed is None:
            return 0
        cost = self.rules.cost
        is_steady = targets.is_settled and not targets.is_tried
        gap = cost.lower_gap if is_steady else min(cost.warm_up, cost.tried_gap)
        since = self.world.now().timestamp() - target.changed
        return int(target.held) if since < (gap - self.clock_doubt(begun)).total_seconds() else 0

    def _explained(self, saved: Checkpoint, resource: Resource, begun: datetime) -> int:
        """Return the lowest target that follows from the checkpoint; 0 if none follows."""
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
        # One less, because targets are truncated to integers.
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
        new = self._sent.cpu_after(kind, last, seen_from=stored.reference_time)
        return self._diluted_percentile(bank, row, new)

    def _explained_bytes(self, saved: Checkpoint, kind: ContainerKind, begun: datetime) -> float:
        stored, at = saved.aggregate.memory_histogram, saved.aggregate.last_update_time
        if at is None:
            return 0.0
        # The recommender's own clock, while readings have the time of the metrics server.
        at -= self.clock_doubt(begun)
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
        new = self._sent.memory_after(kind, at, known=known, seen_from=reference, begun=begun)
        return self._diluted_percentile(bank, row, new)

    def _needed_bytes(self, saved: Checkpoint) -> int:
        """Return the memory needed after OOM kills that are not too old."""
        usage, now = self.rules.usage, self.world.now()
        lifetime = usage.memory_interval * usage.memory_interval_count
        oldest = (now - lifetime + self.clock_doubt(now)).timestamp()
        levels = saved.supplement.oom_levels if saved.supplement else ()
        return max((one.needed_bytes for one in levels if one.seconds > oldest), default=0)

    def _diluted_percentile(self, bank: HistogramBank, row: int, new: float) -> float:
        """Return the percentile of the saved samples and of zeros with the weight `new`."""
        total, fraction = float(bank.weights.totals[row]), self.rules.target_percentile
        if total <= 0:
            return 0.0
        diluted = fraction - (1 - fraction) * new / total - _RESTART_ROUNDING
        return bank.percentile(row, diluted) if diluted > 0 else 0.0

    def _is_capped(
        self, autoscaler: Autoscaler, container_name: str, resource: Resource, amount: int
    ) -> bool:
        """Return True if the amount is the autoscaler's maxAllowed, now or a moment ago."""
        versions = self.past.versions(autoscaler.identity)
        policies = [
            autoscalers.policy_for(version.policies, container_name) for version in versions
        ]
        most = [limits.amount_of(policy.max_allowed, resource) for policy in policies if policy]
        return amount > 0 and amount in most


def _targets(autoscaler: Autoscaler) -> Mapping[str, Resources]:
    """Return the published targets by container."""
    return {entry.container_name: entry.target for entry in autoscaler.recommendation or ()}
