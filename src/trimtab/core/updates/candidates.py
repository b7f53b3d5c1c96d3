"""Find the pods that need a change, and all reasons against it but their workloads' budgets."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from trimtab.core.changes import change as requirements
from trimtab.core.changes import change as urgency
from trimtab.core.changes import kept_sizes
from trimtab.core.changes.change import Change, Thresholds
from trimtab.core.changes.kept_sizes import is_cut
from trimtab.core.changes.outcomes import Hold
from trimtab.core.guards import disruption_budgets as disruption
from trimtab.core.guards.disruption_budgets import DisruptionSettings
from trimtab.core.model import autoscalers, cap_notes, validation
from trimtab.core.model.autoscalers import (
    Autoscaler,
    ChangeDirection,
    ContainerRecommendation,
    Held,
    UpdateMode,
)
from trimtab.core.model.cap_notes import Note, NoteKind
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.hold_reasons import WANTS_CHANGE, HoldReason
from trimtab.core.model.limit_ranges import OF_LIMIT_RANGES, LimitRangeItem
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.pods import (
    OBSERVED_CONTAINERS,
    PUT_OFF,
    Allocation,
    Container,
    Pod,
    PodPhase,
    ResizeState,
    TargetResources,
    WorkloadName,
)
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.sizing import (
    capping,
    container_resources,
    limit_range_check,
    mistaken_targets,
    node_capacity,
    pod_level_resources,
    qos_growth,
    resize_patch,
    startup_boost,
)
from trimtab.core.sizing.capping import Capped
from trimtab.core.sizing.node_use import FreeNodes
from trimtab.core.sizing.resize_patch import ResizeEffect
from trimtab.core.sizing.startup_boost import MAX_BOOST_DURATION, UNSCHEDULABLE_FOR
from trimtab.core.updates import successors
from trimtab.core.updates.pending_shrinks import forbidden_shrinks, outdated_shrinks
from trimtab.core.updates.resize_or_evict import (
    ANSWERED_WITHIN,
    DEFERRED_FOR,
    lacks_what_was_asked,
    restarts_containers,
    without_restarts,
)
from trimtab.core.updates.snapshot import NO_MEMORY, PodMemory, Snapshot
from trimtab.core.updates.successors import ordinal_of, ready_ordinals

DISTRUSTED_CONDITIONS: Final = {
    "UsageStale": HoldReason.RECOMMENDATION_STALE,
    "RecommendationSuspicious": HoldReason.RECOMMENDATION_SUSPICIOUS,
}
"""Conditions with which a recommender says that its recommendation should not be acted on."""

_TRUE: Final = "True"
_ENDED: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED)
_OF_TRIFLES: Final = (HoldReason.INSIDE_BOUNDS, HoldReason.CHANGE_TOO_SMALL)
# In these a pod is replaced as a whole, so what a resize would ask for does not matter.
EVICTING_MODES: Final = (UpdateMode.RECREATE, UpdateMode.AUTO)


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Settings of plans; flags that the original has keep its defaults."""

    thresholds: Thresholds = field(default_factory=Thresholds)
    disruption: DisruptionSettings = field(default_factory=DisruptionSettings)
    gates: FeatureGates = field(default_factory=FeatureGates)
    max_boost_duration: timedelta | None = MAX_BOOST_DURATION
    """`--max-boost-duration`; None for no limit."""
    boost_unschedulable_timeout: timedelta | None = UNSCHEDULABLE_FOR
    """`--boost-unschedulable-timeout`; None if no boost is given up for lack of room."""
    role_dwell: timedelta = timedelta(minutes=1)
    """`--role-dwell`: how long a pod must have its autoscaler before that one may shrink it."""
    cool_down: timedelta = timedelta(minutes=5)
    """Time in which a changed pod neither shrinks nor restarts, but to end OOM kills."""
    grow_only_under_requirements: bool = False
    """True if requirements that only ask for growth keep a resize from shrinking anything."""
    infeasible_retry_after: timedelta = timedelta(hours=1)
    """Time for which a resize that the node refused counts as impossible."""
    evict_after_deferred: timedelta = DEFERRED_FOR
    """Maximum time that a resize waits for room before an eviction replaces it."""
    degraded_after: timedelta | None = timedelta(minutes=5)
    """`--stop-degraded-after`: so long a changed workload may have fewer ready pods than before it
    is left alone; None for ever."""
    max_misses: int = 3
    """Number of changes without effect after which a workload is left alone."""
    max_unproven: int | None = None
    """Maximum number of evictions of one workload without a proven effect; None for any.

    It is one until a pod of the workload has the wanted size."""
    paused: bool = False
    """`--pause`: the updater plans changes and makes none."""
    evicts_unwillingly: bool = False
    """True if the updater evicts pods whose annotations ask not to be evicted."""
    surge_margin: float = 0.3
    """Maximum excess of the share of a namespace's pods that want a change over the usual one."""
    surge_min_pods: int = 50
    """Number of pods below which the share of one namespace alone is not judged."""

    def __post_init__(self) -> None:
        """Refuse values below their minimum."""
        spans = {
            "max_boost_duration": self.max_boost_duration or timedelta(),
            "boost_unschedulable_timeout": self.boost_unschedulable_timeout or timedelta(),
            "role_dwell": self.role_dwell,
            "cool_down": self.cool_down,
            "infeasible_retry_after": self.infeasible_retry_after,
            "evict_after_deferred": self.evict_after_deferred,
            "degraded_after": self.degraded_after or timedelta(),
        }
        for name, span in spans.items():
            validation.require_at_least(name, span.total_seconds(), 0)
        validation.require_at_least("max_misses", self.max_misses, 1)
        validation.require_at_least(
            "max_unproven", 1 if self.max_unproven is None else self.max_unproven, 1
        )
        validation.require_at_least("surge_margin", self.surge_margin, 0)
        validation.require_at_least("surge_min_pods", self.surge_min_pods, 0)


