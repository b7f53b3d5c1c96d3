"""Checks evictions against PodDisruptionBudgets, counted anew from the world."""

from collections.abc import Iterator

from trimtab.core.pods import Pod, PodPhase
from trimtab.simulation.facts import Fact, PodEvicted
from trimtab.simulation.objects import DisruptionBudget, WorkloadObject
from trimtab.simulation.rules import Checker


class PodBudgets(Checker):
    """No pod is evicted that a PodDisruptionBudget does not let go at that moment."""

    def observe(self, fact: Fact) -> Iterator[str]:
        """The budgets that an eviction overdraws."""
        if not isinstance(fact, PodEvicted):
            return
        pod = fact.pod
        if pod.is_deleting or pod.phase is not PodPhase.RUNNING:
            return
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
        """How many pods there should be, by the word of those who scale them."""
        scaled = {
            owner.uid: owner.replicas or 0
            for owner in map(self._find_scaled, covered)
            if owner is not None
        }
        return sum(scaled.values())

    def _find_scaled(self, pod: Pod) -> WorkloadObject | None:
        owner = self.world.find_owner(pod.namespace, pod.owner)
        above = None if owner is None else self.world.find_owner(owner.namespace, owner.owner)
        return above if above is not None and above.kind == "Deployment" else owner


def _covers(budget: DisruptionBudget, pod: Pod) -> bool:
    return budget.namespace == pod.namespace and budget.selector.matches(pod.labels)


def _needs(pod: Pod) -> int:
    # To take away one that is not ready costs nothing, as long as enough others are.
    return 0 if pod.ready_since is None else 1
