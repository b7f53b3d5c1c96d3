"""Checks that a cluster which has come to rest stays there."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from trimtab.core.autoscalers import Autoscaler
from trimtab.core.boost import boosted_containers
from trimtab.core.disruption import owner_of
from trimtab.core.matching import acts_on_running_pods
from trimtab.core.pods import Pod, WorkloadName
from trimtab.core.records import dataclass
from trimtab.core.resources import BOTH, Resource, Resources
from trimtab.simulation.facts import Fact, PodEvicted, PodPatched, PodResized, StatusPublished
from trimtab.simulation.hindsight import Hindsight
from trimtab.simulation.rules import Checker, Rules
from trimtab.simulation.world import World

_KINDS_OF_JOBS: Final = ("CronJob", "Job")
_TOLD_WITHIN: Final = timedelta(minutes=3)
"""Maximum age of a reading when a target follows from it."""


@dataclass(slots=True)
class _Changes:
    """How many pods of an owner were changed for the same targets."""

    targets: Mapping[str, Resources]
    count: int = 0


class Quiet(Checker):
    """Once it has to be quiet no target rises, and no pod is changed twice for the same target.

    It has to be from `begin` on, or from the moment that the rules name: all faults have ended, all
    loads are steady and there was time to settle. What still moves then is the past, which weighs
    less with every day: a target may fall for as long as anything larger is being forgotten, and
    bounds grow narrower with every day that is known, so that a pod which always lay inside of them
    may come to lie outside. It is brought to its target then, once, and that is the end of it.
    Jobs go on to be made: one that is boosted may use more CPU than its limit allows without the
    boost, so a target of CPU may rise from that.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._begins = rules.quiet_from
        self._changes: dict[WorkloadName | None, _Changes] = {}
        self._unboosted_at: dict[tuple[WorkloadName, str], datetime] = {}

    def begin(self) -> None:
        """Let it have to be quiet from now on."""
        self._begins = self.world.now()

    def observe(self, fact: Fact) -> Iterator[str]:
        """Whatever happens though nothing should."""
        if isinstance(fact, PodPatched):
            self._note_ended_boosts(fact)
        if self._begins is None or fact.at < self._begins:
            return
        match fact:
            case PodEvicted(actor=actor, pod=pod):
                yield from self._count(pod, f"{actor} evicted")
            case PodResized(actor=actor, before=pod) if not boosted_containers(pod):
                # Jobs go on to be made; that the boost of a new pod ends is no unrest.
                yield from self._count(pod, f"{actor} resized")
            case StatusPublished(actor=actor, before=before, after=after):
                for risen in self._risen_targets(before, after):
                    yield f"{actor} raised the target of {after.namespace}/{after.name} {risen}"
            case _:
                return

    def _count(self, pod: Pod, what: str) -> Iterator[str]:
        owner, targets = owner_of(pod), self._targets_of(pod)
        changes = self._changes.get(owner)
        if changes is None or changes.targets != targets:
            changes = self._changes[owner] = _Changes(targets)
        changes.count += 1
        workload = None if owner is None else self.world.find_workload(owner)
        wanted = 0 if workload is None else workload.replicas or 0
        # While one of them is made anew there are fewer than there should be.
        siblings = sum(owner_of(each) == owner for each in self.world.pods)
        if changes.count > max(wanted, siblings):
            yield f"{what} {pod.namespace}/{pod.name}, and each of its siblings before"

    def _targets_of(self, pod: Pod) -> Mapping[str, Resources]:
        governors = self.past.governors(pod, acts_on_running_pods)
        return _targets(governors[-1]) if governors else {}

    def _risen_targets(self, before: Autoscaler, after: Autoscaler) -> Iterator[str]:
        known = _targets(before)
        for entry in after.recommendation or ():
            for resource in BOTH:
                old = known.get(entry.container_name, {}).get(resource, 0)
                new = entry.target.get(resource, 0)
                name = entry.container_name
                if new > old and not (resource is Resource.CPU and self._is_boosted(after, name)):
                    yield f"{entry.container_name}: {resource} from {old} to {new}"

    def _note_ended_boosts(self, fact: PodPatched) -> None:
        workload = self.past.topmost(fact.before)
        if workload is not None:
            for name in {*boosted_containers(fact.before)} - {*boosted_containers(fact.after)}:
                self._unboosted_at[workload, name] = fact.at

    def _is_boosted(self, autoscaler: Autoscaler, container_name: str) -> bool:
        """Tell whether usage of a boosted Job may be new: it is told a little after the boost."""
        target = autoscaler.target
        if target is None or target.kind not in _KINDS_OF_JOBS:
            return False
        workload = WorkloadName(autoscaler.namespace, target.kind, target.name)
        ended = self._unboosted_at.get((workload, container_name))
        return (ended is not None and self.world.now() - ended <= _TOLD_WITHIN) or any(
            container_name in boosted_containers(pod) and self.past.topmost(pod) == workload
            for pod in self.world.pods_by_namespace.under(autoscaler.namespace)
        )


def _targets(autoscaler: Autoscaler) -> Mapping[str, Resources]:
    return {entry.container_name: entry.target for entry in autoscaler.recommendation or ()}