class Candidate(NamedTuple):
    """A pod that may be changed as soon as its workload's budget allows it."""

    pod: Pod
    autoscaler: Autoscaler
    change: Change
    quick_oom: bool
    wanted: TargetResources
    standing: disruption.GroupPermission
    memory: PodMemory
    restraint: HoldReason | None = None
    """Why the pod may only grow in place, mostly as it was changed a moment ago (D17)."""
    takes_back: bool = False
    """True if all that is wanted is to take back a shrink that the kubelet has put off."""
    is_cut: bool = False
    """True if a LimitRange takes something, so that the API server gives the memory that helps."""
    workload: WorkloadName | None = None
    """The topmost."""
    owner: WorkloadName | None = None
    """The direct one."""


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
    groups: dict[WorkloadName, disruption.ReplicaGroup]
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
        owner = disruption.owner_of(pod)
        sizes = None if owner is None else self.snapshot.template_sizes.get(owner)
        items = limit_range_check.checked_items(self.snapshot.limit_ranges.get(pod.namespace, ()))
        template = successors.template_of(pod, sizes, items)
        if sizes is None or template is None:
            return None
        return successors.from_template(pod, template, sizes)

    def foresee(self, pod: Pod, autoscaler: Autoscaler) -> TargetResources | None:
        """Return what is recommended for the pod's successor; None if its template is unknown."""
        owner = disruption.owner_of(pod)
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

    def group_of(self, pod: Pod) -> disruption.ReplicaGroup | None:
        """Return the pod's replica group, if it has an owner."""
        owner = disruption.owner_of(pod)
        return None if owner is None else self.groups.get(owner)

    def lacks_lower_ordinal(self, pod: Pod, disrupted: Collection[int] = ()) -> bool:
        """Return True if the pod's owner would not bring it back before a lower ordinal.

        Pods that the same plan disrupts do not count as ready. Nor do pods that have not been
        ready for as long as the owner asks for.
        """
        snapshot, owner = self.snapshot, disruption.owner_of(pod)
        first = None if owner is None else snapshot.first_ordinals.get(owner)
        if owner is None or first is None or (ordinal := ordinal_of(pod)) is None:
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
            found = ready_ordinals(pods, snapshot.first_ordinals, snapshot.settling)
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


class CheckInputs(NamedTuple):
    """One pod, its autoscaler and what follows from the two; a tuple is made fastest."""

    pod: Pod
    autoscaler: Autoscaler
    workload: WorkloadName | None
    judgement: TargetForPod
    quick_oom: bool
    """True if an OOM-killed container would get more memory: that cannot wait."""
    memory: PodMemory
    is_killed_early: bool = False
    """True if a container was OOM-killed early, whatever it would get."""
    is_cure_held: bool = False
    """True if it would get more memory, were that not left to a HorizontalPodAutoscaler."""


