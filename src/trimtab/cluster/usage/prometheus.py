"""Past usage from Prometheus, or from any server that speaks its HTTP API.

The first query finds the labels of containers and pods, which are then remembered. Callers decide
how much to query, and when. `prometheus_client.py` sends the queries.
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
"""The job that the original uses by default."""

_INTERVAL_PROBES: Final = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=20))
_POD_PROBES: Final = 16
"""Number of steps in which the labels of pods are read: where they changed, the newest count."""


@dataclass(frozen=True, slots=True)
class SeriesNames:
    """Names of metrics, job and labels on the server; those left at their default are probed."""

    cpu_metric: str = "container_cpu_usage_seconds_total"
    memory_metric: str = "container_memory_working_set_bytes"
    job: str = USUAL_JOB
    usage_labels: UsageLabels = ORIGINAL
    pod_labels: PodLabels = ORIGINAL_POD_LABELS


@dataclass(frozen=True, slots=True)
class _Found:
    """Labels and metrics that were found on the server."""

    usage: UsageConvention
    pods: PodLabels | None
    """None if no metric has the labels of pods."""
    owners: OwnerLabels | None
    """None if no metric has the owners of pods."""
    interval: timedelta | None
    """Interval between samples."""


class Prometheus:
    """A Prometheus as a source of history; use it in `async with`, as often as needed."""

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
        """Return the samples of all containers in a part of history."""
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
        # Whole amounts, as the original makes them of what Prometheus returns.
        factor = 1000.0 if is_cpu else 1.0
        return history_samples.gather(
            Series((pod, container), one.times, np.floor(one.values * factor))
            for one in await self._query_range(query, shard)
            if (pod := one.labels.get(labels.pod))
            and (container := one.labels.get(labels.container))
        )

    async def fetch_pods(self, shard: Shard) -> Sequence[PodTrace]:
        """Return the labels of the pods that existed in that time, or else their owners."""
        found = await self._find()
        # Labels rarely change, so a few probes find every pod that lived for a while.
        step = max((shard.end - shard.begin) / _POD_PROBES, shard.step)
        coarse = Shard(shard.namespace, shard.begin, shard.end, step)
        traces: Sequence[PodTrace] = ()
        if found.pods is not None:
            traces = await self._fetch_labels(found.pods, coarse)
        # By default kube-state-metrics exports owners but no labels.
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
            # A custom query may return other namespaces too.
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

    async def find_series(self) -> tuple[UsageConvention, timedelta | None]:
        """Return the labels of containers, and the interval between samples if it is known."""
        found = await self._find()
        return found.usage, found.interval

    async def count_series(self) -> Mapping[str, int]:
        """Count the present series of usage, by metric; a HistoryError if memory has none."""
        found = await self._find()
        counts = {}
        for metric in (self._names.cpu_metric, self._names.memory_metric):
            query = prometheus.count_usage(metric, found.usage)
            counts[metric] = int(await self._count(query))
        return counts

    def conventions(self) -> Mapping[str, str]:
        """Return the labels of containers and pods, as far as they were found."""
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
        # Several workers begin at once; one of them probes, and the others wait for its answer.
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
                "with labels for a namespace, a pod and a container"
            )
        return chosen

    async def _find_interval(self, usage: UsageConvention) -> timedelta | None:
        counts: dict[timedelta, float] = {}
        for span in _INTERVAL_PROBES:
            query = prometheus.count_samples(self._names.memory_metric, usage, span)
            try:
                counts[span] = await self._count(query)
            except TooMuchHistoryError:
                # The shorter spans are enough.
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
    """Return the last value of a series; 0 if it is not a finite number."""
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
