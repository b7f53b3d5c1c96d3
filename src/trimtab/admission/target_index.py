"""Index of autoscalers by target workload, so that a pod costs one lookup."""

from collections.abc import Sequence
from operator import attrgetter

from trimtab.cluster.ports import IndexedStore
from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.pods import WorkloadName


class TargetIndex:
    """Index of a store's autoscalers by target workload, always up to date."""

    def __init__(self, autoscalers: IndexedStore[Autoscaler]) -> None:
        self._by_target = autoscalers.index(target_name)
        self._by_namespace = autoscalers.index(attrgetter("namespace"))

    def has_any(self, namespace: str) -> bool:
        """Return True if the namespace has an autoscaler."""
        return self._by_namespace.has(namespace)

    def find(self, workload: WorkloadName) -> Sequence[Autoscaler]:
        """Return all autoscalers that target the workload."""
        return self._by_target.under(workload)


def target_name(autoscaler: Autoscaler) -> WorkloadName | None:
    """Return the workload that the autoscaler targets; None if it has no target."""
    target = autoscaler.target
    if target is None:
        return None
    return WorkloadName(autoscaler.namespace, target.kind, target.name)
