"""Explanations of actions on pods, as JSON: from a planner to the explain command.

The keys are an interface.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from trimtab.api.wire import codec, quantities, times
from trimtab.api.wire.codec import Written
from trimtab.core.changes.change import Change
from trimtab.core.changes.outcomes import Hold, Outcome, Unboost
from trimtab.core.diagnosis import durations
from trimtab.core.explain.next_pod import NextPod
from trimtab.core.explain.pod_checks import PodExplanation
from trimtab.core.explain.update_checks import CheckVerdict, PodCheck
from trimtab.core.model import cap_notes, pods
from trimtab.core.model.autoscalers import ContainerRecommendation
from trimtab.core.model.cap_notes import Note
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.pods import Allocation, Container
from trimtab.core.model.quantities import format_amount
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.updates.checks.check import CheckKind
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.resize_or_evict import Action

_REASONS: Final = {
    HoldReason.BOOST_ACTIVE: "CPU is boosted until the pod is ready, and for a while after that",
    HoldReason.UNBOOST_DELAYED: "the boost is over and could not be taken back yet",
    HoldReason.MODE_OFF: "Off: there are recommendations and nothing else",
    HoldReason.MODE_INITIAL: "Initial: only new pods are given their size",
    HoldReason.FEATURE_GATE_OFF: "the feature gate that the mode needs is off",
    HoldReason.NO_RECOMMENDATION: "there is none for any container of the pod",
    HoldReason.RECOMMENDATION_STALE: "the recommender says that it rests on usage that is too old",
    HoldReason.RECOMMENDATION_SUSPICIOUS: "a target is nothing, or its recommender doubts it",
    HoldReason.INSIDE_BOUNDS: "the pod has what is recommended",
    HoldReason.SCALED_HORIZONTALLY: "what would change is left to a HorizontalPodAutoscaler",
    HoldReason.ONLY_SHRINKS: "nothing would grow, and running pods only grow under UpscaleOnly",
    HoldReason.REQUIREMENT_NOT_MET: "the change goes another way than evictionRequirements ask",
    HoldReason.ROLE_DWELL: "its role is new, and it does not shrink before that is settled",
    HoldReason.COOL_DOWN: "it was changed a moment ago",
    HoldReason.ADMISSION_ABSENT: "no admission controller would give its successor the new size",
    HoldReason.NOT_CONVERGING: "earlier changes did not show on the workload's pods",
    HoldReason.WORKLOAD_DEGRADED: "fewer pods are ready than before the workload was changed",
    HoldReason.NO_OWNER: "the pod has no owner that would replace it",
    HoldReason.REPLICAS_UNKNOWN: "how many pods its owner wants is not known, or none",
    HoldReason.BELOW_MIN_REPLICAS: "its owner has fewer pods than minReplicas",
    HoldReason.BUDGET_SPENT: "as many pods of its owner as may be are down",
    HoldReason.SURGE: "far more pods than usual want to change, which is rarely meant",
    HoldReason.POD_PENDING: "it does not run yet; an eviction would begin its start again",
    HoldReason.RESIZE_DEFERRED: "the node has no room yet for the resize that was asked for",
    HoldReason.RESIZE_IN_PROGRESS: "a resize is under way",
    HoldReason.RESIZE_FAILING: "the kubelet cannot do the resize and goes on trying",
    HoldReason.RESIZE_INFEASIBLE: "the node cannot do the resize; a lower target may help",
    HoldReason.RESIZE_DENIED: "the API server refuses this size, and would refuse a successor's",
    HoldReason.RESIZE_UNSUPPORTED: "the mode only resizes, and this cluster cannot",
    HoldReason.QOS_WOULD_CHANGE: "the mode only resizes, and that may not change the QoS class",
    HoldReason.EVICTION_UNWANTED: "an annotation of the pod asks to let it run on",
    HoldReason.RUNS_TO_COMPLETION: "its Job would count an eviction or restart as a failure, and "
    "begin the work again",
    HoldReason.REVISION_STAGED: "its owner has not rolled out its new template that far, which an "
    "eviction would do",
    HoldReason.LOWER_ORDINAL_NOT_READY: "its StatefulSet would bring it back only after a lower "
    "ordinal that is not ready",
    HoldReason.SUCCESSOR_SMALLER: "its template would give its successor less than it has and "
    "needs: less of what is not applied, or lower limits",
    HoldReason.NO_NODE_FOR_SUCCESSOR: "the only nodes that its successor may go to are full, "
    "cordoned or tainted",
    HoldReason.NODES_TOO_SMALL: "no node that takes its successor is as large as what it has",
    HoldReason.POD_DISRUPTION_BUDGET: "a PodDisruptionBudget refused its eviction a moment ago",
    HoldReason.EFFECT_AWAITED: "successors of other pods have yet to show that they get this size",
    HoldReason.SUCCESSORS_MISSING: "pods that were evicted before have no successors",
    HoldReason.LIMIT_RANGE_REFUSES: "a LimitRange would refuse its successor in that size",
    HoldReason.QUOTA_EXCEEDED: "a ResourceQuota refuses what it or its successor would need",
    HoldReason.PAUSED: "a flag, an annotation or the namespace says that nothing may be done",
}

_PASSES: Final = {
    CheckKind.BOOST: "the startup boost is over",
    CheckKind.MODE: "running pods are changed",
    CheckKind.REPLICAS: "its owner has enough pods",
    CheckKind.RECOMMENDATION: "there is one, and nothing speaks against it",
    CheckKind.DIRECTION: "something would change that may",
    CheckKind.REQUIREMENTS: "the change meets them, if there are any",
    CheckKind.ROLE: "it has had its autoscaler for long enough, or grows",
    CheckKind.COOL_DOWN: "it was not changed of late, or grows in place",
    CheckKind.ADMISSION: "new pods get their size",
    CheckKind.CONVERGENCE: "earlier changes showed, if there were any",
    CheckKind.HEALTH: "as many pods are ready as before earlier changes",
    CheckKind.SURGE: "no more pods than usual want to change",
    CheckKind.RESIZE: "no earlier resize is in the way",
    CheckKind.BUDGET: "one more pod may be down",
    CheckKind.EVICTION: "no annotation asks not to evict it, and its owner would bring it back",
    CheckKind.POD_DISRUPTION_BUDGET: "none refused its eviction of late",
    CheckKind.EARLIER_EVICTIONS: "those had their effect",
    CheckKind.QUOTA: "all leave room for what it needs",
    CheckKind.PAUSE: "nothing asks to wait",
}
_WAYS_OUT: Final[Mapping[Action | None, str]] = {
    Action.EVICT: "its successor goes elsewhere",
    Action.RESIZE: "only the rest is resized",
}
_RESOURCES: Final = {Resource.CPU: "CPU", Resource.MEMORY: "memory"}
_UNKNOWN: Final = "only a running updater knows"


def tell_check(check: PodCheck, explanation: PodExplanation, settings: PlanSettings) -> str:
    """Return one sentence about the answer to a check."""
    match check.verdict:
        case CheckVerdict.UNKNOWN:
            return _UNKNOWN
        case CheckVerdict.NOT_ASKED:
            return _tell_unasked(check.kind, explanation)
        case CheckVerdict.CLEAR | CheckVerdict.BLOCKED:
            tell = _TOLD_WITH_FIGURES.get(check.kind)
            if tell is not None and (told := tell(check, explanation, settings)):
                return told
            if check.reason is not None:
                return _REASONS[check.reason]
            return _PASSES[check.kind]


def _tell_unasked(kind: CheckKind, explanation: PodExplanation) -> str:
    if kind is CheckKind.BOOST:
        return "the pod is not boosted"
    if isinstance(explanation.outcome, Unboost) or explanation.autoscaler is None:
        return "does not apply to the end of a boost"
    if explanation.way is Action.RESIZE:
        return "does not apply to resizes in place"
    return "not checked while other checks fail"


def _tell_detail(check: PodCheck, explanation: PodExplanation, _: PlanSettings) -> str:
    outcome = explanation.outcome
    if not isinstance(outcome, Hold) or check.reason is not outcome.reason or not outcome.detail:
        return ""
    return f"{_REASONS[outcome.reason]}: {outcome.detail}"


def _tell_mode(check: PodCheck, explanation: PodExplanation, _: PlanSettings) -> str:
    autoscaler = explanation.autoscaler
    if autoscaler is None:
        return ""
    if autoscaler.unknown_mode and check.reason is HoldReason.MODE_OFF:
        return f"unknown mode {autoscaler.unknown_mode!r}, treated as Off"
    if check.reason is not None:
        return ""
    return f"{autoscaler.mode}: running pods are changed"


def _tell_change(check: PodCheck, explanation: PodExplanation, settings: PlanSettings) -> str:
    if check.reason is not None:
        return _tell_small_change(check.reason, explanation, settings)
    change, by = explanation.change, _difference(explanation)
    if change.outside_bounds:
        return f"requests are off by {by}, and outside the recommended bounds"
    if explanation.quick_oom:
        return f"OOM-killed soon after its start, and off by {by}"
    return f"requests are off by {by}, inside the recommended bounds"


def _tell_small_change(
    reason: HoldReason, explanation: PodExplanation, settings: PlanSettings
) -> str:
    if reason is HoldReason.INSIDE_BOUNDS and explanation.is_killed_early:
        return "OOM-killed, but its target is what it has"
    if reason is HoldReason.SCALED_HORIZONTALLY and explanation.is_cure_held:
        return "OOM-killed, but its memory is left to a HorizontalPodAutoscaler"
    if reason is HoldReason.CHANGE_TOO_SMALL:
        killed = "OOM-killed, but " if explanation.is_killed_early else ""
        gets = "" if explanation.quick_oom or not killed else "its target has no more of it, and "
        by, least = _difference(explanation), settings.thresholds.smallest_change
        return f"{killed}{gets}requests are off by {by}, less than {100 * least:.3g} %"
    return ""


def _difference(explanation: PodExplanation) -> str:
    return f"{100 * explanation.change.relative_difference:.3g} %"


def _tell_lifetime(check: PodCheck, explanation: PodExplanation, settings: PlanSettings) -> str:
    least, age = settings.thresholds.lifetime, explanation.age
    runs = "it has not started" if age is None else f"it runs for {durations.brief(age)}"
    if check.reason is not None:
        return f"inside its bounds a pod is left alone for {durations.brief(least)}; {runs}"
    if explanation.change.outside_bounds or explanation.quick_oom:
        return "does not matter: it is outside its bounds, or was OOM-killed"
    if age is not None and age < least:
        return "does not matter: its role has changed since it started or was changed"
    return f"{runs}, and {durations.brief(least)} are enough"


def _tell_replicas(check: PodCheck, explanation: PodExplanation, settings: PlanSettings) -> str:
    group, autoscaler = explanation.group, explanation.autoscaler
    if group is None or autoscaler is None or group.configured is None:
        return ""
    least = settings.disruption.min_replicas
    least = least if autoscaler.min_replicas is None else autoscaler.min_replicas
    has = f"its owner has {group.live} live pods"
    if check.reason is None and group.live < least:
        return f"{has}, fewer than {least}, but a resize without a restart needs no others"
    return f"{has}, {'at least' if check.reason is None else 'fewer than'} {least}"


def _tell_budget(check: PodCheck, explanation: PodExplanation, settings: PlanSettings) -> str:
    group = explanation.group
    if group is None or group.configured is None:
        return ""
    most = int(group.configured * settings.disruption.tolerance)
    # For a ready pod, only other ready pods count.
    by_readiness = explanation.pod.ready_since is not None and group.serving < group.running
    count, state = (group.serving, "are ready") if by_readiness else (group.running, "run")
    figures = f"{count} of {group.configured} pods {state}, and {most} may be down"
    if check.reason is None:
        return figures
    outcome = explanation.outcome
    if isinstance(outcome, Hold) and outcome.reason is check.reason and outcome.detail:
        return f"{figures}, but {outcome.detail}"
    first = explanation.siblings_changed
    others = f" and {len(first) - 1} more" if len(first) > 1 else ""
    return f"{figures}: {first[0]}{others} first" if first else f"{figures}: too few {state}"


def _tell_resize(check: PodCheck, explanation: PodExplanation, settings: PlanSettings) -> str:
    if check.reason is HoldReason.RESIZE_DENIED:
        return _tell_detail(check, explanation, settings)
    if not explanation.lacking or check.reason not in (None, HoldReason.RESIZE_INFEASIBLE):
        return ""
    needed, left = (
        " and ".join(_amount(kind, each[place]) for kind, each in explanation.lacking.items())
        for place in (0, 1)
    )
    room = f"it needs {needed}, and its node has {left} left for it"
    if check.reason is not None:
        return room
    return f"{room}: {_WAYS_OUT.get(explanation.way, 'it waits')}"


def _amount(kind: Resource, amount: int) -> str:
    return f"{format_amount(kind, max(amount, 0))} of {_RESOURCES[kind]}"


def _tell_quick_role(check: PodCheck, _: PodExplanation, settings: PlanSettings) -> str:
    if check.reason is None:
        return ""
    span = settings.cool_down if check.kind is CheckKind.COOL_DOWN else settings.role_dwell
    return f"{_REASONS[check.reason]} (for {durations.brief(span)})"


def _tell_annotation(check: PodCheck, explanation: PodExplanation, _: PlanSettings) -> str:
    if check.reason is not HoldReason.EVICTION_UNWANTED:
        return ""
    own = explanation.pod.annotations
    named = [
        f"{name}: {value}"
        for name, value in pods.KEEPS_FROM_EVICTION.items()
        if own.get(name) == value
    ]
    return f"{_REASONS[check.reason]}: {', '.join(named)}"


_TOLD_WITH_FIGURES: Final[
    Mapping[CheckKind, Callable[[PodCheck, PodExplanation, PlanSettings], str]]
] = {
    CheckKind.BOOST: _tell_detail,
    CheckKind.HEALTH: _tell_detail,
    CheckKind.MODE: _tell_mode,
    CheckKind.CHANGE: _tell_change,
    CheckKind.LIFETIME: _tell_lifetime,
    CheckKind.RESIZE: _tell_resize,
    CheckKind.REPLICAS: _tell_replicas,
    CheckKind.BUDGET: _tell_budget,
    CheckKind.COOL_DOWN: _tell_quick_role,
    CheckKind.ROLE: _tell_quick_role,
    CheckKind.EVICTION: _tell_annotation,
    CheckKind.EARLIER_EVICTIONS: _tell_detail,
}
"""Writers of sentences with figures; they return an empty text where figures do not matter."""


class PlansFrom(StrEnum):
    """Origin of a plan."""

    UPDATER = "updater"
    """The running updater: its last plan, and its memory."""
    CLUSTER = "cluster"
    """Computed on request from the cluster, as by an updater without memory."""


class ShownCheck(Written, frozen=True, kw_only=True):
    """One check of a pod and its result."""

    check: str
    verdict: str
    """`pass`, `fail`, `unknown` or `notAsked`."""
    reason: str | None = None
    until: str | None = None
    """Time at which the check passes if nothing else changes."""
    decisive: bool = False
    """True if the plan gives this check as its reason."""
    text: str


class ShownChange(Written, frozen=True, kw_only=True):
    """Difference between a pod's resources and its recommendation."""

    scale_up: bool
    outside_bounds: bool
    relative_difference: float


