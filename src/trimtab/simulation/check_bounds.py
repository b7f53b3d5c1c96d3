"""Checks that requests stay inside what the policies of autoscalers allow."""

from collections.abc import Callable, Iterator

from trimtab.core.autoscalers import Autoscaler, ContainerPolicy, ControlledValues, policy_for
from trimtab.core.boost import boosted_containers
from trimtab.core.limits import amount_of
from trimtab.core.matching import acts_on_new_pods, acts_on_running_pods
from trimtab.core.pods import Container, Pod
from trimtab.core.resources import BOTH, Resource
from trimtab.simulation.facts import Fact, PodCreated, PodResized
from trimtab.simulation.patching import PatchError, apply_patch
from trimtab.simulation.rules import Checker


class RequestBounds(Checker):
    """No component sets a request below minAllowed or above maxAllowed, but for a boost."""

    def observe(self, fact: Fact) -> Iterator[str]:
        """What was set outside the bounds."""
        match fact:
            case PodCreated(wanted=wanted, patch=patch) if patch:
                yield from self._judge(wanted, asked_for(fact), acts_on_new_pods)
            case PodResized(before=before, after=after):
                yield from self._judge(before, after, acts_on_running_pods)
            case _:
                return

    def _judge(self, before: Pod, after: Pod, acts: Callable[[Autoscaler], bool]) -> Iterator[str]:
        governors = self.past.governors(before, acts)
        verdicts = [list(_find_flaws(before, after, governor)) for governor in governors]
        if verdicts and all(verdicts):
            yield from verdicts[-1]


def asked_for(fact: PodCreated) -> Pod:
    """What our webhook made of the pod, whatever another one made of that."""
    try:
        return apply_patch(fact.wanted, fact.patch)
    except PatchError:
        return fact.wanted


def _find_flaws(before: Pod, after: Pod, governor: Autoscaler) -> Iterator[str]:
    # A boost is allowed to exceed the policy, and what it goes back to is the user's own.
    boosted = {*boosted_containers(before), *boosted_containers(after)}
    for old, new in zip(before.containers, after.containers, strict=True):
        policy = policy_for(governor.policies, new.name)
        for resource in BOTH:
            is_boost = resource is Resource.CPU and new.name in boosted
            is_set = amount_of(new.spec.requests, resource) != amount_of(
                old.spec.requests, resource
            )
            if policy is not None and is_set and not is_boost:
                yield from _outside(policy, after, new, resource)


def _outside(
    policy: ContainerPolicy, pod: Pod, container: Container, resource: Resource
) -> Iterator[str]:
    amount = amount_of(container.spec.requests, resource)
    least = amount_of(policy.min_allowed, resource)
    most = amount_of(policy.max_allowed, resource)
    where = f"{pod.namespace}/{pod.name} {container.name}: {resource} of {amount}"
    if most and amount > most:
        yield f"{where} is above maxAllowed {most}"
    # The later rule wins: of contradictory bounds the upper one, then the container's own limit.
    is_held_down = policy.controlled_values is ControlledValues.REQUESTS_ONLY and (
        amount == amount_of(container.spec.limits, resource)
    )
    if amount < least and not (most and most < least) and not is_held_down:
        yield f"{where} is below minAllowed {least}"
