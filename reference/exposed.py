"""Every metric that a component declares, with its labels, whether or not it has a series yet."""

import importlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client import REGISTRY, Metric
from prometheus_client.registry import Collector

from trimtab.admission.metrics import AdmissionCollector
from trimtab.admission.reports import AdmissionCounts
from trimtab.recommender.status_metrics import RecommendationExporter

_ENTRANCES: Final = ("recommender", "updater", "admission", "roles")
"""Modules of the command line that import everything that a component counts by."""
PREFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    "recommender": (
        "vpa_recommender_",
        "vpa_quality_",
        "vpa_resources_",
        "kube_verticalpodautoscaler_",
    ),
    "updater": ("vpa_updater_",),
    "admission-controller": ("vpa_admission_controller_",),
    "roles": ("vpa_roles_",),
    "every component": ("trimtab_",),
}
"""By component how the names of its metrics begin."""


@dataclass(frozen=True, slots=True)
class Exposed:
    """What Prometheus sees of a metric, but for its values."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str


def list_metrics() -> dict[str, list[Exposed]]:
    """By component all its metrics, by name."""
    found = {one.name: one for one in _find_all()}
    return {
        component: [found[name] for name in sorted(found) if name.startswith(prefixes)]
        for component, prefixes in PREFIXES.items()
    }


def _find_all() -> Iterator[Exposed]:
    for name in _ENTRANCES:
        importlib.import_module(f"trimtab.cli.components.{name}")
    yield from _describe_all(REGISTRY._collector_to_names)
    # These two are registered by a process that has something to show.
    yield from _describe_all(
        [AdmissionCollector(lambda: (AdmissionCounts(),), lambda: 0), RecommendationExporter(())]
    )


def _describe_all(collectors: Iterable[Collector]) -> Iterator[Exposed]:
    for collector in collectors:
        # Metrics of the library itself know their labels, families those that they were made with.
        labels = getattr(collector, "_labelnames", None)
        for family in collector.collect():
            names = getattr(family, "_labelnames", ()) if labels is None else labels
            yield Exposed(_name(family), _kind(family), tuple(names), family.documentation)


def _name(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


def _kind(family: Metric) -> str:
    # Only what counts under a name that the library would change is of no type to it.
    return "counter" if family.type == "unknown" else family.type
