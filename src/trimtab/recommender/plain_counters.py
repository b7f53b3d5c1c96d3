"""Counters whose names do not end in `_total`, as some of the original's do not."""

from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client.core import UntypedMetricFamily
from prometheus_client.registry import REGISTRY, Collector


class PlainCounter(Collector):
    """A number that only grows, by labels; the client library would rename it."""

    def __init__(self, name: str, documentation: str, labels: Sequence[str]) -> None:
        self._name = name
        self._documentation = documentation
        self._labels = labels
        self._counts: Counter[tuple[str, ...]] = Counter()
        REGISTRY.register(self)

    def add(self, *labels: str, count: int = 1) -> None:
        """Count something that happened."""
        self._counts[labels] += count

    def collect(self) -> Iterator[UntypedMetricFamily]:
        """What was counted, for the client library to show."""
        family = UntypedMetricFamily(self._name, self._documentation, labels=self._labels)
        for labels, count in self._counts.items():
            family.add_metric(labels, count)
        yield family
