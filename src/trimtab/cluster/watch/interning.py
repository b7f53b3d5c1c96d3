"""What pods and workloads have in common is kept once: stores of them have to stay small.

Pods of one workload have the same labels, owner and resources, most of the time; resources that are
written alike are one already when they are decoded. Of annotations only those are kept that
deciders read; others are long and differ from pod to pod. Of ReplicaSets most are old revisions
(F36), and those of one Deployment have nearly everything in common. Sharing is thrift, not meaning:
a pod that went through here equals the one that did not, but for them.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

from trimtab.api.kinds import pods, workloads
from trimtab.core.model.pods import KEEPS_FROM_EVICTION, OwnerReference, Pod
from trimtab.core.model.selectors import LabelRequirement
from trimtab.core.model.workloads import Workload

OUR_ANNOTATIONS: Final = "vpa"
"""What the names of our own annotations begin with (`core.annotations`)."""

_KEPT: Final = 65_536
"""So many different parts are known at a time; those that came up longest ago are forgotten."""


def decode_thrifty_pod(data: bytes) -> Pod:
    """The pod in the JSON of one Pod, as small as it can be kept."""
    return share_parts(pods.decode_pod(data))


def decode_thrifty_workload(kind: str, data: bytes) -> Workload:
    """The workload in the JSON of one object of a well-known kind, as small as it can be kept."""
    workload = workloads.decode_workload(kind, data)
    selector = workload.selector
    if selector is not None:
        selector = replace(selector, requirements=tuple(map(_requirement, selector.requirements)))
    return replace(workload, owner=workload.owner and _owner(workload.owner), selector=selector)


def share_parts(pod: Pod) -> Pod:
    """The same pod made of shared parts, without annotations of others."""
    ours = {name: value for name, value in pod.annotations.items() if _is_read(name)}
    return replace(
        pod,
        labels=_map(tuple(pod.labels.items())),
        annotations=_map(tuple(ours.items())),
        # Where only others have annotations the map is there all the same.
        has_empty_annotations=pod.has_empty_annotations or (bool(pod.annotations) and not ours),
        owner=pod.owner and _owner(pod.owner),
    )


def _is_read(annotation: str) -> bool:
    return annotation.startswith(OUR_ANNOTATIONS) or annotation in KEEPS_FROM_EVICTION


@lru_cache(maxsize=_KEPT)
def _map(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(items)


@lru_cache(maxsize=_KEPT)
def _requirement(requirement: LabelRequirement) -> LabelRequirement:
    return requirement


@lru_cache(maxsize=_KEPT)
def _owner(owner: OwnerReference) -> OwnerReference:
    return owner
