"""Checks that recommenders which start, or begin to lead, go on where others left off."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from trimtab.api.checkpoints import Checkpoint
from trimtab.api.watch_events import ObjectName
from trimtab.core.autoscalers import Autoscaler, AutoscalerName, policy_for
from trimtab.core.buckets import CPU_BUCKETS, MEMORY_BUCKETS
from trimtab.core.checkpoint import CheckpointError
from trimtab.core.estimates import CORE
from trimtab.core.histogram import HistogramBank
from trimtab.core.limits import amount_of
from trimtab.core.resources import BOTH, Resource, Resources
from trimtab.simulation.facts import (
    Fact,
    FaultBegan,
    FaultEnded,
    LeaseWritten,
    ProcessStarted,
    StatusPublished,
)
from trimtab.simulation.faults import FaultKind
from trimtab.simulation.hindsight import Hindsight
from trimtab.simulation.rules import Checker, Rules
from trimtab.simulation.world import World

_WORTH_KEEPING: Final = 60
"""Fewer samples than this soon weigh less than what comes in after a start."""
_DILUTED: Final = {Resource.CPU: 0.1, Resource.MEMORY: 0.5}
"""How much of the weight may be new a moment later: a window of memory has half of it all."""


@dataclass(frozen=True, slots=True)
class _Beginning:
    """What was there when somebody began."""

    at: datetime
    said: Mapping[AutoscalerName, Mapping[str, Resources]]
    """The published targets, by autoscaler and container."""
    saved: Mapping[ObjectName, Checkpoint]


class SteadyRestarts(Checker):
    """After a start no target falls below what was published before, but for what decay explains.

    What the checkpoint holds at that moment is what can be known (F1, F2, F3): a peak of memory in
    a window that was still open is not in it, and is not asked for. Who begins to lead is held to
    the same (F41).
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._beginnings = dict[str, _Beginning]()
        self._holders: dict[tuple[str, str], str] = {}
        self._absurd_at: datetime | None = None

    def observe(self, fact: Fact) -> Iterator[str]:
        """A target that fell."""
        match fact:
            case FaultBegan(at=at, fault=fault) | FaultEnded(at=at, fault=fault):
                if fault.startswith(FaultKind.METRICS_ABSURD):
                    self._absurd_at = at
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
                is_near = beginning and at - beginning.at <= self.rules.restart_span
                if is_new and beginning and is_near and not self._is_absurd(at):
                    yield from self._compare(actor, beginning, after)
            case _:
                return

    def _is_absurd(self, now: datetime) -> bool:
        """Whether what is published may still come from readings that were no readings."""
        kept = self.rules.usage.memory_interval * self.rules.usage.memory_interval_count
        return self._absurd_at is not None and now - self._absurd_at < kept

    def _begin(self, actor: str) -> None:
        self._beginnings[actor] = _Beginning(
            self.world.now(),
            {each.identity: _targets(each) for each in self.world.autoscalers},
            {ObjectName(each.namespace, each.name): each for each in self.world.checkpoints},
        )

    def _compare(self, actor: str, beginning: _Beginning, after: Autoscaler) -> Iterator[str]:
        said = _targets(after)
        for container_name, targets in beginning.said.get(after.identity, {}).items():
            name = ObjectName(after.namespace, f"{after.name}-{container_name}")
            for resource in BOTH:
                new = said.get(container_name, {}).get(resource, 0)
                tolerable = 1 - self.rules.largest_fall
                if new >= int(amount_of(targets, resource) * tolerable):
                    continue
                least = int(self._explained(beginning.saved.get(name), resource) * tolerable)
                if new < least and not self._is_capped(after, container_name, resource, new):
                    where = f"{after.namespace}/{after.name} {container_name}"
                    yield f"{actor} let {resource} of {where} fall below {least} to {new}"

    def _explained(self, saved: Checkpoint | None, resource: Resource) -> int:
        """The least target that follows from what is saved; 0 if that is next to nothing."""
        if saved is None or saved.aggregate.total_samples_count < _WORTH_KEEPING:
            return 0
        usage, aggregate = self.rules.usage, saved.aggregate
        if resource is Resource.CPU:
            scheme, half_life, unit = CPU_BUCKETS, usage.cpu_half_life, CORE
            stored = aggregate.cpu_histogram
        else:
            scheme, half_life, unit = MEMORY_BUCKETS, usage.memory_half_life, 1
            stored = aggregate.memory_histogram
        bank = HistogramBank(scheme, half_life, (self.rules.target_percentile,))
        row = int(bank.allocate(1)[0])
        try:
            bank.decode(row, stored)
        except CheckpointError:
            return 0
        # What came in since then may be less, and dilute a peak that was just large enough.
        estimate = bank.percentile(row, self.rules.target_percentile - _DILUTED[resource]) * unit
        return int(estimate * (1 + self.rules.safety_margin))

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
