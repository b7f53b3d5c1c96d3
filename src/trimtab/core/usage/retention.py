"""Retention: drop histories from which nothing can be learned any more.

Aggregates follow the rule of `aggregates.expendable`. An aggregate restored from a checkpoint
follows its container. It becomes garbage when no sample came for a lifetime, while the
autoscaler's pods live on without a container of that name. Its checkpoint becomes garbage with it.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.usage.aggregates import expendable, to_seconds
from trimtab.core.usage.checkpoints import CheckpointKey
from trimtab.core.usage.cluster_usage import Usage
from trimtab.core.usage.containers import PodName
from trimtab.core.usage.selector_index import AutoscalerAggregates


@dataclass(frozen=True, slots=True)
class Garbage:
    """The aggregates and checkpoints that were forgotten."""

    aggregates: int = 0
    checkpoints: tuple[CheckpointKey, ...] = ()
    """Checkpoints that are of no use any more."""


def collect_garbage(
    usage: Usage, now: datetime, *, ended: AbstractSet[PodName], abandoned: AbstractSet[PodName]
) -> Garbage:
    """Forget the histories from which nothing can be learned any more.

    Of the pods, `ended` are those that succeeded or failed, and `abandoned` those among them whose
    workload is gone too.
    """
    seconds = to_seconds(now, missing=0.0)
    chosen = _expendable_rows(usage, seconds, ended, abandoned)
    # Pods that ended may still be listed for days; they bring no more samples.
    # Sorted: freed rows are used again in this order, which a set does not fix.
    for pod in sorted(ended, key=lambda pod: (pod.namespace, pod.name)):
        usage.release_from(pod, chosen)
    for row in chosen:
        usage.drop_aggregate(row)
    ghosts = tuple(_ghosts(usage, seconds))
    for name, container_name in ghosts:
        usage.drop_restored(name, container_name)
    return Garbage(len(chosen), ghosts)


def _expendable_rows(
    usage: Usage, now: float, ended: Iterable[PodName], abandoned: Iterable[PodName]
) -> set[int]:
    aggregates = usage.aggregates
    rows = aggregates.keyed_rows()
    feeders = aggregates.ints("feeders")
    activity = np.maximum(aggregates.floats("last"), aggregates.floats("last_memory"))[rows]
    sampled = np.isfinite(activity)
    # Never sampled: its age counts from when it was created.
    since = np.where(sampled, activity, aggregates.floats("created")[rows])
    chosen = expendable(
        idle_seconds=now - since,
        lifetimes=aggregates.floats("lifetime")[rows],
        sampled=sampled,
        # A pod that ended no longer keeps an aggregate alive, but its workload may start another
        # one that would feed it again, unless that is gone as well.
        live=(feeders - usage.count_feeders(ended))[rows] > 0,
        contributive=(feeders - usage.count_feeders(abandoned))[rows] > 0,
    )
    return set(rows[chosen].tolist())


def _ghosts(usage: Usage, now: float) -> Iterator[CheckpointKey]:
    for learner in usage.links.learners.values():
        gone = [name for name in sorted(learner.restored) if name not in learner.linked]
        past = [name for name in gone if _is_past(usage, learner.restored[name], now)]
        # Without any live pod the workload may just be scaled to zero: its histories stay.
        if past and _has_live_container(usage, learner):
            yield from ((learner.name, name) for name in past)


def _has_live_container(usage: Usage, learner: AutoscalerAggregates) -> bool:
    feeders = usage.aggregates.ints("feeders")
    return any(feeders[list(rows)].any() for rows in learner.linked.values())


def _is_past(usage: Usage, row: int, now: float) -> bool:
    aggregates = usage.aggregates
    last = aggregates.floats("last")[row]
    since = last if np.isfinite(last) else aggregates.floats("created")[row]
    return bool(now - since >= aggregates.floats("lifetime")[row])


def fold_idle(usage: Usage, now: datetime) -> int:
    """Fold aggregates that no pod feeds and that had no sample for an interval; count them.

    An aggregate from which no autoscaler learns yet waits: an autoscaler may still come.
    """
    aggregates = usage.aggregates
    rows = aggregates.keyed_rows()
    last = np.maximum(aggregates.floats("last"), aggregates.floats("last_memory"))[rows]
    idle = to_seconds(now, missing=0.0) - last
    is_old = np.isfinite(last) & (idle >= aggregates.floats("interval")[rows])
    candidates = rows[is_old & (aggregates.ints("feeders")[rows] == 0)].tolist()
    # Sorted, so that two runs of the same seed merge in the same order.
    chosen = [row for row in sorted(candidates) if usage.links.learners_of(row)]
    for row in chosen:
        usage.fold(row, now)
    return len(chosen)


def find_stale(
    usage: Usage, now: datetime, limit: timedelta, *, ended: Iterable[PodName]
) -> dict[AutoscalerName, tuple[str, ...]]:
    """Find, by autoscaler, running containers without any sample for longer than a limit.

    Of the pods, `ended` are those that succeeded or failed: no more samples of theirs are expected.
    """
    aggregates, links = usage.aggregates, usage.links
    rows = aggregates.keyed_rows()
    live = (aggregates.ints("feeders") - usage.count_feeders(ended))[rows] > 0
    latest = np.maximum(aggregates.floats("last"), aggregates.floats("last_memory"))
    # A container that started a moment ago is not late yet.
    latest = np.maximum(latest, aggregates.floats("live_since"))[rows]
    idle = rows[live & (latest < to_seconds(now - limit, missing=0.0))]
    active = set(rows[live].tolist()) - set(idle.tolist())
    found: dict[AutoscalerName, set[str]] = {}
    for row in idle.tolist():
        container_name = aggregates.key(row).container_name
        for name in links.learners_of(row):
            # During a rollout the old label set goes quiet while the new one has samples.
            if active.isdisjoint(links.learners[name].linked[container_name]):
                found.setdefault(name, set()).add(container_name)
    return {name: tuple(sorted(containers)) for name, containers in found.items()}
