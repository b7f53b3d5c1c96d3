"""Publications: the recommendation of every autoscaler, and the ones that changed.

All groups (`groups.py`) about which anything changed are estimated at once, on arrays; records are
made only for autoscalers whose published numbers changed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.core.histogram.buckets import Floats, Ints
from trimtab.core.histogram.memory_peaks import Booleans
from trimtab.core.model.autoscalers import AutoscalerName, ContainerRecommendation
from trimtab.core.model.recommendation import PublishedRecommendation, RecommendationSettings
from trimtab.core.model.resources import BOTH
from trimtab.core.recommendation import estimators
from trimtab.core.recommendation.cost.publishing import HeldPublications, Published
from trimtab.core.recommendation.groups import AutoscalerGroups, GroupColumns, lay_out, make_block
from trimtab.core.recommendation.status_changes import (
    PublishingSettings,
    RequestSpans,
    far_moves,
    passing_moves,
)
from trimtab.core.recommendation.steps import estimate_steps
from trimtab.core.usage.aggregates import Aggregates
from trimtab.core.usage.cluster_usage import Usage

_NUMBERS: Final = (estimators.TARGET, estimators.LOWER, estimators.UPPER, estimators.UPPER + 1)
"""The columns of each resource; the last one is the uncapped target."""

# Markers below any amount, so that numbers stay int64 and comparing them stays one operation.
_NOT_CONTROLLED: Final = -1
NO_SAMPLES: Final = -2
"""Stands for an amount without any sample."""
_NEVER_PUBLISHED: Final = -3
_ABSENT: Final = (_NOT_CONTROLLED, NO_SAMPLES)


@dataclass(frozen=True, slots=True)
class UncappedTargets:
    """Targets of all groups before policies cap them, as columns."""

    owners: Sequence[AutoscalerName]
    """The autoscaler of each group."""
    layout: GroupColumns
    amounts: Ints
    """One column for each resource; negative where there is no target."""


@dataclass(frozen=True, slots=True)
class PublishedAmounts:
    """Amounts to publish for all groups, as columns."""

    owners: Sequence[AutoscalerName]
    """The autoscaler of each group."""
    numbers: Ints
    """Target, lower and upper bound and uncapped target: int64[groups, resources, 4].

    Negative where there is none.
    """


class Publications:
    """The recommendations of all autoscalers, as they were last published."""

    def __init__(self, usage: Usage, settings: RecommendationSettings) -> None:
        self._usage = usage
        self._settings = settings
        self.held = HeldPublications(usage, settings)
        """Targets of autoscalers that use the cost-based estimator."""
        self._blocks: dict[AutoscalerName, AutoscalerGroups] = {}
        self._layout = GroupColumns()
        self._places: dict[AutoscalerName, slice] = {}
        self._owners: list[AutoscalerName] = []
        self._numbers = _blank_numbers(0)
        self._last_published = _blank_numbers(0)
        self._saved = _blank_numbers(0)
        self._spans: Floats | None = None
        """Requests of containers, float64[groups, resources, 2], once needed since the refresh."""
        self.small_changes: set[AutoscalerName] = set()
        """Autoscalers whose bounds moved since they were last published, in no way that matters."""
        self.drifting: set[AutoscalerName] = set()
        """Those of them whose bounds moved by no more than the drift fraction."""

    def refresh(
        self, settings: PublishingSettings | None = None
    ) -> dict[AutoscalerName, PublishedRecommendation]:
        """Return the recommendations that changed since they were last published, with new ones.

        A bound that moved in no way that matters by the settings does not count as a change;
        without settings every move matters.
        """
        # Altered autoscalers are published whatever their numbers are: their status is that of
        # other containers, or of an object that was replaced.
        altered = self.renew()
        self._spans = None
        differs: Booleans = self._last_published != self._numbers
        matters = differs if settings is None else self._find_weighty(settings)
        changed = dict.fromkeys([*altered, *self._owners_of(_any(matters))])
        self.small_changes = set(self._owners_of(_any(differs))) - changed.keys()
        self.drifting = set()
        if settings is not None:
            more = far_moves(self._last_published, self._numbers, settings.drift_fraction)
            self.drifting = self.small_changes - set(self._owners_of(_any(more)))
        return {name: self.mark_published(name) for name in changed}

    def request_spans(self, name: AutoscalerName) -> RequestSpans:
        """Return the least and the most that the running containers of an autoscaler request."""
        rows = self._request_spans()[self._places[name]].tolist()
        return {
            container: {kind: (least, most) for kind, (least, most) in zip(BOTH, row, strict=True)}
            for container, row in zip(self._blocks[name].container_names, rows, strict=True)
        }

    def renew(self) -> list[AutoscalerName]:
        """Estimate again where inputs changed; return autoscalers with other containers or uid.

        New autoscalers are among them. Nothing of it is published before a refresh.
        """
        renewed, altered = self._renew_blocks()
        if renewed:
            self.held.relink(self._layout)
        self.held.take_in()
        # Only groups that got samples, or other inputs, are estimated again.
        stale = self._fed_since_last_time()
        for name in renewed:
            stale[self._places[name]] = True
        numbers = self._numbers.copy()
        numbers[stale] = self._estimate(self._layout.only(stale))
        if started := self.held.drain_started():
            self._raise_started(started, numbers)
        self._numbers = numbers
        return altered

    def _raise_started(self, started: Mapping[AutoscalerName, Published], numbers: Ints) -> None:
        """Raise targets that just started below what is published: no restart lowers a target."""
        for name, published in started.items():
            place = self._places[name]
            block, reached = self._blocks[name], numbers[place, :, estimators.TARGET]
            if self.held.raise_to(block, reached, published):
                chosen = np.zeros(len(self._layout), np.bool_)
                chosen[place] = True
                numbers[place] = self._estimate(self._layout.only(chosen))

    def _estimate(self, layout: GroupColumns) -> Ints:
        held = self.held.numbers(layout)
        return _estimate(self._usage.aggregates, layout, self._settings, held)

    def amounts(self) -> PublishedAmounts:
        """Return all numbers as of the last time they were estimated."""
        return PublishedAmounts(self._owners, self._numbers)

    def mark_published(self, name: AutoscalerName) -> PublishedRecommendation:
        """Mark an autoscaler's numbers as published, the base of later changes, and return them."""
        self._last_published[self._places[name]] = self._numbers[self._places[name]]
        return self.recommendation(name)

    def recommendation(self, name: AutoscalerName) -> PublishedRecommendation:
        """Return the recommendation of an autoscaler, as of the last refresh."""
        names, rows = self._blocks[name].container_names, self._numbers[self._places[name]]
        records = [_record(one, row) for one, row in zip(names, rows.tolist(), strict=True)]
        return PublishedRecommendation(
            tuple(record for record in records if record is not None),
            tuple(one for one, record in zip(names, records, strict=True) if record is None),
        )

    def note_saved(self, names: Iterable[AutoscalerName]) -> None:
        """Note that the histories of some autoscalers are saved, as of the last refresh."""
        for name in names:
            if (place := self._places.get(name)) is not None:
                self._saved[place] = self._numbers[place]

    def list_saved(self, bound_move_fraction: float) -> set[AutoscalerName]:
        """Return the autoscalers whose numbers are those of when their histories were last saved.

        A bound may have moved by a fraction of what it was.
        """
        changed = _any(_find_changes(self._saved, self._numbers, bound_move_fraction))
        return self._places.keys() - set(self._owners_of(changed))

    def uncapped_targets(self) -> UncappedTargets:
        """Return the uncapped targets as of the last refresh."""
        uncapped = self._numbers[:, :, _NUMBERS[-1]]
        return UncappedTargets(self._owners, self._layout, uncapped)

    def _find_weighty(self, settings: PublishingSettings) -> Booleans:
        """Mark the numbers that changed in a way that matters: bool[groups, resources, columns]."""
        published, numbers, nearest = (
            self._last_published,
            self._numbers,
            settings.bound_move_fraction,
        )
        weighty = _find_changes(published, numbers, max(settings.far_move_fraction, nearest))
        moved = far_moves(published, numbers, nearest) & ~weighty
        # Nothing compares an uncapped target with a request.
        moved[:, :, _NUMBERS[-1]] = False
        # A bound that passes a request changes what the updater does, however short its way is
        # (decision 0052).
        if moved.any():
            weighty |= moved & passing_moves(published, numbers, self._request_spans())
        return weighty

    def _request_spans(self) -> Floats:
        if self._spans is None:
            layout = self._layout
            self._spans = self._usage.span_requests(layout.aggregates, layout.starts)
        return self._spans

    def _owners_of(self, groups: Booleans) -> list[AutoscalerName]:
        return [self._owners[row] for row in np.flatnonzero(groups).tolist()]

    def _fed_since_last_time(self) -> Booleans:
        fed = self._usage.aggregates.drain_fed()[self._layout.aggregates]
        if not len(fed):
            return np.zeros(0, np.bool_)
        return np.logical_or.reduceat(fed, self._layout.starts)

    def _renew_blocks(self) -> tuple[list[AutoscalerName], list[AutoscalerName]]:
        """Rebuild changed blocks; return their autoscalers, and those that `renew` returns."""
        learners, changed = self._usage.links.learners, self._usage.links.drain_changed()
        if not changed:
            return [], []
        before = {name: self._blocks.pop(name, None) for name in sorted(changed)}
        renewed = [name for name in before if name in learners]
        feeders = self._usage.aggregates.ints("feeders")
        for name in renewed:
            # Made before the blocks are laid out: `held_row` is part of the layout.
            block = make_block(learners[name], feeders, self._settings)
            self.held.assign(learners[name], block, self._published(name, before[name]))
            self._blocks[name] = block
        self.held.forget(before.keys() - learners.keys())
        altered = [name for name in renewed if not _is_same(before[name], self._blocks[name])]
        self._move(set(altered))
        return renewed, altered

    def _published(self, name: AutoscalerName, block: AutoscalerGroups | None) -> Published:
        """Return the targets of an autoscaler, as they were last estimated."""
        place = self._places.get(name)
        if block is None or place is None:
            return {}
        targets = self._numbers[place, :, estimators.TARGET].tolist()
        return {
            container: dict(zip(BOTH, row, strict=True))
            for container, row in zip(block.container_names, targets, strict=True)
        }

    def _move(self, altered: set[AutoscalerName]) -> None:
        """Lay the blocks out again, and keep the published numbers of unaltered autoscalers."""
        self._layout = lay_out(self._blocks)
        places, offset = {}, 0
        for name, block in self._blocks.items():
            places[name] = slice(offset, offset + len(block.container_names))
            offset = places[name].stop
        # Unaltered autoscalers keep their numbers at their new place; all others start as never
        # published.
        numbers, published, saved = (_blank_numbers(offset) for _ in range(3))
        for name in places.keys() & self._places.keys() - altered:
            numbers[places[name]] = self._numbers[self._places[name]]
            published[places[name]] = self._last_published[self._places[name]]
            saved[places[name]] = self._saved[self._places[name]]
        self._numbers, self._last_published, self._saved, self._places = (
            numbers,
            published,
            saved,
            places,
        )
        self._owners = [name for name, block in self._blocks.items() for _ in block.container_names]


