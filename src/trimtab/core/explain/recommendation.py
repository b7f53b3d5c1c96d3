"""Explanation of a recommendation: the steps that led to each number of an autoscaler.

The steps are not computed here: they are those of `recommendation/steps.py`, for one autoscaler
alone. They are records; `api/explain` and `cli/explain` format them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

import numpy as np

from trimtab.core.explain import held as held_targets
from trimtab.core.explain.held import HeldCpu, HeldMemory
from trimtab.core.histogram import buckets
from trimtab.core.histogram.buckets import CPU_BUCKETS, MEMORY_BUCKETS, BucketScheme
from trimtab.core.model.autoscalers import AutoscalerName, ContainerRecommendation
from trimtab.core.model.recommendation import RecommendationSettings
from trimtab.core.model.resources import BOTH, MAX_AMOUNT, Resource, Resources
from trimtab.core.recommendation import estimators, groups, steps
from trimtab.core.recommendation.cost.held import HeldTargets
from trimtab.core.recommendation.cost.publishing import HeldPublications
from trimtab.core.recommendation.groups import GroupColumns
from trimtab.core.recommendation.steps import EstimateSteps, History, StepKind
from trimtab.core.usage import aggregates
from trimtab.core.usage.cluster_usage import Usage
from trimtab.core.usage.sample_log import NameTable

_SCHEMES: Final = {Resource.CPU: CPU_BUCKETS, Resource.MEMORY: MEMORY_BUCKETS}


class Number(StrEnum):
    """Kind of number in a recommendation; the value is that of the API."""

    TARGET = "target"
    LOWER_BOUND = "lowerBound"
    UPPER_BOUND = "upperBound"


_COLUMNS: Final = {
    Number.TARGET: estimators.TARGET,
    Number.LOWER_BOUND: estimators.LOWER,
    Number.UPPER_BOUND: estimators.UPPER,
}


class MissingNumber(StrEnum):
    """Reason why there is no number; the value names it to users."""

    NOT_CONTROLLED = "NotControlled"
    """The policy controls other resources only."""
    NO_SAMPLES = "NoSamples"
    """There are no samples, so nothing is recommended."""


@dataclass(frozen=True, slots=True)
class ExplainedStep:
    """One step of the working of a number."""

    kind: StepKind
    before: int | None
    """None of the first step."""
    after: int


@dataclass(frozen=True, slots=True)
class ExplainedBucket:
    """A bucket of a histogram, in whole amounts."""

    index: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class NumberWorking:
    """Working of one number: the steps that led to it."""

    number: Number
    percentile: float
    """Part of the history that lies below the end of the bucket."""
    bucket: ExplainedBucket | None
    """None for a history of OOM kills alone."""
    confidence_factor: float
    steps: tuple[ExplainedStep, ...]

    @property
    def amount(self) -> int:
        """Result of the last step."""
        return self.steps[-1].after


@dataclass(frozen=True, slots=True)
class ResourceWorking:
    """Working of the numbers of one resource of a container, or the reason for none."""

    resource: Resource
    numbers: tuple[NumberWorking, ...] = ()
    uncapped: int | None = None
    absence: MissingNumber | None = None
    confidence: float = 0.0
    floor: int = 0
    """The container's part of the pod's minimum, as far as its policy does not allow less."""
    oom_need: int = 0
    """Amount that OOM kills showed to be needed."""
    least: int | None = None
    """`minAllowed`."""
    most: int | None = None
    """`maxAllowed`, of the policy or of the operator."""
    held: HeldMemory | HeldCpu | None = None
    """Reasons of the held target, under the estimator `cost`."""
    by_percentile: int | None = None
    """The target that the estimator `percentile` would publish, where another one is in use."""

    def amounts(self) -> Mapping[Number, int]:
        """Return the amount of each number."""
        return {each.number: each.amount for each in self.numbers}


@dataclass(frozen=True, slots=True)
class ContainerWorking:
    """Working of all numbers of one container."""

    name: str
    sample_count: int
    first_sample: datetime | None
    last_sample: datetime | None
    history_count: int
    """Number of merged histories: one for each set of labels, and restored ones."""
    live_containers: int
    """Number of containers over which the minimum of the pod is split."""
    resources: tuple[ResourceWorking, ...]

    def recommendation(self) -> ContainerRecommendation | None:
        """Return the resulting recommendation; None if no controlled resource has samples."""
        known = [each for each in self.resources if each.absence is None]
        if not known and any(each.absence is MissingNumber.NO_SAMPLES for each in self.resources):
            return None
        target, lower, upper = (
            {each.resource: each.amounts()[number] for each in known} for number in Number
        )
        uncapped = {each.resource: each.uncapped for each in known if each.uncapped is not None}
        return ContainerRecommendation(self.name, target, lower, upper, uncapped)


def explain_containers(
    usage: Usage,
    name: AutoscalerName,
    settings: RecommendationSettings,
    held: HeldPublications | None = None,
) -> tuple[ContainerWorking, ...]:
    """Return the working of all numbers of a learning autoscaler, by container name.

    `held` has the targets of autoscalers that use the cost-based estimator.
    """
    learner, feeders = usage.links.learners[name], usage.aggregates.ints("feeders")
    block = groups.make_block(learner, feeders, settings)
    if not block.container_names:
        return ()
    if held is not None:
        held.find_rows(learner, block)
    layout = groups.lay_out({name: block})
    numbers = None if held is None else held.numbers(layout)
    workings = steps.estimate_steps(usage.aggregates, layout, settings, numbers)
    view = _View(layout, settings, workings, steps.merge_history(usage.aggregates, layout))
    explained = tuple(_explain(view, row, each) for row, each in enumerate(block.container_names))
    if held is None or numbers is None:
        return explained
    others = steps.estimate_steps(usage.aggregates, layout, settings)
    return tuple(
        _with_held(each, held.targets, int(layout.groups["held_row"][row]), usage.pod_names)
        if layout.groups["is_held"][row]
        else each
        for row, each in enumerate(_with_percentiles(explained, others))
    )


def _with_percentiles(
    explained: Sequence[ContainerWorking], others: Sequence[EstimateSteps]
) -> Iterator[ContainerWorking]:
    for row, container in enumerate(explained):
        targets = [int(each.published()[row, estimators.TARGET]) for each in others]
        known = [not bool(each.lacking[row]) for each in others]
        resources = tuple(
            replace(one, by_percentile=target if is_known else None)
            for one, target, is_known in zip(container.resources, targets, known, strict=True)
        )
        yield replace(container, resources=resources)


def _with_held(
    container: ContainerWorking, targets: HeldTargets, row: int, names: NameTable
) -> ContainerWorking:
    found: Mapping[Resource, HeldMemory | HeldCpu | None] = {
        Resource.CPU: held_targets.explain_cpu(targets, row),
        Resource.MEMORY: held_targets.explain_memory(targets, row, names),
    }
    resources = [
        one if one.absence is not None else replace(one, held=found[one.resource])
        for one in container.resources
    ]
    return replace(container, resources=tuple(resources))


def with_kept(
    workings: Sequence[ContainerWorking],
    kept: Iterable[ContainerRecommendation],
    relearning: AbstractSet[str],
) -> tuple[ContainerWorking, ...]:
    """Add a step to the workings of containers whose numbers stay up while they are learned again.

    The numbers of `kept` are the ones that are published in the end (`relearning.keep_up`).
    """
    said = {one.container_name: one for one in kept if one.container_name in relearning}
    return tuple(
        each if each.name not in said else _kept(each, said[each.name]) for each in workings
    )


@dataclass(frozen=True, slots=True)
class _View:
    """Inputs that explain all groups of one autoscaler."""

    layout: GroupColumns
    settings: RecommendationSettings
    workings: Sequence[EstimateSteps]
    history: History


def _explain(view: _View, row: int, name: str) -> ContainerWorking:
    history, group = view.history, view.layout.groups[row]
    lacks_all = all(bool(each.lacking[row]) for each in view.workings)
    return ContainerWorking(
        name,
        int(history.count[row]),
        aggregates.from_seconds(float(history.first[row])),
        aggregates.from_seconds(float(history.last[row])),
        int(group["size"]),
        int(group["live"]),
        tuple(
            _explain_resource(view, row, resource, working, lacks_all=lacks_all)
            for resource, working in zip(BOTH, view.workings, strict=True)
        ),
    )


def _explain_resource(
    view: _View, row: int, resource: Resource, working: EstimateSteps, *, lacks_all: bool
) -> ResourceWorking:
    group, column = view.layout.groups[row], BOTH.index(resource)
    is_controlled = bool(group["controlled"][column])
    # As published: a container without any samples has no recommendation.
    if lacks_all or (is_controlled and bool(working.lacking[row])):
        return ResourceWorking(resource, absence=MissingNumber.NO_SAMPLES)
    if not is_controlled:
        return ResourceWorking(resource, absence=MissingNumber.NOT_CONTROLLED)
    least, most = int(group["min"][column]), int(group["max"][column])
    percentiles = view.settings.of(resource).percentiles
    return ResourceWorking(
        resource,
        tuple(
            _explain_number(working, row, resource, number, percentiles[_COLUMNS[number]])
            for number in Number
        ),
        # The last column of `published` is the uncapped target.
        int(working.published()[row, -1]),
        confidence=float(working.confidences[row]),
        floor=int(working.floors[row]),
        oom_need=int(working.oom_floors[row]),
        least=least or None,
        most=None if most == MAX_AMOUNT else most,
    )


def _explain_number(
    working: EstimateSteps, row: int, resource: Resource, number: Number, percentile: float
) -> NumberWorking:
    column = _COLUMNS[number]
    explained: list[ExplainedStep] = []
    before = None
    # amounts: int64 or float64[groups, 3], with the columns of `_COLUMNS`.
    for kind, amounts in working.steps.items():
        after = int(amounts[row, column])
        explained.append(ExplainedStep(kind, before, after))
        before = after
    factors = estimators.confidence_factors(working.confidences[[row]])
    return NumberWorking(
        number,
        percentile,
        _bucket(resource, int(working.buckets[row, column])),
        float(factors[0, column]),
        tuple(explained),
    )


def _bucket(resource: Resource, index: int) -> ExplainedBucket | None:
    scheme: BucketScheme = _SCHEMES[resource]
    if index >= scheme.count:
        return None
    edges = estimators.to_amounts(resource, np.array([scheme.starts[index], scheme.ends[index]]))
    start, end = buckets.truncate(edges).astype(np.int64).tolist()
    return ExplainedBucket(index, start, end)


def _kept(working: ContainerWorking, said: ContainerRecommendation) -> ContainerWorking:
    amounts: dict[Number, Resources] = {
        Number.TARGET: said.target,
        Number.LOWER_BOUND: said.lower_bound or {},
        Number.UPPER_BOUND: said.upper_bound or {},
    }
    return replace(
        working,
        resources=tuple(
            each if each.absence is not None else _kept_resource(each, amounts)
            for each in working.resources
        ),
    )


def _kept_resource(
    working: ResourceWorking, amounts: Mapping[Number, Resources]
) -> ResourceWorking:
    def kept(each: NumberWorking) -> NumberWorking:
        after = amounts[each.number].get(working.resource, each.amount)
        return replace(
            each, steps=(*each.steps, ExplainedStep(StepKind.RELEARNING, each.amount, after))
        )

    return replace(working, numbers=tuple(map(kept, working.numbers)))
