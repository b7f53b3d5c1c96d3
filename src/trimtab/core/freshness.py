"""Freshness: of which containers no usage was read for too long.

Where nothing is read nothing is learned, so what is recommended stays as it was (F13). Readers of
a status have to be told, or they take an old answer for a new one.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

import numpy as np

from trimtab.core.aggregates import to_seconds
from trimtab.core.autoscalers import AutoscalerName
from trimtab.core.containers import PodName
from trimtab.core.usage import Usage


def find_stale(
    usage: Usage, now: datetime, limit: timedelta, *, ended: Iterable[PodName]
) -> dict[AutoscalerName, tuple[str, ...]]:
    """The running containers of each autoscaler of which no sample came for longer than a limit.

    Of the pods, `ended` are those that succeeded or failed: nobody waits for samples of theirs.
    """
    aggregates, links = usage.aggregates, usage.links
    rows = aggregates.keyed_rows()
    live = (aggregates.ints("feeders") - usage.count_feeders(ended))[rows] > 0
    heard = np.maximum(aggregates.floats("last"), aggregates.floats("last_memory"))
    heard = np.maximum(heard, aggregates.floats("live_since"))[rows]
    silent = rows[live & (heard < to_seconds(now - limit, missing=0.0))]
    speaking = set(rows[live].tolist()) - set(silent.tolist())
    found: dict[AutoscalerName, set[str]] = {}
    for row in silent.tolist():
        container_name = aggregates.key(row).container_name
        for name in links.learners_of(row):
            if speaking.isdisjoint(links.learners[name].linked[container_name]):
                found.setdefault(name, set()).add(container_name)
    return {name: tuple(sorted(containers)) for name, containers in found.items()}
