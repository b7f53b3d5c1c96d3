"""Publishing: decide which changes of a status to write.

Bounds move a little with every sample. A recommender that wrote each of these moves would write
every status in every tick. Readers act on targets, and on bounds only where these are crossed. So a
target is written at once, and so is a bound that moved past a container's request. Other moves of
bounds wait for their turn, unless they are large.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Final, TypeAlias

import numpy as np

from trimtab.core.histogram.buckets import Floats, Ints
from trimtab.core.histogram.memory_peaks import Booleans
from trimtab.core.model import validation
from trimtab.core.model.autoscalers import (
    Autoscaler,
    AutoscalerName,
    Condition,
    ContainerRecommendation,
)
from trimtab.core.model.resources import Resource, Resources


@dataclass(frozen=True, slots=True)
class PublishingSettings:
    """The amounts of change and the delays after which a status is written."""

    bound_move_fraction: float = 0.02
    """A bound is written at once if it moved by more than this part of what it was, past the
    request of a running container."""
    far_move_fraction: float = 0.5
    """A bound that moved by more than this part is written at once, whatever containers request."""
    drift_fraction: float = 0.002
    """A bound that moved by no more than this part drifts, and has `drift_patience`."""
    patience: timedelta = timedelta(minutes=10)
    """All other moves are written, in their turn, when nothing else was written for this time."""

    def __post_init__(self) -> None:
        validation.require_at_least("bound_move_fraction", self.bound_move_fraction, 0)
        validation.require_at_least("far_move_fraction", self.far_move_fraction, 0)
        validation.require_at_least("drift_fraction", self.drift_fraction, 0)
        validation.require_interval("patience", self.patience)

    @property
    def drift_patience(self) -> timedelta:
        """The time for which a bound may drift until it is written."""
        return _DRIFT_ROUNDS * self.patience


_LEAST: Final = 1e-9
"""Weight of a step of one: more than zero, but small, since one may be a large part of few."""
_DRIFT_ROUNDS: Final = 6

RequestSpans: TypeAlias = Mapping[str, Mapping[Resource, tuple[float, float]]]
"""The least and the most that the running containers of each name request."""


class StatusChange(IntEnum):
    """The weight of a change of a status, from none to the most important."""

    NONE = 0
    SMALL = 1
    """A bound moved, but not far."""
    MOVED = 2
    """A bound moved so far that it matters if it passed a request."""
    BOUND = 3
    """A bound moved far, or past a request."""
    CONDITION = 4
    SPEC = 5
    """The status is about an earlier generation of the object."""
    TARGET = 6
    """A target changed, or whether there is one."""


@dataclass(frozen=True, slots=True)
class StatusText:
    """The contents of an autoscaler's status, stored or wanted."""

    recommendation: Sequence[ContainerRecommendation]
    conditions: Sequence[Condition]
    generation: int | None = None
    """The generation of the object that it is about."""


def stored_status(autoscaler: Autoscaler) -> StatusText:
    """Return the status in the object of an autoscaler."""
    return StatusText(
        autoscaler.recommendation or (), autoscaler.conditions, autoscaler.observed_generation
    )


def find_change(
    stored: StatusText, wanted: StatusText, settings: PublishingSettings
) -> StatusChange:
    """Return the weightiest difference between the stored status and the wanted one."""
    old = {one.container_name: one for one in stored.recommendation}
    new = {one.container_name: one for one in wanted.recommendation}
    if _targets(old) != _targets(new):
        return StatusChange.TARGET
    if wanted.generation is not None and stored.generation != wanted.generation:
        return StatusChange.SPEC
    # In this order: the first difference found is the weightiest.
    if _essence(stored.conditions) != _essence(wanted.conditions):
        return StatusChange.CONDITION
    moves = [
        _move(before, after)
        for name in new
        for before, after in zip(_bounds(old[name]), _bounds(new[name]), strict=True)
    ]
    furthest = max(moves, default=0.0)
    if furthest > max(settings.far_move_fraction, settings.bound_move_fraction):
        return StatusChange.BOUND
    if furthest > settings.bound_move_fraction:
        return StatusChange.MOVED
    return StatusChange.SMALL if furthest > 0 else StatusChange.NONE


