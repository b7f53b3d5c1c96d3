"""Checks that recommenders which start go on where others left off."""

from collections.abc import Iterator
from datetime import datetime

from trimtab.core.autoscalers import (
    Autoscaler,
    AutoscalerName,
    ContainerRecommendation,
    policy_for,
)
from trimtab.core.buckets import CPU_BUCKETS, MEMORY_BUCKETS
from trimtab.core.checkpoint import CheckpointError
from trimtab.core.estimates import CORE
from trimtab.core.histogram import HistogramBank
from trimtab.core.limits import amount_of
from trimtab.core.resources import BOTH, Resource, Resources
from trimtab.simulation.facts import Fact, ProcessStarted, StatusPublished
from trimtab.simulation.hindsight import Hindsight
from trimtab.simulation.rules import Checker, Rules
from trimtab.simulation.world import World


class SteadyRestarts(Checker):
    """After a start no target falls below what was published before, but for what decay explains.

    What the checkpoint holds at that moment is what can be known (F1, F2, F3): a peak of memory in
    a window that was still open is not in it, and is not asked for.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._started_at = dict[str, datetime]()
        self._owed: dict[str, dict[AutoscalerName, dict[str, Resources]]] = {}

    def observe(self, fact: Fact) -> Iterator[str]:
        """A target that fell."""
        match fact:
            case ProcessStarted(at=at, actor=actor):
                self._started_at[actor] = at
                self._owed[actor] = {each.identity: self._owe(each) for each in self._known()}
            case StatusPublished(at=at, actor=actor, before=before, after=after):
                started = self._started_at.get(actor)
                is_new = before.recommendation != after.recommendation
                if is_new and started is not None and at - started <= self.rules.restart_span:
                    yield from self._compare(actor, after)
            case _:
                return

    def _known(self) -> list[Autoscaler]:
        return [each for each in self.world.autoscalers if each.recommendation]

    def _owe(self, autoscaler: Autoscaler) -> dict[str, Resources]:
        """By container the targets that a recommender has to come back to."""
        return {
            entry.container_name: {
                resource: min(amount, self._supported(autoscaler, entry, resource))
                for resource, amount in entry.target.items()
            }
            for entry in autoscaler.recommendation or ()
        }

    def _supported(
        self, autoscaler: Autoscaler, entry: ContainerRecommendation, resource: Resource
    ) -> int:
        """The target that follows from what is saved; 0 if nothing is."""
        name = f"{autoscaler.name}-{entry.container_name}"
        stored = self.world.checkpoints.find(autoscaler.namespace, name)
        if stored is None:
            return 0
        is_cpu = resource is Resource.CPU
        usage, aggregate = self.rules.usage, stored.aggregate
        half_life = usage.cpu_half_life if is_cpu else usage.memory_half_life
        scheme = CPU_BUCKETS if is_cpu else MEMORY_BUCKETS
        bank = HistogramBank(scheme, half_life, (self.rules.target_percentile,))
        row = int(bank.allocate(1)[0])
        try:
            bank.decode(row, aggregate.cpu_histogram if is_cpu else aggregate.memory_histogram)
        except CheckpointError:
            return 0
        estimate = bank.percentile(row, self.rules.target_percentile)
        return int(estimate * (CORE if is_cpu else 1) * (1 + self.rules.safety_margin))

    def _compare(self, actor: str, after: Autoscaler) -> Iterator[str]:
        owed = self._owed.get(actor, {}).get(after.identity, {})
        said = {entry.container_name: entry.target for entry in after.recommendation or ()}
        for container_name, targets in owed.items():
            for resource in BOTH:
                new = said.get(container_name, {}).get(resource, 0)
                least = int(amount_of(targets, resource) * (1 - self.rules.largest_fall))
                if new < least and not self._is_capped(after, container_name, resource, new):
                    where = f"{after.namespace}/{after.name} {container_name}"
                    yield f"{actor} let {resource} of {where} fall below {least} to {new}"

    def _is_capped(
        self, autoscaler: Autoscaler, container_name: str, resource: Resource, amount: int
    ) -> bool:
        """Whether the autoscaler allows no more than this, or did so a moment ago."""
        versions = self.past.versions(autoscaler.identity)
        policies = [policy_for(version.policies, container_name) for version in versions]
        most = [amount_of(policy.max_allowed, resource) for policy in policies if policy]
        return amount > 0 and amount in most
