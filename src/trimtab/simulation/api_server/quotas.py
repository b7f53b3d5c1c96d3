"""Quotas: the requests and limits that all pods of a namespace may have together.

A pod that has ended costs nothing. A pod that is being deleted costs until it is gone, unless its
node is not ready.
"""

from trimtab.core.model.pods import Allocation, Pod
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.sizing import quotas as core_quotas
from trimtab.core.sizing.quotas import QuotaClaim, Side
from trimtab.simulation.world import objects
from trimtab.simulation.world.objects import ENDED, QuotaObject
from trimtab.simulation.world.world import World


def find_quota_flaw(world: World, pod: Pod, *, before: Pod | None = None) -> str:
    """Return the message of the quota that a new or changed pod would break; empty if none."""
    for quota in world.quotas:
        if quota.namespace == pod.namespace:
            flaw = _find_flaw(world, quota, pod, before)
            if flaw:
                return flaw
    return ""


def count_quota(world: World, quota: QuotaObject) -> core_quotas.Quota:
    """Return the quota with the used and the remaining amounts, as its status shows it."""
    hard = {
        QuotaClaim(side, resource): most
        for side, bounds in _sides(quota)
        for resource, most in bounds.items()
    }
    used = {claim: _used(world, quota.namespace, *claim) for claim in hard}
    left = {claim: most - used[claim] for claim, most in hard.items()}
    return core_quotas.Quota(quota.namespace, quota.name, left, used=used)


def _sides(quota: QuotaObject) -> tuple[tuple[Side, Resources], ...]:
    return (Side.REQUESTS, quota.requests), (Side.LIMITS, quota.limits)


def _find_flaw(world: World, quota: QuotaObject, pod: Pod, before: Pod | None) -> str:
    for side, bounds in _sides(quota):
        for resource, most in bounds.items():
            silent = [c.name for c in pod.containers if resource not in _amounts(c.spec, side)]
            what = resource if side is Side.REQUESTS else f"{side}.{resource}"
            if silent:
                return f"failed quota: {quota.name}: must specify {what} for: {','.join(silent)}"
            known = 0 if before is None else _counted(before, side, resource)
            more = _counted(pod, side, resource) - known
            # The server never refuses a change that does not grow.
            if more > 0 and _used(world, pod.namespace, side, resource) + more > most:
                return f"exceeded quota: {quota.name}, requested: {what}={more}"
    return ""


def _amounts(allocation: Allocation, side: Side) -> Resources:
    return (allocation.requests if side is Side.REQUESTS else allocation.limits) or {}


def _counted(pod: Pod, side: Side, resource: Resource) -> int:
    if side is Side.REQUESTS:
        return objects.reserved_total(pod, resource)
    # The quota controller counts limits by the spec alone.
    return sum((each.spec.limits or {}).get(resource, 0) for each in pod.containers)


def _used(world: World, namespace: str, side: Side, resource: Resource) -> int:
    pods = world.pods_by_namespace.under(namespace)
    return sum(_counted(pod, side, resource) for pod in pods if _costs(world, pod))


def _costs(world: World, pod: Pod) -> bool:
    if pod.phase in ENDED:
        return False
    node = world.nodes.find("", pod.node_name)
    return not (pod.is_deleting and node is not None and not node.is_ready)
