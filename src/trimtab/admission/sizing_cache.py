"""Sizes of the last pods of each autoscaler, so that the next one need not be worked out again.

A workload makes its pods from few templates, and they come in bursts. They differ in names, volumes
and the like, but not in what decides about their size. Only that is compared: what has changed
since, in the pod, the autoscaler or the limits, is worked out again. All that is kept is bounded
by its size, not by the number of autoscalers; an autoscaler that changes is forgotten.
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
"""Size of all that is remembered: usual pods of some ten thousand autoscalers."""
_TEMPLATES: Final = 8
"""Number of unlike pods that are remembered of one autoscaler."""
_ENTRY_BYTES: Final = 320
"""Generous size of what is kept of one template beside its patch: its hash and its bounds."""
_RECORD_BYTES: Final = 512
"""Generous size of the records around a patch."""
_OPERATION_BYTES: Final = 256
"""Generous size of an operation, and of the notes about it."""


class IncomingPod(Protocol):
    """A pod that is being created, of which no more is read than is needed."""

    @property
    def head(self) -> PodHead:
        """Whose it is."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""

    @property
    def is_usual(self) -> bool:
        """True if it is small enough for what is worked out of it to be kept."""

    @property
    def may_be_marked(self) -> bool:
        """False if it has no mark of a boost for certain."""

    def excess(self) -> str:
        """Return the excess over the bounds that admission looks at; empty if there is none."""

    def likeness(self) -> object:
        """What is equal for two pods only if they get the same from the same autoscaler."""

    def read(self) -> Pod:
        """The whole pod."""


class WholePod:
    """A pod that has been read whole; a status that it brings along is left out."""

    def __init__(self, pod: Pod) -> None:
        self.head = PodHead(pod.namespace, pod.owner)
        self._pod = pods.without_status(pod)
        self.is_usual = True
        self.may_be_marked = bool(startup_boost.marked_containers(pod))

    def excess(self) -> str:
        """Nothing: it was read already."""
        return ""

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return self._pod.labels

    def likeness(self) -> object:
        """All of it that decides about its size."""
        return likeness(self._pod)

    def read(self) -> Pod:
        """The pod."""
        return self._pod


class CapBounds(msgspec.Struct, frozen=True):
    """What a pod may have at most, and at least, whatever is recommended."""

    limit_ranges: Sequence[LimitRangeItem]
    max_boost_millicores: int | None
    rooms: NodeRooms | None = None
    """What nodes have room for, which depends on where the pod may go."""
    quotas: Sequence[Quota] = ()
    """Quotas with the amounts left for this pod: another amount is another answer."""
    awaited_pods: int = 0
    """Number of further pods that the owner may be about to create."""
    missing_pods: int = 0
    """Number of further pods of which the owner says that they are missing."""
    max_boosted_priority: int = MAX_PRIORITY
    withheld: Withheld = Withheld.NOTHING
    """Part that pods of the owner do not get, since pods with it were never created."""


class _Sized(msgspec.Struct, frozen=True):
    likeness: object
    bounds: CapBounds
    sizing: Sizing


class _Known:
    """Sizes of pods of one autoscaler, in the state in which it is."""

    __slots__ = ("autoscaler", "size_bytes", "sized")

    def __init__(self, autoscaler: Autoscaler) -> None:
        self.autoscaler = autoscaler
        self.sized: list[_Sized] = []
        self.size_bytes = 0

    def find(self, likeness: object) -> _Sized | None:
        """Return what the last pod like this one got; None if none came."""
        for each in self.sized:
            if each.likeness == likeness:
                return each
        return None

    def share(self, sizing: Sizing) -> Sizing:
        """Return an equal size that is remembered already, or else the given one.

        Where nothing follows from what pods ask for themselves, all templates of an autoscaler
        get the same: it is kept once, and its answer is encoded once.
        """
        for each in self.sized:
            if each.sizing == sizing:
                return each.sizing
        return sizing

    def keep(self, new: _Sized, former: _Sized | None) -> int:
        """Remember a size in place of a former one; return by how many bytes that is more."""
        leaving = former or (self.sized[0] if len(self.sized) >= _TEMPLATES else None)
        if leaving is not None:
            # By identity: comparing two sizes costs more than working out one.
            self.sized = [each for each in self.sized if each is not leaving]
        self.sized.append(new)
        before, self.size_bytes = self.size_bytes, self._count_bytes()
        return self.size_bytes - before

    def _count_bytes(self) -> int:
        """Return the size in memory of all that is remembered, rounded up."""
        patches = {id(each.sizing): len(each.sizing.patch) for each in self.sized}
        of_patches = _RECORD_BYTES * len(patches) + _OPERATION_BYTES * sum(patches.values())
        return _ENTRY_BYTES * len(self.sized) + of_patches


class Sizings:
    """Sizes pods, and remembers what came of it."""

    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates
        self._known: OrderedDict[AutoscalerName, _Known] = OrderedDict()
        self._bytes = 0

    def size(self, new: IncomingPod, autoscaler: Autoscaler, bounds: CapBounds) -> Sizing:
        """What a new pod of the autoscaler gets."""
        name = autoscaler.identity
        known = self._known.get(name)
        # A store never changes an object: another state is another object.
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
        """Return the same without a place in memory, for pods whose siblings get something else."""
        return self._work_out(new.read(), autoscaler, bounds)

    def forget(self, name: AutoscalerName) -> None:
        """Drop what is remembered of an autoscaler, if anything is."""
        former = self._known.pop(name, None)
        if former is not None:
            self._bytes -= former.size_bytes

    def clear(self) -> None:
        """Drop all that is remembered."""
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
