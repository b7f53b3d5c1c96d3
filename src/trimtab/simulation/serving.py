"""What the simulated API server does with a component's requests: the acts, and their refusals.

Each act is one moment: it happens whole or is refused, as the real server would refuse it.
"""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Final

from trimtab.api.checkpoints import Checkpoint
from trimtab.api.events import Event
from trimtab.api.leases import Lease
from trimtab.core.autoscalers import Autoscaler, Condition, ContainerRecommendation
from trimtab.core.operations import Patch
from trimtab.core.pods import Pod, PodPhase
from trimtab.core.resources import BOTH
from trimtab.simulation.admitting import check_limits, find_quota_flaw
from trimtab.simulation.facts import (
    CheckpointDeleted,
    CheckpointSaved,
    EventEmitted,
    LeaseWritten,
    PodEvicted,
    PodGone,
    PodPatched,
    PodResized,
    StatusPublished,
)
from trimtab.simulation.objects import DisruptionBudget
from trimtab.simulation.patching import PatchError, apply_patch
from trimtab.simulation.refusals import conflict, forbidden, invalid, not_found, over_budget
from trimtab.simulation.world import World

GRACE: Final = timedelta(seconds=5)
"""How long a pod takes to end."""


class Serving:
    """The API server, as far as components act on it."""

    def __init__(self, world: World) -> None:
        self._world = world

    # Pods

    def delete_pod(self, pod: Pod) -> None:
        """Let a pod end gracefully."""
        world = self._world
        current = world.pods.find(pod.namespace, pod.name)
        if current is None or current.uid != pod.uid or current.is_deleting:
            return
        world.pods.put(replace(current, is_deleting=True))
        loop = asyncio.get_running_loop()
        loop.call_later(GRACE.total_seconds(), self._remove, pod)

    def evict(self, actor: str, pod: Pod) -> None:
        """Evict a pod, if it is in the version that was seen and its budgets allow it."""
        request = f"evict pods {pod.namespace}/{pod.name}"
        current = self._find(request, pod)
        if current.uid != pod.uid or current.resource_version != pod.resource_version:
            raise conflict(request)
        for budget in self._world.budgets:
            if _protects(budget, current) and not self._allows(budget, current):
                raise over_budget(request, budget.name)
        self._world.tell(PodEvicted(self._world.now(), actor, current))
        self.delete_pod(current)

    def resize(self, actor: str, pod: Pod, patch: Patch) -> None:
        """Change the resources in a pod's spec; the kubelet does the rest."""
        request = f"resize pods {pod.namespace}/{pod.name}"
        before = self._find(request, pod)
        after = _patched(request, before, pod, patch)
        for container in after.containers:
            check_limits(request, container)
        if _is_guaranteed(before) != _is_guaranteed(after):
            raise invalid(request, "spec", "the QoS class of a pod must not change")
        if flaw := find_quota_flaw(self._world, after, (before,)):
            raise forbidden(request, flaw)
        after = self._world.pods.put(after)
        self._world.tell(PodResized(self._world.now(), actor, before, after))

    def patch_pod(self, actor: str, pod: Pod, patch: Patch) -> None:
        """Change the metadata of a pod."""
        request = f"patch pods {pod.namespace}/{pod.name}"
        before = self._find(request, pod)
        after = self._world.pods.put(_patched(request, before, pod, patch))
        self._world.tell(PodPatched(self._world.now(), actor, before, after))

    # Autoscalers

    def publish_status(
        self,
        actor: str,
        autoscaler: Autoscaler,
        recommendation: tuple[ContainerRecommendation, ...],
        conditions: tuple[Condition, ...],
    ) -> None:
        """Replace the status of an autoscaler."""
        world = self._world
        before = world.autoscalers.find(autoscaler.namespace, autoscaler.name)
        if before is None:
            raise not_found(f"publish {autoscaler.namespace}/{autoscaler.name}")
        after = world.autoscalers.put(
            replace(
                before,
                recommendation=recommendation,
                conditions=conditions,
                observed_generation=autoscaler.generation,
            )
        )
        world.tell(StatusPublished(world.now(), actor, before, after))

    def publish_conditions(
        self, actor: str, autoscaler: Autoscaler, conditions: tuple[Condition, ...]
    ) -> None:
        """Replace the conditions of an autoscaler that is still the one that was seen."""
        world = self._world
        request = f"publish {autoscaler.namespace}/{autoscaler.name}"
        before = world.autoscalers.find(autoscaler.namespace, autoscaler.name)
        if before is None:
            raise not_found(request)
        if before.resource_version != autoscaler.resource_version:
            raise conflict(request)
        after = world.autoscalers.put(replace(before, conditions=conditions))
        world.tell(StatusPublished(world.now(), actor, before, after))

    def save_checkpoint(self, actor: str, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, new or not."""
        world, name = self._world, checkpoint.written_name
        before = world.checkpoints.find(checkpoint.namespace, name)
        after = world.checkpoints.put(replace(checkpoint, name=name))
        world.tell(CheckpointSaved(world.now(), actor, before, after))

    def delete_checkpoint(self, actor: str, namespace: str, name: str) -> None:
        """Delete a checkpoint, if it is there."""
        world = self._world
        found = world.checkpoints.find(namespace, name)
        if found is not None:
            world.checkpoints.delete(namespace, name)
            world.tell(CheckpointDeleted(world.now(), actor, found))

    # All else

    def write_lease(self, actor: str, lease: Lease) -> Lease:
        """Create a lease, or replace the version that it names."""
        world = self._world
        request = f"write_lease {lease.namespace}/{lease.name}"
        current = world.leases.find(lease.namespace, lease.name)
        if lease.resource_version and current is None:
            raise not_found(request)
        if current is not None and current.resource_version != lease.resource_version:
            raise conflict(request)
        created = world.now() if current is None else current.created_at
        stored = world.leases.put(replace(lease, created_at=created))
        world.tell(LeaseWritten(world.now(), actor, stored))
        return stored

    def emit(self, actor: str, event: Event) -> None:
        """Take note of an event."""
        self._world.tell(EventEmitted(self._world.now(), actor, event))

    def _find(self, request: str, pod: Pod) -> Pod:
        current = self._world.pods.find(pod.namespace, pod.name)
        if current is None:
            raise not_found(request)
        return current

    def _remove(self, pod: Pod) -> None:
        world = self._world
        current = world.pods.find(pod.namespace, pod.name)
        if current is not None and current.uid == pod.uid:
            world.pods.delete(pod.namespace, pod.name)
            world.tell(PodGone(world.now(), current))

    def _allows(self, budget: DisruptionBudget, pod: Pod) -> bool:
        """Whether the budget lets one more pod go; one that is not ready is down already."""
        protected = [each for each in self._world.pods if _protects(budget, each)]
        healthy = [each for each in protected if each.ready_since and not each.is_deleting]
        if pod.ready_since is None:
            return len(healthy) >= self._needed(budget, protected)
        return len(healthy) - 1 >= self._needed(budget, protected)

    def _needed(self, budget: DisruptionBudget, protected: list[Pod]) -> int:
        if budget.min_available is not None:
            return budget.min_available
        owners = [self._world.find_owner(each.namespace, each.owner) for each in protected]
        expected = {owner.uid: owner.replicas or 0 for owner in owners if owner is not None}
        return sum(expected.values()) - (budget.max_unavailable or 0)


def _patched(request: str, current: Pod, seen: Pod, patch: Patch) -> Pod:
    if current.uid != seen.uid:
        raise conflict(request)
    try:
        return apply_patch(current, patch)
    except PatchError as error:
        raise conflict(request, f"the patch does not apply: {error}") from error


def _protects(budget: DisruptionBudget, pod: Pod) -> bool:
    return (
        budget.namespace == pod.namespace
        and pod.phase is not PodPhase.PENDING
        and budget.selector.matches(pod.labels)
    )


def _is_guaranteed(pod: Pod) -> bool:
    """Whether every container is limited to just what it requests, of both resources."""
    return all(
        resource in (container.spec.limits or {})
        and (container.spec.limits or {})[resource] == (container.spec.requests or {}).get(resource)
        for container in pod.containers
        for resource in BOTH
    )
