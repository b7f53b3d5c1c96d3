"""Publications: what every autoscaler should say, and which of them now say something else.

One row is one container of one autoscaler. All rows are estimated at once, on arrays; records are
made only for autoscalers whose published numbers changed. What an autoscaler's links and policies
contribute is kept as a block of rows and made anew only when they change.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trimtab.core import estimates
from trimtab.core.aggregates import Aggregates
from trimtab.core.autoscalers import (
    Autoscaler,
    AutoscalerName,
    ContainerMode,
    ContainerPolicy,
    ContainerRecommendation,
    policy_for,
)
from trimtab.core.buckets import Floats, Ints
from trimtab.core.links import Learner
from trimtab.core.peaks import Booleans
from trimtab.core.recommendation import (
    Recommendation,
    RecommendationSettings,
    caps_for,
    wants_integer_cpu,
)
from trimtab.core.resources import BOTH, MAX_AMOUNT, Resource, Resources
from trimtab.core.usage import Usage

_GROUP: Final = np.dtype(
    [
        ("size", np.int64),
        ("live", np.int64),
        ("min", np.int64, len(BOTH)),
        ("max", np.int64, len(BOTH)),
        ("controlled", np.bool_, len(BOTH)),
        ("integer_cpu", np.bool_),
    ]
)
_UNCAPPED: Final = estimates.UPPER + 1
"""The last of the four numbers of each resource."""

_NO_GROUPS: Final = np.zeros(0, _GROUP)
_NO_ROWS: Final = np.zeros(0, np.int64)

_NOT_CONTROLLED: Final = -1
_NO_SAMPLES: Final = -2
_NEVER_PUBLISHED: Final = -3


@dataclass(frozen=True, slots=True)
class _Block:
    """The rows of one autoscaler: its containers, sorted, without those that are switched off."""

    container_names: tuple[str, ...]
    groups: NDArray[np.void]
    aggregates: Ints
    """The aggregates of each container, one container after the other."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """All blocks behind each other."""

    offsets: dict[AutoscalerName, int] = field(default_factory=dict)
    owners: tuple[AutoscalerName, ...] = ()
    """Whose each group is."""
    groups: NDArray[np.void] = field(default_factory=lambda: _NO_GROUPS)
    aggregates: Ints = field(default_factory=lambda: _NO_ROWS)

    @property
    def starts(self) -> Ints:
        """Where the aggregates of each group start."""
        sizes: Ints = self.groups["size"]
        return np.cumsum(sizes) - sizes


@dataclass(frozen=True, slots=True)
class _History:
    """When the samples of each group were taken, and how many they are."""

    first: Floats
    last: Floats
    count: Ints


class Publications:
    """The recommendations of all autoscalers, as they were last published."""

    def __init__(self, usage: Usage, settings: RecommendationSettings) -> None:
        self._usage = usage
        self._settings = settings
        self._blocks: dict[AutoscalerName, _Block] = {}
        self._layout = _Layout()
        self._numbers = _blank_numbers(0)

    def refresh(self) -> dict[AutoscalerName, Recommendation]:
        """The recommendations that changed since the last time, new autoscalers' included."""
        changed = self._lay_out()
        numbers = self._estimate()
        differing = np.flatnonzero((numbers != self._numbers).any(axis=(1, 2)))
        self._numbers = numbers
        changed |= {self._layout.owners[row] for row in differing.tolist()}
        return {name: self.recommendation(name) for name in sorted(changed)}

    def recommendation(self, name: AutoscalerName) -> Recommendation:
        """What an autoscaler says, as of the last refresh."""
        names, offset = self._blocks[name].container_names, self._layout.offsets[name]
        rows = self._numbers[offset : offset + len(names)].tolist()
        records = [_record(one, row) for one, row in zip(names, rows, strict=True)]
        return Recommendation(
            tuple(record for record in records if record is not None),
            tuple(one for one, record in zip(names, records, strict=True) if record is None),
        )

    def _lay_out(self) -> set[AutoscalerName]:
        """Renew what changed since the last time; the autoscalers whose containers are others."""
        learners, changed = self._usage.links.learners, self._usage.links.drain_changed()
        if not changed:
            return set()
        before = {name: self._blocks.pop(name, None) for name in changed}
        for name in sorted(changed & learners.keys()):
            self._blocks[name] = self._make_block(learners[name])
        altered = {
            name
            for name, block in before.items()
            if name in learners and not _same_containers(block, self._blocks[name])
        }
        self._move_to(_lay_behind_each_other(self._blocks), altered)
        return altered

    def _move_to(self, layout: _Layout, altered: set[AutoscalerName]) -> None:
        """Take what was published along to its new place, except for what is not comparable."""
        numbers = _blank_numbers(len(layout.groups))
        for name in layout.offsets.keys() & self._layout.offsets.keys() - altered:
            new, old = layout.offsets[name], self._layout.offsets[name]
            size = len(self._blocks[name].container_names)
            numbers[new : new + size] = self._numbers[old : old + size]
        self._layout, self._numbers = layout, numbers

    def _make_block(self, learner: Learner) -> _Block:
        policies = learner.autoscaler.policies
        names = sorted(
            name for name in learner.container_names if not _is_off(policy_for(policies, name))
        )
        rows = [learner.rows(name) for name in names]
        groups = np.zeros(len(names), _GROUP)
        groups["size"] = [len(some) for some in rows]
        groups["live"] = self._count_live(learner, names)
        for group, name in zip(groups, names, strict=True):
            self._write_policy(group, learner.autoscaler, name)
        aggregates = np.array([row for some in rows for row in some], dtype=np.int64)
        return _Block(tuple(names), groups, aggregates)

    def _count_live(self, learner: Learner, names: Iterable[str]) -> int:
        """Over how many containers a pod's floor is split: ghosts of old ones do not count."""
        feeders = self._usage.aggregates.ints("feeders")
        lives = [bool(feeders[list(learner.linked.get(name, ()))].any()) for name in names]
        return sum(lives) or len(lives)

    def _write_policy(self, group: np.void, autoscaler: Autoscaler, name: str) -> None:
        policy = policy_for(autoscaler.policies, name)
        caps = caps_for(policy, self._settings.max_allowed)
        controlled = BOTH if policy is None else policy.controlled_resources
        group["min"] = [_bounded(caps.min.get(resource, 0)) for resource in BOTH]
        group["max"] = [_bounded(caps.max.get(resource, MAX_AMOUNT)) for resource in BOTH]
        group["controlled"] = [resource in controlled for resource in BOTH]
        group["integer_cpu"] = self._settings.integer_cpu and wants_integer_cpu(
            autoscaler.annotations, name
        )

    def _estimate(self) -> Ints:
        """All numbers anew."""
        groups, aggregates = self._layout.groups, self._usage.aggregates
        numbers = _blank_numbers(len(groups))
        if not len(groups):
            return numbers
        history = _merge_history(aggregates, self._layout)
        without_samples = np.ones(len(groups), np.bool_)
        for column, resource in enumerate(BOTH):
            percentiles, empty = _merge_percentiles(aggregates, resource, self._layout)
            amounts = self._estimate_resource(resource, percentiles, history)
            numbers[:, column] = _finish(resource, amounts, groups, self._settings)
            without_samples &= empty
        numbers[without_samples] = _NO_SAMPLES
        return numbers

    def _estimate_resource(
        self, resource: Resource, percentiles: Floats, history: _History
    ) -> Ints:
        settings, groups = self._settings.of(resource), self._layout.groups
        floors = estimates.split_floor(settings.pod_floor, groups["live"])
        least = groups["min"][:, BOTH.index(resource)]
        # Whoever allows less than the floor means it.
        floors = np.where(least > 0, np.minimum(floors, least), floors)
        confidence = estimates.confidence(
            history.first, history.last, history.count, settings.confidence_interval
        )
        in_amounts = estimates.to_amounts(resource, percentiles)
        return estimates.estimate(in_amounts, confidence, floors, self._settings.margin_fraction)


