"""Creation of pods: defaults, the webhook, validation, limit ranges and quotas.

The webhook is the real admission function. When it does not answer, or its patch does not apply,
the pod is created unchanged, as the failure policy Ignore demands.
"""

from collections.abc import Awaitable, Callable

from msgspec import structs

from trimtab.cluster.errors import ApiError
from trimtab.core.model.json_patch import Patch
from trimtab.core.model.pods import (
    Allocation,
    Container,
    ContainerKind,
    OwnerReference,
    Pod,
    PodPhase,
)
from trimtab.core.model.resources import BOTH
from trimtab.simulation.api_server.json_patch import PatchError, apply_patch
from trimtab.simulation.api_server.quotas import find_quota_flaw
from trimtab.simulation.api_server.requests import conflict, forbidden, invalid
from trimtab.simulation.world import limit_ranges
from trimtab.simulation.world.facts import PodCreated, PodRefused
from trimtab.simulation.world.objects import ContainerTemplate, PodTemplate
from trimtab.simulation.world.world import World

Webhook = Callable[[Pod], Awaitable[Patch | None]]
"""Calls the admission controller; None if it does not answer."""


class Admitting:
    """The part of the API server that creates pods."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.webhooks: list[Webhook] = []
        """The copies of the admission controller that answer now, called in turn."""
        self._turn = 0
        self.outages = 0
        """Number of active faults that make the webhook unreachable."""
        self.later_webhooks: list[Callable[[Pod, Pod], Pod]] = []
        """Webhooks called after ours, with the pod before our patch and the pod so far."""

    async def create_pod(
        self, namespace: str, name: str, template: PodTemplate, owner: OwnerReference | None
    ) -> Pod:
        """Create a pod; raise ForbiddenError if limit ranges or quotas do not allow it."""
        request = f"create pods {namespace}/{name}"
        wanted = self._render(namespace, name, template, owner)
        return await self._create(request, wanted, template)

    async def create_copy(self, original: Pod, name: str) -> Pod:
        """Create a pod from the manifest of another one, as `kubectl get -o yaml` prints it.

        Its author has put back the requests of the template, and limits equal to them. The
        manifest holds the status of the other pod: the server ignores it, but a webhook sees it.
        """
        template = self._world.templates[original.uid]
        request = f"create pods {original.namespace}/{name}"
        copied = structs.replace(
            original,
            name=name,
            uid=self._world.new_uid(),
            resource_version="",
            annotations=dict(template.annotations),
            created_at=None,
            node_name="",
            is_deleting=False,
            containers=_edited(original, template),
        )
        return await self._create(request, copied, template)

    async def _create(self, request: str, wanted: Pod, template: PodTemplate) -> Pod:
        world = self._world
        patch = await self._ask(wanted)
        pod = _without_status(self._changed(wanted, patch))
        self._check(request, _without_status(wanted), pod)
        if world.pods.find(pod.namespace, pod.name) is not None:
            raise conflict(request, "it exists already")
        world.templates[pod.uid] = template
        # Timestamps on the wire have whole seconds.
        created_at = world.now().replace(microsecond=0)
        stored = world.pods.put(structs.replace(pod, created_at=created_at, generation=1))
        world.record(PodCreated(world.now(), wanted, stored, patch or (), patch is not None))
        return stored

    async def try_out(self, pod: Pod) -> Pod:
        """Return the pod as it would be created now, without creating it."""
        return self._changed(pod, await self._ask(pod))

    async def _ask(self, wanted: Pod) -> Patch | None:
        if not self.webhooks or self.outages:
            return None
        self._turn += 1
        webhook = self.webhooks[self._turn % len(self.webhooks)]
        return await webhook(_as_asked(wanted))

    def _render(
        self, namespace: str, name: str, template: PodTemplate, owner: OwnerReference | None
    ) -> Pod:
        pod = Pod(
            namespace=namespace,
            name=name,
            uid=self._world.new_uid(),
            labels=dict(template.labels),
            annotations=dict(template.annotations),
            owner=owner,
            phase=PodPhase.PENDING,
            containers=_render_containers(template.containers),
            placement=template.placement,
        )
        return limit_ranges.with_defaults(pod, self._world.limit_ranges_in(namespace))

    def _changed(self, wanted: Pod, patch: Patch | None) -> Pod:
        try:
            pod = apply_patch(wanted, patch or ())
        except PatchError:
            return wanted
        for webhook in self.later_webhooks:
            pod = webhook(wanted, pod)
        # The server applies defaults once more after webhooks.
        return limit_ranges.with_defaults(pod, self._world.limit_ranges_in(pod.namespace))

    def _check(self, request: str, wanted: Pod, pod: Pod) -> None:
        error = self._find_refusal(request, pod)
        if error is not None:
            own = None if pod is wanted else self._find_refusal(request, wanted)
            own_flaw = "" if own is None else str(own)
            world = self._world
            world.record(PodRefused(world.now(), wanted, pod, str(error), own_flaw))
            raise error

    def _find_refusal(self, request: str, pod: Pod) -> ApiError | None:
        for container in pod.containers:
            try:
                check_limits(request, container)
            except ApiError as error:
                return error
        flaw = limit_ranges.find_limit_range_flaw(pod, self._world.limit_ranges_in(pod.namespace))
        if not flaw:
            flaw = find_quota_flaw(self._world, pod)
        return forbidden(request, flaw) if flaw else None


def _without_status(pod: Pod) -> Pod:
    """Return the pod as the server stores it: without the status of its manifest."""
    if pod.phase is PodPhase.PENDING and pod.started_at is None:
        # Rendered from a template, so it has no status.
        return pod
    return structs.replace(
        pod,
        phase=PodPhase.PENDING,
        started_at=None,
        ready_since=None,
        resize=None,
        unschedulable_since=None,
        containers=tuple(
            Container(
                name=each.name,
                index=each.index,
                kind=each.kind,
                spec=each.spec,
                restarts_on_resize=each.restarts_on_resize,
            )
            for each in pod.containers
        ),
    )


def check_limits(request: str, container: Container) -> None:
    """Raise InvalidError if a container requests more than its limits."""
    requests, limits = container.spec.requests or {}, container.spec.limits or {}
    place = f"spec.{container.kind}[{container.index}].resources"
    for resource in BOTH:
        if requests.get(resource, 0) < 0:
            field = f"{place}.requests[{resource}]"
            raise invalid(request, field, "must be greater than or equal to 0")
        if resource in limits and requests.get(resource, 0) > limits[resource]:
            raise invalid(
                request, f"{place}.requests", f"must be no more than the {resource} limit"
            )


def _as_asked(pod: Pod) -> Pod:
    """Return the pod as a webhook sees it: uids and most names are assigned later."""
    is_named = pod.owner is None or pod.owner.kind == "StatefulSet"
    return structs.replace(pod, uid="", name=pod.name if is_named else "")


def _edited(pod: Pod, template: PodTemplate) -> tuple[Container, ...]:
    asked = {each.name: each.allocation.requests for each in template.containers}
    return tuple(
        structs.replace(each, spec=Allocation(asked.get(each.name), asked.get(each.name)))
        for each in pod.containers
    )


def _render_containers(templates: tuple[ContainerTemplate, ...]) -> tuple[Container, ...]:
    by_kind = {kind: [each for each in templates if each.kind is kind] for kind in ContainerKind}
    return tuple(
        Container(
            name=template.name,
            index=index,
            kind=kind,
            spec=template.allocation,
            restarts_on_resize=frozenset(BOTH if template.restarts_on_resize else ()),
        )
        for kind, siblings in by_kind.items()
        for index, template in enumerate(siblings)
    )
