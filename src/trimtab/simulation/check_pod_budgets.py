"""Checks evictions against PodDisruptionBudgets, counted anew from the world."""

from collections.abc import Iterator

from trimtab.core.pods import Pod, PodPhase
from trimtab.simulation.facts import Fact, PodEvicted
from trimtab.simulation.objects import DisruptionBudget
from trimtab.simulation.rules import Checker


class PodBudgets(Checker):
    """No pod is evicted that a PodDisruptionBudget does not let go at that moment."""

    def observe(self, fact: Fact) -> Iterator[str]:
        """The budgets that an eviction overdraws."""
        if not isinstance(fact, PodEvicted) or fact.pod.phase is PodPhase.PENDING:
            return
        pod = fact.pod
        for budget in self.world.budgets:
            if _covers(budget, pod) and self._allowed(budget) < _needs(pod):
                yield f"{fact.actor} evicted {pod.namespace}/{pod.name} past {budget.name}"

    def _allowed(self, budget: DisruptionBudget) -> int:
        """How many healthy pods may go now; less than none if too few are healthy already."""
        covered = [pod for pod in self.world.pods if _covers(budget, pod)]
        healthy = sum(pod.ready_since is not None and not pod.is_deleting for pod in covered)
        if budget.min_available is not None:
            return healthy - budget.min_available
        return healthy - (self._expected(covered) - (budget.max_unavailable or 0))

    def _expected(self, covered: list[Pod]) -> int:
        """How many pods there should be, by the word of their owners."""
        owners = {(pod.namespace, pod.owner) for pod in covered if pod.owner is not None}
        found = [self.world.find_owner(namespace, owner) for namespace, owner in owners]
        return sum(owner.replicas or 0 for owner in found if owner is not None)


def _covers(budget: DisruptionBudget, pod: Pod) -> bool:
    return budget.namespace == pod.namespace and budget.selector.matches(pod.labels)


def _needs(pod: Pod) -> int:
    # To take away one that is not ready costs nothing, as long as enough others are.
    return 0 if pod.ready_since is None else 1
