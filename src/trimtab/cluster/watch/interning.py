"""Shared parts of pods and workloads are kept once, since stores of them have to stay small.

Most pods of one workload have the same labels, owner and resources; equal resources are already
shared when they are decoded. Of annotations only those are kept that decisions read; others are
long and differ from pod to pod. Most ReplicaSets are old revisions (F36), and those of one
Deployment have nearly everything in common. Sharing saves memory only: except for annotations,
the pod stays equal to the decoded one.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

from msgspec import structs

from trimtab.api.kinds import pods, workloads
from trimtab.core.model.pods import KEEPS_FROM_EVICTION, OwnerReference, Pod
from trimtab.core.model.selectors import LabelRequirement
from trimtab.core.model.workloads import Workload

OUR_ANNOTATIONS: Final = "vpa"
"""Prefix of the names of our own annotations (`core.annotations`)."""

_KEPT: Final = 65_536
"""Number of different parts that are shared at a time; the least recently used ones go."""


def decode_thrifty_pod(data: bytes) -> Pod:
    """Decode a pod from JSON, as small as it can be kept."""
    return share_parts(pods.decode_pod(data))


def decode_thrifty_workload(kind: str, data: bytes) -> Workload:
    """Decode a workload of a well-known kind from JSON, as small as it can be kept."""
    workload = workloads.decode_workload(kind, data)
    selector = workload.selector
    if selector is not None:
        selector = replace(selector, requirements=tuple(map(_requirement, selector.requirements)))
    return replace(workload, owner=workload.owner and _owner(workload.owner), selector=selector)


def share_parts(pod: Pod) -> Pod:
    """Return the same pod made of shared parts, without annotations of others."""
    ours = {name: value for name, value in pod.annotations.items() if _is_read(name)}
    return structs.replace(
        pod,
        labels=_map(tuple(pod.labels.items())),
        annotations=_map(tuple(ours.items())),
        # Where only others have annotations the map still exists.
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
