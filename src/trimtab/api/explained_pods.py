"""Why something is done about pods, or nothing, as JSON: written by who plans, read by who asks.

The keys are an interface.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from trimtab.api import decoding
from trimtab.api.amounts import encode_amounts
from trimtab.api.check_words import tell_check
from trimtab.api.encoding import Written
from trimtab.api.times import format_duration, format_time
from trimtab.core.assessment import PlanSettings
from trimtab.core.autoscalers import ContainerRecommendation
from trimtab.core.checks import Check
from trimtab.core.hearing import PodExplanation
from trimtab.core.newcomers import Newcomer
from trimtab.core.notes import Note, format_note
from trimtab.core.outcomes import Hold, Outcome, Unboost
from trimtab.core.pods import Allocation, Container
from trimtab.core.records import dataclass
from trimtab.core.resources import Resources
from trimtab.core.urgency import Change


class PlansFrom(StrEnum):
    """Who made the plan."""

    UPDATER = "updater"
    """The one that runs: its last plan, and what it remembers."""
    CLUSTER = "cluster"
    """Whoever asks, from what the cluster shows: as an updater would that remembers nothing."""


class ShownCheck(Written, frozen=True, kw_only=True):
    """One question about a pod and its answer."""

    check: str
    verdict: str
    """`pass`, `fail`, `unknown` or `notAsked`."""
    reason: str | None = None
    until: str | None = None
    """When it passes if nothing changes but the time."""
    decisive: bool = False
    """Whether it is the reason that the plan gives."""
    text: str


class ShownChange(Written, frozen=True, kw_only=True):
    """How much a pod is off what is recommended for it."""

    scale_up: bool
    outside_bounds: bool
    relative_difference: float


class ShownAllocation(Written, frozen=True, kw_only=True):
    """Requests and limits."""

    requests: Mapping[str, str] | None = None
    limits: Mapping[str, str] | None = None


class ShownPodContainer(Written, frozen=True, kw_only=True):
    """A container: what it has, and what is recommended for it in this very pod."""

    name: str
    current: ShownAllocation
    target: Mapping[str, str] | None = None
    lower_bound: Mapping[str, str] | None = None
    upper_bound: Mapping[str, str] | None = None
    notes: Sequence[str] = ()
    """What policies, limit ranges and nodes did to its targets."""
    next: ShownAllocation | None = None
    """What the next pod of the workload would be given."""
    next_notes: Sequence[str] = ()


class ShownPod(Written, frozen=True, kw_only=True):
    """One pod, what is planned for it, and all that was asked about it."""

    namespace: str
    pod: str
    workload: str | None = None
    autoscaler: str | None = None
    action: str
    """`Evict`, `Resize`, `Unboost` or `Hold`."""
    reason: str | None = None
    way: str | None = None
    """How it would be changed if all checks passed."""
    quick_oom: bool = False
    age: str | None = None
    change: ShownChange | None = None
    checks: Sequence[ShownCheck] = ()
    containers: Sequence[ShownPodContainer] = ()
    next_sized_by: str | None = None
    """The autoscaler that would size the next pod; none if it keeps what its template says."""
    next_from_template: bool = False
    """True if the template of its owner is known; else the pod stands in for the next one."""


class PodsPage(Written, frozen=True, kw_only=True):
    """Why something is done about some pods, or nothing."""

    source: str
    at: str
    """When it was planned."""
    has_default_settings: bool = False
    """Whether the flags of the updater are not known."""
    waiting: int | None = None
    """Acts that the pace does not allow yet; none where nobody knows."""
    pods: Sequence[ShownPod] = ()
    left_out: int = 0
    """How many pods more there are that were asked for."""
    remarks: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class PlanOrigin:
    """Where a plan comes from."""

    source: PlansFrom
    at: datetime
    settings: PlanSettings
    has_default_settings: bool = False
    waiting: int | None = None
    left_out: int = 0
    remarks: tuple[str, ...] = ()


_DECODER: Final = msgspec.json.Decoder(PodsPage)


def decode_pods(data: bytes) -> PodsPage:
    """The page that somebody wrote; a DecodeError if it is none."""
    return decoding.decode(_DECODER, data)


def show_pods(explained: Iterable[tuple[PodExplanation, Newcomer]], origin: PlanOrigin) -> PodsPage:
    """The page of some pods, by their names."""
    chosen = sorted(explained, key=lambda each: (each[0].pod.namespace, each[0].pod.name))
    return PodsPage(
        source=origin.source.value,
        at=format_time(origin.at),
        has_default_settings=origin.has_default_settings,
        waiting=origin.waiting,
        pods=[_pod(explanation, newcomer, origin) for explanation, newcomer in chosen],
        left_out=origin.left_out,
        remarks=origin.remarks,
    )


def show_change(change: Change) -> ShownChange:
    """How much a pod is off, as it is told."""
    return ShownChange(
        scale_up=change.scale_up,
        outside_bounds=change.outside_bounds,
        relative_difference=round(change.relative_difference, 4),
    )


def show_allocation(allocation: Allocation) -> ShownAllocation:
    """Requests and limits, as they are told."""
    return ShownAllocation(
        requests=_amounts(allocation.requests), limits=_amounts(allocation.limits)
    )


def _pod(explanation: PodExplanation, newcomer: Newcomer, origin: PlanOrigin) -> ShownPod:
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
        age=None if age is None else format_duration(age),
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


def _check(check: Check, explanation: PodExplanation, settings: PlanSettings) -> ShownCheck:
    return ShownCheck(
        check=check.kind.value,
        verdict=check.verdict.value,
        reason=None if check.reason is None else check.reason.value,
        until=None if check.until is None else format_time(check.until),
        decisive=check.is_decisive,
        text=tell_check(check, explanation, settings),
    )


def _containers(explanation: PodExplanation, newcomer: Newcomer) -> list[ShownPodContainer]:
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
    newcomer: Newcomer,
) -> ShownPodContainer:
    name = container.name
    given = newcomer.containers.get(name)
    return ShownPodContainer(
        name=name,
        current=show_allocation(container.current),
        target=_amounts(wanted.target),
        lower_bound=_amounts(wanted.lower_bound),
        upper_bound=_amounts(wanted.upper_bound),
        notes=[format_note(note) for note in notes],
        next=None if given is None else show_allocation(given),
        next_notes=list(_next_notes(name, newcomer)),
    )


def _next_notes(name: str, newcomer: Newcomer) -> Iterator[str]:
    yield from map(format_note, newcomer.notes.get(name, ()))
    if name in newcomer.misfits:
        yield "unchanged, since the resources of the pod itself leave no room"
    if newcomer.is_boost_invalid:
        yield "unchanged, since nobody says by how much it is to be boosted"


def _amounts(amounts: Resources | None) -> Mapping[str, str] | None:
    return encode_amounts(amounts) if amounts else None