def _finish(
    resource: Resource, amounts: Ints, groups: NDArray[np.void], settings: RecommendationSettings
) -> Ints:
    """What is published of one resource, in four columns."""
    column = BOTH.index(resource)
    rounded = estimates.finish(resource, amounts, settings)
    if resource is Resource.CPU:
        whole = estimates.round_up(rounded, estimates.CORE)
        rounded = np.where(groups["integer_cpu"][:, np.newaxis], whole, rounded)
    least, most = groups["min"][:, [column]], groups["max"][:, [column]]
    capped = np.minimum(np.maximum(rounded, least), most)
    published = np.column_stack([capped, rounded[:, estimates.TARGET]])
    return np.where(groups["controlled"][:, [column]], published, _NOT_CONTROLLED)


def _merge_history(aggregates: Aggregates, layout: _Layout) -> _History:
    starts, rows = layout.starts, layout.aggregates
    return _History(
        np.minimum.reduceat(aggregates.floats("first")[rows], starts),
        np.maximum.reduceat(aggregates.floats("last")[rows], starts),
        np.add.reduceat(aggregates.ints("count")[rows], starts),
    )


def _merge_percentiles(
    aggregates: Aggregates, resource: Resource, layout: _Layout
) -> tuple[Floats, Booleans]:
    """The percentiles of each group, and which groups hold nothing."""
    bank, sizes = aggregates.bank(resource), layout.groups["size"]
    rows = aggregates.bank_rows(resource, layout.aggregates)
    percentiles = np.zeros((len(sizes), len(bank.quantiles)))
    empty = np.zeros(len(sizes), np.bool_)
    alone, together = np.flatnonzero(sizes == 1), np.flatnonzero(sizes > 1)
    lone_rows = rows[layout.starts[alone]]
    percentiles[alone], empty[alone] = bank.percentiles(lone_rows), bank.is_empty(lone_rows)
    if len(together):
        members = np.repeat(sizes > 1, sizes)
        group_of = np.repeat(np.arange(len(together)), sizes[together])
        merged = bank.merged_by(rows[members], group_of, len(together))
        everything = np.arange(len(together))
        percentiles[together], empty[together] = merged.percentiles(), merged.is_empty(everything)
    return percentiles, empty


