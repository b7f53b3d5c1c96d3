"""Successors of pods: their resources, and the order in which StatefulSets create them.

With the policy `OrderedReady`, a StatefulSet makes a pod only when all pods of lower ordinals run
and have been ready for its `minReadySeconds`. So a pod that is evicted while a lower one is not
ready may stay away for good.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import structs

from trimtab.core.guards import disruption_budgets
from trimtab.core.model.autoscalers import Autoscaler, ContainerRecommendation
from trimtab.core.model.limit_ranges import LimitRangeItem
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.pods import Allocation, Pod, PodPhase, TargetResources, WorkloadName
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.sizing import (
    container_resources,
    limit_range_check,
    pod_level_resources,
    startup_boost,
)

_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)


def ordinal_of(pod: Pod) -> int | None:
    """Return the number at the end of the pod's name; None if there is none."""
    _, _, number = pod.name.rpartition("-")
    return int(number) if number.isascii() and number.isdecimal() else None


def next_pod_from(pods: Iterable[Pod], min_ready: timedelta) -> datetime | None:
    """Return from when on a StatefulSet makes the pod behind these; None while one is not ready."""
    found = _BEGINNING
    for pod in pods:
        if pod.ready_since is None:
            return None
        found = max(found, pod.ready_since + min_ready)
    return found


def ready_ordinals(
    pods: Iterable[Pod], owners: Mapping[WorkloadName, int], settling: frozenset[str]
) -> Mapping[WorkloadName, Mapping[int, datetime]]:
    """Return by direct owner and ordinal since when pods that can be counted on are ready."""
    found: defaultdict[WorkloadName, dict[int, datetime]] = defaultdict(dict)
    for pod in pods:
        owner = disruption_budgets.owner_of(pod)
        if owner is None or owner not in owners or (ordinal := ordinal_of(pod)) is None:
            continue
        is_there = pod.phase is PodPhase.RUNNING and not pod.is_deleting
        if is_there and pod.ready_since is not None and pod.uid not in settling:
            found[owner][ordinal] = pod.ready_since
    return found


_ENDLESS: Final = float("inf")
_NEARLY: Final = 0.1
"""Share of a change that a pod may lack and still counts: recommendations move on."""


def template_of(
    pod: Pod, sizes: Mapping[str, Allocation] | None, items: Sequence[LimitRangeItem]
) -> list[Allocation] | None:
    """Return the resources of a new pod of the template, in the order of the pod's containers.

    A container that is not in the template comes from elsewhere, and will be as it is.
    """
    if sizes is None:
        return None
    return [
        limit_range_check.with_defaults(items, sizes.get(each.name, each.spec))
        for each in pod.containers
    ]


def from_template(pod: Pod, template: Sequence[Allocation], names: Collection[str]) -> Pod:
    """Return the successor of a pod as the API server shows it to admission.

    `names` are those of the containers in the template: marks of their boosts are the pod's alone.
    """
    containers = tuple(
        structs.replace(each, spec=_with_requests(own), status=None, base=None)
        for each, own in zip(pod.containers, template, strict=True)
    )
    stale = set(map(startup_boost.annotation_name, names))
    kept = {key: value for key, value in pod.annotations.items() if key not in stale}
    # What the pod has on its node is no bound for a successor, which may go elsewhere.
    return structs.replace(pod, node_name="", containers=containers, annotations=kept)


def wanted_of_new(
    new: Pod, autoscaler: Autoscaler, items: Sequence[LimitRangeItem]
) -> TargetResources:
    """Return what the recommendation comes to for a new pod, before LimitRanges refuse any of it.

    Admission caps it by the limits of that pod, and leaves out containers without room for it.
    """
    return pod_level_resources.without_misfits(
        new, container_resources.wanted_by_autoscaler(new, autoscaler, items)
    )


def falls_short(
    pod: Pod,
    wanted: TargetResources,
    needed: Sequence[ContainerRecommendation],
    kinds: Collection[Resource],
    least: float,
) -> bool:
    """Return True if the size of a successor takes from a container what it needs.

    That is so below its lower bound. Of a container that should grow nothing is taken, but for a
    share of less than `least`.
    """
    boosted, entries = (
        startup_boost.boosted_containers(pod),
        {each.container_name: each for each in needed},
    )
    for container in pod.containers:
        entry, given = entries.get(container.name), wanted.get(container.name)
        if entry is None or given is None:
            continue
        has, gets = container.current.requests or NO_AMOUNTS, given.requests or NO_AMOUNTS
        for kind in kinds:
            if kind not in gets or (kind is Resource.CPU and container.name in boosted):
                continue
            before, after = has.get(kind, 0), gets[kind]
            lower, target = (entry.lower_bound or NO_AMOUNTS).get(kind, 0), entry.target.get(kind)
            grows = target is not None and before <= target
            if after < min(before, lower) or (grows and _factor(after, before) > 1 + least):
                return True
    return False


