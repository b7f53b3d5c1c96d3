"""Sizing: the requests of workloads beside their recommendations, in single amounts and in total.

The recommended size of a pod is the one that the admission controller would give it, by the same
function: inside policies, limit ranges and nodes. With too few samples nothing is recommended, and
the report has the reason.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import Final

from trimtab.core.model import autoscalers, limits
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName, UpdateMode
from trimtab.core.model.limit_ranges import LimitRangeItem
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.nodes import Node
from trimtab.core.model.pods import (
    Allocation,
    Container,
    ContainerKind,
    Pod,
    PodPhase,
    WorkloadName,
)
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.report import severity
from trimtab.core.report.severity import SizeSeverity
from trimtab.core.report.virtual_autoscalers import Group
from trimtab.core.sizing import container_resources
from trimtab.core.sizing.node_capacity import NodeRooms

_MINUTE: Final = timedelta(minutes=1)
_CONFIDENT: Final = timedelta(days=1)
_ENDED: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED)


class MissingRecommendation(StrEnum):
    """The reason why nothing is recommended for a container."""

    NO_SAMPLES = "NoSamples"
    TOO_FEW_SAMPLES = "TooFewSamples"
    SWITCHED_OFF = "SwitchedOff"
    """The autoscaler's policy switches the container off."""


@dataclass(frozen=True, slots=True)
class Learned:
    """The size of a container's history."""

    samples: int = 0
    span: timedelta = timedelta(0)
    """From the first sample to the last."""

    @property
    def confidence(self) -> float:
        """The original's confidence, from 0 to 1: a day of samples, one a minute, is enough."""
        return min(1.0, self.span / _CONFIDENT, self.samples * _MINUTE / _CONFIDENT)


@dataclass(frozen=True, slots=True)
class SizeBounds:
    """Other bounds on pods, and the nodes against which shares are measured."""

    limit_ranges: Mapping[str, Sequence[LimitRangeItem]] = field(default_factory=dict)
    """By namespace."""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    """By name."""
    rooms: NodeRooms = field(default_factory=lambda: NodeRooms(()))
    """The room on the same nodes for pods of various kinds."""
    least_samples: int = 1
    """With fewer samples only a published recommendation of an autoscaler counts."""


@dataclass(frozen=True, slots=True)
class ContainerSizing:
    """One container of a workload's pods."""

    name: str
    pods: int
    """The number of pods that have it and have not ended."""
    requested: Resources
    """The requests of all pods for it."""
    current: Allocation
    """Its resources in the pod of median size."""
    recommended: Allocation | None = None
    """None where nothing is recommended; amounts that are not in it stay as they are."""
    learned: Learned = field(default_factory=Learned)
    doubt: MissingRecommendation | None = None
    kind: ContainerKind = ContainerKind.REGULAR
    held: frozenset[Resource] = frozenset()
    """Resources that are left to horizontal autoscalers, and stay as they are."""
    is_published: bool = False
    """True if an autoscaler of the cluster recommends it."""

    def is_thin(self, least: timedelta) -> bool:
        """Return True if a recommendation rests on less history than `least`.

        An autoscaler publishes its first numbers after a minute; its checkpoints show its history.
        """
        return self.recommended is not None and self.learned.span < least

    def severity_of(self, resource: Resource) -> SizeSeverity:
        """Return the severity of its request of one resource."""
        if self.recommended is None:
            return SizeSeverity.UNKNOWN
        wanted = (self.recommended.requests or NO_AMOUNTS).get(resource)
        if wanted is None:
            # The autoscaler does not control this resource.
            return SizeSeverity.GOOD
        return severity.grade(resource, (self.current.requests or NO_AMOUNTS).get(resource), wanted)

    @property
    def severity(self) -> SizeSeverity:
        """The worse of both resources."""
        return severity.worst(map(self.severity_of, BOTH))

    def wanted(self, resource: Resource) -> int:
        """Return the amount that all pods would request for it."""
        given = NO_AMOUNTS if self.recommended is None else self.recommended.requests or NO_AMOUNTS
        return (
            self.pods * given[resource]
            if resource in given
            else limits.amount_of(self.requested, resource)
        )

    def difference(self, resource: Resource) -> int:
        """Return the amount by which the requests of all pods would grow, which may be negative."""
        return self.wanted(resource) - limits.amount_of(self.requested, resource)


@dataclass(frozen=True, slots=True)
class WorkloadSizing:
    """The pods of a workload that have the same autoscaler, or none."""

    workload: WorkloadName
    api_version: str
    autoscaler: AutoscalerName | None
    pods: int
    """The number of pods that have not ended."""
    containers: tuple[ContainerSizing, ...]
    shares: Mapping[Resource, float] = field(default_factory=dict)
    """The part of its node that one pod would take; empty where no node is known."""

    @property
    def severity(self) -> SizeSeverity:
        """The worst of all containers."""
        return severity.worst(each.severity for each in self.containers)

    @property
    def binding(self) -> Resource | None:
        """The resource of which a pod takes the larger part of its node, if it takes any."""
        taken = {kind: share for kind, share in self.shares.items() if share}
        return max(taken, key=lambda kind: taken[kind], default=None)

    def difference(self, resource: Resource) -> int:
        """Return the amount by which the requests of all pods would grow, which may be negative."""
        return sum(each.difference(resource) for each in self.containers)


