"""Checks that no OOM kill is counted twice, by the memory targets that follow from it.

A kill shows that its container needs somewhat more than it had. Counted again, as if it had had
that, it would show a need for even more. A kill that is counted twice to no effect cannot be seen.
"""

from collections.abc import Iterator
from typing import Final

from trimtab.api.metrics import UsageColumns
from trimtab.core.autoscalers import Autoscaler, ContainerRecommendation, policy_for
from trimtab.core.limits import amount_of
from trimtab.core.pods import Container, Pod, WorkloadName
from trimtab.core.recommendation import RecommendationSettings
from trimtab.core.resources import Resource
from trimtab.simulation.facts import (
    CheckpointSaved,
    ContainerKilled,
    Fact,
    PodPressedOut,
    StatusPublished,
    UsageTold,
)
from trimtab.simulation.hindsight import Hindsight
from trimtab.simulation.rules import Checker, Rules
from trimtab.simulation.world import World

_BUCKET_GROWTH: Final = 1.05
"""By so much the end of a bucket may exceed what is in it."""
_FIRST_BUCKET_BYTES: Final = 10_000_000


class KillsCountedOnce(Checker):
    """No memory target is above what the largest reading or a single OOM kill explains."""

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._used: dict[tuple[WorkloadName, str], int] = {}
        self._killed_with: dict[tuple[WorkloadName, str], int] = {}
        self._saved: set[tuple[str, str]] = set()

    def observe(self, fact: Fact) -> Iterator[str]:
        """A target that nothing explains."""
        match fact:
            case UsageTold(usage=usage):
                self._take_in(usage)
            case ContainerKilled(pod=pod, container_name=name):
                self._note_kill(pod, name, _request_of(pod, name))
            case PodPressedOut(pod=pod, blamed=blamed):
                for eviction in blamed:
                    self._note_kill(pod, eviction.container, eviction.memory_bytes)
            case CheckpointSaved(before=None, after=after):
                self._saved.add((after.namespace, after.name))
            case StatusPublished(actor=actor, before=before, after=after):
                if before.recommendation != after.recommendation:
                    for entry in after.recommendation or ():
                        yield from self._judge(actor, after, entry)
            case _:
                return

    def _take_in(self, usage: UsageColumns) -> None:
        rows = zip(usage.namespaces, usage.pods, usage.containers, usage.memory_bytes, strict=True)
        for namespace, pod_name, container_name, memory in rows:
            workload = self.past.workload_named(namespace, pod_name)
            if workload is not None:
                kind = (workload, container_name)
                self._used[kind] = max(self._used.get(kind, 0), memory)

    def _note_kill(self, pod: Pod, container_name: str, memory: int) -> None:
        workload = self.past.workload_named(pod.namespace, pod.name)
        if workload is not None:
            kind = (workload, container_name)
            self._killed_with[kind] = max(self._killed_with.get(kind, 0), memory)

    def _judge(
        self, actor: str, autoscaler: Autoscaler, entry: ContainerRecommendation
    ) -> Iterator[str]:
        target = amount_of(entry.uncapped_target or entry.target, Resource.MEMORY)
        workload = self.past.target_of(autoscaler.namespace, autoscaler.name)
        if workload is None or self._has_older_history(autoscaler, entry):
            return
        most = self._most((workload, entry.container_name), autoscaler)
        if target > most:
            where = f"{autoscaler.namespace}/{autoscaler.name} {entry.container_name}"
            yield f"{actor} published {target} bytes for {where}; nothing explains over {most}"

    def _has_older_history(self, autoscaler: Autoscaler, entry: ContainerRecommendation) -> bool:
        """Whether a checkpoint holds what was learned before anybody looked."""
        place = (autoscaler.namespace, f"{autoscaler.name}-{entry.container_name}")
        return place not in self._saved and self.world.checkpoints.find(*place) is not None

    def _most(self, kind: tuple[WorkloadName, str], autoscaler: Autoscaler) -> int:
        used = self._used.get(kind, 0)
        needed = float(used)
        if kind in self._killed_with:
            had = max(self._killed_with[kind], used)
            policy, usage = policy_for(autoscaler.policies, kind[1]), self.rules.usage
            own_ratio = None if policy is None else policy.oom_bump_up_ratio
            own_bytes = None if policy is None else policy.oom_min_bump_up_bytes
            by_ratio = had * max(own_ratio or 0.0, usage.oom_bump_up_ratio)
            by_bytes = had + max(own_bytes or 0, usage.oom_min_bump_up_bytes)
            needed = max(by_ratio, by_bytes)
        estimate = (needed * _BUCKET_GROWTH + _FIRST_BUCKET_BYTES) * (1 + self.rules.safety_margin)
        return max(int(estimate), RecommendationSettings().memory.pod_floor)


def _request_of(pod: Pod, container_name: str) -> int:
    """The most that a container may seem to have asked for when it was killed."""
    found = [container for container in pod.containers if container.name == container_name]
    return max(map(_largest_request, found), default=0)


def _largest_request(container: Container) -> int:
    asked = (container.spec.requests, container.current.requests)
    return max(amount_of(amounts, Resource.MEMORY) for amounts in asked)
