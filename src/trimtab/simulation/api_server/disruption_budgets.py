"""PodDisruptionBudgets: decide if one more pod may be evicted now.

The arithmetic is that of the real disruption controller and of the eviction API. As there, granted
evictions are remembered: one that fails after it was granted costs the budget for two minutes.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Final

from trimtab.core.model.pods import Pod, PodPhase
from trimtab.simulation.api_server.requests import over_budget, refuse
from trimtab.simulation.world.objects import ENDED, DisruptionBudget, WorkloadObject
from trimtab.simulation.world.world import World

DISRUPTED_FOR: Final = timedelta(minutes=2)
"""Time for which a pod counts as disrupted after its eviction was granted."""
SEVERAL_BUDGETS: Final = (
    "This pod has more than one PodDisruptionBudget, "
    "which the eviction subresource does not support."
)
"""The real API server's answer, with 500."""
_UNSCALED_KINDS: Final = frozenset({"CronJob", "DaemonSet", "Job"})
"""Kinds whose number of pods the disruption controller cannot read."""


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """Present counts of a budget."""

    expected: int
    healthy: int
    needed: int

    @property
    def allowed(self) -> int:
        """Number of healthy pods that may go."""
        return max(0, self.healthy - self.needed) if self.expected > 0 else 0


class DisruptionBudgets:
    """All budgets of a cluster, and the evictions that they have granted."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._granted: dict[str, datetime] = {}
        """End of the grant, by uid of the pod."""

    def grant(self, request: str, pod: Pod) -> None:
        """Charge an eviction to the pod's budget; raise ApiError if it is used up."""
        if self.check(request, pod):
            self._granted[pod.uid] = self._world.now() + DISRUPTED_FOR

    def check(self, request: str, pod: Pod) -> bool:
        """Return True if evicting the pod uses up budget; raise ApiError if it is not allowed."""
        budgets = [budget for budget in self._world.budgets if _protects(budget, pod)]
        if not budgets or _is_beyond_protection(pod):
            return False
        if len(budgets) > 1:
            raise refuse(request, HTTPStatus.INTERNAL_SERVER_ERROR, SEVERAL_BUDGETS)
        standing = self.standing(budgets[0])
        if standing is None:
            raise over_budget(request, budgets[0].name)
        if pod.ready_since is None and standing.healthy >= standing.needed > 0:
            # The pod is down already, and enough others are healthy.
            return False
        if standing.allowed == 0:
            raise over_budget(request, budgets[0].name)
        return True

    def standing(self, budget: DisruptionBudget) -> BudgetStatus | None:
        """Return the counts of a budget; None if they cannot be computed, which allows nothing."""
        pods = self._world.pods_by_namespace.under(budget.namespace)
        protected = [pod for pod in pods if _protects(budget, pod)]
        healthy = sum(map(self._is_healthy, protected))
        if budget.min_available is not None:
            return BudgetStatus(len(protected), healthy, budget.min_available)
        expected = self._expected(protected)
        if expected is None:
            return None
        return BudgetStatus(expected, healthy, max(0, expected - (budget.max_unavailable or 0)))

    def _is_healthy(self, pod: Pod) -> bool:
        if pod.is_deleting or pod.ready_since is None:
            return False
        until = self._granted.get(pod.uid)
        return until is None or until <= self._world.now()

    def _expected(self, protected: list[Pod]) -> int | None:
        """Return how many pods the owners want; None if one owner has no such number."""
        scales: dict[str, int] = {}
        for pod in protected:
            if pod.owner is None:
                continue
            owner = self._scaled_owner(pod)
            if owner is None or owner.kind in _UNSCALED_KINDS or owner.replicas is None:
                return None
            scales[owner.uid] = owner.replicas
        return sum(scales.values())

    def _scaled_owner(self, pod: Pod) -> WorkloadObject | None:
        owner = self._world.find_owner(pod.namespace, pod.owner)
        if owner is None or owner.owner is None or owner.owner.kind != "Deployment":
            return owner
        return self._world.find_owner(owner.namespace, owner.owner)


def _protects(budget: DisruptionBudget, pod: Pod) -> bool:
    return budget.namespace == pod.namespace and budget.selector.matches(pod.labels)


def _is_beyond_protection(pod: Pod) -> bool:
    return pod.is_deleting or pod.phase in (*ENDED, PodPhase.PENDING)