def assess(
    pod: Pod,
    autoscaler: Autoscaler,
    workload: WorkloadName | None,
    context: PlanContext,
    *,
    judgement: TargetForPod | None = None,
) -> Candidate | Hold:
    """The pod as a candidate, or the first reason why it is none.

    Who knows already what an autoscaler that acts wants of the pod may bring the judgement along.
    """
    name = autoscaler.identity
    if judgement is None:
        if (idle := reason_to_idle(autoscaler, context.settings.gates)) is not None:
            return Hold(pod, name, idle)
        judgement = context.judge(pod, autoscaler)
    facts = facts_about(pod, autoscaler, workload, judgement, context)
    if back := shrinks_to_take_back(facts, context):
        return candidate_to_take_back(facts, back)
    if judgement.distrust is not None:
        return Hold(pod, name, judgement.distrust)
    for check in CHECKS:
        if (reason := check(facts, context)) is not None:
            wanted = context.want(pod, autoscaler, judgement) if reason in WANTS_CHANGE else None
            detail = detail_of(reason, workload, context)
            return Hold(pod, name, reason, judgement.change, wanted=wanted, detail=detail)
    return _candidate_by_standing(facts, context)


def _candidate_by_standing(facts: CheckInputs, context: PlanContext) -> Candidate | Hold:
    pod, name = facts.pod, facts.autoscaler.identity
    standing = standing_of(facts, context)
    candidate = candidate_of(facts, context, standing)
    if isinstance(standing, HoldReason):
        return Hold(pod, name, standing, candidate.change, wanted=candidate.wanted)
    if not candidate.wanted and facts.autoscaler.mode not in EVICTING_MODES:
        return Hold(pod, name, HoldReason.ONLY_SHRINKS, candidate.change)
    return candidate


def shrinks_to_take_back(facts: CheckInputs, context: PlanContext) -> TargetResources:
    """Return what to ask for instead of a shrink that the kubelet has put off; mostly nothing.

    No mode takes more than is recommended, and where pods only grow none takes anything.
    """
    pod, autoscaler, memory = facts.pod, facts.autoscaler, facts.memory.resize
    if not context.resizes(pod) or autoscaler.mode in EVICTING_MODES:
        return {}
    if only_grows(autoscaler, context.settings):
        return forbidden_shrinks(pod, autoscaler, memory)
    # Most pods have no resize under way, and for those nothing has to be measured.
    if pod.resize not in PUT_OFF or facts.judgement.distrust is not None:
        return {}
    wanted = context.want(pod, autoscaler, facts.judgement)
    least = context.settings.thresholds.smallest_change
    return outdated_shrinks(pod, autoscaler, memory, wanted, least)


def candidate_to_take_back(facts: CheckInputs, back: TargetResources) -> Candidate:
    """Return the pod as a candidate that is given back what its spec would take from it."""
    return Candidate(
        facts.pod,
        facts.autoscaler,
        change=facts.judgement.change,
        quick_oom=facts.quick_oom,
        wanted=back,
        standing=disruption.GroupPermission.OPEN,
        memory=facts.memory,
        takes_back=True,
        workload=facts.workload,
        owner=disruption.owner_of(facts.pod),
    )


def standing_of(
    facts: CheckInputs, context: PlanContext
) -> disruption.GroupPermission | HoldReason:
    """Return what the replica group permits, or why none of its pods may be touched.

    Of a small group no pod is evicted, but one that is OOM-killed early may grow in all modes.
    """
    standing = disruption.standing(
        context.group_of(facts.pod),
        facts.autoscaler,
        context.settings.disruption,
        can_resize=context.resizes(facts.pod),
    )
    is_small = standing is HoldReason.BELOW_MIN_REPLICAS
    if is_small and facts.quick_oom and context.resizes(facts.pod):
        return disruption.GroupPermission.RESIZE_ONLY
    return standing


