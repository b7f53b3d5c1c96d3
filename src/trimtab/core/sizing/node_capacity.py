"""Room on nodes: no pod is to become larger than the largest node that could take it (F21).

Nodes bound requests alone, and all of a pod's containers together. Only nodes count that the pod
may go to (`nodes.may_go_to`); a pod that may go to none of them is not bound by them. A node has
room for what it can allocate, but for the pods of DaemonSets that run there. The room of
DaemonSets whose pods may not run there is bounded (`daemon_sets.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

from trimtab.core.model import limits
from trimtab.core.model.autoscalers import ContainerRecommendation
from trimtab.core.model.cap_notes import Note, NoteKind
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.nodes import Node, Placement, may_go_to
from trimtab.core.model.pods import Pod, WorkloadName
from trimtab.core.model.resources import BOTH, Resource, Resources

_MOST_PLACEMENTS: Final = 10_000
"""Maximum number of different placements whose answers are remembered."""
_MOST_CHARACTERS: Final = 1024
"""Maximum length of a placement whose answer is remembered."""


DAEMON_SET: Final = "DaemonSet"


@dataclass(frozen=True, slots=True)
class DaemonSize:
    """Requests that a pod of a DaemonSet may have, and how far they are believed."""

    requests: Resources = field(default_factory=dict)
    share: float = 1.0
    """Part of a node that doubtful DaemonSets may take with it; 1 if there is no doubt."""


@dataclass(frozen=True, slots=True)
class Daemon:
    """A pod that a DaemonSet has on each node that its template may go to."""

    owner: WorkloadName
    requests: Resources = field(default_factory=dict)
    placement: Placement | None = None
    share: float = 1.0
    """Part of a node that doubtful DaemonSets may take with it; 1 if there is no doubt."""
    lesser: DaemonSize | None = None
    """Size that counts on nodes where the requests do not."""

    @property
    def is_certain(self) -> bool:
        """True if a pod with these requests runs on each node that it may go to."""
        return self.share >= 1


def _as_believed(daemon: Daemon, before: Daemon | None) -> Daemon:
    """Return the daemon, with each size believed at least as far as it was before."""
    if before is None or before == daemon or before.placement != daemon.placement:
        return daemon
    now, then = daemon.lesser, before.lesser
    if now is not None and then is not None and now.requests == then.requests:
        now = replace(now, share=max(now.share, then.share))
    # With an autoscaler it is not known how many pods have the larger size.
    if before.requests != daemon.requests or (now is None) != (then is None):
        return replace(daemon, lesser=now)
    return replace(daemon, share=max(daemon.share, before.share), lesser=now)


class NodeRooms:
    """The room on the nodes of a cluster, for pods that may go to some of them."""

    def __init__(
        self,
        nodes: Iterable[Node],
        daemons: Iterable[Daemon] = (),
        visited: "Mapping[str, _Visits] | None" = None,
    ) -> None:
        """Take the nodes, the daemons that run on them, and what earlier rooms knew of those."""
        self.nodes = tuple(nodes)
        self.daemons = tuple(daemons)
        self._by_name = {node.name: node for node in self.nodes}
        self._groups = _group(self.daemons)
        self._visited = _visit(self.nodes, self._groups, visited or {})
        self._found: dict[_Question, _Frontier] = {}

    def renew(self, nodes: tuple[Node, ...], daemons: tuple[Daemon, ...]) -> "NodeRooms":
        """Return the rooms of these nodes: the very same object while nothing changed.

        A daemon is believed as far as it ever was: a pod that is not ready takes as much of its
        node as before.
        """
        known = {each.owner: each for each in self.daemons}
        daemons = tuple(_as_believed(each, known.get(each.owner)) for each in daemons)
        # Mostly these are the very same records, of which only the addresses are compared.
        if self.nodes == nodes and self.daemons == daemons:
            return self
        return NodeRooms(nodes, daemons, self._visited)

    def for_pod(self, pod: Pod) -> tuple[LimitRangeItem, ...]:
        """The room on the largest nodes that the pod may go to, as bounds."""
        return self._find((pod.placement, own_daemon(pod), "")).rooms

    def takes_elsewhere(self, pod: Pod, requests: Resources) -> bool:
        """Return True if a node other than the pod's own is large enough for a pod like it.

        How full such a node is plays no part. Where no node is known, nothing speaks against it.
        """
        placement = pod.placement
        names = None if placement is None else placement.node_names
        if names is not None and names <= {pod.node_name}:
            return False
        if not self.nodes:
            return True
        own, node_name = own_daemon(pod), pod.node_name
        found = self._find((placement, own, ""))
        if node_name in found.sole:
            found = self._find((placement, own, node_name))
        return any(
            all(requests.get(kind, 0) <= limits.amount_of(room.max, kind) for kind in BOTH)
            for room in found.rooms
        )

    def _find(self, question: "_Question") -> "_Frontier":
        found = self._found.get(question)
        if found is None:
            placement, own, leaving_out = question
            found = _frontier(
                (self._room(node, own), node.name)
                for node in self._named(placement)
                if node.name != leaving_out and may_go_to(placement, node)
            )
            if len(self._found) < _MOST_PLACEMENTS and _is_short(placement):
                self._found[question] = found
        return found

    def _room(self, node: Node, own: WorkloadName | None) -> tuple[int, int]:
        """Return the node's room for a pod, beside the daemons of other owners."""
        cpu, memory = given = (
            limits.amount_of(node.allocatable, Resource.CPU),
            limits.amount_of(node.allocatable, Resource.MEMORY),
        )
        doubtful: list[Daemon] = []
        for goes_there, group in zip(self._visited[node.name][1], self._groups, strict=True):
            if goes_there:
                taken = group.without(own)
                cpu -= taken[Resource.CPU]
                memory -= taken[Resource.MEMORY]
                doubtful += group.doubtful
        # Where daemons would take all there is, they cannot all run there.
        left = (cpu, memory) if cpu > 0 and memory > 0 else given
        return _beside_doubtful(left, doubtful, own) if doubtful else left

    def _named(self, placement: Placement | None) -> Iterable[Node]:
        """Return the nodes to look at: those that the placement names, or all."""
        names = None if placement is None else placement.node_names
        if names is None:
            return self.nodes
        # A DaemonSet has a pod for each node, and not each pod has to look at all of them.
        return [self._by_name[name] for name in sorted(names) if name in self._by_name]


