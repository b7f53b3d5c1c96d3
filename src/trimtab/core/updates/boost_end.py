"""Ends of startup boosts: their causes, their preconditions, and the CPU that pods go back to.

The end of a boost changes the CPU of the boosted containers and nothing else, so it needs no budget
unless it restarts a container. It never comes to an eviction (D9). The mark of a boost stays until
the kubelet reports the requested CPU. Until then the updater only repeats the request (D20). The
plan decides whether budgets allow a restart.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from trimtab.core.changes.outcomes import EndOfBoost, Hold, Unboost
from trimtab.core.model import autoscalers
from trimtab.core.model.autoscalers import Autoscaler, UpdateMode
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.limits import NO_AMOUNTS, amount_of
from trimtab.core.model.pods import PUT_OFF, Allocation, Container, Pod, PodPhase, TargetResources
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.sizing import (
    container_resources,
    pod_level_resources,
    resize_patch,
    startup_boost,
    unboost_bounds,
)
from trimtab.core.sizing.resize_patch import ResizeEffect
from trimtab.core.sizing.startup_boost import MAX_BOOST_DURATION
from trimtab.core.updates import resize_or_evict
from trimtab.core.updates.plan_context import PlanContext, distrust, only_grows
from trimtab.core.updates.snapshot import NO_MEMORY, ObservedPod, PodMemory

_SHOWN_WITHIN: Final = timedelta(seconds=10)
"""Maximum time until the store shows that a mark was removed."""
_FORCED: Final = (EndOfBoost.UNSCHEDULABLE, EndOfBoost.HARD_LIMIT)
"""Causes that end the boost of a pod that does not run."""
_ENDLESS: Final = "Windows pods cannot be resized; the boost ends when the pod is replaced"
_BOUND_BY_LIMIT_RANGE: Final = "at the CPU that the LimitRange allows"


@dataclass(frozen=True, slots=True)
class BoostEnd:
    """A pod with a boost that is over."""

    pod: Pod
    autoscaler: Autoscaler | None
    containers: tuple[str, ...]
    memory: PodMemory
    cause: EndOfBoost
    now: datetime


def assess_boost(
    observed: ObservedPod, autoscaler: Autoscaler | None, context: PlanContext
) -> BoostEnd | Hold:
    """Return the end of a pod's boosts, as far as they are over, or a hold of the pod."""
    pod, now = observed.pod, context.now
    name = None if autoscaler is None else autoscaler.identity
    limit = _hard_limit(pod, autoscaler, context)
    memory = context.snapshot.pod_memory.get((pod.uid, name), NO_MEMORY)
    containers, cause = _ended(pod, autoscaler, context, limit)
    if not containers:
        # What was asked of the kubelet stands, even if the pod is not ready any more.
        containers = tuple(
            each for each in startup_boost.boosted_containers(pod) if each in memory.unboost_asked
        )
        cause = memory.unboost_cause or cause
    # Where the autoscaler cannot be read, the duration of the boost is unknown, too.
    unclear = autoscaler is None and observed.is_in_doubt and cause is EndOfBoost.UNWANTED
    if not containers or unclear:
        timeout = context.settings.boost_unschedulable_timeout
        until = startup_boost.next_boost_end(
            pod, autoscaler, now, limit, unschedulable_timeout=timeout
        )
        return Hold(pod, name, HoldReason.BOOST_ACTIVE, until=until)
    return BoostEnd(pod, autoscaler, containers, memory, cause, now)


def plan_end(end: BoostEnd, context: PlanContext) -> Unboost | Hold:
    """Return the next step towards the end of a boost, or why it has to wait, budgets aside."""
    name = None if end.autoscaler is None else end.autoscaler.identity
    usual = _wanted(end, context)
    limit_ranges = context.snapshot.limit_ranges.get(end.pod.namespace, ())
    wanted = unboost_bounds.nearest_accepted(end.pod, usual, limit_ranges)
    note = "" if wanted == usual else _BOUND_BY_LIMIT_RANGE
    reported = _reported(end, wanted)
    if reported and not _is_unmarked(end, reported):
        return Unboost(end.pod, name, reported, {}, end.cause, note)
    if not wanted:
        # The CPU before the boost is unknown: a guess might take some that the containers need.
        return replace(hold_boost(end, HoldReason.UNBOOST_DELAYED), detail=_tell_unreadable(end))
    if end.pod.is_windows:
        return replace(hold_boost(end, HoldReason.UNBOOST_DELAYED), detail=_ENDLESS)
    if (reason := _reason_to_wait(end, wanted, context.now)) is not None:
        return hold_boost(end, reason)
    return Unboost(end.pod, name, end.containers, wanted, end.cause, note)


