"""Past usage from Prometheus, or from whatever else speaks its HTTP API.

By which labels containers and pods are told is found out at the first query and remembered. Who
asks for how much, and when again, is for others to decide; queries go through
`prometheus_client.py`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Final, Self

import numpy as np

from trimtab.api.usage import prometheus
from trimtab.api.usage.prometheus import LabelledSeries
from trimtab.cluster.errors import HistoryError, TooMuchHistoryError
from trimtab.cluster.usage.prometheus_client import QueryClient
from trimtab.core.model.resources import Resource
from trimtab.core.usage import history_samples, prometheus_labels
from trimtab.core.usage.history_samples import Owner, PastUsage, PodTrace, Series, Shard
from trimtab.core.usage.prometheus_labels import (
    KNOWN_OWNER_LABELS,
    ORIGINAL,
    ORIGINAL_POD_LABELS,
    Census,
    OwnerLabels,
    PodLabels,
    UsageConvention,
    UsageLabels,
)

USUAL_JOB: Final = "kubernetes-cadvisor"
"""The job that the original takes for granted."""

_INTERVAL_PROBES: Final = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=20))
_POD_PROBES: Final = 16
"""In so many steps the labels of pods are read: where they changed, the newest are found."""


@dataclass(frozen=True, slots=True)
class SeriesNames:
    """What things are called there; what is as by default is found out."""

    cpu_metric: str = "container_cpu_usage_seconds_total"
    memory_metric: str = "container_memory_working_set_bytes"
    job: str = USUAL_JOB
    usage_labels: UsageLabels = ORIGINAL
    pod_labels: PodLabels = ORIGINAL_POD_LABELS


@dataclass(frozen=True, slots=True)
class _Found:
    """How things are told there."""

    usage: UsageConvention
    pods: PodLabels | None
    """None if nobody tells the labels of pods."""
    owners: OwnerLabels | None
    """None if nobody tells the owners of pods."""
    interval: timedelta | None
    """How far samples are apart."""


class Prometheus:
    """A Prometheus as a source of history; use it in `async with`, as often as you like."""

    def __init__(self, client: QueryClient, names: SeriesNames) -> None:
        self._client = client
        self._names = names
        self._probing = asyncio.Lock()
        self._found: _Found | None = None

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    async def fetch_usage(self, resource: Resource, shard: Shard) -> PastUsage:
        """The samples of all containers in a part of history."""
        found = await self._find()
        is_cpu = resource is Resource.CPU
        query = prometheus.past_usage(
            resource,
            self._names.cpu_metric if is_cpu else self._names.memory_metric,
            found.usage,
            namespace=shard.namespace,
            window=prometheus_labels.rate_window(shard.step, found.interval),
        )
        labels = found.usage.labels
        # Whole amounts, as the original makes them of what Prometheus tells.
        factor = 1000.0 if is_cpu else 1.0
        return history_samples.gather(
            Series((pod, container), one.times, np.floor(one.values * factor))
            for one in await self._query_range(query, shard)
            if (pod := one.labels.get(labels.pod))
            and (container := one.labels.get(labels.container))
        )

    async def fetch_pods(self, shard: Shard) -> Sequence[PodTrace]:
        """The labels of the pods that there were in that time, or else their owners."""
        found = await self._find()
        step = max((shard.end - shard.begin) / _POD_PROBES, shard.step)
        coarse = Shard(shard.namespace, shard.begin, shard.end, step)
        traces: Sequence[PodTrace] = ()
        if found.pods is not None:
            traces = await self._fetch_labels(found.pods, coarse)
        # kube-state-metrics tells no labels unless it is told to, but owners always.
        if found.owners is not None and not any(trace.labels for trace in traces):
            traces = await self._fetch_owners(found.owners, coarse)
        return traces

    async def _fetch_labels(self, labels: PodLabels, shard: Shard) -> Sequence[PodTrace]:
        query = prometheus.past_pods(labels, shard.namespace, shard.step)
        return [
            PodTrace(pod, _strip(one.labels, labels.prefix), float(one.times[-1]))
            for one in await self._query_range(query, shard)
            if (pod := one.labels.get(labels.pod))
            and len(one.times)
            # A query that is not ours may tell of other namespaces too.
            and one.labels.get(labels.namespace) == shard.namespace
        ]

    async def _fetch_owners(self, labels: OwnerLabels, shard: Shard) -> Sequence[PodTrace]:
        above: dict[Owner, Owner] = {}
        for kind in prometheus.OWNED:
            query = prometheus.past_workload_owners(kind, labels, shard.namespace, shard.step)
            for one in await self._query_range(query, shard):
                above[kind.kind, one.labels.get(kind.label, "")] = _owner(one)
        query = prometheus.past_pod_owners(labels, shard.namespace, shard.step)
        return [
            PodTrace(pod, {}, float(one.times[-1]), history_samples.list_owners(_owner(one), above))
            for one in await self._query_range(query, shard)
            if (pod := one.labels.get(labels.pod)) and len(one.times)
        ]

    async def count_series(self) -> Mapping[str, int]:
        """How many series of usage there are now, by metric; a HistoryError if of memory none."""
        found = await self._find()
        counts = {}
        for metric in (self._names.cpu_metric, self._names.memory_metric):
            query = prometheus.count_usage(metric, found.usage)
            counts[metric] = int(await self._count(query))
        return counts

    def conventions(self) -> Mapping[str, str]:
        """How containers and pods are told, as far as that was found out."""
        if self._found is None:
            return {}
        usage, pods, owners = self._found.usage, self._found.pods, self._found.owners
        labels = usage.labels
        return {
            "job": usage.job or "(any)",
            "containers": f"{labels.namespace}/{labels.pod}/{labels.container}",
            "pod_labels": "(none)" if pods is None else f"{pods.metric} {pods.prefix}",
            "pod_owners": "(none)" if owners is None else f"{owners.namespace}/{owners.pod}",
        }

    async def _find(self) -> _Found:
        async with self._probing:
            if self._found is None:
                usage = await self._find_usage()
                self._found = _Found(
                    usage,
                    await self._find_pods(),
                    await self._find_owners(),
                    await self._find_interval(usage),
                )
            return self._found

    async def _find_usage(self) -> UsageConvention:
        names = self._names
        looked_for = prometheus_labels.list_usage_labels(names.usage_labels)
        found = [Census(labels, await self._count_by_job(labels)) for labels in looked_for]
        is_demanded = names.job not in ("", USUAL_JOB)
        chosen = prometheus_labels.choose_usage(found, names.job, is_job_demanded=is_demanded)
        if chosen is None:
            job = f" of the job {names.job}" if is_demanded else ""
            raise HistoryError(
                f"{self._client.shown_address}: there are no series {names.memory_metric}{job} "
                "that tell a namespace, a pod and a container"
            )
        return chosen

    async def _find_interval(self, usage: UsageConvention) -> timedelta | None:
        counts: dict[timedelta, float] = {}
        for span in _INTERVAL_PROBES:
            query = prometheus.count_samples(self._names.memory_metric, usage, span)
            try:
                counts[span] = await self._count(query)
            except TooMuchHistoryError:
                # The shorter spans have told enough.
                break
        return prometheus_labels.sample_interval(counts)

    async def _find_pods(self) -> PodLabels | None:
        for labels in prometheus_labels.list_pod_labels(self._names.pod_labels):
            if await self._count(prometheus.count_pods(labels)):
                return labels
        return None

    async def _find_owners(self) -> OwnerLabels | None:
        for labels in KNOWN_OWNER_LABELS:
            if await self._count(prometheus.count_owners(labels)):
                return labels
        return None

    async def _count_by_job(self, labels: UsageLabels) -> Mapping[str, int]:
        query = prometheus.count_by_job(self._names.memory_metric, labels)
        series = await self._client.query("query", {"query": query})
        return {one.labels.get("job", ""): int(_newest(one)) for one in series}

    async def _count(self, query: str) -> float:
        series = await self._client.query("query", {"query": query})
        return _newest(series[0]) if series else 0.0

    async def _query_range(self, query: str, shard: Shard) -> Sequence[LabelledSeries]:
        parameters = {
            "query": query,
            "start": _seconds(shard.begin),
            "end": _seconds(shard.end),
            "step": f"{shard.step.total_seconds():.3f}",
        }
        return await self._client.query("query_range", parameters)


def _newest(series: LabelledSeries) -> float:
    """The last number of a series; 0 if that is none."""
    return float(np.nan_to_num(series.values[-1:], nan=0.0, posinf=0.0, neginf=0.0).sum())


def _owner(series: LabelledSeries) -> Owner:
    return series.labels.get("owner_kind", ""), series.labels.get("owner_name", "")


def _strip(labels: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value
        for name, value in labels.items()
        if name.startswith(prefix) and name != prefix
    }


def _seconds(moment: datetime) -> str:
    return f"{moment.timestamp():.3f}"
