"""Memory of pods from one plan to the next, and the events that change it.

A memory belongs to a pod under one autoscaler. When another autoscaler takes the pod over, its
memory starts afresh (S37) with that moment. A memory ends with its pod.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from trimtab.core.changes.outcomes import Unboost
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.pods import (
    IN_PLACE_UPDATED,
    PUT_OFF,
    Allocation,
    Container,
    Pod,
    TargetResources,
)
from trimtab.core.model.resources import Resources
from trimtab.core.sizing import container_resources, startup_boost
from trimtab.core.updates.resize_or_evict import (
    DeniedAttempt,
    InfeasibleAttempt,
    ResizeMemory,
    Targets,
    restarts_containers,
)
from trimtab.core.updates.snapshot import NO_MEMORY, MemoryKey, PodMemory, Retry

UNBOOST_FIRST_DELAY: Final = timedelta(seconds=10)
"""Delay after the first attempt to end a boost failed (D9)."""
SETTLING_FOR: Final = timedelta(minutes=5)
"""Maximum time after a change in which a pod counts as settling."""


@dataclass(frozen=True, slots=True)
class Recollection:
    """The autoscaler that governs a pod, and the memory of the pod under it."""

    governor: AutoscalerName | None
    memory: PodMemory = NO_MEMORY
    resized_version: str = ""
    """The resource version that the pod had when its last resize was requested."""
    updated_before: datetime | None = None
    """When it was last changed for certain, if the last resize got no answer."""
    is_successor: bool = False
    """True if it took the place of a pod that was evicted for its size."""


def recall(
    before: Mapping[str, Recollection],
    seen: Iterable[tuple[Pod, AutoscalerName | None]],
    now: datetime,
) -> dict[str, Recollection]:
    """Return by uid the memories that change with the pods that are seen now."""
    found = {}
    for pod, governor in seen:
        known = before.get(pod.uid)
        # This runs for every pod of every plan, and mostly nothing has changed: no call for that.
        if (
            known is None
            or known.governor != governor
            or (pod.resize is None) != (known.memory.resize.resize_since is None)
            or (known.memory.unmarked and _shown_unmarked(known.memory, pod))
        ):
            found[pod.uid] = _recall_one(known, pod, governor, now)
    return found


def pod_memory(
    recollections: Mapping[str, Recollection], uids: Iterable[str]
) -> dict[MemoryKey, PodMemory]:
    """Return the memory of these pods as plans read it; most pods have none."""
    return {
        (uid, found.governor): found.memory
        for uid in uids
        if (found := recollections.get(uid)) is not None and found.memory is not NO_MEMORY
    }


def after_resize(
    before: Recollection, pod: Pod, now: datetime, wanted: TargetResources | None = None
) -> Recollection:
    """Record an accepted resize: its time begins, and earlier refusals are forgotten."""
    left = _left(before, pod, wanted or {})
    resize = ResizeMemory(resize_since=now, asked=_requests(wanted), left=left)
    memory = replace(before.memory, resize=resize, last_updated_at=now)
    return replace(before, memory=memory, resized_version=pod.resource_version)


def after_silence(
    before: Recollection, pod: Pod, now: datetime, wanted: TargetResources | None = None
) -> Recollection:
    """Record a resize without an answer: it counts as made until the pod shows otherwise."""
    left = _left(before, pod, wanted or {})
    resize = replace(before.memory.resize, resize_since=now, asked=_requests(wanted), left=left)
    memory = replace(before.memory, resize=resize, last_updated_at=now)
    return replace(
        before,
        memory=memory,
        resized_version=pod.resource_version,
        updated_before=before.memory.last_updated_at,
    )


def after_no_effect(before: Recollection, asked_at: datetime) -> Recollection:
    """Undo the record of a resize without an answer, once the pod shows that it was not made."""
    if before.memory.last_updated_at != asked_at:
        # Something else was done since, and counts.
        return before
    resize = replace(before.memory.resize, asked={}, left={})
    memory = replace(before.memory, resize=resize, last_updated_at=before.updated_before)
    return replace(before, memory=memory, resized_version="", updated_before=None)


def after_refusal(before: Recollection, wanted: TargetResources, now: datetime) -> Recollection:
    """Record a resize that was refused as infeasible."""
    resize = replace(before.memory.resize, infeasible=InfeasibleAttempt(_requests(wanted), now))
    return replace(before, memory=replace(before.memory, resize=resize))


def after_denial(
    before: Recollection, wanted: TargetResources, now: datetime, words: str
) -> Recollection:
    """Record that the API server refused the size that a resize asked for."""
    resize = replace(before.memory.resize, denied=DeniedAttempt(_requests(wanted), now, words))
    return replace(before, memory=replace(before.memory, resize=resize))


def after_unboost(before: Recollection, act: Unboost, now: datetime) -> Recollection:
    """Record a request to end a boost; it is repeated ever later until the kubelet reports it.

    Once the kubelet has reported it, the marks are gone and nothing is left to ask for.
    """
    if act.is_reported:
        memory = before.memory
        asked = {
            name: cpu for name, cpu in memory.unboost_asked.items() if name not in act.containers
        }
        unmarked = memory.unmarked.union(act.containers)
        memory = replace(
            memory,
            unboost=Retry(),
            unboost_asked=asked,
            unboost_error="",
            unmarked=unmarked,
            unmarked_at=now,
        )
        return replace(before, memory=memory)
    resized = _with_left(after_resize(before, act.pod, now), act)
    return replace(resized, memory=_asked(resized.memory, act, now))


def after_failed_unboost(before: Recollection, now: datetime, *, error: str = "") -> Recollection:
    """Record that a request to end a boost failed, and why; it is repeated ever later (D9)."""
    memory = replace(
        before.memory,
        unboost=before.memory.unboost.after_failure(now, UNBOOST_FIRST_DELAY),
        unboost_error=error or before.memory.unboost_error,
    )
    return replace(before, memory=memory)


def after_silent_unboost(before: Recollection, act: Unboost, now: datetime) -> Recollection:
    """Record a request to end a boost without an answer: it counts as made, and is repeated."""
    silent = before
    if not act.is_reported:
        silent = _with_left(after_silence(before, act.pod, now), act)
    return after_failed_unboost(silent, now)


def after_protection(before: Recollection, until: datetime) -> Recollection:
    """Record that a PodDisruptionBudget did not allow an eviction; no try before `until`."""
    retry = Retry(before.memory.eviction.failures + 1, until)
    return replace(before, memory=replace(before.memory, eviction=retry))


def after_succession(before: Recollection, evicted_at: datetime) -> Recollection:
    """Record that the pod succeeds an evicted one: the eviction counts as its last change."""
    memory = replace(before.memory, last_updated_at=evicted_at)
    return replace(before, memory=memory, is_successor=True)


def is_settling(recollection: Recollection, pod: Pod, now: datetime) -> bool:
    """Return True if the pod is still disturbed by its last change, or does not show it yet.

    A resize that restarts nothing disturbs nothing (D17). A successor is one pod less until it is
    ready: its users see it as down.
    """
    updated = recollection.memory.last_updated_at
    if updated is None:
        return False
    # A successor may come late, and needs its time then.
    begun = max(updated, pod.created_at or updated) if recollection.is_successor else updated
    if now - begun > SETTLING_FOR:
        return False
    if not recollection.resized_version or not restarts_containers(pod):
        return recollection.is_successor and pod.ready_since is None
    if pod.resource_version == recollection.resized_version:
        return True
    if pod.resize in PUT_OFF:
        return False
    under_way = pod.resize is not None or any(map(_is_behind, pod.containers))
    return under_way or pod.ready_since is None


def _requests(wanted: TargetResources | None) -> Targets:
    return {name: allocation.requests or {} for name, allocation in (wanted or {}).items()}


def _left(before: Recollection, pod: Pod, wanted: TargetResources) -> Mapping[str, Allocation]:
    """Return what the pod's spec asks for after a resize, but for what others asked for.

    Before the first resize by any autoscaler, shrinks that are under way are a person's.
    """
    known = before.memory.resize.left
    is_first = IN_PLACE_UPDATED not in pod.annotations
    return {
        each.name: container_resources.overlaid(
            known.get(each.name) or (_at_most(each) if is_first else each.spec),
            wanted.get(each.name),
        )
        for each in pod.containers
    }


def _at_most(container: Container) -> Allocation:
    """Return the larger of what the container has and what its spec asks for."""
    spec, has = container.spec, container.current
    return Allocation(_larger(spec.requests, has.requests), _larger(spec.limits, has.limits))


def _larger(one: Resources | None, other: Resources | None) -> Resources:
    first, second = one or NO_AMOUNTS, other or NO_AMOUNTS
    return {kind: max(amount, second.get(kind, amount)) for kind, amount in first.items()}


def _with_left(before: Recollection, act: Unboost) -> Recollection:
    resize = replace(before.memory.resize, left=_left(before, act.pod, act.wanted))
    return replace(before, memory=replace(before.memory, resize=resize))


def _is_behind(container: Container) -> bool:
    """Return True if the kubelet has yet to give the container what its spec says."""
    return container.status is not None and container.status.requests != container.spec.requests


def _asked(memory: PodMemory, act: Unboost, now: datetime) -> PodMemory:
    return replace(
        memory,
        unboost=memory.unboost.after_failure(now, UNBOOST_FIRST_DELAY),
        unboost_asked={**memory.unboost_asked, **act.wanted},
        unboost_cause=act.cause,
        unboost_error="",
    )


def _recall_one(
    before: Recollection | None, pod: Pod, governor: AutoscalerName | None, now: datetime
) -> Recollection:
    if before is None:
        before = Recollection(governor)
    elif before.governor != governor:
        before = _taken_over(before, governor, now)
    if shown := _shown_unmarked(before.memory, pod):
        # A mark that is there again is another one.
        unmarked = before.memory.unmarked - shown
        before = replace(before, memory=replace(before.memory, unmarked=unmarked))
    if not _resize_shows_otherwise(before, pod):
        return before
    if pod.resize is None and pod.resource_version == before.resized_version:
        # The store does not show the requested resize yet.
        return before
    since = None if pod.resize is None else now
    resize = replace(before.memory.resize, resize_since=since)
    memory = replace(before.memory, resize=resize)
    return replace(before, memory=memory)


def _shown_unmarked(memory: PodMemory, pod: Pod) -> frozenset[str]:
    """Return the containers whose mark was removed, as far as the view shows that by now."""
    return frozenset(
        name
        for name in memory.unmarked
        if startup_boost.annotation_name(name) not in pod.annotations
    )


def _resize_shows_otherwise(before: Recollection, pod: Pod) -> bool:
    """Return True if a resize began or ended since."""
    return (pod.resize is None) != (before.memory.resize.resize_since is None)


def _taken_over(
    before: Recollection, governor: AutoscalerName | None, now: datetime
) -> Recollection:
    if governor is None:
        # It may come back in a moment: a label that flaps must not look like a new role.
        return before
    since = None if before.governor is None else now
    # What was last asked for is a fact about the pod, whichever autoscaler it was for.
    resize = ResizeMemory(left=before.memory.resize.left)
    return Recollection(governor, PodMemory(resize, governed_since=since))
