"""Places for the successors of evicted pods: the sizes that they ask for, and nodes with room."""

from typing import Final

from trimtab.core.changes.outcomes import Place
from trimtab.core.model.autoscalers import UpdateMode
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.pods import PodPhase, TargetResources
from trimtab.core.model.resources import Resources
from trimtab.core.sizing import (
    admission_patch,
    container_resources,
    node_use,
    pod_level_resources,
    pod_totals,
    startup_boost,
)
from trimtab.core.sizing.boost_room import BoostRoom
from trimtab.core.sizing.node_capacity import NodeRooms
from trimtab.core.sizing.node_use import Promised
from trimtab.core.updates.candidates import Candidate
from trimtab.core.updates.evictions import successors
from trimtab.core.updates.plan_context import EVICTING_MODES, PlanContext

MAY_STAY: Final = (UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.UPSCALE_ONLY)
"""Modes that evict only where a resize does not help: their pods move to free room alone."""


def wanted_by_successor(candidate: Candidate, context: PlanContext) -> TargetResources:
    """Return what admission gives the successor: under UpscaleOnly less, too (D18).

    Where its template is not known, the pod that runs stands in for it.
    """
    pod, autoscaler = candidate.pod, candidate.autoscaler
    foreseen = context.foresee(pod, autoscaler)
    if foreseen is not None:
        # The CPU of a boosted container says nothing about its usual size.
        found = successors.without_cpu_of(foreseen, startup_boost.boosted_containers(pod))
        return successors.only_requests(found) if autoscaler.mode in EVICTING_MODES else found
    if autoscaler.mode is not UpdateMode.UPSCALE_ONLY:
        return candidate.wanted
    recommended = container_resources.wanted_by_autoscaler(
        pod, autoscaler, context.limit_ranges_of(pod)
    )
    return pod_level_resources.without_misfits(pod, recommended)


def would_stay_pending(candidate: Candidate, context: PlanContext, promised: Promised) -> bool:
    """Return True if no node has room for the successor of a pod that runs well enough.

    A pod that is OOM-killed early and is not ready loses nothing, and one that is pending is down.
    """
    pod = candidate.pod
    is_down = pod.phase is PodPhase.PENDING or (candidate.quick_oom and pod.ready_since is None)
    if is_down or not seeks_place(candidate, context):
        return False
    return find_place(candidate, context, promised) is None


def seeks_place(candidate: Candidate, context: PlanContext) -> bool:
    """Return True if the successor needs a node that is there.

    The other modes evict into a full cluster, so that nodes are added. That helps no pod whose
    spec names its nodes.
    """
    seeks = candidate.autoscaler.mode in MAY_STAY or node_use.is_bound(candidate.pod)
    return seeks and bool(context.free_nodes())


def find_place(candidate: Candidate, context: PlanContext, promised: Promised) -> Place | None:
    """Return a node with room for the pod's successor, and what that takes beyond the pod."""
    pod, nodes = candidate.pod, context.free_nodes()
    if not seeks_place(candidate, context):
        return None
    requests = _requested_by_successor(candidate, context)
    name = nodes.find_place(pod, requests, promised)
    if name is None:
        return None
    now = pod_totals.reserved_for(pod) if name == pod.node_name else NO_AMOUNTS
    needed = {kind: max(amount - now.get(kind, 0), 0) for kind, amount in requests.items()}
    return Place(name, needed)


def _requested_by_successor(candidate: Candidate, context: PlanContext) -> Resources:
    """Return what the successor takes of its node, with the boost that admission gives it.

    Quotas may cut that boost, which is not foreseen here.
    """
    pod, autoscaler, gates = candidate.pod, candidate.autoscaler, context.settings.gates
    new, foreseen = context.successor_of(pod) or pod, context.foresee(pod, autoscaler)
    wanted = wanted_by_successor(candidate, context) if foreseen is None else foreseen
    requests = pod_totals.requested_after(new, wanted)
    if not autoscaler.boosts or not gates.cpu_startup_boost:
        return requests
    room = BoostRoom(context.limit_ranges_of(pod))
    boosted = pod_totals.requested_after(
        new, admission_patch.size_successor(new, autoscaler, gates=gates, room=room)
    )
    return {kind: max(amount, boosted.get(kind, 0)) for kind, amount in requests.items()}


def can_move(candidate: Candidate, context: PlanContext) -> bool:
    """Return True if a node other than the pod's own is large enough for its successor."""
    pod, rooms = candidate.pod, context.snapshot.rooms
    wanted = container_resources.wanted_by_autoscaler(
        pod, candidate.autoscaler, context.limit_ranges_of(pod)
    )
    return (rooms or NodeRooms(())).takes_elsewhere(pod, pod_totals.requested_after(pod, wanted))
