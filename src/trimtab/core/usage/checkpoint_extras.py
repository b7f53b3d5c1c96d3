"""Supplements: data that outlives a restart and has no place in the original's checkpoints.

A supplement holds the OOM ledger and held targets. It also holds, for each running container, the
times of its last samples and its window with its peak. A checkpoint leaves that peak out while the
window is open. With it a restart changes nothing: no sample counts twice, no peak is lost, and a
late OOM kill finds the window that it belongs to.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import numpy as np

from trimtab.core.histogram.oom_floors import OomLevel
from trimtab.core.usage.aggregates import to_seconds
from trimtab.core.usage.checkpoints import CheckpointKey
from trimtab.core.usage.cluster_usage import Expected, Place, Usage
from trimtab.core.usage.containers import ContainerMemory
from trimtab.core.usage.saved_targets import SavedTargets

MOST_CONTAINERS: Final = 100
"""Maximum number of containers in one supplement: first those whose peak is stored nowhere else,
then those with the highest peaks."""


@dataclass(frozen=True, slots=True)
class SavedContainer:
    """One running container as a supplement holds it."""

    memory: ContainerMemory
    last_kill: datetime | None = None
    """Time of its last OOM kill that was counted."""


@dataclass(frozen=True, slots=True)
class Supplement:
    """Data stored beside the checkpoint of one container of one autoscaler."""

    oom_levels: tuple[OomLevel, ...] = ()
    containers: Mapping[str, SavedContainer] = field(default_factory=dict)
    """By the names of their pods."""
    is_relearning: bool = False
    """True if the history was lost and is still too short to be trusted."""
    targets: SavedTargets | None = None
    """Held targets; None unless the cost-based estimator is, or was, in use."""

    @property
    def knows_memory(self) -> bool:
        """True if it shows a need of memory that is not in the checkpoint."""
        memories = [one.memory for one in self.containers.values()]
        return bool(self.oom_levels) or any(one.peak > 0 and not one.is_saved for one in memories)


def collect_supplements(
    usage: Usage,
    keys: Iterable[CheckpointKey],
    kills: Mapping[Place, datetime | None],
    now: datetime,
) -> dict[CheckpointKey, Supplement]:
    """Return the supplements of some checkpoints, given the last kill of each container."""
    learners = usage.links.learners
    rows_by_key = {key: learners[key[0]].rows(key[1]) for key in keys}
    containers = _containers_by_aggregate(
        usage, {row for rows in rows_by_key.values() for row in rows}
    )
    places = usage.list_containers() if containers else {}
    seconds = to_seconds(now, missing=0.0)
    return {
        key: Supplement(
            usage.aggregates.oom_ledger.levels(rows),
            _most_valuable(
                {
                    places[one][1]: SavedContainer(
                        usage.containers.recall(one, seconds), kills.get(places[one])
                    )
                    for row in rows
                    for one in containers.get(row, ())
                }
            ),
        )
        for key, rows in rows_by_key.items()
    }


def restore_supplement(
    usage: Usage, key: CheckpointKey, supplement: Supplement, now: datetime
) -> None:
    """Restore, for an autoscaler, the supplement of a checkpoint that was restored before.

    The window of a container goes with the container while a late OOM kill may still change it.
    After that the window stays in the restored aggregate: a pod that ended long ago is soon
    forgotten, and the aggregate is not.
    """
    name, container_name = key
    row = usage.links.learners[name].restored[container_name]
    usage.aggregates.restore_kills(row, supplement.oom_levels)
    interval = float(usage.aggregates.floats("interval")[row])
    for pod, remembered in supplement.containers.items():
        place = (name.namespace, pod, container_name)
        if usage.is_tracked(place):
            continue
        memory = remembered.memory
        is_over = memory.is_saved and _ended_long_ago(memory, interval, now)
        usage.expect(place, Expected(name, memory, is_booked=is_over))
        if memory.is_saved and not is_over:
            # The container will book this window, and may replace it: it must not count twice.
            usage.aggregates.take_back_window(row, memory)


def _ended_long_ago(memory: ContainerMemory, interval: float, now: datetime) -> bool:
    """Return True if a window ended so long ago that a late OOM kill of it is refused."""
    ended = memory.last_memory if memory.window_end is None else memory.window_end
    return to_seconds(now, missing=0.0) >= ended + interval


def settle_expected(usage: Usage) -> None:
    """Book windows of containers that are gone, or in another role, for those who restored them."""
    windows = []
    for (_, _, container_name), expected in usage.drain_expected():
        learner = usage.links.learners.get(expected.owner)
        row = None if learner is None else learner.restored.get(container_name)
        if row is not None:
            windows.append((row, expected.memory))
    usage.aggregates.book_windows(windows)


def _containers_by_aggregate(usage: Usage, aggregates: set[int]) -> dict[int, list[int]]:
    owners = usage.containers.aggregate
    wanted = np.fromiter(aggregates, np.int64, len(aggregates))
    found: defaultdict[int, list[int]] = defaultdict(list)
    sampled = np.isfinite(usage.containers.floats("last_cpu"))
    sampled |= np.isfinite(usage.containers.floats("last_memory"))
    for row in np.flatnonzero(sampled & np.isin(owners, wanted)).tolist():
        found[int(owners[row])].append(row)
    return found


def _most_valuable(containers: dict[str, SavedContainer]) -> dict[str, SavedContainer]:
    if len(containers) <= MOST_CONTAINERS:
        return containers
    order = sorted(containers, key=lambda pod: _worth(containers[pod].memory), reverse=True)
    return {pod: containers[pod] for pod in order[:MOST_CONTAINERS]}


def _worth(memory: ContainerMemory) -> tuple[bool, float]:
    # What no checkpoint holds would be lost.
    return not memory.is_saved, memory.peak
