"""Nodes: what each has to give, and what it says about the pods that it takes."""

from collections.abc import Iterable, Mapping
from dataclasses import field

from trimtab.core.records import dataclass
from trimtab.core.resources import BOTH, Resources


@dataclass(frozen=True, slots=True)
class Taint:
    """What keeps pods away that do not tolerate it."""

    key: str
    value: str = ""
    effect: str = ""
    """`NoSchedule`, `PreferNoSchedule` or `NoExecute`."""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine that runs pods, as its kubelet describes it."""

    name: str
    allocatable: Resources = field(default_factory=dict)
    """What all its pods together may request; a resource that it does not tell is missing."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    is_unschedulable: bool = False
    """Whether somebody has cordoned it: it takes no new pods."""
    pod_slots: int | None = None
    """The number of pods that it may run at most; None if it does not say."""


def largest_allocatable(nodes: Iterable[Node]) -> Resources:
    """The most that any node has to give of each resource; nothing of what no node tells.

    A node that takes no pods just now counts too: that passes, and a need that was shown stays.
    """
    told = [node.allocatable for node in nodes]
    amounts = {kind: [each[kind] for each in told if kind in each] for kind in BOTH}
    return {kind: max(found) for kind, found in amounts.items() if found}
