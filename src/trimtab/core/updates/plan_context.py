"""Inputs that are the same for all pods of one plan, and the target that each pod has by them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from trimtab.core.changes import change, kept_sizes
from trimtab.core.changes.change import Change
from trimtab.core.guards import disruption_budgets
from trimtab.core.model.autoscalers import (
    Autoscaler,
    ChangeDirection,
    ContainerRecommendation,
    Held,
    UpdateMode,
)
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.limit_ranges import OF_LIMIT_RANGES, LimitRangeItem
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.pods import (
    OBSERVED_CONTAINERS,
    PUT_OFF,
    Allocation,
    Container,
    Pod,
    PodPhase,
    TargetResources,
    WorkloadName,
)
from trimtab.core.model.resources import Resource
from trimtab.core.sizing import (
    capping,
    container_resources,
    limit_range_check,
    mistaken_targets,
    node_capacity,
    pod_level_resources,
    qos_growth,
    startup_boost,
)
from trimtab.core.sizing.capping import Capped
from trimtab.core.sizing.node_use import FreeNodes
from trimtab.core.updates.evictions import successors
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.snapshot import Snapshot

DISTRUSTED_CONDITIONS: Final = {
    "UsageStale": HoldReason.RECOMMENDATION_STALE,
    "RecommendationSuspicious": HoldReason.RECOMMENDATION_SUSPICIOUS,
}
"""Conditions with which a recommender says that its recommendation should not be acted on."""


_TRUE: Final = "True"


_ENDED: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED)


# In these a pod is replaced as a whole, so what a resize would ask for does not matter.
EVICTING_MODES: Final = (UpdateMode.RECREATE, UpdateMode.AUTO)


@dataclass(slots=True)
class TargetForPod:
    """Target of an autoscaler for all pods whose containers have the same resources."""

    autoscaler: Autoscaler
    limit_ranges: Sequence[LimitRangeItem]
    distrust: HoldReason | None
    recommendation: Sequence[ContainerRecommendation] = ()
    """Capped, for the containers that are scaled."""
    capped: Capped | None = None
    """The same for all containers, with the notes of capping."""
    change: Change = field(default_factory=Change)
    meets_requirements: bool = True
    is_possible: bool = True
    """True if the API server would accept such amounts."""
    holds_change: bool = False
    """True if the pod would need a change without amounts held for a HorizontalPodAutoscaler."""
    is_boosted: bool = False
    """True if the CPU of a container is boosted, and so not looked at."""
    wanted: TargetResources | None = None
    """Resources that the containers should have; None until first needed."""
    cut: Capped | None = None
    """The recommendation that takes from the pod what a LimitRange does not give new pods."""

    def stands(self, autoscaler: Autoscaler, limit_ranges: Sequence[LimitRangeItem]) -> bool:
        """Return True if it would be the same now, for an unchanged pod."""
        return self.autoscaler is autoscaler and self.limit_ranges == limit_ranges


@dataclass(frozen=True, slots=True)
class PlanContext:
    """Inputs that are the same for all pods of one plan."""

    snapshot: Snapshot
    settings: PlanSettings
    groups: dict[WorkloadName, disruption_budgets.ReplicaGroup]
    now: datetime
    judgements: dict[tuple[object, ...], TargetForPod] = field(default_factory=dict)
    """Pods of a workload are alike, so most of them were judged before."""
    in_the_way: frozenset[str] = frozenset()
    """The uids of boosted pods that fill a quota which missing pods need."""
    _ready_ordinals: list[Mapping[WorkloadName, Mapping[int, datetime]]] = field(
        default_factory=list
    )
    """The answer of `ready_ordinals_of`, once it was asked for."""
    _free_nodes: list[FreeNodes] = field(default_factory=list)
    """The answer of `free_nodes`, once it was asked for."""

    _new_pods: list[Mapping[str, Sequence[Pod]]] = field(default_factory=list)
    """The answer of `new_pods`, once it was asked for."""

    _members: list[Mapping[WorkloadName | None, Sequence[Pod]]] = field(default_factory=list)
    """By workload its live pods, once they were asked for."""
    _precedents: dict[tuple[object, ...], bool] = field(default_factory=dict)
    """The answers of `has_precedent`."""
    _foreseen: dict[tuple[object, ...], TargetResources] = field(default_factory=dict)
    """The answers of `foresee`."""

    def successor_of(self, pod: Pod) -> Pod | None:
        """Return the pod's successor as admission first sees it; None if its template is unknown.

        A newer LimitRange has given it defaults.
        """
        owner = disruption_budgets.owner_of(pod)
        sizes = None if owner is None else self.snapshot.template_sizes.get(owner)
        items = limit_range_check.checked_items(self.snapshot.limit_ranges.get(pod.namespace, ()))
        template = successors.template_of(pod, sizes, items)
        if sizes is None or template is None:
            return None
        return successors.from_template(pod, template, sizes)

    def foresee(self, pod: Pod, autoscaler: Autoscaler) -> TargetResources | None:
        """Return what is recommended for the pod's successor; None if its template is unknown."""
        owner = disruption_budgets.owner_of(pod)
        if owner is None or owner not in self.snapshot.template_sizes:
            return None
        key = owner, *_alike(pod, autoscaler)
        found = self._foreseen.get(key)
        if found is None and (new := self.successor_of(pod)) is not None:
            found = successors.wanted_of_new(new, autoscaler, self.limit_ranges_of(pod))
            self._foreseen[key] = found
        return found

    def new_pods(self, namespace: str, age: timedelta) -> Sequence[Pod]:
        """Return the pods of a namespace with quotas that are no older than the age."""
        if not self._new_pods:
            found: dict[str, list[Pod]] = {}
            for pod in (each.pod for each in self.snapshot.pods):
                if pod.namespace not in self.snapshot.quotas or pod.created_at is None:
                    continue
                if self.now - pod.created_at <= age:
                    found.setdefault(pod.namespace, []).append(pod)
            self._new_pods.append(found)
        return self._new_pods[0].get(namespace, ())

    def has_precedent(
        self, pod: Pod, autoscaler: Autoscaler, workload: WorkloadName, wanted: TargetResources
    ) -> bool:
        """Return True if a live pod of the workload has the size that is wanted of the pod."""
        # A pod that is OOM-killed may want another size than its siblings.
        sizes = [(name, *_content(each)) for name, each in wanted.items()]
        key = workload, *_alike(pod, autoscaler), *sizes
        if key not in self._precedents:
            self._precedents[key] = any(
                successors.is_precedent(each, pod, wanted) for each in self._members_of(workload)
            )
        return self._precedents[key]

    def _members_of(self, workload: WorkloadName) -> Sequence[Pod]:
        if not self._members:
            found: dict[WorkloadName | None, list[Pod]] = {}
            for each in self.snapshot.pods:
                if not each.pod.is_deleting and each.pod.phase not in _ENDED:
                    found.setdefault(each.workload, []).append(each.pod)
            self._members.append(found)
        return self._members[0].get(workload, ())

    def resizes(self, pod: Pod) -> bool:
        """Return True if the cluster can resize the pod in place."""
        return self.snapshot.resizes_in_place and not pod.is_windows

    def group_of(self, pod: Pod) -> disruption_budgets.ReplicaGroup | None:
        """Return the pod's replica group, if it has an owner."""
        owner = disruption_budgets.owner_of(pod)
        return None if owner is None else self.groups.get(owner)

    def lacks_lower_ordinal(self, pod: Pod, disrupted: Collection[int] = ()) -> bool:
        """Return True if the pod's owner would not bring it back before a lower ordinal.

        Pods that the same plan disrupts do not count as ready. Nor do pods that have not been
        ready for as long as the owner asks for.
        """
        snapshot, owner = self.snapshot, disruption_budgets.owner_of(pod)
        first = None if owner is None else snapshot.first_ordinals.get(owner)
        if owner is None or first is None or (ordinal := successors.ordinal_of(pod)) is None:
            return False
        ready, least = self.ready_ordinals_of(owner), snapshot.min_ready.get(owner)
        return not all(
            lower in ready
            and lower not in disrupted
            # Without such a span no clock is read: that of the node may be ahead.
            and (least is None or self.now - ready[lower] > least)
            for lower in range(first, ordinal)
        )

    def ready_ordinals_of(self, owner: WorkloadName) -> Mapping[int, datetime]:
        """Return by ordinal since when pods of an owner that makes them in order are ready."""
        snapshot = self.snapshot
        if not self._ready_ordinals:
            pods = (each.pod for each in snapshot.pods)
            found = successors.ready_ordinals(pods, snapshot.first_ordinals, snapshot.settling)
            self._ready_ordinals.append(found)
        return self._ready_ordinals[0].get(owner, {})

    def free_nodes(self) -> FreeNodes:
        """Return the room that pods leave on all nodes; nothing where nodes are not known."""
        if not self._free_nodes:
            self._free_nodes.append(self.snapshot.node_use.free_nodes())
        return self._free_nodes[0]

    def limit_ranges_of(self, pod: Pod) -> Sequence[LimitRangeItem]:
        """Return the limit range items of the pod's namespace, and the room on nodes for it."""
        items, rooms = self.snapshot.limit_ranges.get(pod.namespace, ()), self.snapshot.rooms
        return items if rooms is None else (*items, *rooms.for_pod(pod))

    def judge(self, pod: Pod, autoscaler: Autoscaler) -> TargetForPod:
        """Return the autoscaler's target for the pod; equal pods share one."""
        key = _alike(pod, autoscaler)
        found = self.judgements.get(key)
        if found is None:
            found = self.judgements[key] = _judge(pod, autoscaler, self)
        return found

    def want(self, pod: Pod, autoscaler: Autoscaler, judgement: TargetForPod) -> TargetResources:
        """Return the resources that the pod's containers should have by the judgement."""
        if judgement.wanted is None:
            judgement.wanted = _wanted(pod, autoscaler, judgement, self)
        return judgement.wanted


