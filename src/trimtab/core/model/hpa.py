"""HorizontalPodAutoscalers (HPAs) beside ours: the workloads and resources that they scale on.

An HPA adds pods when requests are used up; a vertical autoscaler changes the requests. On the same
resource they chase each other: a smaller request means a higher utilization, so the HPA adds pods,
and each pod then uses less. Such a resource is held: the recommender still recommends it, and no
component applies it.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from trimtab.core.model.autoscalers import (
    Autoscaler,
    AutoscalerName,
    ContainerRecommendation,
    Held,
    UpdateMode,
)
from trimtab.core.model.pods import WorkloadName
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.model.workloads import Known, owners_above

_KEPT: Final = 32_768
"""Number of marked autoscalers that are remembered, half a kilobyte each.

In a cluster with more, a loop over all autoscalers marks each of them again every time.
"""


class HpaConflict(StrEnum):
    """The reaction to an HPA that scales on a resource that one of our autoscalers applies."""

    HOLD = "hold"
    """The resource is applied no longer, and a condition says so."""
    WARN = "warn"
    """A condition says so, and nothing else is done."""
    IGNORE = "ignore"
    """Horizontal autoscalers are not looked at."""


@dataclass(frozen=True, slots=True)
class Horizontal:
    """A HorizontalPodAutoscaler, as far as it scales on CPU or memory."""

    namespace: str
    name: str
    target_kind: str
    target_name: str
    resources: frozenset[Resource] = frozenset()
    """The resources whose usage by whole pods it scales on."""
    container_resources: frozenset[Held] = frozenset()
    """The resources whose usage by single containers it scales on."""

    @property
    def target(self) -> WorkloadName:
        """The workload that it scales."""
        return WorkloadName(self.namespace, self.target_kind, self.target_name)

    @property
    def claims(self) -> frozenset[Held]:
        """The resources, each with its container or all containers (`*`), that it scales on."""
        return self.container_resources | {Held(each) for each in self.resources}

    @property
    def all_resources(self) -> frozenset[Resource]:
        """The resources that it scales on, of any container."""
        return frozenset(claim.resource for claim in self.claims)


@dataclass(frozen=True, slots=True)
class HpaClaim:
    """One resource of an autoscaler's containers that a horizontal autoscaler scales on."""

    horizontal: str
    """Its name."""
    resource: Resource
    containers: tuple[str, ...] = ()
    """The containers that it counts; empty for all."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """The known HPAs, found by the workload that they scale or by namespace."""

    by_target: Callable[[WorkloadName], Sequence[Horizontal]]
    by_namespace: Callable[[str], Sequence[Horizontal]]
    known: Known

    def of(self, workload: WorkloadName) -> Sequence[Horizontal]:
        """Return the HPAs that scale the workload itself, or another one that it owns."""
        direct = self.by_target(workload)
        if self.known(workload) is not None:
            # What well-known kinds own is not scaled apart from them, so most need no second look.
            return direct
        owned = [
            each
            for each in self.by_namespace(workload.namespace)
            if workload in owners_above(each.target, self.known)
        ]
        return (*direct, *owned) if owned else direct


def scaling_among(horizontals: Iterable[Horizontal], known: Known) -> Scaling:
    """Return the same lookup over a given collection of HPAs."""
    by_target: defaultdict[WorkloadName, list[Horizontal]] = defaultdict(list)
    by_namespace: defaultdict[str, list[Horizontal]] = defaultdict(list)
    for each in horizontals:
        by_target[each.target].append(each)
        by_namespace[each.namespace].append(each)
    return Scaling(
        lambda name: by_target.get(name, ()), lambda name: by_namespace.get(name, ()), known
    )


def find_claims(
    autoscaler: Autoscaler,
    recommendation: Sequence[ContainerRecommendation],
    horizontals: Iterable[Horizontal],
) -> tuple[HpaClaim, ...]:
    """Return the HPAs' claims on resources of the recommendation, ordered by the HPAs' names.

    An autoscaler that only recommends conflicts with no HPA.
    """
    if autoscaler.mode is UpdateMode.OFF and not autoscaler.boosts:
        return ()
    # By name, so that the text of a condition does not change with the order of a store.
    named = sorted(horizontals, key=lambda each: each.name)
    return tuple(claim for each in named for claim in _claims_of(each, recommendation))


def _claims_of(
    horizontal: Horizontal, recommendation: Sequence[ContainerRecommendation]
) -> Iterator[HpaClaim]:
    claims = horizontal.claims
    for resource in BOTH:
        known = [each.container_name for each in recommendation if resource in each.target]
        if not known:
            continue
        if Held(resource) in claims:
            yield HpaClaim(horizontal.name, resource)
        elif only := tuple(name for name in known if Held(resource, name) in claims):
            yield HpaClaim(horizontal.name, resource, only)


@dataclass(frozen=True, slots=True)
class _Marked:
    """An autoscaler as it was given, the HPAs found beside it, and the marked result."""

    given: Autoscaler
    found: Sequence[Horizontal]
    marked: Autoscaler


class Marking:
    """Marks autoscalers with the resources that HPAs of the same workload hold.

    While nothing changes the result is the same object, so that values derived from it stay valid.
    """

    def __init__(self, find: Callable[[WorkloadName], Sequence[Horizontal]]) -> None:
        self._find = find
        self._known: OrderedDict[AutoscalerName, _Marked] = OrderedDict()

    def mark(self, autoscaler: Autoscaler) -> Autoscaler:
        """Return the autoscaler with its held resources; the same object where nothing is held."""
        target = autoscaler.target
        if target is None:
            return autoscaler
        found = self._find(WorkloadName(autoscaler.namespace, target.kind, target.name))
        if not found:
            return autoscaler
        name = autoscaler.identity
        known = self._known.get(name)
        # Called for every new pod, so claims are collected only if something has changed.
        if known is None or known.given is not autoscaler or known.found != found:
            known = self._known[name] = _mark(autoscaler, found, known)
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(name)
        return known.marked


def _mark(autoscaler: Autoscaler, found: Sequence[Horizontal], before: _Marked | None) -> _Marked:
    held = frozenset[Held]().union(*(each.claims for each in found))
    if before is not None and before.given is autoscaler and before.marked.held == held:
        return replace(before, found=found)
    return _Marked(autoscaler, found, replace(autoscaler, held=held) if held else autoscaler)
