"""A past that can be asked for: what pods used, hour by hour, and whether anybody answers."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np
from support.fakes.recommender_cluster import Load

from trimtab.cluster.errors import HistoryError, TooMuchHistoryError
from trimtab.core.model.resources import Resource
from trimtab.core.usage.history_samples import PastUsage, PodTrace, Series, Shard, gather


@dataclass
class Past:
    """A source of history in memory, in which loads never changed."""

    loads: dict[str, Load] = field(default_factory=dict)
    """By the name of a pod, of containers called app."""
    labels: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """Of pods that are gone."""
    is_down: bool = False
    error: Exception = field(default_factory=lambda: HistoryError("nobody there"))
    broken: set[str] = field(default_factory=set)
    """Namespaces whose usage cannot be read."""
    breaks_after: int = 10**9
    """So many parts are read until it breaks."""
    takes: timedelta = timedelta()
    """How long it thinks about each answer."""
    most_moments: int = 10**9
    """Parts of more are too much."""
    traced: list[Shard] = field(default_factory=list)
    """The times of which pods were told."""
    asked: list[Shard] = field(default_factory=list)
    """The parts that were asked for, of CPU."""
    asked_at: list[float] = field(default_factory=list)
    """When that was, in seconds of the loop."""
    answered: list[Shard] = field(default_factory=list)

    async def fetch_usage(self, resource: Resource, shard: Shard) -> PastUsage:
        if resource is Resource.CPU:
            self.asked.append(shard)
            self.asked_at.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.takes.total_seconds())
        if shard.moments > self.most_moments:
            raise TooMuchHistoryError("too much")
        if self.is_down or shard.namespace in self.broken:
            raise self.error
        if resource is Resource.CPU:
            if len(self.answered) >= self.breaks_after:
                raise HistoryError("broken off")
            self.answered.append(shard)
        moments = np.arange(shard.moments, dtype=np.float64)
        times = shard.begin.timestamp() + shard.step.total_seconds() * moments
        return gather(
            Series((pod, "app"), times, np.full(len(times), _amount(load, resource)))
            for pod, load in self.loads.items()
        )

    async def fetch_pods(self, shard: Shard) -> Sequence[PodTrace]:
        if self.is_down:
            raise HistoryError("nobody there")
        if shard.moments > self.most_moments:
            raise TooMuchHistoryError("too much")
        self.traced.append(shard)
        return [PodTrace(pod, labels, shard.end.timestamp()) for pod, labels in self.labels.items()]

    def conventions(self) -> Mapping[str, str]:
        return {}


def _amount(load: Load, resource: Resource) -> float:
    return float(load.cpu if resource is Resource.CPU else load.memory)
