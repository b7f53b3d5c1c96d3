"""Write requests of components, as the simulated API server carries out or refuses them.

Each request is atomic: it takes effect as a whole, or is refused as the real server refuses it.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from http import HTTPStatus
from typing import Final

from msgspec import structs

from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.api.kinds.events import Event
from trimtab.api.kinds.leases import Lease
from trimtab.api.wire.status_errors import Cause
from trimtab.api.wire.watch_events import ObjectName
from trimtab.core.model import pods
from trimtab.core.model.autoscalers import (
    Autoscaler,
    AutoscalerName,
    Condition,
    ContainerRecommendation,
)
from trimtab.core.model.json_patch import Patch
from trimtab.core.model.limits import qos_class
from trimtab.core.model.pods import Container, ContainerKind, Pod
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.simulation.api_server.disruption_budgets import DisruptionBudgets
from trimtab.simulation.api_server.json_patch import PatchError, apply_patch
from trimtab.simulation.api_server.quotas import find_quota_flaw
from trimtab.simulation.api_server.requests import conflict, forbidden, invalid, not_found, refuse
from trimtab.simulation.world import limit_ranges, objects
from trimtab.simulation.world.facts import (
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
from trimtab.simulation.world.objects import ENDED, NodeObject
from trimtab.simulation.world.world import World


@dataclass(frozen=True, slots=True)
class ResizeRules:
    """Differences between versions of Kubernetes; the defaults are those of 1.34 and 1.35."""

    memory_limits_may_shrink: bool = True
    """True if they may shrink without a restart of the container; false in 1.33."""
    node_must_be_large_enough: bool = False
    """True if the server refuses requests above the node's capacity; true since 1.36."""


def resized(before: Pod, patched: Pod) -> Pod:
    """Return the pod with the patched container resources, and all else unchanged."""
    specs = {(each.kind, each.index): each.spec for each in patched.containers}
    containers = tuple(
        structs.replace(each, spec=specs[each.kind, each.index]) for each in before.containers
    )
    return structs.replace(before, containers=containers)


def find_resize_flaws(before: Pod, after: Pod, rules: ResizeRules) -> list[Cause]:
    """Return the flaws of a resize, by field; empty if it is valid."""
    flaws = []
    if _qos(before) is not _qos(after):
        message = "Pod QOS Class may not change as a result of resizing"
        flaws.append(Cause("FieldValueInvalid", message, "spec"))
    if not _tells_resources(before):
        message = "Pod running on node without support for resize"
        flaws.append(Cause("FieldValueForbidden", message, "spec"))
    for one, other in zip(before.containers, after.containers, strict=True):
        flaws += _find_container_flaws(one, other, rules)
    return flaws


def exceeds_node(pod: Pod, node: NodeObject) -> bool:
    """Return True if a pod requests more than the whole capacity of its node."""
    return any(objects.resource_total(pod, kind) > node.capacity.get(kind, 0) for kind in BOTH)


def _qos(pod: Pod) -> str:
    return qos_class(container.spec for container in pod.containers)


def _tells_resources(pod: Pod) -> bool:
    """Return True if the status has container resources; old kubelets do not report them."""
    regular = [each for each in pod.containers if each.kind is ContainerKind.REGULAR]
    running = next((each for each in regular if each.is_running), None)
    return running is None or running.status is not None


