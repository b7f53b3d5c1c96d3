"""Checks that what a horizontal autoscaler scales on is left to it."""

from collections.abc import Iterator
from datetime import datetime

from trimtab.core.autoscalers import Held
from trimtab.core.boost import boosted_containers
from trimtab.core.limits import amount_of
from trimtab.core.pods import Allocation, Pod
from trimtab.core.resources import BOTH, Resource
from trimtab.simulation.check_bounds import asked_for
from trimtab.simulation.facts import Fact, PodCreated, PodResized
from trimtab.simulation.hindsight import Hindsight
from trimtab.simulation.objects import HorizontalScaler
from trimtab.simulation.rules import Checker, Rules
from trimtab.simulation.tables import Change
from trimtab.simulation.world import World


class HorizontalHolds(Checker):
    """No component changes what a horizontal autoscaler of the workload scales on.

    But for the end of a boost, and for those who cannot know of it yet.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._begins = world.now()
        self._since = {(each.namespace, each.name): self._begins for each in world.scalers}
        world.scalers.subscribe(self._follow)

    def observe(self, fact: Fact) -> Iterator[str]:
        """What was changed although it is held."""
        match fact:
            case PodCreated(wanted=wanted, patch=patch) if patch:
                yield from self._judge("admission", wanted, asked_for(fact))
            case PodResized(actor=actor, before=before, after=after):
                yield from self._judge(actor, before, after)
            case _:
                return

    def _judge(self, actor: str, before: Pod, after: Pod) -> Iterator[str]:
        held = self._held(before)
        boosted = boosted_containers(before)
        for old, new in zip(before.containers, after.containers, strict=True):
            for kind in BOTH:
                is_held = Held(kind) in held or Held(kind, new.name) in held
                ends_boost = kind is Resource.CPU and new.name in boosted
                if is_held and not ends_boost and not _is_same(kind, old.spec, new.spec):
                    where = f"{before.namespace}/{before.name} {new.name}"
                    yield f"{actor} changed {kind} of {where}, which is scaled on"

    def _held(self, pod: Pod) -> frozenset[Held]:
        workload, now = self.past.topmost(pod), self.world.now()
        found = [each for each in self.world.scalers if each.target == workload]
        known = [each for each in found if self._is_known(each, now)]
        return frozenset[Held]().union(*(each.known.claims for each in known))

    def _is_known(self, scaler: HorizontalScaler, now: datetime) -> bool:
        since = self._since[scaler.namespace, scaler.name]
        # Nobody acts before having seen what was there from the beginning.
        return since == self._begins or now - since > self.rules.staleness

    def _follow(self, change: Change[HorizontalScaler]) -> None:
        self._since[change.name.namespace, change.name.name] = self.world.now()


def _is_same(kind: Resource, old: Allocation, new: Allocation) -> bool:
    return amount_of(old.requests, kind) == amount_of(new.requests, kind) and amount_of(
        old.limits, kind
    ) == amount_of(new.limits, kind)