_Question: TypeAlias = tuple[Placement | None, WorkloadName | None, str]
"""Placement that a pod demands, the DaemonSet that owns it, and the node that is left out."""


@dataclass(frozen=True, slots=True)
class _Frontier:
    """The room on the largest nodes."""

    rooms: tuple[LimitRangeItem, ...]
    sole: frozenset[str]
    """The names of nodes that are alone in having one of these rooms."""


def _is_short(placement: Placement | None) -> bool:
    """Return True if the placement is short enough to keep: tenants choose its length."""
    return placement is None or placement.count_characters() <= _MOST_CHARACTERS


def own_daemon(pod: Pod) -> WorkloadName | None:
    """Return the DaemonSet that owns the pod, if any: a pod needs no room beside itself."""
    owner = pod.owner
    if owner is None or owner.kind != DAEMON_SET:
        return None
    return WorkloadName(pod.namespace, owner.kind, owner.name)


@dataclass(frozen=True, slots=True)
class _Group:
    """Daemons that go to the same nodes, because their templates demand the same."""

    placement: Placement | None
    total: Resources
    """Requests of all daemons of which there is no doubt."""
    requests: Mapping[WorkloadName, Resources]
    """The same by owner."""
    doubtful: tuple[Daemon, ...]

    def without(self, own: WorkloadName | None) -> Resources:
        """Sum the requests of all daemons without a doubt, but for one."""
        if own is None or own not in self.requests:
            return self.total
        return {kind: self.total[kind] - self.requests[own].get(kind, 0) for kind in BOTH}


def _group(daemons: Iterable[Daemon]) -> tuple[_Group, ...]:
    by_placement: dict[Placement | None, list[Daemon]] = {}
    for daemon in daemons:
        by_placement.setdefault(daemon.placement, []).append(daemon)
    return tuple(_group_of(placement, members) for placement, members in by_placement.items())


def _group_of(placement: Placement | None, members: Iterable[Daemon]) -> _Group:
    members = tuple(members)
    certain = {each.owner: each.requests for each in members if each.is_certain}
    return _Group(
        placement,
        {kind: sum(each.get(kind, 0) for each in certain.values()) for kind in BOTH},
        certain,
        tuple(each for each in members if not each.is_certain),
    )


