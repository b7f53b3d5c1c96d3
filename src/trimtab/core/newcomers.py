"""Newcomers: what the next pod like one that runs would be given when it is created.

Asked of the function that admission asks; the pod that runs stands in for one from the same
template, with what its spec says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trimtab.core.autoscalers import AutoscalerName
from trimtab.core.boost import BoostError
from trimtab.core.boost_room import BoostRoom
from trimtab.core.gates import FeatureGates
from trimtab.core.matching import (
    AutoscalerIndex,
    acts_on_new_pods,
    governing,
    match_autoscalers,
)
from trimtab.core.notes import Note
from trimtab.core.operations import Add, Operation, pointer
from trimtab.core.patch import size_pod
from trimtab.core.pods import Allocation, Container
from trimtab.core.quantities import parse_amount
from trimtab.core.records import dataclass
from trimtab.core.resources import BOTH, Resources
from trimtab.core.snapshot import ObservedPod


@dataclass(frozen=True, slots=True)
class Newcomer:
    """What a new pod would be given."""

    autoscaler: AutoscalerName | None
    """Whose recommendation it gets; None if it keeps what its template says."""
    containers: Mapping[str, Allocation]
    notes: Mapping[str, Sequence[Note]]
    misfits: Sequence[str] = ()
    """Containers that get nothing, for want of room in the resources of the pod itself."""
    is_boost_invalid: bool = False
    """Whether nothing is given because nobody says by how much it is to be boosted."""


def size_newcomer(
    observed: ObservedPod,
    index: AutoscalerIndex,
    room: BoostRoom,
    gates: FeatureGates,
) -> Newcomer:
    """What a new pod of the same workload would be given now."""
    pod = replace(
        observed.pod, containers=tuple(replace(one, status=None) for one in observed.pod.containers)
    )
    matching = match_autoscalers(index, observed.workload, pod.labels)
    found = governing(matching, acts_on_new_pods)
    unchanged = Newcomer(None, {each.name: each.spec for each in pod.containers}, {})
    if found is None or not acts_on_new_pods(found.autoscaler):
        return unchanged
    autoscaler = found.autoscaler
    try:
        sizing = size_pod(pod, autoscaler, gates=gates, room=room)
    except BoostError:
        return replace(unchanged, is_boost_invalid=True)
    return Newcomer(
        autoscaler.identity,
        {each.name: _sized(each, sizing.patch) for each in pod.containers},
        sizing.notes,
        sizing.misfits,
    )


def _sized(container: Container, patch: Sequence[Operation]) -> Allocation:
    """What the patch makes of a container."""
    changed = {each.path: each.value if isinstance(each, Add) else None for each in patch}

    def side(name: str, own: Resources | None) -> Resources:
        path = ("spec", container.kind, container.index, "resources", name)
        paths = {kind: pointer(*path, kind) for kind in BOTH}
        kept = {kind: had for kind, had in (own or {}).items() if paths[kind] not in changed}
        given = {kind: changed.get(paths[kind]) for kind in BOTH}
        set_anew = {
            kind: parse_amount(kind, text) for kind, text in given.items() if isinstance(text, str)
        }
        return kept | set_anew

    spec = container.spec
    return Allocation(side("requests", spec.requests), side("limits", spec.limits))
