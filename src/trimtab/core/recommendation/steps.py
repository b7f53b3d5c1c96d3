"""Steps of recommendations: from histories to amounts, for many containers at once.

A row is a group (`groups.py`), the columns are target, lower and upper bound. The recommender
publishes the last of these steps; an explanation shows all of them (`core/explain`). The rules of
most steps are in `estimators.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np

from trimtab.core.histogram import buckets
from trimtab.core.histogram.buckets import CORE, Buckets, Floats, Ints
from trimtab.core.histogram.memory_peaks import Booleans
from trimtab.core.model.recommendation import RecommendationSettings
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.recommendation import estimators
from trimtab.core.recommendation.groups import GroupColumns
from trimtab.core.usage.aggregates import Aggregates


class StepKind(StrEnum):
    """The kind of a step; users see the value."""

    PERCENTILE = "percentile"
    MARGIN = "margin"
    CONFIDENCE = "confidence"
    HELD = "held"
    """For the cost-based estimator: the target that is held, and bounds close to it."""
    POD_MINIMUM = "podMinimum"
    OOM_KILLS = "oomKills"
    ROUNDING = "rounding"
    INTEGER_CPU = "integerCpu"
    MIN_ALLOWED = "minAllowed"
    MAX_ALLOWED = "maxAllowed"
    CLOSE_BOUNDS = "closeBounds"
    """For the cost-based estimator: bounds close to a target that rounding or caps have moved."""
    RELEARNING = "relearning"
    """For a lost history: no amount falls below the earlier recommendation (`relearning.py`)."""


_UNCAPPED = StepKind.INTEGER_CPU
"""The last step before caps."""

Steps: TypeAlias = Mapping[StepKind, Ints | Floats]
"""Whole amounts after each step, in their order."""


@dataclass(frozen=True, slots=True)
class History:
    """The times of the first and last sample of each group, and the number of samples."""

    first: Floats
    last: Floats
    count: Ints


@dataclass(frozen=True, slots=True)
class EstimateSteps:
    """All steps of one resource for all groups."""

    buckets: Buckets
    """The buckets in which percentiles were found, uint8[groups, quantiles]."""
    confidences: Floats
    floors: Ints
    """The part of the pod's floor that each group gets."""
    oom_floors: Floats
    """The need that OOM kills showed; 0 where there were none."""
    steps: Steps
    lacking: Booleans
    """True for groups without anything known of the resource."""

    def published(self) -> Ints:
        """Return target, lower bound, upper bound and uncapped target, int64[groups, 4]."""
        last, uncapped = list(self.steps.values())[-1], self.steps[_UNCAPPED]
        return np.column_stack([last, uncapped[:, estimators.TARGET]])


def estimate_steps(
    aggregates: Aggregates,
    layout: GroupColumns,
    settings: RecommendationSettings,
    held: Floats | None = None,
) -> tuple[EstimateSteps, ...]:
    """Return the steps of each resource, in the order of `BOTH`; needs at least one group.

    `held` is float64[groups, resources, 3]: targets and bounds of groups that hold their targets.
    """
    # One pass for all groups and both resources; an explanation calls it for a single group.
    found = _Found(aggregates, layout, merge_history(aggregates, layout), held)
    # `reduceat` needs ascending starts, and at least one aggregate in each group.
    needed = np.maximum.reduceat(aggregates.oom_floors()[layout.aggregates], layout.starts)
    # OOM kills say nothing about CPU.
    floors = {Resource.MEMORY: needed, Resource.CPU: np.zeros_like(needed)}
    return tuple(_work_out(resource, found, settings, floors[resource]) for resource in BOTH)