def candidate_of(
    facts: CheckInputs, context: PlanContext, standing: disruption.GroupPermission | HoldReason
) -> Candidate:
    """The pod as a candidate, whatever its replica group permits."""
    pod, autoscaler, judgement = facts.pod, facts.autoscaler, facts.judgement
    restraint = _restraint(facts, context)
    growth = None if restraint is None else growth_in_cool_down(facts, context)
    change, wanted = growth or (judgement.change, context.want(pod, autoscaler, judgement))
    cut = _wanted_with_cut(facts, context)
    is_restrained = growth or is_cooling(facts, context) or _dies_on(facts, context)
    return Candidate(
        pod,
        autoscaler,
        change=change,
        quick_oom=facts.quick_oom,
        wanted=cut or wanted,
        standing=disruption.GroupPermission.OPEN if isinstance(standing, HoldReason) else standing,
        memory=facts.memory,
        restraint=restraint if is_restrained else None,
        is_cut=bool(cut),
        workload=facts.workload,
        owner=disruption.owner_of(pod),
    )


def _restraint(facts: CheckInputs, context: PlanContext) -> HoldReason | None:
    """Return why the pod may only grow in place, if it can."""
    if is_cooling(facts, context):
        return HoldReason.COOL_DOWN
    if _was_left_small(facts, context) or _dies_on(facts, context):
        return HoldReason.NOT_CONVERGING
    return HoldReason.WORKLOAD_DEGRADED if _is_degraded(facts, context) else None


def _wanted_with_cut(facts: CheckInputs, context: PlanContext) -> TargetResources | None:
    """Return the size that a LimitRange allows a pod that is OOM-killed early; mostly None.

    The API server refuses more memory for a pod that keeps more CPU than a LimitRange allows.
    """
    pod, autoscaler, judgement = facts.pod, facts.autoscaler, facts.judgement
    settings = context.settings
    if not facts.quick_oom or judgement.cut is None:
        return None
    if autoscaler.mode in EVICTING_MODES or only_grows(autoscaler, settings):
        return None
    wanted = _resized(pod, autoscaler, judgement.cut, context)
    least = settings.thresholds.smallest_change
    return wanted if kept_sizes.bears_cut(pod, wanted, judgement.recommendation, least) else None


def facts_about(
    pod: Pod,
    autoscaler: Autoscaler,
    workload: WorkloadName | None,
    judgement: TargetForPod,
    context: PlanContext,
) -> CheckInputs:
    """All that the checks of one pod ask for."""
    killed = list_killed_early(pod, autoscaler, context)
    waiting = [each for each in killed if autoscalers.holds(autoscaler, each.name, Resource.MEMORY)]
    return CheckInputs(
        pod,
        autoscaler,
        workload,
        judgement,
        # Nothing but more memory ends the kills, so nothing else is urgent.
        quick_oom=bool(killed) and urgency.gives_memory(judgement.recommendation, killed),
        memory=context.snapshot.pod_memory.get((pod.uid, autoscaler.identity), NO_MEMORY),
        is_killed_early=bool(killed),
        is_cure_held=bool(waiting)
        and urgency.gives_memory(autoscaler.recommendation or (), waiting),
    )


def is_cooling(facts: CheckInputs, context: PlanContext) -> bool:
    """Return True if the pod was changed a moment ago and no OOM kill makes it urgent."""
    updated = facts.memory.last_updated_at
    if updated is None or facts.quick_oom:
        return False
    passed = context.now - updated
    if passed >= context.settings.cool_down:
        return False
    # A pod that its node can never resize is as small as it was.
    is_refused = facts.pod.resize is ResizeState.INFEASIBLE and passed >= ANSWERED_WITHIN
    return not (is_refused and facts.judgement.change.scale_up)


def growth_in_cool_down(
    facts: CheckInputs, context: PlanContext
) -> tuple[Change, TargetResources] | None:
    """Return what may grow in place although the pod must not restart; None if nothing (D17).

    The last resize must show on the pod. The growth must matter by itself, restart nothing, and
    need no room that shrinking would make.
    """
    pod, autoscaler, judgement = facts.pod, facts.autoscaler, facts.judgement
    resizes = context.resizes(pod) and autoscaler.mode not in EVICTING_MODES
    if not resizes or not judgement.change.scale_up or pod.phase is PodPhase.PENDING:
        return None
    if lacks_what_was_asked(pod, facts.memory.resize):
        return None
    growing = pod_level_resources.without_misfits(
        pod, container_resources.only_growing(pod, context.want(pod, autoscaler, judgement))
    )
    wanted = without_restarts(pod, growing)
    change = measure_part(pod, judgement, wanted)
    is_possible = (
        _is_worth_it(change, facts, context) is None
        and resize_patch.resize_effect(pod, wanted) is ResizeEffect.SAME_QOS
        and not restarts_containers(pod, wanted)
        and container_resources.is_within(pod, wanted, context.limit_ranges_of(pod))
    )
    return (change, wanted) if is_possible else None