class ShownAllocation(Written, frozen=True, kw_only=True):
    """Requests and limits."""

    requests: Mapping[str, str] | None = None
    limits: Mapping[str, str] | None = None


class ShownPodContainer(Written, frozen=True, kw_only=True):
    """A container: its resources, and its recommendation in this pod."""

    name: str
    current: ShownAllocation
    target: Mapping[str, str] | None = None
    lower_bound: Mapping[str, str] | None = None
    upper_bound: Mapping[str, str] | None = None
    notes: Sequence[str] = ()
    """Effects of policies, limit ranges and nodes on its targets."""
    next: ShownAllocation | None = None
    """Resources of the container in the workload's next pod."""
    next_notes: Sequence[str] = ()


class ShownPod(Written, frozen=True, kw_only=True):
    """One pod, its planned action, and all checks."""

    namespace: str
    pod: str
    workload: str | None = None
    autoscaler: str | None = None
    action: str
    """`Evict`, `Resize`, `Unboost` or `Hold`."""
    reason: str | None = None
    way: str | None = None
    """Action that would follow if all checks passed."""
    quick_oom: bool = False
    age: str | None = None
    change: ShownChange | None = None
    checks: Sequence[ShownCheck] = ()
    containers: Sequence[ShownPodContainer] = ()
    next_sized_by: str | None = None
    """The autoscaler that would size the next pod; None if its template's resources stay."""
    next_from_template: bool = False
    """True if the template of its owner is known; otherwise this pod stands in for the next one."""