def _beside_doubtful(
    left: tuple[int, int], doubtful: Iterable[Daemon], own: WorkloadName | None
) -> tuple[int, int]:
    """Return what is left of a node beside daemons that may not run there.

    The smallest come first. One that would take more of the node than it is believed to does not
    count: its pod finds no room there itself.
    """
    cpu = memory = 0
    for daemon in sorted(doubtful, key=_size):
        if daemon.owner == own:
            continue
        sizes = [DaemonSize(daemon.requests, daemon.share)]
        if daemon.lesser is not None:
            sizes.append(daemon.lesser)
        for requests, share in ((each.requests, each.share) for each in sizes):
            more_cpu = cpu + limits.amount_of(requests, Resource.CPU)
            more_memory = memory + limits.amount_of(requests, Resource.MEMORY)
            if more_cpu <= share * left[0] and more_memory <= share * left[1]:
                cpu, memory = more_cpu, more_memory
                break
    rest = left[0] - cpu, left[1] - memory
    return rest if all(amount > 0 for amount in rest) else left


def _size(daemon: Daemon) -> tuple[int, int, WorkloadName]:
    cpu, memory = (limits.amount_of(daemon.requests, kind) for kind in BOTH)
    return cpu, memory, daemon.owner


_Visits: TypeAlias = tuple[Node, tuple[bool, ...], tuple[Placement | None, ...]]
"""A node, whether the daemons of each group go there, and what these demand."""


def _visit(
    nodes: Iterable[Node], groups: Iterable[_Group], before: Mapping[str, _Visits]
) -> dict[str, _Visits]:
    placements = tuple(group.placement for group in groups)
    return {
        node.name: known
        if (known := before.get(node.name)) is not None
        and known[0] is node
        and known[2] == placements
        else (node, tuple(may_go_to(each, node) for each in placements), placements)
        for node in nodes
    }


def largest_nodes(nodes: Iterable[Node]) -> tuple[LimitRangeItem, ...]:
    """The room on the largest nodes, as bounds: none of them gives less of all than another."""
    cpu, memory = BOTH
    given = (node.allocatable for node in nodes)
    return _frontier(
        ((limits.amount_of(each, cpu), limits.amount_of(each, memory)), "") for each in given
    ).rooms


def _frontier(rooms: Iterable[tuple[tuple[int, int], str]]) -> _Frontier:
    """The largest of some rooms, each with the name of its node."""
    names: dict[tuple[int, int], str] = {}
    for room, name in rooms:
        names[room] = name if room not in names else ""
    largest: list[tuple[int, int]] = []
    # From the most CPU down, each that counts gives more memory than all before it.
    for cpu, memory in sorted(names, reverse=True):
        if cpu and memory > (largest[-1][1] if largest else 0):
            largest.append((cpu, memory))
    return _Frontier(
        tuple(
            LimitRangeItem(LimitRangeType.NODE, max={Resource.CPU: cpu, Resource.MEMORY: memory})
            for cpu, memory in largest
        ),
        frozenset(names[room] for room in largest) - {""},
    )


def cpu_room(limit_ranges: Iterable[LimitRangeItem], memory_bytes: int) -> int | None:
    """Return the most CPU of a node with so much memory, or else of any; None if none is known."""
    rooms = [item.max or NO_AMOUNTS for item in limit_ranges if item.type is LimitRangeType.NODE]
    able = [each for each in rooms if limits.amount_of(each, Resource.MEMORY) >= memory_bytes]
    return max((limits.amount_of(each, Resource.CPU) for each in able or rooms), default=None)


def fit_node(
    recommendations: Sequence[ContainerRecommendation],
    pod: Pod,
    limit_ranges: Iterable[LimitRangeItem],
) -> tuple[Sequence[ContainerRecommendation], Mapping[str, tuple[Note, ...]]]:
    """The recommendations, scaled to fit the node on which the least is lost; notes by container.

    A container without a recommendation keeps what it requests now, and that is not scaled. On a
    pod that is on a node no container is cut below what it has there.
    """
    rooms = [item.max or NO_AMOUNTS for item in limit_ranges if item.type is LimitRangeType.NODE]
    if not rooms or not recommendations:
        return recommendations, {}
    targets = {entry.container_name: entry.target for entry in recommendations}
    asked = {kind: _asked_for(kind, targets, pod) for kind in BOTH}
    if any(_has_room(room, asked) for room in rooms):
        # Most pods are far smaller than a node.
        return recommendations, {}
    demand = {kind: _demand_of(kind, targets, pod) for kind in BOTH}
    possible = [found for room in rooms if (found := _cuts(demand, room)) is not None]
    cuts = max(possible, key=lambda found: _generosity(found, demand), default=None)
    if not cuts:
        return recommendations, {}
    notes = {
        entry.container_name: tuple(
            Note(kind, NoteKind.NODE_SIZE)
            for kind, cut in cuts.items()
            if entry.container_name in cut
        )
        for entry in recommendations
    }
    fitted = [_with_cuts(entry, cuts) for entry in recommendations]
    return fitted, {name: found for name, found in notes.items() if found}