def hold_boost(end: BoostEnd, reason: HoldReason) -> Hold:
    """Return the hold of a pod whose boost is over and cannot end yet."""
    name = None if end.autoscaler is None else end.autoscaler.identity
    return Hold(
        end.pod,
        name,
        reason,
        until=None if end.memory.unboost.is_due(end.now) else end.memory.unboost.not_before,
        detail=_refusal(end) if reason is HoldReason.UNBOOST_DELAYED else "",
    )


def _tell_unreadable(end: BoostEnd) -> str:
    marks = ", ".join(map(startup_boost.annotation_name, end.containers))
    return (
        f"the CPU before the boost is not known, since {marks} cannot be read; "
        "set the CPU by a resize and remove the annotation"
    )


def _refusal(end: BoostEnd) -> str:
    """Return what the kubelet, else the API server, says about the end of the boost."""
    if end.pod.resize in PUT_OFF:
        words = f": {end.pod.resize_message}" if end.pod.resize_message else ""
        return f"the kubelet answers {end.pod.resize}{words}"
    error = end.memory.unboost_error
    return f"the API server answers: {error}" if error else ""


def _reported(end: BoostEnd, wanted: TargetResources) -> tuple[str, ...]:
    """Return the containers whose boost has ended: the kubelet reports the CPU asked for."""
    containers = {one.name: one for one in end.pod.containers}
    asked = end.memory.unboost_asked
    return tuple(
        name
        for name in end.containers
        if name not in containers
        or any(
            _is_reported(end.pod, containers[name], goal[name])
            # A recommendation may have moved since the kubelet was asked.
            for goal in (asked, wanted)
            # Without a goal, its mark cannot be read, and its CPU may be boosted still.
            if name in goal
        )
    )


def _is_reported(pod: Pod, container: Container, goal: Allocation) -> bool:
    if resize_patch.resize_effect(pod, {container.name: goal}) is not ResizeEffect.NONE:
        return False
    return _cpu_of(container.current) == _cpu_of(container.spec)


def _reason_to_wait(end: BoostEnd, wanted: TargetResources, now: datetime) -> HoldReason | None:
    pod, memory = end.pod, end.memory
    if pod.phase is PodPhase.PENDING and end.cause not in _FORCED:
        return HoldReason.POD_PENDING
    if _is_unmarked(end, end.containers) or _waits_for_resize(end, now):
        return HoldReason.RESIZE_IN_PROGRESS
    # A request that failed leaves nothing that the kubelet could be at work on.
    is_refused = pod.resize in PUT_OFF or memory.unboost_asked.keys().isdisjoint(end.containers)
    if not memory.unboost.is_due(now) and not _is_growth_refused(end):
        return HoldReason.UNBOOST_DELAYED if is_refused else HoldReason.RESIZE_IN_PROGRESS
    if resize_patch.resize_effect(pod, wanted) is ResizeEffect.NONE:
        # The spec asks for it already. The kubelet itself tries again.
        return HoldReason.UNBOOST_DELAYED if is_refused else HoldReason.RESIZE_IN_PROGRESS
    return None


def _is_unmarked(end: BoostEnd, containers: Iterable[str]) -> bool:
    """Return True if marks of these containers were removed, and the view may be older than that.

    A mark that another program writes again counts ten seconds later at the latest.
    """
    removed_at = end.memory.unmarked_at
    if removed_at is None or end.memory.unmarked.isdisjoint(containers):
        return False
    return end.now - removed_at < _SHOWN_WITHIN


def _hard_limit(pod: Pod, autoscaler: Autoscaler | None, context: PlanContext) -> timedelta | None:
    limit = context.settings.max_boost_duration
    # Without a limit, too, an unwanted boost ends, even if its pod is never ready.
    return limit or (None if _is_wanted(pod, autoscaler) else MAX_BOOST_DURATION)


def _is_wanted(pod: Pod, autoscaler: Autoscaler | None) -> bool:
    return autoscaler is not None and any(
        autoscalers.effective_boost(autoscaler, name) is not None
        for name in startup_boost.boosted_containers(pod)
    )