class PodsPage(Written, frozen=True, kw_only=True):
    """Explanations of the actions on some pods."""

    source: str
    at: str
    """Time of the plan."""
    has_default_settings: bool = False
    """True if the flags of the updater are unknown, so that defaults apply."""
    waiting: int | None = None
    """Number of actions that the pace defers; None if unknown."""
    pods: Sequence[ShownPod] = ()
    left_out: int = 0
    """Number of further pods that the request matched."""
    remarks: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class PlanOrigin:
    """Origin of a plan, and its settings."""

    source: PlansFrom
    at: datetime
    settings: PlanSettings
    has_default_settings: bool = False
    waiting: int | None = None
    left_out: int = 0
    remarks: tuple[str, ...] = ()


_DECODER: Final = msgspec.json.Decoder(PodsPage)


def decode_pods(data: bytes) -> PodsPage:
    """Return the page in the JSON; raises DecodeError."""
    return codec.decode(_DECODER, data)


def show_pods(explained: Iterable[tuple[PodExplanation, NextPod]], origin: PlanOrigin) -> PodsPage:
    """Return the page of some pods, sorted by name."""
    chosen = sorted(explained, key=lambda each: (each[0].pod.namespace, each[0].pod.name))
    return PodsPage(
        source=origin.source.value,
        at=times.format_time(origin.at),
        has_default_settings=origin.has_default_settings,
        waiting=origin.waiting,
        pods=[_pod(explanation, newcomer, origin) for explanation, newcomer in chosen],
        left_out=origin.left_out,
        remarks=origin.remarks,
    )


