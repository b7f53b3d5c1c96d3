"""Overview of containers: their requests beside their recommendations."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median_low
from typing import TypeAlias

from trimtab.core.model import matching
from trimtab.core.model.autoscalers import (
    Autoscaler,
    AutoscalerName,
    ContainerRecommendation,
    UpdateMode,
)
from trimtab.core.model.pods import Pod
from trimtab.core.model.resources import BOTH, Resources
from trimtab.core.updates.snapshot import Snapshot

_Requests: TypeAlias = dict[str, list[Resources]]
"""By container the requests of each pod."""


@dataclass(frozen=True, slots=True)
class ContainerView:
    """One container of the pods of an autoscaler."""

    autoscaler: AutoscalerName
    mode: UpdateMode
    container: str
    """Empty for an autoscaler of which no container is known."""
    pods: int = 0
    """Number of pods that have it."""
    request: Resources = field(default_factory=dict)
    """The lower median of their requests, by resource."""
    target: Resources = field(default_factory=dict)
    lower: Resources = field(default_factory=dict)
    upper: Resources = field(default_factory=dict)

    def differences(self) -> Resources:
        """Return the amounts by which targets exceed requests, where both are known."""
        return {
            resource: self.target[resource] - self.request[resource]
            for resource in BOTH
            if resource in self.target and resource in self.request
        }


def survey(snapshot: Snapshot) -> list[ContainerView]:
    """List all containers of all autoscalers, sorted by their names."""
    index = matching.index_by_workload(snapshot.autoscalers)
    governed: defaultdict[AutoscalerName, _Requests] = defaultdict(lambda: defaultdict(list))
    for observed in snapshot.pods:
        autoscaler = matching.governor_of(index, observed.workload, observed.pod.labels)
        if autoscaler is not None:
            _note(observed.pod, governed[autoscaler.identity])
    autoscalers = sorted(
        (observed.autoscaler for observed in snapshot.autoscalers), key=lambda one: one.identity
    )
    return [view for one in autoscalers for view in _views(one, governed[one.identity])]


def _note(pod: Pod, requests: _Requests) -> None:
    for container in pod.containers:
        requests[container.name].append(container.spec.requests or {})


def _views(autoscaler: Autoscaler, requests: _Requests) -> Iterator[ContainerView]:
    recommended = {one.container_name: one for one in autoscaler.recommendation or ()}
    names = sorted({*recommended, *requests}) or [""]
    for name in names:
        yield _view(autoscaler, name, requests.get(name, ()), recommended.get(name))


def _view(
    autoscaler: Autoscaler,
    container: str,
    requests: Sequence[Resources],
    recommendation: ContainerRecommendation | None,
) -> ContainerView:
    told = recommendation or ContainerRecommendation(container, {})
    return ContainerView(
        autoscaler.identity,
        autoscaler.mode,
        container,
        len(requests),
        _middle(requests),
        told.target,
        told.lower_bound or {},
        told.upper_bound or {},
    )


def _middle(requests: Sequence[Resources]) -> Resources:
    """Return the lower median of the requests for each resource that any pod requests."""
    found: Resources = {}
    for resource in BOTH:
        amounts = [each[resource] for each in requests if resource in each]
        if amounts:
            found = {**found, resource: median_low(amounts)}
    return found