@dataclass(frozen=True, slots=True)
class ReportTotals:
    """The totals of a report."""

    requested: Resources
    wanted: Resources
    capacity: Resources
    """The allocatable amounts of all nodes together; empty where no node is known."""
    score: int | None
    """From 0 to 100; None if nothing is known."""

    def shares(self, amounts: Resources) -> Mapping[Resource, float]:
        """Return the part of all nodes that the amounts are."""
        return {kind: amounts[kind] / most for kind, most in self.capacity.items() if most}


def size_group(
    group: Group,
    autoscaler: Autoscaler,
    learned: Mapping[str, Learned],
    surroundings: SizeBounds,
) -> WorkloadSizing:
    """Compare the requests of a group's pods with its autoscaler's recommendation."""
    # Without any live pod the ended ones still show what the workload requests.
    live = [pod for pod in group.pods if pod.phase not in _ENDED and not pod.is_deleting]
    published = {each.container_name for each in group.autoscaler.recommendation or ()}
    # One pod stands for all, and not the newest or largest: a rollout or a boost changes few.
    middle = _pod_in_the_middle(live or group.pods)
    known = _only_known(group, autoscaler, learned, surroundings.least_samples)
    bounds = (
        *surroundings.limit_ranges.get(middle.namespace, ()),
        *surroundings.rooms.for_pod(middle),
    )
    # A recommendation in mode Off counts too, so the mode must not hide it here.
    allotments = container_resources.recommended_for_pod(
        middle, replace(known, mode=UpdateMode.RECREATE), bounds
    )
    given = {name: Allocation(each.requests, each.limits) for name, each in allotments.items()}
    containers = tuple(
        ContainerSizing(
            each.name,
            *_count(each.name, live),
            recommended=given.get(each.name),
            current=each.current,
            learned=learned.get(each.name, Learned()),
            doubt=_doubt(autoscaler, each, given, learned),
            kind=each.kind,
            held=frozenset(kind for kind in BOTH if autoscalers.holds(autoscaler, each.name, kind)),
            is_published=each.name in published,
        )
        for each in middle.containers
    )
    return WorkloadSizing(
        group.workload,
        group.api_version,
        None if group.is_shadowed else group.autoscaler.identity,
        len(live),
        containers,
        _shares(middle, given, surroundings.nodes.get(middle.node_name)),
    )


def add_up(workloads: Iterable[WorkloadSizing], nodes: Iterable[Node]) -> ReportTotals:
    """Add up the present and the recommended requests of all workloads."""
    containers = [each for workload in workloads for each in workload.containers]
    requested = {
        kind: sum(limits.amount_of(one.requested, kind) for one in containers) for kind in BOTH
    }
    wanted = {kind: sum(one.wanted(kind) for one in containers) for kind in BOTH}
    sizes = [node.allocatable for node in nodes]
    capacity = {kind: sum(limits.amount_of(one, kind) for one in sizes) for kind in BOTH if sizes}
    mark = severity.score([each.severity for each in containers])
    return ReportTotals(requested, wanted, capacity, mark)


def _only_known(
    group: Group, autoscaler: Autoscaler, learned: Mapping[str, Learned], least: int
) -> Autoscaler:
    """Return the autoscaler without recommendations that rest on too few samples.

    A published recommendation of an autoscaler in the cluster counts: it has seen more than we
    have.
    """
    published = {each.container_name for each in group.autoscaler.recommendation or ()}
    enough = [
        each
        for each in autoscaler.recommendation or ()
        if each.container_name in published or _samples(learned, each.container_name) >= least
    ]
    return replace(autoscaler, recommendation=tuple(enough))


def _samples(learned: Mapping[str, Learned], container: str) -> int:
    return learned.get(container, Learned()).samples


def _doubt(
    autoscaler: Autoscaler,
    container: Container,
    given: Mapping[str, Allocation],
    learned: Mapping[str, Learned],
) -> MissingRecommendation | None:
    """Return the reason why a container gets no recommendation, if it gets none."""
    if container_resources.is_off(autoscaler, container):
        return MissingRecommendation.SWITCHED_OFF
    if container.name in given:
        return None
    return (
        MissingRecommendation.TOO_FEW_SAMPLES
        if _samples(learned, container.name)
        else MissingRecommendation.NO_SAMPLES
    )


def _count(container: str, live: Sequence[Pod]) -> tuple[int, Resources]:
    """Count the pods that have a container, and add up their requests for it."""
    members = [one for pod in live for one in pod.containers if one.name == container]
    return len(members), {
        kind: sum(limits.amount_of(one.current.requests, kind) for one in members) for kind in BOTH
    }


def _pod_in_the_middle(pods: Sequence[Pod]) -> Pod:
    ordered = sorted(pods, key=lambda pod: (*(_request(pod, kind) for kind in BOTH), pod.name))
    return ordered[(len(ordered) - 1) // 2]


def _request(pod: Pod, resource: Resource) -> int:
    return sum(
        limits.amount_of(container.current.requests, resource) for container in pod.containers
    )


def _shares(
    pod: Pod, recommended: Mapping[str, Allocation], node: Node | None
) -> Mapping[Resource, float]:
    """Return the part of its node that the pod takes, with its recommended size."""
    if node is None:
        return {}
    return {
        kind: sum(_would_request(each, recommended, kind) for each in pod.containers) / most
        for kind in BOTH
        if (most := limits.amount_of(node.allocatable, kind))
    }


def _would_request(
    container: Container, recommended: Mapping[str, Allocation], resource: Resource
) -> int:
    given = recommended.get(container.name, Allocation()).requests or NO_AMOUNTS
    return given.get(resource, limits.amount_of(container.current.requests, resource))
