"""Quotas: what the pods of a namespace may request together.

A pod that has ended costs nothing; one that is about to end costs until it is gone, unless nobody
is there to end it.
"""

from trimtab.core import quotas as core_quotas
from trimtab.core.pods import Pod
from trimtab.core.quotas import Claim, Side
from trimtab.core.resources import Resource
from trimtab.simulation.objects import ENDED, Quota
from trimtab.simulation.totals import reserved_total
from trimtab.simulation.world import World


def find_quota_flaw(world: World, pod: Pod, *, before: Pod | None = None) -> str:
    """Which quota a pod would exceed, new or other than it was before; nothing if none."""
    for quota in world.quotas:
        if quota.namespace == pod.namespace:
            flaw = _find_flaw(world, quota, pod, before)
            if flaw:
                return flaw
    return ""


def count_quota(world: World, quota: Quota) -> core_quotas.Quota:
    """The quota as its status shows it: with what is left."""
    left = {
        Claim(Side.REQUESTS, resource): most - _used(world, quota.namespace, resource)
        for resource, most in quota.requests.items()
    }
    return core_quotas.Quota(quota.namespace, quota.name, left)


def _find_flaw(world: World, quota: Quota, pod: Pod, before: Pod | None) -> str:
    for resource, most in quota.requests.items():
        silent = [c.name for c in pod.containers if resource not in (c.spec.requests or {})]
        if silent:
            return f"failed quota: {quota.name}: must specify {resource} for: {','.join(silent)}"
        known = 0 if before is None else reserved_total(before, resource)
        more = reserved_total(pod, resource) - known
        # What does not grow is never refused, however little is left.
        if more > 0 and _used(world, pod.namespace, resource) + more > most:
            return f"exceeded quota: {quota.name}, requested: {resource}={more}"
    return ""


def _used(world: World, namespace: str, resource: Resource) -> int:
    pods = world.pods_by_namespace.under(namespace)
    return sum(reserved_total(pod, resource) for pod in pods if _costs(world, pod))


def _costs(world: World, pod: Pod) -> bool:
    if pod.phase in ENDED:
        return False
    node = world.nodes.find("", pod.node_name)
    return not (pod.is_deleting and node is not None and not node.is_ready)