def _ended(
    pod: Pod, autoscaler: Autoscaler | None, context: PlanContext, limit: timedelta | None
) -> tuple[tuple[str, ...], EndOfBoost]:
    """Return the containers whose boost is over, and the cause."""
    now = context.now
    if startup_boost.is_overdue(pod, now, limit):
        return startup_boost.boosted_containers(pod), EndOfBoost.HARD_LIMIT
    if startup_boost.finds_no_room(pod, now, context.settings.boost_unschedulable_timeout):
        return startup_boost.boosted_containers(pod), EndOfBoost.UNSCHEDULABLE
    if pod.uid in context.snapshot.crowded:
        return startup_boost.boosted_containers(pod), EndOfBoost.CROWDED
    if pod.uid in context.in_the_way:
        return startup_boost.boosted_containers(pod), EndOfBoost.QUOTA_SHORT
    gates = context.settings.gates
    expired = startup_boost.expired_boosts(pod, autoscaler, now, gates=gates, max_duration=limit)
    is_wanted = _is_wanted(pod, autoscaler)
    return expired, EndOfBoost.OVER if is_wanted else EndOfBoost.UNWANTED


def _is_growth_refused(end: BoostEnd) -> bool:
    """Return True if the kubelet puts off an end that asked for more CPU than a container has."""
    asked = end.memory.unboost_asked
    return end.pod.resize in PUT_OFF and any(
        amount_of(asked[each.name].requests, Resource.CPU)
        > amount_of(each.current.requests, Resource.CPU)
        for each in end.pod.containers
        if each.name in asked
    )


def _waits_for_resize(end: BoostEnd, now: datetime) -> bool:
    pod = end.pod
    # A resize that is refused or put off may stay so for good, but no boost may.
    if pod.resize is None or pod.resize in PUT_OFF:
        return False
    if end.cause is not EndOfBoost.HARD_LIMIT:
        return True
    return resize_or_evict.is_in_progress(pod, end.memory.resize, now)


def _wanted(end: BoostEnd, context: PlanContext) -> TargetResources:
    """Return the CPU that boosted containers go back to: the recommendation, else the spec's."""
    pod, original = end.pod, _original(end)
    recommended = pod_level_resources.without_misfits(pod, _recommended(end, context))
    followed = {name: _within(each, original.get(name)) for name, each in recommended.items()}
    if end.autoscaler is not None and _is_protected(end.autoscaler, context):
        # A maximum that was lowered since takes nothing from a running pod either.
        followed = {
            name: _at_least(each, original[name]) if name in original else each
            for name, each in followed.items()
        }
    own = {
        name: found
        for name in original
        if (found := startup_boost.own_before_boost(pod, name)) is not None
    }
    wanted = _in_same_class(pod, {**original, **followed}, original, own)
    if pod.resize in PUT_OFF or end.memory.unboost_error:
        # A full node or quota may stay full, and only growth runs into it.
        return {name: _without_growth(pod, name, each) for name, each in wanted.items()}
    return wanted


def _within(recommended: Allocation, original: Allocation | None) -> Allocation:
    """Return the recommendation with the limit of the spec, where limits follow no request."""
    limits = recommended.limits or (original.limits if original is not None else None)
    return Allocation(_at_most(recommended.requests, limits), limits or {})


def _at_least(recommended: Allocation, usual: Allocation) -> Allocation:
    """Return the recommendation with no less than the container has without its boost."""
    least, limits = usual.requests or NO_AMOUNTS, recommended.limits or NO_AMOUNTS
    most = usual.limits or NO_AMOUNTS
    return Allocation(
        {
            kind: max(amount, least.get(kind, amount))
            for kind, amount in (recommended.requests or NO_AMOUNTS).items()
        },
        {kind: max(amount, most.get(kind, amount)) for kind, amount in limits.items()},
    )


def _in_same_class(
    pod: Pod, wanted: TargetResources, original: TargetResources, own: TargetResources
) -> TargetResources:
    """Return the first way back that keeps the QoS class of the pod, as the API server demands."""
    ways = (
        wanted,
        original,
        own,
        {name: _with_request(each, below=1) for name, each in original.items()},
        {name: _with_request(each, below=0) for name, each in original.items()},
    )
    fitting = (
        way for way in ways if resize_patch.resize_effect(pod, way) is not ResizeEffect.OTHER_QOS
    )
    return next(fitting, wanted)