def _find_container_flaws(
    before: Container, after: Container, rules: ResizeRules
) -> Iterator[Cause]:
    path = f"spec.{before.kind}[{before.index}].resources"
    requests, limits = after.spec.requests or {}, after.spec.limits or {}
    if _lacks(requests, before.spec.requests):
        message = "resource requests cannot be removed"
        yield Cause("FieldValueForbidden", message, f"{path}.requests")
    if _lacks(limits, before.spec.limits):
        yield Cause("FieldValueForbidden", "resource limits cannot be removed", f"{path}.limits")
    for kind in BOTH:
        if requests.get(kind, 0) < 0:
            message = "must be greater than or equal to 0"
            yield Cause("FieldValueInvalid", message, f"{path}.requests[{kind}]")
        if kind in limits and requests.get(kind, 0) > limits[kind]:
            message = f"must be less than or equal to {kind} limit"
            yield Cause("FieldValueInvalid", message, f"{path}.requests")
    if not rules.memory_limits_may_shrink and not before.restarts_on_resize:
        was = (before.spec.limits or {}).get(Resource.MEMORY, 0)
        if limits.get(Resource.MEMORY, was) < was:
            message = "memory limits cannot be decreased unless resizePolicy is RestartContainer"
            yield Cause("FieldValueForbidden", message, f"{path}.limits[memory]")


def _lacks(amounts: Resources, before: Resources | None) -> bool:
    return any(kind not in amounts for kind in before or {})


GRACE: Final = timedelta(seconds=5)
"""Time that a pod takes to end."""


