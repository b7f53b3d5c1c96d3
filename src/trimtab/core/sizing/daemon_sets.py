"""DaemonSets: the room that each node keeps for their pods before all other pods.

The amounts follow from the pod templates. So they are known where pods are not watched, and on a
node that no pod has reached yet. Pods whose owner is the node itself (static pods) are in no
DaemonSet and do not count.

Any tenant can create a DaemonSet whose pods fit on no node, and nothing has to give way to it. So
the status of a DaemonSet decides how far it counts. If all its pods are ready and have its
template, it counts in full. Else it is not known on which nodes they run: it counts only on nodes
of which it would take a limited part. Rooms remember what was believed before (`node_capacity.py`).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import structs

from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.limit_ranges import LimitRangeItem
from trimtab.core.model.pods import Allocation, Pod, WorkloadName
from trimtab.core.model.resources import BOTH, Resources
from trimtab.core.model.workloads import Workload
from trimtab.core.sizing.container_resources import recommended_for_pod
from trimtab.core.sizing.node_capacity import Daemon, DaemonSize
from trimtab.core.sizing.pod_totals import requested_after

_CERTAIN: Final = 1.0
_MOST_READY: Final = 0.5
"""Share of ready pods at which a DaemonSet runs: nodes come and go, and templates change."""
_LARGE_SHARE: Final = 0.5
"""Part of a node for DaemonSets of which at least half of the pods are ready."""
_SMALL_SHARE: Final = 0.1
"""Part of a node for DaemonSets of which fewer pods, or none, are ready."""


def list_daemons(
    workloads: Iterable[Workload],
    autoscalers_of: Callable[[WorkloadName], Sequence[Autoscaler]],
    limit_ranges_of: Callable[[str], Sequence[LimitRangeItem]],
) -> tuple[Daemon, ...]:
    """Return the daemons of some DaemonSets, in the order of their names.

    An autoscaler gives new pods other requests than the template. It is not known how many pods
    have these, so the larger of both counts up to half a node, and else the smaller.
    """
    found = [
        _daemon(each, each.template, autoscalers_of(each.name), limit_ranges_of)
        for each in workloads
        if each.template is not None
    ]
    return tuple(sorted(found, key=lambda daemon: daemon.owner))


def _daemon(
    workload: Workload,
    template: Pod,
    autoscalers: Sequence[Autoscaler],
    limit_ranges_of: Callable[[str], Sequence[LimitRangeItem]],
) -> Daemon:
    sizes = _sizes(_with_defaults(template), autoscalers, limit_ranges_of)
    most, least = ({kind: of(size[kind] for size in sizes) for kind in BOTH} for of in (max, min))
    share = _share(workload)
    if most == least:
        return Daemon(workload.name, most, template.placement, share)
    lesser = DaemonSize(least, share)
    return Daemon(workload.name, most, template.placement, min(share, _LARGE_SHARE), lesser)


def _share(workload: Workload) -> float:
    """Return the maximum part of a node that counts for a DaemonSet, by its status."""
    wanted, ready = workload.replicas or 0, workload.ready or 0
    if wanted and min(ready, workload.updated or 0) >= wanted:
        return _CERTAIN
    return _LARGE_SHARE if wanted and ready >= _MOST_READY * wanted else _SMALL_SHARE


def _with_defaults(template: Pod) -> Pod:
    """The template with the requests that the API server gives a pod that has only limits."""
    containers = [
        structs.replace(
            each,
            spec=structs.replace(
                each.spec, requests={**each.spec.limits, **(each.spec.requests or {})}
            ),
        )
        if each.spec.limits
        else each
        for each in template.containers
    ]
    return structs.replace(template, containers=tuple(containers))


def _sizes(
    template: Pod,
    autoscalers: Sequence[Autoscaler],
    limit_ranges_of: Callable[[str], Sequence[LimitRangeItem]],
) -> Sequence[Resources]:
    """Return the requests of the template, and those that each autoscaler gives its pods."""
    sizes = [requested_after(template, {})]
    for autoscaler in autoscalers:
        given = recommended_for_pod(template, autoscaler, limit_ranges_of(template.namespace))
        wanted = {name: Allocation(each.requests) for name, each in given.items()}
        sizes.append(requested_after(template, wanted))
    return sizes