def measure_part(pod: Pod, judgement: TargetForPod, wanted: TargetResources) -> Change:
    """Measure the change if containers got only what is wanted of the recommendation."""
    return change.measure_change(pod, recommended_part(judgement, wanted))


def recommended_part(
    judgement: TargetForPod, wanted: TargetResources
) -> list[ContainerRecommendation]:
    """Return the recommendation as far as it is wanted."""
    asked = {name: allocation.requests or NO_AMOUNTS for name, allocation in wanted.items()}
    return [
        replace(
            entry,
            target={
                kind: amount
                for kind, amount in entry.target.items()
                if kind in asked[entry.container_name]
            },
        )
        for entry in judgement.recommendation
        if entry.container_name in asked
    ]


def published_doubt(autoscaler: Autoscaler) -> HoldReason | None:
    """Return the reason of the recommender's own condition against updates; None without one."""
    for condition in autoscaler.conditions:
        if condition.type in DISTRUSTED_CONDITIONS and condition.status == _TRUE:
            return DISTRUSTED_CONDITIONS[condition.type]
    return None


def distrust(pod: Pod, autoscaler: Autoscaler) -> HoldReason | None:
    """Return why the recommendation is not to be trusted for this pod; None if it is."""
    if (doubt := published_doubt(autoscaler)) is not None:
        return doubt
    scaled = _scaled_containers(pod, autoscaler)
    # Capped to the largest node, a pod would wait for an empty one. What capping makes of a target,
    # or takes from containers without one, says nothing about the recommender.
    sane = not any(
        mistaken_targets.list_mistakes(entry)
        for entry in autoscaler.recommendation or ()
        if entry.container_name in scaled
    )
    return None if sane else HoldReason.RECOMMENDATION_SUSPICIOUS


