"""Quotas in the updater's plan: the room for a resize, and for the successor of a pod.

The updater evicts no pod whose successor would be refused, or would get no more than its own
resources (D19). Where one resource is short, growth of the other must be worth an eviction by
itself. A resize is asked for as far as quotas accept it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final, NamedTuple

from trimtab.core.guards import disruption_budgets
from trimtab.core.model import cap_notes
from trimtab.core.model.pods import Allocation, Pod, TargetResources
from trimtab.core.model.resources import Resource
from trimtab.core.sizing import (
    admission_patch,
    container_resources,
    limit_range_check,
    node_use,
    quota_check,
    quotas,
    resize_patch,
)
from trimtab.core.sizing.boost_room import BoostRoom
from trimtab.core.sizing.quota_check import NO_CLAIMS, Refusal
from trimtab.core.sizing.quota_grants import LIFETIME_SECONDS
from trimtab.core.sizing.quotas import Claims, Quota, QuotaClaim
from trimtab.core.sizing.resize_patch import ResizeEffect
from trimtab.core.updates.candidates import Candidate
from trimtab.core.updates.evictions import successors
from trimtab.core.updates.plan_context import PlanContext

_REMEMBERED: Final = timedelta(seconds=LIFETIME_SECONDS + 5)
"""Age up to which a pod may count twice for admission; creation times have whole seconds."""


def quotas_for(
    pod: Pod, context: PlanContext, claimed: Mapping[tuple[str, str], Mapping[QuotaClaim, int]]
) -> Sequence[Quota]:
    """Return the quotas of the pod's namespace with what is left for a change of the pod.

    What other changes have claimed is not left, by namespace and quota. Nor is what pods need that
    the owner still has to create.
    """
    found = context.snapshot.quotas.get(pod.namespace)
    if not found:
        return ()
    group = context.group_of(pod)
    missing = 0 if group is None or group.configured is None else group.configured - group.live
    needed = quota_check.usage_of(pod, _own(pod)) if missing > 0 else NO_CLAIMS
    return [
        replace(
            quota,
            left={
                claim: amount
                - claimed.get((quota.namespace, quota.name), NO_CLAIMS).get(claim, 0)
                - missing * needed.get(claim, 0)
                for claim, amount in quota.left.items()
            },
        )
        for quota in found
    ]


class Successor(NamedTuple):
    """A successor that quotas accept."""

    claims: Mapping[str, Claims]
    """By quota the amounts that it claims."""
    refusal: Refusal | None = None
    """The reason why it does not get all that is recommended; None if it does."""
    left_out: frozenset[Resource] = frozenset()
    """Resources of which it gets what its template says."""


UNBOUND: Final = Successor({})
"""The successor of a pod that no quota counts."""


class FittingResize(NamedTuple):
    """The part of a resize that quotas accept."""

    wanted: TargetResources
    claims: Mapping[str, Claims]
    """By quota the amounts that it takes."""
    refusal: Refusal | None = None
    """The reason why it is not the whole resize; None if it is."""


def foresee_successor(
    candidate: Candidate, context: PlanContext, left: Sequence[Quota]
) -> Successor | Refusal:
    """Return what quotas leave the pod's successor, or why an eviction gains nothing.

    Owners create the successor while a quota still counts the evicted pod: a ReplicaSet at once, a
    StatefulSet before the quota's use is counted again. Of a resource that does not fit beside the
    pod, admission gives the successor what its template says. Only where that does not fit
    either, the successor comes once there is room, in its recommended size.
    """
    pod, autoscaler, limit_ranges = (
        candidate.pod,
        candidate.autoscaler,
        context.limit_ranges_of(candidate.pod),
    )
    new = context.successor_of(pod) or pod
    wanted = container_resources.wanted_by_autoscaler(new, autoscaler, limit_ranges)
    sized = _after(new, wanted, context)
    # The template must not fit even where admission has forgotten what it granted.
    template_left, left = left, _without_new_pods(left, pod.namespace, context)
    refusal = quota_check.find_refusal(left, pod, sized)
    waits = refusal is not None and _waits_for_room(pod, context, template_left)
    if waits:
        left = [_without(quota, pod) for quota in left]
        refusal = quota_check.find_refusal(left, pod, sized)
    room, gates = BoostRoom(limit_ranges, quotas=left), context.settings.gates
    if refusal is not None:
        part = _foresee_part(candidate, context, room, wanted)
        if part is None:
            return refusal
        after, left_out = part
    else:
        # Admission cuts a boost that quotas have no room for, so the successor fits with it, too.
        given = admission_patch.size_successor(new, autoscaler, gates=gates, room=room)
        after, left_out = _after(new, given, context), frozenset()
    claims = _growth(left, pod, after) if waits else quota_check.claims_on(left, pod, after)
    return Successor(claims, refusal, left_out)


def _foresee_part(
    candidate: Candidate, context: PlanContext, room: BoostRoom, wanted: TargetResources
) -> tuple[Sequence[Allocation], frozenset[Resource]] | None:
    """Return the size of a successor that does not get all that is wanted, and what it lacks.

    None if it gets nothing of that, has less than the pod of what it lacks, or would be refused.
    """
    pod, gates = candidate.pod, context.settings.gates
    template = template_for(pod, context)
    if template is None:
        return None
    new = context.successor_of(pod) or successors.from_template(pod, template, ())
    given = admission_patch.size_successor(new, candidate.autoscaler, gates=gates, room=room)
    after, left_out = _after(new, given, context), successors.resources_left_out(wanted, given)
    is_accepted = (
        successors.without_resources(wanted, left_out)
        and successors.loses_nothing(pod, left_out, template)
        and quota_check.find_refusal(room.quotas, pod, after) is None
    )
    return (after, left_out) if is_accepted else None


def _without_new_pods(
    left: Sequence[Quota], namespace: str, context: PlanContext
) -> Sequence[Quota]:
    """Return the quotas as admission may see them: with pods that just came counted twice.

    Admission remembers for some seconds what it granted. Where the evicted pod goes meanwhile, the
    quota's use does not show that the successor is in it.
    """
    taken: dict[str, Counter[QuotaClaim]] = {}
    for each in context.new_pods(namespace, _REMEMBERED):
        for name, claims in quota_check.claims_on(left, each, _own(each)).items():
            taken.setdefault(name, Counter()).update(claims)
    if not taken:
        return left
    return [
        replace(
            quota,
            left={
                claim: amount - taken.get(quota.name, NO_CLAIMS).get(claim, 0)
                for claim, amount in quota.left.items()
            },
        )
        for quota in left
    ]


def _waits_for_room(pod: Pod, context: PlanContext, left: Sequence[Quota]) -> bool:
    """Return True if quotas refuse the pod's successor also in the size of its template.

    The template of a pod that was sized may fit, and be much smaller.
    """
    template = template_for(pod, context)
    return template is not None and quota_check.find_refusal(left, pod, template) is not None


def template_for(pod: Pod, context: PlanContext) -> Sequence[Allocation] | None:
    """Return the size of the pod's template; None if it is not known.

    A pod that was never sized shows it.
    """
    owner = disruption_budgets.owner_of(pod)
    sizes = None if owner is None else context.snapshot.template_sizes.get(owner)
    items = limit_range_check.checked_items(context.snapshot.limit_ranges.get(pod.namespace, ()))
    template = successors.template_of(pod, sizes, items)
    if template is None and not cap_notes.was_sized(pod.annotations):
        return _own(pod)
    return template


def fit_resize(pod: Pod, wanted: TargetResources, left: Sequence[Quota]) -> FittingResize | Refusal:
    """Return what of a resize quotas accept, with what it takes of them; a refusal if nothing.

    Where one resource is short, the other may still change.
    """
    if not left:
        return FittingResize(wanted, {})
    refusal = _refuse_resize(pod, wanted, left)
    if refusal is None:
        return FittingResize(wanted, _growth(left, pod, _sizes(pod, wanted)))
    part = node_use.without_growth_of(pod, wanted, {refusal.claim.resource})
    is_possible = (
        refusal.asked is not None
        and resize_patch.resize_effect(pod, part) is ResizeEffect.SAME_QOS
        and _refuse_resize(pod, part, left) is None
    )
    if not is_possible:
        return refusal
    return FittingResize(part, _growth(left, pod, _sizes(pod, part)), refusal)


def _refuse_resize(pod: Pod, wanted: TargetResources, left: Sequence[Quota]) -> Refusal | None:
    return quota_check.find_refusal(left, pod, _sizes(pod, wanted), before=_own(pod))


def _growth(
    found: Sequence[Quota], pod: Pod, allocations: Sequence[Allocation]
) -> Mapping[str, Claims]:
    grown = quota_check.growth_of(pod, allocations, _own(pod))
    counted = quota_check.claims_on(found, pod, allocations)
    return {name: {claim: grown[claim] for claim in claims} for name, claims in counted.items()}


def _without(quota: Quota, pod: Pod) -> Quota:
    """Return the quota with what is left of it once the pod is gone."""
    if not quotas.covers(quota, pod, {}):
        return quota
    usage = quota_check.usage_of(pod, _own(pod))
    return replace(
        quota, left={claim: amount + usage[claim] for claim, amount in quota.left.items()}
    )


def _after(pod: Pod, wanted: TargetResources, context: PlanContext) -> list[Allocation]:
    """Return the resources of a successor, which gets the defaults of newer LimitRanges."""
    items = limit_range_check.checked_items(context.snapshot.limit_ranges.get(pod.namespace, ()))
    return [limit_range_check.with_defaults(items, each) for each in _sizes(pod, wanted)]


def _sizes(pod: Pod, wanted: TargetResources) -> list[Allocation]:
    return [
        container_resources.overlaid(each.spec, wanted.get(each.name)) for each in pod.containers
    ]


def _own(pod: Pod) -> list[Allocation]:
    return [each.spec for each in pod.containers]