def _lay_behind_each_other(blocks: Mapping[AutoscalerName, _Block]) -> _Layout:
    sizes = [len(block.container_names) for block in blocks.values()]
    ends = np.cumsum(sizes, dtype=np.int64)
    return _Layout(
        offsets=dict(zip(blocks, (ends - sizes).tolist(), strict=True)),
        owners=tuple(name for name, size in zip(blocks, sizes, strict=True) for _ in range(size)),
        groups=np.concatenate([_NO_GROUPS, *(block.groups for block in blocks.values())]),
        aggregates=np.concatenate([_NO_ROWS, *(block.aggregates for block in blocks.values())]),
    )


def _record(container_name: str, row: list[list[int]]) -> ContainerRecommendation | None:
    """What the numbers of one container say; None if nothing is known of it."""
    if row[0][estimates.TARGET] == _NO_SAMPLES:
        return None
    return ContainerRecommendation(
        container_name,
        target=_amounts(row, estimates.TARGET),
        lower_bound=_amounts(row, estimates.LOWER),
        upper_bound=_amounts(row, estimates.UPPER),
        uncapped_target=_amounts(row, _UNCAPPED),
    )


def _amounts(row: list[list[int]], column: int) -> Resources:
    return {
        resource: amounts[column]
        for resource, amounts in zip(BOTH, row, strict=True)
        if amounts[column] != _NOT_CONTROLLED
    }


def _blank_numbers(count: int) -> Ints:
    return np.full((count, len(BOTH), _UNCAPPED + 1), _NEVER_PUBLISHED, dtype=np.int64)


def _same_containers(old: _Block | None, new: _Block) -> bool:
    return old is not None and old.container_names == new.container_names


def _is_off(policy: ContainerPolicy | None) -> bool:
    return policy is not None and policy.mode is ContainerMode.OFF


def _bounded(amount: int) -> int:
    return min(max(amount, 0), MAX_AMOUNT)