def passes_request(stored: StatusText, wanted: StatusText, spans: RequestSpans) -> bool:
    """Return True if a lower or upper bound moved past what a running container requests.

    Any amount between the least and the most that several containers request counts as requested.
    """
    old = {one.container_name: one for one in stored.recommendation}
    return any(
        _passes(before, after, spans.get(one.container_name, {}))
        for one in wanted.recommendation
        if one.container_name in old
        for before, after in (
            (old[one.container_name].lower_bound, one.lower_bound),
            (old[one.container_name].upper_bound, one.upper_bound),
        )
    )


def list_due(
    changes: Mapping[AutoscalerName, tuple[StatusChange, datetime]],
    now: datetime,
    patience: timedelta,
    share: int,
) -> set[AutoscalerName]:
    """Return the autoscalers to write now: all important changes, and a share of the small ones.

    Small changes must have waited `patience` since their last attempt.
    """
    urgent = {name for name, (change, _) in changes.items() if change > StatusChange.MOVED}
    waiting = (StatusChange.SMALL, StatusChange.MOVED)
    small = {name: since for name, (change, since) in changes.items() if change in waiting}
    return urgent.union(due_small_changes(small, now, patience, share))


def due_small_changes(
    waiting: Mapping[AutoscalerName, datetime],
    now: datetime,
    patience: timedelta,
    share: int,
) -> list[AutoscalerName]:
    """Return the autoscalers whose small moves waited for `patience`, the longest first.

    They are at most `share`: moves that are written in one tick, as after a start, would be written
    together ever after.
    """
    ripe = [name for name, since in waiting.items() if now - since >= patience]
    # The name breaks ties, so that a run of one seed is always the same.
    return sorted(ripe, key=lambda name: (waiting[name], name))[:share]


def _targets(recommendation: dict[str, ContainerRecommendation]) -> dict[str, Resources]:
    return {name: one.target for name, one in recommendation.items()}


def _essence(conditions: Sequence[Condition]) -> set[tuple[str, str, str, str]]:
    """Return conditions without their times, because a new time alone is no change."""
    return {(one.type, one.status, one.reason, one.message) for one in conditions}


def _bounds(recommendation: ContainerRecommendation) -> Iterator[Resources]:
    yield recommendation.lower_bound or {}
    yield recommendation.upper_bound or {}
    yield recommendation.uncapped_target or {}


def _move(before: Resources, after: Resources) -> float:
    """Return the largest part of its former amount by which a bound moved; a new one moves far."""
    if before == after:
        return 0.0
    if before.keys() != after.keys():
        return math.inf
    return max(relative_move(before[kind], amount) for kind, amount in after.items())


def _passes(
    before: Resources | None, after: Resources | None, spans: Mapping[Resource, tuple[float, float]]
) -> bool:
    for resource, amount in (after or {}).items():
        least, most = spans.get(resource, (math.nan, math.nan))
        was = (before or {}).get(resource, amount)
        # The request lies between the old and the new bound. NaN fails, so nothing is passed where
        # nothing is requested.
        if amount != was and least <= max(was, amount) and min(was, amount) <= most:
            return True
    return False


def relative_move(before: int, after: int) -> float:
    """Return the part of its former amount by which it moved; a step of one counts little."""
    step = abs(after - before)
    # Zero counts as one: a bound that rises from zero has moved far.
    return step / max(before, 1) if step > 1 else step * _LEAST


def far_moves(before: Ints, after: Ints, fraction: float) -> Booleans:
    """Mark amounts that moved by more than a fraction of what they were, on arrays."""
    step = np.abs(after - before)
    far: Booleans = (step > 1) & (step > fraction * np.maximum(before, 1))
    return far


def passing_moves(before: Ints, after: Ints, spans: Floats) -> Booleans:
    """Mark amounts that moved past the least or the most request, or in between, on arrays.

    The last axis of `spans` holds the least and the most; both are NaN where nothing is requested.
    """
    least, most = spans[..., :1], spans[..., 1:]
    passed: Booleans = (
        (before != after)
        & (least <= np.maximum(before, after))
        & (np.minimum(before, after) <= most)
    )
    return passed
