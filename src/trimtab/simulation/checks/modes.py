"""Checks that running pods are changed only in the ways that their autoscaler's mode allows."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from trimtab.core.changes import change
from trimtab.core.changes.change import Thresholds
from trimtab.core.model import limits, matching, pods
from trimtab.core.model.autoscalers import Autoscaler, Held, UpdateMode
from trimtab.core.model.limit_ranges import LimitRangeItem
from trimtab.core.model.pods import PUT_OFF, Allocation, Container, Pod
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.sizing import capping, container_resources, startup_boost
from trimtab.simulation.checks import pod_changes
from trimtab.simulation.checks.admission import asked_for
from trimtab.simulation.checks.base import Checker, Rules
from trimtab.simulation.checks.convergence import is_in_vain
from trimtab.simulation.checks.hindsight import Hindsight
from trimtab.simulation.world.facts import Fact, PodCreated, PodEvicted, PodResized
from trimtab.simulation.world.objects import HorizontalScaler, WorkloadObject
from trimtab.simulation.world.tables import TableChange
from trimtab.simulation.world.world import World

_EVICTING: Final = (UpdateMode.RECREATE, UpdateMode.AUTO, UpdateMode.IN_PLACE_OR_RECREATE)
_RESIZING: Final = (UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.UPSCALE_ONLY)
# This rule lets the end of a boost resize other containers too; `BoostEnds` does not.
_SIZING: Final = (*_RESIZING, UpdateMode.RECREATE, UpdateMode.AUTO)
_ORDERLY: Final = ("Job", "StatefulSet", "DaemonSet")
"""Kinds of owners that may not, or not yet, replace an evicted pod by one like it."""


class Modes(Checker):
    """A pod is evicted or resized only as its autoscaler's mode says: UpscaleOnly never shrinks it.

    Off and Initial change only the end of a boost. InPlace never evicts a pod. Pods without an
    autoscaler are not changed, except to end a boost. An OOM-killed pod may grow in place under any
    evicting mode, if something may protect it from eviction (F22), and so may a pod that is not
    ready (D22). When a node defers the end of a
    boost, the updater may withdraw the growth that came with it.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._unboosted: set[str] = set()

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report changes that the mode does not allow."""
        match fact:
            case PodEvicted(actor=actor, pod=pod):
                ranges = self.past.limit_ranges(pod.namespace)
                governors = self.past.governors(pod, matching.acts_on_running_pods)
                if not any(_may_evict(pod, governor, ranges) for governor in governors):
                    yield f"{actor} evicted {_name(pod)} under {_mode(governors)}"
            case PodResized(actor=actor, before=before, after=after):
                governors = self.past.governors(before, matching.acts_on_running_pods)
                possible: list[Autoscaler | None] = [*governors] or [None]
                is_exempt = self._is_protected(before) and _rescues(before, after, governors)
                is_exempt |= before.ready_since is None and _only_grows(before, after, governors)
                is_exempt |= before.uid in self._unboosted and _gives_up(before, after)
                if startup_boost.boosted_containers(before):
                    self._unboosted.add(before.uid)
                if not is_exempt and not any(_may_resize(before, after, one) for one in possible):
                    yield f"{actor} resized {_name(before)} under {_mode(governors)}"
            case _:
                return

    def _is_protected(self, pod: Pod) -> bool:
        """Return True if something may prevent the pod's eviction for long.

        That is a PodDisruptionBudget, an annotation, an owner that is a Job or replaces pods in
        order, or a rollout. It is also too few replicas, siblings that are down, a limit range or
        quota for the successor, evicted pods that have no successor, or evictions that changed
        nothing (F16).
        """
        world, namespace = self.world, pod.namespace
        if (
            pods.keeps_from_eviction(pod.annotations)
            or pod.owner is None
            or pod.owner.kind in _ORDERLY
        ):
            return True
        bounds = (*world.limit_ranges, *world.quotas)
        budgets = [each for each in world.budgets if each.namespace == namespace]
        return (
            any(each.namespace == namespace for each in bounds)
            or any(each.selector.matches(pod.labels) for each in budgets)
            or len(world.pods_by_owner.under(pod.owner.uid)) < self.rules.disruption.min_replicas
            or self._lacks_siblings(pod)
            or any(map(self._lacks_pods, world.workloads_of("ReplicaSet")))
            or any(map(is_in_vain, self._present_autoscalers(pod)))
        )

    def _present_autoscalers(self, pod: Pod) -> list[Autoscaler]:
        """Return the autoscalers of the pod's workload as they are now, with their conditions."""
        workload = self.past.topmost(pod)
        return [
            each
            for each in self.world.autoscalers
            if each.target is not None
            and (each.namespace, each.target.kind, each.target.name) == workload
        ]

    def _lacks_siblings(self, pod: Pod) -> bool:
        """Return True if a sibling was not ready at the time of the plan, and may take the budget.

        The plan may be as old as the time that carrying it out takes.
        """
        siblings = () if pod.owner is None else self.world.pods_by_owner.under(pod.owner.uid)
        planned = self.world.now() - self.rules.carried_out_within
        return any(
            each.uid != pod.uid and (each.ready_since is None or each.ready_since >= planned)
            for each in siblings
        )

    def _lacks_pods(self, workload: WorkloadObject) -> bool:
        owned = self.world.pods_by_owner.under(workload.uid)
        return sum(not each.is_deleting for each in owned) < (workload.replicas or 0)


