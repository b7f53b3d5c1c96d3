"""The API server's rules for new pods, written down a second time for tests.

After `plugin/pkg/admission/limitranger/admission.go`, `pkg/quota/v1/evaluator/core/pods.go` and
`component-helpers/resource/helpers.go` of Kubernetes 1.35, as far as CPU is concerned.
"""

from collections.abc import Iterator, Sequence

from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import Allocation, ContainerKind, Envelope, Pod
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.sizing.quotas import Quota, QuotaClaim, Side, covers

CPU = Resource.CPU


def refusals(
    pod: Pod, items: Sequence[LimitRangeItem] = (), quotas: Sequence[Quota] = ()
) -> list[str]:
    """Why the API server would not create the pod, as far as its CPU is the reason."""
    return [
        *_invalid(pod),
        *(flaw for item in items for flaw in _outside(pod, item)),
        *(flaw for quota in quotas for flaw in _beyond(pod, quota)),
    ]


def total(pod: Pod, side: Side) -> int | None:
    """Return the CPU of the whole pod; None if neither the pod nor a container states any."""
    own = None if pod.envelope is None else _cpu(pod.envelope, side)
    if own is not None:
        return own
    found = [(each.kind, _cpu(each.spec, side)) for each in pod.containers]
    amounts = [(kind, amount) for kind, amount in found if amount is not None]
    init = _cpu(pod.init_peak, side)
    if not amounts and init is None:
        return None
    sidecars = [amount or 0 for kind, amount in found if kind is ContainerKind.SIDECAR]
    regular = sum(amount for kind, amount in amounts if kind is ContainerKind.REGULAR)
    # Where no order is given, all sidecars start before the ordinary init containers.
    steps = pod.init_steps or ((len(sidecars), pod.init_peak),)
    peaks = [sum(sidecars[:count]) + (_cpu(first, side) or 0) for count, first in steps]
    return max(sum(sidecars) + regular, *peaks)


def _cpu(asking: Allocation | Envelope, side: Side) -> int | None:
    amounts = asking.requests if side is Side.REQUESTS else asking.limits
    return (amounts or {}).get(CPU)


def _invalid(pod: Pod) -> Iterator[str]:
    for each in pod.containers:
        requests, limits = each.spec.requests or {}, each.spec.limits or {}
        if CPU in limits and requests.get(CPU, 0) > limits[CPU]:
            yield f"{each.name}: request above limit"
        if pod.envelope and limits.get(CPU, 0) > pod.envelope.limits.get(CPU, 10**30):
            yield f"{each.name}: limit above that of the pod"
    if pod.envelope and CPU in pod.envelope.requests:
        asked = [(each.spec.requests or {}).get(CPU, 0) for each in pod.containers]
        if sum(asked) > pod.envelope.requests[CPU]:
            yield "requests above those of the pod"


def _outside(pod: Pod, item: LimitRangeItem) -> Iterator[str]:
    if item.type is LimitRangeType.POD:
        yield from _violations(item, total(pod, Side.REQUESTS), total(pod, Side.LIMITS))
    elif item.type is LimitRangeType.CONTAINER:
        for each in pod.containers:
            requests, limits = each.spec.requests or {}, each.spec.limits or {}
            yield from _violations(item, requests.get(CPU), limits.get(CPU))


def _violations(item: LimitRangeItem, request: int | None, limit: int | None) -> Iterator[str]:
    if _given(item.min):
        least = (item.min or {})[CPU]
        if request is None or request < least or (limit is not None and limit < least):
            yield f"minimum cpu usage per {item.type} is {least}"
    if _given(item.max):
        most = (item.max or {})[CPU]
        if limit is None or limit > most or (request is not None and request > most):
            yield f"maximum cpu usage per {item.type} is {most}, but limit is {limit}"
    if item.max_cpu_ratio is not None and (
        not request or not limit or limit / request * 1000 > item.max_cpu_ratio
    ):
        yield f"cpu max limit to request ratio per {item.type} is {item.max_cpu_ratio}"


def _given(amounts: Resources | None) -> bool:
    return CPU in (amounts or {})


def _beyond(pod: Pod, quota: Quota) -> Iterator[str]:
    if not covers(quota, pod, {}):
        return
    for side in Side:
        left = quota.left.get(QuotaClaim(side, CPU))
        if left is None:
            continue
        names = [each.name for each in pod.containers if _cpu(each.spec, side) is None]
        if names and pod.envelope is None:
            yield f"failed quota: must specify {side}.cpu for: {names}"
        asked = (total(pod, side) or 0) + (pod.overhead or {}).get(CPU, 0)
        if asked > left:
            yield f"exceeded quota: {quota.name}, requested: {side}.cpu={asked}, left: {left}"
