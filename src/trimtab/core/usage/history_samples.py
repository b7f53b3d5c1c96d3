"""Past usage: samples as columns, and the shards in which they are requested.

A shard is one namespace and a stretch of time, small enough that its answer fits in memory. Shards
of a namespace follow each other in time.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import numpy as np

from trimtab.core.histogram.buckets import Floats, Ints

PodContainer: TypeAlias = tuple[str, str]
"""The names of a pod and of one of its containers."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of history: the moments from `begin` to `end`, both included, `step` apart."""

    namespace: str
    begin: datetime
    end: datetime
    step: timedelta

    @property
    def moments(self) -> int:
        """Maximum number of samples of one container."""
        return int((self.end - self.begin) / self.step) + 1


@dataclass(frozen=True, slots=True)
class PastUsage:
    """Samples of containers of one namespace: element i of each column belongs to sample i."""

    containers: tuple[PodContainer, ...] = ()
    owners: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """The container of each sample, as an index; containers come one after the other."""
    values: Floats = field(default_factory=lambda: np.zeros(0))
    """Millicores of CPU or bytes of memory, as they were reported: perhaps absurd."""
    times: Floats = field(default_factory=lambda: np.zeros(0))
    """Seconds since the epoch, in their order within a container."""

    def __len__(self) -> int:
        return len(self.owners)


@dataclass(frozen=True, slots=True)
class Series:
    """Samples of one container from one source; other sources may report the same container."""

    container: PodContainer
    times: Floats
    values: Floats


def plan_shards(
    namespace: str, *, end: datetime, length: timedelta, step: timedelta, most_moments: int
) -> Iterator[Shard]:
    """Yield all shards of a namespace's history, the oldest first.

    Each has at most `most_moments` moments.
    """
    moments = int(length / step) + 1
    begin = end - (moments - 1) * step
    for first in range(0, moments, most_moments):
        last = min(first + most_moments, moments) - 1
        yield Shard(namespace, begin + first * step, begin + last * step, step)


def halve(shard: Shard) -> tuple[Shard, ...]:
    """Split a shard into two, the older one first; none if it has only one moment."""
    first = shard.moments // 2
    if first == 0:
        return ()
    middle = shard.begin + first * shard.step
    return (replace(shard, end=middle - shard.step), replace(shard, begin=middle))


def gather(series: Iterable[Series]) -> PastUsage:
    """Merge the samples of many series into columns.

    A container that was restarted, or that two jobs scrape, has several series. Where they report
    the same moment the largest value counts; NaN counts only where there is no other value.
    """
    given = list(series)
    containers = tuple(sorted({one.container for one in given}))
    places = {container: place for place, container in enumerate(containers)}
    if not given:
        return PastUsage()
    lengths = [len(one.times) for one in given]
    owners = np.repeat(np.array([places[one.container] for one in given], np.int64), lengths)
    times = np.concatenate([one.times for one in given])
    values = np.concatenate([one.values for one in given])
    # Sorting puts NaN last, so of the negatives the first of a moment is its largest number.
    order = np.lexsort((-values, times, owners))
    owners, times, values = owners[order], times[order], values[order]
    is_new = np.ones(len(owners), np.bool_)
    is_new[1:] = (owners[1:] != owners[:-1]) | (times[1:] != times[:-1])
    return PastUsage(containers, owners[is_new], values[is_new], times[is_new])


_NOT_IN_METRICS: Final = re.compile(r"[^a-zA-Z0-9_]")
_HUMP: Final = re.compile(r"([a-z0-9])([A-Z])")


Owner: TypeAlias = tuple[str, str]
"""The kind and the name of a workload."""


@dataclass(frozen=True, slots=True)
class PastPod:
    """The known facts about a pod that is gone."""

    labels: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[Owner, ...] = ()
    """Its workload, and what owns that; the direct owner first."""


@dataclass(frozen=True, slots=True)
class PodTrace:
    """One report about a pod: its labels or its owners, and until when they held."""

    pod: str
    labels: Mapping[str, str]
    """Label names are as metrics can spell them."""
    until: float
    """Seconds since the epoch."""
    owners: tuple[Owner, ...] = ()


def restore_pods(traces: Iterable[PodTrace], known_names: Iterable[str]) -> dict[str, PastPod]:
    """Return the newest facts about each pod, with label names spelled as in `known_names`."""
    by_form: dict[str, list[str]] = {}
    for name in sorted(set(known_names)):
        by_form.setdefault(_form(name), []).append(name)
    newest: dict[str, PodTrace] = {}
    for trace in traces:
        known = newest.get(trace.pod)
        if known is None or known.until <= trace.until:
            newest[trace.pod] = trace
    return {
        pod: PastPod(
            {
                name: value
                for label, value in trace.labels.items()
                for name in by_form.get(_form(label), [label])
            },
            trace.owners,
        )
        for pod, trace in newest.items()
    }


def list_owners(owner: Owner, owners: Mapping[Owner, Owner]) -> tuple[Owner, ...]:
    """List an owner and the owners above it, given the owner of each."""
    found = [owner]
    while (above := owners.get(found[-1])) is not None and above not in found:
        found.append(above)
    return tuple(found)


def _form(name: str) -> str:
    """Return a label name as metrics spell it; kube-state-metrics rewrites camel case, too."""
    return _HUMP.sub(r"\1_\2", _NOT_IN_METRICS.sub("_", name)).lower()
