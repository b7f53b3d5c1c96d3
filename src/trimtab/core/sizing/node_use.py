"""Use of nodes: what a pod's own node has left for it beside all other pods.

A resize that needs more is put off by the kubelet, and while it waits the scheduler keeps the room
for it: the node is closed to other pods. So such a resize is not asked for. A pod is moved only if
a node has room for its successor now, a slot for one more pod included. If other pods, volumes,
ports or devices decide which nodes take the pod, only its own node is sure to take its successor.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from trimtab.core.model import pods
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.nodes import Node, Placement, takes_now
from trimtab.core.model.pods import Allocation, Pod, TargetResources
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.sizing.node_capacity import own_daemon
from trimtab.core.sizing.pod_totals import given_to, requested_after, reserved_for


class Shortage(NamedTuple):
    """Amount that the whole pod would take of its node, and the amount left for it."""

    needed: int
    left: int


class FreeNode(NamedTuple):
    """A node, and what its pods leave of it."""

    node: Node
    free: Resources
    slots: int | None = None
    """The number of pods that it can still take; None if it does not say."""


class Promised(NamedTuple):
    """Room on nodes that other acts of a plan take."""

    amounts: Mapping[str, Resources]
    """By node the amounts that resizes and successors take."""
    arrivals: Mapping[str, int]
    """By node the number of successors of pods that other nodes have now."""


NO_PROMISES: Final = Promised({}, {})


class FreeNodes:
    """All nodes with what is left of them, those with the most CPU first."""

    def __init__(self, nodes: Iterable[FreeNode]) -> None:
        self._ranked = sorted(nodes, key=_free_cpu, reverse=True)
        self._by_name = {each.node.name: each for each in self._ranked}

    def __bool__(self) -> bool:
        return bool(self._ranked)

    def find_place(self, pod: Pod, requests: Resources, promised: Promised) -> str | None:
        """Return the name of a node with room for the successor of a pod; None if there is none.

        What the pod takes of its own node is free for the successor; what is promised is not.
        """
        own = self._by_name.get(pod.node_name)
        if own is not None and _has_room(own, pod, requests, promised):
            return own.node.name
        if pod.has_unseen_demands or own_daemon(pod) is not None:
            return None
        needed = requests.get(Resource.CPU, 0)
        for each in self._named(pod.placement):
            if _free_cpu(each) < needed:
                # All that follow have less.
                return None
            if each is not own and _has_room(each, pod, requests, promised):
                return each.node.name
        return None

    def _named(self, placement: Placement | None) -> Sequence[FreeNode]:
        """Return the nodes to look at, those with the most CPU first."""
        names = None if placement is None else placement.node_names
        if names is None:
            return self._ranked
        found = [self._by_name[name] for name in sorted(names) if name in self._by_name]
        return sorted(found, key=_free_cpu, reverse=True)


def _free_cpu(each: FreeNode) -> int:
    return each.free.get(Resource.CPU, 0)


def _has_room(each: FreeNode, pod: Pod, requests: Resources, promised: Promised) -> bool:
    name = each.node.name
    is_own = name == pod.node_name
    returned = reserved_for(pod) if is_own else NO_AMOUNTS
    taken = promised.amounts.get(name, NO_AMOUNTS)
    slots = None if each.slots is None else each.slots - promised.arrivals.get(name, 0) + is_own
    return (
        (slots is None or slots > 0)
        and all(
            amount - taken.get(kind, 0) + returned.get(kind, 0) >= requests.get(kind, 0)
            for kind, amount in each.free.items()
        )
        and takes_now(pod.placement, each.node, is_daemon=own_daemon(pod) is not None)
    )


def is_bound(pod: Pod) -> bool:
    """Return True if a new node would not help the pod: its spec names the nodes it may go to."""
    if own_daemon(pod) is not None:
        return True
    return pod.placement is not None and pod.placement.names_nodes


@dataclass(frozen=True, slots=True)
class NodeUse:
    """Allocatable amounts of nodes, and the amounts that all pods on them take."""

    allocatable: Mapping[str, Resources] = field(default_factory=dict)
    """By the name of the node."""
    reserved: Mapping[str, Resources] = field(default_factory=dict)
    """By the name of the node what all its pods take together that have not ended."""
    nodes: Sequence[Node] = ()
    """All nodes, where it is known which pods they take."""
    pod_counts: Mapping[str, int] = field(default_factory=dict)
    """By the name of the node how many pods it has that have not ended."""

    def free_nodes(self) -> FreeNodes:
        """Return what the pods of all nodes leave of them."""
        return FreeNodes(
            FreeNode(
                each,
                {
                    kind: amount - self.reserved.get(each.name, NO_AMOUNTS).get(kind, 0)
                    for kind, amount in each.allocatable.items()
                },
                None
                if each.pod_slots is None
                else each.pod_slots - self.pod_counts.get(each.name, 0),
            )
            for each in self.nodes
        )

    def shortages(
        self,
        pod: Pod,
        wanted: TargetResources,
        claimed: Resources = NO_AMOUNTS,
        *,
        of_pending: bool = False,
    ) -> Mapping[Resource, Shortage]:
        """Return the resources of which a resize needs more than the pod's node has left for it.

        The node has left what other pods neither take nor have `claimed`. What does not grow always
        fits, however full the node is, and so does everything on a node that is not known. With
        `of_pending`, growth that the kubelet has put off is growth as well.
        """
        given = self.allocatable.get(pod.node_name)
        if not given:
            return {}
        now, then = reserved_for(pod), requested_after(pod, wanted)
        there = given_to(pod) if of_pending else now
        taken = self.reserved.get(pod.node_name, NO_AMOUNTS)
        found = {}
        for kind, amount in given.items():
            others = max(taken.get(kind, 0) - now[kind], 0) + claimed.get(kind, 0)
            if then[kind] > there[kind] and then[kind] > amount - others:
                found[kind] = Shortage(then[kind], amount - others)
        return found


NOTHING_KNOWN: Final = NodeUse()


def growth(pod: Pod, wanted: TargetResources) -> Resources:
    """Return what a resize takes of the pod's node beyond what the pod takes now."""
    now, then = reserved_for(pod), requested_after(pod, wanted)
    return {kind: then[kind] - now[kind] for kind in BOTH if then[kind] > now[kind]}


def without_growth_of(
    pod: Pod, wanted: TargetResources, kinds: Container[Resource]
) -> TargetResources:
    """Return what is wanted, but for containers that would take more of some resources.

    Of these resources such a container keeps its request and its limit.
    """
    own = {each.name: each for each in pod.containers}
    return {
        name: _without(own[name], asked, kinds) if name in own else asked
        for name, asked in wanted.items()
    }


def _without(one: pods.Container, asked: Allocation, kinds: Container[Resource]) -> Allocation:
    requests = asked.requests or NO_AMOUNTS
    has = one.current.requests or NO_AMOUNTS
    grown = {kind for kind in requests if kind in kinds and requests[kind] > has.get(kind, 0)}
    if not grown:
        return asked
    limits = asked.limits or NO_AMOUNTS
    return Allocation(
        {kind: amount for kind, amount in requests.items() if kind not in grown},
        {kind: amount for kind, amount in limits.items() if kind not in grown},
    )
