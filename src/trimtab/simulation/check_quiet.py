"""Checks that a cluster which has come to rest stays there."""

from collections import Counter
from collections.abc import Iterator

from trimtab.core.autoscalers import Autoscaler
from trimtab.core.boost import boosted_containers
from trimtab.core.disruption import owner_of
from trimtab.core.pods import Pod, WorkloadName
from trimtab.core.resources import BOTH, Resources
from trimtab.simulation.facts import Fact, PodEvicted, PodResized, StatusPublished
from trimtab.simulation.hindsight import Hindsight
from trimtab.simulation.rules import Checker, Rules
from trimtab.simulation.world import World


class Quiet(Checker):
    """Once it has to be quiet no target rises, and no pod is changed more than twice.

    It has to be from `begin` on, or from the moment that the rules name: all faults have ended, all
    loads are steady and there was time to settle. Bounds grow narrower with every day, so a pod may
    still fall outside of them; it is then brought to its target. A successor that admission could
    not place yet is evicted once more, and that is the end of it. Targets may fall for as long as
    anything is left to be forgotten.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._begins = rules.quiet_from
        self._changes: Counter[WorkloadName | None] = Counter()

    def begin(self) -> None:
        """Let it have to be quiet from now on."""
        self._begins = self.world.now()

    def observe(self, fact: Fact) -> Iterator[str]:
        """Whatever happens though nothing should."""
        if self._begins is None or fact.at < self._begins:
            return
        match fact:
            case PodEvicted(actor=actor, pod=pod):
                yield from self._count(pod, f"{actor} evicted")
            case PodResized(actor=actor, before=pod) if not boosted_containers(pod):
                # Jobs go on to be made; that the boost of a new pod ends is no unrest.
                yield from self._count(pod, f"{actor} resized")
            case StatusPublished(actor=actor, before=before, after=after):
                if _targets(before) != _targets(after):
                    # Whoever has another target may have to be changed once more.
                    self._changes.clear()
                for risen in self._risen_targets(before, after):
                    yield f"{actor} raised the target of {after.namespace}/{after.name} {risen}"
            case _:
                return

    def _count(self, pod: Pod, what: str) -> Iterator[str]:
        owner = owner_of(pod)
        self._changes[owner] += 1
        workload = None if owner is None else self.world.find_workload(owner)
        wanted = 0 if workload is None else workload.replicas or 0
        # While one of them is made anew there are fewer than there should be.
        siblings = sum(owner_of(each) == owner for each in self.world.pods)
        if self._changes[owner] > 2 * max(wanted, siblings):
            yield f"{what} {pod.namespace}/{pod.name}, and each of its siblings twice before"

    def _risen_targets(self, before: Autoscaler, after: Autoscaler) -> Iterator[str]:
        known = _targets(before)
        for entry in after.recommendation or ():
            for resource in BOTH:
                old = known.get(entry.container_name, {}).get(resource, 0)
                new = entry.target.get(resource, 0)
                if new > old:
                    yield f"{entry.container_name}: {resource} from {old} to {new}"


def _targets(autoscaler: Autoscaler) -> dict[str, Resources]:
    return {entry.container_name: entry.target for entry in autoscaler.recommendation or ()}
