"""Groups and blocks: the containers of each autoscaler, laid out as columns.

A group is one container of one autoscaler: the aggregates that are merged for it, and its policy. A
block holds the groups of one autoscaler and is rebuilt only when something about that autoscaler
changes; a layout is all blocks behind each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trimtab.core.histogram.buckets import Ints
from trimtab.core.histogram.memory_peaks import Booleans
from trimtab.core.model import autoscalers, recommendation
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName
from trimtab.core.model.recommendation import RecommendationSettings
from trimtab.core.model.resources import BOTH
from trimtab.core.usage.selector_index import AutoscalerAggregates

_GROUP: Final = np.dtype(
    [
        # Number of aggregates, and of containers that share the floor of a pod.
        ("size", np.int64),
        ("live", np.int64),
        # Policy: caps and controlled resources, a column for each of `BOTH`.
        ("min", np.int64, len(BOTH)),
        ("max", np.int64, len(BOTH)),
        ("controlled", np.bool_, len(BOTH)),
        ("integer_cpu", np.bool_),
        # Row of the held target, or NOT_HELD; and whether that target is in use now.
        ("held_row", np.int64),
        ("is_held", np.bool_),
    ]
)
NOT_HELD: Final = -1
"""Stands for the row of a container without a held target."""
_NO_GROUPS: Final = np.zeros(0, _GROUP)
_NO_ROWS: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class AutoscalerGroups:
    """The groups of one autoscaler, sorted by name, without containers that are off or gone."""

    uid: str
    """The uid of the autoscaler's object; a new object of the same name has another."""
    container_names: tuple[str, ...]
    groups: NDArray[np.void]
    aggregates: Ints
    """The aggregates of each group, one group after the other."""


@dataclass(frozen=True, slots=True)
class GroupColumns:
    """Many groups behind each other."""

    groups: NDArray[np.void] = field(default_factory=lambda: _NO_GROUPS)
    aggregates: Ints = field(default_factory=lambda: _NO_ROWS)

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def sizes(self) -> Ints:
        """The number of aggregates of each group: at least one."""
        return self.groups["size"]

    @property
    def starts(self) -> Ints:
        """The index of the first aggregate of each group."""
        # Sizes [2, 1, 3] give starts [0, 2, 3].
        return np.cumsum(self.sizes) - self.sizes

    def only(self, chosen: Booleans) -> "GroupColumns":
        """Return some of the groups."""
        return GroupColumns(self.groups[chosen], self.aggregates[np.repeat(chosen, self.sizes)])


def make_block(
    learner: AutoscalerAggregates, feeders: Ints, settings: RecommendationSettings
) -> AutoscalerGroups:
    """Make the block of one autoscaler, given how many containers feed each aggregate.

    Containers that no pod has are left out, as long as there are pods at all: a workload without
    any needs the recommendations for its next pod.
    """
    policies = learner.autoscaler.policies
    known = learner.live_names(feeders) or learner.container_names
    names = sorted(name for name in known if autoscalers.scales(policies, name))
    rows = [learner.rows(name) for name in names]
    groups = np.zeros(len(names), _GROUP)
    groups["held_row"] = NOT_HELD
    groups["size"] = [len(some) for some in rows]
    # The floor of a pod is split over this number of containers.
    groups["live"] = len(names)
    for group, name in zip(groups, names, strict=True):
        _write_policy(group, learner.autoscaler, name, settings)
    aggregates = np.array([row for some in rows for row in some], dtype=np.int64)
    return AutoscalerGroups(learner.autoscaler.uid, tuple(names), groups, aggregates)


def lay_out(blocks: Mapping[AutoscalerName, AutoscalerGroups]) -> GroupColumns:
    """Return all blocks behind each other."""
    return GroupColumns(
        np.concatenate([_NO_GROUPS, *(block.groups for block in blocks.values())]),
        np.concatenate([_NO_ROWS, *(block.aggregates for block in blocks.values())]),
    )


def _write_policy(
    group: np.void, autoscaler: Autoscaler, name: str, settings: RecommendationSettings
) -> None:
    policy = autoscalers.policy_for(autoscaler.policies, name)
    caps = recommendation.caps_for(policy, settings.max_allowed)
    controlled = BOTH if policy is None else policy.controlled_resources
    group["min"], group["max"] = caps.least, caps.most
    group["controlled"] = [resource in controlled for resource in BOTH]
    wants = recommendation.wants_integer_cpu(autoscaler.annotations, name)
    group["integer_cpu"] = settings.integer_cpu and wants
