"""Conditions of pods: readiness, scheduling, and resizes in place."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from trimtab.api.kinds.pod_parts.wire import ConditionWire
from trimtab.api.wire import times
from trimtab.api.wire.times import ZERO_TIME
from trimtab.core.model.pods import ResizeState

_PENDING: Final = "PodResizePending"
_IN_PROGRESS: Final = "PodResizeInProgress"
_PENDING_STATES: Final = {
    "Deferred": ResizeState.DEFERRED,
    "Infeasible": ResizeState.INFEASIBLE,
}
_MOST_WORDS: Final = 512
"""Maximum number of characters kept of a message."""


def ready_since(conditions: tuple[ConditionWire, ...]) -> datetime | None:
    """Return the time at which the pod last became ready; None while it is not."""
    for index, condition in enumerate(conditions):
        if condition.type == "Ready" and condition.status == "True":
            path = f"status.conditions[{index}].lastTransitionTime"
            return times.decode_time(condition.last_transition_time, path) or ZERO_TIME
    return None


def unschedulable_since(conditions: tuple[ConditionWire, ...]) -> datetime | None:
    """Return the time since which the scheduler finds no node; None if it does not say so."""
    for index, condition in enumerate(conditions):
        if condition.type == "PodScheduled" and condition.reason == "Unschedulable":
            path = f"status.conditions[{index}].lastTransitionTime"
            return times.decode_time(condition.last_transition_time, path) or ZERO_TIME
    return None


def resize_state(conditions: Iterable[ConditionWire]) -> ResizeState | None:
    """Return how far the kubelet is with a resize; None without one."""
    resizes = [condition for condition in conditions if condition.type in (_PENDING, _IN_PROGRESS)]
    if not resizes or resizes[0].status != "True":
        return None
    for condition in resizes:
        if condition.type == _PENDING:
            return _PENDING_STATES.get(condition.reason or "", ResizeState.PENDING_UNKNOWN)
    return _progress_state(resizes[0])


def resize_message(conditions: Iterable[ConditionWire]) -> str:
    """Return the kubelet's message about a resize, cut to a length that fits an event."""
    for kind in (_PENDING, _IN_PROGRESS):
        for condition in conditions:
            if condition.type == kind and condition.status == "True" and condition.message:
                return condition.message[:_MOST_WORDS]
    return ""


def _progress_state(condition: ConditionWire) -> ResizeState:
    if condition.reason == "Error":
        return ResizeState.ERROR
    if condition.reason or condition.message:
        return ResizeState.IN_PROGRESS_UNKNOWN
    return ResizeState.IN_PROGRESS