def show_change(change: Change) -> ShownChange:
    """Return a change in the form of the page."""
    return ShownChange(
        scale_up=change.scale_up,
        outside_bounds=change.outside_bounds,
        relative_difference=round(change.relative_difference, 4),
    )


def show_allocation(allocation: Allocation) -> ShownAllocation:
    """Return requests and limits in the form of the page."""
    return ShownAllocation(
        requests=_amounts(allocation.requests), limits=_amounts(allocation.limits)
    )


def _pod(explanation: PodExplanation, newcomer: NextPod, origin: PlanOrigin) -> ShownPod:
    pod, workload, autoscaler = explanation.pod, explanation.workload, explanation.autoscaler
    age = explanation.age
    sized_by = newcomer.autoscaler
    return ShownPod(
        namespace=pod.namespace,
        pod=pod.name,
        workload=None if workload is None else f"{workload.kind}/{workload.name}",
        autoscaler=None if autoscaler is None else autoscaler.name,
        action=type(explanation.outcome).__name__,
        reason=_reason(explanation.outcome),
        way=None if explanation.way is None else explanation.way.value,
        quick_oom=explanation.quick_oom,
        age=None if age is None else times.format_duration(age),
        change=show_change(explanation.change),
        checks=[_check(each, explanation, origin.settings) for each in explanation.checks],
        containers=_containers(explanation, newcomer),
        next_sized_by=None if sized_by is None else sized_by.name,
        next_from_template=newcomer.is_from_template,
    )


