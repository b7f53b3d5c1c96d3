"""What Prometheus reads from a component, beside what the original would show."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from reference.original_metrics import OriginalMetric


@dataclass(slots=True)
class Seen:
    """A metric that is shown."""

    kind: str
    labels: set[frozenset[str]] = field(default_factory=set)
    """Of each of its series, without bounds."""
    bounds: set[float] = field(default_factory=set)


def read_exposition(text: str) -> dict[str, Seen]:
    """All metrics of a text, by the names that queries use."""
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    found = {name: Seen(kind) for name, kind in kinds.items()}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            # The parser gives every counter its `_total`.
            base = re.sub(r"_(bucket|count|sum|total)$", "", sample.name)
            name = sample.name if sample.name in found else base
            found[name].labels.add(frozenset(sample.labels) - {"le"})
            if "le" in sample.labels:
                found[name].bounds.add(float(sample.labels["le"]))
    return found


def differences(text: str, original: Mapping[str, OriginalMetric]) -> dict[str, object]:
    """By name what is shown otherwise than the original would, or has no series at all."""
    found = read_exposition(text)
    wanted = {name: _as_seen(metric) for name, metric in original.items()}
    return {name: found.get(name) for name in wanted if found.get(name) != wanted[name]}


def contradictions(text: str, original: Mapping[str, OriginalMetric]) -> dict[str, Seen]:
    """By name what is shown of an autoscaler's metrics otherwise than the table has it."""
    wanted = {name: _as_seen(metric) for name, metric in original.items()}
    found = {name: seen for name, seen in read_exposition(text).items() if name.startswith("vpa_")}
    return {name: seen for name, seen in found.items() if wanted.get(name) != seen}


def _as_seen(metric: OriginalMetric) -> Seen:
    bounds = {*metric.bounds, float("inf")} if metric.bounds else set()
    return Seen(metric.kind, {frozenset(metric.labels)}, bounds)
