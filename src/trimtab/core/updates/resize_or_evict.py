"""Decide between a resize in place, an eviction and a hold for a pod that needs a change."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias, assert_never

from trimtab.core.guards.disruption_budgets import GroupPermission
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.pods import Allocation, Container, Pod, PodPhase, ResizeState
from trimtab.core.model.resources import BOTH, Resource, Resources

Targets: TypeAlias = Mapping[str, Resources]
"""Requests by container."""

# Both are constants of the original.
DEFERRED_FOR: Final = timedelta(minutes=5)
IN_PROGRESS_FOR: Final = timedelta(hours=1)


_NOTHING: Final = Allocation()

ANSWERED_WITHIN: Final = timedelta(seconds=10)
"""A kubelet answers a resize within this time; what it says sooner may be about an older one."""

RESTART_GAP: Final = timedelta(seconds=10)
"""Time after which a requested restart shows in the count of healthy pods (F24)."""


_MAY_ASK_AGAIN: Final = frozenset({None, ResizeState.INFEASIBLE, ResizeState.ERROR})
"""The states of a pod in which another resize may be asked for."""


class Action(StrEnum):
    """Ways to change the size of a pod."""

    EVICT = "Evict"
    RESIZE = "Resize"


@dataclass(frozen=True, slots=True)
class InfeasibleAttempt:
    """A resize that the node or the API server refused because it can never fit."""

    targets: Targets
    at: datetime


@dataclass(frozen=True, slots=True)
class DeniedAttempt:
    """A resize that the API server refused for its size: by a policy, a quota or a webhook."""

    targets: Targets
    at: datetime
    words: str = ""
    """The reason in the words of the API server."""


@dataclass(frozen=True, slots=True)
class ResizeMemory:
    """Memory of earlier resizes of one pod under one autoscaler."""

    infeasible: InfeasibleAttempt | None = None
    """Forgotten once a patch succeeds."""
    resize_since: datetime | None = None
    """When the resize that is under way was first seen."""
    asked: Targets = field(default_factory=dict)
    """Requests that the last resize asked for."""
    left: Mapping[str, Allocation] = field(default_factory=dict)
    """By container what its spec asked for after the last resize by this process."""
    denied: DeniedAttempt | None = None
    """Forgotten once a patch succeeds."""


class PodSituation(NamedTuple):
    """All that the choice for one pod depends on; a tuple is made fastest."""

    pod: Pod
    targets: Targets
    standing: GroupPermission
    disruptable: bool
    """True if the budget of its group allows one more disrupted pod."""
    memory: ResizeMemory
    now: datetime
    restarts: bool = False
    """True if the resize would restart a container that may be at work."""
    infeasible_retry_after: timedelta = timedelta(hours=1)
    evict_after_deferred: timedelta = DEFERRED_FOR
    lacks_room: bool = False
    """True if the pod's node has too little left for what would grow."""
    can_move: bool = True
    """True if another node is large enough for the pod's successor."""
    quick_oom: bool = False
    """True if a container dies early for lack of memory, and would get more of it."""


def decide_eviction(situation: PodSituation) -> Action | HoldReason:
    """Decide on an eviction; a pod without a node needs no budget, so that it can fit elsewhere.

    In a group that is too small to lose a pod no pod is evicted. Nor is one whose init containers
    are at work: that work would begin again, and with the next change once more. A pod without a
    node is not evicted to grow: a larger one would find a node no sooner.
    """
    if situation.standing is GroupPermission.RESIZE_ONLY:
        return HoldReason.BELOW_MIN_REPLICAS
    if _is_starting(situation):
        return HoldReason.POD_PENDING
    waits = _reason_to_wait(situation)
    if situation.pod.phase is PodPhase.PENDING and waits is None:
        shrinks = _is_lower_somewhere(situation.targets, _spec_requests(situation.pod))
        return Action.EVICT if shrinks or situation.quick_oom else HoldReason.POD_PENDING
    if waits is not None:
        return waits
    return Action.EVICT if situation.disruptable else HoldReason.BUDGET_SPENT


def decide_resize_or_eviction(situation: PodSituation) -> Action | HoldReason:
    """Decide where an eviction may replace a resize that does not succeed."""
    pod = situation.pod
    if not _has_begun(situation):
        return HoldReason.POD_PENDING
    if pod.resize in (None, ResizeState.INFEASIBLE) and not _is_known_infeasible(situation):
        # A smaller size than the node refused may fit, and restarts nothing.
        return _decide_resize(situation)
    if situation.lacks_room and not situation.can_move:
        # A successor would find no more room than the pod has.
        return HoldReason.RESIZE_INFEASIBLE
    is_new = _differs_from_spec(situation) and not situation.lacks_room
    if pod.resize is ResizeState.ERROR and is_new:
        # Another size may succeed where this one failed, and evicts no pod.
        return _decide_resize(situation)
    if pod.resize is ResizeState.ERROR and _takes_memory(pod):
        # It uses more memory than the new limit: its successor would be OOM-killed.
        return HoldReason.RESIZE_FAILING
    return decide_eviction(situation)