def measure_part(pod: Pod, judgement: TargetForPod, wanted: TargetResources) -> Change:
    """Measure the change if containers got only what is wanted of the recommendation."""
    return urgency.measure_change(pod, recommended_part(judgement, wanted))


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


def reason_to_idle(autoscaler: Autoscaler, gates: FeatureGates) -> HoldReason | None:
    """Return why the autoscaler changes no running pod at all; None if it may change them."""
    match autoscaler.mode:
        case UpdateMode.OFF:
            return HoldReason.MODE_OFF
        case UpdateMode.INITIAL:
            return HoldReason.MODE_INITIAL
        case UpdateMode.IN_PLACE if not gates.in_place:
            return HoldReason.FEATURE_GATE_OFF
        case UpdateMode.UPSCALE_ONLY if not gates.upscale_only:
            return HoldReason.FEATURE_GATE_OFF
        case _:
            return None


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
    if pod.node_name and len(others) < len(limit_ranges) and is_cut(pod, capped):
        free = capping.cap_for_pod(
            autoscaler.recommendation, pod, autoscaler.policies, others, held
        )
        cut, capped = capped, kept_sizes.keep_sizes(pod, capped, free)
    if autoscaler.mode not in EVICTING_MODES:
        capped = qos_growth.keep_class(
            pod, autoscaler, capped, lambda each: _resized(pod, autoscaler, each, context)
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
        else urgency.measure_change(pod, recommendation),
        meets_requirements=not autoscaler.requirements
        or requirements.are_fulfilled(
            autoscaler.requirements, pod, recommendation, only_growth=upscales
        ),
        is_possible=all(
            amount >= 0 for entry in recommendation for amount in entry.target.values()
        ),
        holds_change=bool(autoscaler.held) and _would_change(pod, autoscaler, limit_ranges),
        is_boosted=bool(boosts),
        cut=cut,
    )


def _measure_growth(pod: Pod, recommendation: Sequence[ContainerRecommendation]) -> Change:
    """Measure the growth; of a pod that only shrinks, what is left to its successor."""
    growth = urgency.measure_change(pod, recommendation, only_growth=True)
    return growth if growth.scale_up else urgency.measure_change(pod, recommendation)


def _would_change(pod: Pod, autoscaler: Autoscaler, limit_ranges: Sequence[LimitRangeItem]) -> bool:
    """Return True if the pod would need a change, were no amount held."""
    all_of_it = capping.cap_for_pod(
        autoscaler.recommendation, pod, autoscaler.policies, limit_ranges
    )
    return urgency.measure_change(pod, all_of_it.recommendations).relative_difference > 0


def _wanted(
    pod: Pod, autoscaler: Autoscaler, judgement: TargetForPod, context: PlanContext
) -> TargetResources:
    if autoscaler.mode in EVICTING_MODES:
        # Limits are the admission controller's part.
        return {
            entry.container_name: Allocation(entry.target, NO_AMOUNTS)
            for entry in judgement.recommendation
        }
    return _resized(pod, autoscaler, judgement.capped, context)


