"""What the last pod of each autoscaler got, so that the next one need not be worked out again.

A workload makes its pods from one template, and they come in bursts. They differ in names, volumes
and the like, but not in what decides about their size. Only that is compared: whatever has changed
since, in the pod, the autoscaler or the limits, is worked out anew.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from trimtab.core.autoscalers import Autoscaler, AutoscalerName
from trimtab.core.boost import marked_containers
from trimtab.core.boost_room import BoostRoom
from trimtab.core.gates import FeatureGates
from trimtab.core.limit_ranges import LimitRangeItem
from trimtab.core.node_room import NodeRooms
from trimtab.core.patch import Sizing, likeness, size_pod
from trimtab.core.pods import Pod, without_status
from trimtab.core.quotas import Quota
from trimtab.core.records import dataclass

_KEPT: Final = 512
"""Of so many autoscalers the last pod is remembered: a few kilobytes each."""
_KEPT_OPERATIONS: Final = 32 * 1024
"""Number of operations in all patches that are remembered: some hundred bytes each."""


class Arrival(Protocol):
    """A pod that is being created, of which no more is read than is needed."""

    @property
    def head(self) -> Pod:
        """Whose it is; nothing of its labels or containers."""

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
        """What it has more of than admission looks at; empty if it has not."""

    def likeness(self) -> object:
        """What is equal for two pods only if they get the same from the same autoscaler."""

    def read(self) -> Pod:
        """The whole pod."""


class WholePod:
    """A pod that has been read whole; a status that it brings along is left out."""

    def __init__(self, pod: Pod) -> None:
        self.head = without_status(pod)
        self.is_usual = True
        self.may_be_marked = bool(marked_containers(pod))

    def excess(self) -> str:
        """Nothing: it was read already."""
        return ""

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return self.head.labels

    def likeness(self) -> object:
        """All of it that decides about its size."""
        return likeness(self.head)

    def read(self) -> Pod:
        """The pod."""
        return self.head


@dataclass(frozen=True, slots=True)
class Bounds:
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


@dataclass(frozen=True, slots=True)
class _Sized:
    likeness: object
    autoscaler: Autoscaler
    bounds: Bounds
    sizing: Sizing

    def tells_of(self, likeness: object, autoscaler: Autoscaler, bounds: Bounds) -> bool:
        """Whether another pod gets the same."""
        return (
            # A store never changes an object: another state is another object.
            self.autoscaler is autoscaler and self.bounds == bounds and self.likeness == likeness
        )


class Sizings:
    """Sizes pods, and remembers what came of it."""

    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates
        self._last: OrderedDict[AutoscalerName, _Sized] = OrderedDict()
        self._operations = 0

    def size(self, new: Arrival, autoscaler: Autoscaler, bounds: Bounds) -> Sizing:
        """What a new pod of the autoscaler gets."""
        name = autoscaler.identity
        last = self._last.get(name)
        likeness = new.likeness()
        if last is not None and last.tells_of(likeness, autoscaler, bounds):
            self._last.move_to_end(name)
            return last.sizing
        sizing = self._work_out(new.read(), autoscaler, bounds)
        if new.is_usual:
            self._keep(name, _Sized(likeness, autoscaler, bounds, sizing))
        return sizing

    def _keep(self, name: AutoscalerName, sized: _Sized) -> None:
        self._forget(name)
        self._last[name] = sized
        self._operations += len(sized.sizing.patch)
        while len(self._last) > _KEPT or self._operations > _KEPT_OPERATIONS:
            self._forget(next(iter(self._last)))

    def _forget(self, name: AutoscalerName) -> None:
        former = self._last.pop(name, None)
        if former is not None:
            self._operations -= len(former.sizing.patch)

    def _work_out(self, pod: Pod, autoscaler: Autoscaler, bounds: Bounds) -> Sizing:
        on_nodes = () if bounds.rooms is None else bounds.rooms.for_pod(pod)
        room = BoostRoom(
            (*bounds.limit_ranges, *on_nodes),
            bounds.max_boost_millicores,
            bounds.quotas,
            bounds.awaited_pods,
            bounds.missing_pods,
        )
        return size_pod(pod, autoscaler, gates=self._gates, room=room)
