"""Accuracy metrics: container usage compared with the recommendation in force at that time.

Each accepted sample is compared with the uncapped target that stood when the sample was read.
The metrics have the original's names. Everything runs on arrays, with a few calls per tick.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from trimtab.core.histogram import row_table
from trimtab.core.histogram.buckets import CORE, Floats, Ints
from trimtab.core.model.autoscalers import AutoscalerName, UpdateMode
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.recommendation.recommender import UncappedTargets
from trimtab.recommender.prometheus_types import ArrayHistogram, PlainCounter
from trimtab.recommender.reports import Accepted, TickReport
from trimtab.recommender.state import AutoscalerState, RecommenderState

_POSITIVE: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1),
    *(2.5, 5, 10, 25, 50, 100),
)
_RELATIVE: Final = (*(-bound for bound in reversed(_POSITIVE[:11])), 0, *_POSITIVE)
_CORES: Final = tuple(0.01 * 2**power for power in range(17))
_BYTES: Final = tuple(1e6 * 2**power for power in range(17))
_MODES: Final = ("", *UpdateMode)
_BOOLEANS: Final = ("false", "true")
_LARGEST_SIZE: Final = 20
_NO_GROUP: Final = -1
_SCALES: Final = {Resource.CPU: CORE, Resource.MEMORY: 1.0}

RELATIVE_DIFFERENCES: Final = ArrayHistogram(
    "vpa_quality_usage_recommendation_relative_diffs",
    "How far usage was from the recommendation, as a part of it.",
    ["update_mode", "resource", "is_oom"],
    _RELATIVE,
)
MISSING: Final = PlainCounter(
    "vpa_quality_usage_sample_missing_recommendation_count",
    "How many samples came when nothing was recommended yet.",
    ["update_mode", "resource", "is_oom"],
)
CPU_OVER: Final = ArrayHistogram(
    "vpa_quality_cpu_recommendation_over_usage_diffs_cores",
    "By how much the recommendation was above usage.",
    ["update_mode", "recommendation_missing"],
    _CORES,
)
CPU_UNDER: Final = ArrayHistogram(
    "vpa_quality_cpu_recommendation_lower_equal_usage_diffs_cores",
    "By how much the recommendation was below usage, or equal to it.",
    ["update_mode", "recommendation_missing"],
    _CORES,
)
MEMORY_OVER: Final = ArrayHistogram(
    "vpa_quality_mem_recommendation_over_usage_diffs_bytes",
    "By how much the recommendation was above usage.",
    ["update_mode", "recommendation_missing", "is_oom"],
    _BYTES,
)
MEMORY_UNDER: Final = ArrayHistogram(
    "vpa_quality_mem_recommendation_lower_equal_usage_diffs_bytes",
    "By how much the recommendation was below usage, or equal to it.",
    ["update_mode", "recommendation_missing", "is_oom"],
    _BYTES,
)
CPU_RECOMMENDATIONS: Final = ArrayHistogram(
    "vpa_quality_cpu_recommendations_cores",
    "What was recommended when a sample came.",
    ["update_mode"],
    _CORES,
)
MEMORY_RECOMMENDATIONS: Final = ArrayHistogram(
    "vpa_quality_mem_recommendations_bytes",
    "What was recommended when a sample came.",
    ["update_mode", "is_oom"],
    _BYTES,
)
CHANGES: Final = ArrayHistogram(
    "vpa_quality_relative_recommendation_changes",
    "How far a recommendation moved in a tick, as a part of what it was.",
    ["update_mode", "resource", "vpa_size_log2"],
    _RELATIVE,
)


@dataclass(frozen=True, slots=True)
class _LastTargets:
    """Uncapped targets, update modes and group links at the end of a tick."""

    targets: UncappedTargets
    modes: Ints
    """Update mode of each group, as an index into `_MODES`."""
    group_of: Ints
    """Group that each aggregate feeds; negative if there is none."""


class QualityMeter:
    """Compares samples with the recommendations that stood before they came."""

    def __init__(self) -> None:
        self._last: _LastTargets | None = None

    def note(self, report: TickReport, state: RecommenderState) -> None:
        """Count the samples of a tick, and the changes of recommendations in it."""
        if self._last is not None:
            for accepted in report.accepted:
                _compare(self._last, accepted)
        targets = state.publications.uncapped_targets()
        last = _LastTargets(targets, _modes(targets, state.subjects), _groups_by_aggregate(targets))
        if self._last is not None:
            _count_changes(self._last.targets, last, state.usage.aggregates.ints("feeders"))
        self._last = last


def _modes(targets: UncappedTargets, subjects: Mapping[AutoscalerName, AutoscalerState]) -> Ints:
    places = {name: _MODES.index(subject.autoscaler.mode) for name, subject in subjects.items()}
    return np.array([places.get(name, 0) for name in targets.owners], np.int64)


def _groups_by_aggregate(targets: UncappedTargets) -> Ints:
    rows, sizes = targets.layout.aggregates, targets.layout.sizes
    groups = np.full(int(rows.max(initial=-1)) + 1, _NO_GROUP)
    groups[rows] = np.repeat(np.arange(len(sizes)), sizes)
    return groups


def _compare(last: _LastTargets, accepted: Accepted) -> None:
    """Observe samples, by the update mode of the autoscalers that recommend for them."""
    # groups, targets, modes: int64[samples]; usage: float64[samples]
    within = accepted.aggregates < len(last.group_of)
    groups = last.group_of[accepted.aggregates[within]]
    usage = accepted.values[within][groups >= 0]
    groups = groups[groups >= 0]
    targets = last.targets.amounts[groups, BOTH.index(accepted.resource)]
    modes = last.modes[groups]
    scale = _SCALES[accepted.resource]
    is_oom = _BOOLEANS[accepted.is_oom_kill]
    for mode, is_missing in product(row_table.list_distinct(modes).tolist(), (False, True)):
        chosen = (modes == mode) & ((targets < 0) == is_missing)
        recommended = np.maximum(targets[chosen], 0) / scale
        pair = _Pair(accepted.resource, usage[chosen] / scale, recommended)
        _observe(pair, _MODES[mode], is_oom, is_missing=is_missing)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Usage and recommendation of the same samples, in cores or bytes."""

    resource: Resource
    usage: Floats
    recommended: Floats


