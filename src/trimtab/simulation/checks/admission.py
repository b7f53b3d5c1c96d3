"""Checks that pods are evicted only while admission works, and that requests obey the policy."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from trimtab.api.kinds.leases import Lease
from trimtab.core.model import autoscalers, limits, matching
from trimtab.core.model.autoscalers import Autoscaler, ContainerPolicy, ControlledValues
from trimtab.core.model.pods import Container, Pod
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.sizing import startup_boost
from trimtab.simulation.api_server import json_patch
from trimtab.simulation.api_server.json_patch import PatchError
from trimtab.simulation.checks.base import Checker, Rules
from trimtab.simulation.checks.hindsight import Hindsight
from trimtab.simulation.world.facts import Fact, PodCreated, PodEvicted, PodResized
from trimtab.simulation.world.tables import TableChange
from trimtab.simulation.world.world import World


class AdmissionAlive(Checker):
    """No component evicts a pod when it can see that admission is away.

    The status lease is all that the updater can see. The updater last read it no longer ago than a
    plan takes to be carried out, and it had been renewed within its timeout then. Any holder may
    have renewed it. The checker `Futility` covers a webhook that does not answer although its lease
    is fresh, and another webhook that undoes the patch.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._renewed_at: datetime | None = None
        world.leases.subscribe(self._note)

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report an eviction after the status lease had expired."""
        match fact:
            case PodEvicted(at=at, actor=actor, pod=pod) if self.rules.status_lease is not None:
                if self._renewed_at is None:
                    yield f"{actor} evicted {pod.namespace}/{pod.name} without any admission"
                elif at - self._renewed_at > self._longest(at):
                    silent = at - self._renewed_at
                    yield f"{actor} evicted {pod.namespace}/{pod.name}, admission silent {silent}"
            case _:
                return

    def _note(self, change: TableChange[Lease]) -> None:
        if change.after is not None and change.name == self.rules.status_lease:
            self._renewed_at = self.world.now()

    def _longest(self, now: datetime) -> timedelta:
        # An updater that has just started trusts the times in the lease, from another clock.
        skew = self.clock_doubt(now)
        return self.rules.lease_timeout + self.rules.carried_out_within + skew


class RequestBounds(Checker):
    """No component sets a request below minAllowed or above maxAllowed, except for a boost."""

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report requests that were set outside the bounds."""
        match fact:
            case PodCreated(wanted=wanted, patch=patch) if patch:
                yield from self._check(wanted, asked_for(fact), matching.acts_on_new_pods)
            case PodResized(before=before, after=after):
                yield from self._check(before, after, matching.acts_on_running_pods)
            case _:
                return

    def _check(self, before: Pod, after: Pod, acts: Callable[[Autoscaler], bool]) -> Iterator[str]:
        governors = self.past.governors(before, acts)
        verdicts = [list(_find_flaws(before, after, governor)) for governor in governors]
        if verdicts and all(verdicts):
            yield from verdicts[-1]


def asked_for(fact: PodCreated) -> Pod:
    """Return the pod as our webhook patched it, before any other webhook."""
    try:
        return json_patch.apply_patch(fact.wanted, fact.patch)
    except PatchError:
        return fact.wanted


def _find_flaws(before: Pod, after: Pod, governor: Autoscaler) -> Iterator[str]:
    # A boost is allowed to exceed the policy, and what it goes back to is the user's own.
    boosted = {*startup_boost.boosted_containers(before), *startup_boost.boosted_containers(after)}
    for old, new in zip(before.containers, after.containers, strict=True):
        policy = autoscalers.policy_for(governor.policies, new.name)
        for resource in BOTH:
            is_boost = resource is Resource.CPU and new.name in boosted
            is_set = limits.amount_of(new.spec.requests, resource) != limits.amount_of(
                old.spec.requests, resource
            )
            if policy is not None and is_set and not is_boost:
                yield from _outside(policy, after, new, resource)


def _outside(
    policy: ContainerPolicy, pod: Pod, container: Container, resource: Resource
) -> Iterator[str]:
    amount = limits.amount_of(container.spec.requests, resource)
    least = limits.amount_of(policy.min_allowed, resource)
    most = limits.amount_of(policy.max_allowed, resource)
    where = f"{pod.namespace}/{pod.name} {container.name}: {resource} of {amount}"
    if most and amount > most:
        yield f"{where} is above maxAllowed {most}"
    # The later rule wins: of contradictory bounds the upper one, then the container's own limit.
    is_held_down = policy.controlled_values is ControlledValues.REQUESTS_ONLY and (
        amount == limits.amount_of(container.spec.limits, resource)
    )
    if amount < least and not (most and most < least) and not is_held_down:
        yield f"{where} is below minAllowed {least}"
