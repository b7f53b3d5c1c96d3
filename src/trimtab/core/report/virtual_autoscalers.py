"""Shadows: autoscalers that nobody made, so that it can be asked what they would recommend.

Pods are put together by their workload and by the autoscaler that governs them. Those that none
governs get a shadow. Where a workload does not tell its pods apart by labels, or there is none, its
pods get a label here that no cluster knows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Final

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
    """A pod and what it belongs to, as far as that is known."""

    pod: Pod
    workload: Workload | None
    """The topmost one; None for a pod that nobody owns, or somebody who cannot be scaled."""
    api_version: str = ""
    """That of the workload."""


@dataclass(frozen=True, slots=True)
class Group:
    """The pods of one workload that one autoscaler governs, or none."""

    workload: WorkloadName
    api_version: str
    pods: tuple[Pod, ...]
    autoscaler: Autoscaler
    """The one that governs them, or a shadow."""
    selector: Selector | None = None
    """By which a shadow knows its pods; None where the autoscaler is no shadow."""

    @property
    def is_shadowed(self) -> bool:
        """Whether no autoscaler governs the pods."""
        return self.selector is not None


def group_pods(pods: Iterable[Owned], autoscalers: Iterable[ObservedAutoscaler]) -> list[Group]:
    """All groups, by namespace, kind and name."""
    index = matching.index_by_workload(autoscalers)
    groups: dict[tuple[WorkloadName, AutoscalerName], list[Group]] = {}
    for owned in pods:
        workload = None if owned.workload is None else owned.workload.name
        governor = matching.governor_of(index, workload, owned.pod.labels)
        found = _shadow(owned) if governor is None else _governed(owned, governor)
        groups.setdefault((found.workload, found.autoscaler.identity), []).append(found)
    return [_join(parts) for _, parts in sorted(groups.items(), key=itemgetter(0))]


def list_shadows(groups: Sequence[Group]) -> Mapping[WorkloadName, Workload]:
    """The workloads of all shadows, as these have to see them."""
    return {
        group.workload: Workload(group.workload, selector=group.selector)
        for group in groups
        if group.is_shadowed
    }


def _join(parts: Sequence[Group]) -> Group:
    """One group of what belongs together."""
    return replace(parts[-1], pods=tuple(pod for part in parts for pod in part.pods))


def _governed(owned: Owned, governor: Autoscaler) -> Group:
    assert owned.workload is not None
    return Group(owned.workload.name, owned.api_version, (owned.pod,), governor)


def _shadow(owned: Owned) -> Group:
    name, pod = _name(owned), owned.pod
    selector = None if owned.workload is None else owned.workload.selector
    if selector is None or not selector.requirements:
        value = f"{name.kind}/{name.name}"
        selector = Selector((selectors.equality(_LABEL, value),))
        pod = replace(pod, labels={**pod.labels, _LABEL: value})
    target = TargetReference(name.kind, name.name, owned.api_version)
    # No object can have such a name, so that it is nobody else's.
    shadow = Autoscaler(name.namespace, f"{name.kind}/{name.name}", target=target)
    return Group(name, owned.api_version, (pod,), shadow, selector)


def _name(owned: Owned) -> WorkloadName:
    """The workload, or else who owns the pod directly, or else the pod itself."""
    if owned.workload is not None:
        return owned.workload.name
    pod, owner = owned.pod, owned.pod.owner
    # A node owns what its kubelet was told to run by a file: each of these pods is on its own.
    if owner is None or owner.kind == "Node":
        return WorkloadName(pod.namespace, _POD, pod.name)
    return WorkloadName(pod.namespace, owner.kind, owner.name)
