"""QoS classes: how Kubernetes ranks a pod when memory gets short; no resize may change it."""

from collections.abc import Iterable
from enum import StrEnum

from trimtab.core.limits import NO_AMOUNTS
from trimtab.core.pods import Allocation
from trimtab.core.resources import BOTH, Resource


class QosClass(StrEnum):
    """The class of a pod; the API server refuses a resize that would change it."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


def qos_class(allocations: Iterable[Allocation]) -> QosClass:
    """The class of a pod whose containers ask for this."""
    amounts = [_request_and_limit(one, kind) for one in allocations for kind in BOTH]
    if not any(request or limit for request, limit in amounts):
        return QosClass.BEST_EFFORT
    if all(limit and request == limit for request, limit in amounts):
        return QosClass.GUARANTEED
    return QosClass.BURSTABLE


def _request_and_limit(allocation: Allocation, kind: Resource) -> tuple[int, int]:
    limit = (allocation.limits or NO_AMOUNTS).get(kind, 0)
    # A limit without a request stands for both.
    return (allocation.requests or NO_AMOUNTS).get(kind, limit), limit
