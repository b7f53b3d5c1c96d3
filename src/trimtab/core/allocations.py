"""What the recommendation gives each container of a pod: requests, and the limits that follow."""

from collections.abc import Mapping, Sequence

import msgspec

from trimtab.core.autoscalers import (
    Autoscaler,
    ContainerMode,
    ControlledValues,
    UpdateMode,
    policy_for,
    scales,
)
from trimtab.core.limit_ranges import LimitRangeItem, LimitRangeType, effective_item
from trimtab.core.limits import NO_AMOUNTS, proportional_limits
from trimtab.core.notes import Note
from trimtab.core.pods import Container, Pod
from trimtab.core.policy import Capped, cap_for_pod
from trimtab.core.resources import Resources


class Allotment(msgspec.Struct, frozen=True):
    """What one container should get, and what was done to it on the way."""

    requests: Resources = msgspec.field(default_factory=dict)
    limits: Resources = msgspec.field(default_factory=dict)
    notes: tuple[Note, ...] = ()


def recommended_for_pod(
    pod: Pod,
    autoscaler: Autoscaler,
    limit_ranges: Sequence[LimitRangeItem] = (),
    capped: Capped | None = None,
) -> Mapping[str, Allotment]:
    """By container what the autoscaler's recommendation comes to; nothing in mode Off.

    A container in mode Off gets nothing either: what is recommended for it dates from before. Who
    has `capped` the recommendation for the pod already may bring it along.
    """
    if autoscaler.mode is UpdateMode.OFF or autoscaler.recommendation is None:
        return {}
    if capped is None:
        capped = cap_for_pod(
            autoscaler.recommendation, pod, autoscaler.policies, limit_ranges, autoscaler.held
        )
    item = effective_item(limit_ranges, LimitRangeType.CONTAINER)
    default = None if item is None else item.default
    found = {entry.container_name: entry for entry in reversed(capped.recommendations)}
    allotted, policies = {}, autoscaler.policies
    for container in pod.containers:
        name = container.name
        entry, policy = found.get(name), policy_for(policies, name) if policies else None
        if entry is None or (policy is not None and policy.mode is ContainerMode.OFF):
            continue
        notes = capped.notes.get(name, ())
        if policy is None or policy.controlled_values is ControlledValues.REQUESTS_AND_LIMITS:
            scaled = proportional_limits(container.proportions, entry.target, default)
            allotted[name] = Allotment(entry.target, scaled.limits, (*notes, *scaled.notes))
        else:
            allotted[name] = Allotment(entry.target, NO_AMOUNTS, notes)
    return allotted


def controls_limits(autoscaler: Autoscaler, container: Container) -> bool:
    """Whether the container's limits follow its requests."""
    policy = policy_for(autoscaler.policies, container.name)
    return policy is None or policy.controlled_values is ControlledValues.REQUESTS_AND_LIMITS


def is_off(autoscaler: Autoscaler, container: Container) -> bool:
    """Whether the container is not to be scaled."""
    policies = autoscaler.policies
    return bool(policies) and not scales(policies, container.name)
