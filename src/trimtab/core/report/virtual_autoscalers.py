"""Virtual autoscalers, made to find out what they would recommend.

Pods are grouped by their workload and by the autoscaler that governs them. Pods that no autoscaler
governs get a virtual one. Where a workload has no selector, or there is no workload, the pods get a
label here that no cluster has.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Final

from msgspec import structs

from trimtab.core.model import matching, selectors
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName, TargetReference
from trimtab.core.model.matching import ObservedAutoscaler
from trimtab.core.model.pods import Pod, WorkloadName
from trimtab.core.model.selectors import Selector
from trimtab.core.model.workloads import Workload

_LABEL: Final = "trimtab.dev/shadow"
_POD: Final = "Pod"


@dataclass(frozen=True, slots=True)
class Owned:
    """A pod and its workload, as far as that is known."""

    pod: Pod
    workload: Workload | None
    """The topmost one; None for a pod without an owner, or whose owner cannot be scaled."""
    api_version: str = ""
    """The API version of the workload."""


@dataclass(frozen=True, slots=True)
class Group:
    """The pods of one workload that one autoscaler governs, or none."""

    workload: WorkloadName
    api_version: str
    pods: tuple[Pod, ...]
    autoscaler: Autoscaler
    """The one that governs them, or a virtual one."""
    selector: Selector | None = None
    """Selects the pods of a virtual autoscaler; None where the autoscaler exists."""

    @property
    def is_shadowed(self) -> bool:
        """True if no autoscaler governs the pods."""
        return self.selector is not None


def group_pods(pods: Iterable[Owned], autoscalers: Iterable[ObservedAutoscaler]) -> list[Group]:
    """Return all groups, by namespace, kind and name."""
    index = matching.index_by_workload(autoscalers)
    groups: dict[tuple[WorkloadName, AutoscalerName], list[Group]] = {}
    for owned in pods:
        workload = None if owned.workload is None else owned.workload.name
        governor = matching.governor_of(index, workload, owned.pod.labels)
        found = _virtual(owned) if governor is None else _governed(owned, governor)
        groups.setdefault((found.workload, found.autoscaler.identity), []).append(found)
    return [_join(parts) for _, parts in sorted(groups.items(), key=itemgetter(0))]


def list_virtual_workloads(groups: Sequence[Group]) -> Mapping[WorkloadName, Workload]:
    """Return the workloads of all virtual autoscalers, with the selectors that those need."""
    return {
        group.workload: Workload(group.workload, selector=group.selector)
        for group in groups
        if group.is_shadowed
    }


def _join(parts: Sequence[Group]) -> Group:
    """Join groups with the same workload and autoscaler into one."""
    return replace(parts[-1], pods=tuple(pod for part in parts for pod in part.pods))


def _governed(owned: Owned, governor: Autoscaler) -> Group:
    assert owned.workload is not None
    return Group(owned.workload.name, owned.api_version, (owned.pod,), governor)


def _virtual(owned: Owned) -> Group:
    name, pod = _name(owned), owned.pod
    selector = None if owned.workload is None else owned.workload.selector
    if selector is None or not selector.requirements:
        value = f"{name.kind}/{name.name}"
        selector = Selector((selectors.equality(_LABEL, value),))
        pod = structs.replace(pod, labels={**pod.labels, _LABEL: value})
    target = TargetReference(name.kind, name.name, owned.api_version)
    # No object can have such a name, so it is unique.
    virtual = Autoscaler(name.namespace, f"{name.kind}/{name.name}", target=target)
    return Group(name, owned.api_version, (pod,), virtual, selector)


def _name(owned: Owned) -> WorkloadName:
    """Return the workload, or else the pod's direct owner, or else the pod itself."""
    if owned.workload is not None:
        return owned.workload.name
    pod, owner = owned.pod, owned.pod.owner
    # A node owns the static pods of its kubelet: each of these pods is on its own.
    if owner is None or owner.kind == "Node":
        return WorkloadName(pod.namespace, _POD, pod.name)
    return WorkloadName(pod.namespace, owner.kind, owner.name)