def _with_request(original: Allocation, *, below: int) -> Allocation:
    """Return the limit of the spec with a request that is equal, or just below."""
    limit = amount_of(original.limits, Resource.CPU)
    return Allocation({Resource.CPU: limit - below}, original.limits) if limit > 1 else original


def _original(end: BoostEnd) -> TargetResources:
    names = {each.name for each in end.pod.containers}
    return {
        name: original
        for name in end.containers
        if name in names and (original := startup_boost.before_boost(end.pod, name)) is not None
    }


def _recommended(end: BoostEnd, context: PlanContext) -> TargetResources:
    pod, autoscaler = end.pod, end.autoscaler
    if autoscaler is None or not autoscaler.recommendation or distrust(pod, autoscaler):
        return {}
    # Limits follow requests in the proportion of the pod spec, which a boost may have changed.
    usual = startup_boost.without_boost(pod, end.containers)
    advised = _protected(pod, autoscaler, context)
    wanted = container_resources.wanted_by_autoscaler(usual, advised, context.limit_ranges_of(pod))
    known = {entry.container_name for entry in autoscaler.recommendation}
    cpu = {name: _only_cpu(wanted[name]) for name in end.containers if name in wanted}
    return {name: each for name, each in cpu.items() if name in known and each.requests}


def _protected(pod: Pod, autoscaler: Autoscaler, context: PlanContext) -> Autoscaler:
    """Return the autoscaler with no target below what a container would have without its boost.

    Where running pods only grow, or are left alone, a recommendation that fell since the pod was
    created takes nothing from it.
    """
    if not _is_protected(autoscaler, context):
        return autoscaler
    bases = {each.name: _base(pod, each, autoscaler) for each in pod.containers}
    recommendation = tuple(
        replace(entry, target={**entry.target, Resource.CPU: max(entry.target[Resource.CPU], base)})
        if Resource.CPU in entry.target and (base := bases.get(entry.container_name))
        else entry
        for entry in autoscaler.recommendation or ()
    )
    return replace(autoscaler, recommendation=recommendation)


def _is_protected(autoscaler: Autoscaler, context: PlanContext) -> bool:
    """Return True if running pods only grow, or are left alone."""
    return autoscaler.mode is UpdateMode.INITIAL or only_grows(autoscaler, context.settings)


def _base(pod: Pod, container: Container, autoscaler: Autoscaler) -> int:
    """Return the CPU that a container would have without its boost; 0 if it has none."""
    mark = pod.annotations.get(startup_boost.annotation_name(container.name))
    if mark is None:
        return 0
    if (usual := startup_boost.parse_usual(mark)) is not None:
        return amount_of(usual.requests, Resource.CPU)
    # A mark of the original, or of earlier versions, has only what the spec asked for.
    own, boost = (
        startup_boost.before_boost(pod, container.name),
        autoscalers.effective_boost(autoscaler, container.name),
    )
    has = amount_of(container.current.requests, Resource.CPU)
    return max(
        0 if own is None else amount_of(own.requests, Resource.CPU),
        0 if boost is None else startup_boost.base_millicores(boost, has),
    )


def _without_growth(pod: Pod, name: str, wanted: Allocation) -> Allocation:
    current = next(one.current for one in pod.containers if one.name == name)
    return Allocation(
        _at_most(wanted.requests, current.requests), _at_most(wanted.limits, current.limits)
    )


def _at_most(wanted: Resources | None, present: Resources | None) -> Resources:
    has = present or NO_AMOUNTS
    return {
        kind: min(amount, has.get(kind, amount)) for kind, amount in (wanted or NO_AMOUNTS).items()
    }


def _only_cpu(allocation: Allocation) -> Allocation:
    return Allocation(
        {
            kind: amount
            for kind, amount in (allocation.requests or NO_AMOUNTS).items()
            if kind is Resource.CPU
        },
        {
            kind: amount
            for kind, amount in (allocation.limits or NO_AMOUNTS).items()
            if kind is Resource.CPU
        },
    )


def _cpu_of(allocation: Allocation) -> tuple[int | None, int | None]:
    requests, limits = allocation.requests or NO_AMOUNTS, allocation.limits or NO_AMOUNTS
    return requests.get(Resource.CPU), limits.get(Resource.CPU)