def takes_more_than_it_gives(
    pod: Pod, wanted: TargetResources, template: Sequence[Allocation], least: float
) -> bool:
    """Return True if a container of the successor loses more, as a factor, than it gains.

    Gains of one container do not make up for losses of another, nor does CPU for memory, without
    which a container dies. A loss of less than the share `least` counts as none.
    """
    boosted = startup_boost.boosted_containers(pod)
    for container, own in zip(pod.containers, template, strict=True):
        gain, loss = 1 + least, 1.0
        has = container.current.requests or NO_AMOUNTS
        given = (wanted.get(container.name) or Allocation()).requests or NO_AMOUNTS
        gets = {**_requests(own), **given}
        for kind in BOTH:
            # The CPU of a boosted container says nothing about its usual size.
            if kind is Resource.CPU and container.name in boosted:
                continue
            before, after = has.get(kind, 0), gets.get(kind, 0)
            if kind in given:
                gain = max(gain, _factor(before, after))
            elif kind is Resource.MEMORY and _factor(after, before) > 1 + least:
                return True
            else:
                loss = max(loss, _factor(after, before))
        if loss > gain:
            return True
    return False


def is_precedent(other: Pod, pod: Pod, wanted: TargetResources) -> bool:
    """Return True if the other pod shows that a pod of the wanted size can be created.

    It has what is wanted of the pod, or has gone further the same way. The CPU of a boosted
    container says nothing.
    """
    sizes = {each.name: each.current.requests or NO_AMOUNTS for each in other.containers}
    boosted = startup_boost.boosted_containers(other)
    for container in pod.containers:
        has = container.current.requests or NO_AMOUNTS
        asked = (wanted.get(container.name) or Allocation()).requests or NO_AMOUNTS
        for kind, amount in asked.items():
            if kind is Resource.CPU and container.name in boosted:
                continue
            way, rest = (
                amount - has.get(kind, 0),
                amount - sizes.get(container.name, {}).get(kind, 0),
            )
            if way and rest / way > _NEARLY:
                return False
    return True


def resources_left_out(wanted: TargetResources, given: TargetResources) -> frozenset[Resource]:
    """Return the resources that are wanted for a container and not given to it."""
    return frozenset(
        kind
        for name, asked in wanted.items()
        for kind in asked.requests or NO_AMOUNTS
        if kind not in ((given.get(name) or Allocation()).requests or NO_AMOUNTS)
    )


def without_resources(wanted: TargetResources, kinds: Collection[Resource]) -> TargetResources:
    """Return what is wanted of other resources."""
    if not kinds:
        return wanted
    found = {
        name: Allocation(_except(asked.requests, kinds), _except(asked.limits, kinds))
        for name, asked in wanted.items()
    }
    return {name: rest for name, rest in found.items() if rest.requests or rest.limits}


def without_cpu_of(wanted: TargetResources, names: Collection[str]) -> TargetResources:
    """Return what is wanted but for the CPU of the containers."""
    if not names:
        return wanted
    named = {name: asked for name, asked in wanted.items() if name in names}
    others = {name: asked for name, asked in wanted.items() if name not in names}
    return {**others, **without_resources(named, (Resource.CPU,))}


def only_requests(wanted: TargetResources) -> TargetResources:
    """Return what is wanted without limits."""
    return {name: Allocation(asked.requests, NO_AMOUNTS) for name, asked in wanted.items()}


def smaller_part(wanted: TargetResources, other: TargetResources) -> TargetResources:
    """Return the requests that are less than the other ones, where these are there."""
    return {
        name: Allocation(
            {
                kind: amount
                for kind, amount in (asked.requests or NO_AMOUNTS).items()
                if amount < requests.get(kind, _ENDLESS)
            }
        )
        for name, asked in wanted.items()
        for requests in ((other.get(name) or Allocation()).requests or NO_AMOUNTS,)
    }


def loses_nothing(
    pod: Pod, kinds: Collection[Resource], template: Sequence[Allocation] | None
) -> bool:
    """Return True if the template gives as much of the resources as the pod has.

    Nothing is known of a pod whose template is not known.
    """
    if template is None:
        return False
    for container, own in zip(pod.containers, template, strict=True):
        has, gets = container.current, _requests(own)
        for kind in kinds:
            limit = (own.limits or NO_AMOUNTS).get(kind, _ENDLESS)
            if gets.get(kind, 0) < (has.requests or NO_AMOUNTS).get(kind, 0):
                return False
            if limit < (has.limits or NO_AMOUNTS).get(kind, 0):
                return False
    return True


def _except(amounts: Resources | None, kinds: Collection[Resource]) -> Resources:
    return {kind: amount for kind, amount in (amounts or NO_AMOUNTS).items() if kind not in kinds}


def _with_requests(own: Allocation) -> Allocation:
    return structs.replace(own, requests=_requests(own)) if own.limits else own


def _requests(own: Allocation) -> Resources:
    # A limit without a request stands for both.
    return {**(own.limits or NO_AMOUNTS), **(own.requests or NO_AMOUNTS)}


def _factor(smaller: int, larger: int) -> float:
    if larger <= smaller:
        return 1.0
    return larger / smaller if smaller > 0 else _ENDLESS
