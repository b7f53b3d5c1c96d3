"""Workloads: their owners, their selectors and their number of replicas."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, TypeAlias

import msgspec

from trimtab.core.model.pods import Allocation, OwnerReference, Pod, WorkloadName, says_paused
from trimtab.core.model.selectors import Selector

MAX_LEVELS: Final = 32
"""Maximum length of a chain of owners; only a cycle is longer."""


@dataclass(frozen=True, slots=True)
class Workload:
    """An object that owns pods, directly or through others."""

    name: WorkloadName
    owner: OwnerReference | None = None
    selector: Selector | None = None
    """Selects its own pods; None if it has no selector, and then it selects none."""
    replicas: int | None = None
    """Number of pods it should have; None for kinds that do not count them."""
    uid: str = ""
    """Distinguishes it from an earlier one of the same name."""
    role_lease: str = ""
    """The lease whose holder has the role among its pods; empty if it names none."""
    template: Pod | None = None
    """The pod that a DaemonSet puts on nodes, without a name; None for other kinds."""
    existing: int | None = None
    """Number of pods in its own status, ready or not; None if the status has no number."""
    is_failing: bool | None = None
    """True if its status reports that it cannot create pods; None for kinds without that."""
    ready: int | None = None
    """Number of nodes on which a DaemonSet reports a ready pod; None for other kinds."""
    updated: int | None = None
    """Number of nodes on which it reports a pod of its present template, ready or not."""
    first_ordinal: int | None = None
    """Ordinal of the first pod of a StatefulSet that makes its pods one after the other."""
    sizes: Mapping[str, Allocation] | None = None
    """Resources by container in the template of a kind that creates pods; None for others."""
    min_ready: timedelta = timedelta()
    """Time for which each pod of such a StatefulSet must be ready before the next is made."""
    staged_revision: str | None = None
    """Revision that only new pods get (`OnDelete`), or that a rollout has not brought to all yet.

    "" if its name is not known; mostly None.
    """
    staged_from: int = 0
    """Ordinal of the first pod of a StatefulSet that may get that revision (`partition`)."""
    is_rolling_out: bool = False
    """True of a StatefulSet or DaemonSet that replaces its pods by itself, and is not through."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A workload of a kind that is not watched: it is read over the network."""

    name: WorkloadName
    api_version: str
    uid: str = ""
    """The uid that an owner reference gives; empty if any object of that name will do."""


class PeekedOwner(msgspec.Struct, frozen=True, gc=False):
    """The topmost workload above a pod, as far as it is known without waiting."""

    topmost: WorkloadName | None
    """None without an owner, and while the owner is in doubt."""
    due: tuple[Lookup, ...] = ()
    """Lookups on the way up that were never made, or are too old."""
    is_pending: bool = False
    """True if a lookup, or a watch that catches up, may soon give another answer."""
    doubt: str = ""
    """The reason, for people, why the owner is in doubt; empty if it is not."""


class PeekedWorkload(msgspec.Struct, frozen=True, gc=False):
    """A workload, as far as it is known without waiting."""

    workload: Workload | None
    due: tuple[Lookup, ...] = ()
    is_pending: bool = False
    """True if a lookup may soon give another answer."""
    is_known: bool = True
    """False if it was never looked up, or could not be."""


Known: TypeAlias = Callable[[WorkloadName], Workload | None]
"""Looks up a workload without a network read; returns None if it is not known."""


def owners_above(name: WorkloadName, known: Known) -> Iterator[WorkloadName]:
    """Yield the owners of a workload, the nearest first, up to the first that is itself unknown."""
    for _ in range(MAX_LEVELS):
        found = known(name)
        if found is None or found.owner is None:
            return
        name = WorkloadName(name.namespace, found.owner.kind, found.owner.name)
        yield name


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace, with the annotations that Trimtab reads."""

    name: str
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_paused(self) -> bool:
        """True if an annotation of the namespace asks for a pause."""
        return says_paused(self.annotations)
