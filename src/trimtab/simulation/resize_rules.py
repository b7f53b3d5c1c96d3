"""What the API server accepts as a resize of a pod, whatever its kubelet will say."""

from collections.abc import Iterator
from dataclasses import replace

from trimtab.api.statuses import Cause
from trimtab.core.pods import Container, ContainerKind, Pod
from trimtab.core.qos import qos_class
from trimtab.core.records import dataclass
from trimtab.core.resources import BOTH, Resource, Resources
from trimtab.simulation.objects import Node
from trimtab.simulation.totals import resource_total


@dataclass(frozen=True, slots=True)
class ResizeRules:
    """What differs between versions of Kubernetes; by default as in 1.34 and 1.35."""

    memory_limits_may_shrink: bool = True
    """Whether they may without a restart of the container; not so in 1.33."""
    node_must_be_large_enough: bool = False
    """Whether what the node could never give is refused at once; so since 1.36."""


def resized(before: Pod, patched: Pod) -> Pod:
    """The pod with what a resize may change, and all else as it was."""
    specs = {(each.kind, each.index): each.spec for each in patched.containers}
    containers = tuple(
        replace(each, spec=specs[each.kind, each.index]) for each in before.containers
    )
    return replace(before, containers=containers)


def find_resize_flaws(before: Pod, after: Pod, rules: ResizeRules) -> list[Cause]:
    """What is wrong with a resize, by field; nothing if it may be."""
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


def exceeds_node(pod: Pod, node: Node) -> bool:
    """Whether a pod requests more than its node has, even if it were alone there."""
    return any(resource_total(pod, kind) > node.capacity.get(kind, 0) for kind in BOTH)


def _qos(pod: Pod) -> str:
    return qos_class(container.spec for container in pod.containers)


def _tells_resources(pod: Pod) -> bool:
    """Whether the kubelet says what containers have, which those that cannot resize do not."""
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
