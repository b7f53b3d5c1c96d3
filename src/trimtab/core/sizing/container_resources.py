"""Recommended resources of each container of a pod: requests, and the limits that follow."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from trimtab.core.model import autoscalers
from trimtab.core.model.autoscalers import Autoscaler, ContainerMode, ControlledValues, UpdateMode
from trimtab.core.model.cap_notes import Note
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType, effective_item
from trimtab.core.model.limits import NO_AMOUNTS, proportional_limits
from trimtab.core.model.pods import PUT_OFF, Allocation, Container, Pod, TargetResources
from trimtab.core.model.resources import BOTH, Resources
from trimtab.core.sizing.capping import Capped, cap_for_pod


class Allotment(msgspec.Struct, frozen=True, gc=False):
    """Resources that one container should get, and notes on what changed them."""

    requests: Resources = msgspec.field(default_factory=dict)
    limits: Resources = msgspec.field(default_factory=dict)
    notes: tuple[Note, ...] = ()


def recommended_for_pod(
    pod: Pod,
    autoscaler: Autoscaler,
    limit_ranges: Sequence[LimitRangeItem] = (),
    capped: Capped | None = None,
) -> Mapping[str, Allotment]:
    """Return by container what the autoscaler recommends for the pod; nothing in mode Off.

    A container in mode Off gets nothing either: its recommendation is an old one. A caller that has
    `capped` the recommendation for the pod already may pass it.
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
        entry, policy = (
            found.get(name),
            autoscalers.policy_for(policies, name) if policies else None,
        )
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
    """Return True if the container's limits follow its requests."""
    policy = autoscalers.policy_for(autoscaler.policies, container.name)
    return policy is None or policy.controlled_values is ControlledValues.REQUESTS_AND_LIMITS


def is_off(autoscaler: Autoscaler, container: Container) -> bool:
    """Return True if the container is not to be scaled."""
    policies = autoscaler.policies
    return bool(policies) and not autoscalers.scales(policies, container.name)


def wanted_by_autoscaler(
    pod: Pod,
    autoscaler: Autoscaler,
    limit_ranges: Sequence[LimitRangeItem],
    capped: Capped | None = None,
) -> TargetResources:
    """Return the recommended resources of the containers that are scaled."""
    recommended = recommended_for_pod(pod, autoscaler, limit_ranges, capped)
    return {
        container.name: Allocation(found.requests, found.limits)
        for container in pod.containers
        if (found := recommended.get(container.name)) and not is_off(autoscaler, container)
    }


def only_growing(pod: Pod, wanted: TargetResources) -> TargetResources:
    """Keep only the wanted resources that grow; their limits never shrink, or appear."""
    growing = {
        container.name: _growing(_owned(container, pod), wanted[container.name])
        for container in pod.containers
        if container.name in wanted
    }
    return {name: allocation for name, allocation in growing.items() if allocation.requests}


def is_within(pod: Pod, wanted: TargetResources, limit_ranges: Iterable[LimitRangeItem]) -> bool:
    """Return True if the whole pod stays within pod-type limit ranges and fits some node.

    A recommendation is capped as a whole. A part of it may ask for more, where a container keeps
    what another was to get. What a pod has on its node fits there.
    """
    stakes = [overlaid(container.spec, wanted.get(container.name)) for container in pod.containers]
    requests = _total(stake.requests for stake in stakes)
    limits = _total(stake.limits for stake in stakes)
    maxima = {
        kind: [item.max or NO_AMOUNTS for item in limit_ranges if item.type is kind]
        for kind in (LimitRangeType.POD, LimitRangeType.NODE)
    }
    on_nodes = maxima[LimitRangeType.NODE]
    own = _total(each.current.requests for each in pod.containers) if pod.node_name else NO_AMOUNTS
    grown = {kind: amount if amount > own.get(kind, 0) else 0 for kind, amount in requests.items()}
    return all(
        _is_below(requests, most) and _is_below(limits, most) for most in maxima[LimitRangeType.POD]
    ) and (not on_nodes or any(_is_below(grown, room) for room in on_nodes))


def overlaid(spec: Allocation, wanted: Allocation | None) -> Allocation:
    """Return all that a container asks for once it has what is wanted."""
    if wanted is None:
        return spec
    return Allocation(
        {**(spec.requests or NO_AMOUNTS), **(wanted.requests or NO_AMOUNTS)},
        {**(spec.limits or NO_AMOUNTS), **(wanted.limits or NO_AMOUNTS)},
    )


def _total(amounts: Iterable[Resources | None]) -> Resources:
    given = [each or NO_AMOUNTS for each in amounts]
    return {kind: sum(each.get(kind, 0) for each in given) for kind in BOTH}


def _is_below(total: Resources, most: Resources) -> bool:
    # A bound of zero or less bounds nothing.
    return all(total[kind] <= bound for kind, bound in most.items() if bound > 0)


def _owned(container: Container, pod: Pod) -> Allocation:
    """The most that the container has, or is about to get.

    The kubelet may have done what the spec says before its status shows it, unless it says that it
    put the resize off.
    """
    status, spec = container.status, container.spec
    if status is None or pod.resize in PUT_OFF:
        return container.current
    return Allocation(_larger(spec.requests, status.requests), _larger(spec.limits, status.limits))


def _larger(one: Resources | None, other: Resources | None) -> Resources:
    given = [each for each in (one, other) if each]
    return {
        kind: max(each[kind] for each in given if kind in each)
        for kind in BOTH
        if any(kind in each for each in given)
    }


def _growing(current: Allocation, wanted: Allocation) -> Allocation:
    own_requests, own_limits = current.requests or NO_AMOUNTS, current.limits or NO_AMOUNTS
    limits = wanted.limits or NO_AMOUNTS
    requests = {
        kind: amount
        for kind, amount in (wanted.requests or NO_AMOUNTS).items()
        if kind not in own_requests or amount > own_requests[kind]
    }
    return Allocation(
        requests,
        {
            kind: max(limits[kind], own_limits[kind])
            for kind in requests
            # A first limit would take something away.
            if kind in limits and kind in own_limits
        },
    )
