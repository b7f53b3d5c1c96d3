"""Nodes: their allocatable resources, and their rules about the pods that they take."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from trimtab.core.model.resources import BOTH, Resources


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node; it keeps away pods that do not tolerate it."""

    key: str
    value: str = ""
    effect: str = ""
    """`NoSchedule`, `PreferNoSchedule` or `NoExecute`."""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine that runs pods, as its kubelet describes it."""

    name: str
    allocatable: Resources = field(default_factory=dict)
    """Amounts that its pods together may request; a resource that it does not report is missing."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    is_unschedulable: bool = False
    """True if it is cordoned: it takes no new pods."""
    pod_slots: int | None = None
    """Maximum number of pods that it may run; None if it does not report one."""


def largest_allocatable(nodes: Iterable[Node]) -> Resources:
    """Return the largest allocatable amount of each resource that any node reports.

    A node that takes no pods at present counts too: that state passes, and a proven need remains.
    """
    reported = [node.allocatable for node in nodes]
    amounts = {kind: [each[kind] for each in reported if kind in each] for kind in BOTH}
    return {kind: max(found) for kind, found in amounts.items() if found}


_PASSING: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Prefixes of taints that a node has while it is not ready, full, cordoned or new."""
_KEEPS_AWAY: Final = ("NoSchedule", "NoExecute")
_EXISTS: Final = "Exists"
_RECORD_CHARACTERS: Final = 32
_NODE_NAMES: Final = frozenset({"metadata.name", "kubernetes.io/hostname"})
"""The field and the label that only one node has with its value."""


@dataclass(frozen=True, slots=True)
class Toleration:
    """The taints that a pod tolerates."""

    key: str = ""
    """Empty for all."""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    """Empty for all."""


@dataclass(frozen=True, slots=True)
class NodeExpression:
    """A requirement on one label or field of a node."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """Requirements that a node must meet together; no node meets an empty term."""

    labels: tuple[NodeExpression, ...] = ()
    fields: tuple[NodeExpression, ...] = ()
    """The only field that Kubernetes supports is `metadata.name`."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The rules in a pod's spec about the nodes that may run it."""

    node_labels: tuple[tuple[str, str], ...] = ()
    """Its `nodeSelector`."""
    terms: tuple[NodeTerm, ...] | None = None
    """The terms of its required node affinity, of which one must be met; None if it has none."""
    tolerations: tuple[Toleration, ...] = ()
    crosses_namespaces: bool = False
    """True if its affinity or anti-affinity refers to pods of other namespaces."""

    def count_characters(self) -> int:
        """Count the characters of all rules; a tenant may write any number of them.

        Each expression and toleration adds a fixed number for the record around it.
        """
        expressions = [each for term in self.terms or () for each in (*term.labels, *term.fields)]
        return (
            sum(len(key) + len(value) for key, value in self.node_labels)
            + sum(len(each.key) + sum(map(len, each.values)) for each in expressions)
            + sum(len(each.key) + len(each.value) for each in self.tolerations)
            + _RECORD_CHARACTERS * (len(expressions) + len(self.tolerations))
        )

    @property
    def node_names(self) -> frozenset[str] | None:
        """The names of the only nodes it may go to, where it names them; else None."""
        # Terms are alternatives: one without a name may lead anywhere.
        if not self.terms or not all(term.fields for term in self.terms):
            return None
        named = [each for term in self.terms for each in term.fields if each.operator == "In"]
        return frozenset(name for each in named for name in each.values) if named else None

    @property
    def names_nodes(self) -> bool:
        """True if it may go to certain nodes alone, by their name or hostname."""
        if any(key in _NODE_NAMES for key, _ in self.node_labels):
            return True
        return bool(self.terms) and all(
            any(
                each.key in _NODE_NAMES and each.operator == "In"
                for each in (*term.labels, *term.fields)
            )
            for term in self.terms or ()
        )


NO_DEMANDS: Final = Placement()

_CORDON: Final = Taint("node.kubernetes.io/unschedulable", effect="NoSchedule")
_OF_DAEMONS: Final = tuple(
    Toleration(f"node.kubernetes.io/{trouble}", _EXISTS, effect=effect)
    for trouble, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
"""Tolerations that the DaemonSet controller gives to its pods."""


def may_go_to(placement: Placement | None, node: Node) -> bool:
    """Return True if the pod's rules allow the node, however full or unready the node is now."""
    demands = placement or NO_DEMANDS
    return (
        all(node.labels.get(key) == value for key, value in demands.node_labels)
        and (demands.terms is None or any(_meets(node, term) for term in demands.terms))
        and all(_is_tolerated(taint, demands) for taint in node.taints)
    )


def takes_now(placement: Placement | None, node: Node, *, is_daemon: bool = False) -> bool:
    """Return True if the scheduler may put a pod on the node now, as far as it has room.

    The pods of DaemonSets tolerate that a node is cordoned, or under pressure.
    """
    tolerations = (placement or NO_DEMANDS).tolerations
    if is_daemon:
        tolerations = (*tolerations, *_OF_DAEMONS)
    taints = (*node.taints, _CORDON) if node.is_unschedulable else node.taints
    is_open = all(
        taint.effect not in _KEEPS_AWAY or any(_tolerates(each, taint) for each in tolerations)
        for taint in taints
    )
    return is_open and may_go_to(placement, node)


def is_passing(key: str) -> bool:
    """Return True if a taint with this key stands for a temporary state of a node."""
    return key.startswith(_PASSING)


def _is_tolerated(taint: Taint, demands: Placement) -> bool:
    # A taint of the moment, such as not-ready, says nothing about where the pod may go later.
    if taint.effect not in _KEEPS_AWAY or is_passing(taint.key):
        return True
    return any(_tolerates(each, taint) for each in demands.tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    # An empty key with Exists tolerates every taint (API: tolerations).
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == _EXISTS or toleration.value == taint.value


def _meets(node: Node, term: NodeTerm) -> bool:
    # The API says so: a null or empty term matches no objects.
    if not term.labels and not term.fields:
        return False
    own = {"metadata.name": node.name}
    return all(_fulfils(node.labels, each) for each in term.labels) and all(
        _fulfils(own, each) for each in term.fields
    )


def _fulfils(labels: Mapping[str, str], expression: NodeExpression) -> bool:
    found, values = labels.get(expression.key), expression.values
    match expression.operator:
        case "In" | "NotIn":
            # NotIn also matches a node without the label, as for label selectors.
            return (found in values) is (expression.operator == "In")
        case "Exists" | "DoesNotExist":
            return (found is not None) is (expression.operator == _EXISTS)
        case "Gt" | "Lt":
            return _compare(found, values) == (1 if expression.operator == "Gt" else -1)
        case _:
            # An unknown operator must not rule out a node.
            return True


def _compare(found: str | None, values: tuple[str, ...]) -> int:
    """Compare a label with a number: 1 if larger, -1 if smaller, 0 if equal or not a number."""
    try:
        difference = int(found or "") - int(values[0] if values else "")
    except ValueError:
        return 0
    return (difference > 0) - (difference < 0)
