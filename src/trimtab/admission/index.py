"""Which autoscalers are for which workload, so that a pod costs one lookup.

Only names are kept. What an autoscaler says is read from its store at the moment of asking, so an
entry of one that is gone, or is for another workload now, does no harm.
"""

from collections import defaultdict
from typing import Final

from trimtab.cluster.ports import Store
from trimtab.core.autoscalers import Autoscaler
from trimtab.core.pods import WorkloadName

_REBUILT_AFTER: Final = 10_000
"""After so many changes entries of autoscalers that are gone are worth sweeping out."""


class TargetIndex:
    """The autoscalers of a store by the workload that they are for."""

    def __init__(self, autoscalers: Store[Autoscaler]) -> None:
        self._autoscalers = autoscalers
        self._names: defaultdict[WorkloadName, set[str]] = defaultdict(set)
        self._namespaces: set[str] = set()
        self._changes = 0
        self.rebuild()

    async def follow(self) -> None:
        """Keep up with the store, for ever."""
        changes = self._autoscalers.changes()
        self.rebuild()
        async for autoscaler in changes:
            self._changes += 1
            if self._changes >= _REBUILT_AFTER:
                self.rebuild()
            else:
                self._add(autoscaler)

    def rebuild(self) -> None:
        """Know exactly what the store holds now."""
        self._names.clear()
        self._namespaces.clear()
        self._changes = 0
        for autoscaler in self._autoscalers:
            self._add(autoscaler)

    def has_any(self, namespace: str) -> bool:
        """Return True if the namespace has an autoscaler, or had one lately."""
        return namespace in self._namespaces

    def find(self, workload: WorkloadName) -> list[Autoscaler]:
        """All autoscalers that are for the workload now."""
        found = []
        for name in self._names.get(workload, ()):
            each = self._autoscalers.find(workload.namespace, name)
            if each is not None and target_name(each) == workload:
                found.append(each)
        return found

    def _add(self, autoscaler: Autoscaler) -> None:
        if (workload := target_name(autoscaler)) is not None:
            self._names[workload].add(autoscaler.name)
            self._namespaces.add(autoscaler.namespace)


def target_name(autoscaler: Autoscaler) -> WorkloadName | None:
    """The workload that the autoscaler is for."""
    target = autoscaler.target
    if target is None:
        return None
    return WorkloadName(autoscaler.namespace, target.kind, target.name)