class _Stake(NamedTuple):
    """The amount that is recommended for a container, and the amount that no cut takes from it."""

    target: int
    kept: int


@dataclass(frozen=True, slots=True)
class _Demand:
    """Amounts of one resource that a pod asks for."""

    stakes: Mapping[str, _Stake]
    """For containers with a recommendation, by name."""
    fixed: int
    """For the others."""

    @property
    def scaled(self) -> int:
        """For all containers with a recommendation."""
        return sum(stake.target for stake in self.stakes.values())


_Cuts: TypeAlias = Mapping[Resource, Mapping[str, int]]
"""By resource and container the amount that is left of a target, where it is not the whole."""


def _asked_for(kind: Resource, targets: Mapping[str, Resources], pod: Pod) -> int:
    """The amount that the pod asks for if nothing is cut."""
    asked = limits.amount_of(pod.overhead, kind)
    for container in pod.containers:
        target = targets.get(container.name, NO_AMOUNTS)
        asked += (
            target[kind] if kind in target else limits.amount_of(container.current.requests, kind)
        )
    return asked


def _demand_of(kind: Resource, targets: Mapping[str, Resources], pod: Pod) -> _Demand:
    stakes, fixed = {}, 0
    for container in pod.containers:
        target = targets.get(container.name, NO_AMOUNTS)
        has = limits.amount_of(container.current.requests, kind)
        if kind in target:
            # The node of a pod has given it what it has, whatever can be seen of nodes now.
            kept = min(has, target[kind]) if pod.node_name else 0
            stakes[container.name] = _Stake(target[kind], kept)
        else:
            fixed += has
    return _Demand(stakes, fixed + limits.amount_of(pod.overhead, kind))


def _has_room(room: Resources, asked: Resources) -> bool:
    return all(amount <= room.get(kind, amount) for kind, amount in asked.items())


def _cuts(demand: Mapping[Resource, _Demand], room: Resources) -> _Cuts | None:
    """The cuts with which targets fit, none where they fit as they are; None if nothing helps."""
    found = {}
    for kind, asked in demand.items():
        scaled = asked.scaled
        left = room.get(kind, scaled + asked.fixed) - asked.fixed
        if left <= 0 < scaled:
            return None
        if left < scaled and (cut := _share_out(asked.stakes, left)):
            found[kind] = cut
    return found


def _share_out(stakes: Mapping[str, _Stake], left: int) -> Mapping[str, int]:
    """Return what is left of the targets that are cut, in proportion to them.

    A container whose share is less than it keeps has that, and the others share the rest.
    """
    given: dict[str, int] = {}
    sharing = dict(stakes)
    while sharing:
        rest = max(left - sum(given.values()), 0)
        whole = sum(stake.target for stake in sharing.values())
        shares = {
            name: limits.scale(stake.target, numerator=rest, denominator=whole)
            for name, stake in sharing.items()
        }
        short = [name for name, share in shares.items() if share < stakes[name].kept]
        if not short:
            given.update(shares)
            break
        given.update((name, sharing.pop(name).kept) for name in short)
    return {name: amount for name, amount in given.items() if amount < stakes[name].target}


def _generosity(cuts: _Cuts, demand: Mapping[Resource, _Demand]) -> tuple[float, float]:
    shares = [_share_left(demand[kind], cut) for kind, cut in cuts.items()]
    return min(shares, default=1.0), sum(shares) + len(BOTH) - len(shares)


def _share_left(demand: _Demand, cut: Mapping[str, int]) -> float:
    lost = sum(demand.stakes[name].target - amount for name, amount in cut.items())
    return 1 - lost / demand.scaled


def _with_cuts(entry: ContainerRecommendation, cuts: _Cuts) -> ContainerRecommendation:
    name = entry.container_name
    own = {kind: cut[name] for kind, cut in cuts.items() if name in cut}
    if not own:
        return entry
    target, lower = {**entry.target, **own}, entry.lower_bound
    return replace(
        entry,
        target=target,
        # A pod that has its target must not lie outside its bounds.
        lower_bound=lower
        and {kind: min(amount, target.get(kind, amount)) for kind, amount in lower.items()},
    )
