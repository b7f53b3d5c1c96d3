"""Preview of the next pod of an owner: the resources that admission would give it.

The preview calls the function that admission calls. Resources that admission leaves alone come from
the template of the pod's owner; where it is not known, the pod that runs stands in for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from trimtab.core.model import json_patch, matching, quantities
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.cap_notes import Note
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.json_patch import Add, Operation
from trimtab.core.model.matching import AutoscalerIndex
from trimtab.core.model.pods import Allocation, Container, Pod
from trimtab.core.model.resources import BOTH, Resources
from trimtab.core.sizing import admission_patch, limit_range_check
from trimtab.core.sizing.boost_room import BoostRoom
from trimtab.core.sizing.startup_boost import BoostError
from trimtab.core.updates.evictions import successors
from trimtab.core.updates.snapshot import ObservedPod


@dataclass(frozen=True, slots=True)
class NextPod:
    """Resources that a new pod would get."""

    autoscaler: AutoscalerName | None
    """The autoscaler that sizes it; None if it keeps the resources of its template."""
    containers: Mapping[str, Allocation]
    notes: Mapping[str, Sequence[Note]]
    misfits: Sequence[str] = ()
    """Containers that get nothing, since the resources of the pod itself leave no room for it."""
    is_boost_invalid: bool = False
    """True if it gets nothing because its startup boost has no valid factor or quantity."""
    is_from_template: bool = False
    """True if the template is known; else the pod that runs stands in for it."""


def size_newcomer(
    observed: ObservedPod,
    index: AutoscalerIndex,
    room: BoostRoom,
    gates: FeatureGates,
    sizes: Mapping[str, Allocation] | None = None,
) -> NextPod:
    """Return what a new pod of the same owner would be given now.

    `sizes` are the resources in the template of the owner by container; None if not known.
    """
    pod = _before_admission(observed.pod, room, sizes)
    matched = matching.match_autoscalers(index, observed.workload, pod.labels)
    found = matching.governing(matched, matching.acts_on_new_pods)
    own = {each.name: each.spec for each in pod.containers}
    unchanged = NextPod(None, own, {}, is_from_template=sizes is not None)
    if found is None or not matching.acts_on_new_pods(found.autoscaler):
        return unchanged
    autoscaler = found.autoscaler
    try:
        sizing = admission_patch.size_pod(pod, autoscaler, gates=gates, room=room)
    except BoostError:
        return replace(unchanged, is_boost_invalid=True)
    return NextPod(
        autoscaler.identity,
        {each.name: _sized(each, sizing.patch) for each in pod.containers},
        sizing.notes,
        sizing.misfits,
        is_from_template=sizes is not None,
    )


def _before_admission(pod: Pod, room: BoostRoom, sizes: Mapping[str, Allocation] | None) -> Pod:
    """Return the new pod as the API server would show it to admission."""
    template = successors.template_of(
        pod, sizes, limit_range_check.checked_items(room.limit_ranges)
    )
    if template is None:
        return successors.from_template(pod, [each.spec for each in pod.containers], ())
    return successors.from_template(pod, template, sizes or ())


def _sized(container: Container, patch: Sequence[Operation]) -> Allocation:
    """Return the resources of a container after the patch."""
    changed = {each.path: each.value if isinstance(each, Add) else None for each in patch}

    def side(name: str, own: Resources | None) -> Resources:
        path = ("spec", container.kind, container.index, "resources", name)
        paths = {kind: json_patch.pointer(*path, kind) for kind in BOTH}
        kept = {kind: had for kind, had in (own or {}).items() if paths[kind] not in changed}
        given = {kind: changed.get(paths[kind]) for kind in BOTH}
        set_anew = {
            kind: quantities.parse_amount(kind, text)
            for kind, text in given.items()
            if isinstance(text, str)
        }
        return kept | set_anew

    spec = container.spec
    return Allocation(side("requests", spec.requests), side("limits", spec.limits))
