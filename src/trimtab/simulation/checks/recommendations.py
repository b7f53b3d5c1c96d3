"""Checks each published recommendation on its own."""

from collections.abc import Iterator

from trimtab.core.model import autoscalers, limits
from trimtab.core.model.autoscalers import AutoscalerName, ContainerPolicy, ContainerRecommendation
from trimtab.core.model.resources import Resource
from trimtab.simulation.checks.base import Checker
from trimtab.simulation.world.facts import Fact, StatusPublished


class SoundRecommendations(Checker):
    """A recommendation has lower bound ≤ target ≤ upper bound, within the policy, and never 0."""

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report recommendations that break the rule."""
        if not isinstance(fact, StatusPublished) or _is_old(fact):
            return
        after = fact.after
        for entry in after.recommendation or ():
            for flaw in self._find_flaws(after.identity, entry):
                where = f"{after.namespace}/{after.name} {entry.container_name}"
                yield f"{fact.actor} published for {where}: {flaw}"

    def _find_flaws(self, name: AutoscalerName, entry: ContainerRecommendation) -> Iterator[str]:
        versions = self.past.versions(name)
        policies = [
            autoscalers.policy_for(each.policies, entry.container_name) for each in versions
        ]
        for resource, target in entry.target.items():
            lower = (entry.lower_bound or {}).get(resource, target)
            upper = (entry.upper_bound or {}).get(resource, target)
            if not lower <= target <= upper:
                yield f"{resource} {lower} ≤ {target} ≤ {upper} is not true"
            if target <= 0:
                yield f"a target of {target} {resource}"
            verdicts = [_is_inside(policy, resource, target) for policy in policies]
            if verdicts and not any(verdicts):
                yield f"{resource} {target} is outside the policy"


def _is_old(fact: StatusPublished) -> bool:
    return fact.before.recommendation == fact.after.recommendation


def _is_inside(policy: ContainerPolicy | None, resource: Resource, amount: int) -> bool:
    if policy is None:
        return True
    least = limits.amount_of(policy.min_allowed, resource)
    most = limits.amount_of(policy.max_allowed, resource)
    # Of contradictory bounds the upper one wins.
    return amount <= most and amount >= min(least, most) if most else amount >= least
