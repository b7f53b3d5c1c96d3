"""Metric types that the client library lacks: plain counters, and histograms fed from arrays."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from prometheus_client.core import HistogramMetricFamily, UntypedMetricFamily
from prometheus_client.registry import REGISTRY, Collector

from trimtab.core.histogram.buckets import Floats, Ints


class PlainCounter(Collector):
    """A counter without the suffix `_total`, which the client library would add."""

    def __init__(self, name: str, documentation: str, labels: Sequence[str]) -> None:
        self._name = name
        self._documentation = documentation
        self._labels = labels
        self._counts: Counter[tuple[str, ...]] = Counter()
        REGISTRY.register(self)

    def add(self, *labels: str, count: int = 1) -> None:
        """Add `count` to the counter with these labels."""
        self._counts[labels] += count

    def collect(self) -> Iterator[UntypedMetricFamily]:
        """Yield the counts for the client library."""
        family = UntypedMetricFamily(self._name, self._documentation, labels=self._labels)
        for labels, count in self._counts.items():
            family.add_metric(labels, count)
        yield family


class ArrayHistogram(Collector):
    """A histogram by labels that observes whole arrays."""

    def __init__(
        self, name: str, documentation: str, labels: Sequence[str], bounds: Sequence[float]
    ) -> None:
        self._name = name
        self._documentation = documentation
        self._labels = labels
        self._bounds = np.array(bounds, np.float64)
        self._texts = [*(f"{bound:g}" for bound in bounds), "+Inf"]
        self._counts: dict[tuple[str, ...], Ints] = {}
        self._sums: dict[tuple[str, ...], float] = {}
        REGISTRY.register(self)

    def observe(self, values: Floats, *labels: str) -> None:
        """Count observations that share their labels."""
        if not len(values):
            return
        # A bucket's bound is inclusive.
        buckets = np.searchsorted(self._bounds, values, side="left")
        counts = np.bincount(buckets, minlength=len(self._texts))
        self._counts[labels] = self._counts.get(labels, 0) + counts
        self._sums[labels] = self._sums.get(labels, 0.0) + float(values.sum())

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Yield the buckets, counts and sums for the client library."""
        family = HistogramMetricFamily(self._name, self._documentation, labels=self._labels)
        for labels, counts in self._counts.items():
            up_to = np.cumsum(counts).tolist()
            family.add_metric(labels, list(zip(self._texts, up_to, strict=True)), None)
            named = dict(zip(self._labels, labels, strict=True))
            # The library omits count and sum where bounds are negative; the original does not.
            family.add_sample(f"{self._name}_count", named, up_to[-1])
            family.add_sample(f"{self._name}_sum", named, self._sums[labels])
        yield family
