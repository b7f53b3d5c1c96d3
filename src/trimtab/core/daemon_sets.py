"""DaemonSets: what each node has to keep for their pods before any other pod can have it.

The amounts follow from the pod templates, so that they are known where pods are not watched, and
on a node that no pod has reached yet. Pods whose owner is the node itself (static pods) are in no
DaemonSet and do not count.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from trimtab.core.allocations import recommended_for_pod
from trimtab.core.autoscalers import Autoscaler
from trimtab.core.limit_ranges import LimitRangeItem
from trimtab.core.node_room import Daemon
from trimtab.core.pod_requests import requested_after
from trimtab.core.pods import Allocation, Pod, WorkloadName
from trimtab.core.resources import BOTH, Resources
from trimtab.core.workloads import Workload


def list_daemons(
    workloads: Iterable[Workload],
    autoscalers_of: Callable[[WorkloadName], Sequence[Autoscaler]],
    limit_ranges_of: Callable[[str], Sequence[LimitRangeItem]],
) -> tuple[Daemon, ...]:
    """Return the daemons of some DaemonSets, in the order of their names.

    An autoscaler gives new pods other requests than the template. Until all pods have these, the
    larger of both counts: a bound that is too low costs less than a pod that fits nowhere.
    """
    found = [
        Daemon(
            each.name,
            _requests(_with_defaults(each.template), autoscalers_of(each.name), limit_ranges_of),
            each.template.placement,
        )
        for each in workloads
        if each.template is not None
    ]
    return tuple(sorted(found, key=lambda daemon: daemon.owner))


def _with_defaults(template: Pod) -> Pod:
    """The template with the requests that the API server gives a pod that has only limits."""
    containers = [
        replace(
            each,
            spec=replace(each.spec, requests={**each.spec.limits, **(each.spec.requests or {})}),
        )
        if each.spec.limits
        else each
        for each in template.containers
    ]
    return replace(template, containers=tuple(containers))


def _requests(
    template: Pod,
    autoscalers: Sequence[Autoscaler],
    limit_ranges_of: Callable[[str], Sequence[LimitRangeItem]],
) -> Resources:
    sizes = [requested_after(template, {})]
    for autoscaler in autoscalers:
        given = recommended_for_pod(template, autoscaler, limit_ranges_of(template.namespace))
        wanted = {name: Allocation(each.requests) for name, each in given.items()}
        sizes.append(requested_after(template, wanted))
    return {kind: max(size[kind] for size in sizes) for kind in BOTH}