def _rescues(before: Pod, after: Pod, governors: list[Autoscaler]) -> bool:
    """Return True if an OOM-killed pod in an evicting mode is resized without shrinking."""
    has_died = any(map(pod_changes.ran_out_of_memory, before.containers))
    return has_died and _only_grows(before, after, governors)


def _only_grows(before: Pod, after: Pod, governors: list[Autoscaler]) -> bool:
    """Return True if a pod in an evicting mode is resized without shrinking."""
    pairs = list(zip(before.containers, after.containers, strict=True))
    may_go = any(governor.mode in _EVICTING for governor in governors)
    return may_go and not any(_shrinks(old, new, ()) for old, new in pairs)


def _gives_up(before: Pod, after: Pod) -> bool:
    """Return True if a deferred resize is withdrawn: no container gets more than it has."""
    return before.resize in PUT_OFF and not any(
        amount > limits.amount_of(old.current.requests, resource)
        for old, new in zip(before.containers, after.containers, strict=True)
        for resource, amount in (new.spec.requests or {}).items()
    )


def _may_evict(pod: Pod, governor: Autoscaler, ranges: list[LimitRangeItem]) -> bool:
    if governor.mode is UpdateMode.UPSCALE_ONLY:
        return _needs_more(pod, governor, ranges)
    return governor.mode in _EVICTING


def _needs_more(pod: Pod, governor: Autoscaler, ranges: list[LimitRangeItem]) -> bool:
    """Return True if the growth alone is large enough to act on (D18)."""
    scaled = container_resources.recommended_for_pod(pod, governor, ranges).keys()
    capped = capping.cap_for_pod(
        governor.recommendation, pod, governor.policies, ranges, governor.held
    )
    recommended = [each for each in capped.recommendations if each.container_name in scaled]
    growth = change.measure_change(pod, recommended, only_growth=True)
    enough = Thresholds().smallest_change
    return growth.outside_bounds or growth.relative_difference >= enough


def _may_resize(before: Pod, after: Pod, governor: Autoscaler | None) -> bool:
    boosted = startup_boost.boosted_containers(before)
    pairs = zip(before.containers, after.containers, strict=True)
    changed = [(old, new) for old, new in pairs if old.spec != new.spec]
    if governor is not None and governor.mode is UpdateMode.UPSCALE_ONLY:
        return not any(_shrinks(old, new, boosted) for old, new in changed)
    if boosted and all(new.name in boosted for _, new in changed):
        return True
    allowed = _SIZING if boosted else _RESIZING
    return governor is not None and governor.mode in allowed


def _shrinks(old: Container, new: Container, boosted: tuple[str, ...]) -> bool:
    """Return True if a container gets less than it has, except for CPU of a boost."""
    has = old.current
    free = {Resource.CPU} if new.name in boosted else set()
    return any(
        resource in (asked or {}) and (asked or {})[resource] < (given or {}).get(resource, 0)
        for resource in BOTH
        if resource not in free
        for asked, given in ((new.spec.requests, has.requests), (new.spec.limits, has.limits))
    )


def _mode(governors: list[Autoscaler]) -> str:
    return f"{governors[-1].name} ({governors[-1].mode})" if governors else "no autoscaler"


def _name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"


class HorizontalHolds(Checker):
    """No component changes a resource that a horizontal autoscaler of the workload scales on.

    The end of a boost is exempt, and so are components that cannot know of the HPA yet.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._begins = world.now()
        self._since = {(each.namespace, each.name): self._begins for each in world.scalers}
        world.scalers.subscribe(self._follow)

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report changes of resources that a horizontal autoscaler scales on."""
        match fact:
            case PodCreated(wanted=wanted, patch=patch) if patch:
                yield from self._check("admission", wanted, asked_for(fact))
            case PodResized(actor=actor, before=before, after=after):
                yield from self._check(actor, before, after)
            case _:
                return

    def _check(self, actor: str, before: Pod, after: Pod) -> Iterator[str]:
        held = self._held(before)
        boosted = startup_boost.boosted_containers(before)
        for old, new in zip(before.containers, after.containers, strict=True):
            for kind in BOTH:
                is_held = Held(kind) in held or Held(kind, new.name) in held
                ends_boost = kind is Resource.CPU and new.name in boosted
                if is_held and not ends_boost and not _is_same(kind, old.spec, new.spec):
                    where = f"{before.namespace}/{before.name} {new.name}"
                    yield f"{actor} changed {kind} of {where}, which is scaled on"

    def _held(self, pod: Pod) -> frozenset[Held]:
        workload, now = self.past.topmost(pod), self.world.now()
        found = [each for each in self.world.scalers if each.target == workload]
        known = [each for each in found if self._is_known(each, now)]
        return frozenset[Held]().union(*(each.known.claims for each in known))

    def _is_known(self, scaler: HorizontalScaler, now: datetime) -> bool:
        since = self._since[scaler.namespace, scaler.name]
        # Components list all objects before they act, so they know the initial ones.
        return since == self._begins or now - since > self.rules.staleness

    def _follow(self, event: TableChange[HorizontalScaler]) -> None:
        self._since[event.name.namespace, event.name.name] = self.world.now()


def _is_same(kind: Resource, old: Allocation, new: Allocation) -> bool:
    return limits.amount_of(old.requests, kind) == limits.amount_of(
        new.requests, kind
    ) and limits.amount_of(old.limits, kind) == limits.amount_of(new.limits, kind)