def _observe(pair: _Pair, mode: str, is_oom: str, *, is_missing: bool) -> None:
    missing, resource = _BOOLEANS[is_missing], pair.resource
    excess = pair.recommended - pair.usage
    above, below = excess[excess > 0], -excess[excess <= 0]
    if resource is Resource.CPU:
        CPU_OVER.observe(above, mode, missing)
        CPU_UNDER.observe(below, mode, missing)
    else:
        MEMORY_OVER.observe(above, mode, missing, is_oom)
        MEMORY_UNDER.observe(below, mode, missing, is_oom)
    if is_missing:
        MISSING.add(mode, resource, is_oom, count=len(excess))
        return
    positive = pair.recommended > 0
    relative = -excess[positive] / pair.recommended[positive]
    RELATIVE_DIFFERENCES.observe(relative, mode, resource, is_oom)
    if resource is Resource.CPU:
        CPU_RECOMMENDATIONS.observe(pair.recommended, mode)
    else:
        MEMORY_RECOMMENDATIONS.observe(pair.recommended, mode, is_oom)


def _count_changes(before: UncappedTargets, last: _LastTargets, feeders: Ints) -> None:
    """Observe relative changes of targets, for groups that had a target before."""
    after = last.targets
    if not len(after.layout):
        return
    # old: int64[groups, resources]; pods, sizes, kinds: int64[groups]
    old = _align(before, after)
    pods = np.add.reduceat(feeders[after.layout.aggregates], after.layout.starts)
    sizes = np.minimum(np.log2(np.maximum(pods, 1)).astype(np.int64), _LARGEST_SIZE)
    kinds = last.modes + len(_MODES) * sizes
    for column, resource in enumerate(BOTH):
        comparable = (old[:, column] > 0) & (after.amounts[:, column] >= 0)
        for kind in row_table.list_distinct(kinds[comparable]).tolist():
            chosen = comparable & (kinds == kind)
            changes = after.amounts[chosen, column] / old[chosen, column] - 1
            size, mode = divmod(kind, len(_MODES))
            CHANGES.observe(changes, _MODES[mode], resource, str(size))


def _align(before: UncappedTargets, after: UncappedTargets) -> Ints:
    """Return earlier targets in the order of the current groups; negative for new groups."""
    if before.owners is after.owners:
        return before.amounts
    if not len(before.amounts):
        return np.full_like(after.amounts, _NO_GROUP)
    places = {key: place for place, key in enumerate(_keys(before))}
    found = np.array([places.get(key, _NO_GROUP) for key in _keys(after)], np.int64)
    return np.where(found[:, np.newaxis] >= 0, before.amounts[found], _NO_GROUP)


def _keys(targets: UncappedTargets) -> Iterator[tuple[AutoscalerName, int, int]]:
    """Yield a key for each group: its autoscaler, the autoscaler's group count, and its index."""
    totals, counts = Counter(targets.owners), Counter[AutoscalerName]()
    for owner in targets.owners:
        yield owner, totals[owner], counts[owner]
        counts[owner] += 1
