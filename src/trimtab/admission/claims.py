"""What autoscalers lay claim to, also those that were allowed a moment ago.

An autoscaler that is allowed shows in the store only after the API server has stored it and the
watch has told of it. Until then its claim is remembered here, so that of two that are created at
once only one passes. Copies of this process do not share it; what slips past between them is
resolved by the rules for overlapping autoscalers.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from trimtab.admission.index import TargetIndex
from trimtab.api import autoscaler_wire as wire
from trimtab.api.metadata import NO_METADATA
from trimtab.api.selector_validation import Sibling
from trimtab.cluster.ports import Clock
from trimtab.core.autoscalers import AutoscalerName
from trimtab.core.pods import WorkloadName
from trimtab.core.records import dataclass

_LIFETIME: Final = timedelta(seconds=10)
"""The API server may still refuse what was allowed here; its claim must not stand for long."""
_KEPT: Final = 1024


@dataclass(frozen=True, slots=True)
class _Claim:
    autoscaler: wire.VerticalPodAutoscaler
    made_at: float
    """In seconds of the clock's time."""


class Claims:
    """Which autoscalers are for a workload, or are about to be."""

    def __init__(self, index: TargetIndex, clock: Clock) -> None:
        self._index = index
        self._clock = clock
        self._fresh: dict[AutoscalerName, _Claim] = {}

    def rivals(self, new: wire.VerticalPodAutoscaler) -> Sequence[Sibling]:
        """All that might be for the workload that the autoscaler is for, itself included."""
        workload = _workload(new)
        if workload is None:
            return ()
        self._forget()
        fresh = [claim.autoscaler for claim in self._fresh.values()]
        return [*self._index.find(workload), *fresh]

    def lay(self, new: wire.VerticalPodAutoscaler) -> None:
        """Remember that the autoscaler was allowed."""
        name = _name(new)
        # One that is still to be named cannot be told apart from the next one.
        if name.name and len(self._fresh) < _KEPT:
            self._fresh[name] = _Claim(new, self._now())

    def _forget(self) -> None:
        """Leave out what is too old, or is found by the index.

        The store may show it a moment earlier, but it is the index that is asked.
        """
        oldest = self._now() - _LIFETIME.total_seconds()
        self._fresh = {
            name: claim
            for name, claim in self._fresh.items()
            if claim.made_at > oldest and not self._is_found(claim.autoscaler)
        }

    def _is_found(self, autoscaler: wire.VerticalPodAutoscaler) -> bool:
        workload, name = _workload(autoscaler), _name(autoscaler)
        found = self._index.find(workload) if workload else ()
        return any(each.identity == name for each in found)

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _workload(autoscaler: wire.VerticalPodAutoscaler) -> WorkloadName | None:
    target = autoscaler.spec and autoscaler.spec.target_ref
    if not target or not target.kind or not target.name:
        return None
    return WorkloadName(_name(autoscaler).namespace, target.kind, target.name)


def _name(autoscaler: wire.VerticalPodAutoscaler) -> AutoscalerName:
    metadata = autoscaler.metadata or NO_METADATA
    return AutoscalerName(metadata.namespace or "", metadata.name or "")
