"""What the simulated API server does with a component's requests: the acts, and their refusals.

Each act is one moment: it happens whole or is refused, as the real server would refuse it.
"""

import asyncio
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from typing import Final

from trimtab.api.checkpoints import Checkpoint
from trimtab.api.events import Event
from trimtab.api.leases import Lease
from trimtab.api.statuses import Cause
from trimtab.api.watch_events import ObjectName
from trimtab.core.autoscalers import (
    Autoscaler,
    AutoscalerName,
    Condition,
    ContainerRecommendation,
)
from trimtab.core.operations import Patch
from trimtab.core.pods import Pod, asks_for_same
from trimtab.simulation.disruption_budgets import DisruptionBudgets
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
from trimtab.simulation.limit_ranging import find_limit_range_flaw, with_defaults
from trimtab.simulation.objects import ENDED
from trimtab.simulation.patching import PatchError, apply_patch
from trimtab.simulation.quotas import find_quota_flaw
from trimtab.simulation.refusals import conflict, forbidden, invalid, not_found, refuse
from trimtab.simulation.resize_rules import (
    ResizeRules,
    exceeds_node,
    find_resize_flaws,
    resized,
)
from trimtab.simulation.world import World

GRACE: Final = timedelta(seconds=5)
"""How long a pod takes to end."""


