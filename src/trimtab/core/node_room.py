"""Room on nodes: no pod is to become larger than the largest node that could take it (F21).

Nodes bound requests alone, and all of a pod's containers together. Only nodes count that the pod
may go to (`placement.py`); one that may go to none of those there are is not bound by them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from trimtab.core.autoscalers import ContainerRecommendation
from trimtab.core.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.limits import NO_AMOUNTS, amount_of, scale
from trimtab.core.nodes import Node
from trimtab.core.notes import Note, NoteKind
from trimtab.core.placement import Placement, may_go_to
from trimtab.core.pods import Pod
from trimtab.core.records import dataclass
from trimtab.core.resources import BOTH, Resource, Resources

_MOST_PLACEMENTS: Final = 10_000
"""For so many different demands the answer is remembered."""


class NodeRooms:
    """The room on the nodes of a cluster, for pods that may go to some of them."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = tuple(nodes)
        self._by_name = {node.name: node for node in self.nodes}
        self._found: dict[Placement | None, tuple[LimitRangeItem, ...]] = {}

    def for_pod(self, pod: Pod) -> tuple[LimitRangeItem, ...]:
        """The room on the largest nodes that the pod may go to, as bounds."""
        placement = pod.placement
        found = self._found.get(placement)
        if found is None:
            nodes = self._named(placement)
            found = largest_nodes(node for node in nodes if may_go_to(placement, node))
            if len(self._found) < _MOST_PLACEMENTS:
                self._found[placement] = found
        return found

    def _named(self, placement: Placement | None) -> Iterable[Node]:
        """The nodes of which one has to be looked at."""
        names = None if placement is None else placement.node_names
        if names is None:
            return self.nodes
        # A DaemonSet has a pod for each node, and not each pod has to look at all of them.
        return [self._by_name[name] for name in sorted(names) if name in self._by_name]


def largest_nodes(nodes: Iterable[Node]) -> tuple[LimitRangeItem, ...]:
    """The room on the largest nodes, as bounds: none of them gives less of all than another."""
    shapes = {
        (amount_of(node.allocatable, Resource.CPU), amount_of(node.allocatable, Resource.MEMORY))
        for node in nodes
    }
    largest: list[tuple[int, int]] = []
    # From the most CPU down, each that counts gives more memory than all before it.
    for cpu, memory in sorted(shapes, reverse=True):
        if cpu and memory > (largest[-1][1] if largest else 0):
            largest.append((cpu, memory))
    return tuple(
        LimitRangeItem(LimitRangeType.NODE, max={Resource.CPU: cpu, Resource.MEMORY: memory})
        for cpu, memory in largest
    )


def cpu_room(limit_ranges: Iterable[LimitRangeItem], memory_bytes: int) -> int | None:
    """The most CPU that some node has to give beside so much memory; None if nothing is known."""
    rooms = [item.max or NO_AMOUNTS for item in limit_ranges if item.type is LimitRangeType.NODE]
    able = [each for each in rooms if amount_of(each, Resource.MEMORY) >= memory_bytes]
    return max((amount_of(each, Resource.CPU) for each in able or rooms), default=None)


def fit_node(
    recommendations: Sequence[ContainerRecommendation],
    pod: Pod,
    limit_ranges: Iterable[LimitRangeItem],
) -> tuple[Sequence[ContainerRecommendation], Mapping[str, tuple[Note, ...]]]:
    """The recommendations, scaled to fit the node on which the least is lost; notes by container.

    A container without a recommendation keeps what it requests now, and that is not scaled.
    """
    rooms = [item.max or NO_AMOUNTS for item in limit_ranges if item.type is LimitRangeType.NODE]
    if not rooms or not recommendations:
        return recommendations, {}
    demand = _demand(recommendations, pod)
    possible = [found for room in rooms if (found := _factors(demand, room)) is not None]
    factors = max(possible, key=_generosity, default=None)
    if not factors:
        return recommendations, {}
    notes = {
        entry.container_name: tuple(
            Note(kind, NoteKind.NODE_SIZE) for kind in factors if kind in entry.target
        )
        for entry in recommendations
    }
    scaled = [_scale(entry, factors) for entry in recommendations]
    return scaled, {name: found for name, found in notes.items() if found}


@dataclass(frozen=True, slots=True)
class _Demand:
    """What a pod asks for of one resource."""

    scaled: int
    """For containers with a recommendation."""
    fixed: int
    """For the others."""


@dataclass(frozen=True, slots=True)
class _Factor:
    numerator: int
    denominator: int


def _demand(
    recommendations: Iterable[ContainerRecommendation], pod: Pod
) -> Mapping[Resource, _Demand]:
    targets = {entry.container_name: entry.target for entry in recommendations}
    return {kind: _demand_of(kind, targets, pod) for kind in BOTH}


def _demand_of(kind: Resource, targets: Mapping[str, Resources], pod: Pod) -> _Demand:
    scaled = fixed = 0
    for container in pod.containers:
        target = targets.get(container.name, NO_AMOUNTS)
        if kind in target:
            scaled += target[kind]
        else:
            fixed += amount_of(container.current.requests, kind)
    return _Demand(scaled, fixed)


def _factors(
    demand: Mapping[Resource, _Demand], room: Resources
) -> Mapping[Resource, _Factor] | None:
    """By resource how targets must shrink, not at all where they fit; None if nothing helps."""
    found = {}
    for kind, asked in demand.items():
        left = room.get(kind, asked.scaled + asked.fixed) - asked.fixed
        if left <= 0 < asked.scaled:
            return None
        if 0 < left < asked.scaled:
            found[kind] = _Factor(left, asked.scaled)
    return found


def _generosity(factors: Mapping[Resource, _Factor]) -> tuple[float, float]:
    shares = [factor.numerator / factor.denominator for factor in factors.values()]
    return min(shares, default=1.0), sum(shares) + len(BOTH) - len(shares)


def _scale(
    entry: ContainerRecommendation, factors: Mapping[Resource, _Factor]
) -> ContainerRecommendation:
    target = {
        kind: scale(
            amount, numerator=factors[kind].numerator, denominator=factors[kind].denominator
        )
        if kind in factors
        else amount
        for kind, amount in entry.target.items()
    }
    lower = entry.lower_bound
    return replace(
        entry,
        target=target,
        # A pod that has its target must not lie outside its bounds.
        lower_bound=lower
        and {kind: min(amount, target.get(kind, amount)) for kind, amount in lower.items()},
    )
