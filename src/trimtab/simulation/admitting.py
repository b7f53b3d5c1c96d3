"""How a pod comes into the world: defaults, the webhook, limit ranges, quotas, in this order.

The webhook is the real admission function. When it does not answer, or its patch does not apply,
the pod comes in as it is, which is what the failure policy Ignore means.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from trimtab.core.limit_ranges import LimitRangeItem, LimitRangeType, effective_item
from trimtab.core.operations import Patch
from trimtab.core.pods import Allocation, Container, ContainerKind, OwnerReference, Pod, PodPhase
from trimtab.core.resources import BOTH, Resource, Resources
from trimtab.simulation.facts import PodCreated
from trimtab.simulation.objects import ContainerTemplate, PodTemplate
from trimtab.simulation.patching import PatchError, apply_patch
from trimtab.simulation.refusals import conflict, forbidden, invalid
from trimtab.simulation.totals import resource_total
from trimtab.simulation.world import World

Webhook = Callable[[Pod], Awaitable[Patch | None]]
"""Asks the admission controller; None if it does not answer."""


class Admitting:
    """The API server's way of creating pods."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.webhook: Webhook | None = None
        self.undo: Callable[[Pod, Pod], Pod] | None = None
        """Another webhook that comes after ours, given the pod before and after our patch."""

    async def create_pod(
        self, namespace: str, name: str, template: PodTemplate, owner: OwnerReference | None
    ) -> Pod:
        """Create a pod; ForbiddenError if limit ranges or quotas do not allow it."""
        world = self._world
        request = f"create pods {namespace}/{name}"
        wanted = self._render(namespace, name, template, owner)
        patch = None if self.webhook is None else await self.webhook(wanted)
        pod = self._changed(wanted, patch)
        self._check(request, pod)
        if world.pods.find(namespace, name) is not None:
            raise conflict(request, "it exists already")
        world.templates[pod.uid] = template
        stored = world.pods.put(replace(pod, created_at=world.now()))
        world.tell(PodCreated(world.now(), wanted, stored, patch or (), patch is not None))
        return stored

    def _render(
        self, namespace: str, name: str, template: PodTemplate, owner: OwnerReference | None
    ) -> Pod:
        items = self._items(namespace)
        return Pod(
            namespace=namespace,
            name=name,
            uid=self._world.new_uid(),
            labels=dict(template.labels),
            annotations=dict(template.annotations),
            owner=owner,
            phase=PodPhase.PENDING,
            containers=tuple(_render_containers(template.containers, items)),
        )

    def _changed(self, wanted: Pod, patch: Patch | None) -> Pod:
        try:
            pod = apply_patch(wanted, patch or ())
        except PatchError:
            return wanted
        return pod if self.undo is None else self.undo(wanted, pod)

    def _items(self, namespace: str) -> list[LimitRangeItem]:
        found = [each for each in self._world.limit_ranges if each.namespace == namespace]
        return [item for each in found for item in each.items]

    def _check(self, request: str, pod: Pod) -> None:
        for container in pod.containers:
            check_limits(request, container)
        flaw = find_limit_range_flaw(pod, self._items(pod.namespace))
        if flaw:
            raise forbidden(request, flaw)
        flaw = find_quota_flaw(self._world, pod, ())
        if flaw:
            raise forbidden(request, flaw)


def check_limits(request: str, container: Container) -> None:
    """InvalidError if a container asks for more than it may have."""
    requests, limits = container.spec.requests or {}, container.spec.limits or {}
    for resource in BOTH:
        if resource in limits and requests.get(resource, 0) > limits[resource]:
            field = f"spec.{container.kind}[{container.index}].resources.requests"
            raise invalid(request, field, f"must be no more than the {resource} limit")


def find_limit_range_flaw(pod: Pod, items: list[LimitRangeItem]) -> str:
    """What about a pod no limit range allows; nothing if all is well."""
    per_container = effective_item(items, LimitRangeType.CONTAINER)
    if per_container is not None:
        for container in pod.containers:
            flaw = _outside(per_container, container.spec.requests, container.spec.limits)
            if flaw:
                return f"container {container.name}: {flaw}"
    per_pod = effective_item(items, LimitRangeType.POD)
    if per_pod is None:
        return ""
    requests = {resource: resource_total(pod, resource) for resource in BOTH}
    limits = {resource: _limit_total(pod, resource) for resource in BOTH}
    return _outside(per_pod, requests, {kind: total for kind, total in limits.items() if total})


def find_quota_flaw(world: World, pod: Pod, replaced: tuple[Pod, ...]) -> str:
    """Which quota a pod would exceed, if it came in the place of others; nothing if none."""
    quotas = [quota for quota in world.quotas if quota.namespace == pod.namespace]
    if not quotas:
        return ""
    gone = {each.uid for each in replaced}
    others = [
        each
        for each in world.pods
        if each.namespace == pod.namespace
        and each.uid not in gone
        and each.phase not in (PodPhase.SUCCEEDED, PodPhase.FAILED)
    ]
    for quota in quotas:
        for resource, most in quota.requests.items():
            used = sum(resource_total(each, resource) for each in others)
            if used + resource_total(pod, resource) > most:
                return f"exceeded quota: {quota.name}, {resource}"
    return ""


def _render_containers(
    templates: tuple[ContainerTemplate, ...], items: list[LimitRangeItem]
) -> list[Container]:
    defaults = effective_item(items, LimitRangeType.CONTAINER)
    by_kind = {kind: [each for each in templates if each.kind is kind] for kind in ContainerKind}
    return [
        Container(
            name=template.name,
            index=index,
            kind=kind,
            spec=_with_defaults(template.allocation, defaults),
            restarts_on_resize=template.restarts_on_resize,
        )
        for kind, siblings in by_kind.items()
        for index, template in enumerate(siblings)
    ]


def _with_defaults(own: Allocation, item: LimitRangeItem | None) -> Allocation:
    default = {} if item is None else (item.default or {})
    limits = {**default, **(own.limits or {})}
    # What has a limit and no request requests its limit.
    requests = {**limits, **(own.requests or {})}
    return Allocation(requests or own.requests, limits or own.limits)


def _outside(item: LimitRangeItem, requests: Resources | None, limits: Resources | None) -> str:
    for resource in BOTH:
        least, most = (item.min or {}).get(resource), (item.max or {}).get(resource)
        request = (requests or {}).get(resource)
        limit = (limits or {}).get(resource)
        if least is not None and (request is None or request < least):
            return f"minimum {resource} usage per {item.type} is {least}"
        if most is not None and (limit is None or limit > most):
            return f"maximum {resource} usage per {item.type} is {most}"
    return ""


def _limit_total(pod: Pod, resource: Resource) -> int:
    limits = [(container.spec.limits or {}).get(resource) for container in pod.containers]
    return sum(limit for limit in limits if limit is not None) if all(limits) else 0