class Serving:
    """The API server, as far as components act on it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._budgets = DisruptionBudgets(world)
        self.resize_rules = ResizeRules()

    # Pods

    def delete_pod(self, pod: Pod) -> None:
        """Let a pod end gracefully; one that does not run is gone at once."""
        world = self._world
        current = world.pods.find(pod.namespace, pod.name)
        if current is None or current.uid != pod.uid or current.is_deleting:
            return
        if not current.node_name or current.phase in ENDED:
            self.remove_pod(current)
            return
        world.pods.put(replace(current, is_deleting=True))
        self._remove_later(current)

    def remove_pod(self, pod: Pod) -> None:
        """Let a pod be gone at once, whatever still runs of it."""
        world = self._world
        current = world.pods.find(pod.namespace, pod.name)
        if current is not None and current.uid == pod.uid:
            world.pods.delete(pod.namespace, pod.name)
            world.tell(PodGone(world.now(), current))

    def evict(self, actor: str, pod: Pod) -> None:
        """Evict a pod, if its budgets allow it and it is in the version that was seen."""
        request = f"evict pods {pod.namespace}/{pod.name}"
        current = self._find(request, pod)
        self._budgets.grant(request, current)
        if current.uid != pod.uid or current.resource_version != pod.resource_version:
            raise conflict(request)
        if not current.is_deleting:
            self._world.tell(PodEvicted(self._world.now(), actor, current))
            self.delete_pod(current)

    def try_eviction(self, actor: str, pod: Pod) -> None:
        """Refuse what an eviction of the pod would be refused for, and do nothing."""
        del actor
        request = f"evict pods {pod.namespace}/{pod.name}"
        current = self._find(request, pod)
        self._budgets.check(request, current)
        if current.uid != pod.uid or current.resource_version != pod.resource_version:
            raise conflict(request)

    def resize(self, actor: str, pod: Pod, patch: Patch) -> None:
        """Change the resources in a pod's spec, if it asks for what was seen.

        The kubelet does the rest.
        """
        request = f"resize pods {pod.namespace}/{pod.name}"
        before = self._find(request, pod)
        if not asks_for_same(before, pod):
            raise conflict(request, "the pod asks for another size")
        after = resized(before, _patched(request, before, pod, patch))
        # Limit ranges leave alone what is about to go.
        ranges = [] if before.is_deleting else self._world.limit_ranges_in(before.namespace)
        after = with_defaults(after, ranges)
        if flaws := find_resize_flaws(before, after, self.resize_rules):
            raise refuse(request, HTTPStatus.UNPROCESSABLE_ENTITY, flaws[0].message, *flaws)
        flaw = find_limit_range_flaw(after, ranges)
        if not flaw:
            flaw = find_quota_flaw(self._world, after, before=before)
        if flaw:
            raise forbidden(request, flaw)
        self._check_node(request, after)
        if after != before:
            after = self._world.pods.put(after)
        self._world.tell(PodResized(self._world.now(), actor, before, after))

    def patch_pod(self, actor: str, pod: Pod, patch: Patch) -> None:
        """Change the metadata of a pod."""
        request = f"patch pods {pod.namespace}/{pod.name}"
        before = self._find(request, pod)
        after = _patched(request, before, pod, patch)
        if after.containers != before.containers:
            raise invalid(request, "spec", "pod updates may not change these fields")
        if after != before:
            after = self._world.pods.put(after)
        self._world.tell(PodPatched(self._world.now(), actor, before, after))

    def list_labelled(self, actor: str, namespace: str, label: str, value: str) -> list[Pod]:
        """The pods of a namespace with that label."""
        del actor
        found = self._world.pods_by_namespace.under(namespace)
        return [pod for pod in found if pod.labels.get(label) == value]

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
        after = replace(
            before,
            recommendation=recommendation,
            conditions=_written(conditions),
            observed_generation=autoscaler.generation or None,
        )
        if after != before:
            after = world.autoscalers.put(after)
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
        after = replace(before, conditions=_written(conditions))
        if after != before:
            after = world.autoscalers.put(after)
        world.tell(StatusPublished(world.now(), actor, before, after))

    def save_checkpoint(self, actor: str, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, new or not."""
        world, name = self._world, checkpoint.written_name
        before = world.checkpoints.find(checkpoint.namespace, name)
        version = "" if before is None else before.resource_version
        after = replace(checkpoint, name=name, resource_version=version)
        if after != before:
            after = world.checkpoints.put(after)
        world.tell(CheckpointSaved(world.now(), actor, before, after))

    def has_autoscaler(self, actor: str, name: AutoscalerName) -> bool:
        """Return True if the autoscaler exists, readable or not."""
        del actor
        autoscalers = self._world.autoscalers
        hidden = ObjectName(name.namespace, name.name) in autoscalers.unreadable
        return hidden or autoscalers.find(name.namespace, name.name) is not None

    def delete_checkpoint(
        self, actor: str, namespace: str, name: str, resource_version: str = ""
    ) -> None:
        """Delete a checkpoint, if it is there, in the version that is named, if one is."""
        world = self._world
        found = world.checkpoints.find(namespace, name)
        if found is not None:
            if resource_version not in ("", found.resource_version):
                raise conflict(f"delete {namespace}/{name}")
            world.checkpoints.delete(namespace, name)
            world.tell(CheckpointDeleted(world.now(), actor, found))

    # All else

    def find_lease(self, actor: str, namespace: str, name: str) -> Lease | None:
        """The lease of that name, if there is one."""
        del actor
        return self._world.leases.find(namespace, name)

    def write_lease(self, actor: str, lease: Lease) -> Lease:
        """Create a lease, or replace the version that it names; one that is gone comes back."""
        world = self._world
        current = world.leases.find(lease.namespace, lease.name)
        if current is not None and current.resource_version != lease.resource_version:
            raise conflict(f"write_lease {lease.namespace}/{lease.name}")
        created = world.now().replace(microsecond=0) if current is None else current.created_at
        stored = replace(lease, created_at=created)
        if stored != current:
            stored = world.leases.put(stored)
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

    def _remove_later(self, pod: Pod) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(GRACE.total_seconds(), self._end, pod)

    def _end(self, pod: Pod) -> None:
        node = self._world.nodes.find("", pod.node_name)
        if node is not None and not node.is_ready:
            # Nobody says that it has ended, and nobody may take it for ended.
            self._remove_later(pod)
        else:
            self.remove_pod(pod)

    def _check_node(self, request: str, pod: Pod) -> None:
        node = self._world.nodes.find("", pod.node_name)
        if self.resize_rules.node_must_be_large_enough and node and exceeds_node(pod, node):
            cause = Cause("NodeCapacity")
            message = "node didn't have enough allocatable resources"
            raise refuse(request, HTTPStatus.FORBIDDEN, message, cause)


def _patched(request: str, current: Pod, seen: Pod, patch: Patch) -> Pod:
    if current.uid != seen.uid:
        raise conflict(request)
    try:
        return apply_patch(current, patch)
    except PatchError as error:
        raise conflict(request, f"the patch does not apply: {error}") from error


def _written(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """The conditions as they come back: the wire has whole seconds."""
    return tuple(
        replace(each, last_transition_time=each.last_transition_time.replace(microsecond=0))
        if each.last_transition_time is not None
        else each
        for each in conditions
    )