def merge_history(aggregates: Aggregates, layout: GroupColumns) -> History:
    """Merge the sample times and counts of the aggregates of each group."""
    starts, rows = layout.starts, layout.aggregates
    return History(
        np.minimum.reduceat(aggregates.floats("first")[rows], starts),
        np.maximum.reduceat(aggregates.floats("last")[rows], starts),
        np.add.reduceat(aggregates.ints("count")[rows], starts),
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """The inputs of all groups."""

    aggregates: Aggregates
    layout: GroupColumns
    history: History
    held: Floats | None


def _work_out(
    resource: Resource, found: _Found, settings: RecommendationSettings, oom_floors: Floats
) -> EstimateSteps:
    layout, history = found.layout, found.history
    of_resource = settings.of(resource)
    reached, empty = _merge_buckets(found.aggregates, resource, layout)
    percentiles = found.aggregates.bank(resource).ends_of(reached)
    floors = _split_floors(resource, layout, of_resource.pod_floor)
    # By the CPU samples for both resources, as in the original: memory has one peak per day.
    confidences = estimators.confidence(
        history.first, history.last, history.count, of_resource.confidence_interval
    )
    in_amounts = estimators.to_amounts(resource, percentiles)
    estimated = estimators.estimate(in_amounts, confidences, floors, settings.margin_fraction)
    floored, lacking = estimated.floored, empty & (oom_floors == 0)
    steps: dict[StepKind, Ints | Floats] = {
        StepKind.PERCENTILE: estimated.base,
        StepKind.MARGIN: estimated.with_margin,
        StepKind.CONFIDENCE: estimated.scaled,
    }
    if found.held is not None:
        is_held, held = layout.groups["is_held"], found.held[:, BOTH.index(resource)]
        kept = np.where(is_held[:, np.newaxis], buckets.truncate(held), estimated.scaled)
        steps[StepKind.HELD] = kept
        floored = np.maximum(kept, floors[:, np.newaxis]).astype(np.int64)
        # A held target answers OOM kills by itself.
        oom_floors = np.where(is_held, 0.0, oom_floors)
        lacking = np.where(is_held, np.isnan(held[:, estimators.TARGET]), lacking)
    steps[StepKind.POD_MINIMUM] = floored
    steps |= _finish(resource, _raise_targets(floored, oom_floors), layout, settings)
    if found.held is not None:
        steps[StepKind.CLOSE_BOUNDS] = _bring_close(resource, steps, layout, settings)
    return EstimateSteps(reached, confidences, floors, oom_floors, steps, lacking)


def _split_floors(resource: Resource, layout: GroupColumns, pod_floor: int) -> Ints:
    # int64[groups]: a pod of three containers splits 25m into 8m each.
    floors = estimators.split_floor(pod_floor, layout.groups["live"])
    least = layout.groups["min"][:, BOTH.index(resource)]
    # A policy whose `minAllowed` is below the floor intends that.
    return np.where(least > 0, np.minimum(floors, least), floors)


def _raise_targets(amounts: Ints, floors: Floats) -> Ints:
    """Raise targets to their floors, and upper bounds to their targets.

    Lower bounds stay: pods that never came near the floor need not be replaced at once.
    """
    if not floors.any():
        return amounts
    raised = amounts.copy()
    target = np.maximum(amounts[:, estimators.TARGET], buckets.truncate(floors).astype(np.int64))
    raised[:, estimators.TARGET] = target
    raised[:, estimators.UPPER] = np.maximum(amounts[:, estimators.UPPER], target)
    return raised


def _finish(
    resource: Resource, amounts: Ints, layout: GroupColumns, settings: RecommendationSettings
) -> Steps:
    """Return the last steps, from needed amounts to amounts that may be published."""
    column = BOTH.index(resource)
    rounded = whole = estimators.finish(resource, amounts, settings)
    if resource is Resource.CPU:
        cores = estimators.round_up(rounded, CORE)
        whole = np.where(layout.groups["integer_cpu"][:, np.newaxis], cores, rounded)
    least, most = layout.groups["min"][:, [column]], layout.groups["max"][:, [column]]
    return {
        StepKind.OOM_KILLS: amounts,
        StepKind.ROUNDING: rounded,
        StepKind.INTEGER_CPU: whole,
        StepKind.MIN_ALLOWED: np.maximum(whole, least),
        StepKind.MAX_ALLOWED: estimators.cap(whole, least, most),
    }


def _bring_close(
    resource: Resource, steps: Steps, layout: GroupColumns, settings: RecommendationSettings
) -> Ints:
    """Return the last step: bounds of held targets close to the target that is published.

    Rounding and caps move targets and bounds by different amounts. A pod outside 5 % of its target
    has to be outside its bounds, or no updater lets it follow.
    """
    fraction = settings.cost.bound_fraction
    held, capped = steps[StepKind.HELD], steps[StepKind.MAX_ALLOWED].astype(np.int64)
    column, is_held = BOTH.index(resource), layout.groups["is_held"]
    least, most = layout.groups["min"][:, column], layout.groups["max"][:, column]
    target, aimed = capped[:, estimators.TARGET], held[:, estimators.TARGET]
    # Bounds that are further away leave pods alone that have what they need (`cost/held`).
    is_moved = is_held & (target != aimed)
    follows_up = is_moved & (held[:, estimators.LOWER] >= aimed * (1 - fraction) - 1)
    follows_down = is_moved & (held[:, estimators.UPPER] <= aimed * (1 + fraction) + 1)
    below, above = ((target * factor).astype(np.int64) for factor in (1 - fraction, 1 + fraction))
    lower = np.minimum(np.maximum(below, least), target)
    upper = np.maximum(np.minimum(above, most), target)
    close = capped.copy()
    close[follows_up, estimators.LOWER] = lower[follows_up]
    close[follows_down, estimators.UPPER] = upper[follows_down]
    return close


def _merge_buckets(
    aggregates: Aggregates, resource: Resource, layout: GroupColumns
) -> tuple[Buckets, Booleans]:
    """Return the buckets of each group's percentiles, and True per group without any weight."""
    bank, sizes = aggregates.bank(resource), layout.sizes
    rows = aggregates.bank_rows(resource, layout.aggregates)
    reached = np.zeros((len(sizes), len(bank.quantiles)), np.uint8)
    empty = np.zeros(len(sizes), np.bool_)
    alone, together = np.flatnonzero(sizes == 1), np.flatnonzero(sizes > 1)
    # The remembered percentiles of the bank answer for these; only real merges walk histograms.
    lone_rows = rows[layout.starts[alone]]
    reached[alone], empty[alone] = bank.reached(lone_rows), bank.is_empty(lone_rows)
    if len(together):
        # Sizes [1, 3, 2] give members [F, T, T, T, T, T] and group_of [0, 0, 0, 1, 1].
        members = np.repeat(sizes > 1, sizes)
        group_of = np.repeat(np.arange(len(together)), sizes[together])
        merged = bank.merged_by(rows[members], group_of, len(together))
        everything = np.arange(len(together))
        reached[together], empty[together] = merged.reached(), merged.is_empty(everything)
    return reached, empty
