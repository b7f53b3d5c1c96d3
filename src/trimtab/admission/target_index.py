"""Which autoscalers are for which workload, so that a pod costs one lookup."""

from collections.abc import Sequence
from operator import attrgetter

from trimtab.cluster.ports import IndexedStore
from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.pods import WorkloadName


class TargetIndex:
    """The autoscalers of a store by the workload that they are for, as the store holds them."""

    def __init__(self, autoscalers: IndexedStore[Autoscaler]) -> None:
        self._by_target = autoscalers.index(target_name)
        self._by_namespace = autoscalers.index(attrgetter("namespace"))

    def has_any(self, namespace: str) -> bool:
        """Return True if the namespace has an autoscaler."""
        return self._by_namespace.has(namespace)

    def find(self, workload: WorkloadName) -> Sequence[Autoscaler]:
        """All autoscalers that are for the workload now."""
        return self._by_target.under(workload)


def target_name(autoscaler: Autoscaler) -> WorkloadName | None:
    """The workload that the autoscaler is for."""
    target = autoscaler.target
    if target is None:
        return None
    return WorkloadName(autoscaler.namespace, target.kind, target.name)