def decide_resize_only(situation: PodSituation) -> Action | HoldReason:
    """Decide where a pod is never evicted."""
    pod = situation.pod
    if not _has_begun(situation):
        return HoldReason.POD_PENDING
    if _is_known_infeasible(situation):
        return HoldReason.RESIZE_INFEASIBLE
    match pod.resize:
        case None | ResizeState.INFEASIBLE:
            return _decide_resize(situation)
        case ResizeState.ERROR:
            is_new = _differs_from_spec(situation)
            return _decide_resize(situation) if is_new else HoldReason.RESIZE_FAILING
        case ResizeState.DEFERRED | ResizeState.PENDING_UNKNOWN:
            return HoldReason.RESIZE_DEFERRED
        case ResizeState.IN_PROGRESS | ResizeState.IN_PROGRESS_UNKNOWN:
            return HoldReason.RESIZE_IN_PROGRESS
        case _:
            assert_never(pod.resize)


def is_denied(situation: PodSituation, action: Action) -> bool:
    """Return True if the API server has lately refused the size that the action is for.

    A resize may be asked for as soon as another size is wanted. A pod is evicted only for a size
    that is lower somewhere: the API server would refuse its successor, and the pod be gone.
    """
    denied = lately_denied(situation.memory, situation.now, situation.infeasible_retry_after)
    if denied is None:
        return False
    if action is Action.RESIZE:
        return situation.targets == denied.targets
    return not _is_lower_somewhere(situation.targets, denied.targets)


def lately_denied(memory: ResizeMemory, now: datetime, span: timedelta) -> DeniedAttempt | None:
    """Return the resize that the API server has refused within the span; None if it has not."""
    denied = memory.denied
    return None if denied is None or now - denied.at >= span else denied


def restarts_containers(pod: Pod, wanted: Mapping[str, Allocation] | None = None) -> bool:
    """Return True if a resize to the wanted amounts restarts a container.

    Without `wanted` any change of any container counts.
    """
    return any(
        wanted is None or _restarts(container, wanted.get(container.name, _NOTHING))
        for container in pod.containers
        # Cheapest first: most containers never restart for a resize, and every plan checks.
        if container.restarts_on_resize
    )


def restarts_others(
    pod: Pod, wanted: Mapping[str, Allocation], killed: Collection[Container]
) -> bool:
    """Return True if a resize restarts a container that is not among those that are killed."""
    return any(
        container not in killed and _restarts(container, wanted.get(container.name, _NOTHING))
        for container in pod.containers
        if container.restarts_on_resize
    )


def without_restarts(
    pod: Pod, wanted: Mapping[str, Allocation], but_of: Collection[Container] = ()
) -> Mapping[str, Allocation]:
    """Keep only the wanted resources whose change restarts nothing but some containers."""
    free = {
        container.name: wanted[container.name]
        if container in but_of
        else _without(container.restarts_on_resize, wanted[container.name])
        for container in pod.containers
        if container.name in wanted
    }
    return {name: allocation for name, allocation in free.items() if allocation.requests}


def lacks_what_was_asked(
    pod: Pod, memory: ResizeMemory, kinds: Collection[Resource] = BOTH
) -> bool:
    """Return True if the pod's spec asks for less of some resources than the last resize did.

    Either the view does not show that resize yet, or another manager has undone it.
    """
    return _is_lower_somewhere(_spec_requests(pod), memory.asked, kinds)


def is_in_progress(pod: Pod, memory: ResizeMemory, now: datetime) -> bool:
    """Return True if the kubelet is at work on a resize, for no longer than that should take."""
    if pod.resize is not ResizeState.IN_PROGRESS:
        return False
    return now - (memory.resize_since or now) <= IN_PROGRESS_FOR


def _is_starting(situation: PodSituation) -> bool:
    """Return True if the pod has a node and prepares to run; one that is OOM-killed does not."""
    return bool(situation.pod.node_name) and not _has_begun(situation)


def _has_begun(situation: PodSituation) -> bool:
    """Return True if the pod runs, or a sidecar of it is OOM-killed before its containers start.

    The API server and the kubelet resize sidecars in that phase, too.
    """
    pod = situation.pod
    return pod.phase is not PodPhase.PENDING or (bool(pod.node_name) and situation.quick_oom)


