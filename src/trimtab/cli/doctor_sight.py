"""What a diagnosis sees of autoscalers and pods: stores that are filled once, as far as allowed."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from trimtab.api.workloads import WELL_KNOWN_KINDS
from trimtab.cli.viewing import Sight
from trimtab.cluster.adapter import LiveCluster
from trimtab.cluster.examining import explain_failure
from trimtab.core.autoscalers import Autoscaler
from trimtab.core.diagnosis import Unseen
from trimtab.core.diagnosis_autoscalers import AutoscalerFacts, Hidden, Sighted, gather
from trimtab.core.diagnosis_bounds import Bounds
from trimtab.core.diagnosis_usage import PodName
from trimtab.core.pods import Pod, PodPhase, WorkloadName
from trimtab.core.workloads import owners_above
from trimtab.updater.owning import OwnerKey, owner_key, resolve_owners

_POLL: Final = timedelta(milliseconds=50)
_CONCURRENCY: Final = 8
_READ_AFTER: Final = timedelta(minutes=2)
"""So long a pod must have run before its usage can be known: metrics need two readings."""
_BOUNDS: Final = frozenset({"limitranges", "resourcequotas"})


def lacks(sight: Sight, resources: Collection[str]) -> Unseen | None:
    """Why some of these could not be seen; None if all were."""
    for path, error in sight.unseen.items():
        resource = path.rpartition("/")[2]
        if resource in resources:
            problem = error or TimeoutError("no answer in time")
            return explain_failure(problem, resource)
    return None


async def see_autoscalers(sight: Sight, now: datetime) -> AutoscalerFacts | Unseen:
    """All autoscalers with their pods."""
    lacking = lacks(
        sight,
        {"pods", "verticalpodautoscalers"} | {f"{kind.lower()}s" for kind in WELL_KNOWN_KINDS},
    )
    if lacking is not None:
        return lacking
    cluster = sight.cluster
    autoscalers = list(cluster.autoscalers)
    places = {one.namespace for one in autoscalers}
    pods = [pod for pod in cluster.pods if pod.namespace in places]
    owned = _find_owned(cluster)
    sighted = [await _sight(cluster, one, owned) for one in autoscalers]
    hidden = [
        Hidden(kind, one.namespace, one.name, str(one.error))
        for kind, store in (("vpa", cluster.autoscalers), ("pod", cluster.pods))
        for one in store.unreadable
    ]
    return gather(sighted, await _find_workloads(cluster, pods), now, hidden)


def _find_owned(cluster: LiveCluster) -> Mapping[WorkloadName, frozenset[WorkloadName]]:
    """By owner all workloads below it."""
    found: defaultdict[WorkloadName, set[WorkloadName]] = defaultdict(set)
    for workload in cluster.workloads():
        for owner in owners_above(workload.name, cluster.owners.known):
            found[owner].add(workload.name)
    return {owner: frozenset(names) for owner, names in found.items()}


async def _sight(
    cluster: LiveCluster,
    autoscaler: Autoscaler,
    owned: Mapping[WorkloadName, frozenset[WorkloadName]],
) -> Sighted:
    target = autoscaler.target
    if target is None:
        return Sighted(autoscaler)
    name = WorkloadName(autoscaler.namespace, target.kind, target.name)
    workload = await cluster.owners.workload(name, target.api_version)
    topmost = None if workload is None else await cluster.owners.topmost(workload)
    return Sighted(autoscaler, workload, topmost, owned.get(name, frozenset()))


async def _find_workloads(
    cluster: LiveCluster, pods: Sequence[Pod]
) -> list[tuple[Pod, WorkloadName | None]]:
    by_owner: dict[OwnerKey, Pod] = {
        key: pod for pod in pods if (key := owner_key(pod)) is not None
    }
    found = await resolve_owners(cluster.owners, by_owner, concurrency=_CONCURRENCY)
    topmost = {key: one.topmost for key, one in found.items()}
    return [(pod, topmost.get(key) if (key := owner_key(pod)) else None) for pod in pods]


def see_bounds(sight: Sight) -> Bounds | Unseen:
    """What limit ranges and quotas allow where there are autoscalers."""
    lacking = lacks(sight, _BOUNDS)
    if lacking is not None:
        return lacking
    cluster = sight.cluster
    places = {one.namespace for one in cluster.autoscalers}
    return Bounds(
        {place: cluster.limit_ranges(place) for place in places},
        {place: cluster.quotas(place) for place in places},
    )


def list_measurable(sight: Sight, now: datetime) -> list[PodName] | Unseen:
    """The pods whose usage should be known by now."""
    lacking = lacks(sight, {"pods"})
    if lacking is not None:
        return lacking
    return [
        (pod.namespace, pod.name)
        for pod in sight.cluster.pods
        if pod.phase is PodPhase.RUNNING
        and not pod.is_deleting
        and any(container.is_running for container in pod.containers)
        and pod.started_at is not None
        and now - pod.started_at > _READ_AFTER
    ]
