"""Ends of startup boosts: which are over and why, what they wait for, what pods go back to.

Giving CPU back disturbs nobody, so the end of a boost needs no budget unless it restarts a
container. It never comes to an eviction (D9). Whether budgets allow a restart is left to `plan`.
"""

from datetime import datetime, timedelta
from typing import Final

from trimtab.core import resizing
from trimtab.core.assessment import Context, distrust, only_grows
from trimtab.core.autoscalers import Autoscaler, UpdateMode, effective_boost
from trimtab.core.boost import (
    MAX_BOOST_DURATION,
    boosted_containers,
    expired_boosts,
    finds_no_room,
    is_overdue,
    next_boost_end,
)
from trimtab.core.envelopes import without_misfits
from trimtab.core.holds import HoldReason
from trimtab.core.outcomes import EndOfBoost, Hold, Unboost, Wanted
from trimtab.core.pods import PUT_OFF, Pod, PodPhase
from trimtab.core.records import dataclass
from trimtab.core.resize_patch import ResizeEffect, resize_effect
from trimtab.core.snapshot import NO_MEMORY, ObservedPod, PodMemory
from trimtab.core.wanted import (
    growing_but_for_cpu,
    wanted_after_boost,
    wanted_by_autoscaler,
    without_growth,
)

# In these a boost that ends brings the other containers up to date as well.
_SIZING_MODES: Final = (
    UpdateMode.IN_PLACE,
    UpdateMode.IN_PLACE_OR_RECREATE,
    UpdateMode.RECREATE,
    UpdateMode.AUTO,
)


@dataclass(frozen=True, slots=True)
class BoostEnd:
    """A pod with a boost that is over."""

    pod: Pod
    autoscaler: Autoscaler | None
    containers: tuple[str, ...]
    memory: PodMemory
    cause: EndOfBoost

    @property
    def is_free(self) -> bool:
        """Whether it disturbs nobody."""
        return not resizing.restarts_containers(self.pod)


def assess_boost(
    observed: ObservedPod, autoscaler: Autoscaler | None, context: Context
) -> BoostEnd | Hold:
    """The end of a boosted pod's boosts, as far as they are over, or why it is left alone."""
    pod, now = observed.pod, context.now
    name = None if autoscaler is None else autoscaler.identity
    limit = _hard_limit(pod, autoscaler, context)
    containers, cause = _ended(pod, autoscaler, context, limit)
    # Who cannot see the autoscaler cannot know how long the boost shall last either.
    unclear = autoscaler is None and observed.is_in_doubt and cause is EndOfBoost.UNWANTED
    if not containers or unclear:
        until = next_boost_end(pod, autoscaler, now, limit)
        return Hold(pod, name, HoldReason.BOOST_ACTIVE, until=until)
    memory = context.snapshot.pod_memory.get((pod.uid, name), NO_MEMORY)
    return BoostEnd(pod, autoscaler, containers, memory, cause)


def assess_stuck(
    observed: ObservedPod, autoscaler: Autoscaler | None, context: Context
) -> BoostEnd | None:
    """The end of a boost that a node puts off for the sake of what was asked for along with it.

    Then only what can be given back at once is asked for: more CPU or memory, and a memory limit
    below usage, are not worth a boost that stays.
    """
    pod = observed.pod
    name = None if autoscaler is None else autoscaler.identity
    memory = context.snapshot.pod_memory.get((pod.uid, name), NO_MEMORY)
    if pod.resize not in PUT_OFF or not memory.unboosted:
        return None
    if resize_effect(pod, without_growth(pod, {})) is not ResizeEffect.SAME_QOS:
        return None
    containers = tuple(sorted(memory.unboosted))
    return BoostEnd(pod, autoscaler, containers, memory, EndOfBoost.STUCK)


def reason_to_wait(end: BoostEnd, now: datetime) -> HoldReason | None:
    """Why a boost that is over cannot end yet, whatever budgets say."""
    pod, memory = end.pod, end.memory
    is_forced = end.cause in (EndOfBoost.UNSCHEDULABLE, EndOfBoost.HARD_LIMIT)
    if pod.phase is PodPhase.PENDING and not is_forced:
        return HoldReason.POD_PENDING
    if end.cause is not EndOfBoost.STUCK and memory.unboosted.issuperset(end.containers):
        return HoldReason.RESIZE_IN_PROGRESS
    if _waits_for_resize(end, now):
        return HoldReason.RESIZE_IN_PROGRESS
    return None if memory.unboost.is_due(now) else HoldReason.UNBOOST_DELAYED