def only_grows(autoscaler: Autoscaler, settings: PlanSettings) -> bool:
    """Return True if nothing of a running pod may shrink under the autoscaler."""
    if autoscaler.mode is UpdateMode.UPSCALE_ONLY:
        return True
    return (
        settings.grow_only_under_requirements
        and bool(autoscaler.requirements)
        and all(
            requirement.direction is ChangeDirection.TARGET_HIGHER
            for requirement in autoscaler.requirements
        )
    )


def _alike(pod: Pod, autoscaler: Autoscaler) -> tuple[object, ...]:
    """Return the key of a judgement in one plan: pods with equal keys get the same target."""
    containers = [
        (
            each.name,
            each.kind,
            _content(each.spec),
            None if each.status is None else _content(each.status),
            None if each.base is None else _content(each.base),
        )
        for each in pod.containers
    ]
    return (
        id(autoscaler),
        pod.annotations.get(OBSERVED_CONTAINERS),
        startup_boost.boosted_containers(pod),
        _room(pod),
        pod.placement,
        None if pod.overhead is None else tuple(pod.overhead.items()),
        # What only grows starts from the spec, unless the kubelet has put off what the spec asks.
        pod.resize in PUT_OFF,
        # What a pod has on a node is not capped.
        bool(pod.node_name),
        # A node keeps room for the pods of all DaemonSets but the pod's own.
        node_capacity.own_daemon(pod),
        *containers,
    )


def _room(pod: Pod) -> tuple[object, ...] | None:
    """Return the pod-level resources as a key; None if the pod has none."""
    envelope = pod.envelope
    if envelope is None:
        return None
    own = _content(Allocation(envelope.requests, envelope.limits))
    return own, tuple(envelope.init_requests.items())


def _content(allocation: Allocation) -> tuple[object, object]:
    requests, limits = allocation.requests, allocation.limits
    return (
        None if requests is None else tuple(requests.items()),
        None if limits is None else tuple(limits.items()),
    )


