"""Estimates for many containers at once: from percentiles to amounts, on arrays.

A row is one container of one autoscaler; its three columns are target, lower and upper bound. The
steps, their order and every truncation between them are the original's: percentile, margin,
confidence, floor, rounding, then caps.
"""

from datetime import timedelta
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from trimtab.core.histogram import buckets
from trimtab.core.histogram.buckets import CORE, Floats, Ints
from trimtab.core.model import recommendation
from trimtab.core.model.recommendation import RecommendationSettings
from trimtab.core.model.resources import Resource

TARGET, LOWER, UPPER = range(3)

_UNITS: Final = {Resource.CPU: float(CORE), Resource.MEMORY: 1.0}
# As in the original: the lower bound is multiplied by (1 + 0.001 / confidence) ** -2, the upper
# one by 1 + 1 / confidence. After one day of history that doubles the upper bound.
_LOWER_MULTIPLIER: Final = 0.001
_UPPER_MULTIPLIER: Final = 1.0
_MINUTE: Final = timedelta(minutes=1)


def confidence(first: Floats, last: Floats, counts: Ints, interval: timedelta) -> Floats:
    """Return the confidence in each history: 1 with a sample a minute over the whole interval.

    More history gives more than 1. A row without samples has its first one at +inf and its last one
    at -inf, and no confidence.
    """
    # An empty history has +inf and -inf, which would give a negative lifespan.
    known = np.isfinite(first) & np.isfinite(last) & (counts > 0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        lifespan = np.where(known, last, 0.0) - np.where(known, first, 0.0)
        ages = np.maximum(lifespan, 0.0) / interval.total_seconds()
        # The smaller of the days of history and the days of samples: gaps count against it.
        confidences: Floats = np.fmin(ages, counts / np.float64(interval / _MINUTE))
    return confidences


class Estimate(NamedTuple):
    """Target, lower and upper bound of each row in whole numbers, after each step.

    Every field has the shape [rows, 3], in the order `TARGET, LOWER, UPPER`.
    """

    base: Floats
    with_margin: Floats
    scaled: Floats
    """Scaled by the confidence factors."""
    floored: Ints


def estimate(
    percentiles: Floats, confidences: Floats, floors: Ints, margin_fraction: float
) -> Estimate:
    """Estimate target, lower and upper bound of each row, in the percentiles' unit."""
    base = buckets.truncate(percentiles)
    # Without confidence a factor is infinite, and zero times that is NaN. Both are intended:
    # infinity becomes the largest estimate, and NaN becomes zero and then the floor.
    with np.errstate(invalid="ignore", over="ignore"):
        # Truncated by itself, as in the original: 101m with 15 % is 101 + 15, not 116.15.
        with_margin = base + buckets.truncate(base * margin_fraction)
        scaled = buckets.truncate(with_margin * confidence_factors(confidences))
    floored = np.maximum(scaled, floors[:, np.newaxis]).astype(np.int64)
    return Estimate(base, with_margin, scaled, floored)


def to_amounts(resource: Resource, percentiles: Floats) -> Floats:
    """Convert a bank's cores or bytes to millicores or bytes."""
    return percentiles * _UNITS[resource]


def split_floor(pod_floor: int, live_containers: Ints) -> Ints:
    """Return the part of a pod's floor for one of its containers, given their number."""
    # Multiplied by the inverse, as in the original: a division rounds differently.
    return buckets.truncate(pod_floor * (1.0 / np.maximum(live_containers, 1))).astype(np.int64)


def round_up(amounts: Ints, multiple: int) -> Ints:
    """Round amounts up to a multiple; a multiple of 1 or less leaves them alone."""
    # Floor division of the negated amount rounds up, without a detour through floats.
    return amounts if multiple <= 1 else -(-amounts // multiple) * multiple


def finish(resource: Resource, amounts: Ints, settings: RecommendationSettings) -> Ints:
    """Round amounts as the settings of the operator ask."""
    rounded = round_up(amounts, settings.of(resource).rounding)
    if resource is Resource.MEMORY and settings.humanize_memory:
        flat = [recommendation.humanize(amount) for amount in rounded.ravel().tolist()]
        return np.array(flat, dtype=np.int64).reshape(rounded.shape)
    return rounded


def cap(amounts: Ints, least: ArrayLike, most: ArrayLike) -> Ints:
    """Bring amounts inside their caps; the upper cap wins where the two contradict each other."""
    return np.minimum(np.maximum(amounts, least), most)


def confidence_factors(confidences: Floats) -> Floats:
    """Return the factors of target, lower and upper bound, float64[rows, 3].

    The factor of an upper bound without confidence is infinite.
    """
    with np.errstate(divide="ignore", over="ignore"):
        lower = 1 + _LOWER_MULTIPLIER / confidences
        upper = 1 + _UPPER_MULTIPLIER / confidences
        return np.stack([np.ones_like(confidences), 1 / (lower * lower), upper], axis=1)