def _reason(outcome: Outcome) -> str | None:
    match outcome:
        case Hold(reason=reason):
            return reason.value
        case Unboost(cause=cause):
            return cause.value
        case _:
            return None


def _check(check: PodCheck, explanation: PodExplanation, settings: PlanSettings) -> ShownCheck:
    return ShownCheck(
        check=check.kind.value,
        verdict=check.verdict.value,
        reason=None if check.reason is None else check.reason.value,
        until=None if check.until is None else times.format_time(check.until),
        decisive=check.is_decisive,
        text=tell_check(check, explanation, settings),
    )


def _containers(explanation: PodExplanation, newcomer: NextPod) -> list[ShownPodContainer]:
    wanted = {one.container_name: one for one in explanation.recommendation}
    return [
        _container(
            each,
            wanted.get(each.name) or ContainerRecommendation(each.name, {}),
            explanation.notes.get(each.name, ()),
            newcomer,
        )
        for each in explanation.pod.containers
    ]


def _container(
    container: Container,
    wanted: ContainerRecommendation,
    notes: Sequence[Note],
    newcomer: NextPod,
) -> ShownPodContainer:
    name = container.name
    given = newcomer.containers.get(name)
    return ShownPodContainer(
        name=name,
        current=show_allocation(container.current),
        target=_amounts(wanted.target),
        lower_bound=_amounts(wanted.lower_bound),
        upper_bound=_amounts(wanted.upper_bound),
        notes=[cap_notes.format_note(note) for note in notes],
        next=None if given is None else show_allocation(given),
        next_notes=list(_next_notes(name, newcomer)),
    )


def _next_notes(name: str, newcomer: NextPod) -> Iterator[str]:
    yield from map(cap_notes.format_note, newcomer.notes.get(name, ()))
    if name in newcomer.misfits:
        yield "unchanged, since the resources of the pod itself leave no room"
    if newcomer.is_boost_invalid:
        yield "unchanged, since its startupBoost names no valid factor or quantity"


def _amounts(amounts: Resources | None) -> Mapping[str, str] | None:
    return quantities.encode_amounts(amounts) if amounts else None