def _judge(pod: Pod, autoscaler: Autoscaler, context: PlanContext) -> TargetForPod:
    limit_ranges = context.limit_ranges_of(pod)
    if (doubt := distrust(pod, autoscaler)) is not None:
        return TargetForPod(autoscaler, limit_ranges, doubt)
    boosts = startup_boost.boosted_containers(pod)
    # The CPU of a boosted container is the boost's: it says nothing about the recommendation, and
    # with the feature gate off no pod is changed for it (D20).
    held = autoscaler.held.union(Held(Resource.CPU, name) for name in boosts)
    capped = capping.cap_for_pod(
        autoscaler.recommendation, pod, autoscaler.policies, limit_ranges, held
    )
    others = [item for item in limit_ranges if item.type not in OF_LIMIT_RANGES]
    cut: Capped | None = None
    if pod.node_name and len(others) < len(limit_ranges) and kept_sizes.is_cut(pod, capped):
        free = capping.cap_for_pod(
            autoscaler.recommendation, pod, autoscaler.policies, others, held
        )
        cut, capped = capped, kept_sizes.keep_sizes(pod, capped, free)
    if autoscaler.mode not in EVICTING_MODES:
        capped = qos_growth.keep_class(
            pod, autoscaler, capped, lambda each: resized(pod, autoscaler, each, context)
        )
    scaled = _scaled_containers(pod, autoscaler)
    if pod.envelope is not None:
        scaled -= _misfits(pod, autoscaler, capped, limit_ranges)
    recommendation = [entry for entry in capped.recommendations if entry.container_name in scaled]
    if not recommendation:
        return TargetForPod(autoscaler, limit_ranges, HoldReason.NO_RECOMMENDATION)
    upscales = autoscaler.mode is UpdateMode.UPSCALE_ONLY
    return TargetForPod(
        autoscaler,
        limit_ranges,
        None,
        recommendation,
        capped,
        change=_measure_growth(pod, recommendation)
        if upscales
        else change.measure_change(pod, recommendation),
        meets_requirements=not autoscaler.requirements
        or change.are_fulfilled(autoscaler.requirements, pod, recommendation, only_growth=upscales),
        is_possible=all(
            amount >= 0 for entry in recommendation for amount in entry.target.values()
        ),
        holds_change=bool(autoscaler.held) and _would_change(pod, autoscaler, limit_ranges),
        is_boosted=bool(boosts),
        cut=cut,
    )


def _measure_growth(pod: Pod, recommendation: Sequence[ContainerRecommendation]) -> Change:
    """Measure the growth; of a pod that only shrinks, what is left to its successor."""
    growth = change.measure_change(pod, recommendation, only_growth=True)
    return growth if growth.scale_up else change.measure_change(pod, recommendation)


def _would_change(pod: Pod, autoscaler: Autoscaler, limit_ranges: Sequence[LimitRangeItem]) -> bool:
    """Return True if the pod would need a change, were no amount held."""
    all_of_it = capping.cap_for_pod(
        autoscaler.recommendation, pod, autoscaler.policies, limit_ranges
    )
    return change.measure_change(pod, all_of_it.recommendations).relative_difference > 0


def _wanted(
    pod: Pod, autoscaler: Autoscaler, judgement: TargetForPod, context: PlanContext
) -> TargetResources:
    if autoscaler.mode in EVICTING_MODES:
        # Limits are the admission controller's part.
        return {
            entry.container_name: Allocation(entry.target, NO_AMOUNTS)
            for entry in judgement.recommendation
        }
    return resized(pod, autoscaler, judgement.capped, context)


def resized(
    pod: Pod, autoscaler: Autoscaler, capped: Capped | None, context: PlanContext
) -> TargetResources:
    """Return the sizes that a resize asks for by the capped recommendation."""
    wanted = container_resources.wanted_by_autoscaler(
        pod, autoscaler, context.limit_ranges_of(pod), capped
    )
    if only_grows(autoscaler, context.settings):
        wanted = container_resources.only_growing(pod, wanted)
    return pod_level_resources.without_misfits(pod, wanted)


def _scaled_containers(pod: Pod, autoscaler: Autoscaler) -> frozenset[str]:
    return frozenset(
        [
            container.name
            for container in pod.containers
            if not container_resources.is_off(autoscaler, container)
        ]
    )


def _misfits(
    pod: Pod, autoscaler: Autoscaler, capped: Capped, limit_ranges: Sequence[LimitRangeItem]
) -> frozenset[str]:
    """Return the containers that admission gives nothing, since the pod lacks room for it."""
    wanted = container_resources.wanted_by_autoscaler(pod, autoscaler, limit_ranges, capped)
    return frozenset(pod_level_resources.find_misfits(pod, wanted))


def list_killed_early(pod: Pod, autoscaler: Autoscaler, context: PlanContext) -> list[Container]:
    """List the scaled containers that were lately OOM-killed soon after their start."""
    settings = context.settings
    threshold = change.quick_oom_threshold(
        autoscaler, settings.thresholds.quick_oom, per_autoscaler=settings.gates.per_vpa_config
    )
    return change.killed_early(pod, autoscaler, threshold, context.now)