def _decide_resize(situation: PodSituation) -> Action | HoldReason:
    """Decide on a resize; one that restarts a working container counts as an eviction (D17).

    A pending pod is down already.
    """
    if not situation.restarts or situation.pod.phase is PodPhase.PENDING:
        return Action.RESIZE
    if situation.standing is GroupPermission.RESIZE_ONLY:
        return HoldReason.BELOW_MIN_REPLICAS
    return Action.RESIZE if situation.disruptable else HoldReason.BUDGET_SPENT


def _without(kinds: frozenset[Resource], wanted: Allocation) -> Allocation:
    requests, limits = wanted.requests or NO_AMOUNTS, wanted.limits or NO_AMOUNTS
    return Allocation(
        {kind: amount for kind, amount in requests.items() if kind not in kinds},
        {kind: amount for kind, amount in limits.items() if kind not in kinds},
    )


def _restarts(container: Container, wanted: Allocation) -> bool:
    """Return True if the kubelet would change a resource whose change restarts the container.

    Besides what is wanted, the kubelet catches up with what the spec asks for already.
    """
    has, spec = container.current, container.spec
    return any(
        _changes(kind, spec.requests, wanted.requests, has.requests)
        or _changes(kind, spec.limits, wanted.limits, has.limits)
        for kind in container.restarts_on_resize
    )


def _changes(
    kind: Resource, spec: Resources | None, wanted: Resources | None, has: Resources | None
) -> bool:
    asked = (wanted or NO_AMOUNTS).get(kind, (spec or NO_AMOUNTS).get(kind))
    return asked is not None and asked != (has or NO_AMOUNTS).get(kind)


def _reason_to_wait(situation: PodSituation) -> HoldReason | None:
    """Return why a resize that is under way gets more time; None if it does not."""
    if is_in_progress(situation.pod, situation.memory, situation.now):
        return HoldReason.RESIZE_IN_PROGRESS
    lasted = situation.now - (situation.memory.resize_since or situation.now)
    is_early = lasted <= situation.evict_after_deferred
    is_deferred = situation.pod.resize is ResizeState.DEFERRED
    return HoldReason.RESIZE_DEFERRED if is_deferred and is_early else None


def _is_known_infeasible(situation: PodSituation) -> bool:
    """Return True if the node lacks room, or the kubelet lately refused the same or less."""
    if situation.lacks_room and situation.pod.resize in _MAY_ASK_AGAIN:
        return True
    refused = situation.memory.infeasible
    if situation.pod.resize is ResizeState.INFEASIBLE:
        # The kubelet refused the pod's spec, whatever client set it.
        since = situation.memory.resize_since or situation.now
        refused = InfeasibleAttempt(_spec_requests(situation.pod), since)
        if not _differs_from_spec(situation):
            return True
    if refused is None:
        return False
    # What the refused resize did not name stayed as the spec says.
    asked = {
        name: {**requests, **refused.targets.get(name, NO_AMOUNTS)}
        for name, requests in _spec_requests(situation.pod).items()
    }
    if _is_lower_somewhere(situation.targets, asked):
        return False
    # A refusal can come from a passing state of the node, so it is not believed for ever (F23).
    return situation.now - refused.at < situation.infeasible_retry_after


def _is_lower_somewhere(
    targets: Targets, than: Targets, kinds: Collection[Resource] = BOTH
) -> bool:
    return any(
        target[resource] < than[name][resource]
        for name, target in targets.items()
        if name in than
        for resource in kinds
        if resource in target and resource in than[name]
    )


def _differs_from_spec(situation: PodSituation) -> bool:
    spec = _spec_requests(situation.pod)
    return any(
        spec[name].get(resource) != amount
        for name, target in situation.targets.items()
        if name in spec
        for resource, amount in target.items()
    )


def _takes_memory(pod: Pod) -> bool:
    """Return True if the spec gives a container a lower memory limit than it has."""
    return any(
        _memory_limit(container.spec) < _memory_limit(container.status)
        for container in pod.containers
        if container.status is not None
    )


def _memory_limit(allocation: Allocation) -> float:
    return (allocation.limits or NO_AMOUNTS).get(Resource.MEMORY, math.inf)


def _spec_requests(pod: Pod) -> Targets:
    return {container.name: container.spec.requests or {} for container in pod.containers}


@dataclass(frozen=True, slots=True)
class Restart:
    """A restart that was asked for."""

    pod: Pod
    """The pod as it was before."""
    at: datetime


def end_of_gap(restart: Restart, pod: Pod | None, now: datetime) -> datetime | None:
    """Return when another pod of the namespace may be restarted; None if that is now.

    A pod that is ready again, or gone, costs no budget more than the API server knows of.
    """
    end = restart.at + RESTART_GAP
    if now >= end or pod is None or pod.uid != restart.pod.uid:
        return None
    is_ready_again = pod.ready_since not in (None, restart.pod.ready_since)
    return None if is_ready_again else end