def _resized(
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
    threshold = urgency.quick_oom_threshold(
        autoscaler, settings.thresholds.quick_oom, per_autoscaler=settings.gates.per_vpa_config
    )
    return urgency.killed_early(pod, autoscaler, threshold, context.now)


def _amounts_are_possible(facts: CheckInputs, _: PlanContext) -> HoldReason | None:
    # A policy with a negative bound, which no webhook refused, leads to requests that the API
    # server will refuse: an evicted pod would never come back.
    return None if facts.judgement.is_possible else HoldReason.RECOMMENDATION_SUSPICIOUS


def _is_worth_it(change: Change, facts: CheckInputs, context: PlanContext) -> HoldReason | None:
    return urgency.reason_to_wait(
        change,
        quick_oom=facts.quick_oom,
        age=urgency.age_of(facts.pod, facts.memory.last_updated_at, context.now),
        thresholds=context.settings.thresholds,
        has_new_role=facts.memory.has_new_role,
    )


def _worth_it(facts: CheckInputs, context: PlanContext) -> HoldReason | None:
    reason = _is_worth_it(facts.judgement.change, facts, context)
    if facts.is_cure_held and reason in _OF_TRIFLES:
        # What is left to change is not what the pod needs.
        return HoldReason.SCALED_HORIZONTALLY
    if reason is not HoldReason.INSIDE_BOUNDS:
        return reason
    if facts.judgement.is_boosted:
        return HoldReason.BOOST_ACTIVE
    return HoldReason.SCALED_HORIZONTALLY if facts.judgement.holds_change else reason


def _grows_if_it_must(facts: CheckInputs, _: PlanContext) -> HoldReason | None:
    shrinks = (
        facts.autoscaler.mode is UpdateMode.UPSCALE_ONLY and not facts.judgement.change.scale_up
    )
    return HoldReason.ONLY_SHRINKS if shrinks else None


def _meets_requirements(facts: CheckInputs, _: PlanContext) -> HoldReason | None:
    return None if facts.judgement.meets_requirements else HoldReason.REQUIREMENT_NOT_MET


def _role_is_settled(facts: CheckInputs, context: PlanContext) -> HoldReason | None:
    since = facts.memory.governed_since
    if since is None or facts.judgement.change.scale_up:
        return None
    settled = context.now - since >= context.settings.role_dwell
    return None if settled else HoldReason.ROLE_DWELL


def _has_cooled_down(facts: CheckInputs, context: PlanContext) -> HoldReason | None:
    if not is_cooling(facts, context):
        return None
    return HoldReason.COOL_DOWN if growth_in_cool_down(facts, context) is None else None


def _admission_is_alive(_: CheckInputs, context: PlanContext) -> HoldReason | None:
    return None if context.snapshot.admission_alive else HoldReason.ADMISSION_ABSENT


def _converges(facts: CheckInputs, context: PlanContext) -> HoldReason | None:
    if not _acts_in_vain(facts, context) or _dies_on(facts, context):
        return None
    grows = _was_left_small(facts, context) and growth_in_cool_down(facts, context) is not None
    return None if grows else HoldReason.NOT_CONVERGING


def _acts_in_vain(facts: CheckInputs, context: PlanContext) -> bool:
    """Return True if earlier changes to the workload did not show, and it is left alone for now."""
    record = None if facts.workload is None else context.snapshot.convergence.get(facts.workload)
    if record is None:
        return False
    return record.failures >= context.settings.max_misses or not record.is_due(context.now)


def _dies_on(facts: CheckInputs, context: PlanContext) -> bool:
    """Return True if the pod is OOM-killed early, and evictions of the workload had no effect.

    Growth in place repeats none of them.
    """
    is_in_vain = _acts_in_vain(facts, context) and facts.quick_oom
    is_open = facts.workload in context.snapshot.evicted_in_vain and context.resizes(facts.pod)
    return is_in_vain and is_open


def _was_left_small(facts: CheckInputs, context: PlanContext) -> bool:
    """Return True if the change without effect is an eviction into a quota without room.

    The note of admission explains it, and growth in place repeats nothing.
    """
    annotations = facts.pod.annotations
    return _acts_in_vain(facts, context) and any(
        cap_notes.has_note(annotations, Note(kind, NoteKind.QUOTA_REFUSES)) for kind in BOTH
    )


def _is_well(facts: CheckInputs, context: PlanContext) -> HoldReason | None:
    if not _is_degraded(facts, context):
        return None
    grows = growth_in_cool_down(facts, context) is not None
    return None if grows else HoldReason.WORKLOAD_DEGRADED


def _is_degraded(facts: CheckInputs, context: PlanContext) -> bool:
    """Return True if the workload has got worse, and more memory alone is no cure."""
    # A pod that is OOM-killed in a loop gets ready only with more memory.
    return facts.workload in context.snapshot.degraded and not facts.quick_oom


def detail_of(reason: HoldReason, workload: WorkloadName | None, context: PlanContext) -> str:
    """Return the details of the reason, as a message for users."""
    if reason is not HoldReason.WORKLOAD_DEGRADED or workload is None:
        return ""
    return context.snapshot.degraded[workload].detail


# The value of a change comes before the obstacles to it: users ask for that first.
CHECKS: Final[tuple[Callable[[CheckInputs, PlanContext], HoldReason | None], ...]] = (
    _amounts_are_possible,
    _worth_it,
    _grows_if_it_must,
    _meets_requirements,
    _role_is_settled,
    _has_cooled_down,
    _admission_is_alive,
    _converges,
    _is_well,
)
