"""Checks that no sample is counted twice, by what the metrics server told and what is saved of it.

That a sample was left out cannot be seen: it may be one of a pod that the recommender did not know
yet. Usage from another source than the metrics server would look like too much.
"""

import math
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from trimtab.api.checkpoints import Checkpoint
from trimtab.api.metrics import UsageColumns
from trimtab.core.aggregates import CPU_WEIGHT
from trimtab.core.checkpoint import HistogramCheckpoint
from trimtab.core.pods import WorkloadName
from trimtab.core.records import dataclass
from trimtab.simulation.facts import CheckpointSaved, Fact, UsageTold
from trimtab.simulation.hindsight import Hindsight
from trimtab.simulation.rules import Checker, Rules
from trimtab.simulation.virtual_time import START
from trimtab.simulation.world import World

_ROUNDING: Final = 1e-6


@dataclass(slots=True)
class _Told:
    """What the metrics server has told of the containers of one kind."""

    samples: int = 0
    weight: float = 0.0
    """Of all CPU samples together, seen from the beginning of simulated time."""


class SamplesCountedOnce(Checker):
    """No checkpoint holds more samples, nor more CPU weight, than the metrics server has told."""

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._told = dict[tuple[WorkloadName, str], _Told]()
        self._newest: dict[tuple[str, str, str], float] = {}
        self._given: dict[tuple[str, str], tuple[int, float]] = {}

    def observe(self, fact: Fact) -> Iterator[str]:
        """What was counted though nobody told it."""
        match fact:
            case UsageTold(usage=usage):
                self._take_in(usage)
            case CheckpointSaved(actor=actor, before=before, after=after):
                for excess in self._find_excess(before, after):
                    yield f"{actor} saved {after.namespace}/{after.name} with {excess}"
            case _:
                return

    def _take_in(self, usage: UsageColumns) -> None:
        half_life = self.rules.usage.cpu_half_life.total_seconds()
        begin = START.timestamp()
        rows = zip(usage.namespaces, usage.pods, usage.containers, usage.times, strict=True)
        for namespace, pod_name, container, time in rows:
            place = (namespace, pod_name, container)
            if time <= self._newest.get(place, 0.0):
                continue
            self._newest[place] = time
            workload = self.past.workload_named(namespace, pod_name)
            if workload is not None:
                told = self._told.setdefault((workload, container), _Told())
                told.samples += 1
                told.weight += CPU_WEIGHT * math.exp2((time - begin) / half_life)

    def _find_excess(self, before: Checkpoint | None, after: Checkpoint) -> Iterator[str]:
        half_life = self.rules.usage.cpu_half_life
        place = (after.namespace, after.name)
        if place not in self._given:
            # What was there before anybody looked was told by somebody else.
            samples = 0 if before is None else before.aggregate.total_samples_count
            weight = 0.0 if before is None else _weight(before.aggregate.cpu_histogram, half_life)
            self._given[place] = (samples, weight)
        target = self.past.target_of(after.namespace, after.autoscaler_name)
        if target is None:
            return
        samples, weight = self._given[place]
        told = self._told.get((target, after.container_name), _Told())
        saved = after.aggregate
        if saved.total_samples_count > samples + told.samples:
            yield f"{saved.total_samples_count} samples, {samples + told.samples} were told"
        most = (weight + told.weight) * (1 + _ROUNDING)
        if _weight(saved.cpu_histogram, half_life) > most:
            yield "more CPU weight than all samples have"


def _weight(histogram: HistogramCheckpoint, half_life: timedelta) -> float:
    """What a histogram weighs, seen from the beginning of simulated time."""
    if histogram.reference_time is None:
        return 0.0
    shift: float = (histogram.reference_time - START) / half_life
    return histogram.total_weight * math.exp2(shift)
