"""What the last pod of each autoscaler got, so that the next one need not be worked out again.

A workload makes its pods from one template, and they come in bursts. They differ in names, volumes
and the like, but not in what decides about their size. Only that is compared: whatever has changed
since, in the pod, the autoscaler or the limits, is worked out anew.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trimtab.core.autoscalers import Autoscaler, AutoscalerName
from trimtab.core.gates import FeatureGates
from trimtab.core.limit_ranges import LimitRangeItem
from trimtab.core.patch import Sizing, are_sized_alike, size_pod
from trimtab.core.pods import Pod

_KEPT: Final = 512
"""Of so many autoscalers the last pod is remembered: a few kilobytes each."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a pod may have at most, and at least, whatever is recommended."""

    limit_ranges: Sequence[LimitRangeItem]
    max_boost_millicores: int | None


@dataclass(frozen=True, slots=True)
class _Sized:
    pod: Pod
    autoscaler: Autoscaler
    bounds: Bounds
    sizing: Sizing

    def tells_of(self, pod: Pod, autoscaler: Autoscaler, bounds: Bounds) -> bool:
        """Whether another pod gets the same."""
        return (
            # A store never changes an object: another state is another object.
            self.autoscaler is autoscaler
            and self.bounds == bounds
            and are_sized_alike(self.pod, pod)
        )


class Sizings:
    """Sizes pods, and remembers what came of it."""

    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates
        self._last: OrderedDict[AutoscalerName, _Sized] = OrderedDict()

    def size(self, pod: Pod, autoscaler: Autoscaler, bounds: Bounds) -> Sizing:
        """What a new pod of the autoscaler gets."""
        name = autoscaler.identity
        last = self._last.get(name)
        if last is None or not last.tells_of(pod, autoscaler, bounds):
            last = _Sized(pod, autoscaler, bounds, self._work_out(pod, autoscaler, bounds))
            self._last[name] = last
            if len(self._last) > _KEPT:
                self._last.popitem(last=False)
        self._last.move_to_end(name)
        return last.sizing

    def _work_out(self, pod: Pod, autoscaler: Autoscaler, bounds: Bounds) -> Sizing:
        return size_pod(
            pod,
            autoscaler,
            gates=self._gates,
            limit_ranges=bounds.limit_ranges,
            max_boost_millicores=bounds.max_boost_millicores,
        )