def hold_boost(end: BoostEnd, reason: HoldReason) -> Hold:
    """The hold of a pod whose boost is over and cannot end yet."""
    name = None if end.autoscaler is None else end.autoscaler.identity
    is_delayed = reason is HoldReason.UNBOOST_DELAYED
    return Hold(end.pod, name, reason, until=end.memory.unboost.not_before if is_delayed else None)


def end_boost(end: BoostEnd, context: Context) -> Unboost:
    """What is done about it."""
    name = None if end.autoscaler is None else end.autoscaler.identity
    return Unboost(end.pod, name, end.containers, _wanted(end, context), end.cause)


def _hard_limit(pod: Pod, autoscaler: Autoscaler | None, context: Context) -> timedelta | None:
    limit = context.settings.max_boost_duration
    # Nobody wants a boost that no autoscaler asks for, and not to be ready is no reason for one.
    return limit or (None if _is_wanted(pod, autoscaler) else MAX_BOOST_DURATION)


def _is_wanted(pod: Pod, autoscaler: Autoscaler | None) -> bool:
    return autoscaler is not None and any(
        effective_boost(autoscaler, name) is not None for name in boosted_containers(pod)
    )


def _ended(
    pod: Pod, autoscaler: Autoscaler | None, context: Context, limit: timedelta | None
) -> tuple[tuple[str, ...], EndOfBoost]:
    """The containers whose boost is over, and why."""
    now = context.now
    if is_overdue(pod, now, limit):
        return boosted_containers(pod), EndOfBoost.HARD_LIMIT
    if finds_no_room(pod, now):
        return boosted_containers(pod), EndOfBoost.UNSCHEDULABLE
    if pod.uid in context.snapshot.crowded:
        return boosted_containers(pod), EndOfBoost.CROWDED
    gates = context.settings.gates
    expired = expired_boosts(pod, autoscaler, now, gates=gates, max_duration=limit)
    is_wanted = _is_wanted(pod, autoscaler)
    return expired, EndOfBoost.OVER if is_wanted else EndOfBoost.UNWANTED


def _waits_for_resize(end: BoostEnd, now: datetime) -> bool:
    pod = end.pod
    # A resize that is refused or put off may stay so for good, but no boost may.
    if pod.resize is None or pod.resize in PUT_OFF:
        return False
    if end.cause is not EndOfBoost.HARD_LIMIT:
        return True
    return resizing.is_in_progress(pod, end.memory.resize, now)


def _wanted(end: BoostEnd, context: Context) -> Wanted:
    pod = end.pod
    if end.cause is EndOfBoost.STUCK:
        return without_growth(pod, {})
    wanted = _wanted_at_end(end, context)
    if pod.resize in PUT_OFF or end.memory.whole_end_refused:
        # A quota that is full may be so for good, and only what grows runs into it.
        return {**wanted, **without_growth(pod, wanted)}
    return wanted


def _wanted_at_end(end: BoostEnd, context: Context) -> Wanted:
    pod, autoscaler = end.pod, end.autoscaler
    if autoscaler is None or not autoscaler.recommendation or distrust(pod, autoscaler):
        return wanted_after_boost(pod, end.containers, {}, others=False)
    recommended = _recommended_at_end(end, autoscaler, context)
    if only_grows(autoscaler, context.settings):
        recommended = growing_but_for_cpu(pod, end.containers, recommended)
    others = autoscaler.mode in _SIZING_MODES
    possible = without_misfits(
        pod, wanted_after_boost(pod, end.containers, recommended, others=others)
    )
    # What does not fit in the resources of the pod goes back to its spec, which always fits.
    return wanted_after_boost(pod, end.containers, possible, others=others)


def _recommended_at_end(end: BoostEnd, autoscaler: Autoscaler, context: Context) -> Wanted:
    wanted = wanted_by_autoscaler(end.pod, autoscaler, context.limit_ranges_of(end.pod))
    known = {entry.container_name for entry in autoscaler.recommendation or ()}
    # Under a limit range of the pod what a container has now stands in for a recommendation; of a
    # boosted one that is the boost itself.
    return {
        name: allocation
        for name, allocation in wanted.items()
        if name in known or name not in end.containers
    }
