"""Events that Trimtab writes about pods and autoscalers, each with its text."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Final

from trimtab.api.wire import codec, times
from trimtab.api.wire.codec import Written
from trimtab.core.model import quantities
from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.pods import Allocation, Pod, TargetResources
from trimtab.core.model.resources import BOTH, Resource

UPDATER: Final = "vpa-updater"
"""Source component in the updater's events."""

NOTHING_WANTED: Final[TargetResources] = {}
_MAX_NAME: Final = 253
_MAX_CONTAINERS: Final = 5
"""Maximum number of containers in a message: the API server takes 1 024 characters."""
_MIB: Final = 2**20


class EventReason(StrEnum):
    """Reason of an event; users filter by these words, most of them the original's."""

    EVICTED_BY_VPA = "EvictedByVPA"
    EVICTED_POD = "EvictedPod"
    IN_PLACE_RESIZED_BY_VPA = "InPlaceResizedByVPA"
    IN_PLACE_RESIZE_SKIPPED = "InPlaceResizeSkipped"
    BOOST_STUCK = "StartupBoostNotEnded"
    """Trimtab's own: the original only has a metric for it (D9)."""


class EventType(StrEnum):
    """Severity of an event."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """An occurrence that concerns an object."""

    about: ObjectReference
    reason: str
    message: str
    at: datetime
    component: str = UPDATER
    type: EventType = EventType.NORMAL


class _Reference(Written, frozen=True, kw_only=True):
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""


class _Metadata(Written, frozen=True, kw_only=True):
    name: str
    namespace: str


class _Source(Written, frozen=True, kw_only=True):
    component: str


class _Event(Written, frozen=True, kw_only=True):
    api_version: str
    kind: str
    metadata: _Metadata
    involved_object: _Reference
    reason: str
    message: str
    source: _Source
    first_timestamp: str
    last_timestamp: str
    count: int
    type: str
    event_time: str | None = None
    reporting_component: str


def about_pod(pod: Pod) -> ObjectReference:
    """Return a reference to the pod."""
    return ObjectReference("v1", "Pod", pod.namespace, pod.name, pod.uid, pod.resource_version)


def about_autoscaler(autoscaler: Autoscaler) -> ObjectReference:
    """Return a reference to the autoscaler."""
    return ObjectReference(
        "autoscaling.k8s.io/v1",
        "VerticalPodAutoscaler",
        autoscaler.namespace,
        autoscaler.name,
        autoscaler.uid,
        autoscaler.resource_version,
    )


def evicted(
    pod: Pod, autoscaler: Autoscaler, at: datetime, wanted: TargetResources = NOTHING_WANTED
) -> tuple[Event, Event]:
    """Return the events of an eviction on the pod and on its autoscaler."""
    changes = _format_changes(pod, wanted)
    on_pod = f"Evicted so that its successor starts with the recommended resources{changes}."
    on_autoscaler = f"Evicted pod {pod.name} to apply the recommended resources{changes}."
    return (
        Event(about_pod(pod), EventReason.EVICTED_BY_VPA, on_pod, at),
        Event(about_autoscaler(autoscaler), EventReason.EVICTED_POD, on_autoscaler, at),
    )


def resized(pod: Pod, at: datetime, wanted: TargetResources = NOTHING_WANTED) -> Event:
    """Return the event of a resize in place on the pod."""
    message = f"Resized in place to the recommended resources{_format_changes(pod, wanted)}."
    return Event(about_pod(pod), EventReason.IN_PLACE_RESIZED_BY_VPA, message, at)


def unboosted(pod: Pod, containers: Iterable[str], at: datetime, note: str = "") -> Event:
    """Return the event on a pod whose startup boost has ended by a resize in place."""
    ended = ", ".join(_format_unboosted(pod, name) for name in containers)
    message = f"Resized in place: the startup boost has ended for {ended}{note and f', {note}'}."
    return Event(about_pod(pod), EventReason.IN_PLACE_RESIZED_BY_VPA, message, at)


def resize_skipped(pod: Pod, at: datetime) -> Event:
    """Return the event on a pod that is not resized because its node cannot fit it."""
    message = (
        "Not resized: its node has no room for what is recommended, or refused it before; "
        "it is tried again when there is room or the recommendation is smaller."
    )
    return Event(about_pod(pod), EventReason.IN_PLACE_RESIZE_SKIPPED, message, at)


def resize_denied(pod: Pod, at: datetime, detail: str) -> Event:
    """Return the event on a pod that is not resized because the API server refuses its size."""
    message = f"Not resized, and not evicted for the same size: {detail}"
    return Event(about_pod(pod), EventReason.IN_PLACE_RESIZE_SKIPPED, message, at)


def unboost_failed(pod: Pod, at: datetime, detail: str) -> Event:
    """Return the event on a pod whose startup boost is over and cannot be taken back yet."""
    message = (
        f"Its startup boost is over and the pod keeps its CPU until a retry succeeds: {detail}"
    )
    return Event(about_pod(pod), EventReason.BOOST_STUCK, message, at, type=EventType.WARNING)


def _format_changes(pod: Pod, wanted: TargetResources) -> str:
    """Return the changes by container, as `app: cpu 500m→800m`; empty if none are known."""
    found = [
        f"{container.name}: {', '.join(changes)}"
        for container in pod.containers
        if container.name in wanted
        and (changes := [*_list_changes(container.current, wanted[container.name])])
    ]
    if not found:
        return ""
    more = len(found) - _MAX_CONTAINERS
    shown = [*found[:_MAX_CONTAINERS], *([f"{more} more containers"] if more > 0 else [])]
    return f": {'; '.join(shown)}"


def _list_changes(before: Allocation, after: Allocation) -> Iterator[str]:
    sides = {"": (before.requests, after.requests), " limit": (before.limits, after.limits)}
    for kind in BOTH:
        for side, (had, gets) in sides.items():
            old, new = (had or {}).get(kind), (gets or {}).get(kind)
            if new is not None and new != old:
                yield f"{kind}{side} {_format_amount(kind, old)}→{_format_amount(kind, new)}"


def _format_amount(kind: Resource, amount: int | None) -> str:
    if amount is None:
        return "none"
    if kind is Resource.MEMORY and amount >= _MIB:
        # Rounded for readers: the pod has the exact number of bytes.
        amount = round(amount / _MIB) * _MIB
    return quantities.format_amount(kind, amount)


def _format_unboosted(pod: Pod, name: str) -> str:
    requests = [each.current.requests or {} for each in pod.containers if each.name == name]
    cpu = requests[0].get(Resource.CPU) if requests else None
    return name if cpu is None else f"{name} (cpu {quantities.format_amount(Resource.CPU, cpu)})"


def encode_event(event: Event) -> bytes:
    """Return the JSON of the event, to create it in its object's namespace."""
    about = event.about
    at = times.format_time(event.at)
    return codec.encode(
        _Event(
            api_version="v1",
            kind="Event",
            metadata=_Metadata(name=event_name(event), namespace=about.namespace or "default"),
            involved_object=_Reference(
                api_version=about.api_version,
                kind=about.kind,
                namespace=about.namespace,
                name=about.name,
                uid=about.uid,
                resource_version=about.resource_version,
            ),
            reason=event.reason,
            message=event.message,
            source=_Source(component=event.component),
            first_timestamp=at,
            last_timestamp=at,
            count=1,
            type=event.type,
            reporting_component=event.component,
        )
    )


def encode_event_count(count: int, at: datetime) -> bytes:
    """Return the merge patch that updates how often and when an event last happened."""
    return codec.encode({"count": count, "lastTimestamp": times.format_time(at)})


def event_name(event: Event) -> str:
    """Return the name of the event object."""
    # Several events of one object may share a time, so the time alone is not unique.
    content = (event.about.uid, event.reason, event.message, times.format_micro_time(event.at))
    suffix = "." + sha256("\0".join(content).encode()).hexdigest()[:16]
    return event.about.name[: _MAX_NAME - len(suffix)].rstrip(".-") + suffix
