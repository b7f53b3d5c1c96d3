"""Execution of one act of a plan, and its result.

A failure is a result here, not an error: a plan consists of many acts, and most failures mean no
more than "not now". The caller has the stores, and checks first that an act is still due.
"""

import re
from enum import StrEnum
from http import HTTPStatus
from typing import Final, assert_never

from trimtab.api.wire.status_errors import Status
from trimtab.cluster.errors import (
    ApiError,
    BudgetError,
    ClusterError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    TooManyRequestsError,
    UnreachableError,
)
from trimtab.cluster.ports import Cluster
from trimtab.core.changes.outcomes import Act, Evict, Resize, Unboost
from trimtab.core.sizing.resize_patch import resize_patch
from trimtab.core.updates import resize_or_evict


class ActResult(StrEnum):
    """Result of an act; the value names it to users."""

    DONE = "Done"
    WITHDRAWN = "Withdrawn"
    """Not tried: the autoscaler was edited, paused or deleted, another updater leads now, or
    evictions are stopped for lack of successors."""
    OUTDATED = "Outdated"
    """The pod is not, or no longer, in the state that the plan was made for."""
    PROTECTED = "PodDisruptionBudget"
    """A budget does not allow it now, or several budgets select the pod."""
    FORBIDDEN = "Forbidden"
    """A right is missing."""
    REFUSED = "Refused"
    """The API server will never accept it as it is."""
    BUSY = "Busy"
    """The API server asks for a later attempt, or cannot be reached."""
    UNKNOWN = "Unknown"
    """It was sent, and no answer came: it counts as done until the pod shows otherwise."""
    FAILED = "Failed"
    """Any other answer of an API server."""


_NODE_CAPACITY: Final = "NodeCapacity"
"""The cause that the API server names where a node is too small for a resize."""
_DENIED: Final = re.compile(r"admission webhook \S+ denied the request|denied request: ")
"""The words in which the API server quotes webhooks and policies."""
_SEVERAL_BUDGETS: Final = "more than one PodDisruptionBudget"
"""The words in which the API server refuses, with 500, a pod that several budgets select."""

_RESULTS: Final = (
    (BudgetError, ActResult.PROTECTED),
    (TooManyRequestsError, ActResult.BUSY),
    (ConflictError, ActResult.OUTDATED),
    (NotFoundError, ActResult.OUTDATED),
    (InvalidError, ActResult.REFUSED),
)
"""By error, the special before the general."""


async def carry_out(cluster: Cluster, act: Act) -> tuple[ActResult, ClusterError | None]:
    """Carry out the act; return its result, and the error behind it if it was not done."""
    try:
        match act:
            case Evict():
                await cluster.evict(act.pod)
            case Resize():
                await _ask_budgets(cluster, act)
                await _resize(cluster, act)
            case Unboost():
                await _ask_budgets(cluster, act)
                await _unboost(cluster, act)
            case _:
                assert_never(act)
    except ClusterError as error:
        return _read(error), error
    return ActResult.DONE, None


async def _ask_budgets(cluster: Cluster, act: Resize | Unboost) -> None:
    """Check the budgets by a trial eviction before a resize that restarts containers (F24).

    A restart of nothing but OOM-killed containers of a pod that is down costs no budget.
    """
    match act:
        case Resize():
            is_disruption = act.disturbs
        case Unboost():
            is_disruption = resize_or_evict.restarts_containers(act.pod, act.wanted)
        case _:
            assert_never(act)
    if not is_disruption:
        return
    try:
        await cluster.try_eviction(act.pod)
    except UnreachableError as error:
        # It was only a trial, which has no effect.
        raise UnreachableError(error.request, error.status.message, was_sent=False) from error


async def _resize(cluster: Cluster, act: Resize | Unboost) -> None:
    patch = resize_patch(act.pod, act.wanted)
    if patch is None:
        return
    await cluster.resize(act.pod, patch.resources)
    try:
        await cluster.patch_pod(act.pod, patch.metadata)
    except ClusterError:
        # The pod has its size. The next resize writes the annotation.
        return


async def _unboost(cluster: Cluster, act: Unboost) -> None:
    """Ask for the CPU without the boost or, once the kubelet reports it, remove the marks."""
    if not act.is_reported:
        await _resize(cluster, act)
        return
    patch = resize_patch(act.pod, {}, ended_boosts=act.containers)
    if patch is not None:
        await cluster.patch_pod(act.pod, patch.metadata)


def server_words(error: ClusterError | None) -> str:
    """Return the API server's message about a request that it refused."""
    return error.status.message or error.status.reason if isinstance(error, ApiError) else ""


def is_denial(error: ClusterError | None) -> bool:
    """Return True if the API server refused a size, whichever way a pod would get it.

    Its own validation names fields of the pod, and concerns resizes; so does the room of a node.
    """
    if not isinstance(error, ApiError) or any(
        cause.field or cause.reason == _NODE_CAPACITY for cause in error.causes
    ):
        return False
    is_forbidden = isinstance(error, ForbiddenError) and error.right is None
    is_by_policy = isinstance(error, InvalidError) and bool(error.causes)
    return is_forbidden or is_by_policy or _is_by_webhook(error)


def _is_by_webhook(error: ApiError) -> bool:
    # A webhook that names no code is quoted with 400, others with the code that they name.
    return _DENIED.search(error.status.message) is not None


def _read(error: ClusterError) -> ActResult:
    match error:
        case ApiError(status=Status(code=HTTPStatus.INTERNAL_SERVER_ERROR)) if (
            _SEVERAL_BUDGETS in error.status.message
        ):
            return ActResult.PROTECTED
        case ApiError(status=Status(code=HTTPStatus.BAD_REQUEST)) if _is_by_webhook(error):
            return ActResult.REFUSED
        case ForbiddenError():
            # If no right is missing, the refusal concerns this change: a quota, or a node.
            return ActResult.REFUSED if error.right is None else ActResult.FORBIDDEN
        case ApiError(status=Status(code=HTTPStatus.BAD_GATEWAY | HTTPStatus.GATEWAY_TIMEOUT)):
            # A proxy in between has lost the answer, or given up waiting for it.
            return ActResult.UNKNOWN
        case UnreachableError():
            return ActResult.UNKNOWN if error.was_sent else ActResult.BUSY
        case _:
            found = (result for kind, result in _RESULTS if isinstance(error, kind))
            return next(found, ActResult.FAILED)