class Serving:
    """The API server, as far as components write to it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._budgets = DisruptionBudgets(world)
        self.resize_rules = ResizeRules()

    # Pods

    def delete_pod(self, pod: Pod) -> None:
        """Delete a pod gracefully; one that does not run is removed at once."""
        world = self._world
        current = world.pods.find(pod.namespace, pod.name)
        if current is None or current.uid != pod.uid or current.is_deleting:
            return
        if not current.node_name or current.phase in ENDED:
            self.remove_pod(current)
            return
        world.pods.put(
            structs.replace(current, is_deleting=True, generation=current.generation + 1)
        )
        self._remove_later(current)

    def remove_pod(self, pod: Pod) -> None:
        """Remove a pod at once, even if its containers still run."""
        world = self._world
        current = world.pods.find(pod.namespace, pod.name)
        if current is not None and current.uid == pod.uid:
            world.pods.delete(pod.namespace, pod.name)
            world.record(PodGone(world.now(), current))

    def evict(self, actor: str, pod: Pod) -> None:
        """Evict a pod, if its budgets allow it and it has not changed."""
        request = f"evict pods {pod.namespace}/{pod.name}"
        current = self._find(request, pod)
        self._budgets.grant(request, current)
        if current.uid != pod.uid or current.resource_version != pod.resource_version:
            raise conflict(request)
        if not current.is_deleting:
            self._world.record(PodEvicted(self._world.now(), actor, current))
            self.delete_pod(current)

    def try_eviction(self, actor: str, pod: Pod) -> None:
        """Raise the error that an eviction of the pod would raise, without evicting it."""
        del actor
        request = f"evict pods {pod.namespace}/{pod.name}"
        current = self._find(request, pod)
        self._budgets.check(request, current)
        if current.uid != pod.uid or current.resource_version != pod.resource_version:
            raise conflict(request)

    def resize(self, actor: str, pod: Pod, patch: Patch) -> None:
        """Change the resources in a pod's spec, if they are still those that were seen.

        The kubelet does the rest.
        """
        request = f"resize pods {pod.namespace}/{pod.name}"
        before = self._find(request, pod)
        if before.uid != pod.uid or not pods.asks_for_same(before, pod):
            raise conflict(request, "the pod asks for another size")
        try:
            patched = apply_patch(before, patch)
        except PatchError as error:
            # The size is the one that was seen, so the patch itself is at fault.
            code = HTTPStatus.UNPROCESSABLE_ENTITY
            raise refuse(request, code, f"the patch does not apply: {error}") from error
        after = resized(before, patched)
        # Limit ranges do not apply to pods that are being deleted.
        ranges = [] if before.is_deleting else self._world.limit_ranges_in(before.namespace)
        after = limit_ranges.with_defaults(after, ranges)
        if flaws := find_resize_flaws(before, after, self.resize_rules):
            raise refuse(request, HTTPStatus.UNPROCESSABLE_ENTITY, flaws[0].message, *flaws)
        flaw = limit_ranges.find_limit_range_flaw(after, ranges)
        if not flaw:
            flaw = find_quota_flaw(self._world, after, before=before)
        if flaw:
            raise forbidden(request, flaw)
        self._check_node(request, after)
        if after != before:
            after = structs.replace(after, generation=before.generation + 1)
            after = self._world.pods.put(after)
        self._world.record(PodResized(self._world.now(), actor, before, after))

    def patch_pod(self, actor: str, pod: Pod, patch: Patch) -> None:
        """Change the metadata of a pod."""
        request = f"patch pods {pod.namespace}/{pod.name}"
        before = self._find(request, pod)
        after = _patched(request, before, pod, patch)
        if after.containers != before.containers:
            raise invalid(request, "spec", "pod updates may not change these fields")
        if after != before:
            after = self._world.pods.put(after)
        self._world.record(PodPatched(self._world.now(), actor, before, after))

    def list_labelled(self, actor: str, namespace: str, label: str, value: str) -> list[Pod]:
        """List the pods of a namespace with that label."""
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
        world.record(StatusPublished(world.now(), actor, before, after))

    def publish_conditions(
        self, actor: str, autoscaler: Autoscaler, conditions: tuple[Condition, ...]
    ) -> None:
        """Replace the conditions of an autoscaler that has not changed."""
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
        world.record(StatusPublished(world.now(), actor, before, after))

    def save_checkpoint(self, actor: str, checkpoint: Checkpoint) -> None:
        """Create or replace a checkpoint."""
        world, name = self._world, checkpoint.written_name
        before = world.checkpoints.find(checkpoint.namespace, name)
        version = "" if before is None else before.resource_version
        after = replace(checkpoint, name=name, resource_version=version)
        if after != before:
            after = world.checkpoints.put(after)
        world.record(CheckpointSaved(world.now(), actor, before, after))

    def has_autoscaler(self, actor: str, name: AutoscalerName) -> bool:
        """Return True if the autoscaler exists, readable or not."""
        del actor
        autoscalers = self._world.autoscalers
        hidden = ObjectName(name.namespace, name.name) in autoscalers.unreadable
        return hidden or autoscalers.find(name.namespace, name.name) is not None

    def delete_checkpoint(
        self, actor: str, namespace: str, name: str, resource_version: str = ""
    ) -> None:
        """Delete a checkpoint if it exists; a given version must match."""
        world = self._world
        found = world.checkpoints.find(namespace, name)
        if found is not None:
            if resource_version not in ("", found.resource_version):
                raise conflict(f"delete {namespace}/{name}")
            world.checkpoints.delete(namespace, name)
            world.record(CheckpointDeleted(world.now(), actor, found))

    # All else

    def find_lease(self, actor: str, namespace: str, name: str) -> Lease | None:
        """Return the lease of that name; None if there is none."""
        del actor
        return self._world.leases.find(namespace, name)

    def write_lease(self, actor: str, lease: Lease) -> Lease:
        """Create a lease, or replace the version that it names; a deleted one is recreated."""
        world = self._world
        current = world.leases.find(lease.namespace, lease.name)
        if current is not None and current.resource_version != lease.resource_version:
            raise conflict(f"write_lease {lease.namespace}/{lease.name}")
        created = world.now().replace(microsecond=0) if current is None else current.created_at
        stored = replace(lease, created_at=created)
        if stored != current:
            stored = world.leases.put(stored)
        world.record(LeaseWritten(world.now(), actor, stored))
        return stored

    def emit(self, actor: str, event: Event) -> None:
        """Record an event."""
        self._world.record(EventEmitted(self._world.now(), actor, event))

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
            # The lost node cannot confirm that the pod has ended, so the pod stays.
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
    """Return the conditions as the server stores them, with whole seconds."""
    return tuple(
        replace(each, last_transition_time=each.last_transition_time.replace(microsecond=0))
        if each.last_transition_time is not None
        else each
        for each in conditions
    )
