"""Checks that what was learned is not lost: checkpoints, as they are written one after another."""

import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from trimtab.api.checkpoints import Checkpoint
from trimtab.api.watch_events import ObjectName
from trimtab.core.checkpoint import AggregateCheckpoint, HistogramCheckpoint
from trimtab.core.saving import is_about_pods_of
from trimtab.simulation.facts import CheckpointDeleted, CheckpointSaved, Fact
from trimtab.simulation.hindsight import Hindsight
from trimtab.simulation.rules import Checker, Rules
from trimtab.simulation.told import Told
from trimtab.simulation.virtual_time import START
from trimtab.simulation.world import World

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
        return not is_new and is_about_pods_of(found.selector, checkpoint.fingerprint)

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