def _find_changes(before: Ints, after: Ints, fraction: float) -> Booleans:
    """Mark changed numbers, bounds moved beyond a fraction: bool[groups, resources, columns]."""
    # Negative numbers mark missing amounts; any change of these counts, however small.
    exact = (before < 0) | (after < 0)
    exact[:, :, estimators.TARGET] = True
    changed: Booleans = np.where(exact, before != after, far_moves(before, after, fraction))
    return changed


def _any(changes: Booleans) -> Booleans:
    """Return, per group, True if any of its numbers changed."""
    return np.asarray(changes.any(axis=(1, 2)))


def _estimate(
    aggregates: Aggregates,
    layout: GroupColumns,
    settings: RecommendationSettings,
    held: Floats | None,
) -> Ints:
    """Return the numbers to publish: int64[groups, resources, columns]."""
    numbers = _blank_numbers(len(layout))
    if not len(layout):
        return numbers
    controlled = layout.groups["controlled"]
    lacking = np.zeros((len(layout), len(BOTH)), np.bool_)
    for column, working in enumerate(estimate_steps(aggregates, layout, settings, held)):
        lacking[:, column] = working.lacking
        numbers[:, column] = np.where(controlled[:, [column]], working.published(), _NOT_CONTROLLED)
    # The floor is for usage that is known to be small, not for unknown usage.
    numbers[lacking & controlled] = NO_SAMPLES
    # Nothing of either resource: no record for the container, also where a resource is not
    # controlled (decision 0009).
    numbers[lacking.all(axis=1)] = NO_SAMPLES
    return numbers


def _record(container_name: str, row: list[list[int]]) -> ContainerRecommendation | None:
    """Return the record of one container; None if it has samples for no amount that it needs."""
    known = [
        (resource, amounts)
        for resource, amounts in zip(BOTH, row, strict=True)
        if amounts[estimators.TARGET] not in _ABSENT
    ]
    if not known and any(amounts[estimators.TARGET] == NO_SAMPLES for amounts in row):
        return None
    target, lower, upper, uncapped = (
        {resource: amounts[column] for resource, amounts in known} for column in _NUMBERS
    )
    return ContainerRecommendation(container_name, target, lower, upper, uncapped)


def _blank_numbers(count: int) -> Ints:
    return np.full((count, len(BOTH), len(_NUMBERS)), _NEVER_PUBLISHED, dtype=np.int64)


def _is_same(old: AutoscalerGroups | None, new: AutoscalerGroups) -> bool:
    """Return True if the published numbers of a block are still in the status of its object."""
    # A new object has an empty status, whatever the status of the former one was.
    return old is not None and (old.uid, old.container_names) == (new.uid, new.container_names)
