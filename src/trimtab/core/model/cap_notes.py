"""Notes about the update of a pod: records, and their text in one place.

The texts are an interface: people and scripts read them in the annotation `vpaUpdates`.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Final

import msgspec

from trimtab.core.model.pods import IN_PLACE_UPDATED, UPDATES, Container, ContainerKind
from trimtab.core.model.resources import Resource


class NoteKind(StrEnum):
    """The reason why a container does not get exactly what was recommended."""

    MIN_ALLOWED = "MinAllowed"
    MAX_ALLOWED = "MaxAllowed"
    CONTAINER_LIMIT = "ContainerLimit"
    LIMIT_RANGE_MIN = "LimitRangeMin"
    LIMIT_RANGE_MAX = "LimitRangeMax"
    NODE_SIZE = "NodeSize"
    QOS_CLASS = "QosClass"
    LIMIT_RANGE_REFUSES = "LimitRangeRefuses"
    """Nothing is applied: a LimitRange would refuse the pod with it, and takes it without."""
    QUOTA_REFUSES = "QuotaRefuses"
    """Nothing is applied: a ResourceQuota would refuse the pod with it, and takes it without."""
    PODS_REFUSED = "PodsRefused"
    """Nothing is applied: earlier pods of the owner with it were never created."""
    TARGET_MISTAKEN = "TargetMistaken"
    """Nothing is applied: the target is close to zero, or more than any machine has."""
    NO_LIMIT_TO_SCALE = "NoLimitToScale"
    NO_REQUEST_TO_FOLLOW = "NoRequestToFollow"
    RATIO_LOST = "RatioLost"
    BOOST_LIMIT_RANGE = "BoostLimitRange"
    BOOST_POD_RESOURCES = "BoostPodResources"
    BOOST_NODE_SIZE = "BoostNodeSize"
    BOOST_QUOTA = "BoostQuota"
    BOOST_WINDOWS = "BoostWindows"
    """There is no boost: Kubernetes does not resize the pod, so that it could never end."""
    BOOST_PREEMPTS = "BoostPreempts"
    """There is no boost: the scheduler might preempt other pods to make room for it."""
    NOT_BOOSTED = "NotBoosted"
    BOOST_RESTARTS = "BoostRestarts"
    """There is no boost: its end would restart the container, as its `resizePolicy` asks."""
    BOOST_REFUSED = "BoostRefused"
    """There is no boost: earlier pods of the owner with it were never created."""


LEFT_OUT: Final = frozenset(
    {
        NoteKind.BOOST_PREEMPTS,
        NoteKind.BOOST_REFUSED,
        NoteKind.BOOST_RESTARTS,
        NoteKind.BOOST_WINDOWS,
    }
)
"""Reasons for no boost at all, however much room there is."""


class Note(msgspec.Struct, frozen=True, gc=False):
    """One remark about one resource of a container."""

    resource: Resource
    kind: NoteKind


class ContainerUpdate(msgspec.Struct, frozen=True, gc=False):
    """The changes that admission makes in one container."""

    container: Container
    requests: tuple[Resource, ...] = ()
    limits: tuple[Resource, ...] = ()
    notes: tuple[Note, ...] = ()


_NOTE_TEXTS: Final = {
    NoteKind.MIN_ALLOWED: " capped to minAllowed",
    NoteKind.MAX_ALLOWED: " capped to maxAllowed",
    NoteKind.CONTAINER_LIMIT: " capped to container limit",
    NoteKind.LIMIT_RANGE_MIN: " capped to fit Min in container LimitRange",
    NoteKind.LIMIT_RANGE_MAX: " capped to fit Max in container LimitRange",
    NoteKind.NODE_SIZE: " capped to fit the largest node",
    NoteKind.QOS_CLASS: " kept one step below the limit for the QoS class",
    NoteKind.LIMIT_RANGE_REFUSES: " NOT updated since the LimitRange would refuse the pod",
    NoteKind.QUOTA_REFUSES: " NOT updated since a ResourceQuota would refuse the pod",
    NoteKind.PODS_REFUSED: " NOT updated since pods of the recommended size were not created",
    NoteKind.TARGET_MISTAKEN: " NOT updated since no container can have the recommended amount",
    NoteKind.NO_LIMIT_TO_SCALE: ": limit NOT set since originalLimit is nil or 0",
    NoteKind.NO_REQUEST_TO_FOLLOW: ": limit NOT set since recommendedRequest is nil or 0",
    NoteKind.RATIO_LOST: ": failed to keep limit to request ratio; capping limit to int64",
    NoteKind.BOOST_LIMIT_RANGE: " startup boost capped to fit the LimitRange",
    NoteKind.BOOST_POD_RESOURCES: " startup boost left out for a pod with resources of its own",
    NoteKind.BOOST_NODE_SIZE: " startup boost capped to fit the largest node",
    NoteKind.BOOST_QUOTA: " startup boost capped to fit the ResourceQuota",
    NoteKind.BOOST_WINDOWS: " startup boost left out since Windows pods cannot be resized",
    NoteKind.BOOST_PREEMPTS: " startup boost left out since the pod could preempt others for it",
    NoteKind.NOT_BOOSTED: " NOT boosted since no room is left",
    NoteKind.BOOST_RESTARTS: " startup boost left out since its end would restart the container",
    NoteKind.BOOST_REFUSED: " startup boost left out since boosted pods were not created",
}

_CONTAINER_TEXTS: Final = {
    ContainerKind.REGULAR: "container",
    ContainerKind.SIDECAR: "init container",
}

_CPU_REQUEST: Final = f"{Resource.CPU} request"
_ITEM: Final = re.compile(r"(?:: |, )(?:cpu|memory) (?:request|limit)(?:[,;]|$)")
"""An amount that admission has set."""


def format_note(note: Note) -> str:
    """Return the text of a note, as `vpaUpdates` shows it."""
    return f"{note.resource}{_NOTE_TEXTS[note.kind]}"


def format_updates(autoscaler_name: str, updates: Iterable[ContainerUpdate]) -> str:
    """Return the value of `vpaUpdates`."""
    parts = "; ".join(map(_format_update, updates))
    return f"{_opening(autoscaler_name)}{parts}"


def names_autoscaler(updates: str, autoscaler_name: str) -> bool:
    """Return True if a value of `vpaUpdates` says that this autoscaler gave the pod its size."""
    return updates.startswith(_opening(autoscaler_name))


def has_note(annotations: Mapping[str, str], note: Note) -> bool:
    """Return True if admission noted this on the pod, of whichever container."""
    return format_note(note) in annotations.get(UPDATES, "")


def was_sized(annotations: Mapping[str, str]) -> bool:
    """Return True if the pod says that an autoscaler gave it requests or limits.

    The size of such a pod says nothing about the size in its template.
    """
    updates = annotations.get(UPDATES, "")
    return IN_PLACE_UPDATED in annotations or _ITEM.search(updates) is not None


def lists_cpu(updates: str) -> bool:
    """Return True if a value of `vpaUpdates` says that admission set a CPU request."""
    return _CPU_REQUEST in updates


def _opening(autoscaler_name: str) -> str:
    return f"Pod resources updated by {autoscaler_name}: "


def _format_update(update: ContainerUpdate) -> str:
    container = update.container
    items = _format_items(update.requests, update.limits, update.notes)
    return f"{_CONTAINER_TEXTS[container.kind]} {container.index}: {items}"


# Nearly all containers of a cluster have the same few items.
@lru_cache(maxsize=1024)
def _format_items(
    requests: tuple[Resource, ...], limits: tuple[Resource, ...], notes: tuple[Note, ...]
) -> str:
    items = [
        *map(format_note, notes),
        *(f"{resource} request" for resource in requests),
        *(f"{resource} limit" for resource in limits),
    ]
    return ", ".join(items)
