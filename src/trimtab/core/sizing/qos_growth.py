"""Growth up to the limits that leaves a pod in its QoS class.

A pod whose requests all reach their limits would become Guaranteed, and the API server refuses a
resize into another class. One millicore less, or one byte, keeps the class: a pod that grows so far
is neither held nor evicted for the rest.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from trimtab.core.model import autoscalers, limits
from trimtab.core.model.autoscalers import Autoscaler, ContainerRecommendation
from trimtab.core.model.cap_notes import Note, NoteKind
from trimtab.core.model.limits import NO_AMOUNTS, QosClass
from trimtab.core.model.pods import Container, Pod, TargetResources
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.sizing.capping import Capped
from trimtab.core.sizing.container_resources import overlaid

Sizing: TypeAlias = Callable[[Capped], TargetResources]
"""Function that returns what a resize asks for by a capped recommendation."""


def keep_class(pod: Pod, autoscaler: Autoscaler, capped: Capped, size: Sizing) -> Capped:
    """Return the recommendation with one target a step lower, if only that keeps the class.

    No target goes below what a policy or a LimitRange demands.
    """
    if not _may_become_guaranteed(pod) or not _becomes_guaranteed(pod, wanted := size(capped)):
        return capped
    for container, kind in _growing(pod, wanted):
        lowered = _lowered(capped, container.name, kind)
        asked = (wanted[container.name].requests or NO_AMOUNTS)[kind]
        is_least = asked <= _least(autoscaler, container.name, kind)
        is_raised = Note(kind, NoteKind.LIMIT_RANGE_MIN) in capped.notes.get(container.name, ())
        if not (is_least or is_raised or _becomes_guaranteed(pod, size(lowered))):
            return lowered
    return capped


def _least(autoscaler: Autoscaler, name: str, kind: Resource) -> int:
    policy = autoscalers.policy_for(autoscaler.policies, name)
    return limits.amount_of(None if policy is None else policy.min_allowed, kind)


def _may_become_guaranteed(pod: Pod) -> bool:
    """Return True if all has a limit and some request is below; of most pods that is False."""
    has_all = all((each.spec.limits or NO_AMOUNTS).keys() >= set(BOTH) for each in pod.containers)
    return has_all and limits.qos_class(each.spec for each in pod.containers) is QosClass.BURSTABLE


def _becomes_guaranteed(pod: Pod, wanted: TargetResources) -> bool:
    after = (overlaid(each.spec, wanted.get(each.name)) for each in pod.containers)
    return limits.qos_class(after) is QosClass.GUARANTEED


def _growing(pod: Pod, wanted: TargetResources) -> Iterator[tuple[Container, Resource]]:
    """Yield all that grows from below its limit, CPU first: lowered by a step, it is no shrink."""
    for kind in BOTH:
        for container in pod.containers:
            asked = wanted.get(container.name)
            before = (container.spec.requests or container.spec.limits or NO_AMOUNTS).get(kind)
            after = None if asked is None else (asked.requests or NO_AMOUNTS).get(kind)
            if before is not None and after is not None and after > before:
                yield container, kind


def _lowered(capped: Capped, name: str, kind: Resource) -> Capped:
    note = Note(kind, NoteKind.QOS_CLASS)
    return Capped(
        tuple(
            _a_step_lower(entry, kind) if entry.container_name == name else entry
            for entry in capped.recommendations
        ),
        {**capped.notes, name: (*capped.notes.get(name, ()), note)},
    )


def _a_step_lower(entry: ContainerRecommendation, kind: Resource) -> ContainerRecommendation:
    """Return the entry with the least possible less, and bounds that include it.

    A second entry for a container, which counts for nothing, may lack the resource.
    """
    if kind not in entry.target:
        return entry
    target = {**entry.target, kind: entry.target[kind] - 1}
    lower = entry.lower_bound
    if lower is not None and kind in lower:
        lower = {**lower, kind: min(lower[kind], target[kind])}
    return replace(entry, target=target, lower_bound=lower)
