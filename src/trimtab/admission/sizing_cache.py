"""Cache of sizes of the last pods of each autoscaler.

A workload creates its pods from few templates, and in bursts. Such pods differ in names, volumes
and the like, but not in the fields that determine their size. Only those fields are compared: a
change in the pod, the autoscaler or the limits leads to a new computation. The cache is bounded by
its size in bytes, not by the number of autoscalers. An autoscaler that changes loses its entries.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

from trimtab.core.model import pods
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.limit_ranges import LimitRangeItem
from trimtab.core.model.pods import Pod, PodHead
from trimtab.core.sizing import admission_patch, startup_boost
from trimtab.core.sizing.admission_patch import Sizing, likeness
from trimtab.core.sizing.boost_room import MAX_PRIORITY, BoostRoom
from trimtab.core.sizing.node_capacity import NodeRooms
from trimtab.core.sizing.quotas import Quota
from trimtab.core.sizing.refusals import Withheld

_KEPT_BYTES: Final = 32 * 1024 * 1024
"""Maximum size of the cache: usual pods of some ten thousand autoscalers."""
_TEMPLATES: Final = 8
"""Number of different pods that are cached per autoscaler."""
_ENTRY_BYTES: Final = 320
"""Generous size of an entry beside its patch: its hash and its bounds."""
_RECORD_BYTES: Final = 512
"""Generous size of the records around a patch."""
_OPERATION_BYTES: Final = 256
"""Generous size of an operation, and of the notes about it."""


class IncomingPod(Protocol):
    """A pod that is being created, decoded only as far as needed."""

    @property
    def head(self) -> PodHead:
        """Namespace and owner."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels of the pod."""

    @property
    def is_usual(self) -> bool:
        """True if the pod is small enough for its size to be cached."""

    @property
    def may_be_marked(self) -> bool:
        """False if the pod certainly has no mark of a boost."""

    def excess(self) -> str:
        """Return the excess over the bounds of admission; empty if there is none."""

    def likeness(self) -> object:
        """Return a key; pods with equal keys get the same size from the same autoscaler."""

    def read(self) -> Pod:
        """Return the whole pod."""


class WholePod:
    """A pod that is decoded already; its status is left out."""

    def __init__(self, pod: Pod) -> None:
        self.head = PodHead(pod.namespace, pod.owner)
        self._pod = pods.without_status(pod)
        self.is_usual = True
        self.may_be_marked = bool(startup_boost.marked_containers(pod))

    def excess(self) -> str:
        """Return no excess: the pod was decoded already."""
        return ""

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels of the pod."""
        return self._pod.labels

    def likeness(self) -> object:
        """Return all fields that determine the pod's size."""
        return likeness(self._pod)

    def read(self) -> Pod:
        """Return the pod."""
        return self._pod


class CapBounds(msgspec.Struct, frozen=True, gc=False):
    """Upper and lower bounds of a pod's size that apply to any recommendation."""

    limit_ranges: Sequence[LimitRangeItem]
    max_boost_millicores: int | None
    rooms: NodeRooms | None = None
    """Room on nodes, which depends on where the pod may run."""
    quotas: Sequence[Quota] = ()
    """Quotas with the amounts left for this pod; another amount gives another size."""
    awaited_pods: int = 0
    """Number of further pods that the owner may be about to create."""
    missing_pods: int = 0
    """Number of further pods that are missing according to the owner's status."""
    max_boosted_priority: int = MAX_PRIORITY
    withheld: Withheld = Withheld.NOTHING
    """Part that pods of the owner do not get, since pods with it were never created."""


class _Sized(msgspec.Struct, frozen=True, gc=False):
    likeness: object
    bounds: CapBounds
    sizing: Sizing


class _Known:
    """Cached sizes of pods of one autoscaler, in its current version."""

    __slots__ = ("autoscaler", "size_bytes", "sized")

    def __init__(self, autoscaler: Autoscaler) -> None:
        self.autoscaler = autoscaler
        self.sized: list[_Sized] = []
        self.size_bytes = 0

    def find(self, likeness: object) -> _Sized | None:
        """Return the entry of the last pod like this one; None if there is none."""
        for each in self.sized:
            if each.likeness == likeness:
                return each
        return None

    def share(self, sizing: Sizing) -> Sizing:
        """Return an equal size that is cached already, or else the given one.

        If sizes do not depend on the pods' own requests, all templates of an autoscaler get the
        same size. It is then kept once, and its answer is encoded once.
        """
        for each in self.sized:
            if each.sizing == sizing:
                return each.sizing
        return sizing

    def keep(self, new: _Sized, former: _Sized | None) -> int:
        """Cache a size in place of a former one; return the growth in bytes."""
        leaving = former or (self.sized[0] if len(self.sized) >= _TEMPLATES else None)
        if leaving is not None:
            # By identity: comparing two sizes costs more than computing one.
            self.sized = [each for each in self.sized if each is not leaving]
        self.sized.append(new)
        before, self.size_bytes = self.size_bytes, self._count_bytes()
        return self.size_bytes - before

    def _count_bytes(self) -> int:
        """Return the size of all entries in memory, rounded up."""
        patches = {id(each.sizing): len(each.sizing.patch) for each in self.sized}
        of_patches = _RECORD_BYTES * len(patches) + _OPERATION_BYTES * sum(patches.values())
        return _ENTRY_BYTES * len(self.sized) + of_patches


class Sizings:
    """Computes the sizes of pods, and caches them."""

    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates
        self._known: OrderedDict[AutoscalerName, _Known] = OrderedDict()
        self._bytes = 0

    def size(self, new: IncomingPod, autoscaler: Autoscaler, bounds: CapBounds) -> Sizing:
        """Return the size of a new pod of the autoscaler."""
        name = autoscaler.identity
        known = self._known.get(name)
        # Stores never mutate objects: another version is another object.
        if known is not None and known.autoscaler is not autoscaler:
            self.forget(name)
            known = None
        likeness = new.likeness()
        last = None if known is None else known.find(likeness)
        if last is not None and last.bounds == bounds:
            self._known.move_to_end(name)
            return last.sizing
        sizing = self._work_out(new.read(), autoscaler, bounds)
        if new.is_usual:
            if known is None:
                known = self._known[name] = _Known(autoscaler)
            sizing = known.share(sizing)
            self._known.move_to_end(name)
            self._bytes += known.keep(_Sized(likeness, bounds, sizing), last)
            while self._bytes > _KEPT_BYTES:
                self.forget(next(iter(self._known)))
        return sizing

    def size_once(self, new: IncomingPod, autoscaler: Autoscaler, bounds: CapBounds) -> Sizing:
        """Return the same without caching it, for a pod whose siblings get another size."""
        return self._work_out(new.read(), autoscaler, bounds)

    def forget(self, name: AutoscalerName) -> None:
        """Drop the cached sizes of an autoscaler, if there are any."""
        former = self._known.pop(name, None)
        if former is not None:
            self._bytes -= former.size_bytes

    def clear(self) -> None:
        """Drop all cached sizes."""
        self._known.clear()
        self._bytes = 0

    def _work_out(self, pod: Pod, autoscaler: Autoscaler, bounds: CapBounds) -> Sizing:
        on_nodes = () if bounds.rooms is None else bounds.rooms.for_pod(pod)
        room = BoostRoom(
            (*bounds.limit_ranges, *on_nodes),
            bounds.max_boost_millicores,
            bounds.quotas,
            bounds.awaited_pods,
            bounds.missing_pods,
            bounds.max_boosted_priority,
            bounds.withheld,
        )
        return admission_patch.size_pod(pod, autoscaler, gates=self._gates, room=room)
