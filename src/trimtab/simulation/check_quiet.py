"""Checks that a cluster which has come to rest stays there."""

from collections.abc import Iterator

from trimtab.core.autoscalers import Autoscaler
from trimtab.core.boost import boosted_containers
from trimtab.core.resources import BOTH
from trimtab.simulation.facts import Fact, PodEvicted, PodResized, StatusPublished
from trimtab.simulation.hindsight import Hindsight
from trimtab.simulation.rules import Checker, Rules
from trimtab.simulation.world import World


class Quiet(Checker):
    """Once it has to be quiet nobody evicts, resizes or changes a target any more.

    It has to be from `begin` on, or from the moment that the rules name: all faults have ended, all
    loads are steady and there was time to settle.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._begins = rules.quiet_from

    def begin(self) -> None:
        """Let it have to be quiet from now on."""
        self._begins = self.world.now()

    def observe(self, fact: Fact) -> Iterator[str]:
        """Whatever happens though nothing should."""
        if self._begins is None or fact.at < self._begins:
            return
        match fact:
            case PodEvicted(actor=actor, pod=pod):
                yield f"{actor} evicted {pod.namespace}/{pod.name}"
            case PodResized(actor=actor, before=pod) if not boosted_containers(pod):
                # Jobs go on to be made; that the boost of a new pod ends is no unrest.
                yield f"{actor} resized {pod.namespace}/{pod.name}"
            case StatusPublished(actor=actor, before=before, after=after):
                for moved in self._moved_targets(before, after):
                    yield f"{actor} moved the target of {after.namespace}/{after.name} {moved}"
            case _:
                return

    def _moved_targets(self, before: Autoscaler, after: Autoscaler) -> Iterator[str]:
        known = {entry.container_name: entry.target for entry in before.recommendation or ()}
        for entry in after.recommendation or ():
            for resource in BOTH:
                old = known.get(entry.container_name, {}).get(resource, 0)
                new = entry.target.get(resource, 0)
                if abs(new - old) > self.rules.quiet_change * old:
                    yield f"{entry.container_name}: {resource} from {old} to {new}"
