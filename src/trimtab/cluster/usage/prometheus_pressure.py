"""Signals of pressure from Prometheus: one query for each measure, with an answer that is small.

The labels of containers are found as for history (`prometheus.py`).
"""

from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Final, Self

from trimtab.api.usage import prometheus as queries
from trimtab.api.usage.pressure import COUNTERS
from trimtab.cluster.usage.prometheus import Prometheus
from trimtab.cluster.usage.prometheus_client import QueryClient
from trimtab.core.model.estimation import PressureSettings
from trimtab.core.usage import prometheus_labels
from trimtab.core.usage.pressure import PressureGathering, PressureReadings

_WINDOW: Final = timedelta(minutes=5)


@dataclass(slots=True)
class PrometheusPressure:
    """A Prometheus as a source of pressure; use it in `async with`, as often as needed."""

    client: QueryClient
    series: Prometheus
    """The same server, which knows the labels."""
    settings: PressureSettings
    namespace: str = ""
    """The only namespace that counts; empty for all."""

    async def __aenter__(self) -> Self:
        await self.series.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.series.__aexit__(kind, error, trace)

    async def fetch(self) -> PressureReadings:
        """Return the containers that are under pressure now."""
        convention, interval = await self.series.find_series()
        # A step of five minutes: the window is that long, or longer for rare samples.
        window = prometheus_labels.rate_window(_WINDOW, interval)
        labels, gathering = convention.labels, PressureGathering()
        for measure, counter in COUNTERS.items():
            query = queries.pressed_containers(
                counter.name,
                convention,
                per=counter.per,
                threshold=self.settings.threshold(measure),
                window=window,
                namespace=self.namespace,
            )
            found = await self.client.query_newest(query)
            gathering.unreadable += found.unreadable
            for named, seconds, value in found.values:
                namespace = named.get(labels.namespace, "")
                pod, container = named.get(labels.pod, ""), named.get(labels.container, "")
                gathering.add((namespace, pod, container), measure, seconds, value)
        return gathering.readings()
